/* SPDX-License-Identifier: BSD-3-Clause */
/* quoted.h - reads text between quotes as a POSIX shell does; nothing is expanded. */
#ifndef BASE_QUOTED_H
#define BASE_QUOTED_H

#include "base/buf.h"

/* *at is at a quote, ' or ": appends the text up to the closing one, and sets *at behind that.
 * Between "…", \ quotes only characters that are special there. 1: there is no closing quote; the
 * rest of the text was appended. -1: memory is out. */
MUST_USE int quoted_read(struct slice text, size_t *at, struct buf *word);

#endif
