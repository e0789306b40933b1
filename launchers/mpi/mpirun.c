/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/mpi/mpirun.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each process: says who it is, runs the agent as its child, and says how that ended: on both
 * streams, so that all that was written to either has come when both have said it. The exit status
 * stays 0: at another one an MPI ends all processes. */
#define PRELUDE                                                                                    \
    "echo \"" SCRIPT_MARK MPI_TASK "${OMPI_COMM_WORLD_RANK:-$PMI_RANK} "                           \
    "${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE} $(uname -n)\"; ("
#define POSTLUDE                                                                                   \
    "); s=$?; echo \"" SCRIPT_MARK MPI_ENDED "$s\"; echo \"" SCRIPT_MARK MPI_ENDED "$s\" >&2"

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

/* The oldest versions that have the options which are used here. Intel MPI, and MPIs that others
 * have made from these, number their versions differently, and are not checked. */
static const struct mpi_oldest {
    enum mpi_kind kind;
    const char *name, *before; /* of the number in what mpirun says */
    unsigned major, minor;
} oldest[] = {
    { MPI_OPEN, "Open MPI", "(Open MPI) ", 1, 8 },
    { MPI_OPEN, "Open MPI", "(OpenRTE) ", 1, 8 },
    { MPI_HYDRA, "MPICH", "Version:", 3, 0 },
};

int mpi_version_check(enum mpi_kind kind, const char *program, const char *version, struct err *err)
{
    for (size_t i = 0; i < sizeof oldest / sizeof *oldest; i++) {
        const struct mpi_oldest *o = &oldest[i];
        const char *at = o->kind == kind ? strstr(version, o->before) : NULL;
        unsigned major, minor;

        if (!at || sscanf(at + strlen(o->before), " %u.%u", &major, &minor) < 2)
            continue;
        if (major < o->major || (major == o->major && minor < o->minor))
            return err_set(
                err,
                "%s is of %s %u.%u, which is too old: %u.%u or later is needed. Load "
                "the module of another one before Jupyter starts, or install one: " MPI_INSTALL,
                program, o->name, major, minor, o->major, o->minor);
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
