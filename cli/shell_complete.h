/* shell_complete.h - what Tab offers in a shell: from the tables that the commands themselves are
 * parsed by. */
#ifndef CLI_SHELL_COMPLETE_H
#define CLI_SHELL_COMPLETE_H

#include "base/cmdline.h"

/* A subcommand, as far as completion knows it. rows NULL: its options are those of %distribute,
 * then comes a script. */
struct complete_command {
    const char *name, *help;
    const struct cmdline_row *rows;
};

/* word: those behind `cellspan`, NULL-terminated, the last being typed. Prints what may stand
 * there, a line each: the word, a tab, and what it is; ":files" or ":folders" where that is the
 * shell's to know. */
void shell_complete_print(const struct complete_command *commands, size_t n, char *const *word);

#endif
