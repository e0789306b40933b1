dnl --with-nccl[=DIR]: headers only, from a system package, the CUDA toolkit, or the nvidia-nccl wheel that torch brings along.
dnl Nothing includes them yet: HAVE_NCCL_H in config.h and a line of the summary are all that comes of it.
AC_DEFUN([CELLSPAN_NCCL], [
  AC_ARG_WITH([nccl],
    [AS_HELP_STRING([--with-nccl=DIR], [NCCL whose headers are used @<:@look in NCCL_HOME, CUDA, the nvidia-nccl wheel, /usr@:>@])],
    [], [with_nccl=auto])
  NCCL_CPPFLAGS= cellspan_nccl=no
  AS_IF([test "$with_nccl" != no], [
    AC_MSG_CHECKING([for NCCL's header])
    AS_CASE([$with_nccl], [auto|yes], [
      cellspan_wheel=`"$PYTHON" -c 'import nvidia.nccl as n; print(list(n.__path__)[[0]])' 2>/dev/null`
      cellspan_dirs="$NCCL_HOME $cellspan_cuda $cellspan_wheel /usr/local /usr"], [cellspan_dirs=$with_nccl])
    for cellspan_dir in $cellspan_dirs; do
      AS_IF([test -f "$cellspan_dir/include/nccl.h"], [cellspan_nccl=$cellspan_dir; break])
    done
    AC_MSG_RESULT([$cellspan_nccl])
    AS_IF([test "$cellspan_nccl" != no], [
      AC_DEFINE([HAVE_NCCL_H], [1], [nccl.h is there])
      AS_IF([test "$cellspan_nccl" != /usr], [NCCL_CPPFLAGS="-isystem $cellspan_nccl/include"])
    ], [test "$with_nccl" != auto], [
      CELLSPAN_MISSING([nccl.h (--with-nccl=$with_nccl: looked in $cellspan_dirs)],
                       [libnccl-dev], [libnccl-devel (NVIDIA's repository)], [nccl],
                       [])])
  ])
  AC_SUBST([NCCL_CPPFLAGS])
])
