/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of side_queue.h: a message is only dropped if the caller could not take it. */
#include "worker/ext/side_queue.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/tap.h"

#define ALL  3u
#define WAIT 10000u /* milliseconds */

static struct side_queue all;
static _Atomic unsigned taken, calls;

static void add(void)
{
    struct packet p = PACKET_INIT;

    if (side_queue_add(&all, &p) < 0)
        abort();
}

/* Takes one. The next has the same place in memory, as malloc gives it. */
static void take_one(void *arg)
{
    struct packet p = PACKET_INIT;

    (void)arg;
    calls++;
    if (!side_queue_take(&all, &p))
        return;
    packet_release(&p);
    if (++taken < ALL)
        add();
}

static void take_none(void *arg)
{
    (void)arg;
    calls++;
}

static void wait_for(_Atomic unsigned *n, unsigned wanted)
{
    for (unsigned k = 0; k < WAIT && *n < wanted; k++)
        usleep(1000);
}

static bool runs(void)
{
    bool does;

    pthread_mutex_lock(&all.lock);
    does = all.runs;
    pthread_mutex_unlock(&all.lock);
    return does;
}

int main(void)
{
    struct err err = { "" };

    if (side_queue_init(&all, take_one, NULL, &err) < 0)
        abort();
    add();
    usleep(10000);
    is_int(calls, 0, "before it is ready nothing is taken");
    side_queue_ready(&all); /* the message that waits starts the thread */
    wait_for(&taken, ALL);
    is_int(taken, ALL, "messages that come while others are taken are not dropped");
    while (runs())
        usleep(1000);
    calls = 0;
    all.call = take_none;
    add();
    wait_for(&calls, 1);
    usleep(20000);
    is_int(calls, 1, "one that can't be taken is dropped, and not tried for ever");
    return plan_done();
}
