/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/ext/flusher.h"

#include <errno.h>
#include <stdio.h>
#ifdef __GLIBC__
#include <stdio_ext.h>
#endif
#include <string.h>

#include "base/process.h"
#include "worker/ext/cond.h"

#define TICK_NS 50000000L
/* after a second without a cell the thread sleeps until the next cell */
#define QUIET_TICKS 20

static struct timespec next_tick(void)
{
    struct timespec t = cond_time(0);

    /* all workers of a node flush at the same times, so that merging finds equal lines together */
    t.tv_nsec += TICK_NS - t.tv_nsec % TICK_NS;
    if (t.tv_nsec >= 1000000000L) {
        t.tv_nsec -= 1000000000L;
        t.tv_sec++;
    }
    return t;
}

int flusher_init(struct flusher *f, void (*flush)(void *arg), void *arg, struct err *err)
{
    memset(f, 0, sizeof *f);
    f->flush = flush;
    f->arg = arg;
    if (pthread_mutex_init(&f->turn, NULL) != 0 || pthread_mutex_init(&f->lock, NULL) != 0 ||
        cond_init(&f->wake) != 0)
        return err_set(err, "no lock for the flusher: %s", strerror(errno));
    return 0;
}

bool flusher_stdio_waits(void)
{
#ifdef __GLIBC__
    /* read without the lock: text that another thread is writing now may come later */
    return __fpending(stdout) > 0;
#else
    return true;
#endif
}

void flusher_stdio(void)
{
    if (!flusher_stdio_waits())
        return;
    if (ftrylockfile(stdout) != 0)
        return;
    fflush(stdout);
    funlockfile(stdout);
}

static void flush_now(struct flusher *f)
{
    pthread_mutex_unlock(&f->lock);
    pthread_mutex_lock(&f->turn);
    flusher_stdio();
    f->flush(f->arg);
    pthread_mutex_unlock(&f->turn);
    pthread_mutex_lock(&f->lock);
}

static void *flusher_main(void *arg)
{
    struct flusher *f = arg;
    unsigned quiet = 0;

    pthread_mutex_lock(&f->lock);
    while (!f->stopping) {
        const struct timespec tick = next_tick();

        if (quiet >= QUIET_TICKS && f->active == 0) {
            f->idle = true;
            pthread_cond_wait(&f->wake, &f->lock);
            f->idle = false;
            quiet = 0;
            continue;
        }
        pthread_cond_timedwait(&f->wake, &f->lock, &tick);
        quiet = f->active ? 0 : quiet + 1;
        if (f->active && !f->stopping)
            flush_now(f);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

int flusher_start(struct flusher *f, struct err *err)
{
    int rc;

    if (f->started)
        return 0;
    f->stopping = false;
    if ((rc = thread_start(&f->thread, flusher_main, f)) != 0)
        return err_set(err, "no thread to flush: %s", strerror(rc));
    f->started = true;
    return 0;
}

void flusher_stop(struct flusher *f)
{
    if (!f->started)
        return;
    pthread_mutex_lock(&f->lock);
    f->stopping = true;
    pthread_cond_signal(&f->wake);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    f->started = false;
}

void flusher_begin(struct flusher *f)
{
    pthread_mutex_lock(&f->lock);
    f->active++;
    if (f->idle)
        pthread_cond_signal(&f->wake);
    pthread_mutex_unlock(&f->lock);
}

void flusher_end(struct flusher *f)
{
    pthread_mutex_lock(&f->lock);
    if (f->active > 0)
        f->active--;
    pthread_mutex_unlock(&f->lock);
}

void flusher_hold(struct flusher *f)
{
    pthread_mutex_lock(&f->turn);
}

void flusher_release(struct flusher *f)
{
    pthread_mutex_unlock(&f->turn);
}

void flusher_forked(struct flusher *f)
{
    pthread_mutex_init(&f->turn, NULL);
    pthread_mutex_init(&f->lock, NULL);
    cond_init(&f->wake);
    f->started = false;
    f->idle = false;
    f->active = 0;
}
