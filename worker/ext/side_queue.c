/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/ext/side_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"

int side_queue_init(struct side_queue *a, void (*call)(void *arg), void *arg, struct err *err)
{
    memset(a, 0, sizeof *a);
    a->call = call;
    a->arg = arg;
    a->last = &a->first;
    if (pthread_mutex_init(&a->lock, NULL) != 0)
        return err_set(err, "no lock for subshells: %s", strerror(errno));
    return 0;
}

/* Has all been taken? Then the thread ends, and the next message starts another. */
static bool is_over(struct side_queue *a)
{
    bool over;

    pthread_mutex_lock(&a->lock);
    over = !a->first;
    a->runs = !over;
    pthread_mutex_unlock(&a->lock);
    return over;
}

/* How many have been taken? *waits: is there another? */
static uint64_t taken(struct side_queue *a, bool *waits)
{
    uint64_t n;

    pthread_mutex_lock(&a->lock);
    n = a->taken;
    *waits = a->first;
    pthread_mutex_unlock(&a->lock);
    return n;
}

static void *side_queue_main(void *arg)
{
    struct side_queue *a = arg;

    do {
        struct packet p = PACKET_INIT;
        bool waited, waits;
        const uint64_t before = taken(a, &waited);

        a->call(a->arg);
        /* Python could not even take it: without this, it would be tried for ever */
        if (waited && taken(a, &waits) == before && side_queue_take(a, &p))
            packet_release(&p);
    } while (!is_over(a));
    return NULL;
}

/* If there can't be one now, the next message tries again. */
static void start(struct side_queue *a)
{
    pthread_t thread;

    if (thread_start(&thread, side_queue_main, a) == 0) {
        pthread_detach(thread);
        return;
    }
    pthread_mutex_lock(&a->lock);
    a->runs = false;
    pthread_mutex_unlock(&a->lock);
}

int side_queue_add(struct side_queue *a, struct packet *p)
{
    struct side_message *in = malloc(sizeof *in);
    bool starts;

    if (!in)
        return -1;
    in->packet = *p;
    in->next = NULL;
    *p = (struct packet)PACKET_INIT;
    pthread_mutex_lock(&a->lock);
    *a->last = in;
    a->last = &in->next;
    starts = a->ready && !a->runs;
    a->runs = a->ready;
    pthread_mutex_unlock(&a->lock);
    if (starts)
        start(a);
    return 0;
}

void side_queue_ready(struct side_queue *a)
{
    bool starts;

    pthread_mutex_lock(&a->lock);
    starts = a->first && !a->runs;
    a->ready = true;
    a->runs = a->runs || starts;
    pthread_mutex_unlock(&a->lock);
    if (starts)
        start(a);
}

bool side_queue_take(struct side_queue *a, struct packet *p)
{
    struct side_message *in;

    pthread_mutex_lock(&a->lock);
    in = a->first;
    if (in && !(a->first = in->next))
        a->last = &a->first;
    if (in)
        a->taken++;
    pthread_mutex_unlock(&a->lock);
    if (!in)
        return false;
    *p = in->packet;
    free(in);
    return true;
}

void side_queue_forked(struct side_queue *a)
{
    pthread_mutex_init(&a->lock, NULL);
    a->first = NULL;
    a->last = &a->first;
    a->runs = a->ready = false;
}
