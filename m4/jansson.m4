dnl SPDX-License-Identifier: BSD-3-Clause
dnl Jansson 2.13 has json_object_update_new() and its kin, which take what they are given, and jansson_version_cmp().
AC_DEFUN([CELLSPAN_JANSSON],
         [CELLSPAN_DEPENDENCY([JANSSON], [jansson >= 2.13], [libjansson-dev], [jansson-devel], [jansson], [jansson])])
