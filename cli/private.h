/* SPDX-License-Identifier: BSD-3-Clause */
/* private.h - the functions of the command `cellspan`, by file. client.h has what
 * talks to the kernel. */
#ifndef CLI_PRIVATE_H
#define CLI_PRIVATE_H

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
    bool destroys; /* never suggested for a misspelt name */
};

/* ---- install.c ---- */
/* `cellspan install` tells Jupyter about the kernel; `cellspan uninstall` removes that again. */

extern const struct cmdline_row install_rows[], uninstall_rows[];

/* argv[0] is the subcommand's name. Returns the exit status: 1 it failed, 2 the options are
 * wrong. */
int command_install(int argc, char **argv);
int command_uninstall(int argc, char **argv);

/* ---- run.c: `cellspan run`: a script on many ranks, from a shell ---- */
/* argv[0] is the subcommand's name. Returns the exit status: 0; the status of the rank that failed,
 * or 1; 2 if the options are wrong; 130 after an interrupt; 128 + n if signal n ended a rank. */
int command_run(int argc, char **argv);

/* ---- ps.c: `cellspan ps`, `cellspan logs`, `cellspan stop` ---- */
extern const struct cmdline_row ps_rows[], logs_rows[], stop_rows[];

/* argv[0] is the subcommand's name. Returns the exit status: 0; 1 it failed, or there is no such
 * kernel; 2 the options are wrong. */
int command_ps(int argc, char **argv);
int command_logs(int argc, char **argv);
int command_stop(int argc, char **argv);

/* ---- announce.c: `cellspan notice` ---- */
extern const struct cmdline_row notice_rows[];
/* argv[0] is the subcommand's name. Returns the exit status: 1 no agent was told, 2 the options are
 * wrong. */
int command_notice(int argc, char **argv);

/* ---- doctor.c: `cellspan doctor` ---- */
extern const struct cmdline_row doctor_rows[];

/* argv[0] is the subcommand's name. Returns the exit status: 1 something is to be mended, 2 the
 * options are wrong. */
int command_doctor(int argc, char **argv);

/* ---- config.c: `cellspan config` ---- */
extern const struct cmdline_row config_rows[];

/* argv[0] is the subcommand's name. Returns the exit status: 1 a file or a variable is wrong, 2 the
 * options are wrong. */
int command_config(int argc, char **argv);

/* ---- option_line.c: words back to the option line of a magic that splits into them. Pure ---- */
/* Appends "%magic word word…": quoted, and written so that home's expansion of `{name}` and `$name`
 * leaves each word as it is. -1: a word holds a line break. */
MUST_USE int option_line_write(struct buf *out, const char *magic, char *const *word, size_t n,
                               struct err *err);

/* ---- torchrun.c ---- */
/* Options of torchrun that %distribute does not have. An option that asks for what happens anyway
 * is accepted. Other options are refused, and the error names the option to use here. */

/* Reads the option argv[*i]. 0: not an option of torchrun. 1: accepted; *i is then the index after
 * it and its value. -1: refused. *set: "NAME=VALUE" for the ranks' environment, which the caller
 * frees; or NULL. */
MUST_USE int torchrun_option(char *const *argv, int *i, char **set, struct err *err);

/* ---- run_job.c: runs one cell on a new kernel, shows its output, and ends the kernel ---- */
/* Runs code as a cell on a fresh kernel whose home is `python`, and ends that kernel. Returns the
 * exit status of command_run(), or -1: there was no kernel to ask. */
int run_job(const struct python_interpreter *python, struct slice code, struct err *err);

/* ---- input.c: reads standard input, one line for each request ---- */
/* line: without its end; over: there is none, and none will come. */
typedef void (*input_line_f)(void *arg, struct slice line, bool over);

struct input *input_create(struct loop *loop, input_line_f f, void *arg); /* NULL: memory is out */
void input_destroy(struct input *in);                                     /* NULL is fine */
/* f is called once, now or from the loop; nothing is read before somebody asks. */
void input_ask(struct input *in);

/* ---- printer.c: a cell's output on a terminal or in a file: text to descriptors 1 and 2 ---- */
struct printer; /* displays that may still change: shown when the cell is over */

struct printer *printer_create(void);    /* NULL: memory is out */
void printer_destroy(struct printer *s); /* drops what waits; NULL is fine */
/* Prints an iopub message: streams, displays, results and errors. Other types are ignored. These
 * three never wait for a slow reader: what there is no room for waits, and all that follows it. */
void printer_message(struct printer *s, const char *type, const json_t *content);
void printer_finish(struct printer *s);
void printer_prompt(struct printer *s, const json_t *content); /* of an input_request */
void printer_note(struct printer *s, const char *text);        /* a line of ours, to descriptor 2 */
/* The descriptor (borrowed) that must have room before more can be printed; -1: nothing waits. */
int printer_waits(const struct printer *s);
void printer_go_on(struct printer *s);             /* prints as much as there is room for */
void printer_flush(struct printer *s);             /* waits until all is printed */
uint64_t printer_written(const struct printer *s); /* bytes that were */
/* Nothing more goes to the descriptor that the first text waits for, and that text is lost. */
void printer_give_up(struct printer *s);
int printer_failed(const struct printer *s, struct err *err); /* -1: output could not be written */
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

/* Finds the notebook's Python. asked: a path or a name on PATH. NULL: the first of these that
 * exists: the active venv or conda environment, the Python beside this program, the one cellspan
 * was built for, python3 on PATH. -1: it can't be run, is older than 3.9, or lacks modules; the err
 * says the command that installs them. On failure there is nothing to release. */
MUST_USE int interpreter_find(struct python_interpreter *p, const char *asked, struct err *err);
void interpreter_release(struct python_interpreter *p);

#endif
