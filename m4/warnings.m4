dnl SPDX-License-Identifier: BSD-3-Clause
dnl Warnings that the code keeps clean of; --enable-werror makes them errors (for CI: a newer compiler warns of more).
AC_DEFUN([CELLSPAN_WARNINGS], [
  AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [warnings are errors])], [], [enable_werror=no])
  WARN_CFLAGS=
  CELLSPAN_CC_FLAG([WARN_CFLAGS], [-Wall -Wextra -Wshadow -Wconversion])
  AS_IF([test "$enable_werror" != no], [WARN_CFLAGS="$WARN_CFLAGS -Werror"])
  AC_SUBST([WARN_CFLAGS])
])
