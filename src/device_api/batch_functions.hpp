// The functions of batches with one list of arguments of the headers: TESSERA_DEFINE_BATCHES(list, routine, name, C++ type of factors,
// that of elements). Before it is used there are
//   run<routine, T, Stored>(handle, given)
//   InC<routine>                              the types that the list leaves open, First<T> and Second<T>
//   TESSERA_ARGUMENTS_<list>(part)            calls part(values, bounds, strides): the arguments of the routine's interface, the bounds of
//                                             its sizes, and the strides, each in parentheses and in order
//   TESSERA_INFO                              info, where it is no argument of the routine's interface, or nullptr
#pragma once

#include "calls/lapack_lists.hpp"
#include "device_api/given.hpp"

#define TESSERA_DEFINE_VBATCHED(list, routine, name, integer, T, Stored)                                        \
  TESSERA_VBATCHED_##list(name, integer, InC<Routine::routine>::First<T>, InC<Routine::routine>::Second<T>,     \
                          CElement<Stored>) {                                                                   \
    return run<Routine::routine, T, Stored>(                                                                    \
        handle,                                                                                                 \
        given<Form::sizes, Routine::routine, T, Stored>(                                                        \
            {.count = batch_count, .bounds = {TESSERA_ARGUMENTS_##list(TESSERA_BOUNDS)}, .info = TESSERA_INFO}, \
            TESSERA_ARGUMENTS_##list(TESSERA_VALUES)));                                                         \
  }
#define TESSERA_DEFINE_BATCHES(list, routine, name, T, Stored)                                                      \
  TESSERA_BATCHED_##list(name##_batched, InC<Routine::routine>::First<T>, InC<Routine::routine>::Second<T>,         \
                         CElement<Stored>) {                                                                        \
    return run<Routine::routine, T, Stored>(                                                                        \
        handle, given<Form::pointers, Routine::routine, T, Stored>({.count = batch_count},                          \
                                                                   TESSERA_ARGUMENTS_##list(TESSERA_VALUES)));      \
  }                                                                                                                 \
  TESSERA_STRIDED_##list(name##_strided_batched, InC<Routine::routine>::First<T>, InC<Routine::routine>::Second<T>, \
                         CElement<Stored>) {                                                                        \
    return run<Routine::routine, T, Stored>(                                                                        \
        handle, given<Form::strides, Routine::routine, T, Stored>(                                                  \
                    {.count = batch_count, .strides = {TESSERA_ARGUMENTS_##list(TESSERA_STRIDES)}},                 \
                    TESSERA_ARGUMENTS_##list(TESSERA_VALUES)));                                                     \
  }                                                                                                                 \
  TESSERA_DEFINE_VBATCHED(list, routine, name##_vbatched, int, T, Stored)                                           \
  TESSERA_DEFINE_VBATCHED(list, routine, name##_vbatched_64, int64_t, T, Stored)
