dnl SPDX-License-Identifier: BSD-3-Clause
dnl CELLSPAN_CC_FLAG(VAR, FLAG…): adds each flag that the compiler takes without a word to VAR.
AC_DEFUN([CELLSPAN_CC_FLAG], [
  for cellspan_flag in $2; do
    cellspan_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror $cellspan_flag"
    AC_MSG_CHECKING([whether $CC takes $cellspan_flag])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <string.h>]], [[char s[8]; return memset(s, 0, sizeof s) != s;]])],
                      [AC_MSG_RESULT([yes]); $1="$$1 $cellspan_flag"], [AC_MSG_RESULT([no])])
    CFLAGS=$cellspan_save_CFLAGS
  done
])

dnl CELLSPAN_LD_FLAG(VAR, FLAG…): the same for the linker.
AC_DEFUN([CELLSPAN_LD_FLAG], [
  for cellspan_flag in $2; do
    cellspan_save_LDFLAGS=$LDFLAGS
    cellspan_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror -fPIC"
    LDFLAGS="$LDFLAGS $cellspan_flag"
    AC_MSG_CHECKING([whether the linker takes $cellspan_flag])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes]); $1="$$1 $cellspan_flag"], [AC_MSG_RESULT([no])])
    LDFLAGS=$cellspan_save_LDFLAGS CFLAGS=$cellspan_save_CFLAGS
  done
])
