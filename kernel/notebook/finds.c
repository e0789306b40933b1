/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes on what ranks ask home about the notebook's code (FIND), and home's answers (FOUND). When
 * a cell begins on many nodes, each of them asks the same. So home is asked once, and its answer
 * goes to all of them as one message, with one blob. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rows.h"
#include "kernel/blobs/blob_schedule.h"
#include "kernel/notebook/notebook.h"

/* An answer whose blob has at least this many bytes is kept until all machines have asked, but not
 * for ever: those that ask later get the same blob, from a machine that has it already. */
#define LARGE     BLOB_CHAIN_SIZE
#define KEPT_NS   (30 * NS_PER_S)
#define KEPT_MOST (UINT64_C(256) << 20) /* bytes of all that are kept */
/* A rank that asks once more after this time has waited in vain: so home is asked once more, too.
 */
#define AGAIN_NS (10 * NS_PER_S)
/* Home says every 5 s that it is at work. If it does not, new questions may be in vain. */
#define SAID_NS   (15 * NS_PER_S)
#define REPEAT_NS (4 * NS_PER_S) /* those that wait need not hear it more often */
#define OPEN_MOST 8u             /* questions of one rank at once */
/* So many files of a package take a while to be stored. Nobody tells when that is done. */
#define MANY     1000u
#define STORE_NS (2 * NS_PER_S)

/* A question that is not answered yet, or whose answer is kept. */
struct find {
    struct find *next;
    struct buf what, question;
    uint32_t *worker; /* owned: n workers that have asked it, each once */
    size_t n, room;
    uint64_t asked_ns;  /* when home was last asked */
    bool begun;         /* those that have asked know that home is at work */
    uint64_t told_ns;   /* since then */
    uint64_t due_ns;    /* when the kept answer is dropped; NEVER: home has not answered */
    struct span answer; /* the kept one's header and numbers */
    struct buf content; /* and its content */
};

/* What a node has got since the last cell ended. */
struct sent {
    unsigned node;
    uint64_t modules, files, bytes;
};

/* A package of many files that ranks have asked for. Machines may have most of them already. */
struct package {
    char *name;           /* owned; NULL: none yet */
    uint64_t files, sent; /* that it has; that home has sent since */
    uint64_t until_ns;    /* so long it counts as being sent */
};

struct find_list {
    struct find *first; /* owned */
    uint64_t said_ns;   /* when home last said that it is at work */
    struct package package;
    struct sent *sent; /* owned, n of them */
    size_t n, room;
};

static void find_free(struct find *f)
{
    buf_release(&f->what);
    buf_release(&f->question);
    buf_release(&f->content);
    free(f->worker);
    free(f);
}

/* ---- answers ---- */

static int send_found(struct notebook *nb, const struct find *f, const uint32_t *worker, size_t n,
                      const struct span *found)
{
    struct span m = *found;

    m.worker = SPAN_WORKER_NONE;
    m.v[F_FOUND_WHAT].s = buf_slice(&f->what);
    m.v[F_FOUND_QUESTION].s = buf_slice(&f->question);
    return n ? notebook_send_to(nb, worker, n, &m, NULL) : 0;
}

static void fail(struct notebook *nb, const struct find *f, const uint32_t *worker, size_t n,
                 const char *why)
{
    struct span m = { .kind = SPAN_FOUND };
    struct buf content = BUF_INIT;

    m.v[F_FOUND_CONTENT].s = text_json(&content, json_pack("{s:s}", "error", why)) == 0
                                 ? buf_slice(&content)
                                 : slice_text("{\"error\":\"out of memory\"}");
    if (send_found(nb, f, worker, n, &m) < 0)
        log_warn("finds", "no answer could be sent: %s", why);
    buf_release(&content);
}

/* ---- what was sent ---- */

/* If memory is out, a line tells less. */
static void count_node(struct find_list *all, unsigned node, const struct span *found)
{
    struct sent *s = NULL;

    for (size_t k = 0; k < all->n && !s; k++)
        s = all->sent[k].node == node ? &all->sent[k] : NULL;
    if (!s && (s = rows_add(&all->sent, &all->n, &all->room, sizeof *s)))
        *s = (struct sent){ .node = node };
    if (!s)
        return;
    s->modules += found->v[F_FOUND_MODULES].u64;
    s->files += found->v[F_FOUND_FILES].u64;
    s->bytes += found->blob_size;
}

/* A node gets a blob once, however many of its ranks have asked. */
static void count(struct notebook *nb, const struct find *f, const struct span *found)
{
    for (size_t k = 0; found->blob_size && k < f->n; k++) {
        const unsigned node = notebook_node_of(nb, f->worker[k]);
        bool had = false;

        for (size_t i = 0; i < k && !had; i++)
            had = notebook_node_of(nb, f->worker[i]) == node;
        if (!had)
            count_node(nb->home.finds, node, found);
    }
}

bool finds_sent(struct notebook *nb, struct sent_code *out)
{
    struct find_list *all = nb->home.finds;

    *out = (struct sent_code){ 0 };
    for (size_t k = 0; all && k < all->n; k++) {
        if (all->sent[k].modules > out->modules)
            out->modules = all->sent[k].modules;
        if (all->sent[k].files > out->files)
            out->files = all->sent[k].files;
        if (all->sent[k].bytes > out->bytes)
            out->bytes = all->sent[k].bytes;
    }
    out->hosts = all ? all->n : 0;
    if (all)
        all->n = 0;
    return out->hosts;
}

/* An answer goes out: the list of a package's files, or some of them. */
static void note_package(struct notebook *nb, const struct find *f, const struct span *found)
{
    struct package *p = &nb->home.finds->package;
    const bool is_list = slice_is(buf_slice(&f->what), "tree");
    json_t *question = is_list && found->v[F_FOUND_FILES].u64 >= MANY
                           ? text_parse(buf_slice(&f->question))
                           : NULL;
    const char *name = json_string_value(json_object_get(question, "name"));
    char *copy = name ? strdup(name) : NULL;

    if (copy) {
        free(p->name);
        *p = (struct package){ .name = copy, .files = found->v[F_FOUND_FILES].u64 };
    }
    if (!is_list && p->name) {
        p->sent += found->v[F_FOUND_FILES].u64;
        p->sent = p->sent < p->files ? p->sent : p->files; /* several machines may ask for a file */
        p->until_ns = notebook_now(nb) + STORE_NS;
    }
    json_decref(question);
}

const char *finds_package(const struct notebook *nb, uint64_t *files)
{
    const struct package *p = nb->home.finds ? &nb->home.finds->package : NULL;

    if (!p || !p->name || p->sent < MANY || notebook_now(nb) >= p->until_ns)
        return NULL;
    *files = p->sent;
    return p->name;
}

enum { AT_WORK = 1, COMES = 2 }; /* of F_FOUND_MORE */

/* Tells the ranks that have asked that home works on the answer, or that it is on its way, so that
 * they go on waiting. The question is not repeated, since it can be long. -1: the ranks are gone.
 */
static int announce(struct notebook *nb, const uint32_t *worker, size_t n, uint64_t how)
{
    const struct span begun = { .kind = SPAN_FOUND,
                                .worker = SPAN_WORKER_NONE,
                                .v[F_FOUND_MORE].u64 = how };

    return n ? notebook_send_to(nb, worker, n, &begun, NULL) : 0;
}

/* To all that have asked. -1: they are gone. */
static int say_at_work(struct notebook *nb, struct find *f)
{
    f->begun = true;
    f->told_ns = notebook_now(nb);
    return announce(nb, f->worker, f->n, AT_WORK);
}

static bool pass_on(struct notebook *nb, const struct find *f, const uint32_t *worker, size_t n,
                    const struct span *found)
{
    if (send_found(nb, f, worker, n, found) == 0)
        return true;
    fail(nb, f, worker, n, "its answer could not be sent");
    return false;
}

static void pass_to_all(struct notebook *nb, struct find *f, const struct span *found)
{
    if (found->blob_size && announce(nb, f->worker, f->n, COMES) < 0)
        log_debug("finds", "the ranks that have asked are gone");
    else if (pass_on(nb, f, f->worker, f->n, found))
        count(nb, f, found);
}

/* ---- answers that are kept ---- */

static bool node_has_asked(const struct notebook *nb, const struct find *f, unsigned node)
{
    for (size_t k = 0; k < f->n; k++)
        if (notebook_node_of(nb, f->worker[k]) == node)
            return true;
    return false;
}

/* Have all other machines asked? */
static bool all_have_asked(const struct notebook *nb, const struct find *f)
{
    for (size_t i = 0; i < nb->nodes; i++)
        if (!nb->node[i].lost && nb->node[i].number != NODE_HERE &&
            !node_has_asked(nb, f, nb->node[i].number))
            return false;
    return true;
}

static int keep(struct notebook *nb, struct find *f, const struct span *found)
{
    if (buf_add_slice(&f->content, found->v[F_FOUND_CONTENT].s) < 0)
        return -1;
    f->answer =
        (struct span){ .kind = SPAN_FOUND, .blob = found->blob, .blob_size = found->blob_size };
    f->answer.v[F_FOUND_MODULES] = found->v[F_FOUND_MODULES];
    f->answer.v[F_FOUND_FILES] = found->v[F_FOUND_FILES];
    f->answer.v[F_FOUND_CONTENT].s = buf_slice(&f->content);
    f->due_ns = notebook_now(nb) + KEPT_NS;
    return 0;
}

/* Takes it from the list. */
static void drop_kept(struct notebook *nb, struct find **at)
{
    struct find *f = *at;

    *at = f->next;
    notebook_drop(nb, f->answer.blob);
    find_free(f);
}

/* The oldest go first. */
static void limit_kept(struct notebook *nb)
{
    uint64_t bytes = 0;

    for (const struct find *f = nb->home.finds->first; f; f = f->next)
        bytes += f->due_ns == NEVER ? 0 : f->answer.blob_size;
    for (struct find **at = &nb->home.finds->first; *at && bytes > KEPT_MOST;)
        if ((*at)->due_ns == NEVER) {
            at = &(*at)->next;
        } else {
            bytes -= (*at)->answer.blob_size;
            drop_kept(nb, at);
        }
}

void finds_tick(struct notebook *nb)
{
    const uint64_t now = notebook_now(nb);

    for (struct find **at = nb->home.finds ? &nb->home.finds->first : NULL; at && *at;)
        if (now >= (*at)->due_ns)
            drop_kept(nb, at);
        else
            at = &(*at)->next;
}

uint64_t finds_due(const struct notebook *nb)
{
    uint64_t due = NEVER;

    for (const struct find *f = nb->home.finds ? nb->home.finds->first : NULL; f; f = f->next)
        due = clock_earlier(due, f->due_ns);
    return due;
}

/* ---- questions ---- */

static bool is_same(const struct find *f, struct slice what, struct slice question)
{
    return slice_equal(buf_slice(&f->what), what) && slice_equal(buf_slice(&f->question), question);
}

/* Where the pointer to the question is; to NULL: nobody has asked it. */
static struct find **find_at(struct find_list *all, struct slice what, struct slice question)
{
    struct find **at = &all->first;

    while (*at && !is_same(*at, what, question))
        at = &(*at)->next;
    return at;
}

static bool has_asked(const struct find *f, uint32_t worker)
{
    for (size_t k = 0; k < f->n; k++)
        if (f->worker[k] == worker)
            return true;
    return false;
}

static int add_worker(struct find *f, uint32_t worker)
{
    uint32_t *row = has_asked(f, worker) ? &worker
                                         : rows_add(&f->worker, &f->n, &f->room, sizeof *row);

    if (row)
        *row = worker;
    return row ? 0 : -1;
}

static struct find *find_new(const struct span *m, uint32_t worker)
{
    struct find *f = calloc(1, sizeof *f);

    if (f)
        f->due_ns = NEVER;
    if (f && buf_add_slice(&f->what, m->v[F_FIND_WHAT].s) == 0 &&
        buf_add_slice(&f->question, m->v[F_FIND_QUESTION].s) == 0 && add_worker(f, worker) == 0)
        return f;
    if (f)
        find_free(f);
    return NULL;
}

/* NULL: home was asked. Otherwise: why it could not be. */
static const char *ask_home(struct notebook *nb, const struct span *m)
{
    const uint32_t home = SPAN_WORKER_HOME;
    struct span find = { .kind = SPAN_FIND, .worker = home, .blob = notebook_next_blobs(nb, 1) };

    if (nb->agent_gone || nb->home.state != HOME_READY)
        return "home, where the notebook's cells run, has ended";
    find.v[F_FIND_WHAT].s = m->v[F_FIND_WHAT].s;
    find.v[F_FIND_QUESTION].s = m->v[F_FIND_QUESTION].s;
    return notebook_send_to(nb, &home, 1, &find, NULL) < 0 ? "home can't be reached" : NULL;
}

/* NULL: it may ask. Home has more to tell than what is for ranks. */
static const char *refusal(const struct find_list *all, uint32_t worker, const struct span *m)
{
    const struct slice what = m->v[F_FIND_WHAT].s;
    size_t n = 0;

    for (const struct find *f = all->first; f; f = f->next)
        n += f->due_ns == NEVER && has_asked(f, worker);
    if (!slice_is(what, "tree") && !slice_is(what, "files"))
        return "ranks can't ask that";
    return n >= OPEN_MOST ? "home has not answered other questions of this rank" : NULL;
}

/* The answer to one rank, whose question is not kept. */
static void refuse(struct notebook *nb, uint32_t worker, const struct span *m, const char *why)
{
    struct find *f = find_new(m, worker);

    if (!f) {
        log_error("finds", "out of memory: worker %u gets no answer", (unsigned)worker);
        return;
    }
    fail(nb, f, f->worker, f->n, why);
    find_free(f);
}

/* Is home's thread at work? */
static bool is_at_work(const struct notebook *nb)
{
    const struct find_list *all = nb->home.finds;

    if (notebook_now(nb) - all->said_ns >= SAID_NS)
        return false;
    for (const struct find *f = all->first; f; f = f->next)
        if (f->begun && f->due_ns == NEVER)
            return true;
    return false;
}

/* Adds the question to the end of the list. */
static void ask(struct notebook *nb, struct find **end, uint32_t worker, const struct span *m)
{
    const char *why = refusal(nb->home.finds, worker, m);
    struct find *f;

    if (!why)
        why = ask_home(nb, m);
    if (why || !(f = find_new(m, worker))) {
        refuse(nb, worker, m, why ? why : "out of memory");
        return;
    }
    f->asked_ns = notebook_now(nb);
    if (is_at_work(nb))
        (void)say_at_work(nb, f);
    *end = f;
}

/* A rank asks what is answered. */
static void answer_late(struct notebook *nb, struct find **at, uint32_t worker)
{
    struct find *f = *at;
    const unsigned node = notebook_node_of(nb, worker);
    const bool had = node_has_asked(nb, f, node);

    if (announce(nb, &worker, 1, COMES) == 0 && pass_on(nb, f, &worker, 1, &f->answer) && !had)
        count_node(nb->home.finds, node, &f->answer);
    f->due_ns = notebook_now(nb) + KEPT_NS;
    if (add_worker(f, worker) < 0 || all_have_asked(nb, f))
        drop_kept(nb, at);
}

/* Another rank asks the same, or one asks again. */
static void join(struct notebook *nb, struct find **at, uint32_t worker, const struct span *m)
{
    struct find *f = *at;
    const bool again = has_asked(f, worker);

    if (f->due_ns != NEVER) {
        answer_late(nb, at, worker);
    } else if (add_worker(f, worker) < 0) {
        log_error("finds", "out of memory: worker %u gets no answer", (unsigned)worker);
    } else {
        if (again && notebook_now(nb) - f->asked_ns >= AGAIN_NS && !ask_home(nb, m))
            f->asked_ns = notebook_now(nb);
        if (f->begun && is_at_work(nb))
            (void)announce(nb, &worker, 1, AT_WORK);
    }
}

void finds_take(struct notebook *nb, uint32_t worker, const struct span *m)
{
    struct find **at;

    if (!nb->home.finds && !(nb->home.finds = calloc(1, sizeof *nb->home.finds))) {
        log_error("finds", "out of memory: worker %u gets no answer", (unsigned)worker);
        return;
    }
    at = find_at(nb->home.finds, m->v[F_FIND_WHAT].s, m->v[F_FIND_QUESTION].s);
    if (*at)
        join(nb, at, worker, m);
    else
        ask(nb, at, worker, m);
}

/* Home has begun with one question, so it will come to those that wait behind it. */
static void home_is_at_work(struct notebook *nb)
{
    const uint64_t now = notebook_now(nb);

    if (nb->home.finds)
        nb->home.finds->said_ns = now;
    for (struct find *f = nb->home.finds ? nb->home.finds->first : NULL; f; f = f->next)
        if ((!f->begun || now - f->told_ns >= REPEAT_NS) && f->due_ns == NEVER &&
            say_at_work(nb, f) < 0)
            log_debug("finds", "the ranks that have asked are gone");
}

void finds_answered(struct notebook *nb, const struct span *m)
{
    struct find_list *all = nb->home.finds;
    struct find **at = all ? find_at(all, m->v[F_FOUND_WHAT].s, m->v[F_FOUND_QUESTION].s) : NULL;
    struct find *f = at ? *at : NULL;

    if (m->v[F_FOUND_MORE].u64) {
        home_is_at_work(nb);
        return;
    }
    if (f && f->due_ns == NEVER) {
        note_package(nb, f, m);
        pass_to_all(nb, f, m);
        if (m->blob_size >= LARGE && !all_have_asked(nb, f) && keep(nb, f, m) == 0) {
            limit_kept(nb);
            return;
        }
        *at = f->next;
        find_free(f);
    }
    notebook_drop(nb, m->blob_size ? m->blob : 0);
}

/* ---- ends ---- */

/* Home goes on with its answer: the same question may be asked again meanwhile. */
void finds_leave(struct notebook *nb, uint32_t worker)
{
    for (struct find *f = nb->home.finds ? nb->home.finds->first : NULL; f; f = f->next)
        for (size_t k = f->n; k-- > 0;)
            if (f->worker[k] == worker)
                rows_remove(f->worker, &f->n, sizeof *f->worker, k);
}

void finds_home_gone(struct notebook *nb)
{
    struct find *f;

    while (nb->home.finds && (f = nb->home.finds->first)) {
        if (f->due_ns != NEVER) {
            drop_kept(nb, &nb->home.finds->first);
            continue;
        }
        nb->home.finds->first = f->next;
        fail(nb, f, f->worker, f->n, "home, where the notebook's cells run, has ended");
        find_free(f);
    }
}

void finds_release(struct notebook *nb)
{
    struct find *f;

    while (nb->home.finds && (f = nb->home.finds->first)) {
        nb->home.finds->first = f->next;
        find_free(f);
    }
    if (nb->home.finds) {
        free(nb->home.finds->sent);
        free(nb->home.finds->package.name);
    }
    free(nb->home.finds);
    nb->home.finds = NULL;
}
