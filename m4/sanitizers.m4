dnl SPDX-License-Identifier: BSD-3-Clause
dnl --enable-sanitizers[=address,undefined|thread]: for the tests. The first finding ends the program.
AC_DEFUN([CELLSPAN_SANITIZERS], [
  AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers=LIST], [build with these of address,undefined,leak,thread @<:@address,undefined@:>@])],
    [], [enable_sanitizers=no])
  AS_IF([test "$enable_sanitizers" = yes], [enable_sanitizers=address,undefined])
  SAN_CFLAGS= SAN_LDFLAGS=
  AS_IF([test "$enable_sanitizers" != no], [
    SAN_LDFLAGS="-fsanitize=$enable_sanitizers"
    SAN_CFLAGS="$SAN_LDFLAGS -fno-sanitize-recover=all -fno-omit-frame-pointer"
    AC_MSG_CHECKING([whether $CC takes $SAN_LDFLAGS])
    cellspan_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $SAN_CFLAGS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])],
                   [AC_MSG_RESULT([no])
                    AC_MSG_ERROR([--enable-sanitizers=$enable_sanitizers: $CC can't; thread goes with no other, and libasan and libubsan must be installed])])
    CFLAGS=$cellspan_save_CFLAGS
  ])
  AC_SUBST([SAN_CFLAGS]) AC_SUBST([SAN_LDFLAGS])
])
