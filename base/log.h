/* SPDX-License-Identifier: BSD-3-Clause */
/* log.h - the log. CELLSPAN_LOG turns it on (settings_open_log()). Each line has time, process,
 * level and the part of the program (`part`). Control characters are escaped. Never log secrets or
 * the content of users' messages. The call chooses the level. error: something is lost, or can't be
 * done. warn: something is out of order, but all goes on. info: cells, connections, processes and
 * their ends. debug: each request, each message, each state of a cell. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* `process` ("kernel", "agent") appears in each line. path NULL: stderr. Before the first call,
 * only LOG_ERROR is logged, to stderr. */
void log_open(const char *process, enum log_level level, const char *path);
void log_at(enum log_level level, const char *part, const char *format, ...) PRINTF_LIKE(3, 4);

#define log_error(part, ...) log_at(LOG_ERROR, part, __VA_ARGS__)
#define log_warn(part, ...)  log_at(LOG_WARN, part, __VA_ARGS__)
#define log_info(part, ...)  log_at(LOG_INFO, part, __VA_ARGS__)
#define log_debug(part, ...) log_at(LOG_DEBUG, part, __VA_ARGS__)

#endif
