/* log.h - quiet by default, one switch away: CELLSPAN_LOG=LEVEL[:FILE], LEVEL
 * error|warn|info|debug. Every line says room, subject and time; control characters in what is
 * logged are escaped. Secrets and the content of users' messages are never passed here. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* `process` names the process in each line ("kernel", "agent"). Without CELLSPAN_LOG: LOG_ERROR to
 * stderr. */
void log_open(const char *process);
void log_at(enum log_level level, const char *room, const char *format, ...) PRINTF_LIKE(3, 4);

#define log_error(room, ...) log_at(LOG_ERROR, room, __VA_ARGS__)
#define log_warn(room, ...)  log_at(LOG_WARN, room, __VA_ARGS__)
#define log_info(room, ...)  log_at(LOG_INFO, room, __VA_ARGS__)
#define log_debug(room, ...) log_at(LOG_DEBUG, room, __VA_ARGS__)

#endif
