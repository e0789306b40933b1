dnl SPDX-License-Identifier: BSD-3-Clause
dnl --with-nvml[=DIR]: NVML's header only, from the CUDA toolkit or the nvidia-nvml-dev wheel. The library comes with the driver, and is
dnl loaded when a program runs, by declarations of ours: worker/agent/gpu/nvml_headers.c compares them with the header where it is there.
AC_DEFUN([CELLSPAN_NVML], [
  AC_REQUIRE([CELLSPAN_CUDA])
  AC_ARG_WITH([nvml],
    [AS_HELP_STRING([--with-nvml=DIR], [NVML whose header is used @<:@look in CUDA@:>@])],
    [], [with_nvml=auto])
  NVML_CPPFLAGS= cellspan_nvml=no
  AS_IF([test "$with_nvml" != no], [
    AC_MSG_CHECKING([for NVML's header])
    AS_CASE([$with_nvml], [auto|yes], [cellspan_dirs="$cellspan_cuda /usr"], [cellspan_dirs=$with_nvml])
    for cellspan_dir in $cellspan_dirs; do
      AS_IF([test -f "$cellspan_dir/include/nvml.h"], [cellspan_nvml=$cellspan_dir; break])
    done
    AC_MSG_RESULT([$cellspan_nvml])
    AS_IF([test "$cellspan_nvml" != no], [
      AC_DEFINE([HAVE_NVML_H], [1], [NVML's nvml.h is there])
      AS_IF([test "$cellspan_nvml" != /usr], [NVML_CPPFLAGS="-isystem $cellspan_nvml/include"])
    ], [test "$with_nvml" != auto], [
      CELLSPAN_MISSING([nvml.h (--with-nvml=$with_nvml: looked in $cellspan_dirs)],
                       [nvidia-cuda-dev], [cuda-nvml-devel (NVIDIA's repository)], [cuda-nvml-dev],
                       [])])
  ])
  AC_SUBST([NVML_CPPFLAGS])
])
