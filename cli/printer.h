/* printer.h - a cell's output on a terminal or in a file: text to descriptors 1 and 2. */
#ifndef CLI_PRINTER_H
#define CLI_PRINTER_H

#include <jansson.h>
#include <stdbool.h>

struct printer; /* displays that may still change: shown when the cell is over */

struct printer *printer_create(void); /* NULL: memory is out */
void printer_destroy(struct printer *s);
/* type and content of an iopub message; others than streams, displays, results and errors are
 * passed over. */
void printer_message(struct printer *s, const char *type, const json_t *content);
void printer_finish(struct printer *s);
void printer_prompt(struct printer *s, const json_t *content); /* of an input_request */
bool printer_broken(const struct printer *s); /* who read our output has gone (EPIPE) */

#endif
