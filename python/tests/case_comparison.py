"""What the scripts of cases share: they call functions without the face and with it, and compare all that can be told.

`run` goes through the cases twice, because `install` and `uninstall` take longer than a case. Vectors of eigenproblems and of
singular values are not unique: of these the equations are to be checked. Not a test itself.
"""

import re
import sys
import warnings

import numpy as np

import tessera_blas

failures = []
count = 0
# What functions have given without the face, in the order of the cases.
_own = []
_is_plain = True
# What of a message must be the same.
_text_of = str


def run(cases, text_of=str):
    """Go through the cases without the face and with it. Print how many there were, or fail with those that differ.

    Parameters
    ----------
    cases : callable
        Calls `compare`, `compare_forms`, `check` and `plain`, the same way each time.
    text_of : callable
        What of the text of an error or a warning must be the same.
    """
    global _is_plain, _text_of
    _text_of = text_of
    cases()
    _own.reverse()
    tessera_blas.install()
    _is_plain = False
    cases()
    for failure in failures:
        print(failure)
    print(count, "cases,", len(failures), "differ")
    sys.exit(1 if failures else 0)


def outcome(function, arguments):
    arguments = [x.copy(order="K") if type(x) is np.ndarray and x.flags.writeable and x.flags.owndata else x for x in arguments]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*arguments)
        except Exception as error:
            return type(error), _text_of(str(error)), []
    return "result", result, sorted(f"{w.category.__name__}: {_text_of(str(w.message))}" for w in caught)


def without_numbers(message):
    """A condition number depends on rounding."""
    return re.sub(r"\d+\.\d+(e[-+]?\d+)?|\d+e[-+]?\d+", "number", message)


def parts(result):
    if not isinstance(result, (tuple, list)):
        return [result]
    return [part for element in result for part in parts(element)]


def differ(own, ours, tolerance):
    if own[0] != ours[0] or own[2] != ours[2]:
        return f"{own[0]} {own[2]} became {ours[0]} {ours[2]}: {ours[1]}"
    if own[0] != "result":
        return None if own[1] == ours[1] else f"{own[1]} became {ours[1]}"
    if type(own[1]) is not type(ours[1]) or len(parts(own[1])) != len(parts(ours[1])):
        return f"{type(own[1])} became {type(ours[1])}"
    for x, y in zip(parts(own[1]), parts(ours[1])):
        if type(x) is not type(y):
            return f"{type(x)} became {type(y)}"
        if x is None:
            continue
        x, y = np.asarray(x), np.asarray(y)
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            return f"{x.shape} {x.dtype} became {y.shape} {y.dtype}"
        if (x.flags.c_contiguous, x.flags.f_contiguous) != (y.flags.c_contiguous, y.flags.f_contiguous):
            return "another layout"
        scale = max(1, np.abs(x[np.isfinite(x)]).max(initial=0))
        if not np.allclose(x, y, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            return f"differs by {np.nanmax(np.abs(x - y))} of {scale}"
    return None


def compare(name, function, *arguments, tolerance=1e-8):
    global count
    ours = outcome(function, arguments)
    if _is_plain:
        _own.append((name, ours))
        return
    count += 1
    own_name, own = _own.pop()
    assert own_name == name, "the cases are not the same each time"
    problem = differ(own, ours, tolerance)
    if problem:
        failures.append(f"{name}: {problem}")


def compare_forms(name, function, *arguments):
    """Compare all but the numbers."""
    compare(name, lambda *x: [np.zeros_like(part) for part in parts(function(*x))], *arguments)


def plain(function):
    """What a function gives without the face."""
    if _is_plain:
        _own.append((None, function()))
        return _own[-1][1]
    return _own.pop()[1]


def check(name, holds):
    global count
    if _is_plain:
        return
    count += 1
    if not holds:
        failures.append(name)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def laid(x, how):
    """The same numbers in another layout."""
    if how == "F":
        return np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2)
    if how == "strided":
        return np.repeat(np.repeat(x, 2, -1), 2, -2)[..., ::2, ::2]
    if how == "reversed":
        return np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1]
    if how == "part":
        whole = np.full(x.shape[:-2] + (x.shape[-2] + 3, x.shape[-1] + 5), 99, x.dtype)
        whole[..., 1:-2, 2:-3] = x
        return whole[..., 1:-2, 2:-3]
    if how == "read-only":
        x = x.copy()
        x.flags.writeable = False
        return x
    if how == "swapped bytes":
        return x.astype(x.dtype.newbyteorder())
    return x
