/* json_text.h - between JSON trees and their text. */
#ifndef KERNEL_NOTEBOOK_JSON_TEXT_H
#define KERNEL_NOTEBOOK_JSON_TEXT_H

#include <jansson.h>

#include "base/buf.h"

/* Appends the value; takes it (also when it fails; NULL fails). */
MUST_USE int text_json(struct buf *out, json_t *value);
/* Parses text that must be a JSON object or array; NULL when it is not. The caller's to free. */
json_t *text_parse(struct slice text);
/* The string under this name, borrowed; "" when there is none. What users wrote may hold NULs:
 * text_slice() has all of it. */
const char *text_field(const json_t *object, const char *name);
struct slice text_slice(const json_t *object, const char *name);
/* head and text in one string; NULL: memory is out, or it is no UTF-8. The caller's. */
json_t *text_joined(const char *head, struct slice text);
/* Text that snprintf() may have cut within a character, which JSON doesn't take: what is left of
 * that goes. */
void text_trim(char *text);
/* A list of numbers and ranges ("2, 4-9" or "2,4-9") that is longer than a line's part is cut: "2,
 * 4-9, … (39 in all)". -1: memory is out. */
MUST_USE int text_shorten(struct buf *list, size_t count);
/* SIGKILL as "SIGKILL"; unknown ones as "signal 77". Borrowed from out. */
const char *text_signal(unsigned long signo, char out[static 24]);

/* The content of a reply when there was no memory to make one. */
#define NO_MEMORY                                                                                  \
    "{\"status\":\"error\",\"ename\":\"MemoryError\",\"evalue\":\"the kernel is out of memory\",\"traceback\":[]}"

#endif
