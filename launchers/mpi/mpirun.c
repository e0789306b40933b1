/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/mpi/mpirun.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each process: says who it is, runs the agent as its child, and says how that ended. The exit
 * status stays 0: at another one an MPI ends all processes. */
#define PRELUDE                                                                                    \
    "echo \"" SCRIPT_MARK MPI_TASK "${OMPI_COMM_WORLD_RANK:-$PMI_RANK} "                           \
    "${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE} $(uname -n)\"; ("
#define POSTLUDE "); echo \"" SCRIPT_MARK MPI_ENDED "$?\""

enum mpi_kind mpi_kind_of(const char *version)
{
    static const struct {
        const char *says;
        enum mpi_kind kind;
    } known[] = {
        { "Intel(R) MPI", MPI_INTEL }, { "Open MPI", MPI_OPEN }, { "OpenRTE", MPI_OPEN },
        { "PRRTE", MPI_OPEN },         { "Spectrum", MPI_OPEN }, { "HYDRA", MPI_HYDRA },
        { "MPICH", MPI_HYDRA },        { "MVAPICH", MPI_HYDRA },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(version, known[i].says))
            return known[i].kind;
    return MPI_UNKNOWN;
}

/* ---- SPEC ---- */

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

/* An MPI takes one dash as well as two. */
static const char *refused(const char *word)
{
    const char *const name = word + (word[1] == '-' ? 2 : 1);

    if (strcmp(word, ":") == 0 || strcmp(word, "--") == 0)
        return one_program;
    if (word[0] != '-')
        return NULL;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (strncmp(name, refusals[i].name, strcspn(name, "=")) == 0 &&
            !refusals[i].name[strcspn(name, "=")])
            return refusals[i].why;
    return NULL;
}

int mpi_options_check(const struct words *spec, struct err *err)
{
    if (spec->n && spec->v[0][0] != '-')
        return err_set(err,
                       "'%s' is no option of mpirun: write mpirun's options after mpi:, as in "
                       "--on \"mpi:-n 2 --host gpu1,gpu2\"",
                       spec->v[0]);
    for (size_t i = 0; i < spec->n; i++) {
        const char *why = refused(spec->v[i]);

        if (why)
            return err_set(err, "%s can't be used here: %s", spec->v[i], why);
    }
    return 0;
}

/* ---- the command ---- */

static int add_all(struct words *argv, const char *const *word)
{
    for (; *word; word++)
        if (words_add(argv, *word) < 0)
            return -1;
    return 0;
}

/* The secret goes by its name. A folder that is on each node is where the script starts. */
static int add_options(struct words *argv, enum mpi_kind kind)
{
    static const char *const open[] = { "--map-by", "ppr:1:node", "--bind-to",
                                        "none",     "-x",         "CELLSPAN_SECRET",
                                        "--wdir",   "/",          "--tag-output",
                                        NULL };
    static const char *const hydra[] = { "-ppn",  "1", "-genvlist",     "CELLSPAN_SECRET",
                                         "-wdir", "/", "-prepend-rank", NULL };
    static const char *const intel[] = { "-genv", "I_MPI_PIN", "off", NULL };

    if (kind == MPI_OPEN)
        return add_all(argv, open);
    if (add_all(argv, hydra) < 0)
        return -1;
    return kind == MPI_INTEL ? add_all(argv, intel) : 0;
}

int mpi_compose(struct words *argv, enum mpi_kind kind, const char *program,
                const struct words *spec, const struct script_spec *script, struct err *err)
{
    struct buf text = BUF_INIT;
    int rc = words_add(argv, program) < 0 || add_options(argv, kind) < 0 ? -1 : 0;

    for (size_t i = 0; rc == 0 && i < spec->n; i++)
        rc = words_add(argv, spec->v[i]);
    if (rc == 0 && (buf_add_text(&text, PRELUDE) < 0 || script_line(&text, script, err) < 0 ||
                    buf_add_text(&text, POSTLUDE) < 0 || words_add(argv, "sh") < 0 ||
                    words_add(argv, "-c") < 0 || words_add(argv, text.p) < 0))
        rc = -1;
    buf_release(&text);
    return rc < 0 && !err->text[0] ? err_set(err, "out of memory") : rc;
}

/* ---- labels ---- */

/* "[1,3]<stderr>:text" of Open MPI, "[job@1,3]<stderr>: text" of later ones, "[3] text" of Hydra */
const char *mpi_unlabel(const char *line, unsigned *task)
{
    const char *const end = line[0] == '[' ? strchr(line, ']') : NULL;
    const char *digits = end, *text;

    *task = MPI_NOBODY;
    while (digits && digits[-1] >= '0' && digits[-1] <= '9')
        digits--;
    if (!end || digits == end || end - digits > 5 || (digits[-1] != '[' && digits[-1] != ','))
        return line;
    text = end + 1;
    if (digits[-1] == ',') {
        if (!text_begins(text, "<std") || !(text = strstr(text, ">:")))
            return line;
        text += 2;
    } else if (*text != ' ') {
        return line;
    }
    *task = (unsigned)strtoul(digits, NULL, 10);
    if (*task >= MPI_NOBODY)
        *task = MPI_NOBODY;
    return text + (*text == ' ');
}

/* ---- ssh ---- */

bool mpi_is_reason(const char *line)
{
    return text_begins(line, "ssh: ") || strstr(line, ": Permission denied (") ||
           text_begins(line, "Host key verification failed");
}

/* "ssh: connect to host H port 22: …", "ssh: Could not resolve hostname H: …",
 * "USER@H: Permission denied (…)" */
const char *mpi_host(const char *line, char host[static 256])
{
    static const char *const before[] = { "hostname ", "to host ", "@" };

    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        const char *at = strstr(line, before[i]);
        const size_t n = at ? strcspn(at + strlen(before[i]), ": ") : 0;

        if (n > 0 && n < 256) {
            snprintf(host, 256, "%.*s", (int)n, at + strlen(before[i]));
            return host;
        }
    }
    snprintf(host, 256, "a host");
    return host;
}
