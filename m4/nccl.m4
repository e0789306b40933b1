dnl SPDX-License-Identifier: BSD-3-Clause
dnl --with-nccl[=DIR]: headers only, from a system package, the CUDA toolkit, or the nvidia-nccl wheel that torch brings along.
dnl The library is loaded when a check or a broadcast wants it, by declarations of ours: worker/collective/nccl_headers.c compares them
dnl with NCCL's header where it is there. That one includes the CUDA toolkit's: where there is none, or not all of it (wheels),
dnl worker/collective/plain/ has the little that it needs of them.
AC_DEFUN([CELLSPAN_NCCL], [
  AC_REQUIRE([CELLSPAN_CUDA])
  AC_ARG_WITH([nccl],
    [AS_HELP_STRING([--with-nccl=DIR], [NCCL whose headers are used @<:@look in NCCL_HOME, CUDA, the nvidia-nccl wheel, /usr@:>@])],
    [], [with_nccl=auto])
  NCCL_CPPFLAGS= cellspan_nccl=no cellspan_seen=
  AS_IF([test "$with_nccl" != no], [
    AC_MSG_CHECKING([for NCCL's header])
    AS_CASE([$with_nccl], [auto|yes], [
      cellspan_wheel=`"$PYTHON" -c 'import nvidia.nccl as n; print(list(n.__path__)[[0]])' 2>/dev/null`
      cellspan_dirs="$NCCL_HOME $cellspan_cuda $cellspan_wheel /usr/local /usr"], [cellspan_dirs=$with_nccl])
    for cellspan_dir in $cellspan_dirs; do
      AS_IF([test "$cellspan_nccl" = no && test -f "$cellspan_dir/include/nccl.h"], [
        cellspan_seen=$cellspan_dir
        cellspan_kept=$CPPFLAGS
        for cellspan_toolkit in "$CUDA_CPPFLAGS" "-isystem $srcdir/worker/collective/plain"; do
          AS_IF([test "$cellspan_nccl" = no], [
            AS_IF([test "$cellspan_dir" != /usr], [NCCL_CPPFLAGS="-isystem $cellspan_dir/include $cellspan_toolkit"],
                  [NCCL_CPPFLAGS=$cellspan_toolkit])
            CPPFLAGS="$cellspan_kept $NCCL_CPPFLAGS"
            AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <nccl.h>]], [[ncclConfig_t c = NCCL_CONFIG_INITIALIZER; return c.blocking == 0;]])],
                              [cellspan_nccl=$cellspan_dir], [NCCL_CPPFLAGS=])
          ])
        done
        CPPFLAGS=$cellspan_kept
      ])
    done
    AS_IF([test "$cellspan_nccl" = no && test -n "$cellspan_seen"], [AC_MSG_RESULT([no (that of $cellspan_seen does not compile)])],
          [AC_MSG_RESULT([$cellspan_nccl])])
    AS_IF([test "$cellspan_nccl" != no], [
      AC_DEFINE([HAVE_NCCL_H], [1], [nccl.h is there, and compiles])
    ], [test "$with_nccl" != auto], [
      CELLSPAN_MISSING([nccl.h that compiles (--with-nccl=$with_nccl: looked in $cellspan_dirs)],
                       [libnccl-dev], [libnccl-devel (NVIDIA's repository)], [nccl],
                       [])])
  ])
  AC_SUBST([NCCL_CPPFLAGS])
])
