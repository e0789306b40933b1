/* report.h - the lines on stdout that a launcher tells the kernel; docs/launchers.md says what they
 * mean. Each leaves at once. */
#ifndef LAUNCHERS_REPORT_H
#define LAUNCHERS_REPORT_H

#include "base/err.h"

void report_nodes(unsigned n);
/* slots 0: left out. A name is one word: what would part it becomes '_'. */
void report_node(unsigned agent, const char *name, unsigned slots);
/* Control characters of the text, newlines too, become blanks. */
void report_say(const char *format, ...) PRINTF_LIKE(1, 2);
void report_failed(unsigned agent, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
