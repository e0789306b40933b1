/* json_text.h - converts JSON to text and back, and helps to write text for users. */
#ifndef KERNEL_NOTEBOOK_JSON_TEXT_H
#define KERNEL_NOTEBOOK_JSON_TEXT_H

#include <jansson.h>

#include "base/buf.h"

/* Appends the value; takes it (also when it fails; NULL fails). */
MUST_USE int text_json(struct buf *out, json_t *value);
/* Parses text that must be a JSON object or array; NULL: it is not. The caller frees it. */
json_t *text_parse(struct slice text);
/* The string under this name, borrowed; "" if there is none. Text from users may contain NULs:
 * use text_slice() for it. */
const char *text_field(const json_t *object, const char *name);
struct slice text_slice(const json_t *object, const char *name);
/* A new string: head, then text. NULL: memory is out, or text is not UTF-8. */
json_t *text_joined(const char *head, struct slice text);
/* Removes an incomplete UTF-8 character at the end, which snprintf() may have left: Jansson refuses
 * such text. */
void text_trim(char *text);
/* Cuts a list of numbers and ranges ("2, 4-9" or "2,4-9") that is too long for a sentence: "2, 4-9,
 * … (39 in all)". -1: memory is out. */
MUST_USE int text_shorten(struct buf *list, size_t count);
/* The signal's name, "SIGKILL", or "signal 77" for an unknown one. The result may point to out. */
const char *text_signal(unsigned long signo, char out[static 24]);

/* The content of a reply if memory is too short to build one. */
#define NO_MEMORY                                                                                  \
    "{\"status\":\"error\",\"ename\":\"MemoryError\",\"evalue\":\"the kernel is out of memory\",\"traceback\":[]}"

#endif
