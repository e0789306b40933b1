/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of launchers/words.c and agent_script.c. */
#include "launchers/launcher.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launchers/agent_script.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

struct split_case {
    const char *text;
    const char *want; /* the words, '|' behind each; NULL: refused, */
    const char *says; /* in words that hold this */
};

static const struct split_case split_cases[] = {
    { "", "", NULL },
    { " \t\n ", "", NULL },
    { "ssh", "ssh|", NULL },
    { "ssh  -F\tfile ", "ssh|-F|file|", NULL },
    { "ssh -F '/my files/config'", "ssh|-F|/my files/config|", NULL },
    { "a\"b c\"'d e'f", "ab cd ef|", NULL },
    { "'' \"\"", "||", NULL },
    { "a\\ b \\'", "a b|'|", NULL },
    { "\"a\\\"b\\\\c\\d\"", "a\"b\\c\\d|", NULL },
    { "'a\\'", "a\\|", NULL },
    { "$HOME ~ *", "$HOME|~|*|", NULL },
    { "--comment=\"two words\"", "--comment=two words|", NULL },
    { "ssh 'a", NULL, "a ' has no end: 'a" },
    { "ssh \"a", NULL, "a \" has no end: \"a" },
    { "ssh \"a\\", NULL, "has no end" },
    { "ssh a\\", NULL, "ssh a\\" },
};

static char *join(const struct words *w)
{
    struct buf all = BUF_INIT;

    for (size_t i = 0; i < w->n; i++)
        if (buf_addf(&all, "%s|", w->v[i]) < 0)
            break;
    return all.p ? buf_take(&all) : strdup("");
}

static void splits_as_a_shell_does(void)
{
    for (size_t i = 0; i < sizeof split_cases / sizeof *split_cases; i++) {
        const struct split_case *c = &split_cases[i];
        struct words w = WORDS_INIT;
        struct err err = { "" };
        const int rc = words_split(&w, c->text, &err);
        char *all = join(&w);

        if (c->want)
            ok(rc == 0 && strcmp(all, c->want) == 0, "<%s> is %s", c->text, c->want);
        else
            ok(rc < 0 && strstr(err.text, c->says) && w.n == 0, "<%s> is refused: %s", c->text,
               err.text);
        free(all);
        words_release(&w);
    }
}

static void a_failed_split_leaves_no_trace(void)
{
    struct words w = WORDS_INIT;
    struct err err = { "" };
    int rc = -1;

    ok(words_add(&w, "first") == 0, "a word is there before");
    for (long nth = 0; rc < 0 && nth < 100; nth++) {
        alloc_fail_at(nth);
        rc = words_split(&w, "one 'two three' four", &err);
        alloc_fail_at(-1);
        if (rc < 0 && (w.n != 1 || w.v[1]))
            break;
    }
    ok(rc == 0 && w.n == 4, "each allocation may fail, and what was there stays");
    words_release(&w);
}

/* What a real shell makes of `line`: its stdout, the caller's. */
static char *shell_says(const char *line)
{
    struct buf said = BUF_INIT;
    char bytes[512];
    FILE *shell;
    size_t n;

    if (setenv("LINE", line, 1) < 0 || !(shell = popen("eval \"$LINE\"", "r")))
        return NULL;
    while ((n = fread(bytes, 1, sizeof bytes, shell)) > 0)
        if (buf_add(&said, bytes, n) < 0)
            break;
    pclose(shell);
    return said.p ? buf_take(&said) : strdup("");
}

static void a_shell_reads_back_what_was_quoted(void)
{
    static const char *const word[] = {
        "plain", "", "two words", "it's", "\"$HOME\" `id` \\ !x", "new\nline", "*?[a]~#;&|<>()", "ä"
    };

    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        struct buf line = BUF_INIT;
        char *said = NULL;

        if (buf_add_text(&line, "n=$(printf \"\\nx\"); n=${n%x}; printf %s ") == 0 &&
            words_quote(&line, word[i]) == 0)
            said = shell_says(line.p);
        ok(said && strcmp(said, word[i]) == 0, "<%s> comes back", word[i]);
        ok(line.p && !strchr(line.p, '\n'), "and is one line");
        free(said);
        buf_release(&line);
    }
}

/* The line, run by a shell with PATH set to an empty folder. */
static char *script_says(const char *program, const char *prefix, const char *path)
{
    char *command[] = { (char *)(uintptr_t)program, (char *)(uintptr_t)"a b",
                        (char *)(uintptr_t)"it's", NULL };
    const struct script_spec spec = { .command = command, .prefix = prefix, .cwd = "/" };
    struct buf line = BUF_INIT;
    struct err err = { "" };
    char *said = NULL;

    if (buf_addf(&line, "PATH=%s; ", path) == 0 && script_line(&line, &spec, &err) == 0)
        said = shell_says(line.p);
    buf_release(&line);
    return said;
}

static void the_script_finds_the_agent(void)
{
    char *said = script_says("/bin/echo", NULL, "/nowhere");

    ok(said && strstr(said, SCRIPT_MARK SCRIPT_FOUND "/bin/echo\na b it's\n"),
       "at the same path as here");
    free(said);
    said = script_says("/nowhere/basename", NULL, "/nowhere:/usr/bin");
    ok(said && strstr(said, SCRIPT_MARK SCRIPT_FOUND "/usr/bin/basename\na b\n"), "on PATH");
    free(said);
    said = script_says("/bin/echo", "/nowhere/prefix", "/nowhere");
    is_text(said ? said : "", SCRIPT_MARK SCRIPT_MISSING "\n",
            "not elsewhere than in the prefix that was told");
    free(said);
    said = script_says("/nowhere/agent", NULL, "/nowhere");
    is_text(said ? said : "", SCRIPT_MARK SCRIPT_MISSING "\n", "or says that it is missing");
    free(said);
}

static void the_agent_gets_its_settings(void)
{
    static const struct script_setting set[] = { { "OMP_NUM_THREADS", "3" },
                                                 { "CELLSPAN_REMOTE_PYTHON", "it's\n$HOME" } };
    char *command[] = { (char *)(uintptr_t)"/usr/bin/printenv",
                        (char *)(uintptr_t)"OMP_NUM_THREADS",
                        (char *)(uintptr_t)"CELLSPAN_REMOTE_PYTHON", NULL };
    const struct script_spec spec = { .command = command, .setting = set, .settings = 2 };
    struct buf line = BUF_INIT;
    struct err err = { "" };
    char *said = script_line(&line, &spec, &err) == 0 ? shell_says(line.p) : NULL;

    ok(said && strstr(said, "\n3\nit's\n$HOME\n"),
       "variables of the environment, whatever is in them");
    ok(line.p && strchr(line.p, '\n') == line.p + line.n - 1, "and the script is one line");
    free(said);
    buf_release(&line);
}

static void the_prefix_comes_first(void)
{
    char folder[] = "/tmp/cellspan-words-XXXXXX", path[64];
    struct buf command = BUF_INIT;
    char *said;

    if (!mkdtemp(folder)) {
        skip("no folder can be made in /tmp");
        return;
    }
    if (buf_addf(&command, "mkdir -p %s/libexec/cellspan && cp /bin/echo %s/libexec/cellspan/",
                 folder, folder) < 0 ||
        system(command.p) != 0)
        diag("no copy of echo");
    said = script_says("/bin/echo", folder, "/nowhere");
    snprintf(path, sizeof path, "%s/libexec/cellspan/echo\na b it's\n", folder);
    ok(said && strstr(said, path), "CELLSPAN_REMOTE_PREFIX comes before the path of this machine");
    free(said);
    (void)setenv("HOME", folder, 1);
    said = script_says("/bin/echo", "~/", "/nowhere");
    ok(said && strstr(said, "libexec/cellspan/echo\na b it's\n"), "and ~ is the home folder there");
    free(said);
    buf_clear(&command);
    if (buf_addf(&command, "rm -r %s", folder) < 0 || system(command.p) != 0)
        diag("%s is left", folder);
    buf_release(&command);
}

static void the_command_suits_any_shell(void)
{
    const char *quote = strchr(SCRIPT_COMMAND, '\'');

    ok(quote && strchr(quote + 1, '\'') == SCRIPT_COMMAND + strlen(SCRIPT_COMMAND) - 1,
       "it is one word in single quotes");
    ok(!strpbrk(SCRIPT_COMMAND, "\\!\n"), "within which fish and csh read nothing otherwise");
}

int main(void)
{
    splits_as_a_shell_does();
    a_failed_split_leaves_no_trace();
    a_shell_reads_back_what_was_quoted();
    the_script_finds_the_agent();
    the_agent_gets_its_settings();
    the_prefix_comes_first();
    the_command_suits_any_shell();
    return plan_done();
}
