/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/cmdline.h and base/suggest.h. */
#include "base/cmdline.h"
#include "base/suggest.h"
#include "tests/unit/tap.h"

struct options {
    const char *prefix;
    const char *python;
    const char *file;
    char word[128]; /* what no row takes */
    bool user;
    bool help;
};

static const struct cmdline_row rows[] = {
    { "prefix", "DIR", "where", offsetof(struct options, prefix) },
    { "python", "PATH", "which", offsetof(struct options, python) },
    { "user", NULL, "who", offsetof(struct options, user) },
    { "f", "FILE", "what", offsetof(struct options, file) },
    { "help", NULL, "this", offsetof(struct options, help) },
    { NULL, NULL, NULL, 0 },
};

#define PARSE(o, err, ...) parse((o), (err), (char *[]){ "install", __VA_ARGS__, NULL })

static int parse(struct options *o, struct err *err, char **argv)
{
    int argc = 0;

    while (argv[argc])
        argc++;
    *o = (struct options){ NULL };
    *err = (struct err){ "" };
    return cmdline_parse(rows, argc, argv, NULL, o, err);
}

/* Takes "--", what follows it, and a word that starts with a capital. */
static int take_other(void *into, char **v, int n, const char *why)
{
    struct options *o = into;

    snprintf(o->word, sizeof o->word, "%s", strcmp(v[0], "--") ? why : v[n - 1]);
    return !strcmp(v[0], "--") ? n : v[0][0] >= 'A' && v[0][0] <= 'Z';
}

static void values_and_switches_are_taken(void)
{
    struct options o;
    struct err err;

    ok(PARSE(&o, &err, "--prefix", "/a", "--python=b", "--user") == 0,
       "values stand in the next word or after '='");
    is_text(o.prefix, "/a", "the next word is the value");
    is_text(o.python, "b", "so is what follows '='");
    ok(o.user, "a switch is set");
    ok(PARSE(&o, &err, "--python=") == 0 && o.python && !*o.python, "an empty value is a value");
    ok(PARSE(&o, &err, "--us") == 0 && o.user,
       "a beginning that only one option has is that option");
    ok(PARSE(&o, &err, "--prefix", "a", "--prefix", "b") == 0, "an option may be repeated");
    is_text(o.prefix, "b", "and the last one counts");
}

static void mistakes_name_the_token(void)
{
    struct options o;
    struct err err;

    ok(PARSE(&o, &err, "--p", "x") < 0, "a beginning that two options have is refused");
    is_text(err.text, "--p could be one of 2 options; write it out", "and says so");
    ok(PARSE(&o, &err, "--pyhton=x") < 0, "a misspelt option is refused");
    is_text(err.text, "there is no option --pyhton; did you mean --python?",
            "with the nearest one");
    ok(PARSE(&o, &err, "--zzzzzzzz") < 0, "so is one that is near to none");
    is_text(err.text, "there is no option --zzzzzzzz; --help lists them",
            "with the way to all of them");
    ok(PARSE(&o, &err, "--prefix") < 0, "a value that is missing is missed");
    is_text(err.text, "--prefix needs a value: --prefix DIR", "in words");
    ok(PARSE(&o, &err, "--user=1") < 0, "a switch takes no value");
    ok(PARSE(&o, &err, "--") < 0 && PARSE(&o, &err, "--=x") < 0,
       "an option without a name is refused");
    ok(PARSE(&o, &err, "word") < 0 && PARSE(&o, &err, "") < 0 && PARSE(&o, &err, "-x") < 0,
       "so is a plain word");
}

static void distances(void)
{
    is_int(suggest_distance("nproc", "nproc"), 0, "equal words are not apart");
    is_int(suggest_distance("nprc", "nproc"), 1, "one letter is missing");
    is_int(suggest_distance("stpo", "stop"), 1, "two letters are swapped");
    is_int(suggest_distance("FOLD", "fold"), 0, "case does not count");
    is_int(suggest_distance("", "abc"), 3, "from nothing to a word");
    is_int(suggest_distance("abc", ""), 3, "and back");
    ok(suggest_distance("a-word-that-is-longer-than-any-row-of-the-table", "b") <= SUGGEST_MAX,
       "long words are cut");
}

static void what_no_row_takes_is_the_programs(void)
{
    char *argv[] = { (char *)(uintptr_t)"x",  (char *)(uintptr_t)"Word", (char *)(uintptr_t)"-f",
                     (char *)(uintptr_t)"a",  (char *)(uintptr_t)"-h",   (char *)(uintptr_t)"--",
                     (char *)(uintptr_t)"-x", (char *)(uintptr_t)"last" };
    struct options o = { NULL };
    struct err err = { "" };

    ok(cmdline_parse(rows, 8, argv, take_other, &o, &err) == 0, "(%s)", err.text);
    is_text(o.file, "a", "an option of one letter has one dash");
    ok(o.help, "-h is --help");
    is_text(o.word, "last", "what follows -- was left to the program");
    ok(cmdline_parse(rows, 2, argv, take_other, &o, &err) == 0, "so was the word");
    is_text(o.word, "Word: only options are taken here; --help lists them",
            "with what would be wrong about it");
    argv[1] = (char *)(uintptr_t)"word";
    ok(cmdline_parse(rows, 2, argv, take_other, &o, &err) < 0, "what it does not take is refused");
    ok(PARSE(&o, &err, "--f", "a") < 0 && PARSE(&o, &err, "-p", "a") < 0 &&
           PARSE(&o, &err, "-fa") < 0,
       "long names have two dashes, and a letter's value stands alone");
}

int main(void)
{
    what_no_row_takes_is_the_programs();
    distances();
    values_and_switches_are_taken();
    mistakes_name_the_token();
    return plan_done();
}
