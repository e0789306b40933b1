/* show.h - a cell's output on a terminal or in a file: text to descriptors 1 and 2. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include <jansson.h>
#include <stdbool.h>

struct show; /* displays that may still change: shown when the cell is over */

struct show *show_create(void); /* NULL: memory is out */
void show_destroy(struct show *s);
/* type and content of an iopub message; others than streams, displays, results and errors are
 * passed over. */
void show_message(struct show *s, const char *type, const json_t *content);
void show_finish(struct show *s);
void show_prompt(struct show *s, const json_t *content); /* of an input_request */
bool show_broken(const struct show *s);                  /* who read our output has gone (EPIPE) */

#endif
