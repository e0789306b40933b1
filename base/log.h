/* log.h - the log. CELLSPAN_LOG turns it on (settings_open_log()). Each line has time, process,
 * level and the part of the program (`room`). Control characters are escaped. Never log secrets or
 * the content of users' messages. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* `process` ("kernel", "agent") appears in each line. path NULL: stderr. Before the first call,
 * only LOG_ERROR is logged, to stderr. */
void log_open(const char *process, enum log_level level, const char *path);
void log_at(enum log_level level, const char *room, const char *format, ...) PRINTF_LIKE(3, 4);

#define log_error(room, ...) log_at(LOG_ERROR, room, __VA_ARGS__)
#define log_warn(room, ...)  log_at(LOG_WARN, room, __VA_ARGS__)
#define log_info(room, ...)  log_at(LOG_INFO, room, __VA_ARGS__)
#define log_debug(room, ...) log_at(LOG_DEBUG, room, __VA_ARGS__)

#endif
