/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of each line, and the error texts of wrong lines. */
#include <stdlib.h>

#include "magics/plan.h"
#include "tests/unit/tap.h"

/* Parses a cell as the kernel does when nothing is to expand. */
static int parse(const char *cell, struct plan *plan, struct err *err)
{
    struct slice line;

    *plan = (struct plan){ 0 };
    *err = (struct err){ "" };
    if (!plan_peek(slice_text(cell), &line))
        return err_set(err, "(not ours)");
    return plan_parse(slice_text(cell), line, plan, err);
}

static const struct bad {
    const char *cell;
    const char *text;
} bad[] = {
    { "%%distribute --merge foo\n1",
      "--merge foo: unknown mode; did you mean fold? (fold, prefix, rank0, panel, raw)" },
    { "%%distribute --merge=xyz\n1",
      "--merge xyz: unknown mode (fold, prefix, rank0, panel, raw)" },
    { "%%distribute --merge\n1", "--merge: needs a value (--merge MODE)" },
    { "%%distribute --merge --fresh\n1", "--merge: needs a value (--merge MODE)" },
    { "%%distribute -n 0\n1", "-n 0: a world needs at least one rank" },
    { "%%distribute -n -2\n1", "-n -2: a world needs at least one rank" },
    { "%%distribute -n abc\n1", "-n abc: not a number (give a count, or gpu)" },
    { "%%distribute -n 2.5\n1", "-n 2.5: not a whole number (give a count, or gpu)" },
    { "%%distribute --nproc=gpus\n1",
      "--nproc gpus: not a number; did you mean gpu? (give a count, or gpu)" },
    { "%%distribute -n 65537\n1", "-n 65537: the largest world is 65536 ranks" },
    { "%%distribute -n 99999999999999999999999\n1",
      "-n 99999999999999999999999: the largest world is 65536 ranks" },
    { "%%distribute -n\n1", "-n: needs a value (-n N|gpu)" },
    { "%%distribute -n ''\n1", "-n : not a number (give a count, or gpu)" },
    { "%%distribute -n 4 --ranks 7\n1",
      "-n 4 --ranks 7: there is no rank 7 in a world of 4 (ranks 0-3)" },
    { "%%distribute -r 0,2-9 -n 4\n1",
      "-n 4 -r 0,2-9: there is no rank 4 in a world of 4 (ranks 0-3)" },
    { "%%distribute -r -5 --nproc 4\n1",
      "--nproc 4 -r -5: there is no rank -5 in a world of 4 (ranks 0-3)" },
    { "%%distribute -r ''\n1", "-r: a rank is missing" },
    { "%%distribute --capture a --no-capture\n1",
      "--capture and --no-capture can't be used together" },
    { "%%distribute --no-capture --capture=a\n1",
      "--no-capture and --capture can't be used together" },
    { "%%distribute --capture a,1b\n1", "--capture 1b: not a Python name (letters, digits and _)" },
    { "%%distribute --capture ,\n1", "--capture: a name is missing" },
    { "%%distribute --into a.b\n1", "--into a.b: not a Python name (letters, digits and _)" },
    { "%%distribute --into for\n1", "--into for: a Python keyword, not a name; choose another" },
    { "%%distribute --into=\n1", "--into: a name is missing" },
    { "%%distribute --init=mpi\n1", "--init mpi: unknown backend (nccl, gloo)" },
    { "%%distribute --init=glo\n1",
      "--init glo: unknown backend; did you mean gloo? (nccl, gloo)" },
    { "%%distribute --env FOO\n1", "--env FOO: write NAME=VALUE" },
    { "%%distribute --env =1\n1", "--env =1: write NAME=VALUE" },
    { "%%distribute --cwd ''\n1", "--cwd: a folder is missing" },
    { "%%distribute --with ''\n1", "--with: a file or folder is missing" },
    { "%%distribute --with a --no-code\n1", "--with and --no-code can't be used together" },
    { "%%distribute --timeout soon\n1",
      "--timeout soon: not a duration (write 10, 10s, 5min, 2h or 500ms)" },
    { "%%distribute --timeout 0\n1", "--timeout 0: too short (at least 1 ms)" },
    { "%%distribute --grace 9000h\n1", "--grace 9000h: too long (at most 365 days)" },
    { "%%distribute --wait 25h\n1", "--wait 25h: too long (at most 24h)" },
    { "%%distribute --timeout -1\n1",
      "--timeout -1: not a duration (write 10, 10s, 5min, 2h or 500ms)" },
    { "%%distribute --seed x\n1",
      "--seed x: a seed is a whole number from 0 to 18446744073709551615" },
    { "%%distribute --seed -1\n1",
      "--seed -1: a seed is a whole number from 0 to 18446744073709551615" },
    { "%%distribute --seed 1.5\n1",
      "--seed 1.5: a seed is a whole number from 0 to 18446744073709551615" },
    { "%%distribute --seed ''\n1",
      "--seed : a seed is a whole number from 0 to 18446744073709551615" },
    { "%%distribute --seed 18446744073709551616\n1",
      "--seed 18446744073709551616: a seed is a whole number from 0 to 18446744073709551615" },
    { "%%distribute --fresh=1\n1", "--fresh: takes no value" },
    { "%%distribute --nprc 4\n1", "--nprc: unknown option; did you mean --nproc?" },
    { "%%distribute --gr=4\n1", "--gr: unknown option; did you mean --grace?" },
    { "%%distribute --frsh\n1", "--frsh: unknown option (%%distribute --help lists them)" },
    { "%%distribute --panel\n1", "--panel: unknown option; did you mean --merge panel?" },
    { "%%distribute --quiet\n1", "--quiet: unknown option; did you mean --merge rank0?" },
    { "%%distribute --panels\n1", "--panels: unknown option (%%distribute --help lists them)" },
    { "%ranks tops",
      "tops: unknown command (stop, restart, where, check, logs, code, debug, free)" },
    { "%%distribute --gloo\n1", "--gloo: unknown option; did you mean --init gloo?" },
    { "%%distribute --world_size 4\n1", "--world_size: unknown option; did you mean --nproc?" },
    { "%%distribute --bg\n1", "--bg: unknown option (%%distribute --help lists them)" },
    { "%%distribute --zzzzzzzz\n1", "--zzzzzzzz: unknown option (%%distribute --help lists them)" },
    { "%%distribute --dry-run\n1", "--dry-run: unknown option (%%distribute --help lists them)" },
    { "%%distribute -x\n1", "-x: unknown option (%%distribute --help lists them)" },
    { "%%distribute -m mod\n1", "-m: only with %distribute" },
    { "%%distribute 4\n1", "4: unexpected word; did you mean -n 4?" },
    { "%%distribute train.py\n1",
      "train.py: unexpected word; a script runs with one %: %distribute train.py" },
    { "%%distribute # four\n1", "#: a comment can't stand on the option line; put it below" },
    { "%%distribute --init foo\n1", "--init foo: unknown backend (nccl, gloo)" },
    { "%ranks logs --cell -1", "--cell -1: the number of a cell is from 1 to 1000000000" },
    { "%%distribute four\n1", "four: unexpected word (%%distribute takes options only)" },
    { "%%distribute --cwd 'a b\n1", "'a b: the quote is not closed; add '" },
    { "%%distribute", "%%distribute: there is nothing to run (the code goes below this line)" },
    { "%%distribute -n 2\n  \n\t\n",
      "%%distribute: there is nothing to run (the code goes below this line)" },
    { "%distribute",
      "%distribute: which script? (%distribute [options] script.py, or -m module; %%distribute runs the cell)" },
    { "%distribute -m", "-m: needs a value (-m MODULE)" },
    { "%distribute a.ipynb",
      "a.ipynb is a notebook, not a script: papermill a.ipynb out.ipynb, or jupyter execute a.ipynb, runs it, and its cells on ranks" },
    { "%distribute Old.IPYNB",
      "Old.IPYNB is a notebook, not a script: papermill Old.IPYNB out.ipynb, or jupyter execute Old.IPYNB, runs it, and its cells on ranks" },
    { "%distribute 'my work.ipynb'",
      "'my work.ipynb' is a notebook, not a script: papermill 'my work.ipynb' out.ipynb, or jupyter execute 'my work.ipynb', runs it, and its cells on ranks" },
    { "%distribute \"it's.ipynb\"",
      "'it'\\''s.ipynb' is a notebook, not a script: papermill 'it'\\''s.ipynb' out.ipynb, or jupyter execute 'it'\\''s.ipynb', runs it, and its cells on ranks" },
    { "%%distribute 'my train.py'\n1",
      "my train.py: unexpected word; a script runs with one %: %distribute 'my train.py'" },
    { "%%distribute --gpus 1.5\n1", "--gpus 1.5: not a whole number; give a count" },
    { "%distribute ''", "%distribute: the name of the script is empty; give one" },
    { "%distribute --into x a.py", "--into: only with %%distribute" },
    { "%distribute --nprc 4 a.py", "--nprc: unknown option; did you mean --nproc?" },
    { "%push", "%push: which names? (%push NAME... [-r SPEC])" },
    { "%push -r 0", "%push: which names? (%push NAME... [-r SPEC])" },
    { "%push 1a", "%push 1a: not a Python name (letters, digits and _)" },
    { "%push a --into b", "--into: unknown option (%push --help lists them)" },
    { "%pull a b --into c", "--into c: holds one variable, 2 are pulled; name one" },
    { "%pull a --int c", "--int: unknown option; did you mean --into?" },
    { "%ranks stpo",
      "stpo: unknown command (stop, restart, where, check, logs, code, debug, free)" },
    { "%ranks code -r 1", "-r and %ranks code can't be used together" },
    { "%ranks top", "top: unknown command (stop, restart, where, check, logs, code, debug, free)" },
    { "%ranks everything",
      "everything: unknown command (stop, restart, where, check, logs, code, debug, free)" },
    { "%ranks wehre",
      "wehre: unknown command; did you mean where? (stop, restart, where, check, logs, code, debug, free)" },
    { "%ranks where --timeout 3", "--timeout: only with %ranks check" },
    { "%ranks debug", "%ranks debug: which rank? (%ranks debug -r 2, or --continue all)" },
    { "%ranks debug -r 1-2", "%ranks debug: which rank? (%ranks debug -r 2, or --continue all)" },
    { "%ranks debug --continue", "--continue: needs a value (--continue all)" },
    { "%ranks debug --continue 2", "--continue 2: unknown word (all)" },
    { "%ranks debug --continue all -r 2", "-r and --continue can't be used together" },
    { "%ranks stop --continue all", "--continue: only with %ranks debug" },
    { "%ranks --timeout 3", "--timeout: only with %ranks check" },
    { "%%distribute --on\n1", "--on: needs a value (--on ENGINE[:SPEC])" },
    { "%%distribute --on ''\n1", "--on : the engine is missing (--on ENGINE[:SPEC])" },
    { "%%distribute --on :h1\n1", "--on :h1: the engine is missing (--on ENGINE[:SPEC])" },
    { "%%distribute -n 2 --nproc-per-node 2\n1", "-n and --nproc-per-node can't be used together" },
    { "%%distribute --nproc_per_node x\n1",
      "--nproc-per-node x: not a number (give a count, or gpu)" },
    { "%%distribute --on ssh:\n1", "--on ssh:: nothing follows the colon (--on ENGINE[:SPEC])" },
    { "%%distribute --on SSH:h1\n1", "--on SSH:h1: no engine has that name; did you mean ssh?" },
    { "%%distribute --on ../x:h1\n1",
      "--on ../x:h1: no engine has that name (a to z, 0 to 9 and -)" },
    { "%%distribute --gpus 0\n1", "--gpus 0: from 1 to 64 GPUs are possible" },
    { "%%distribute --gpus -1\n1", "--gpus -1: from 1 to 64 GPUs are possible" },
    { "%%distribute --gpus 65\n1", "--gpus 65: from 1 to 64 GPUs are possible" },
    { "%%distribute --gpus two\n1",
      "--gpus two: not a number (give a count, own, or both as in 2,own)" },
    { "%%distribute --gpus 2,mine\n1", "--gpus 2,mine: not a number; give a count" },
    { "%%distribute --gpus 65,own\n1", "--gpus 65: from 1 to 64 GPUs are possible" },
    { "%%distribute --gpus 2 --no-gpu\n1", "--gpus and --no-gpu can't be used together" },
    { "%%distribute --no-gpu --gpus=2\n1", "--no-gpu and --gpus can't be used together" },
    { "%%distribute --no-gpu -n gpu\n1", "-n gpu and --no-gpu can't be used together" },
    { "%%distribute --no-gpu --share\n1", "--share and --no-gpu can't be used together" },
    { "%ranks stop 1", "1: unexpected word (%ranks stop [-r SPEC])" },
    { "%ranks -r 1",
      "-r 1: a command is missing (%ranks stop -r 1, or restart, where, check, logs, code, debug, free)" },
};

static void every_bad_line_gets_its_one_clear_text(void)
{
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct plan plan;
        struct err err;

        parse(bad[i].cell, &plan, &err);
        is_text(err.text, bad[i].text, "%s", bad[i].cell);
        plan_release(&plan);
    }
}

static void a_bad_rank_set_is_named(void)
{
    struct plan plan;
    struct err err;

    is_int(parse("%%distribute --ranks 1,x\n1", &plan, &err), -1,
           "a rank set with a letter is refused");
    ok(strstr(err.text, "--ranks 1,x: ") == err.text, "the text starts with option and value: %s",
       err.text);
    is_int(parse("%%distribute -n 4 --ranks 3-1\n1", &plan, &err), -1,
           "a range that runs backwards is refused");
    ok(!strchr(err.text, '\n'), "on one line: %s", err.text);
}

static void every_option_fills_its_field(void)
{
    struct plan p;
    struct err err;

    is_int(
        parse(
            "%%distribute -n 4 --ranks 1,3 --merge prefix --into loss --gather --capture a,b --capture c --init gloo "
            "--env A=1 --env 'B=x y' --cwd \"/a b\" --timeout 1.5m --grace 500ms --fresh --seed 0\nprint(1)\n",
            &p, &err),
        0, "all options at once parse: %s", err.text);
    is_int(p.kind, PLAN_DISTRIBUTE, "the kind is distribute");
    is_int(p.n, 4, "-n");
    is_text(p.ranks, "1,3", "--ranks");
    is_int(p.merge, PLAN_PREFIX, "--merge");
    is_text(p.into, "loss", "--into");
    ok(p.gather && p.fresh && !p.no_capture, "flags");
    ok(p.capture && !strcmp(p.capture[0], "a") && !strcmp(p.capture[1], "b") &&
           !strcmp(p.capture[2], "c") && !p.capture[3],
       "--capture adds up");
    is_text(p.init, "gloo", "--init");
    ok(p.env && !strcmp(p.env[0], "A=1") && !strcmp(p.env[1], "B=x y") && !p.env[2],
       "--env adds up, quotes are gone");
    is_text(p.cwd, "/a b", "--cwd");
    is_text(p.seed, "0", "--seed");
    ok(p.timeout_ns == 90 * UINT64_C(1000000000), "--timeout");
    ok(p.grace_ns == 500 * UINT64_C(1000000), "--grace");
    is_text(p.body, "\nprint(1)\n", "the body keeps its line number");
    is_int(p.body_size, 10, "and knows its size");
    plan_release(&p);
}

static void others_spellings_are_taken(void)
{
    struct plan p;
    struct err err;

    is_int(parse("%distribute --nproc_per_node=4 --no_gpu train.py", &p, &err), 0, "torchrun's: %s",
           err.text);
    ok(p.per_node == 4 && p.n == PLAN_N_UNSET && p.no_gpu, "with underscores");
    plan_release(&p);
    is_int(parse("%%distribute --nproc-per-node 2 --on ssh:h1, h2 ,h3 --gather\n1", &p, &err), 0,
           "and with dashes: %s", err.text);
    ok(p.per_node == 2 && p.gather, "per machine");
    is_text(p.on, "ssh:h1,h2,h3", "a list of hosts may have blanks behind its commas");
    plan_release(&p);
    is_int(parse("%%distribute --on=ssh:h1, -n 2\n1", &p, &err), 0, "an option is no host: %s",
           err.text);
    is_text(p.on, "ssh:h1,", "and the list is the engine's to judge");
    plan_release(&p);
}

static void placement_is_kept(void)
{
    struct plan p;
    struct err err;

    is_int(parse("%%distribute --on 'slurm:--nodes=2 --gres=gpu:4' --gpus 2 --share -n 4\n1", &p,
                 &err),
           0, "placement parses: %s", err.text);
    is_text(p.on, "slurm:--nodes=2 --gres=gpu:4", "--on with its spec");
    ok(p.gpus == 2 && p.share && !p.no_gpu && !p.own_gpus, "--gpus and --share");
    plan_release(&p);
    is_int(parse("%%distribute --gpus 2,own\n1", &p, &err), 0, "GPUs that nobody else sees: %s",
           err.text);
    ok(p.gpus == 2 && p.own_gpus, "two of them");
    plan_release(&p);
    is_int(parse("%%distribute --gpus own\n1", &p, &err), 0, "or one: %s", err.text);
    ok(p.gpus == 1 && p.own_gpus, "without a number");
    plan_release(&p);
    is_int(parse("%distribute --on=my-engine --no-gpu train.py", &p, &err), 0,
           "an engine of others: %s", err.text);
    is_text(p.on, "my-engine", "is taken by its name");
    ok(p.no_gpu && p.gpus == PLAN_GPUS_UNSET && !strcmp(p.argv[0], "train.py"), "--no-gpu");
    plan_release(&p);
    is_int(parse("%ranks check -r 0-1 --timeout 5", &p, &err), 0, "%%ranks check parses");
    ok(p.ranks_do == PLAN_RANKS_CHECK && p.timeout_ns == 5 * UINT64_C(1000000000),
       "with its limit");
    plan_release(&p);
    is_int(parse("%ranks where -r 1", &p, &err), 0, "%%ranks where parses");
    ok(p.ranks_do == PLAN_RANKS_WHERE, "as what it is");
    plan_release(&p);
    is_int(parse("%ranks debug -r 2", &p, &err), 0, "%%ranks debug parses");
    ok(p.ranks_do == PLAN_RANKS_DEBUG && strcmp(p.ranks, "2") == 0 && !p.go_on, "with its rank");
    plan_release(&p);
    is_int(parse("%ranks debug --continue all", &p, &err), 0, "or lets all go on");
    ok(p.ranks_do == PLAN_RANKS_DEBUG && !p.ranks && p.go_on, "without a rank");
    plan_release(&p);
}

static void what_goes_along(void)
{
    struct plan p;
    struct err err;

    is_int(parse("%distribute --with a.csv --with 'b c' train.py --with d", &p, &err), 0, "%s",
           err.text);
    ok(!strcmp(p.with[0], "a.csv") && !strcmp(p.with[1], "b c") && !p.with[2] && !p.no_code,
       "--with adds up");
    plan_release(&p);
    is_int(parse("%%distribute --no-code\n1", &p, &err), 0, "%s", err.text);
    ok(p.no_code && !p.with, "--no-code");
    plan_release(&p);
}

static void defaults_are_unset(void)
{
    struct plan p;
    struct err err;

    is_int(parse("%%distribute\n1", &p, &err), 0, "no option is needed");
    ok(p.n == PLAN_N_UNSET && !p.ranks && p.merge == PLAN_FOLD && !p.into && !p.capture &&
           !p.init && !p.env && !p.cwd && !p.seed && !p.timeout_ns && !p.grace_ns && !p.on &&
           !p.gpus && !p.no_gpu && !p.share && !p.with && !p.no_code,
       "what is not given is unset");
    plan_release(&p);
}

static unsigned n_of(const char *cell)
{
    struct plan p;
    struct err err;
    const unsigned n = parse(cell, &p, &err) == 0 ? p.n : 0;

    plan_release(&p);
    return n;
}

static void forms_of_one_option_mean_the_same(void)
{
    is_int(n_of("%%distribute -n4\n1"), 4, "-n4");
    is_int(n_of("%%distribute -n=4\n1"), 4, "-n=4");
    is_int(n_of("%%distribute --nproc=4\n1"), 4, "--nproc=4");
    is_int(n_of("%%distribute --nproc 4\n1"), 4, "--nproc 4");
    is_int(n_of("%%distribute -n 2 -n 4\n1"), 4, "the last one counts");
    is_int(n_of("%%distribute\t-n\t4\r\n1"), 4, "tabs and a carriage return are blanks");
    ok(n_of("%%distribute -np 3\n1") == 3 && n_of("%%distribute -np=5\n1") == 5,
       "-np, as mpirun has it");
    ok(n_of("%%distribute --nproc-per-node gpu\n1") == PLAN_N_GPU, "--nproc-per-node gpu");
    ok(n_of("%%distribute -n gpu\n1") == PLAN_N_GPU, "-n gpu");
    ok(n_of("%%distribute -ngpu\n1") == PLAN_N_GPU, "-ngpu");
    is_int(n_of("%%distribute -n 65536\n1"), 65536, "the largest world");
}

static void check_init(const char *cell, const char *init, const char *script)
{
    struct plan p;
    struct err err;

    is_int(parse(cell, &p, &err), 0, "%s parses: %s", cell, err.text);
    is_text(p.init, init, "its backend");
    is_text(p.argv ? p.argv[0] : NULL, script, "its script");
    plan_release(&p);
}

static void init_takes_the_next_word_only_if_it_is_a_backend(void)
{
    check_init("%%distribute --init\n1", "auto", NULL);
    check_init("%%distribute --init -n 2\n1", "auto", NULL);
    check_init("%%distribute --init nccl\n1", "nccl", NULL);
    check_init("%distribute --init train.py", "auto", "train.py");
    check_init("%distribute --init=gloo train.py", "gloo", "train.py");
}

static void check_argv(const char *cell, const char *joined)
{
    struct plan p;
    struct err err;
    char got[256] = "";

    is_int(parse(cell, &p, &err), 0, "%s parses: %s", cell, err.text);
    is_int(p.kind, PLAN_SCRIPT, "as a script");
    for (size_t i = 0; p.argv && p.argv[i]; i++) {
        strncat(got, i ? "|" : "", sizeof got - strlen(got) - 1);
        strncat(got, p.argv[i], sizeof got - strlen(got) - 1);
    }
    is_text(got, joined, "with these words");
    plan_release(&p);
}

static void options_end_at_the_script(void)
{
    check_argv("%distribute -n 2 train.py --lr 1 -n 5 --help", "train.py|--lr|1|-n|5|--help");
    check_argv("%distribute -m pkg.mod -x 'a b' \"c\\\"d\" e\\ f", "-m|pkg.mod|-x|a b|c\"d|e f");
    check_argv("%distribute -- -odd.py 1", "-odd.py|1");
    check_argv("%distribute train.py \\\n   --lr 1\n\n# done\n", "train.py|--lr|1");
    check_argv("%distribute train.py ''", "train.py|");
    check_argv("%distribute tr\xc3\xa4in.py", "tr\xc3\xa4in.py");
}

static bool three_are(char **list, const char *a, const char *b, const char *c)
{
    return list && !strcmp(list[0], a) && !strcmp(list[1], b) && !strcmp(list[2], c) && !list[3];
}

static void names_of_push_and_pull(void)
{
    struct plan p;
    struct err err;

    is_int(parse("%push a, b c -r 0-1", &p, &err), 0,
           "%%push takes names with blanks or commas between");
    ok(p.kind == PLAN_PUSH && three_are(p.names, "a", "b", "c"), "all of them");
    is_text(p.ranks, "0-1", "and ranks");
    plan_release(&p);
    is_int(parse("\n# why\n%pull verlust_\xc3\xa4 -r -1 --into x\n\n", &p, &err), 0, "%%pull: %s",
           err.text);
    ok(p.kind == PLAN_PULL && !strcmp(p.names[0], "verlust_\xc3\xa4") && !p.names[1],
       "a Unicode name is a name");
    is_text(p.ranks, "-1", "a negative rank is a value, not an option");
    is_text(p.into, "x", "--into");
    plan_release(&p);
}

static void what_ranks_does(void)
{
    struct plan p;
    struct err err;

    ok(parse("%ranks", &p, &err) == 0 && p.kind == PLAN_RANKS && p.ranks_do == PLAN_RANKS_TABLE,
       "%%ranks is the table");
    plan_release(&p);
    ok(parse("%ranks stop -r 1", &p, &err) == 0 && p.ranks_do == PLAN_RANKS_STOP, "%%ranks stop");
    is_text(p.ranks, "1", "of one rank");
    plan_release(&p);
    ok(parse("%ranks -r 1 restart", &p, &err) == 0 && p.ranks_do == PLAN_RANKS_RESTART,
       "%%ranks restart");
    plan_release(&p);
}

static void help_is_a_plan(void)
{
    static const char *const cells[] = { "%%distribute --help", "%%distribute -n 2 -h\nx",
                                         "%distribute?",        "%%distribute?",
                                         "?%distribute",        "%ranks??\n",
                                         "%push --help",        "%distribute --help x.py" };

    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        struct plan p;
        struct err err;

        is_int(parse(cells[i], &p, &err), 0, "%s: %s", cells[i], err.text);
        ok(p.kind == PLAN_HELP && p.help && strlen(p.help) > 60, "shows a help text");
        plan_release(&p);
    }
}

static void help_reads_the_table(void)
{
    char *help = help_text("distribute");

    ok(help && strstr(help, "-n, --nproc N|gpu") && strstr(help, "--init [nccl|gloo]") &&
           strstr(help, "(CELLSPAN_MERGE, else fold)"),
       "the help of distribute has names, values and defaults");
    free(help);
    ok(help_text("distributed") == NULL, "there is no help for what is no magic");
    help = help_line_options("distribute");
    ok(help && strstr(help, "--init [nccl|gloo]") && strstr(help, "-m  MODULE") &&
           !strstr(help, "--into") && !strstr(help, "%"),
       "the options of a line are those that stand with one %%, without a word on that");
    free(help);
}

static void expanded_lines_are_what_counts(void)
{
    const char *cell = "%%distribute -n {k}\n1";
    struct plan p;
    struct err err = { "" };

    is_int(plan_parse(slice_text(cell), slice_text("-n 3"), &p, &err), 0,
           "the line as expanded is parsed");
    is_int(p.n, 3, "not the one in the cell");
    plan_release(&p);
    is_int(plan_parse(slice_text(cell), slice_of("-n 3\0", 5), &p, &err), -1,
           "a NUL character is refused");
    plan_release(&p);
}

static void settings_have_their_options(void)
{
    char option[DISTRIBUTE_OPTION];

    is_text(distribute_option_of(slice_text("CELLSPAN_SEED"), option), "--seed",
            "--seed is for a cell");
    is_text(distribute_option_of(slice_text("CELLSPAN_N"), option), "-n", "so is -n");
    ok(!distribute_option_of(slice_text("CELLSPAN_NOTICE"), option) &&
           !distribute_option_of(slice_text("CELLSPAN_"), option) &&
           !distribute_option_of(slice_text("SEED"), option),
       "others have none");
}

int main(void)
{
    every_bad_line_gets_its_one_clear_text();
    a_bad_rank_set_is_named();
    every_option_fills_its_field();
    others_spellings_are_taken();
    placement_is_kept();
    what_goes_along();
    defaults_are_unset();
    settings_have_their_options();
    forms_of_one_option_mean_the_same();
    init_takes_the_next_word_only_if_it_is_a_backend();
    options_end_at_the_script();
    names_of_push_and_pull();
    what_ranks_does();
    help_is_a_plan();
    help_reads_the_table();
    expanded_lines_are_what_counts();
    return plan_done();
}
