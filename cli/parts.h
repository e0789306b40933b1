/* parts.h - the functions of the command `cellspan`, by file. client.h has what
 * talks to the kernel. */
#ifndef CLI_PARTS_H
#define CLI_PARTS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/cmdline.h"
#include "base/err.h"
#include "base/loop/loop.h"
#include "base/slice.h"

struct input;
struct python_interpreter;

/* ---- main.c: the table of subcommands ---- */
struct subcommand {
    const char *name;
    int (*main)(int argc, char **argv); /* argv[0] is the name */
    const char *help;
    /* NULL: its options are those of %distribute, then comes a script */
    const struct cmdline_row *rows;
};

/* ---- install.c ---- */
/* `cellspan install` and `cellspan uninstall`: make the kernel known to Jupyter, and not known any
 * more. */

extern const struct cmdline_row install_rows[], uninstall_rows[];

/* argv[0] is the subcommand's name. Returns the exit status: 1 it failed, 2 the options are
 * wrong. */
int command_install(int argc, char **argv);
int command_uninstall(int argc, char **argv);

/* ---- run.c: `cellspan run`: a script on many ranks, from a shell ---- */
/* argv[0] is the subcommand's name. Returns the exit status: the failed rank's own where there is
 * one, else 1; 2 the options are wrong; 130 it was interrupted; 128 + n ended by signal n. */
int command_run(int argc, char **argv);

/* ---- line.c: words back to the option line of a magic that splits into them. Pure ---- */
/* Appends "%magic word word…": quoted, and written so that home's expansion of `{name}` and `$name`
 * leaves each word as it is. -1: a word holds a line break. */
MUST_USE int line_write(struct buf *out, const char *magic, char *const *word, size_t n,
                        struct err *err);

/* ---- torchrun.c ---- */
/* The options of torchrun that %distribute has not: taken where they ask for nothing but what
 * happens anyway, else refused with the word for it here. */

/* argv[*i]: an option. 0: none of torchrun's; 1: it is taken, with its value, and *i stands behind;
 * -1: refused. *set: "NAME=VALUE", what is to be set in the ranks' environment (the caller's,
 * free()), or NULL. */
MUST_USE int torchrun_option(char *const *argv, int *i, char **set, struct err *err);

/* ---- cli_job.c: one cell on a kernel of its own: started, asked, shown, ended ---- */
/* Runs code as a cell on a fresh kernel whose home is `python`, and ends that kernel. Returns the
 * exit status of command_run(), or -1: there was no kernel to ask. */
int cli_job_run(const struct python_interpreter *python, struct slice code, struct err *err);

/* ---- input.c: our standard input, a line at a time, for who asks ---- */
/* line: without its end; over: there is none, and none will come. */
typedef void (*input_line_f)(void *arg, struct slice line, bool over);

struct input *input_create(struct loop *loop, input_line_f f, void *arg); /* NULL: memory is out */
void input_destroy(struct input *in);                                     /* NULL is fine */
/* f is called once, now or from the loop; nothing is read before somebody asks. */
void input_ask(struct input *in);

/* ---- printer.c: a cell's output on a terminal or in a file: text to descriptors 1 and 2 ---- */
struct printer; /* displays that may still change: shown when the cell is over */

struct printer *printer_create(void); /* NULL: memory is out */
void printer_destroy(struct printer *s);
/* type and content of an iopub message; others than streams, displays, results and errors are
 * passed over. */
void printer_message(struct printer *s, const char *type, const json_t *content);
void printer_finish(struct printer *s);
void printer_prompt(struct printer *s, const json_t *content); /* of an input_request */
bool printer_broken(const struct printer *s); /* who read our output has gone (EPIPE) */

/* ---- shell_complete.c ---- */
/* Prints the completions for a shell, one a line: the word, a tab, its description. They come from
 * the tables of the parsers. own: the options without a command. word: the words after `cellspan`,
 * NULL-terminated; the user is typing the last one. The line ":files" or ":folders" means that the
 * shell completes file or folder names. */
void shell_complete_print(const struct subcommand *commands, size_t n,
                          const struct cmdline_row *own, char *const *word);

/* ---- interpreter.c: the Python that a notebook gets ---- */
struct python_interpreter {
    char *path;    /* absolute; within a venv it is the venv's, links are not followed */
    char *version; /* "3.11.7" */
    char *prefix;  /* its sys.prefix */
};

/* asked: a path, a name on PATH, or NULL for the default: the active venv's or conda environment's,
 * the one beside this program, the one that cellspan was built for, python3 on PATH. -1: it can't
 * be run, is older than 3.9, or lacks modules; the err says the command that installs them. On
 * failure there is nothing to release. */
MUST_USE int interpreter_find(struct python_interpreter *p, const char *asked, struct err *err);
void interpreter_release(struct python_interpreter *p);

#endif
