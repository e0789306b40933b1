/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of launchers/login_limit.h: first alone, then with the launcher's children that log in, and
 * with a shell in place of ssh that counts how many run at once. */
#include "launchers/login_limit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launchers/relay_child.h"
#include "launchers/ssh/relogin_child.h"
#include "tests/unit/launchers/turns.h"
#include "tests/unit/tap.h"

#define CHILDREN 6u /* of each kind */
#define MOST     3u
#define ENOUGH   40u /* logins */

/* ---- alone ---- */

struct one {
    struct login login;
    bool fails; /* as it begins */
    unsigned started;
};

static void one_starts(void *arg)
{
    struct one *one = arg;

    one->started++;
    if (one->fails)
        login_over(&one->login);
}

static unsigned started(const struct one *one, unsigned n)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < n; i++)
        sum += one[i].started;
    return sum;
}

static void so_many_and_no_more(void)
{
    struct one one[6] = { { .started = 0 } };
    struct login_limit all;

    login_limit_init(&all, 2);
    for (unsigned i = 0; i < 6; i++) {
        one[i].login = (struct login){ .login_limit = &all, .start = one_starts, .arg = &one[i] };
        login_ask(&one[i].login);
        login_ask(&one[i].login);
    }
    ok(started(one, 6) == 2 && one[0].started && one[1].started, "two of six begin");
    login_over(&one[5].login);
    login_over(&one[2].login);
    is_int(started(one, 6), 2, "none that is not wanted any more");
    one[3].fails = true;
    login_over(&one[0].login);
    ok(one[3].started == 1 && one[4].started == 1, "if one can't even begin, the next does");
    login_over(&one[0].login);
    login_over(&one[1].login);
    login_over(&one[4].login);
    ok(all.running == 0 && !all.first && started(one, 6) == 4, "all are over");
    login_ask(&one[5].login);
    is_int(one[5].started, 1, "one that was taken back may ask again");
    login_over(&one[5].login);
}

static void a_pause_is_never_quite_the_same(void)
{
    uint64_t least = UINT64_MAX, most = 0;

    for (unsigned i = 0; i < 1000; i++) {
        const uint64_t ns = login_pause_ns(NS_PER_S);

        least = ns < least ? ns : least;
        most = ns > most ? ns : most;
    }
    ok(least >= NS_PER_S * 3 / 4 && most < NS_PER_S * 5 / 4 && most - least > NS_PER_S / 4,
       "a pause is of about that length");
}

/* ---- with those that log in ---- */

struct bench {
    struct turns turns;
    struct login_limit login_limit;
    struct relogin_child *relogin[CHILDREN];
    struct relay_child *relay[CHILDREN];
    char folder[64], command[256];
    unsigned ended, most;
};

/* Each login makes a folder while it runs. */
static unsigned logging_in(const struct bench *b)
{
    DIR *folder = opendir(b->folder);
    unsigned n = 0;

    while (folder && readdir(folder))
        n++;
    if (folder)
        closedir(folder);
    return n < 2 ? 0 : n - 2; /* itself and its parent */
}

static void child_ended(void *arg)
{
    struct bench *b = arg;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (unsigned i = 0; i < CHILDREN; i++)
            b->ended += relogin_child_ended(b->relogin[i], pid, status) ||
                        relay_child_ended(b->relay[i], pid);
}

static void gone(void *arg, bool restarted)
{
    (void)arg, (void)restarted;
}

static struct words words_of(struct bench *b)
{
    struct words argv = WORDS_INIT;

    if (words_add(&argv, "sh") < 0 || words_add(&argv, "-c") < 0 ||
        words_add(&argv, b->command) < 0)
        words_release(&argv);
    return argv;
}

static bool begin(struct bench *b)
{
    struct err err = { "" };

    snprintf(b->folder, sizeof b->folder, "/tmp/cellspan-logins-%ld", (long)getpid());
    snprintf(b->command, sizeof b->command,
             "mkdir %s/$$; sleep 0.05; rmdir %s/$$; echo it is off >&2; exit 255", b->folder,
             b->folder);
    login_limit_init(&b->login_limit, MOST);
    (void)setenv("CELLSPAN_KERNEL_ENDPOINT", "tcp://127.0.0.1:1", 1);
    if (mkdir(b->folder, 0700) < 0 || !turns_begin(&b->turns, child_ended, b))
        return false;
    for (unsigned i = 0; i < CHILDREN; i++) {
        struct words first = words_of(b), second = words_of(b);
        const struct relogin_child_spec relogin = { .loop = b->turns.loop,
                                                    .login_limit = &b->login_limit,
                                                    .host = "h1",
                                                    .limit_ns = TURNS_LIMIT_NS,
                                                    .argv = &first,
                                                    .gone = gone };
        const struct relay_child_spec relay = { .loop = b->turns.loop,
                                                .login_limit = &b->login_limit,
                                                .host = "h1",
                                                .way = "ssh",
                                                .argv = &second };

        b->relogin[i] = relogin_child_start(&relogin, &err);
        b->relay[i] = relay_child_start(&relay, &err);
        if (!b->relogin[i] || !b->relay[i])
            return false;
    }
    return true;
}

static void all_kinds_of_logins_share_one_limit(void)
{
    struct bench b = { .most = 0 };
    unsigned now;

    ok(begin(&b), "twelve children want to log in");
    while (b.ended < ENOUGH && turns_take(&b.turns))
        b.most = (now = logging_in(&b)) > b.most ? now : b.most;
    ok(b.ended >= ENOUGH, "they try again and again");
    ok(b.most > 1 && b.most <= MOST, "at most %u at once: %u", MOST, b.most);
    for (unsigned i = 0; i < CHILDREN; i++) {
        relogin_child_stop(b.relogin[i]);
        relay_child_stop(b.relay[i]);
    }
    is_int(b.login_limit.running, 0, "none holds a place when all are stopped");
    while (waitpid(-1, NULL, 0) > 0)
        ;
    loop_destroy(b.turns.loop);
    snprintf(b.command, sizeof b.command, "rm -rf %s", b.folder);
    ok(system(b.command) == 0, "the folder goes");
}

int main(void)
{
    so_many_and_no_more();
    a_pause_is_never_quite_the_same();
    all_kinds_of_logins_share_one_limit();
    return plan_done();
}
