/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/ext/find_waits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "protocol/span.h"
#include "protocol/span_fields.h"
#include "worker/ext/cond.h"

#define COMES UINT64_MAX /* the answer comes, however long its blob takes */

int finds_init(struct finds *f, struct err *err)
{
    memset(f, 0, sizeof *f);
    if (pthread_mutex_init(&f->lock, NULL) != 0 || cond_init(&f->news) != 0)
        return err_set(err, "no lock for questions: %s", strerror(errno));
    return side_queue_init(&f->queue, NULL, NULL, err);
}

/* Several threads may have asked the same, so each gets a copy. */
static void give(struct find_wait *w, const struct packet *p)
{
    w->done = true;
    if (!(w->found.p = malloc(p->n)))
        return;
    memcpy(w->found.p, p->p, p->n);
    w->found.n = p->n;
    w->found.blob_fd = p->blob_fd < 0 ? -1 : fcntl(p->blob_fd, F_DUPFD_CLOEXEC, 3);
}

/* Without a question, it is about all that is asked. */
static bool has_asked(const struct find_wait *w, const struct span *found)
{
    if (found->v[F_FOUND_MORE].u64 && !found->v[F_FOUND_QUESTION].s.n)
        return !w->done;
    return !w->done && slice_equal(w->what, found->v[F_FOUND_WHAT].s) &&
           slice_equal(w->question, found->v[F_FOUND_QUESTION].s);
}

static void take_found(struct finds *f, const struct packet *p)
{
    struct err err = { "" };
    struct span m;
    uint64_t more;

    if (span_decode(&m, p->p, p->n, &err) < 0)
        return;
    more = m.v[F_FOUND_MORE].u64;
    pthread_mutex_lock(&f->lock);
    for (struct find_wait *w = f->first; w; w = w->next)
        if (!more && has_asked(w, &m))
            give(w, p);
        else if (more ? has_asked(w, &m) && (more > 1 || w->until_ns != COMES)
                      : w->until_ns == COMES) /* which was perhaps about this answer */
            w->until_ns = more > 1 ? COMES : clock_now(&clock_system) + w->work_ns;
    pthread_cond_broadcast(&f->news);
    pthread_mutex_unlock(&f->lock);
    span_release(&m);
}

int finds_came(struct finds *f, struct packet *p)
{
    struct err err = { "" };
    struct span head;

    if (span_peek(&head, p->p, p->n, &err) == 0 && head.kind == SPAN_FIND)
        return side_queue_add(&f->queue, p);
    take_found(f, p);
    packet_release(p);
    return 0;
}

void finds_begin(struct finds *f, struct find_wait *w)
{
    pthread_mutex_lock(&f->lock);
    w->next = f->first;
    f->first = w;
    pthread_mutex_unlock(&f->lock);
}

void finds_end(struct finds *f, struct find_wait *w)
{
    struct find_wait **at;

    pthread_mutex_lock(&f->lock);
    for (at = &f->first; *at && *at != w; at = &(*at)->next)
        ;
    if (*at)
        *at = w->next;
    pthread_mutex_unlock(&f->lock);
}

enum find_news finds_wait(struct finds *f, const struct find_wait *w, uint64_t ns,
                          uint64_t until_ns)
{
    enum find_news news = FIND_WAITS;
    const struct timespec end = cond_time(ns);

    pthread_mutex_lock(&f->lock);
    while (!w->done && pthread_cond_timedwait(&f->news, &f->lock, &end) == 0)
        ;
    if (w->done)
        news = FIND_DONE;
    else if (clock_now(&clock_system) >= (w->until_ns > until_ns ? w->until_ns : until_ns))
        news = FIND_LATE;
    pthread_mutex_unlock(&f->lock);
    return news;
}

void finds_forked(struct finds *f)
{
    pthread_mutex_init(&f->lock, NULL);
    cond_init(&f->news);
    f->first = NULL;
    side_queue_forked(&f->queue);
}
