/* SPDX-License-Identifier: BSD-3-Clause */
/* launcher.h - what every launcher does: reads its command line, and sends lines to the kernel. */
#ifndef LAUNCHERS_LAUNCHER_H
#define LAUNCHERS_LAUNCHER_H

#include "base/err.h"
#include <stddef.h>
#include "base/buf.h"

/* ---- launch_arguments.c ---- */
/* Parses a launcher's command line: [--spec SPEC] [--ranks N] [--in IMAGE] -- COMMAND [ARG...]; see
 * README.md */

#define LAUNCH_CANNOT 2 /* exit status: the engine can't do what was requested */
#define LAUNCH_FAILED 1

struct launch_arguments {
    const char *spec;  /* "" if not given; all pointers here are borrowed from argv */
    unsigned ranks;    /* 0: not given */
    const char *image; /* of the containers in which agents run; NULL: they run in none */
    char **command;    /* NULL-terminated, at least one word */
};

/* Reads main's arguments. 0: done; 1: --help or --version was printed; -1: *err says what is
 * wrong. what: one sentence for --help. */
MUST_USE int launch_arguments_read(struct launch_arguments *a, int argc, char **argv,
                                   const char *what, struct err *err);

/* ---- report.c ---- */
/* Prints the lines that a launcher sends to the kernel on stdout; docs/launchers.md says what they
 * mean. Each line is flushed at once. */

/* This launcher tells when an agent ends, or can't be found any more. Before report_nodes(). */
void report_tells_ends(void);
void report_nodes(unsigned n);
void report_nodes_together(unsigned n); /* the same; if one agent is lost, all end */
/* slots 0: omitted. Blanks in the name become '_', so that it is one word. */
void report_node(unsigned agent, const char *name, unsigned slots);
/* Replaces control characters of the text, newlines too, by blanks. */
void report_say(const char *format, ...) PRINTF_LIKE(1, 2);
/* The agent's machine does something that takes long, until its next report_node(). Meanwhile the
 * kernel's clock stands, whatever others do. */
void report_busy(unsigned agent, const char *format, ...) PRINTF_LIKE(2, 3);
void report_end_takes(unsigned seconds); /* the engine's own end may take so long */
void report_job_ends(unsigned seconds);  /* the job's time is over then */
void report_notice(unsigned agent, unsigned seconds, const char *format, ...) PRINTF_LIKE(3, 4);
void report_away(unsigned agent); /* the way to it has broken, and is looked for */
void report_gone(unsigned agent, const char *format, ...) PRINTF_LIKE(2, 3);
void report_failed(unsigned agent, const char *format, ...) PRINTF_LIKE(2, 3);

/* ---- words.c: splits command lines into words as a shell does, and quotes words for one ---- */
struct words {
    char **v; /* owned, NULL-terminated; NULL while there are none */
    size_t n;
};

#define WORDS_INIT { NULL, 0 }

void words_release(struct words *w);
/* Appends a copy. -1: memory is out, *w is unchanged. */
MUST_USE int words_add(struct words *w, const char *word);
/* Appends the words of text. Blanks separate words; '...', "..." and \ quote as in a POSIX shell;
 * nothing is expanded. On failure *w is unchanged. */
MUST_USE int words_split(struct words *w, const char *text, struct err *err);
/* Appends the word for a POSIX shell, in single quotes if needed. A newline becomes "$n", so that
 * the result is one line: the shell's variable n must hold a newline. -1: memory is out. */
MUST_USE int words_quote(struct buf *out, const char *word);
/* Replaces an owned text by a copy of another one. NULL: there is none, or no memory for it. */
void text_replace(char **place, const char *text);
/* Was the line not noted in `said` yet? Notes it there; when that has SAID_MAX bytes, it begins
 * anew. A program that is run again and again says the same each time. */
#define SAID_MAX 8192u
bool text_is_new(struct buf *said, const char *line);

#endif
