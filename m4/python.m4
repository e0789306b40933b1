dnl SPDX-License-Identifier: BSD-3-Clause
dnl --with-python[=PATH]: the interpreter whose headers the extension is built with, and the default of `cellspan install`.
dnl The extension keeps to the stable ABI of 3.9, so that one file serves every later Python too.
AC_DEFUN([CELLSPAN_PYTHON], [
  AC_ARG_WITH([python],
    [AS_HELP_STRING([--with-python=PATH], [Python whose headers are used, and which notebooks get by default @<:@python3@:>@])],
    [], [with_python=yes])
  AS_CASE([$with_python],
    [no], [AC_MSG_ERROR([--without-python: workers are Python processes; give --with-python=PATH])],
    [yes], [AC_PATH_PROGS([PYTHON], [python3 python], [no])],
    [*/*], [PYTHON=$with_python],
    [AC_PATH_PROG([PYTHON], [$with_python], [no])])
  AC_MSG_CHECKING([for Python 3.9 or newer])
  AS_IF([test "$PYTHON" = no || ! test -x "$PYTHON"],
        [CELLSPAN_MISSING([Python ($with_python)], [python3 python3-dev], [python3-devel], [python], [python])])
  dnl A shim is asked for the interpreter behind it; a link within a venv stays what it is.
  cellspan_python=`"$PYTHON" -I -c 'import sys; print(sys.executable)' 2>/dev/null`
  AS_IF([test -n "$cellspan_python"], [PYTHON=$cellspan_python])
  PYTHON_VERSION=`"$PYTHON" -I -c 'import platform; print(platform.python_version())' 2>/dev/null`
  AS_IF(["$PYTHON" -I -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null],
        [AC_MSG_RESULT([$PYTHON ($PYTHON_VERSION)])],
        [CELLSPAN_MISSING([Python 3.9 or newer ($PYTHON is ${PYTHON_VERSION:-no Python})],
                          [python3 python3-dev], [python3-devel], [python], [python])])
  cellspan_python_include=`"$PYTHON" -I -c 'import sysconfig; print(sysconfig.get_path("include"))'`
  PYTHON_CPPFLAGS="-isystem $cellspan_python_include -DPy_LIMITED_API=0x03090000"
  cellspan_save_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $PYTHON_CPPFLAGS"
  AC_MSG_CHECKING([for Python's headers])
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <Python.h>]], [[return PyErr_CheckSignals();]])],
    [AC_MSG_RESULT([$cellspan_python_include])],
    [AC_MSG_RESULT([no])
     CELLSPAN_MISSING([Python.h of $PYTHON (looked for in $cellspan_python_include)],
                      [python3-dev], [python3-devel], [python], [python])])
  CPPFLAGS=$cellspan_save_CPPFLAGS
  AC_SUBST([PYTHON]) AC_SUBST([PYTHON_VERSION]) AC_SUBST([PYTHON_CPPFLAGS])
])
