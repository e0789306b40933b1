/* SPDX-License-Identifier: BSD-3-Clause */
/* The handler marks the signal in a table and writes one byte to a pipe. The byte only wakes up
 * poll(2), so nothing is lost if the pipe is full. */
#include "base/loop/wake.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"

static volatile sig_atomic_t came[NSIG];
static volatile sig_atomic_t write_end = -1;
static int read_end = -1;
static unsigned caught;
static struct sigaction before[NSIG];

static void handle(int signo)
{
    const int saved = errno;
    const int fd = (int)write_end;

    came[signo] = 1;
    if (fd >= 0 && write(fd, "", 1) < 0)
        errno = saved; /* full: poll(2) wakes up anyway */
    errno = saved;
}

static int open_pipe(struct err *err)
{
    int fd[2];

    if (read_end >= 0)
        return 0;
    if (fd_pipe(fd) < 0)
        return err_set(err, "signals: pipe: %s", strerror(errno));
    if (fd_nonblock(fd[0], true) < 0 || fd_nonblock(fd[1], true) < 0) {
        (void)err_set(err, "signals: %s", strerror(errno));
        fd_close(&fd[0]);
        fd_close(&fd[1]);
        return -1;
    }
    read_end = fd[0];
    write_end = fd[1];
    return 0;
}

static void close_pipe(void)
{
    const int fd = (int)write_end;

    if (caught > 0 || read_end < 0)
        return;
    write_end = -1;
    (void)close(fd);
    fd_close(&read_end);
}

int wake_catch(int signo, struct err *err)
{
    struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };

    if (signo <= 0 || signo >= NSIG)
        return err_set(err, "there is no signal %d", signo);
    if (open_pipe(err) < 0)
        return -1;
    (void)sigfillset(&action.sa_mask);
    came[signo] = 0;
    if (sigaction(signo, &action, &before[signo]) < 0) {
        (void)err_set(err, "can't catch signal %d: %s", signo, strerror(errno));
        close_pipe();
        return -1;
    }
    caught++;
    return read_end;
}

void wake_release(int signo)
{
    (void)sigaction(signo, &before[signo], NULL);
    caught--;
    close_pipe();
}

void wake_drain(void)
{
    char bytes[64];

    while (read_end >= 0 && read(read_end, bytes, sizeof bytes) == (ssize_t)sizeof bytes)
        ;
}

bool wake_take(int signo)
{
    if (!came[signo])
        return false;
    came[signo] = 0;
    return true;
}
