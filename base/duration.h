/* SPDX-License-Identifier: BSD-3-Clause */
/* duration.h - reads the durations that users write: in options, and in settings. */
#ifndef BASE_DURATION_H
#define BASE_DURATION_H

#include <stdint.h>

#include "base/err.h"

/* Reads "10" (seconds), "10s", "1.5m", "5min", "2h" or "500ms" as nanoseconds. -1: that is no
 * duration, or it is longer than a million hours. */
MUST_USE int duration_read(const char *text, uint64_t *ns);

#endif
