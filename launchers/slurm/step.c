/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/slurm/step.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launchers/agent_script.h"
#include "launchers/environment_modules.h"
#include "launchers/relay_child.h"

/* The start of each agent's shell code: prints who it is, and sets the agent's number. (srun passes
 * the environment on.) A notice that comes before the agent is there must not end the task. */
#define PRELUDE                                                                                    \
    "trap '' USR1 USR2; "                                                                          \
    "echo \"" SCRIPT_MARK STEP_TASK                                                                \
    "$SLURM_PROCID $SLURM_NTASKS $SLURM_JOB_ID ${SLURMD_NODENAME:-$(hostname)} "                   \
    "$SLURM_STEP_ID\"; "                                                                           \
    "CELLSPAN_AGENT=$SLURM_PROCID; export CELLSPAN_AGENT; "

static int add_all(struct words *argv, const char *const *word)
{
    for (; *word; word++)
        if (words_add(argv, *word) < 0)
            return -1;
    return 0;
}

static int add_format(struct words *argv, const char *format, const char *text)
{
    char word[256];

    snprintf(word, sizeof word, format, text);
    return words_add(argv, word);
}

/* For a new job. Unless the spec says otherwise: one node, and a CPU for each of its ranks. */
static int add_job(struct words *argv, const struct step_plan *plan,
                   const struct slurm_options *options)
{
    const unsigned nodes = options->n_nodes ? options->n_nodes : 1;
    char number[16];

    if (!options->name && words_add(argv, "--job-name=cellspan") < 0)
        return -1;
    if (!options->nodes && words_add(argv, "--nodes=1") < 0)
        return -1;
    if (options->cpus || !plan->ranks || (options->nodes && !options->n_nodes))
        return 0;
    snprintf(number, sizeof number, "%u", (plan->ranks + nodes - 1) / nodes);
    return add_format(argv, "--cpus-per-task=%s", number);
}

/* For a step in our job: requests all that the job has, shared with its other steps. Without these
 * options, a step gets only the GPUs of one of the job's tasks. */
static int add_step(struct words *argv, const struct step_plan *plan,
                    const struct slurm_options *options)
{
    char number[16];

    if (words_add(argv, "--overlap") < 0 ||
        (plan->nodes && add_format(argv, "--nodes=%s", plan->nodes) < 0))
        return -1;
    snprintf(number, sizeof number, "%u", plan->gpus);
    /* otherwise the task may see only some of them */
    if (plan->gpus && words_add(argv, "--gpu-bind=none") < 0)
        return -1;
    return plan->gpus && !options->gpus ? add_format(argv, "--gpus-per-node=%s", number) : 0;
}

static int add_script(struct words *argv, const struct step_plan *plan, struct err *err)
{
    const struct script_spec spec = { .command = plan->command,
                                      .prefix = plan->prefix,
                                      .modules = modules_told(),
                                      .payload = plan->payload,
                                      .together = true,
                                      .image = plan->image };
    struct buf script = BUF_INIT;
    int rc = buf_add_text(&script, PRELUDE) < 0 ? err_set(err, "out of memory")
                                                : script_line(&script, &spec, err);

    if (rc == 0 &&
        (words_add(argv, "sh") < 0 || words_add(argv, "-c") < 0 || words_add(argv, script.p) < 0))
        rc = err_set(err, "out of memory");
    buf_release(&script);
    return rc;
}

int step_compose(struct words *argv, const struct step_plan *plan,
                 const struct slurm_options *options, const struct words *spec, struct err *err)
{
    /* --wait, --kill-on-bad-exit, --no-kill: if one agent or node ends, the others continue. */
    static const char *const always[] = { "srun",
                                          "--ntasks-per-node=1",
                                          "--kill-on-bad-exit=0",
                                          "--wait=0",
                                          "--no-kill",
                                          "--unbuffered",
                                          "--input=all",
                                          "--mpi=none",
                                          "--cpu-bind=none",
                                          "--export=ALL",
                                          "--label",
                                          NULL };
    int rc = add_all(argv, always);

    if (rc == 0)
        rc = plan->inside ? add_step(argv, plan, options) : add_job(argv, plan, options);
    for (size_t i = 0; rc == 0 && i < spec->n; i++)
        rc = words_add(argv, spec->v[i]);
    if (rc)
        return err_set(err, "out of memory");
    return add_script(argv, plan, err);
}

/* What the program writes must be passed on as it comes: without --unbuffered, Slurm would wait for
 * newlines. */
int step_relay(struct words *argv, unsigned long job, const char *node, const char *agent,
               const char *folder)
{
    char id[40];
    const char *const words[] = { "srun",         id,
                                  "--overlap",    "--nodes=1",
                                  "--ntasks=1",   "-w",
                                  node,           "--gres=none",
                                  "--mpi=none",   "--cpu-bind=none",
                                  "--unbuffered", "--quiet",
                                  agent,          RELAY_OPTION,
                                  folder,         NULL };

    snprintf(id, sizeof id, "--jobid=%lu", job);
    return add_all(argv, words);
}

bool step_hides(const char *name, bool inside, bool leave)
{
    static const char *const streams[] = {
        "SLURM_LABELIO",           "SLURM_STDINMODE",      "SLURM_STDOUTMODE",
        "SLURM_STDERRMODE",        "SLURM_OPEN_MODE",      "SLURM_MULTI_PROG",
        "SLURM_EXPORT_ENV",        "SRUN_EXPORT_ENV",      "SLURM_WAIT",
        "SLURM_KILL_BAD_EXIT",     "SLURM_NTASKS",         "SLURM_NPROCS",
        "SLURM_NTASKS_PER_NODE",   "SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_CORE",
        "SLURM_NTASKS_PER_SOCKET", "SLURM_GPUS_PER_TASK",  "SLURM_TRES_PER_TASK",
    };
    /* With these a step gets only a part of the job's resources, as the tasks of the job's own
     * script do. The agent must have all of them on its node. */
    static const char *const shares[] = {
        "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK",
        "SLURM_EXACT",         "SLURM_EXCLUSIVE",
        "SLURM_GPU_BIND",      "SLURM_GPUS",
        "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_SOCKET",
        "SLURM_CPUS_PER_GPU",  "SLURM_CPU_BIND",
        "SLURM_MEM_BIND",      "SLURM_DISTRIBUTION",
        "SLURM_THREADS",       "SLURM_STEP_GRES",
        "SLURM_GRES",          "SLURM_ARBITRARY_NODELIST",
        "SLURM_TRES_BIND",
    };
    static const char *const kept[] = { "SLURM_CONF", "SLURM_JWT", "SLURM_CLUSTERS",
                                        "SLURM_CONF_SERVER" };

    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (strcmp(name, streams[i]) == 0)
            return true;
    for (size_t i = 0; inside && i < sizeof shares / sizeof *shares; i++)
        if (strcmp(name, shares[i]) == 0)
            return true;
    if (!leave || (strncmp(name, "SLURM_", 6) != 0 && strncmp(name, "SLURMD_", 7) != 0))
        return false;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strcmp(name, kept[i]) == 0)
            return false;
    return true;
}

/* ---- how many GPUs a job has on each node, from the output of scontrol ---- */

#define GPUS_MAX 1024u

/* Counts the GPUs: "gpu:a100:2(IDX:0-1),gpu:1(IDX:2),nic:1" has 3. The list ends at a blank. */
static unsigned count(const char *gres)
{
    unsigned long sum = 0;

    while (*gres && !isspace((unsigned char)*gres)) {
        const size_t item = strcspn(gres, ", \n"), name = strcspn(gres, "(, \n");
        const char *number = gres + name;

        while (number > gres && isdigit((unsigned char)number[-1]))
            number--;
        if (strncmp(gres, "gpu:", 4) == 0 && number > gres && number[-1] == ':')
            sum += strtoul(number, NULL, 10);
        gres += item;
        while (*gres == ',') { /* commas may also be within (IDX:0,2) */
            gres++;
            if (isalpha((unsigned char)*gres))
                break;
            gres += strcspn(gres, ", \n");
        }
    }
    return sum > GPUS_MAX ? 0 : (unsigned)sum;
}

/* The text has a line for each group of equal nodes: "Nodes=n[1-2] CPU_IDs=2-3 Mem=0
 * GRES=gpu:2(IDX:0-1)" */
unsigned step_gpus_per_node(const char *text, unsigned *most)
{
    static const char nodes[] = " Nodes=", gres[] = " GRES=";
    unsigned least = 0;

    *most = 0;
    while ((text = strstr(text, nodes))) {
        const char *at, *const next = strstr(text + 1, nodes);
        unsigned n;

        text += strlen(nodes);
        at = strstr(text, gres);
        n = at && (!next || at < next) ? count(at + strlen(gres)) : 0;
        if (n == 0)
            return 0;
        least = least && least < n ? least : n;
        *most = *most > n ? *most : n;
    }
    return least;
}
