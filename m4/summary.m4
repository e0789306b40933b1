dnl SPDX-License-Identifier: BSD-3-Clause
dnl What was found and what follows from it, as configure's last words.
AC_DEFUN([CELLSPAN_SUMMARY], [
  AS_IF([test "$cellspan_cuda" = no], [cellspan_cuda_says="no headers: own declarations"], [cellspan_cuda_says="headers in $cellspan_cuda"])
  AS_IF([test "$cellspan_nccl" = no], [cellspan_nccl_says="no headers"], [cellspan_nccl_says="header in $cellspan_nccl"])
  AS_IF([test "$cellspan_nvml" = no], [cellspan_nvml_says="no header"], [cellspan_nvml_says="header in $cellspan_nvml"])
  AS_ECHO(["
cellspan $PACKAGE_VERSION
  install into    $prefix
  compiler        $CC $CFLAGS
  libzmq          `$PKG_CONFIG --modversion libzmq` with CURVE
  jansson         `$PKG_CONFIG --modversion jansson`
  libsodium       `$PKG_CONFIG --modversion libsodium`
  uuid            `$PKG_CONFIG --modversion uuid 2>/dev/null || echo in libc`
  Python          $PYTHON ($PYTHON_VERSION), extension for 3.9 and newer
  CUDA            $cellspan_cuda_says
  NCCL            $cellspan_nccl_says
  NVML            $cellspan_nvml_says
  hardening       $enable_hardening:$HARDEN_CPPFLAGS$HARDEN_CFLAGS$PIE_LDFLAGS$HARDEN_LDFLAGS
  sanitizers      $enable_sanitizers
  warnings        $WARN_CFLAGS

make, make check, make install; then: cellspan install"])
])
