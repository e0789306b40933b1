/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of launchers/slurm and of launchers/launcher.h. */
#include "launchers/slurm/step.h"

#include <stdio.h>
#include <stdlib.h>

#include "launchers/launcher.h"
#include "launchers/slurm/srun_output.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

struct options_case {
    const char *spec;
    const char *want; /* of "nodes=N cpus gpus name job", those that are set; NULL: refused, */
    const char *says; /* in words that hold this */
};

static const struct options_case options_cases[] = {
    { "", "", NULL },
    { "--partition=gpu --nodes=2 --gres=gpu:2 --time=10:00 -A acct", "nodes=2 gpus job ", NULL },
    { "--partition gpu -N 2 -t 10", "nodes=2 job ", NULL },
    { "-N2 -pgpu", "nodes=2 job ", NULL },
    { "-N 1-4", "nodes=0 ", NULL },
    { "-w n[1-2] -J mine -c 4", "nodes=0 cpus name ", NULL },
    { "-G8", "nodes=0 gpus ", NULL },
    { "--exclusive --gpus-per-node=4", "cpus gpus ", NULL },
    { "--exclusive=user -vv", "cpus ", NULL },
    { "--unknown-to-us value --comment='two words'", "", NULL },
    { "--export=ALL,A=1", "", NULL },
    { "--part=gpu", "job ", NULL },
    { "--signal=USR1@120", "notice=120 ", NULL },
    { "--signal R:sigusr2", "notice=60 ", NULL },
    { "--signal=10@120", "notice=120 ", NULL }, /* SIGUSR1 */
    { "--signal=R:12", "notice=60 ", NULL },
    { "--signal=15@90", "", NULL },
    { "--signal=100@90", "", NULL },
    { "--signal=TERM@90", "", NULL },
    { "--signal=B:USR1@120", NULL, "no rank would hear of it; write --signal=USR1@120" },
    { "--signal RB:10", NULL, "--signal: with B: Slurm tells a batch job's script alone" },
    { "--export=NONE", NULL, "--export=ALL" },
    { "--export=ALLES", NULL, "--export=ALLES" },
    { "--ntasks=3", NULL, "--ntasks=3" },
    { "-n3", NULL, "-n3" },
    { "-N2 -n 3", NULL, "-n can't" },
    { "--ntasks-per-node=3", NULL, "--ntasks-per-node=3" },
    { "--ntask=3", NULL, "--ntask=3" },
    { "--outp=x", NULL, "--outp=x" },
    { "--pty", NULL, "--pty" },
    { "--input=none", NULL, "--input=none" },
    { "--label", NULL, "--label" },
    { "-vl", NULL, "-vl" },
    { "-o file", NULL, "-o" },
    { "-K1", NULL, "-K1" },
    { "-W 5", NULL, "-W" },
    { "--test-only", NULL, "starts nothing" },
    { "gpu", NULL, "'gpu' is no option" },
    { "--overlap hostname", NULL, "'hostname' is no option" },
    { "--nodes=2 -- hostname", NULL, "'--' is no option" },
    { "-", NULL, "'-' is no option" },
    { "-M other", "job cluster=other ", NULL },
    { "--cluster=other -N2", "nodes=2 job cluster=other ", NULL },
    { "--partition", NULL, "--partition needs a value" },
    { "--partition --nodes=2", NULL, "--partition needs a value" },
};

static void described(const struct slurm_options *o, char text[static 128])
{
    char nodes[32] = "", notice[32] = "", cluster[32] = "";

    if (o->nodes)
        snprintf(nodes, sizeof nodes, "nodes=%u ", o->n_nodes);
    if (o->notice)
        snprintf(notice, sizeof notice, "notice=%u ", o->notice);
    if (o->cluster)
        snprintf(cluster, sizeof cluster, "cluster=%s ", o->cluster);
    snprintf(text, 128, "%s%s%s%s%s%s%s", nodes, o->cpus ? "cpus " : "", o->gpus ? "gpus " : "",
             o->name ? "name " : "", o->own_job ? "job " : "", cluster, notice);
}

static void the_time_left_is_read(void)
{
    static const struct {
        const char *text;
        long want;
    } rows[] = { { "9:58", 598 },
                 { "0:00", 0 },
                 { "1:02:03", 3723 },
                 { "2-03:04:05", 183845 },
                 { "UNLIMITED", -1 },
                 { "INVALID", -1 },
                 { "", -1 },
                 { "1:", -1 },
                 { "1:2:3:4", -1 },
                 { "99999-0:00:00", -1 },
                 { "99999999999999:00", -1 },
                 { "4 days", -1 } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        is_int(srun_output_time(rows[i].text), rows[i].want, "'%s'", rows[i].text);
}

static void the_time_before_sigkill_is_read(void)
{
    is_int(slurm_kill_wait("KeepAliveTime = 1 sec\nKillOnBadExit           = 0\n"
                           "KillWait                = 30 sec\nLaunchParameters = (null)\n"),
           30, "as scontrol prints it");
    is_int(slurm_kill_wait("KillWait=5 sec"), 5, "without blanks");
    is_int(slurm_kill_wait("KillWait = 99999999999999999999 sec"), 86400, "a day at most");
    is_int(slurm_kill_wait("KillWait = soon\nKillWait = -"), 0, "what is no number is none");
    is_int(slurm_kill_wait(""), 0, "without an answer");
}

static void options_are_read_or_refused(void)
{
    for (size_t i = 0; i < sizeof options_cases / sizeof *options_cases; i++) {
        const struct options_case *c = &options_cases[i];
        struct words words = WORDS_INIT;
        struct slurm_options o;
        struct err err = { "" };
        char text[128];
        int rc = words_split(&words, c->spec, &err);

        if (rc == 0)
            rc = slurm_options_read(&o, &words, &err);
        if (rc == 0)
            described(&o, text);
        if (c->want)
            ok(rc == 0 && strcmp(text, c->want) == 0, "<%s> says %s", c->spec, c->want);
        else
            ok(rc < 0 && strstr(err.text, c->says), "<%s> is refused: %s", c->spec, err.text);
        words_release(&words);
    }
}

/* ---- step ---- */

struct step_case {
    struct step_plan plan;
    const char *spec;
    const char *has[3]; /* words that are there */
    const char *lacks;  /* none begins like this; NULL: unasked */
};

static char *agent[] = { (char *)(uintptr_t)"/x/cellspan-agent", (char *)(uintptr_t)"--connect",
                         NULL };

static const struct step_case step_cases[] = {
    { { .ranks = 3 },
      "",
      { "--nodes=1", "--cpus-per-task=3", "--job-name=cellspan" },
      "--overlap" },
    { { .ranks = 5 }, "--nodes=2", { "--cpus-per-task=3", "--nodes=2" }, "--nodes=1" },
    { { .ranks = 5 }, "-N2 -c 1", { "-c" }, "--cpus-per-task" },
    { { .ranks = 5 }, "-N 1-2", { "-N" }, "--cpus-per-task" },
    { { .ranks = 0 }, "-J mine", { "--nodes=1", "mine" }, "--job-name" },
    { { .ranks = 4 }, "--gpus=4", { "--gpus=4" }, "--nodes" },
    { { .inside = true, .nodes = "4", .ranks = 8 },
      "",
      { "--overlap", "--nodes=4" },
      "--cpus-per-task" },
    { { .inside = true, .nodes = "4", .gpus = 2 },
      "",
      { "--gpus-per-node=2", "--gpu-bind=none" },
      "--job-name" },
    { { .inside = true, .nodes = "4", .gpus = 2 },
      "--gres=gpu:1",
      { "--gres=gpu:1" },
      "--gpus-per-node" },
    { { .inside = true },
      "--nodes=2",
      { "--nodes=2", "--ntasks-per-node=1", "--export=ALL" },
      "--gpu" },
};

static bool has_word(const struct words *w, const char *word, size_t n)
{
    for (size_t i = 0; i < w->n; i++)
        if (strncmp(w->v[i], word, n) == 0)
            return true;
    return false;
}

static void a_step_has_one_task_a_node_and_what_the_spec_leaves_open(void)
{
    for (size_t i = 0; i < sizeof step_cases / sizeof *step_cases; i++) {
        const struct step_case *c = &step_cases[i];
        struct words spec = WORDS_INIT, argv = WORDS_INIT;
        struct step_plan plan = c->plan;
        struct slurm_options o;
        struct err err = { "" };
        bool good;

        plan.command = agent;
        good = words_split(&spec, c->spec, &err) == 0 && slurm_options_read(&o, &spec, &err) == 0 &&
               step_compose(&argv, &plan, &o, &spec, &err) == 0;
        for (unsigned k = 0; good && k < 3 && c->has[k]; k++)
            good = has_word(&argv, c->has[k], strlen(c->has[k]) + 1);
        if (good && c->lacks)
            good = !has_word(&argv, c->lacks, strlen(c->lacks));
        ok(good, "step %zu: -n %u %s <%s> %s", i, plan.ranks, plan.inside ? "within" : "of its own",
           c->spec, err.text);
        words_release(&spec);
        words_release(&argv);
    }
}

static bool has(const struct words *argv, const char *word)
{
    for (size_t i = 0; i < argv->n; i++)
        if (strcmp(argv->v[i], word) == 0)
            return true;
    return false;
}

static void any_allocation_of_a_step_may_fail(void)
{
    struct step_plan plan = { .ranks = 4, .command = agent };
    struct slurm_options o = { .nodes = false };
    struct words spec = WORDS_INIT, argv = WORDS_INIT;
    struct err err = { "" };
    int rc = -1;

    for (long nth = 0; rc < 0 && nth < 500; nth++) {
        words_release(&argv);
        alloc_fail_at(nth);
        rc = step_compose(&argv, &plan, &o, &spec, &err);
        alloc_fail_at(-1);
    }
    ok(rc == 0, "and the next attempt works");
    words_release(&argv);
}

static void a_relay_is_a_step_on_one_node_of_the_job(void)
{
    struct words argv = WORDS_INIT;
    int rc = -1;

    for (long nth = 0; rc < 0 && nth < 500; nth++) {
        words_release(&argv);
        alloc_fail_at(nth);
        rc = step_relay(&argv, 12, "n2", "/opt/my agent", "/tmp/a folder");
        alloc_fail_at(-1);
    }
    ok(rc == 0 && argv.n > 4 && strcmp(argv.v[0], "srun") == 0, "a step");
    ok(has(&argv, "--jobid=12") && has(&argv, "--overlap") && has(&argv, "--nodes=1") &&
           has(&argv, "n2"),
       "beside the others, on that node");
    ok(has(&argv, "--unbuffered"), "whose output does not wait for newlines");
    ok(!has(&argv, "--label"), "and comes as it is");
    is_text(argv.v[argv.n - 1], "/tmp/a folder", "the folder is one word");
    is_text(argv.v[argv.n - 3], "/opt/my agent", "and so is the agent");
    words_release(&argv);
}

static void variables_that_srun_takes_for_options_are_hidden(void)
{
    ok(step_hides("SLURM_NTASKS", false, false) && step_hides("SLURM_LABELIO", false, false),
       "those that change its tasks or streams");
    ok(step_hides("SLURM_CPUS_PER_TASK", true, false) &&
           step_hides("SLURM_TRES_BIND", true, false) &&
           !step_hides("SLURM_CPUS_PER_TASK", false, false),
       "within a job, its tasks' shares");
    ok(!step_hides("SLURM_JOB_ID", true, false) && step_hides("SLURM_JOB_ID", true, true),
       "the job itself, only to leave it");
    ok(!step_hides("SLURM_CONF", false, true) && !step_hides("CELLSPAN_SECRET", true, true) &&
           !step_hides("PATH", true, true),
       "and no more");
}

/* ---- says ---- */

struct says_case {
    const char *line;
    enum srun_output_kind kind;
    unsigned long job;
    const char *tasks;
    const char *text;
};

static const struct says_case says_cases[] = {
    { "srun: job 12 queued and waiting for resources", SRUN_QUEUED, 12, "", NULL },
    { "srun: job 12 has been allocated resources", SRUN_ALLOCATED, 12, "", NULL },
    { "srun: error: n2: task 1: Exited with exit code 3", SRUN_TASKS, 0, "1",
      "Exited with exit code 3" },
    { "srun: error: n[1-2]: tasks 0-1,4: Killed", SRUN_TASKS, 0, "0-1,4", "Killed" },
    { "srun: error: Node failure on n2", SRUN_NODE, 0, "", "n2" },
    { "srun: cluster configuration lacks support for cpu binding", SRUN_NOISE, 0, "", NULL },
    { "srun: Force Terminated JobId=9", SRUN_TEXT, 9, "", NULL },
    { "srun: Job allocation 9 has been revoked", SRUN_TEXT, 9, "", NULL },
    { "srun: error: Task launch for StepId=9.0 failed on node n2: Communication connection failure",
      SRUN_UNSTARTED, 0, "", "n2: Communication connection failure" },
    { "srun: error: Task launch for StepId=9.0 failed on node n2", SRUN_TEXT, 0, "", NULL },
    { "srun: error: n2: task x: y", SRUN_TEXT, 0, "", NULL },
    { "srun: error: n2: task 1", SRUN_TEXT, 0, "", NULL },
    { "srun: error: n2: task 99999999999: Killed", SRUN_TASKS, 0, "", "Killed" },
    { "my job 7 queued and waiting for resources", SRUN_TEXT, 0, "", NULL },
    { "srun: lua: limits are those of job 7", SRUN_TEXT, 0, "", NULL },
    { "JobId=7", SRUN_TEXT, 0, "", NULL },
    { "", SRUN_TEXT, 0, "", NULL },
};

static void what_srun_says_is_understood(void)
{
    for (size_t i = 0; i < sizeof says_cases / sizeof *says_cases; i++) {
        const struct says_case *c = &says_cases[i];
        struct buf tasks = BUF_INIT;
        struct srun_output s;
        const bool read = srun_output_read(&s, c->line) == 0 && ranks_format(&s.tasks, &tasks) == 0;

        ok(read && s.kind == c->kind && s.job == c->job &&
               strcmp(tasks.p ? tasks.p : "", c->tasks) == 0 &&
               (c->text ? s.text && strcmp(s.text, c->text) == 0 : true),
           "<%s>", c->line);
        buf_release(&tasks);
        srun_output_release(&s);
    }
    ok(slurm_reason_hopeless("PartitionNodeLimit") && !slurm_reason_hopeless("Resources") &&
           !slurm_reason_hopeless("Priority"),
       "what waits in vain is known");
    ok(slurm_reason_meaning("PartitionConfig") && slurm_reason_meaning("PartitionDown") &&
           !slurm_reason_meaning("Resources"),
       "and what may: %s", slurm_reason_meaning("PartitionConfig"));
    ok(slurm_reason_meaning("ReqNodeNotAvail, UnavailableNodes:n1") &&
           slurm_reason_meaning(
               "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"),
       "and that nodes are down");
}

static void an_agents_own_words_are_found(void)
{
    static const struct {
        const char *line, *words; /* NULL: it has none */
    } lines[] = {
        { "cellspan-agent on n1: it is late", "cellspan-agent: it is late" },
        { "cellspan-agent on n1 can't reach the kernel", "cellspan-agent can't reach the kernel" },
        { "cellspan-agent on n1", NULL },
        { "cellspan-agent on  n1: what", NULL },
        { "cellspan-agent: what", NULL },
        { "cellspan-guard on n1: what", NULL },
        { "", NULL },
    };
    char text[64];

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const bool found = srun_output_words(lines[i].line, "cellspan-agent", text, sizeof text);

        ok(found == (lines[i].words != NULL) && (!found || strcmp(text, lines[i].words) == 0),
           "<%s>", lines[i].line);
    }
}

static void lines_of_tasks_are_told_from_sruns(void)
{
    static const struct {
        const char *line, *rest;
        unsigned task;
    } lines[] = {
        { "0: hello", "hello", 0 },
        { "  17: 3: hello", "3: hello", 17 },
        { "4: ", "", 4 },
        { "srun: job 12 queued", "srun: job 12 queued", SRUN_NOBODY },
        { "4", "4", SRUN_NOBODY },
        { "4:5", "4:5", SRUN_NOBODY },
        { "9999999999: x", "9999999999: x", SRUN_NOBODY },
        { " : x", " : x", SRUN_NOBODY },
        { "", "", SRUN_NOBODY },
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        unsigned task = 0;
        const char *rest = srun_output_unlabel(lines[i].line, &task);

        ok(strcmp(rest, lines[i].rest) == 0 && task == lines[i].task, "<%s>", lines[i].line);
    }
}

static void gpus_are_counted_that_every_node_has(void)
{
    unsigned most;

    is_int(
        step_gpus_per_node(
            "JobId=1 JOB_GRES=gpu:4 Nodes=n[1-2] CPU_IDs=2-3 Mem=0 GRES=gpu:2(IDX:0-1) MinCPUs=1",
            &most),
        2, "one group of nodes");
    is_int(
        step_gpus_per_node(
            "x\n     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0,2)\n     Nodes=n2 CPU_IDs=0 Mem=0 "
            "GRES=gpu:2(IDX:0-1)\n",
            &most),
        2, "two groups");
    is_int(
        step_gpus_per_node(
            "x Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0) Nodes=n2 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)",
            &most),
        1, "the least of those that are not alike");
    is_int(most, 2, "and the most");
    is_int(step_gpus_per_node(
               "x Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0) Nodes=n2 CPU_IDs=0 Mem=0 GRES=",
               &most),
           0, "one without");
    is_int(step_gpus_per_node("x Nodes=n1 CPU_IDs=0 Mem=0 Nodes=n2 CPU_IDs=0 Mem=0 GRES=gpu:2",
                              &most),
           0, "one that doesn't say");
    is_int(step_gpus_per_node(
               "x Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:a100:2(IDX:0,2),gpu:t4:1(IDX:1),nic:3", &most),
           3, "of several types");
    is_int(step_gpus_per_node("x Nodes=n1 CPU_IDs=0 Mem=0 GRES=nic:3,gpu:a100:8", &most), 8,
           "behind others");
    is_int(step_gpus_per_node("x Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:99999999", &most), 0,
           "no nonsense");
    is_int(step_gpus_per_node("", &most), 0, "nothing");
}

static void arguments_are_read_or_refused(void)
{
    static const char *const bad[][6] = {
        { "x" },
        { "x", "--" },
        { "x", "--spec" },
        { "x", "--ranks", "0", "--", "c" },
        { "x", "--ranks", "2x", "--", "c" },
        { "x", "--agents", "1", "--", "c" },
        { "x", "command" },
    };
    char *good[] = {
        (char *)(uintptr_t)"/y/x",   (char *)(uintptr_t)"--ranks",   (char *)(uintptr_t)"4",
        (char *)(uintptr_t)"--spec", (char *)(uintptr_t)"--nodes=2", (char *)(uintptr_t)"--",
        (char *)(uintptr_t)"c",      (char *)(uintptr_t)"--",        NULL
    };
    struct launch_arguments a;
    struct err err = { "" };

    ok(launch_arguments_read(&a, 8, good, "", &err) == 0 && a.ranks == 4 &&
           strcmp(a.spec, "--nodes=2") == 0 && strcmp(a.command[0], "c") == 0 &&
           strcmp(a.command[1], "--") == 0,
       "as the kernel writes them");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *argv[7] = { NULL };
        int n = 0;

        for (; n < 6 && bad[i][n]; n++)
            argv[n] = (char *)(uintptr_t)bad[i][n];
        err.text[0] = '\0';
        ok(launch_arguments_read(&a, n, argv, "", &err) < 0 && err.text[0], "%s", err.text);
    }
}

int main(void)
{
    options_are_read_or_refused();
    the_time_left_is_read();
    the_time_before_sigkill_is_read();
    a_step_has_one_task_a_node_and_what_the_spec_leaves_open();
    any_allocation_of_a_step_may_fail();
    a_relay_is_a_step_on_one_node_of_the_job();
    variables_that_srun_takes_for_options_are_hidden();
    what_srun_says_is_understood();
    an_agents_own_words_are_found();
    lines_of_tasks_are_told_from_sruns();
    gpus_are_counted_that_every_node_has();
    arguments_are_read_or_refused();
    return plan_done();
}
