dnl SPDX-License-Identifier: BSD-3-Clause
dnl libzmq 4.3.2: before it a stranger who reaches a CURVE socket could overrun its stack (CVE-2019-13132).
dnl libzmq can be built without CURVE, and its header does not say so: the library itself is asked.
AC_DEFUN([CELLSPAN_ZEROMQ], [
  CELLSPAN_DEPENDENCY([ZMQ], [libzmq >= 4.3.2], [libzmq3-dev], [zeromq-devel], [zeromq], [zeromq])
  AC_CACHE_CHECK([whether libzmq has CURVE], [cellspan_cv_zmq_curve], [
    cellspan_save_LIBS=$LIBS cellspan_save_CPPFLAGS=$CPPFLAGS
    LIBS="$ZMQ_LIBS $LIBS" CPPFLAGS="$CPPFLAGS $ZMQ_CFLAGS"
    AC_RUN_IFELSE([AC_LANG_PROGRAM([[#include <zmq.h>]],
                                   [[char key[41], secret[41];
                                     return !(zmq_has("curve") && zmq_curve_keypair(key, secret) == 0);]])],
                  [cellspan_cv_zmq_curve=yes], [cellspan_cv_zmq_curve=no], [
      AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <zmq.h>]], [[return zmq_curve_keypair(0, 0) + ZMQ_CURVE_SERVER;]])],
                     [cellspan_cv_zmq_curve=yes], [cellspan_cv_zmq_curve=no])])
    LIBS=$cellspan_save_LIBS CPPFLAGS=$cellspan_save_CPPFLAGS])
  AS_IF([test "$cellspan_cv_zmq_curve" = no],
        [CELLSPAN_MISSING([libzmq with CURVE (this one was built without libsodium, or doesn't run: see config.log)],
                          [libzmq3-dev], [zeromq-devel], [zeromq], [zeromq])])
])
