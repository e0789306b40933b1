/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/settings_files.h and base/trusted_file.h: in a folder of its own, with that
 * folder's files as the site's, the user's and the project's. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/trusted_file.h"
#include "tests/unit/chaos.h"
#include "tests/unit/base/settings_folder.h"
#include "tests/unit/tap.h"

static char top[PATH_MAX];

static void later_files_win(void)
{
    says("merge = \"prefix\"\nhang_notice = 5\nspool_limit = 1048576\nstatus = \"off\"\n",
         "merge = \"rank0\"\nhang_notice = \"90s\"\n", "merge = \"panel\"\n", "", "three files");
    is_text(setting_text(SETTING_MERGE), "panel", "the project's wins");
    is_int((int64_t)setting_value(SETTING_HANG_NOTICE), 90 * (int64_t)NS_PER_S, "then the user's");
    is_int((int64_t)setting_value(SETTING_SPOOL_LIMIT), 1 << 20, "then the site's");
    is_int((int64_t)setting_value(SETTING_STATUS), 0, "which may be a word");
    is_int((int64_t)setting_value(SETTING_RESUME), 120 * (int64_t)NS_PER_S, "then the default");
    remove_all();
}

static void the_environment_wins(void)
{
    struct settings_files f;

    write_file(USER, "merge = \"rank0\"\nhang_notice = 30\npreload = \"jax\"\n");
    setenv("CELLSPAN_MERGE", "raw", 1);
    setenv("CELLSPAN_HANG_NOTICE", "often", 1);
    setenv("CELLSPAN_PRELOAD", "", 1);
    ok(read_all(&f) == 0, "a file and the environment");
    is_text(setting_text(SETTING_MERGE), "raw", "the environment wins");
    is_text(setting_text(SETTING_PRELOAD), "jax", "unless it says nothing");
    is_text(setting_text(SETTING_HANG_NOTICE), "30", "or nothing valid");
    is_text(text_of(&f),
            "CELLSPAN_HANG_NOTICE=often: a duration is wanted (10, 10s, 5min, 2h or 500ms), from 0 "
            "to 1000000 s, or off; 30 of user.toml:2 is used\n",
            "which is named");
    ok(f.now[SETTING_MERGE].origin == ORIGIN_ENVIRONMENT &&
           f.now[SETTING_PRELOAD].origin == ORIGIN_FILE && f.value[SETTING_PRELOAD].line == 3 &&
           f.now[SETTING_STATUS].origin == ORIGIN_DEFAULT,
       "it is known where each comes from");
    settings_files_release(&f);
    remove_all();
}

/* A file of the user's, and what is said of it; NULL: that it is no TOML. */
static const struct {
    const char *text, *wrong;
} wrong_files[] = {
    { "status = \"of\"\n", "user.toml:1: status = \"of\": off or on is wanted\n" },
    { "\nstatus = true\n", "user.toml:2: status: it is true; off or on is wanted\n" },
    { "status = 1\n", "user.toml:1: status = 1: off or on is wanted\n" },
    { "merge = [\"raw\"]\n",
      "user.toml:1: merge: it is an array; fold, prefix, rank0, panel or raw is wanted\n" },
    { "preload = 5\n", "user.toml:1: preload = 5: a text of one line, in quotes, is wanted\n" },
    { "preload = \"\"\"a\nb\"\"\"\n",
      "user.toml:1: preload: it is a text of several lines; a text of one line, in quotes, is "
      "wanted\n" },
    { "preload = \"a\\u0000b\"\n",
      "user.toml:1: preload: it is a text of several lines; a text of one line, in quotes, is "
      "wanted\n" },
    { "preload = \"\"\n",
      "user.toml:1: preload: it is a text; a text of one line, in quotes, is wanted\n" },
    { "resume = -1\n", "user.toml:1: resume = -1: a duration is wanted (10, 10s, 5min, 2h or "
                       "500ms), from 0 to 86400 s\n" },
    { "resume = nan\n", "user.toml:1: resume = nan: a duration is wanted (10, 10s, 5min, 2h or "
                        "500ms), from 0 to 86400 s\n" },
    { "resume = 1979-05-27\n", "user.toml:1: resume: it is a date or a time; a duration is "
                               "wanted (10, 10s, 5min, 2h or 500ms), from 0 to 86400 s\n" },
    { "capture_limit = \"much\"\n", "user.toml:1: capture_limit = \"much\": a size is wanted: "
                                    "bytes, or as 64M, 8G\n" },
    { "colour = 1\n", "user.toml:1: colour: there is no such setting; `cellspan config` lists "
                      "them\n" },
    { "capture-limit = 1\n",
      "user.toml:1: capture-limit: there is no such setting; did you mean capture_limit?\n" },
    { "CELLSPAN_MERGE = \"raw\"\n",
      "user.toml:1: CELLSPAN_MERGE: there is no such setting; did you mean merge?\n" },
    { "\"merge\\u0000\" = \"raw\"\n",
      "user.toml:1: merge: there is no such setting; did you mean merge?\n" },
    { "\"a\\nb\\u001b[31m\" = 1\n",
      "user.toml:1: a?b?[31m: there is no such setting; `cellspan config` lists them\n" },
    { "[status]\nx = 1\n", "user.toml:1: status: it is a table; off or on is wanted\n" },
    { "[maximum]\nresume = 9\n", "user.toml:1: maximum: only /etc/cellspan.toml states maxima\n" },
    { "status = off\n", NULL },
    { "status = \"off\n", NULL },
    { "merge = \"raw\"\nmerge = \"fold\"\n", NULL },
    { "merge \"raw\"", NULL },
    { "[[[[", NULL },
};

static void mistakes_are_named(void)
{
    for (size_t i = 0; i < sizeof wrong_files / sizeof *wrong_files; i++) {
        struct settings_files f;

        write_file(USER, wrong_files[i].text);
        ok(read_all(&f) == 0, "%s", wrong_files[i].text);
        if (wrong_files[i].wrong)
            is_text(text_of(&f), wrong_files[i].wrong, "is named");
        else
            ok(strncmp(text_of(&f), "user.toml:", 10) == 0 &&
                   strstr(text_of(&f), ": it is not TOML: ") &&
                   strstr(text_of(&f), "; nothing of the file is used\n"),
               "is no TOML: %s", text_of(&f));
        ok(!setting_text(SETTING_STATUS) && !setting_text(SETTING_MERGE) &&
               !setting_text(SETTING_PRELOAD) && !setting_text(SETTING_RESUME),
           "and not used");
        settings_files_release(&f);
        remove_all();
    }
    says(NULL, "status = \"of\"\nmerge = \"raw\"\n", NULL,
         "user.toml:1: status = \"of\": off or on is wanted\n", "a wrong line");
    is_text(setting_text(SETTING_MERGE), "raw", "the others of its file count");
    remove_all();
    says(NULL, "", NULL, "", "an empty file");
    says(NULL, "# nothing\r\n\r\nmerge = 'raw'\r\n", NULL, "", "one with the line ends of DOS");
    is_text(setting_text(SETTING_MERGE), "raw", "is read");
    remove_all();
}

/* Whoever clones a repository has not agreed to run what it names. */
static void a_project_sets_nothing_that_runs_or_reaches(void)
{
    static const char *const allowed[] = { "capture_limit",
                                           "seed",
                                           "status",
                                           "merge",
                                           "hang_notice",
                                           "spool_limit",
                                           "resume",
                                           "start_timeout",
                                           "heartbeat_timeout",
                                           "dial_timeout",
                                           "ssh_timeout",
                                           "slurm_timeout",
                                           "n",
                                           "timeout",
                                           "grace",
                                           "notice",
                                           "gpu_quota" };
    char key[SETTING_KEY];

    for (int i = 0; i < N_SETTINGS; i++) {
        bool listed = false;

        setting_key((enum setting)i, key);
        for (size_t k = 0; k < sizeof allowed / sizeof *allowed; k++)
            listed = listed || strcmp(key, allowed[k]) == 0;
        ok(setting_rows[i].project == listed, "a project's file may%s set %s", listed ? "" : " not",
           key);
    }
    says(
        NULL, NULL, "merge = \"raw\"\n\npreload = \"evil\"\n",
        "cellspan.toml:3: preload: a project's file may not set what runs something or reaches "
        "something; set it in your own file (user.toml), or as CELLSPAN_PRELOAD in the environment\n",
        "a project that names modules");
    ok(!setting_text(SETTING_PRELOAD), "they are not imported");
    is_text(setting_text(SETTING_MERGE), "raw", "what it may set counts");
    remove_all();
    says(NULL, NULL, "[maximum]\nresume = 9\n",
         "cellspan.toml:1: maximum: only /etc/cellspan.toml states maxima\n", "or maxima");
    remove_all();
}

/* ---- files that are none ---- */

static void is_refused(const char *why)
{
    struct settings_files f;
    char line[512];

    snprintf(line, sizeof line, USER ": %s\n", why);
    ok(read_all(&f) == 0, "%s", why);
    is_text(text_of(&f), line, "is refused");
    ok(f.there[FILE_OF_USER], "it is there");
    settings_files_release(&f);
    remove_all();
}

static void make_socket(const char *path)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    strcpy(at.sun_path, path);
    ok(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0, "a socket");
    (void)close(fd);
}

static void odd_files_are_refused(void)
{
    ok(mkdir(USER, 0700) == 0, "a folder");
    is_refused("it is a folder; a file is wanted");
    ok(mkfifo(USER, 0600) == 0, "a FIFO, for which nobody waits");
    is_refused("it is a device or a pipe; a file is wanted");
    make_socket(USER);
    is_refused("it can't be read: No such device or address");
    ok(symlink("/dev/zero", USER) == 0, "a device that never ends");
    is_refused("it is a device or a pipe; a file is wanted");
    ok(symlink("nowhere.toml", USER) == 0, "a link");
    is_refused("it is a link, and there is nothing where it leads");
    ok(symlink(USER, USER) == 0, "a link to itself");
    is_refused("it can't be read: Too many levels of symbolic links");
    write_file(USER, "");
    ok(truncate(USER, 1 << 30) == 0, "1 GiB");
    is_refused("it has 1073741824 bytes; at most 64 KiB are read");
    write_file(USER, "merge = \"raw\"\n\n# \xe9\n");
    is_refused("line 3 is not UTF-8: give the file that encoding");
    write_bytes(USER, "merge = \"raw\"\n#\0\n", 17);
    is_refused("line 2 has a NUL byte; a text in UTF-8 is wanted");
    write_file("target.toml", "merge = \"raw\"\n");
    ok(symlink("target.toml", USER) == 0, "a link to a file");
    says(NULL, NULL, NULL, "", "is followed");
    is_text(setting_text(SETTING_MERGE), "raw", "and read");
    remove_all();
}

/* A file of /proc has no size. */
static void a_file_that_grows_has_a_bound(void)
{
    struct buf text = BUF_INIT;
    struct err err = { "" };

    ok(trusted_file_read("/proc/self/maps", TRUSTED_FILE_OF_SITE, &text, &err) != 0 &&
           text.n <= TRUSTED_FILE_MAX,
       "a file whose size the system does not tell is read, up to a bound");
    buf_release(&text);
}

static void files_that_others_can_write_are_refused(void)
{
    static const char what[] = "merge = \"raw\"\n";

    write_file(USER, what);
    ok(chmod(USER, 0620) == 0, "of a group");
    is_refused("other users can write it: chmod go-w " USER);
    write_file(USER, what);
    ok(chmod(USER, 0602) == 0, "of all");
    is_refused("other users can write it: chmod go-w " USER);
    write_file(PROJECT, what);
    ok(chmod(PROJECT, 0666) == 0, "a project's may be several people's");
    says(NULL, NULL, NULL, "", "and is read");
    is_text(setting_text(SETTING_MERGE), "raw", "and counts");
    remove_all();
    if (geteuid() != 0) {
        skip("only root can give files away");
        return;
    }
    write_file(USER, what);
    ok(chown(USER, 4711, 4711) == 0, "another user's");
    is_refused("it belongs to another user (uid 4711)");
    write_file(PROJECT, what);
    ok(chown(PROJECT, 4711, 4711) == 0, "a colleague's");
    says(NULL, NULL, NULL, "", "is read");
    is_text(setting_text(SETTING_MERGE), "raw", "and counts");
    remove_all();
}

static void a_file_in_a_folder_of_all_must_be_ours(void)
{
    char path[PATH_MAX + 16];
    struct buf text = BUF_INIT;
    struct err err = { "" };

    snprintf(path, sizeof path, "%s/open", top);
    ok(mkdir(path, 0777) == 0 && chmod(path, 01777) == 0, "a folder as /tmp");
    strcat(path, "/" PROJECT);
    write_file(path, "merge = \"raw\"\n");
    is_int(trusted_file_read(path, TRUSTED_FILE_OF_PROJECT, &text, &err), 1, "our own file there");
    if (geteuid() == 0) {
        ok(chown(path, 4711, 4711) == 0, "another user's");
        is_int(trusted_file_read(path, TRUSTED_FILE_OF_PROJECT, &text, &err), -1, "is refused");
        is_text(err.text,
                "it belongs to another user (uid 4711), in a folder where all users can make files",
                "by name");
    }
    buf_release(&text);
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}

/* As root, everything can be read. */
static void an_unreadable_file_is_named(void)
{
    if (geteuid() == 0 && seteuid(4711) < 0) {
        skip("the user can't be changed");
        return;
    }
    ok(true, "as another user");
    {
        struct buf text = BUF_INIT;
        struct err err = { "" };

        is_int(trusted_file_read("sealed.toml", TRUSTED_FILE_OF_USER, &text, &err), -1,
               "unreadable");
        is_text(err.text, "it can't be read: Permission denied", "is named");
        is_int(trusted_file_read("hidden/user.toml", TRUSTED_FILE_OF_USER, &text, &err), 0,
               "what is in a folder that we can't see is not there");
        is_int(trusted_file_read("sealed.toml/x", TRUSTED_FILE_OF_USER, &text, &err), 0,
               "nor is what is below a file");
        buf_release(&text);
    }
    if (getuid() == 0)
        ok(seteuid(0) == 0, "back");
}

static void unreadable_files(void)
{
    write_file("sealed.toml", "merge = \"raw\"\n");
    ok(chmod("sealed.toml", 0) == 0 && mkdir("hidden", 0700) == 0, "files that are sealed");
    write_file("hidden/user.toml", "merge = \"raw\"\n");
    if (geteuid() != 0)
        ok(chmod("hidden", 0) == 0, "and hidden");
    an_unreadable_file_is_named();
    (void)chmod("hidden", 0700);
    unlink("hidden/user.toml");
    rmdir("hidden");
    unlink("sealed.toml");
}

/* ---- where they are ---- */

/* The path of a file, below the folder of the test; NULL: there is none. */
static void is_at(enum settings_file file, const char *want, const char *what)
{
    struct settings_files f = SETTINGS_FILES_INIT;
    char path[PATH_MAX + 64] = "";

    ok(settings_files_find(&f) == 0, "%s", what);
    if (want)
        snprintf(path, sizeof path, "%s%s%s", *want == '/' ? "" : top, *want == '/' ? "" : "/",
                 want);
    is_text(f.path[file] ? f.path[file] : "", path, "is there");
    settings_files_release(&f);
}

static void files_have_their_places(void)
{
    is_at(FILE_OF_SITE, "/etc/cellspan.toml", "the site's");
    setenv("XDG_CONFIG_HOME", "/x/config", 1);
    setenv("HOME", "/x/home", 1);
    is_at(FILE_OF_USER, "/x/config/cellspan/cellspan.toml", "where XDG says");
    setenv("XDG_CONFIG_HOME", "config", 1);
    is_at(FILE_OF_USER, "/x/home/.config/cellspan/cellspan.toml", "unless that is no full path");
    unsetenv("XDG_CONFIG_HOME");
    is_at(FILE_OF_USER, "/x/home/.config/cellspan/cellspan.toml", "or is not set");
    unsetenv("HOME");
    is_at(FILE_OF_USER, NULL, "without a home folder there is none");
    ok(mkdir("a", 0700) == 0 && mkdir("a/b", 0700) == 0 && mkdir("a/b/c", 0700) == 0 &&
           chdir("a/b/c") == 0,
       "folders");
    write_file("../" PROJECT, "");
    write_file("../../" PROJECT, "");
    is_at(FILE_OF_PROJECT, "a/b/c/cellspan.toml", "without git, only the folder's own");
    ok(mkdir("../../.git", 0700) == 0, "a repository");
    is_at(FILE_OF_PROJECT, "a/b/cellspan.toml", "the nearest one");
    unlink("../" PROJECT);
    is_at(FILE_OF_PROJECT, "a/cellspan.toml", "up to the repository's own folder");
    write_file("../.git", "gitdir: elsewhere\n");
    is_at(FILE_OF_PROJECT, "a/b/c/cellspan.toml", "not beyond that of a submodule or a work tree");
    unlink("../.git");
    rmdir("../../.git");
    unlink("../../" PROJECT);
    ok(chdir(top) == 0 && rmdir("a/b/c") == 0 && rmdir("a/b") == 0 && rmdir("a") == 0, "gone");
    setenv("XDG_CONFIG_HOME", "/", 1);
    ok(mkdir("cellspan", 0700) == 0 && chdir("cellspan") == 0, "the user's own folder");
    setenv("XDG_CONFIG_HOME", top, 1);
    is_at(FILE_OF_USER, "cellspan/cellspan.toml", "the user's file");
    is_at(FILE_OF_PROJECT, NULL, "is no project's, too");
    ok(chdir(top) == 0 && rmdir("cellspan") == 0, "gone");
    unsetenv("XDG_CONFIG_HOME");
}

static void a_removed_folder_has_no_project(void)
{
    ok(mkdir("gone", 0700) == 0 && chdir("gone") == 0 && rmdir("../gone") == 0, "a removed folder");
    is_at(FILE_OF_PROJECT, NULL, "has no file");
    ok(chdir(top) == 0, "back");
}

/* A program of a cell may start a kernel in another folder. */
static void a_program_below_reads_its_own(void)
{
    struct settings_files f;

    setenv("CELLSPAN_STATUS", "off", 1);
    says("[maximum]\nresume = 60\n", "merge = \"raw\"\nhang_notice = 5\npreload = \"jax\"\n", NULL,
         "", "a kernel's files");
    setenv("CELLSPAN_PRELOAD", "mine", 1);
    write_file(USER, "");
    write_file(SITE, "");
    unsetenv("HOME");
    f = (struct settings_files)SETTINGS_FILES_INIT;
    ok(settings_files_load(&f) == 0, "a kernel below that one");
    ok(!setting_text(SETTING_MERGE) && !setting_text(SETTING_HANG_NOTICE),
       "does not take the other's files for the environment");
    is_text(setting_text(SETTING_PRELOAD), "mine", "but what was set since");
    is_text(setting_text(SETTING_STATUS), "off", "and what was set before");
    is_int((int64_t)setting_value(SETTING_RESUME), 120 * (int64_t)NS_PER_S, "nor its maxima");
    settings_files_release(&f);
    remove_all();
}

static void memory_may_be_out(void)
{
    write_file(SITE, "resume = 3\n[maximum]\nresume = 300\nmerge = \"raw\"\n");
    write_file(USER, "merge = \"raw\"\npreload = \"jax\"\n[a.b]\nc = [1, 2, { d = 3 }]\n");
    write_file(PROJECT, "on = \"ssh:h\"\nstatus = \"of\"\n");
    for (long nth = 0, rc = -1; rc < 0 && nth < 10000; nth++) {
        struct settings_files f;

        alloc_fail_at(nth);
        rc = read_all(&f);
        if (rc == 0 && alloc_failed()) {
            ok(f.mistakes.n > 0, "allocation %ld: what is missing is said", nth);
            rc = -1; /* the parser's own, or setenv's */
        } else if (rc == 0) {
            ok(f.mistakes.n > 0, "all %ld allocations worked", nth);
        }
        alloc_fail_at(-1);
        settings_files_release(&f);
    }
    remove_all();
}

int main(void)
{
    char template[] = "/tmp/settings-XXXXXX";

    if (!folder_begin(template) || !getcwd(top, sizeof top))
        return 99;
    later_files_win();
    the_environment_wins();
    mistakes_are_named();
    a_project_sets_nothing_that_runs_or_reaches();
    odd_files_are_refused();
    a_file_that_grows_has_a_bound();
    files_that_others_can_write_are_refused();
    a_file_in_a_folder_of_all_must_be_ours();
    unreadable_files();
    files_have_their_places();
    a_removed_folder_has_no_project();
    a_program_below_reads_its_own();
    memory_may_be_out();
    (void)rmdir(template);
    return plan_done();
}
