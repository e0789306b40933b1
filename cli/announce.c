/* SPDX-License-Identifier: BSD-3-Clause */
/* `cellspan notice`: tells the agents of this user on this machine that it will be gone soon. For
 * a hook of whoever knows it, such as a program that asks a cloud's metadata. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/path.h"
#include "base/process.h"
#include "base/runtime.h"
#include "base/utf8.h"
#include "cli/private.h"

#define SECONDS_MAX 86400ul
#define TEXT_MAX    512u /* bytes */

struct announce {
    const char *seconds, *text, *pid;
    bool help;
};

const struct cmdline_row notice_rows[] = {
    { "seconds", "N", "in how many seconds (30)", offsetof(struct announce, seconds) },
    { "text", "TEXT", "why; it is shown in the notebook", offsetof(struct announce, text) },
    { "help", NULL, "this text", offsetof(struct announce, help) },
    { NULL, NULL, NULL, 0 },
};

struct telling {
    int fd;
    const char *line;
    const char *begin; /* of the name of a folder that is meant */
    unsigned told;
};

static void tell(void *telling, const char *dir)
{
    struct telling *t = telling;
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    struct err none = { "" };
    char *path;

    if (!text_begins(path_name(dir), t->begin) ||
        !(path = runtime_path(dir, RUNTIME_NOTICE, &none)))
        return;
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    free(path);
    if (sendto(t->fd, t->line, strlen(t->line), 0, (const void *)&at, sizeof at) >= 0)
        t->told++; /* else nobody has the folder any more */
}

/* The word after the options: whose folder is meant. */
static int take_pid(void *into, char **v, int n, const char *why)
{
    struct announce *o = into;

    (void)n;
    (void)why;
    if (!v[0][0] || strlen(v[0]) > 10 || strspn(v[0], "0123456789") != strlen(v[0]) || o->pid)
        return 0;
    o->pid = v[0];
    return 1;
}

static int announce(const struct announce *o, struct err *err)
{
    const char *seconds = o->seconds ? o->seconds : "30", *text = o->text ? o->text : "";
    struct telling t = { .fd = -1 };
    char begin[32];
    struct buf line = BUF_INIT;
    int rc = -1;

    if (!*seconds || strlen(seconds) > 6 || strspn(seconds, "0123456789") != strlen(seconds) ||
        strtoul(seconds, NULL, 10) > SECONDS_MAX) {
        err_set(err, "--seconds %s: a number is wanted, from 0 to %lu", seconds, SECONDS_MAX);
        return 2;
    }
    if (strlen(text) > TEXT_MAX) {
        err_set(err, "--text has %zu bytes: it may have %u", strlen(text), TEXT_MAX);
        return 2;
    }
    if (!utf8_is_valid(slice_text(text))) {
        if (utf8_add_clean(&line, slice_text(text)) == 0)
            err_set(err, "--text '%s' is not UTF-8: write it in UTF-8", line.p);
        buf_release(&line);
        return 2;
    }
    snprintf(begin, sizeof begin, "cellspan-%s%s", o->pid ? o->pid : "", o->pid ? "-" : "");
    t.begin = begin;
    t.fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (t.fd < 0 || fd_cloexec(t.fd) < 0 || fd_nonblock(t.fd, true) < 0)
        err_set(err, "no socket: %s", strerror(errno));
    else
        rc = buf_addf(&line, "%s %s", seconds, text);
    if (rc == 0) {
        t.line = line.p;
        runtime_each(tell, &t);
        printf("%u agent%s told\n", t.told, t.told == 1 ? " was" : "s were");
        rc = t.told ? 0
                    : err_set(err, "nothing of cellspan's runs here as this user%s%s",
                              o->pid ? " with the pid " : "", o->pid ? o->pid : "");
    }
    buf_release(&line);
    fd_close(&t.fd);
    return rc < 0 ? 1 : 0;
}

int command_notice(int argc, char **argv)
{
    struct announce o = { NULL, NULL, NULL, false };
    struct err err = { "" };
    int rc = 2;

    if (cmdline_parse(notice_rows, argc, argv, take_pid, &o, &err) == 0) {
        if (o.help) {
            puts(
                "usage: cellspan notice [--seconds N] [--text TEXT] [PID]\n\n"
                "Tells what runs as this user on this machine, notebooks and ranks, that the machine will be gone\n"
                "soon. A line in the cell says so, and ranks run what cellspan.on_notice() was given. PID: only the kernel\n"
                "(cellspan ps lists them), or on another machine the agent's guard.\n");
            cmdline_help(notice_rows, stdout);
            return 0;
        }
        rc = announce(&o, &err);
    }
    if (rc)
        fprintf(stderr, "cellspan notice: %s\n", err.text);
    return rc;
}
