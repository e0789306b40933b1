dnl SPDX-License-Identifier: BSD-3-Clause
dnl --with-cuda[=DIR]: headers only. The driver is loaded when a program runs, so one build serves hosts with and without GPUs.
dnl worker/collective/nccl_headers.c compares our own declarations (cuda_driver.h) with them.
AC_DEFUN([CELLSPAN_CUDA], [
  AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda=DIR], [CUDA toolkit whose headers are used @<:@look in CUDA_HOME, /usr/local/cuda, /usr@:>@])],
    [], [with_cuda=auto])
  CUDA_CPPFLAGS= cellspan_cuda=no
  AS_IF([test "$with_cuda" != no], [
    AC_MSG_CHECKING([for CUDA's headers])
    AS_CASE([$with_cuda], [auto|yes], [cellspan_dirs="$CUDA_HOME /usr/local/cuda /opt/cuda /usr/local/cuda-* /usr"], [cellspan_dirs=$with_cuda])
    for cellspan_dir in $cellspan_dirs; do
      AS_IF([test -f "$cellspan_dir/include/cuda.h"], [cellspan_cuda=$cellspan_dir; break])
    done
    AC_MSG_RESULT([$cellspan_cuda])
    AS_IF([test "$cellspan_cuda" != no], [
      AC_DEFINE([HAVE_CUDA_H], [1], [the CUDA toolkit's cuda.h is there])
      AS_IF([test "$cellspan_cuda" != /usr], [CUDA_CPPFLAGS="-isystem $cellspan_cuda/include"])
    ], [test "$with_cuda" != auto], [
      CELLSPAN_MISSING([cuda.h (--with-cuda=$with_cuda: looked in $cellspan_dirs)],
                       [nvidia-cuda-dev], [cuda-toolkit (NVIDIA's repository)], [cuda-driver-dev],
                       [])])
  ])
  AC_SUBST([CUDA_CPPFLAGS])
])
