/* SPDX-License-Identifier: BSD-3-Clause */
/* err.h - why a call failed, as a text for the user: what was asked, what is there, what to do. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#define MUST_USE               __attribute__((warn_unused_result))
#define PRINTF_LIKE(at, first) __attribute__((format(printf, at, first)))

struct err {
    char text[1024]; /* "" if nothing failed; a longer text is cut off */
};

/* Sets the text, unless one is set already: the first is kept. Always returns -1, so that a caller
 * can fail in one line. err may be NULL. */
int err_set(struct err *err, const char *format, ...) PRINTF_LIKE(2, 3);

/* The same, returning NULL for calls that give a pointer. */
#define err_null(...) ((void)err_set(__VA_ARGS__), (void *)NULL)

#endif
