dnl SPDX-License-Identifier: BSD-3-Clause
dnl How the Python extension is linked: automake's rule for a program with these flags makes a loadable module of it, without libtool.
AC_DEFUN([CELLSPAN_SHARED_MODULE], [
  AS_CASE([$host_os],
    [darwin*], [MODULE_LDFLAGS="-bundle -undefined dynamic_lookup"],
    [MODULE_LDFLAGS="-shared"])
  AC_SUBST([MODULE_LDFLAGS])
])
