# SPDX-License-Identifier: BSD-3-Clause
"""Gives up root's rights for good."""

from __future__ import annotations

import ctypes
import os
import pwd

NO_NEW_PRIVS = 38  # PR_SET_NO_NEW_PRIVS of <linux/prctl.h>


class RightsError(Exception):
    """It can't be done; says why."""


def give_up_rights(name):
    """Becomes the user of this name, without any other group than its own. Nobody but root can trace the process then."""
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        raise RightsError("--user %s: there is no such user" % name) from None
    if account.pw_uid == 0:
        raise RightsError("--user %s: what answers requests must not be root; take a user without rights" % name)
    try:
        os.setgroups([])
        os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
        os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)
    except OSError as error:
        raise RightsError("--user %s: root can't become that user here: %s" % (name, error.strerror)) from None
    try:
        os.setuid(0)
    except PermissionError:
        pass
    else:
        raise RightsError("--user %s: it could become root again" % name)
    ctypes.CDLL(None).prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
