/* SPDX-License-Identifier: BSD-3-Clause */
/* The shell code for --in IMAGE: which program it runs, and with which words. Programs that write
 * their words down, and run what stands behind the image, take the place of those that run images.
 */
#include "launchers/container.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/tap.h"

#define FOLDER "it's \"a\" $b `c` \\d"

static char top[] = "/tmp/cellspan-container-XXXXXX";

/* Words in <>, so that a blank within one is seen. */
static const char program[] =
    "#!/bin/sh\n"
    "case $1 in ps) echo \"$PS\"; exit;; container) echo \"$CONMON\"; exit;; "
    "rm) echo \"$3\" >>\"$TOP/removed\"; exit;; esac\n"
    "printf '%s:' \"${0##*/}\"; printf ' <%s>' \"$@\"; echo\n"
    "case $1 in image) exit 1;; pull) exit ${PULL:-0};; import) : >\"$3\"; exit 0;; esac\n"
    "printf 'omp <%s>\\n' \"$APPTAINERENV_OMP_NUM_THREADS\"\n"
    "while [ \"$1\" != sh ]; do shift; done; exec \"$@\"\n";

static void put_program(const char *name)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/bin/%s", top, name);
    if (!(file = fopen(path, "w")) || fputs(program, file) < 0 || fclose(file) != 0 ||
        chmod(path, 0755) < 0)
        diag("%s can't be made", path);
}

static void take_programs(void)
{
    static const char *const names[] = { "apptainer", "podman", "docker", "enroot" };
    char path[128];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/bin/%s", top, names[i]);
        (void)unlink(path);
    }
}

/* What the code prints, stderr too. */
static char *says(const char *image, const char *folder)
{
    static char said[16384];
    const struct container_spec spec = { .image = image,
                                         .inside = "echo \"in: it's $2\"",
                                         .agent = "/nowhere/libexec/cellspan/cellspan-agent" };
    struct buf line = BUF_INIT;
    struct err err = { "" };
    size_t n = 0;
    FILE *shell;

    said[0] = '\0';
    if (buf_addf(&line, "n='\n'; PATH=%s/bin:%s/tools; cd \"$TOP\"/\"$WHERE\" || exit 1; ", top,
                 top) < 0 ||
        container_add(&line, &spec, &err) < 0) {
        snprintf(said, sizeof said, "refused: %s", err.text);
        buf_release(&line);
        return said;
    }
    (void)setenv("TOP", top, 1);
    (void)setenv("WHERE", folder, 1);
    (void)setenv("CODE", line.p, 1);
    if ((shell = popen("exec sh -c \"$CODE\" 2>&1 </dev/null", "r"))) {
        n = fread(said, 1, sizeof said - 1, shell);
        (void)pclose(shell);
    }
    said[n] = '\0';
    buf_release(&line);
    return said;
}

static bool has(const char *said, const char *text)
{
    const bool found = strstr(said, text) != NULL;

    if (!found)
        diag("no %s in\n%s", text, said);
    return found;
}

static void the_first_program_runs_the_image(void)
{
    const char *said;

    put_program("enroot");
    put_program("podman");
    said = says("img", "home");
    ok(has(said, "podman: <run>") && !strstr(said, "enroot:"), "podman comes before enroot");
    ok(has(said, "<img> <sh> <-c>") && has(said, "in: it's /"), "and runs the code in the image");
    put_program("apptainer");
    ok(has(says("docker://a/b", "home"), "apptainer: <exec>"), "apptainer comes first");
    ok(has(says("nothing", "home"), "unable there is no image nothing"), "a file must be there");
    ok(has(says("a.sqsh", "home"), "enroot: <start>"), "but not where only another runs the image");
    (void)setenv("CELLSPAN_CONTAINER", "podman", 1);
    ok(has(says("img", "home"), "podman: <run>"), "and not where the user names one");
    ok(has(says("a.sif", "home"), "refused: --in a.sif: only apptainer runs such an image"),
       "which must be able to");
    (void)unsetenv("CELLSPAN_CONTAINER");
    take_programs();
    ok(has(says("x.sif", "home"), "unable apptainer is not on its PATH, and runs the image x.sif"),
       "one that is not there is named");
    take_programs();
}

static void images_are_got_first(void)
{
    const char *said;

    put_program("podman");
    said = says("docker://a/b:1", "home");
    ok(has(said, "podman: <pull> <a/b:1>") && has(said, "says gets the image a/b:1 by podman"),
       "podman pulls what it lacks, and the user is told");
    (void)setenv("PULL", "7", 1);
    ok(has(says("a", "home"), "unable podman can't get the image a") &&
           !strstr(says("a", "home"), "<run>"),
       "and what can't be got is not run");
    (void)unsetenv("PULL");
    take_programs();
    put_program("enroot");
    said = says("docker://r.io/a/b:1", "home");
    ok(has(said, "enroot: <import> <-o>") && has(said, "<docker://r.io#a/b:1>") &&
           has(said, "/home/.cache/cellspan-images/docker+++r.io+a+b+1.sqsh> <sh>"),
       "enroot imports it into a file");
    ok(!strstr(says("docker://r.io/a/b:1", "home"), "<import>"), "once");
    take_programs();
}

static void folders_are_words(void)
{
    static const char bind[] = "/" FOLDER ":";
    char want[512];
    const char *said;

    put_program("podman");
    said = says("img", FOLDER);
    snprintf(want, sizeof want, "<-v> <%s%s%s/%s>", top, bind, top, FOLDER);
    ok(has(said, want), "whatever is in their names");
    snprintf(want, sizeof want, "<-v> <%s/home:%s/home>", top, top);
    ok(has(said, want), "the home folder");
    snprintf(want, sizeof want, "in: it's %s/%s\n", top, FOLDER);
    ok(has(said, want), "and the code inside is told where to go");
    said = says("img", "a:b");
    snprintf(want, sizeof want, "the container does not see %s/a:b:", top);
    ok(has(said, want), "one with a colon is named");
    said = says("img", "home/below");
    snprintf(want, sizeof want, "<%s/home/below:", top);
    ok(!strstr(said, want), "one within another is there already");
    take_programs();
    put_program("enroot");
    snprintf(want, sizeof want, "<%s/a\\072b\\040c:%s/a\\072b\\040c:none:x-create=dir,rbind,rw>",
             top, top);
    ok(has(says("img", "a:b c"), want), "enroot has them as a line of fstab");
    take_programs();
}

static void names_of_images_run_nothing(void)
{
    static const char *const images[] = { "x'; touch hit; '", "$(touch hit)", "`touch hit`",
                                          "\"; touch hit #",  "a b\\",        "~/$(touch hit)" };
    char want[128], path[128];

    put_program("podman");
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        const bool of_home = images[i][0] == '~';

        snprintf(want, sizeof want, "%s%s> <sh>", of_home ? "/home/" : "<",
                 images[i] + 2 * of_home);
        ok(has(says(images[i], "home"), want), "%s is a word", images[i]);
    }
    snprintf(path, sizeof path, "%s/home/hit", top);
    ok(access(path, F_OK) < 0, "and nothing of them is run");
    ok(has(says("--privileged", "home"), "refused: ") && has(says("a\nb", "home"), "refused: "),
       "what could be an option, or more lines, is no image");
    take_programs();
}

static void the_container_gets_some_variables(void)
{
    const char *said;

    (void)setenv("CELLSPAN_SECRET", "5ecret", 1);
    (void)setenv("OMP_NUM_THREADS", "it's $x", 1);
    (void)setenv("PYTHONPATH", "/of/the/machine", 1);
    put_program("podman");
    said = says("img", "home");
    ok(has(said, "<-e> <OMP_NUM_THREADS>") && has(said, "<-e> <HOME>"), "by their names");
    ok(!strstr(said, "<PYTHONPATH>") && !strstr(said, "CELLSPAN_SECRET") && !strstr(said, "5ecret"),
       "not those for other Pythons, and not the secret");
    take_programs();
    put_program("apptainer");
    said = says("docker://img", "home");
    ok(has(said, "omp <it's $x>") && !strstr(said, "5ecret"), "in the way of apptainer");
    take_programs();
    (void)unsetenv("CELLSPAN_SECRET");
}

static void settings_are_whole_commands(void)
{
    put_program("podman");
    (void)setenv("CELLSPAN_PODMAN", "podman run 'a b' {image}", 1);
    ok(has(says("img", "home"), "podman: <run> <a b> <img> <sh> <-c>"), "quoted as for a shell");
    (void)setenv("CELLSPAN_PODMAN", "podman run", 1);
    ok(has(says("img", "home"), "refused: CELLSPAN_PODMAN: {image} is not in it"),
       "with the image");
    (void)setenv("CELLSPAN_PODMAN", "podman {gpu} {image}", 1);
    ok(has(says("img", "home"),
           "{gpu} stands for nothing: write {user}, {gpus}, {mounts}, {env} or {image}"),
       "and no other word in braces");
    (void)setenv("CELLSPAN_PODMAN", "podman 'run {image}", 1);
    ok(has(says("img", "home"), "refused: CELLSPAN_PODMAN: a ' has no end"), "quotes have ends");
    (void)unsetenv("CELLSPAN_PODMAN");
    take_programs();
}

/* Which containers the code has removed, a line each, when it has removed n; else after 20 s. */
static const char *removed(unsigned n)
{
    static char text[64];
    char path[64];

    snprintf(path, sizeof path, "%s/removed", top);
    for (unsigned i = 0; i < 200; i++) {
        FILE *file = fopen(path, "r");
        unsigned lines = 0;

        text[file ? fread(text, 1, sizeof text - 1, file) : 0] = '\0';
        if (file)
            (void)fclose(file);
        for (const char *at = text; (at = strchr(at, '\n')); at++)
            lines++;
        if (lines >= n)
            break;
        (void)usleep(100000);
    }
    return text;
}

static void set_number(const char *name, const char *format, pid_t pid)
{
    char text[64];

    snprintf(text, sizeof text, format, (int)pid);
    (void)setenv(name, text, 1);
}

static void what_is_left_of_containers_goes(void)
{
    const pid_t ends = fork();

    if (ends == 0) {
        (void)pause();
        _exit(0);
    }
    put_program("podman");
    set_number("CONMON", "%d", getpid());
    set_number("PS", "lives %d\nexited 0", ends);
    (void)says("img", "home");
    is_text(removed(1), "exited\n", "what runs stays");
    set_number("CONMON", "%d", 999999999);
    set_number("PS", "ends %d", ends);
    (void)says("img", "home");
    (void)usleep(300000);
    is_text(removed(1), "exited\n", "what runs without its conmon is waited for");
    (void)kill(ends, SIGKILL);
    (void)waitpid(ends, NULL, 0);
    is_text(removed(2), "exited\nends\n", "and removed when it has ended");
    (void)unsetenv("PS");
    (void)unsetenv("CONMON");
    take_programs();
}

int main(void)
{
    char command[512];

    if (!mkdtemp(top)) {
        skip("no folder can be made in /tmp");
        return plan_done();
    }
    snprintf(
        command, sizeof command,
        "cd %s && mkdir -p bin tools home/below 'a:b' 'a:b c' \"$FOLDER_NAME\" && for p in sh env sed "
        "id mktemp mkdir mv rm sleep tr touch; do ln -s \"$(command -v $p)\" tools/ || exit 1; done",
        top);
    (void)setenv("FOLDER_NAME", FOLDER, 1);
    if (system(command) != 0)
        diag("no folders");
    snprintf(command, sizeof command, "%s/home", top);
    (void)setenv("HOME", command, 1);
    (void)unsetenv("XDG_CACHE_HOME");
    (void)unsetenv("XDG_RUNTIME_DIR");
    the_first_program_runs_the_image();
    images_are_got_first();
    folders_are_words();
    names_of_images_run_nothing();
    the_container_gets_some_variables();
    settings_are_whole_commands();
    what_is_left_of_containers_goes();
    snprintf(command, sizeof command, "rm -rf %s", top);
    if (system(command) != 0)
        diag("%s is left", top);
    return plan_done();
}
