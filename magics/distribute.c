/* SPDX-License-Identifier: BSD-3-Clause */
/* distribute.c - %%distribute, and %distribute script.py. */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "magics/option.h"

#define DAY_MS   (UINT64_C(24) * 3600 * 1000)
#define NEVER_MS (365 * DAY_MS)

static const char *const own[] = { "own", NULL };
static const char *const gpu[] = { "gpu", NULL };
/* enum plan_merge, in its order */
static const char *const modes[] = { "fold", "prefix", "rank0", "panel", "raw", NULL };
static const char *const backends[] = { "nccl", "gloo", NULL };
/* more engines may be on PATH */
static const char *const engines[] = { "local", "ssh", "slurm", "mpi", "ray", "spark", NULL };

static const struct option options[] = {
    OPTION("nproc", OPTION_COUNT, n, .letter = 'n', .also = "np", .value = "N|gpu", .words = gpu,
           .min = 1, .max = 65536,
           .standard =
               "the group's size, else CELLSPAN_N, else one per GPU, else one per core up to 4",
           .alone = "CELLSPAN_N, else one per GPU, else one per core up to 4",
           .excludes = "nproc-per-node", .argument = "n",
           .help = "world size; gpu is one rank per GPU"),
    OPTION("nproc-per-node", OPTION_COUNT, per_node, .flags = OPTION_GROUP, .value = "N|gpu",
           .words = gpu, .min = 1, .max = 65536, .excludes = "nproc",
           .help = "ranks on each machine, as torchrun has it"),
    OPTION("on", OPTION_ENGINE, on, .flags = OPTION_GROUP, .value = "ENGINE[:SPEC]",
           .words = engines, .words_are = "engine",
           .standard = "where the group is, at first CELLSPAN_ON, else local",
           .alone = "CELLSPAN_ON, else local", .help = "where: ssh:host1,host2*4, slurm:--nodes=2"),
    OPTION("in", OPTION_PATH, image, .flags = OPTION_GROUP, .value = "IMAGE", .argument = "image",
           .standard = "CELLSPAN_IN, else none",
           .help = "in containers of this image, with --on ssh or slurm; none: in none"),
    OPTION_ROW_RANKS("run only on these ranks"),
    OPTION("merge", OPTION_MODE, merge, .value = "MODE", .words = modes, .words_are = "mode",
           .standard = "CELLSPAN_MERGE, else fold",
           .help = "how output is shown: fold, prefix, rank0, panel or raw"),
    OPTION("into", OPTION_NAME, into, .flags = OPTION_CELL, .value = "NAME",
           .help = "bind rank 0's result to NAME at home"),
    OPTION("gather", OPTION_FLAG, gather, .flags = OPTION_CELL,
           .help = "the result is the list of all ranks' results"),
    OPTION("capture", OPTION_NAMES, capture, .flags = OPTION_CELL, .value = "A,B",
           .standard = "all that the cell reads", .excludes = "no-capture",
           .help = "home's variables that travel"),
    OPTION("no-capture", OPTION_FLAG, no_capture, .flags = OPTION_CELL, .excludes = "capture",
           .help = "no variable travels"),
    OPTION("init", OPTION_WORD, init, .flags = OPTION_GROUP | OPTION_BARE, .value = "nccl|gloo",
           .words = backends, .words_are = "backend", .standard = "off",
           .help = "initialise torch.distributed first"),
    OPTION("gpus", OPTION_GPUS, gpus, .flags = OPTION_GROUP, .value = "K|own|K,own", .words = own,
           .words_are = "GPUs", .min = 1, .max = 64, .standard = "1 where there are GPUs",
           .excludes = "no-gpu", .help = "GPUs of each rank; own: it sees no others"),
    OPTION("no-gpu", OPTION_FLAG, no_gpu, .flags = OPTION_GROUP, .excludes = "gpus",
           .help = "ranks get no GPU, and see none"),
    OPTION("share", OPTION_FLAG, share, .flags = OPTION_GROUP,
           .help = "use GPUs that other notebooks or other ranks hold, too"),
    OPTION("wait", OPTION_TIME, wait_ns, .value = "T", .min = 1000, .max = DAY_MS,
           .help = "wait T for GPUs that others hold: 10min, 2h; 24h at most"),
    OPTION("env", OPTION_ENV, env, .flags = OPTION_GROUP, .value = "K=V",
           .help = "set in the ranks' environment; may be given again"),
    OPTION("cwd", OPTION_PATH, cwd, .value = "DIR",
           .standard = "where they are; at first, where the notebook started",
           .alone = "the current one",
           .help = "the ranks' working directory; ~ and $NAME are theirs"),
    OPTION("with", OPTION_PATHS, with, .value = "PATH", .excludes = "no-code",
           .argument = "with_files",
           .help = "send this file or folder to other machines, too; may be given again"),
    OPTION("no-code", OPTION_FLAG, no_code, .excludes = "with",
           .help = "the notebook's own modules don't go to other machines"),
    OPTION("seed", OPTION_SEED, seed, .value = "N",
           .standard = "CELLSPAN_SEED when a rank starts, else new numbers in each process",
           .help = "seed random numbers before the code runs; each rank gets its own"),
    OPTION("timeout", OPTION_TIME, timeout_ns, .value = "T", .min = 1, .max = NEVER_MS,
           .standard = "CELLSPAN_TIMEOUT, else never",
           .help = "stop after T: 10, 10s, 5min, 2h, 500ms"),
    OPTION("grace", OPTION_TIME, grace_ns, .value = "T", .max = NEVER_MS,
           .standard = "CELLSPAN_GRACE, else 10s",
           .help = "how long an interrupt may take before ranks are killed"),
    OPTION("fresh", OPTION_FLAG, fresh, .flags = OPTION_GROUP | OPTION_NOTEBOOK | OPTION_DESTROYS,
           .excludes = "beside", .help = "start the group afresh first"),
    OPTION("beside", OPTION_FLAG, beside, .flags = OPTION_GROUP | OPTION_CELL, .excludes = "fresh",
           .help = "in new processes beside the group's, which end with the cell"),
    { .letter = 'm',
      .kind = OPTION_MODULE,
      .flags = OPTION_LINE,
      .value = "MODULE",
      .help = "run a module; what follows are its arguments" },
    OPTION_ROW_HELP,
    { 0 },
};

static const struct habit habits[] = {
    { "quiet", "--merge rank0" }, { "targets", "--ranks" },
    { "world-size", "--nproc" },  { "nnodes", "--on" },
    { "hosts", "--on" },          { "backend", "--init" },
    { "devices", "--gpus" },      { 0 },
};

static const char *const usage[] = {
    "%%distribute [options]                       run this cell on the ranks",
    "%distribute [options] script.py [args...]    run a script on them, as torchrun does",
    "%distribute [options] -m module [args...]    or a module",
    NULL,
};

/* Is the setting a word of the text? */
static bool has_setting(const char *text, struct slice setting)
{
    for (const char *at = text; (at = strstr(at, "CELLSPAN_")); at++)
        if (strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == setting.n &&
            memcmp(at, setting.p, setting.n) == 0)
            return true;
    return false;
}

const char *distribute_option_of(struct slice setting, char out[static DISTRIBUTE_OPTION])
{
    for (const struct option *o = options; o->name || o->letter; o++)
        if (o->standard && has_setting(o->standard, setting)) {
            if (o->letter)
                snprintf(out, DISTRIBUTE_OPTION, "-%c", o->letter);
            else
                snprintf(out, DISTRIBUTE_OPTION, "--%s", o->name);
            return out;
        }
    return NULL;
}

#define QUOTED_SHOWN (4 * TOKEN_SHOWN + 3) /* each letter may be a quote */

/* A word as it can be typed: a shell and an option line take it as one word. */
static const char *quoted(char out[static QUOTED_SHOWN], const char *word)
{
    char shown[TOKEN_SHOWN];
    size_t n = 0;

    token_shown(shown, word);
    if (!strpbrk(shown, " \t$&;|<>()*?[]#~`\"'\\!{}"))
        return strcpy(out, shown);
    out[n++] = '\'';
    for (const char *at = shown; *at; at++) {
        if (*at == '\'') { /* ends the quotes, stands alone, and opens them again */
            memcpy(out + n, "'\\'", 3);
            n += 3;
        }
        out[n++] = *at;
    }
    memcpy(out + n, "'", 2);
    return out;
}

static int stray_word(const struct call *call, struct err *err)
{
    const size_t at = call->words[0];
    const char *word = call->tokens.v[at].text;
    char shown[TOKEN_SHOWN], typed[QUOTED_SHOWN];

    token_shown(shown, word);
    if (at > 0 && strcmp(call->tokens.v[at - 1].text, "--init") == 0)
        return err_set(err, "--init %s: unknown backend (nccl, gloo)", shown);
    if (word[0] == '#')
        return err_set(err, "%s: a comment can't stand on the option line; put it below", shown);
    if (word[0] && strspn(word, "0123456789") == strlen(word))
        return err_set(err, "%s: unexpected word; did you mean -n %s?", shown, shown);
    if (strlen(word) > 3 && strcmp(word + strlen(word) - 3, ".py") == 0)
        return err_set(err, "%s: unexpected word; a script runs with one %%: %%distribute %s",
                       shown, quoted(typed, word));
    return err_set(err, "%s: unexpected word (%%%%distribute takes options only)", shown);
}

static bool is_empty(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!token_blank(s.p[i]))
            return false;
    return true;
}

/* Puts a newline for each line above the body: line numbers in tracebacks are the cell's. */
static int body_set(const struct call *call, struct plan *plan, struct err *err)
{
    const size_t above = call->lines_above;

    if (call->words_n)
        return stray_word(call, err);
    if (is_empty(call->body))
        return err_set(err,
                       "%%%%distribute: there is nothing to run (the code goes below this line)");
    if (!(plan->body = malloc(above + call->body.n + 1)))
        return err_set(err, "out of memory");
    memset(plan->body, '\n', above);
    memcpy(plan->body + above, call->body.p, call->body.n);
    plan->body_size = above + call->body.n;
    plan->body[plan->body_size] = '\0';
    plan->kind = PLAN_DISTRIBUTE;
    return 0;
}

/* Did the user write code in place of a script's name? */
static bool is_code(const char *word)
{
    const size_t n = strlen(word);

    return strpbrk(word, "()") && !(n > 3 && strcmp(word + n - 3, ".py") == 0);
}

static bool is_notebook(const char *word)
{
    const size_t n = strlen(word);

    return n > 6 && strcasecmp(word + n - 6, ".ipynb") == 0;
}

static int refuse_notebook(const char *name, struct err *err)
{
    char shown[QUOTED_SHOWN];

    return err_set(
        err,
        "%s is a notebook, not a script: papermill %s out.ipynb, or jupyter execute %s, runs it, and its cells on ranks",
        quoted(shown, name), shown, shown);
}

static int argv_set(const struct call *call, struct plan *plan, struct err *err)
{
    if (!call->words_n)
        return call->module
                   ? err_set(err, "-m: needs a value (-m MODULE)")
                   : err_set(
                         err,
                         "%%distribute: which script? (%%distribute [options] script.py, or -m module; "
                         "%%%%distribute runs the cell)");
    if (call->module && list_add(&plan->argv, "-m", 2) < 0)
        return err_set(err, "out of memory");
    for (size_t i = 0; i < call->words_n; i++) {
        const char *word = call->tokens.v[call->words[i]].text;

        if (i == 0 && !call->module && is_code(word))
            return err_set(
                err,
                "%%distribute runs a script; code runs below %%%%distribute, on top of the cell");
        if (i == 0 && !call->module && is_notebook(word))
            return refuse_notebook(word, err);
        if (i == 0 && !*word)
            return err_set(err, "%%distribute: the name of the %s is empty; give one",
                           call->module ? "module" : "script");
        if (list_add(&plan->argv, word, strlen(word)) < 0)
            return err_set(err, "out of memory");
    }
    plan->kind = PLAN_SCRIPT;
    return 0;
}

static int check_gpus(const struct call *call, const struct plan *plan, struct err *err)
{
    const char *as;

    if (plan->wait_ns && plan->share)
        return err_set(err, "--wait and --share can't be used together: --share waits for nobody");
    if (!plan->no_gpu)
        return 0;
    if (plan->n == PLAN_N_GPU &&
        (option_given(call, "nproc", &as) || option_given(call, "nproc-per-node", &as)))
        return err_set(err, "%s gpu and --no-gpu can't be used together", as);
    if (plan->wait_ns)
        return err_set(err, "--wait and --no-gpu can't be used together");
    if (plan->share)
        return err_set(err, "--share and --no-gpu can't be used together");
    return 0;
}

static int finish(const struct call *call, struct plan *plan, struct err *err)
{
    if (plan->per_node == PLAN_N_GPU) { /* one rank per GPU of each node is one per GPU */
        plan->n = PLAN_N_GPU;
        plan->per_node = 0;
    }
    if (plan->gpus != PLAN_GPUS_UNSET && (plan->gpus & PLAN_GPUS_OWN)) {
        plan->gpus &= ~PLAN_GPUS_OWN;
        plan->own_gpus = true;
    }
    plan->merge_set = option_given(call, "merge", NULL) != NULL;
    if (check_gpus(call, plan, err) < 0)
        return -1;
    if (call_check_ranks(call, plan, err) < 0)
        return -1;
    return call->cell ? body_set(call, plan, err) : argv_set(call, plan, err);
}

const struct magic magic_distribute = {
    .name = "distribute",
    .cell = true,
    .script = true,
    .usage = usage,
    .about =
        "Runs Python on many ranks. The value of rank 0's last expression is the cell's result.",
    .options = options,
    .habits = habits,
    .finish = finish,
};
