dnl SPDX-License-Identifier: BSD-3-Clause
dnl CELLSPAN_DEPENDENCY(VAR, MODULE >= VERSION, DEBIAN, FEDORA, CONDA, HOMEBREW)
dnl Sets VAR_CFLAGS and VAR_LIBS from pkg-config; what is missing ends configure with the packages that bring it.
AC_DEFUN([CELLSPAN_DEPENDENCY], [
  PKG_CHECK_MODULES([$1], [$2], [], [
    CELLSPAN_MISSING([$2], [$3], [$4], [$5], [$6], [
$$1_PKG_ERRORS])])
])

dnl CELLSPAN_MISSING(WHAT, DEBIAN, FEDORA, CONDA, HOMEBREW, [WHY]); HOMEBREW is empty where it has none
AC_DEFUN([CELLSPAN_MISSING], [
  AC_MSG_ERROR([$1 is missing or too old; it comes with
  Debian, Ubuntu:  apt-get install $2
  Fedora, RHEL:    dnf install $3
  conda:           conda install -c conda-forge $4
  Homebrew:        m4_if([$5], [], [has none], [brew install $5])
(where it lies in a folder of its own, put that folder's lib/pkgconfig into PKG_CONFIG_PATH)$6])
])
