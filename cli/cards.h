/* SPDX-License-Identifier: BSD-3-Clause */
/* cards.h - the GPUs of this machine, and who holds them, as cellspan-gpus tells. */
#ifndef CLI_CARDS_H
#define CLI_CARDS_H

#include <jansson.h>

#include "base/slice.h"

/* For ask_at_once.h: becomes cellspan-gpus, which asks the driver. That may hang. */
void cards_ask(const void *unused, int fd);
/* [{"uuid", "label", "name", "use", "used", "total", "others", "held": null or {"said", "since",
 * "holders": [{"pid", "uid", "comm"}]}}] from what it wrote; the numbers are null where no driver
 * has told. "held" as in lease_holders.h. NULL: memory is out. */
json_t *cards_read(struct slice said);

#endif
