/* SPDX-License-Identifier: BSD-3-Clause */
/* sent_folder.h - an agent that was sent to this machine has a folder that is removed when nobody
 * has used it for long (worker/python/cellspan/_install/unpack.py). The folder's time tells of the
 * use. */
#ifndef WORKER_AGENT_SENT_FOLDER_H
#define WORKER_AGENT_SENT_FOLDER_H

#include "base/loop/loop.h"

/* Sets the time of a program's folder at once, and then every 12 hours while the loop runs. Does
 * nothing for a program that was not sent. link: a link to the program, borrowed. */
MUST_USE int sent_folder_note(struct loop *loop, const char *link, struct err *err);

#endif
