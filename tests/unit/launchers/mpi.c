/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of launchers/mpi/mpirun.c, mpirun_options.c and mpirun_hosts.c. */
#include "launchers/mpi/mpirun.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

static void mpis_are_told_apart(void)
{
    static const struct {
        const char *version;
        enum mpi_kind kind;
    } cases[] = {
        { "mpirun (Open MPI) 5.0.3\n", MPI_OPEN },
        { "mpirun.openmpi (OpenRTE) 4.1.4\n", MPI_OPEN },
        { "mpirun (IBM Spectrum MPI) 10.4.0.3\n", MPI_OPEN },
        { "HYDRA build details:\n    Version:                                 4.0.2\n", MPI_HYDRA },
        { "Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005\n", MPI_INTEL },
        { "usage: mpirun PROGRAM\n", MPI_UNKNOWN },
        { "", MPI_UNKNOWN },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_int(mpi_kind_of(cases[i].version), cases[i].kind, "<%.20s>", cases[i].version);
}

static void versions_that_are_too_old_are_named(void)
{
    static const struct {
        const char *version, *says; /* NULL: it is new enough */
    } cases[] = {
        { "mpirun (Open MPI) 1.6.5\n", "/y/mpirun is of Open MPI 1.6, which is too old: 1.8 or" },
        { "mpirun (Open MPI) 1.10.2\n", NULL },
        { "mpirun.openmpi (OpenRTE) 1.8.8\n", NULL },
        { "mpirun (Open MPI) 5.0.3\n", NULL },
        { "mpirun (Open MPI) main\n", NULL },
        { "mpirun (IBM Spectrum MPI) 1.0\n", NULL },
        { "HYDRA build details:\n    Version:                                 1.4.1\n",
          "of MPICH 1.4, which is too old: 3.0 or later is needed. Load the module" },
        { "HYDRA build details:\n    Version:                                 3.0.4\n", NULL },
        { "Intel(R) MPI Library for Linux* OS, Version 2.1 Build 20231005\n", NULL },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = { "" };
        const int rc = mpi_version_check(mpi_kind_of(cases[i].version), "/y/mpirun",
                                         cases[i].version, &err);

        if (cases[i].says)
            ok(rc < 0 && strstr(err.text, cases[i].says) && strstr(err.text, "`conda install "),
               "<%.24s>: %s", cases[i].version, err.text);
        else
            ok(rc == 0, "<%.24s> is new enough: %s", cases[i].version, err.text);
    }
}

static int hosts_of(struct words *hosts, const char *list, const char *file)
{
    return list ? mpi_hosts_of_list(hosts, list) : mpi_hosts_of_file(hosts, slice_text(file));
}

static void hosts_that_are_named_twice(void)
{
    static const char more[] =
        "F names h1 twice, and one agent runs on each machine: that is 2 for "
        "the 3 of mpirun's -n; ask for 2 there, or name more hosts",
                      apart[] = "F names h1 twice, with other hosts in between";
    static const struct {
        const char *list, *file;
        unsigned n;
        const char *open, *hydra; /* NULL: fine */
    } cases[] = {
        { "h1,h2", NULL, 0, NULL, NULL },
        { "h1,h2", NULL, 3, NULL, NULL },
        { "h1,h1,h2", NULL, 0, NULL, NULL },
        { "h1,h1,h2", NULL, 3, more, more },
        { "h1,h2,h1", NULL, 0, NULL, apart },
        { "h1:2,h2:1,h1:2", NULL, 2, NULL, NULL },
        { "+n1,+n1,,", NULL, 3, NULL, NULL },
        { NULL, "h1\nh2\nh1\nh2\n", 0, NULL, apart },
        { NULL, "h1\nh2\nh1\nh3\n", 3, NULL, apart },
        { NULL, "h1\nh2\nh1", 3, more, more },
        { NULL, "# h2\n\n  me@h1 slots=2\r\nh2:4 # h1\nh1\tmax_slots=2\n", 3, more, more },
        { NULL, "fe80::1\nfe80::2\nfe80::1:2\n", 3, NULL, NULL },
        { NULL, "", 2, NULL, NULL },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (enum mpi_kind kind = MPI_OPEN; kind <= MPI_INTEL; kind++) {
            const char *const says = kind == MPI_OPEN ? cases[i].open : cases[i].hydra;
            const char *const what = cases[i].list ? cases[i].list : cases[i].file;
            struct words hosts = WORDS_INIT;
            struct err err = { "" };
            int rc = hosts_of(&hosts, cases[i].list, cases[i].file);

            if (rc == 0)
                rc = mpi_hosts_check(&hosts, "F", kind, cases[i].n, &err);
            if (says)
                ok(rc < 0 && strstr(err.text, says), "%u of <%.8s>: %s", cases[i].n, what,
                   err.text);
            else
                ok(rc == 0, "%u of <%.8s> are fine: %s", cases[i].n, what, err.text);
            words_release(&hosts);
        }
}

static void values_of_options_are_found(void)
{
    static const char *const names[] = { "n", "np", NULL };
    struct words spec = WORDS_INIT;
    struct err err = { "" };
    const char *value[3];
    size_t at = 0;

    if (words_split(&spec, "-x -n -n 2 --hostfile n --np=3 -n", &err) < 0)
        abort();
    for (size_t i = 0; i < 3; i++)
        value[i] = mpi_option_value(&spec, names, &at);
    ok(value[0] && value[1] && strcmp(value[0], "2") == 0 && strcmp(value[1], "3") == 0,
       "what belongs to another option is none");
    ok(!value[2], "and one without a value has none");
    words_release(&spec);
}

static void options_that_place_tasks_are_refused(void)
{
    static const struct {
        const char *spec, *says; /* NULL: it is allowed */
    } cases[] = {
        { "", NULL },
        { "-n 2 --hostfile F", NULL },
        { "-np 2 -host a,b --mca plm_rsh_args '-F my config' -x LD_LIBRARY_PATH", NULL },
        { "-f hosts -iface eth0 -genv A B -launcher ssh", NULL },
        { "-n 2 --map-by ppr:2:node", "--map-by can't be used here: cellspan itself starts one" },
        { "-map-by slot", "-map-by" },
        { "--cpu-set 0-3", "--cpu-set" },
        { "-nolocal", "-nolocal" },
        { "-membind numa", "-membind" },
        { "-ppn 2", "-ppn" },
        { "-N 2", "-N" },
        { "-npernode 1", "-npernode" },
        { "--bind-to core", "--bind-to" },
        { "--bind-to=core", "--bind-to=core" },
        { "-prepend-rank", "input and output" },
        { "--output-filename x", "input and output" },
        { "--version", "starts nothing" },
        { "-genvnone", "-genv NAME VALUE" },
        { "-wdir /x", "notebook's folder" },
        { "-n 1 : -n 1", "says which program" },
        { "h1,h2", "'h1,h2' is no option of mpirun" },
        { "-n 2 hostname", "hostname can't be used here: cellspan itself says which program" },
        { "--allow-run-as-root train.py -x", "train.py can't be used here: cellspan itself" },
        { "--hostfile=F train.py", "train.py can't be used here" },
        { "--mca btl tcp train.py", "train.py can't be used here" },
        { "-unheard of -n 2", NULL }, /* what belongs to it isn't known */
        { "-n 2 -", "- can't be used here: cellspan itself says which program" },
        { "--mca rmaps_base_mapping_policy slot", "--mca rmaps_base_mapping_policy can't be used" },
        { "-n 2 -mca rmaps seq", "-mca rmaps can't be used here: cellspan itself starts one" },
        { "-gmca rmaps_ppr_n_pernode 2", "-gmca rmaps_ppr_n_pernode can't" },
        { "--prtemca rmaps_default_mapping_policy slot", "--prtemca rmaps_default" },
        { "--mca hwloc_base_binding_policy core", "--mca hwloc_base_binding_policy can't" },
        { "--mca btl rmaps_x -x rmaps -x --map-by", NULL },
        { "--mca", NULL }, /* mpirun says what is missing */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct words words = WORDS_INIT;
        struct err err = { "" };
        int rc = words_split(&words, cases[i].spec, &err);

        if (rc == 0)
            rc = mpi_options_check(&words, &err);
        if (cases[i].says)
            ok(rc < 0 && strstr(err.text, cases[i].says), "<%s>: %s", cases[i].spec, err.text);
        else
            ok(rc == 0, "<%s> is allowed: %s", cases[i].spec, err.text);
        words_release(&words);
    }
}

static bool has(const struct words *argv, const char *word)
{
    for (size_t i = 0; i < argv->n; i++)
        if (strcmp(argv->v[i], word) == 0)
            return true;
    return false;
}

static int composed(struct words *argv, enum mpi_kind kind, struct err *err)
{
    static char *agent[] = { (char *)(uintptr_t)"/x/cellspan-agent", (char *)(uintptr_t)"--connect",
                             NULL };
    const struct script_spec script = { .command = agent };
    struct words spec = WORDS_INIT;
    int rc = words_split(&spec, "-n 2 -x A", err);

    if (rc == 0)
        rc = mpi_compose(argv, kind, "/y/mpirun", &spec, &script, err);
    words_release(&spec);
    return rc;
}

static void commands_are_composed(void)
{
    static const enum mpi_kind kinds[] = { MPI_OPEN, MPI_HYDRA, MPI_INTEL };
    static const char *const words[] = { "ppr:1:node", "-ppn", "I_MPI_PIN" };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct words argv = WORDS_INIT;
        struct err err = { "" };
        const char *last;

        ok(composed(&argv, kinds[i], &err) == 0 && argv.n > 6, "%s", err.text);
        last = argv.n ? argv.v[argv.n - 1] : "";
        ok(has(&argv, words[i]) && has(&argv, "CELLSPAN_SECRET") && has(&argv, "A"),
           "%s, the secret by its name, and what the user wrote", words[i]);
        ok(strcmp(argv.v[0], "/y/mpirun") == 0 && strcmp(argv.v[argv.n - 2], "-c") == 0 &&
               strstr(last, "/x/cellspan-agent") && strstr(last, "ended"),
           "each process runs the agent, and says how it ended");
        words_release(&argv);
    }
}

static void memory_may_be_out(void)
{
    long n = 0;
    int rc;

    do {
        struct words argv = WORDS_INIT, hosts = WORDS_INIT;
        struct err err = { "" };

        alloc_fail_at(n++);
        rc = composed(&argv, MPI_OPEN, &err);
        if (rc == 0 && (rc = mpi_hosts_of_file(&hosts, slice_text("h1\nme@h2 slots=2\n"))) < 0)
            (void)err_set(&err, "out of memory");
        chaos_left = -1;
        words_release(&argv);
        words_release(&hosts);
        if (rc < 0 && !strstr(err.text, "out of memory"))
            ok(false, "allocation %ld: %s", n, err.text);
    } while (rc < 0);
    ok(true, "every allocation may fail");
}

static void labels_tell_who_wrote_a_line(void)
{
    static const struct {
        const char *line, *text;
        unsigned task;
    } cases[] = {
        { "[1,3]<stderr>:a text", "a text", 3 },
        { "[1,0]<stdout>:", "", 0 },
        { "[prterun-h1-1234@1,12]<stdout>: a text", "a text", 12 },
        { "[3] a text", "a text", 3 },
        { "[h1:01234] a text", "[h1:01234] a text", MPI_NOBODY },
        { "[mpiexec@h1] a text", "[mpiexec@h1] a text", MPI_NOBODY },
        { "[1,2] a text", "[1,2] a text", MPI_NOBODY },
        { "[] a text", "[] a text", MPI_NOBODY },
        { "[] 1] a text", "[] 1] a text", MPI_NOBODY },
        { "[99999999999] a text", "[99999999999] a text", MPI_NOBODY },
        { "[1,3]<stderr", "[1,3]<stderr", MPI_NOBODY },
        { "a text", "a text", MPI_NOBODY },
        { "", "", MPI_NOBODY },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned task;
        const char *text = mpi_unlabel(cases[i].line, &task);

        ok(strcmp(text, cases[i].text) == 0 && task == cases[i].task, "<%s>: %u", cases[i].line,
           task);
    }
}

static void reasons_name_their_host(void)
{
    static const struct {
        const char *line, *host; /* NULL: it is no reason */
    } cases[] = {
        { "ssh: Could not resolve hostname no: Name or service not known", "no" },
        { "ssh: connect to host gpu9 port 22: Connection refused", "gpu9" },
        { "me@gpu9: Permission denied (publickey).", "gpu9" },
        { "Host key verification failed.", "a host" },
        { "ORTE was unable to reliably start one or more daemons.", NULL },
        { "the agent of gpu9 timed out", NULL },
    };
    char host[256];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (cases[i].host)
            ok(mpi_is_reason(cases[i].line) &&
                   strcmp(mpi_host(cases[i].line, host), cases[i].host) == 0,
               "<%s> is about %s", cases[i].line, cases[i].host);
        else
            ok(!mpi_is_reason(cases[i].line), "<%s> is no reason", cases[i].line);
}

int main(void)
{
    mpis_are_told_apart();
    versions_that_are_too_old_are_named();
    hosts_that_are_named_twice();
    values_of_options_are_found();
    options_that_place_tasks_are_refused();
    commands_are_composed();
    memory_may_be_out();
    labels_tell_who_wrote_a_line();
    reasons_name_their_host();
    return plan_done();
}
