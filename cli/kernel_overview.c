/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_overview.c - what kernels say of what they do (declared in kernels.h). Root may ask the
 * kernels of all users. Their connection files and what answers there are theirs to write. So each
 * is asked by a process that has the rights of the kernel's owner and no others, is where the
 * kernel is (its network and its files may be its own), and has a time and a size. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/process.h"
#include "base/utf8.h"
#include "cli/ask_at_once.h"
#include "cli/cards.h"
#include "cli/kernels.h"
#include "cli/ps_table.h"

#define ANSWER_NS  (3 * NS_PER_S) /* until a kernel has said what runs */
#define SLACK_NS   NS_PER_S       /* for the process that asks it */
#define ANSWER_MAX (1u << 20)     /* bytes */
#define MEMORY_MAX (UINT64_C(1) << 30)
#define GROUPS_MAX 256

/* ---- in a process of its own ---- */

#ifdef __linux__
/* Opens both before it enters one: /proc may not be there any more. Where that is not allowed, it
 * asks from here. */
static void go_to(const struct running_kernel *k)
{
    static const char *const kind[] = { "net", "mnt" };
    char path[64];
    int fd[2];

    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/proc/%ld/ns/%s", (long)k->pid, kind[i]);
        fd[i] = open(path, O_RDONLY | O_CLOEXEC);
    }
    for (size_t i = 0; i < 2; i++) {
        if (fd[i] >= 0 && kernel_runs(k)) /* else another process may have its pid */
            (void)!setns(fd[i], 0);
        fd_close(&fd[i]);
    }
}

/* The groups of the process, which may be what lets it read its home folder. */
static int read_groups(pid_t pid, gid_t *group, gid_t groups[static GROUPS_MAX])
{
    char path[64], text[8192], *at;
    int n = 0;

    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    text[file_start(path, text, sizeof text - 1).n] = '\0';
    if (!(at = strstr(text, "\nGid:")))
        return -1;
    *group = (gid_t)strtoul(at + strlen("\nGid:"), NULL, 10);
    if (!(at = strstr(text, "\nGroups:")))
        return 0;
    at += strlen("\nGroups:");
    for (char *after; n < GROUPS_MAX; at = after) {
        const char *line_end = at + strcspn(at, "\n");
        const unsigned long one = strtoul(at, &after, 10);

        if (after == at || after > line_end)
            break;
        groups[n++] = (gid_t)one;
    }
    return n;
}

static int become(const struct running_kernel *k, struct err *err)
{
    const struct rlimit memory = { MEMORY_MAX, MEMORY_MAX };
    gid_t group, groups[GROUPS_MAX];
    const int n = read_groups(k->pid, &group, groups);

    if (n < 0 || !kernel_runs(k))
        return err_set(err, "it has ended: run the command again");
    go_to(k);
    if (setrlimit(RLIMIT_AS, &memory) < 0 || setgroups((size_t)n, groups) < 0 ||
        setresgid(group, group, group) < 0 || setresuid(k->uid, k->uid, k->uid) < 0)
        return err_set(err, "no process can become user %lu: %s", (unsigned long)k->uid,
                       strerror(errno));
    return 0;
}
#else
static int become(const struct running_kernel *k, struct err *err)
{
    return err_set(err, "ask as user %lu: this system can't do it for others",
                   (unsigned long)k->uid);
}
#endif

static void ask(const struct running_kernel *k, bool quick, int fd)
{
    struct err why = { "" };
    json_t *said = NULL;

    if (k->uid == geteuid() || become(k, &why) == 0)
        said = kernel_question(k, "cellspan_overview_request", "{}", "cellspan_overview_reply",
                               ANSWER_NS, &why);
    if (said)
        ps_table_complete(said, quick);
    else
        said = json_pack("{s:s}", "error", why.text);
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

/* What the kernel says, with what can be seen from outside. */
static int describe(struct overview *o, const struct running_kernel *k, struct slice said)
{
    json_t *file = NULL;
    uint64_t memory = 0;

    if (k->file && !(file = text_json(k->file)))
        return -1;
    o->content = json_loadb(said.n ? said.p : "", said.n, 0, NULL);
    if (!json_is_object(o->content)) {
        json_decref(o->content);
        o->content = json_pack("{s:s}", "error", "it does not answer");
    }
    (void)process_memory(k->pid, &memory);
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

/* What was told, in place. */
static int take_answers(struct overview *of, const struct kernels *k, const struct answer *answer,
                        json_t **cards)
{
    for (size_t i = 0; i < k->n; i++)
        if (!(of[i].name = clean(k->of[i].notebook)) ||
            describe(&of[i], &k->of[i], buf_slice(&answer[i].text)) < 0)
            return -1;
    return cards && !(*cards = cards_read(buf_slice(&answer[k->n].text))) ? -1 : 0;
}

struct overview *overviews_ask(const struct kernels *k, json_t **cards, struct err *err)
{
    struct overview *of = calloc(k->n + 1, sizeof *of);
    struct answer *answer = calloc(k->n + 1, sizeof *answer);
    int rc = of && answer ? 0 : err_set(err, "out of memory");

    for (size_t i = 0; rc == 0 && i < k->n; i++)
        answer[i] = (struct answer){ .f = cards ? ask_for_all : ask_for_own,
                                     .arg = &k->of[i],
                                     .text = BUF_INIT };
    if (rc == 0) {
        answer[k->n] = (struct answer){ .f = cards_ask, .text = BUF_INIT };
        rc = ask_at_once(answer, k->n + !!cards, ANSWER_MAX, ANSWER_NS + SLACK_NS, err);
    }
    if (rc == 0 && take_answers(of, k, answer, cards) < 0)
        rc = err_set(err, "out of memory");
    for (size_t i = 0; answer && i <= k->n; i++)
        buf_release(&answer[i].text);
    free(answer);
    if (rc == 0)
        return of;
    overviews_free(of, k->n);
    return NULL;
}
