/* SPDX-License-Identifier: BSD-3-Clause */
/* The shell code for CELLSPAN_MODULES, with start files that define a `module` of the test's. */
#include "launchers/environment_modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/settings.h"
#include "tests/unit/tap.h"

static char top[] = "/tmp/cellspan-modules-XXXXXX";

/* Defines a `module` that notes its words, reads its stdin, and then does what $DOES says. */
static void put_start_file(const char *folder, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s/init/sh", top, folder);
    if (!(file = fopen(path, "w")) || fputs(text, file) < 0 || fclose(file) != 0)
        diag("%s can't be made", path);
}

#define MODULE                                                                                     \
    "module() { cat >/dev/null; printf '<%s> ' \"$@\"; echo; "                                     \
    "LOADED=yes; export LOADED; eval \"$DOES\"; }; "
#define SHOWN "cellspan-launch: no modules "

/* What the code prints, and a script behind it, which reads a line. */
static const char *says(const char *names, const char *does)
{
    static char said[8192];
    struct buf line = BUF_INIT;
    struct err err = { "" };
    FILE *shell;

    (void)setenv("DOES", does, 1);
    if (modules_add(&line, names, &err) < 0 ||
        buf_add_text(&line, "read -r w; sh -c 'echo loaded=$LOADED'; echo \"read $w\"") < 0)
        diag("no memory");
    (void)setenv("CODE", line.p, 1);
    shell = popen("echo line | sh -c \"$CODE\" 2>&1; echo status=$?; ls \"$TMPDIR\"", "r");
    said[shell ? fread(said, 1, sizeof said - 1, shell) : 0] = '\0';
    if (shell)
        (void)pclose(shell);
    buf_release(&line);
    return said;
}

static bool has(const char *said, const char *text)
{
    if (strstr(said, text))
        return true;
    diag("no %s in\n%s", text, said);
    return false;
}

static void they_are_loaded(void)
{
    const char *said;

    put_start_file("lmod", "home=lmod; " MODULE);
    put_start_file("tcl", "echo the wrong one; " MODULE);
    said = says("cuda/12.4  gcc@11:13", "echo that is a notice");
    ok(has(said, "<load> <cuda/12.4> <gcc@11:13> \nthat is a notice\n"), "each name is a word");
    ok(has(said, "loaded=yes\nread line\nstatus=0\n"), "for what follows, which has its own stdin");
    ok(!strstr(said, "the wrong one"), "by Lmod, if both are told of");
    ok(!strstr(said, "/tmp."), "nothing is left");
    ok(strcmp(says(NULL, ""), "loaded=\nread line\nstatus=0\n") == 0, "without names, nothing is");
}

static void start_files_may_be_for_others(void)
{
    static const char *const files[] = { "if [[ ( ; then", "exit 3", "return 1", "set -e; false",
                                         "module_of_another() { :; }" };

    put_start_file("tcl", MODULE "false");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        put_start_file("lmod", files[i]);
        ok(has(says("a", ""), "<load> <a> \nloaded=yes\n"), "not by one with %s", files[i]);
    }
    put_start_file("lmod", MODULE "set -eu; return 1");
    ok(has(says("a", ""), "loaded=yes\nread line\n"), "its status and its options mean nothing");
}

static void failures_are_told(void)
{
    const char *said;

    put_start_file("lmod", MODULE);
    said = says("a b", "echo \"  ERROR: Unable to locate 'b'\" >&2; return 1");
    ok(has(said, SHOWN "'module load a b' failed: ERROR: Unable to locate 'b'; 'module avail'"),
       "in its own words");
    ok(has(said, "status=126\n") && !strstr(said, "loaded="), "and nothing follows");
    ok(!strstr(said, "/tmp."), "nothing is left then, either");
    ok(has(says("b", "echo \"ModuleCmd_Load.c(213):ERROR:105: Unable to locate 'b'\" >&2"),
           "failed: ModuleCmd_Load.c(213):ERROR:105: Unable to locate 'b'; "),
       "version 3 ends with 0 then");
    said = says("b", "printf 'Lmod has detected the following error:  These module(s)\\n"
                     "are unknown: \"b\"\\n\\nPlease check the spelling\\n' >&2; return 1");
    ok(has(said, "failed: Lmod has detected the following error: These module(s) are unknown: "
                 "\"b\"; "),
       "the words of Lmod are a paragraph");
    ok(has(says("b", "echo one; echo two; echo; return 1"), "failed: two; "),
       "the last line, if none is an error");
    ok(has(says("b", "return 1"), "'module load b' failed"), "or none");
    ok(has(says("b", "echo its own end; exit 5"), "its own end\nstatus=5\n"),
       "one that ends the shell is heard");
}

static void names_are_names(void)
{
    static const char *const good[] = { "cuda/12.4", " a  b ", "gcc@11:13 +mpi", "x-y_z=1,2" };
    static const char *const bad[] = { "a;b",  "$(a)", "`a`",      "a'b",    "a\"b", "a\\b",
                                       "a\nb", "a*",   "-a",       "b -all", "a|b",  "a>b",
                                       "~",    "a&b",  "\xc3\xa4", " " };

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        (void)setenv("CELLSPAN_MODULES", good[i], 1);
        is_text(modules_told(), good[i], "%s: names", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct buf line = BUF_INIT;
        struct err err = { "" };

        ok(modules_add(&line, bad[i], &err) < 0 && line.n == 0 &&
               has(err.text, "names of modules are wanted"),
           "%s: no names", bad[i]);
    }
    (void)setenv("CELLSPAN_MODULES", "none", 1);
    ok(!modules_told(), "none");
    (void)unsetenv("CELLSPAN_MODULES");
    ok(!modules_told(), "not set");
}

int main(void)
{
    char command[256], path[128];

    if (!mkdtemp(top)) {
        skip("no folder can be made in /tmp");
        return plan_done();
    }
    snprintf(command, sizeof command, "cd %s && mkdir -p lmod/init tcl/init tmp", top);
    if (system(command) != 0)
        diag("no folders");
    snprintf(path, sizeof path, "%s/lmod", top);
    (void)setenv("LMOD_PKG", path, 1);
    snprintf(path, sizeof path, "%s/tcl", top);
    (void)setenv("MODULESHOME", path, 1);
    snprintf(path, sizeof path, "%s/tmp", top);
    (void)setenv("TMPDIR", path, 1);
    (void)unsetenv("LOADED");
    they_are_loaded();
    start_files_may_be_for_others();
    failures_are_told();
    names_are_names();
    snprintf(command, sizeof command, "rm -rf %s", top);
    if (system(command) != 0)
        diag("%s is left", top);
    return plan_done();
}
