dnl SPDX-License-Identifier: BSD-3-Clause
dnl libsodium 1.0.18 is the oldest that is still repaired in distributions, and the oldest that was tried.
AC_DEFUN([CELLSPAN_SODIUM],
         [CELLSPAN_DEPENDENCY([SODIUM], [libsodium >= 1.0.18], [libsodium-dev], [libsodium-devel], [libsodium],
                              [libsodium])])
