dnl SPDX-License-Identifier: BSD-3-Clause
dnl libuuid, for message ids: uuid_generate_random() and uuid_unparse_lower() are in every version.
dnl macOS has them in its C library and no uuid.pc.
AC_DEFUN([CELLSPAN_UUID], [
  AC_CHECK_FUNC([uuid_unparse_lower], [cellspan_uuid_in_libc=yes], [cellspan_uuid_in_libc=no])
  AC_CHECK_HEADER([uuid/uuid.h], [], [cellspan_uuid_in_libc=no])
  AS_IF([test "$cellspan_uuid_in_libc" = yes], [
    UUID_CFLAGS= UUID_LIBS=
    AC_SUBST([UUID_CFLAGS]) AC_SUBST([UUID_LIBS])
  ], [CELLSPAN_DEPENDENCY([UUID], [uuid], [uuid-dev], [libuuid-devel], [libuuid], [ossp-uuid])])
])
