#!/usr/bin/env python3
"""How fast batches of half-complex products can be at most, by memory and arithmetic: interleaved numbers, and planes.

usage: bench/half_roofline.py OUT.svg BYTES_PER_S FLOPS_PER_S

The operational intensities of section 6 of the paper on half and half-complex batches (Abdelfattah, Tomov, Dongarra): a product of complex numbers of 16 bits
reads A and B and reads and writes C once, 4 bytes an element; four real products of planes do so with 2 bytes an element, four times, so that they move twice as
much. Rates are those of the machine: `half_batch_bench` measures both. Draws squares and updates of rank 16 (Figures 8 and 9), and says from which size on
arithmetic is the limit. Standard library only.
"""
import pathlib
import sys

from svg_picture import BOUND, rates_over_sizes

SIZES = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024]
INTERLEAVED, PLANES = ("interleaved", "#0072b2"), ("planes", "#e69f00")


def flops(m, n, k):
    return 8 * m * n * k


def interleaved_bytes(m, n, k):
    return 4 * (2 * m * n + k * (m + n))


def planar_bytes(m, n, k):
    return 4 * 2 * (2 * m * n + k * (m + n))


def bound(m, n, k, bytes_of, bandwidth, peak):
    """FLOP/s"""
    return min(peak, flops(m, n, k) / bytes_of(m, n, k) * bandwidth)


def first_bound_by_arithmetic(bytes_of, bandwidth, peak):
    """The smallest square, or None up to a large one."""
    return next((n for n in range(1, 1 << 14) if flops(n, n, n) / bytes_of(n, n, n) * bandwidth >= peak), None)


def main():
    if len(sys.argv) != 4:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    bandwidth, peak = float(sys.argv[2]), float(sys.argv[3])
    panels = []
    for words, rank in (("square", None), ("rank 16", 16)):
        lines = [([(n, peak * 1e-12) for n in SIZES], "arithmetic", BOUND[2], None)]
        for mark, ((name, colour), bytes_of) in enumerate(((INTERLEAVED, interleaved_bytes), (PLANES, planar_bytes))):
            lines.append(([(n, bound(n, n, rank or n, bytes_of, bandwidth, peak) * 1e-12) for n in SIZES], name, colour, mark))
        panels.append((words, lines))
    legend = [INTERLEAVED, PLANES, ("arithmetic", BOUND[2])]
    title = f"Half-complex products at {bandwidth * 1e-9:.0f} GB/s"
    pathlib.Path(sys.argv[1]).write_text(rates_over_sizes(title, legend, panels, "n"), encoding="utf-8")
    for (name, _), bytes_of in ((INTERLEAVED, interleaved_bytes), (PLANES, planar_bytes)):
        print(f"{name}: squares are bound by arithmetic from {first_bound_by_arithmetic(bytes_of, bandwidth, peak)} on, "
              f"updates of rank 16 reach {bound(1 << 20, 1 << 20, 16, bytes_of, bandwidth, peak) * 1e-12:.1f} TFLOP/s at most")
    return 0


if __name__ == "__main__":
    sys.exit(main())
