dnl SPDX-License-Identifier: BSD-3-Clause
dnl Hardening, on by default, each flag only where compiler and linker take it. All objects are position-independent.
AC_DEFUN([CELLSPAN_HARDENING], [
  AC_ARG_ENABLE([hardening], [AS_HELP_STRING([--disable-hardening], [no hardening flags])], [], [enable_hardening=yes])
  PIC_CFLAGS= PIE_LDFLAGS= HARDEN_CPPFLAGS= HARDEN_CFLAGS= HARDEN_LDFLAGS=
  CELLSPAN_CC_FLAG([PIC_CFLAGS], [-fPIC -fvisibility=hidden])
  dnl Programs don't name the folder in which they were built, whoever builds them gets the same ones.
  cellspan_mapped=
  CELLSPAN_CC_FLAG([cellspan_mapped], [-ffile-prefix-map=/from=/to])
  MAP_CFLAGS=
  AS_IF([test -n "$cellspan_mapped"], [MAP_CFLAGS='-ffile-prefix-map=$(abs_top_srcdir)=. -ffile-prefix-map=$(abs_top_builddir)=.'])
  AC_SUBST([MAP_CFLAGS])
  AS_IF([test "$enable_hardening" != no], [
    dnl Fortified calls need an optimizer, and get in the way of the sanitizers.
    AS_IF([test "$enable_sanitizers" = no], [CELLSPAN_FORTIFY])
    CELLSPAN_CC_FLAG([HARDEN_CFLAGS], [-fstack-protector-strong -fstack-clash-protection -fcf-protection])
    CELLSPAN_LD_FLAG([PIE_LDFLAGS], [-pie])
    CELLSPAN_LD_FLAG([HARDEN_LDFLAGS], [-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack])
  ])
  CELLSPAN_LD_FLAG([HARDEN_LDFLAGS], [-Wl,--as-needed])
  AC_SUBST([PIC_CFLAGS]) AC_SUBST([PIE_LDFLAGS])
  AC_SUBST([HARDEN_CPPFLAGS]) AC_SUBST([HARDEN_CFLAGS]) AC_SUBST([HARDEN_LDFLAGS])
])

dnl The highest of _FORTIFY_SOURCE=3 and 2 that works with the user's CFLAGS (-O0 has none).
AC_DEFUN([CELLSPAN_FORTIFY], [
  for cellspan_level in 3 2; do
    cellspan_fortify="-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$cellspan_level"
    cellspan_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror $cellspan_fortify"
    AC_MSG_CHECKING([whether _FORTIFY_SOURCE=$cellspan_level works])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <string.h>]], [[
#if !defined __USE_FORTIFY_LEVEL || __USE_FORTIFY_LEVEL < $cellspan_level
#error none
#endif
      char s[8]; return memset(s, 0, sizeof s) != s;]])],
                      [cellspan_has=yes], [cellspan_has=no])
    CFLAGS=$cellspan_save_CFLAGS
    AC_MSG_RESULT([$cellspan_has])
    AS_IF([test "$cellspan_has" = yes], [HARDEN_CPPFLAGS=$cellspan_fortify; break])
  done
])
