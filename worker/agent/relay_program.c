/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/relay_program.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mux/forward.h"
#include "base/process.h"

#define CHECK_NS (2 * NS_PER_S) /* between two checks whether the folder is there */

struct relay_program {
    struct loop *loop;
    const char *folder;
};

static void over(void *arg, const char *why)
{
    const struct relay_program *r = arg;

    if (*why)
        fprintf(stderr, "cellspan-agent --relay: the launcher is gone: %s\n", why);
    loop_stop(r->loop);
}

static bool is_mine(const char *folder)
{
    struct stat st;

    return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/* The agent removes its folder when it ends. */
static void check_folder(void *arg)
{
    const struct relay_program *r = arg;

    if (!is_mine(r->folder))
        loop_stop(r->loop);
}

/* What was stdin or stdout, at another number: a line that somebody prints is no frame. */
static int leave(int fd, int instead)
{
    const int copy = fd_raise(dup(fd), STDERR_FILENO + 1);

    if (copy >= 0 && fd_nonblock(copy, true) == 0 && dup2(instead, fd) == fd)
        return copy;
    return -1;
}

static int run(struct relay_program *r, const char *path, _Atomic uint64_t *count, struct err *err)
{
    struct forward_spec spec = { .listen = path, .count = count, .over = over, .arg = r };
    struct forward *f;
    int rc = -1;

    spec.out = leave(STDOUT_FILENO, STDERR_FILENO);
    spec.in = leave(STDIN_FILENO, STDERR_FILENO);
    if (spec.in < 0 || spec.out < 0) {
        fd_close(&spec.in);
        fd_close(&spec.out);
        return err_set(err, "stdin and stdout: %s", strerror(errno));
    }
    if (!(f = forward_start(r->loop, &spec, err)))
        return -1;
    if (!loop_timer(r->loop, CHECK_NS, CHECK_NS, check_folder, r, err))
        rc = -1;
    else if (fd_write(spec.out, slice_text(RELAY_READY "\n")) < 0)
        rc = err_set(err, "stdout: %s", strerror(errno));
    else
        rc = loop_run(r->loop, err);
    forward_stop(f);
    return rc;
}

int relay_program_run(const char *folder, struct err *err)
{
    struct relay_program r = { .folder = folder };
    struct buf path = BUF_INIT;
    _Atomic uint64_t *count = NULL;
    int rc = -1;

    (void)signal(SIGPIPE, SIG_IGN);
    if (!is_mine(folder))
        return err_set(err, "--relay %.400s: it is not a folder of this user alone", folder);
    if (buf_addf(&path, "%s/" RELAY_SOCKET, folder) < 0)
        (void)err_set(err, "out of memory");
    else if ((r.loop = loop_create(&clock_system, err)) && (count = relayed_open(folder, err)))
        rc = run(&r, path.p, count, err);
    loop_destroy(r.loop);
    relayed_close(count);
    buf_release(&path);
    return rc;
}
