/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_overview.c - what kernels say of what they do (declared in kernels.h). Root may ask the
 * kernels of all users. Their connection files and what answers there are theirs to write. So each
 * is asked by a process (ask_at_once.h) that has the rights of the kernel's owner for good and
 * nothing of root's, and has a time and a size. It enters the kernel's network, but never its
 * files: libraries and their configuration would be the user's there, and would run in it. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "base/process.h"
#include "base/utf8.h"
#include "cli/ask_at_once.h"
#include "cli/cards.h"
#include "cli/kernels.h"
#include "cli/owners.h"
#include "cli/ps_table.h"

#define ANSWER_NS  (3 * NS_PER_S)      /* until a kernel has said what runs */
#define SLACK_NS   NS_PER_S            /* for the process that asks it */
#define BEGIN_NS   (20 * NS_PER_S)     /* no kernel is asked later */
#define ANSWER_MAX (1u << 20)          /* bytes */
#define KEPT_MAX   (32u << 20)         /* bytes of memory for all that those have said */
#define VALUE_SIZE 128u                /* bytes of memory for each mark between JSON's values */
#define MEMORY_MAX (UINT64_C(1) << 30) /* of addresses; most of them are never used */
#define DATA_MAX   (UINT64_C(96) << 20)
#define STACK_SIZE (1u << 20)
#define GROUPS_MAX 256

extern char **environ;

/* ---- in a process of its own ---- */

#ifdef __linux__
/* Whose process it is, from one reading: a process can become another user's program at any time.
 */
struct owner {
    uid_t uid[4]; /* real, effective, saved, of the file system */
    gid_t gid[4];
    gid_t group[GROUPS_MAX]; /* n of them; they may be what lets it read its home folder */
    size_t n;
};

/* Up to `most` numbers in the line of this name. Returns how many. */
static size_t numbers(const char *text, const char *name, unsigned *out, size_t most)
{
    const char *at = strstr(text, name);
    const char *line_end;
    size_t n = 0;

    if (!at)
        return 0;
    at += strlen(name);
    line_end = at + strcspn(at, "\n");
    for (char *after; n < most; at = after) {
        const unsigned long one = strtoul(at, &after, 10);

        if (after == at || after > line_end)
            break;
        out[n++] = (unsigned)one;
    }
    return n;
}

static bool read_owner(pid_t pid, struct owner *o)
{
    char path[64], text[8192];

    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    text[file_start(path, text, sizeof text - 1).n] = '\0';
    o->n = numbers(text, "\nGroups:", o->group, GROUPS_MAX);
    return numbers(text, "\nUid:", o->uid, 4) == 4 && numbers(text, "\nGid:", o->gid, 4) == 4;
}

static bool is_only(const unsigned id[static 4], unsigned want)
{
    return id[0] == want && id[1] == want && id[2] == want && id[3] == want;
}

/* A network has no files and no programs: whoever made it can send our packets elsewhere, which he
 * could do by his connection file as well. Where that is not allowed, it asks from here. */
static void enter_network(const struct running_kernel *k)
{
    char path[64];
    int fd;

    snprintf(path, sizeof path, "/proc/%ld/ns/net", (long)k->pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && kernel_runs(k)) /* else another process may have its pid */
        (void)!setns(fd, CLONE_NEWNET);
    fd_close(&fd);
}

static int limit(int what, rlim_t most)
{
    const struct rlimit both = { most, most };

    return setrlimit(what, &both);
}

/* The stacks of ZeroMQ's threads count as data; a user's or a machine's limit may make them large.
 */
static void use_small_stacks(void)
{
#ifdef __GLIBC__
    pthread_attr_t small;

    if (pthread_attr_init(&small) == 0) {
        if (pthread_attr_setstacksize(&small, STACK_SIZE) == 0)
            (void)pthread_setattr_default_np(&small);
        (void)pthread_attr_destroy(&small);
    }
#endif
}

/* For good: all of them, and no way back. */
static bool is_now(uid_t uid, gid_t gid)
{
    uid_t u[3];
    gid_t g[3];

    return getresuid(&u[0], &u[1], &u[2]) == 0 && getresgid(&g[0], &g[1], &g[2]) == 0 &&
           u[0] == uid && u[1] == uid && u[2] == uid && g[0] == gid && g[1] == gid && g[2] == gid &&
           setresuid(0, 0, 0) < 0;
}

static int become(const struct running_kernel *k, struct err *err)
{
    const pid_t parent = getppid();
    struct owner o;

    if (!read_owner(k->pid, &o) || !kernel_runs(k))
        return err_set(err, "it has ended: run the command again");
    if (k->uid == 0 || !is_only(o.uid, k->uid) || !is_only(o.gid, o.gid[0]))
        return err_set(err, "it has the rights of more than one user, so it is not asked");
    enter_network(k);
    use_small_stacks();
    if (limit(RLIMIT_AS, MEMORY_MAX) < 0 || limit(RLIMIT_DATA, DATA_MAX) < 0 ||
        limit(RLIMIT_CORE, 0) < 0 || setgroups(o.n, o.group) < 0 ||
        setresgid(o.gid[0], o.gid[0], o.gid[0]) < 0 || setresuid(k->uid, k->uid, k->uid) < 0)
        return err_set(err, "no process can become user %lu: %s", (unsigned long)k->uid,
                       strerror(errno));
    /* nobody may trace it; that it ends with its parent was forgotten with the rights */
    if (!is_now(k->uid, o.gid[0]) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || chdir("/") < 0 ||
        process_die_with_parent(SIGKILL, parent) < 0)
        _exit(1);
    return 0;
}

static bool no_new_rights(void)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}
#else
static int become(const struct running_kernel *k, struct err *err)
{
    return err_set(err, "ask as user %lu: this system can't do it for others",
                   (unsigned long)k->uid);
}

static bool no_new_rights(void)
{
    return true;
}
#endif

static void forget_environment(void)
{
    static char *nothing[] = { NULL };

    for (char **one = environ; one && *one; one++)
        sodium_memzero(*one, strlen(*one));
    environ = nothing;
}

static void ask(const struct running_kernel *k, bool quick, int fd)
{
    struct err why = { "" };
    json_t *said = NULL;

    forget_environment();
    if (!no_new_rights())
        _exit(1);
    if (!k->foreign || become(k, &why) == 0)
        said = kernel_question(k, "cellspan_overview_request", "{}", "cellspan_overview_reply",
                               ANSWER_NS, &why);
    if (said) {
        /* these say that it was not asked, or that nothing came: no kernel says so */
        (void)json_object_del(said, "error");
        (void)json_object_del(said, "asked");
        ps_table_complete(said, quick);
    } else {
        said = json_pack("{s:s}", "error", why.text);
    }
    if (said)
        (void)!json_dumpfd(said, fd, JSON_COMPACT);
    json_decref(said);
}

static void ask_for_all(const void *arg, int fd)
{
    ask(arg, true, fd);
}

static void ask_for_own(const void *arg, int fd)
{
    ask(arg, false, fd);
}

/* ---- in ours ---- */

/* About how much memory the JSON takes: many small values are more than their text. */
static size_t memory_of(struct slice text)
{
    size_t marks = 1;

    for (size_t i = 0; i < text.n; i++)
        marks += memchr(",:[{", text.p[i], 4) != NULL;
    return text.n + marks * VALUE_SIZE;
}

/* A notebook's path as valid UTF-8. Owned by the caller; NULL: memory is out. */
static char *clean(const char *path)
{
    struct buf text = BUF_INIT;

    if (utf8_add_clean(&text, slice_text(path)) == 0 && buf_add_text(&text, "") == 0)
        return text.p;
    buf_release(&text);
    return NULL;
}

static json_t *text_json(const char *path)
{
    char *text = clean(path);
    json_t *one = text ? json_string(text) : NULL;

    free(text);
    return one;
}

static json_t *not_asked(const char *why)
{
    return json_pack("{s:s, s:b}", "error", why, "asked", 0);
}

/* What it has said. *kept: the memory of that and of what others of its owner have said. NULL:
 * memory is out. */
static json_t *said_by(const struct running_kernel *k, const struct turn *turn,
                       const struct answer *answer, size_t *kept)
{
    const struct slice text = buf_slice(&answer->text);
    json_t *said;

    if (turn->no)
        return not_asked(turn->no);
    if (!answer->begun)
        return not_asked("not asked: others have taken all the time");
    *kept += k->foreign ? memory_of(text) : 0;
    if (answer->too_long || *kept > KEPT_MAX)
        return json_pack("{s:s}", "error", "it answers at a length that nobody reads");
    said = json_loadb(text.n ? text.p : "", text.n, 0, NULL);
    if (json_is_object(said))
        return said;
    json_decref(said);
    return json_pack("{s:s}", "error", "it does not answer");
}

/* With what can be seen from outside. */
static int describe(struct overview *o, const struct running_kernel *k, json_t *said, bool quick)
{
    json_t *file = NULL;
    uint64_t memory = 0;

    if (!(o->content = said) || !(o->name = clean(k->notebook)) ||
        (k->file && !(file = text_json(k->file))))
        return -1;
    (void)ps_table_memory(k->pid, quick, &memory);
    return json_object_update_new(o->content,
                                  json_pack("{s:i, s:I, s:s, s:I, s:I, s:o?}", "pid", (int)k->pid,
                                            "uid", (json_int_t)k->uid, "notebook", o->name,
                                            "seconds", (json_int_t)k->seconds, "memory",
                                            (json_int_t)memory, "connection_file", file));
}

void overviews_free(struct overview *of, size_t n)
{
    for (size_t i = 0; of && i < n; i++) {
        free(of[i].name);
        json_decref(of[i].content);
    }
    free(of);
}

/* What was told, in place. The turns are sorted by owner. */
static int take_answers(struct overview *of, const struct kernels *k, const struct turn *turn,
                        struct answer *answer, bool quick)
{
    size_t kept = 0;

    for (size_t i = 0; i < k->n; i++) {
        struct answer *its = &answer[turn[i].answer];
        const struct running_kernel *one = &k->of[turn[i].kernel];

        if (turn[i].before == 0)
            kept = 0;
        if (describe(&of[turn[i].kernel], one, said_by(one, &turn[i], its, &kept), quick) < 0)
            return -1;
        buf_release(&its->text);
    }
    return 0;
}

/* The GPUs are the first answer. */
static int ask_all(struct overview *of, const struct kernels *k, json_t **cards, struct turn *turn,
                   struct answer *answer, struct err *err)
{
    const struct ask_limits limits = { ANSWER_MAX, ANSWER_NS + SLACK_NS, BEGIN_NS };
    const size_t first = cards ? 1 : 0;

    turns_fill(turn, k, first);
    for (size_t i = 0; i < k->n; i++)
        if (kernel_is_elsewhere(&k->of[turn[i].kernel]))
            turn[i].no = "not asked: it is root's, in a container or in other namespaces";
    if (cards)
        answer[0] = (struct answer){ .f = cards_ask, .text = BUF_INIT };
    for (size_t i = 0; i < k->n; i++)
        answer[turn[i].answer] = (struct answer){ .f = turn[i].no ? NULL
                                                       : cards    ? ask_for_all
                                                                  : ask_for_own,
                                                  .arg = &k->of[turn[i].kernel],
                                                  .text = BUF_INIT };
    if (ask_at_once(answer, first + k->n, &limits, err) < 0)
        return -1;
    if (take_answers(of, k, turn, answer, cards != NULL) < 0 ||
        (cards && !(*cards = cards_read(buf_slice(&answer[0].text)))))
        return err_set(err, "out of memory");
    return 0;
}

struct overview *overviews_ask(const struct kernels *k, json_t **cards, struct err *err)
{
    struct overview *of = calloc(k->n + 1, sizeof *of);
    struct answer *answer = calloc(k->n + 1, sizeof *answer);
    struct turn *turn = calloc(k->n + 1, sizeof *turn);
    int rc = of && answer && turn ? 0 : err_set(err, "out of memory");

    if (rc == 0)
        rc = ask_all(of, k, cards, turn, answer, err);
    for (size_t i = 0; answer && i <= k->n; i++)
        buf_release(&answer[i].text);
    free(answer);
    free(turn);
    if (rc == 0)
        return of;
    overviews_free(of, k->n);
    return NULL;
}
