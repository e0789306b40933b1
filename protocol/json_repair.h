/* SPDX-License-Identifier: BSD-3-Clause */
/* json_repair.h - parses JSON as others write it. Python and JavaScript write half of a character
 * as "\ud800", and some clients write bytes that are no UTF-8: Jansson refuses both. */
#ifndef PROTOCOL_JSON_REPAIR_H
#define PROTOCOL_JSON_REPAIR_H

#include <jansson.h>

#include "base/buf.h"

/* Appends the text with U+FFFD in place of what is no character. -1: memory is out, and *out is
 * unchanged. */
MUST_USE int json_repair(struct buf *out, struct slice text);
/* As json_loadb(), but a text that it refuses is repaired and parsed once more. No copy of the text
 * stays in memory: it may hold a key. */
json_t *json_parse(struct slice text, size_t flags, json_error_t *error);

#endif
