/* options.c - see step.h. An option that is not in the table is passed on to srun unchanged. */
#include "launchers/slurm/step.h"

#include <stdlib.h>
#include <string.h>

enum value { VALUE_NONE, VALUE_MAYBE, VALUE_NEEDED }; /* MAYBE: only as --option=value */
enum means {
    MEANS_NOTHING,
    MEANS_NODES,
    MEANS_NODE_COUNT,
    MEANS_CPUS,
    MEANS_GPUS,
    MEANS_ALL_GPUS,
    MEANS_NAME,
    MEANS_JOB,
    MEANS_EXPORT
};

struct srun_option {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    enum value value;
    enum means means;
    const char *refused; /* why it is refused; NULL: it is allowed */
};

static const char one_task[] =
    "cellspan itself starts one task on each node; use -n of the cell for the ranks";
static const char streams[] = "cellspan itself uses srun's input and output";
static const char no_run[] = "with this option srun starts nothing";
static const char endings[] = "cellspan itself decides when its tasks end";

static const struct srun_option rows[] = {
    { "ntasks", 'n', VALUE_NEEDED, MEANS_NOTHING, one_task },
    { "ntasks-per-node", 0, VALUE_NEEDED, MEANS_NOTHING, one_task },
    { "ntasks-per-core", 0, VALUE_NEEDED, MEANS_NOTHING, one_task },
    { "ntasks-per-gpu", 0, VALUE_NEEDED, MEANS_NOTHING, one_task },
    { "ntasks-per-socket", 0, VALUE_NEEDED, MEANS_NOTHING, one_task },
    { "tasks-per-node", 0, VALUE_NEEDED, MEANS_NOTHING, one_task },
    { "multi-prog", 0, VALUE_NONE, MEANS_NOTHING, one_task },
    { "het-group", 0, VALUE_NEEDED, MEANS_NOTHING, one_task },
    { "gpus-per-task", 0, VALUE_NEEDED, MEANS_NOTHING,
      "cellspan itself starts one task on each node; use --gpus-per-node" },
    { "pty", 0, VALUE_MAYBE, MEANS_NOTHING, streams },
    { "input", 'i', VALUE_NEEDED, MEANS_NOTHING, streams },
    { "output", 'o', VALUE_NEEDED, MEANS_NOTHING, streams },
    { "error", 'e', VALUE_NEEDED, MEANS_NOTHING, streams },
    { "open-mode", 0, VALUE_NEEDED, MEANS_NOTHING, streams },
    { "label", 'l', VALUE_NONE, MEANS_NOTHING, streams },
    { "wait", 'W', VALUE_NEEDED, MEANS_NOTHING, endings },
    { "kill-on-bad-exit", 'K', VALUE_MAYBE, MEANS_NOTHING, endings },
    { "disable-status", 'X', VALUE_NONE, MEANS_NOTHING, endings },
    { "no-allocate", 'Z', VALUE_NONE, MEANS_NOTHING, "cellspan needs a job of Slurm's" },
    { "test-only", 0, VALUE_NONE, MEANS_NOTHING, no_run },
    { "help", 'h', VALUE_NONE, MEANS_NOTHING, no_run },
    { "usage", 0, VALUE_NONE, MEANS_NOTHING, no_run },
    { "version", 'V', VALUE_NONE, MEANS_NOTHING, no_run },
    { "bcast", 0, VALUE_MAYBE, MEANS_NOTHING,
      "cellspan must run from the folder where it is installed" },
    { "export", 0, VALUE_NEEDED, MEANS_EXPORT, NULL },
    { "nodes", 'N', VALUE_NEEDED, MEANS_NODE_COUNT, NULL },
    { "nodelist", 'w', VALUE_NEEDED, MEANS_NODES, NULL },
    { "nodefile", 'F', VALUE_NEEDED, MEANS_NODES, NULL },
    { "gpus", 'G', VALUE_NEEDED, MEANS_ALL_GPUS, NULL },
    { "gres", 0, VALUE_NEEDED, MEANS_GPUS, NULL },
    { "gpus-per-node", 0, VALUE_NEEDED, MEANS_GPUS, NULL },
    { "gpus-per-socket", 0, VALUE_NEEDED, MEANS_GPUS, NULL },
    { "cpus-per-task", 'c', VALUE_NEEDED, MEANS_CPUS, NULL },
    { "cpus-per-gpu", 0, VALUE_NEEDED, MEANS_CPUS, NULL },
    { "exclusive", 0, VALUE_MAYBE, MEANS_CPUS, NULL },
    { "job-name", 'J', VALUE_NEEDED, MEANS_NAME, NULL },
    { "partition", 'p', VALUE_NEEDED, MEANS_JOB, NULL },
    { "account", 'A', VALUE_NEEDED, MEANS_JOB, NULL },
    { "qos", 'q', VALUE_NEEDED, MEANS_JOB, NULL },
    { "reservation", 0, VALUE_NEEDED, MEANS_JOB, NULL },
    { "clusters", 'M', VALUE_NEEDED, MEANS_JOB, NULL },
    { "contiguous", 0, VALUE_NONE, MEANS_NOTHING, NULL },
    { "exact", 0, VALUE_NONE, MEANS_NOTHING, NULL },
    { "overlap", 0, VALUE_NONE, MEANS_NOTHING, NULL },
    { "overcommit", 'O', VALUE_NONE, MEANS_NOTHING, NULL },
    { "oversubscribe", 's', VALUE_NONE, MEANS_NOTHING, NULL },
    { "hold", 'H', VALUE_NONE, MEANS_NOTHING, NULL },
    { "immediate", 'I', VALUE_MAYBE, MEANS_NOTHING, NULL },
    { "nice", 0, VALUE_MAYBE, MEANS_NOTHING, NULL },
    { "no-kill", 'k', VALUE_MAYBE, MEANS_NOTHING, NULL },
    { "preserve-env", 'E', VALUE_NONE, MEANS_NOTHING, NULL },
    { "propagate", 0, VALUE_MAYBE, MEANS_NOTHING, NULL },
    { "quiet", 'Q', VALUE_NONE, MEANS_NOTHING, NULL },
    { "reboot", 0, VALUE_NONE, MEANS_NOTHING, NULL },
    { "resv-ports", 0, VALUE_MAYBE, MEANS_NOTHING, NULL },
    { "spread-job", 0, VALUE_NONE, MEANS_NOTHING, NULL },
    { "unbuffered", 'u', VALUE_NONE, MEANS_NOTHING, NULL },
    { "use-min-nodes", 0, VALUE_NONE, MEANS_NOTHING, NULL },
    { "verbose", 'v', VALUE_NONE, MEANS_NOTHING, NULL },
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

static int note_value(struct slurm_options *o, const struct srun_option *row, const char *word,
                      const char *value, struct err *err)
{
    char *end;
    unsigned long n;

    switch (row->means) {
    case MEANS_NODE_COUNT:
        n = value ? strtoul(value, &end, 10) : 0;
        o->n_nodes = value && end != value && !*end && n <= 65536 ? (unsigned)n : 0;
        o->nodes = true;
        break;
    case MEANS_NODES:
        o->nodes = true;
        break;
    case MEANS_ALL_GPUS:
        o->nodes = o->gpus = true;
        break;
    case MEANS_GPUS:
        o->gpus = true;
        break;
    case MEANS_CPUS:
        o->cpus = true;
        break;
    case MEANS_NAME:
        o->name = true;
        break;
    case MEANS_JOB:
        o->own_job = true;
        break;
    case MEANS_EXPORT:
        if (!value || (strcmp(value, "ALL") != 0 && strncmp(value, "ALL,", 4) != 0))
            return err_set(
                err,
                "%s: cellspan needs the environment on the nodes; write --export=ALL,NAME=VALUE",
                word);
        break;
    case MEANS_NOTHING:
        break;
    }
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
