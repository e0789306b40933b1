/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun_options.c - which of mpirun's options SPEC may hold (declared in mpirun.h). */
#include "launchers/mpi/mpirun.h"

#include <stdbool.h>
#include <string.h>

struct refused_option {
    const char *name; /* of an option, without dashes */
    const char *why;
};

static const char one_agent[] =
    "cellspan itself starts one agent on each node; -n is their number, and the cell's -n that of "
    "the ranks";
static const char streams[] = "cellspan itself uses mpirun's input and output";
static const char no_run[] = "with this option mpirun starts nothing";
static const char one_program[] = "cellspan itself says which program runs";
static const char folder[] = "ranks run in the notebook's folder";
static const char variables[] =
    "cellspan passes on what its agents need; write -x NAME (Open MPI) or -genv NAME VALUE for more";

static const struct refused_option refusals[] = {
    { "map-by", one_agent },
    { "rank-by", one_agent },
    { "bind-to", one_agent },
    { "ppr", one_agent },
    { "npernode", one_agent },
    { "pernode", one_agent },
    { "npersocket", one_agent },
    { "N", one_agent },
    { "bynode", one_agent },
    { "byslot", one_agent },
    { "bycore", one_agent },
    { "bysocket", one_agent },
    { "bind-to-core", one_agent },
    { "bind-to-socket", one_agent },
    { "cpus-per-proc", one_agent },
    { "cpus-per-rank", one_agent },
    { "rankfile", one_agent },
    { "rf", one_agent },
    { "cpu-set", one_agent },
    { "cpu-list", one_agent },
    { "slot-list", one_agent },
    { "nolocal", one_agent },
    { "loadbalance", one_agent },
    { "membind", one_agent },
    { "ppn", one_agent },
    { "perhost", one_agent },
    { "grr", one_agent },
    { "rr", one_agent },
    { "gpus-per-proc", one_agent },
    { "stdin", streams },
    { "s", streams },
    { "tag-output", streams },
    { "timestamp-output", streams },
    { "merge-stderr-to-stdout", streams },
    { "output", streams },
    { "output-filename", streams },
    { "xml", streams },
    { "xterm", streams },
    { "l", streams },
    { "prepend-rank", streams },
    { "prepend-pattern", streams },
    { "outfile-pattern", streams },
    { "errfile-pattern", streams },
    { "ordered-output", streams },
    { "h", no_run },
    { "help", no_run },
    { "V", no_run },
    { "version", no_run },
    { "info", no_run },
    { "do-not-launch", no_run },
    { "app", one_program },
    { "configfile", one_program },
    { "wdir", folder },
    { "wd", folder },
    { "genvlist", variables },
    { "genvnone", variables },
    { "genvall", variables },
    { "envlist", variables },
    { "envnone", variables },
};

/* Options that are accepted, and how many words follow each. Of other options it is not known which
 * words belong to them. */
static const struct {
    const char *name;
    size_t values;
} taken[] = {
    { "n", 1 },
    { "np", 1 },
    { "c", 1 },
    { "host", 1 },
    { "H", 1 },
    { "hosts", 1 },
    { "hostlist", 1 },
    { "hostfile", 1 },
    { "machinefile", 1 },
    { "default-hostfile", 1 },
    { "f", 1 },
    { "x", 1 },
    { "mca", 2 },
    { "gmca", 2 },
    { "prtemca", 2 },
    { "pmixmca", 2 },
    { "genv", 2 },
    { "env", 2 },
    { "am", 1 },
    { "tune", 1 },
    { "prefix", 1 },
    { "path", 1 },
    { "launch-agent", 1 },
    { "personality", 1 },
    { "timeout", 1 },
    { "max-vm-size", 1 },
    { "report-uri", 1 },
    { "report-pid", 1 },
    { "launcher", 1 },
    { "launcher-exec", 1 },
    { "bootstrap", 1 },
    { "bootstrap-exec", 1 },
    { "rmk", 1 },
    { "iface", 1 },
    { "topolib", 1 },
    { "demux", 1 },
    { "nameserver", 1 },
    { "localhost", 1 },
    { "usize", 1 },
    { "order-nodes", 1 },
    { "allow-run-as-root", 0 },
    { "oversubscribe", 0 },
    { "nooversubscribe", 0 },
    { "noprefix", 0 },
    { "novm", 0 },
    { "do-not-resolve", 0 },
    { "leave-session-attached", 0 },
    { "debug-daemons", 0 },
    { "display-allocation", 0 },
    { "display-map", 0 },
    { "report-bindings", 0 },
    { "show-progress", 0 },
    { "verbose", 0 },
    { "v", 0 },
    { "quiet", 0 },
    { "q", 0 },
    { "enable-x", 0 },
    { "disable-x", 0 },
    { "print-all-exitcodes", 0 },
    { "disable-auto-cleanup", 0 },
    { "disable-hostname-propagation", 0 },
    { "pmi-port", 0 },
    { "skip-launch-node", 0 },
};

/* Open MPI's parameters that place processes, besides those that begin with "rmaps". */
static const char *const placing[] = {
    "hwloc_base_binding_policy",
    "hwloc_default_binding_policy",
    "hwloc_base_cpu_set",
    "hwloc_base_cpu_list",
    "hwloc_default_cpu_list",
    "hwloc_base_slot_list",
    "orte_rankfile",
    "prte_rankfile",
};

/* An MPI takes one dash as well as two. NULL: the word is no option. */
static const char *option_name(const char *word)
{
    return word[0] != '-' || !word[1] ? NULL : word + (word[1] == '-' ? 2 : 1);
}

static bool is_option(const char *word, const char *name)
{
    const char *const own = option_name(word);
    const size_t n = own ? strcspn(own, "=") : 0;

    return own && strncmp(own, name, n) == 0 && !name[n];
}

static const char *refused(const char *word)
{
    if (strcmp(word, ":") == 0 || strcmp(word, "--") == 0)
        return one_program;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (is_option(word, refusals[i].name))
            return refusals[i].why;
    return NULL;
}

static bool places(const char *parameter)
{
    if (strcmp(parameter, "rmaps") == 0 || text_begins(parameter, "rmaps_"))
        return true;
    for (size_t i = 0; i < sizeof placing / sizeof *placing; i++)
        if (strcmp(parameter, placing[i]) == 0)
            return true;
    return false;
}

/* How many words after the option at `at` belong to it. */
static size_t values_of(const struct words *spec, size_t at)
{
    size_t n = 0;

    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (is_option(spec->v[at], taken[i].name)) {
            n = strchr(spec->v[at], '=') && taken[i].values ? taken[i].values - 1 : taken[i].values;
            return n < spec->n - at - 1 ? n : spec->n - at - 1;
        }
    while (at + n + 1 < spec->n && spec->v[at + n + 1][0] != '-' &&
           strcmp(spec->v[at + n + 1], ":") != 0)
        n++;
    return n;
}

int mpi_options_check(const struct words *spec, struct err *err)
{
    if (spec->n && spec->v[0][0] != '-')
        return err_set(err,
                       "'%s' is no option of mpirun: write mpirun's options after mpi:, as in "
                       "--on \"mpi:-n 2 --host gpu1,gpu2\"",
                       spec->v[0]);
    for (size_t i = 0; i < spec->n; i++) {
        const char *const word = spec->v[i], *const name = option_name(word);
        const char *const why = name || word[0] == ':' ? refused(word) : one_program;
        const size_t values = why ? 0 : values_of(spec, i);

        if (why)
            return err_set(err, "%s can't be used here: %s", word, why);
        if (values == 2 && strstr(name, "mca") && places(spec->v[i + 1]))
            return err_set(err, "%s %s can't be used here: %s", word, spec->v[i + 1], one_agent);
        i += values;
    }
    return 0;
}

const char *mpi_option_value(const struct words *spec, const char *const *names, size_t *at)
{
    while (*at < spec->n) {
        const char *const word = spec->v[*at], *const given = strchr(word, '=');
        const size_t values = values_of(spec, *at);
        bool is_one = false;

        for (const char *const *name = names; *name; name++)
            is_one = is_one || is_option(word, *name);
        *at += values + 1;
        if (is_one && (given || values))
            return given ? given + 1 : spec->v[*at - values];
    }
    return NULL;
}
