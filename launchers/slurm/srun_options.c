/* SPDX-License-Identifier: BSD-3-Clause */
/* srun_options.c - see step.h. An option that is not in the table is passed on to srun unchanged.
 */
#include "launchers/slurm/step.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum value { VALUE_NONE, VALUE_MAYBE, VALUE_NEEDED }; /* MAYBE: only as --option=value */

#define SIGNAL_BEFORE 60u /* seconds; srun's default of --signal */

/* What an option says about the job: bits. */
#define SAYS_NODES   1u
#define SAYS_CPUS    2u
#define SAYS_GPUS    4u
#define SAYS_NAME    8u
#define SAYS_OWN_JOB 16u

struct srun_option {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    enum value value;
    unsigned says;       /* SAYS_… */
    const char *refused; /* why it is refused; NULL: it is allowed */
};

static const char one_task[] =
    "cellspan itself starts one task on each node; use -n of the cell for the ranks";
static const char streams[] = "cellspan itself uses srun's input and output";
static const char no_run[] = "with this option srun starts nothing";
static const char endings[] = "cellspan itself decides when its tasks end";

static const struct srun_option rows[] = {
    { "ntasks", 'n', VALUE_NEEDED, 0, one_task },
    { "ntasks-per-node", 0, VALUE_NEEDED, 0, one_task },
    { "ntasks-per-core", 0, VALUE_NEEDED, 0, one_task },
    { "ntasks-per-gpu", 0, VALUE_NEEDED, 0, one_task },
    { "ntasks-per-socket", 0, VALUE_NEEDED, 0, one_task },
    { "tasks-per-node", 0, VALUE_NEEDED, 0, one_task },
    { "multi-prog", 0, VALUE_NONE, 0, one_task },
    { "het-group", 0, VALUE_NEEDED, 0, one_task },
    { "gpus-per-task", 0, VALUE_NEEDED, 0,
      "cellspan itself starts one task on each node; use --gpus-per-node" },
    { "pty", 0, VALUE_MAYBE, 0, streams },
    { "input", 'i', VALUE_NEEDED, 0, streams },
    { "output", 'o', VALUE_NEEDED, 0, streams },
    { "error", 'e', VALUE_NEEDED, 0, streams },
    { "open-mode", 0, VALUE_NEEDED, 0, streams },
    { "label", 'l', VALUE_NONE, 0, streams },
    { "wait", 'W', VALUE_NEEDED, 0, endings },
    { "kill-on-bad-exit", 'K', VALUE_MAYBE, 0, endings },
    { "disable-status", 'X', VALUE_NONE, 0, endings },
    { "no-allocate", 'Z', VALUE_NONE, 0, "cellspan needs a job of Slurm's" },
    { "jobid", 0, VALUE_NEEDED, 0,
      "a notebook that runs in a job uses that: start Jupyter in the job, for cellspan ends the jobs "
      "that it has asked for" },
    { "test-only", 0, VALUE_NONE, 0, no_run },
    { "help", 'h', VALUE_NONE, 0, no_run },
    { "usage", 0, VALUE_NONE, 0, no_run },
    { "version", 'V', VALUE_NONE, 0, no_run },
    { "bcast", 0, VALUE_MAYBE, 0, "cellspan must run from the folder where it is installed" },
    { "export", 0, VALUE_NEEDED, 0, NULL },
    { "signal", 0, VALUE_NEEDED, 0, NULL },
    { "nodes", 'N', VALUE_NEEDED, SAYS_NODES, NULL },
    { "nodelist", 'w', VALUE_NEEDED, SAYS_NODES, NULL },
    { "nodefile", 'F', VALUE_NEEDED, SAYS_NODES, NULL },
    { "gpus", 'G', VALUE_NEEDED, SAYS_NODES | SAYS_GPUS, NULL },
    { "gres", 0, VALUE_NEEDED, SAYS_GPUS, NULL },
    { "gpus-per-node", 0, VALUE_NEEDED, SAYS_GPUS, NULL },
    { "gpus-per-socket", 0, VALUE_NEEDED, SAYS_GPUS, NULL },
    { "cpus-per-task", 'c', VALUE_NEEDED, SAYS_CPUS, NULL },
    { "cpus-per-gpu", 0, VALUE_NEEDED, SAYS_CPUS, NULL },
    { "exclusive", 0, VALUE_MAYBE, SAYS_CPUS, NULL },
    { "job-name", 'J', VALUE_NEEDED, SAYS_NAME, NULL },
    { "partition", 'p', VALUE_NEEDED, SAYS_OWN_JOB, NULL },
    { "account", 'A', VALUE_NEEDED, SAYS_OWN_JOB, NULL },
    { "qos", 'q', VALUE_NEEDED, SAYS_OWN_JOB, NULL },
    { "reservation", 0, VALUE_NEEDED, SAYS_OWN_JOB, NULL },
    { "clusters", 'M', VALUE_NEEDED, SAYS_OWN_JOB, NULL },
    { "contiguous", 0, VALUE_NONE, 0, NULL },
    { "exact", 0, VALUE_NONE, 0, NULL },
    { "overlap", 0, VALUE_NONE, 0, NULL },
    { "overcommit", 'O', VALUE_NONE, 0, NULL },
    { "oversubscribe", 's', VALUE_NONE, 0, NULL },
    { "hold", 'H', VALUE_NONE, 0, NULL },
    { "immediate", 'I', VALUE_MAYBE, 0, NULL },
    { "nice", 0, VALUE_MAYBE, 0, NULL },
    { "no-kill", 'k', VALUE_MAYBE, 0, NULL },
    { "preserve-env", 'E', VALUE_NONE, 0, NULL },
    { "propagate", 0, VALUE_MAYBE, 0, NULL },
    { "quiet", 'Q', VALUE_NONE, 0, NULL },
    { "reboot", 0, VALUE_NONE, 0, NULL },
    { "resv-ports", 0, VALUE_MAYBE, 0, NULL },
    { "spread-job", 0, VALUE_NONE, 0, NULL },
    { "unbuffered", 'u', VALUE_NONE, 0, NULL },
    { "use-min-nodes", 0, VALUE_NONE, 0, NULL },
    { "verbose", 'v', VALUE_NONE, 0, NULL },
};

#define N_ROWS (sizeof rows / sizeof *rows)

/* srun accepts abbreviated names. One that may mean a refused option is refused, too. */
static const struct srun_option *find_long(const char *name, size_t n)
{
    const struct srun_option *begun = NULL;

    for (size_t i = 0; i < N_ROWS; i++) {
        if (strncmp(rows[i].name, name, n) != 0)
            continue;
        if (!rows[i].name[n])
            return &rows[i];
        if (!begun || rows[i].refused)
            begun = &rows[i];
    }
    return begun;
}

static const struct srun_option *find_letter(char letter)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].letter == letter)
            return &rows[i];
    return NULL;
}

static bool is_number_of(const char *text, size_t n, int signal)
{
    char *end;

    return n > 0 && text[0] >= '0' && text[0] <= '9' && strtol(text, &end, 10) == signal &&
           end == text + n;
}

/* How many seconds before the end `--signal=[R:]SIG[@SECONDS]` sends a signal that is a notice; 0:
 * it is another one. */
static unsigned notice_of(const char *value)
{
    const char *sig = text_begins(value, "R:") ? value + 2 : value, *at = strchr(sig, '@');
    const size_t n = at ? (size_t)(at - sig) : strlen(sig);
    const bool long_name = n > 3 && strncasecmp(sig, "SIG", 3) == 0;
    const char *name = long_name ? sig + 3 : sig;
    const size_t rest = long_name ? n - 3 : n;

    if (!is_number_of(sig, n, SIGUSR1) && !is_number_of(sig, n, SIGUSR2) &&
        (rest != 4 || (strncasecmp(name, "USR1", 4) != 0 && strncasecmp(name, "USR2", 4) != 0)))
        return 0;
    return at ? (unsigned)strtoul(at + 1, NULL, 10) : SIGNAL_BEFORE;
}

/* "B:USR1@120" is for the script of a batch job, which srun has none of. */
static int check_signal(const char *word, const char *value, struct err *err)
{
    const char *const colon = strchr(value, ':'), *const b = strpbrk(value, "Bb:");

    if (!colon || b == colon)
        return 0;
    return err_set(err,
                   "%s: with B: Slurm tells a batch job's script alone, and no rank would hear of "
                   "it; write --signal=%s",
                   word, colon + 1);
}

bool slurm_names_clusters(const char *value)
{
    return strchr(value, ',') || strcmp(value, "all") == 0;
}

static int note_value(struct slurm_options *o, const struct srun_option *row, const char *word,
                      const char *value, struct err *err)
{
    char *end;
    unsigned long n;

    o->nodes = o->nodes || row->says & SAYS_NODES;
    o->cpus = o->cpus || row->says & SAYS_CPUS;
    o->gpus = o->gpus || row->says & SAYS_GPUS;
    o->name = o->name || row->says & SAYS_NAME;
    o->own_job = o->own_job || row->says & SAYS_OWN_JOB;
    if (strcmp(row->name, "nodes") == 0) {
        n = value ? strtoul(value, &end, 10) : 0;
        o->n_nodes = value && end != value && !*end && n <= 65536 ? (unsigned)n : 0;
    }
    if (strcmp(row->name, "clusters") == 0)
        o->cluster = value;
    if (strcmp(row->name, "signal") == 0) {
        o->notice = notice_of(value);
        if (check_signal(word, value, err) < 0)
            return -1;
    }
    if (strcmp(row->name, "export") == 0 &&
        (!value || (strcmp(value, "ALL") != 0 && strncmp(value, "ALL,", 4) != 0)))
        return err_set(
            err, "%s: cellspan needs the environment on the nodes; write --export=ALL,NAME=VALUE",
            word);
    return 0;
}

/* Reads one option at *at; moves *at on if the next word is its value. */
static int read_option(struct slurm_options *o, const struct words *words, size_t *at,
                       struct err *err)
{
    const char *const word = words->v[*at];
    const bool is_long = word[1] == '-';
    const char *const equals = strchr(word, '=');
    const size_t n = is_long ? (equals ? (size_t)(equals - word) : strlen(word)) - 2 : 1;
    const struct srun_option *row = is_long ? find_long(word + 2, n) : find_letter(word[1]);
    const char *value = is_long ? (equals ? equals + 1 : NULL) : (word[2] ? word + 2 : NULL);
    const bool takes_next = !value && (row ? row->value == VALUE_NEEDED : true);

    if (row && row->refused)
        return err_set(err, "%s can't be used here: %s", word, row->refused);
    if (takes_next && *at + 1 < words->n && words->v[*at + 1][0] != '-')
        value = words->v[++*at];
    if (row && row->value == VALUE_NEEDED && !value)
        return err_set(err, "%s needs a value", word);
    if (row && row->value == VALUE_NONE && !is_long && value) { /* letters together, as in -vv */
        const struct srun_option *next = find_letter(*value);

        if (!next || next->value != VALUE_NONE || next->refused)
            return err_set(err, "%s: write its options one by one", word);
    }
    return row ? note_value(o, row, word, value, err) : 0;
}

int slurm_options_read(struct slurm_options *o, const struct words *words, struct err *err)
{
    *o = (struct slurm_options){ 0 };
    for (size_t i = 0; i < words->n; i++) {
        const char *word = words->v[i];

        if (word[0] != '-' || !word[1] || strcmp(word, "--") == 0)
            return err_set(err,
                           "'%s' is no option of srun: write srun's options after slurm:, as in "
                           "--on \"slurm:--partition=gpu --nodes=2\"",
                           word);
        if (read_option(o, words, &i, err) < 0)
            return -1;
    }
    return 0;
}
