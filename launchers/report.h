/* report.h - prints the lines that a launcher sends to the kernel on stdout; docs/launchers.md says
 * what they mean. Each line is flushed at once. */
#ifndef LAUNCHERS_REPORT_H
#define LAUNCHERS_REPORT_H

#include "base/err.h"

void report_nodes(unsigned n);
/* slots 0: omitted. Blanks in the name become '_', so that it is one word. */
void report_node(unsigned agent, const char *name, unsigned slots);
/* Replaces control characters of the text, newlines too, by blanks. */
void report_say(const char *format, ...) PRINTF_LIKE(1, 2);
void report_failed(unsigned agent, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
