/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/ports.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "base/settings.h"

#define HOLDERS_MAX 4u /* more ports are not explained */
#define ANY_TRIES   8  /* of any port, where the one that the system chose is taken elsewhere */
#define TIME_WAIT   6u /* such a connection hinders nobody */
#define LISTENS     10u

/* ---- the setting ---- */

unsigned port_read(struct slice text)
{
    unsigned port = 0;

    for (size_t i = 0; i < text.n; i++) {
        if (!isdigit((unsigned char)text.p[i]))
            return 0;
        port = port * 10 + (unsigned)(text.p[i] - '0');
        if (port > PORT_MOST)
            return 0;
    }
    return port;
}

static bool is_number(struct slice text)
{
    size_t i = 0;

    while (i < text.n && isdigit((unsigned char)text.p[i]))
        i++;
    return text.n > 0 && i == text.n;
}

int port_range_read(const char *text, struct port_range *r, struct err *err)
{
    struct slice last = slice_text(text), first = last;
    const bool both = slice_has(last, '-');
    struct port_range read;

    if (both)
        first = slice_cut(&last, '-');
    if (!is_number(first) || !is_number(last))
        return err_set(
            err,
            "CELLSPAN_PORT=%.80s: a port or a range of ports is wanted, as 41000 or 41000-41100",
            text);
    read = (struct port_range){ port_read(first), port_read(last) };
    if (!read.first || !read.last)
        return err_set(
            err, "CELLSPAN_PORT=%.80s: ports are numbers from 1 to %u, as 41000 or 41000-41100",
            text, PORT_MOST);
    if (read.first > read.last)
        return err_set(err, "CELLSPAN_PORT=%.80s: this range is reversed: write %u-%u", text,
                       read.last, read.first);
    *r = read;
    return 0;
}

static int setting_range(struct port_range *r, struct err *err)
{
    const char *text = setting_text(SETTING_PORT);

    *r = (struct port_range){ 0, 0 };
    return text ? port_range_read(text, r, err) : 0;
}

/* ---- who holds a port ---- */

struct holder {
    unsigned port, state, user;
    uint64_t inode;
    long pid; /* 0: not known */
    char name[64];
};

struct holders {
    struct holder v[HOLDERS_MAX];
    unsigned n;
};

/* Where a port has several sockets, the one that listens is the holder. */
static void note(struct holders *all, const struct holder *one)
{
    for (unsigned i = 0; i < all->n; i++)
        if (all->v[i].port == one->port) {
            if (one->state == LISTENS)
                all->v[i] = *one;
            return;
        }
    if (all->n < HOLDERS_MAX)
        all->v[all->n++] = *one;
}

/* A line: "0: 0100007F:A028 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 17 …".
 */
static void read_sockets(const char *path, struct port_range r, struct holders *all)
{
    FILE *file = fopen(path, "re");
    char line[512];

    while (file && fgets(line, sizeof line, file)) {
        struct holder one = { .pid = 0 };

        if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %u %*u %" SCNu64,
                   &one.port, &one.state, &one.user, &one.inode) == 4 &&
            one.port >= r.first && one.port <= r.last && one.state != TIME_WAIT)
            note(all, &one);
    }
    if (file)
        fclose(file);
}

static int by_port(const void *a, const void *b)
{
    const struct holder *const x = a, *const y = b;

    return (x->port > y->port) - (x->port < y->port);
}

static void read_name(struct holder *one)
{
    char path[64];
    struct slice text;

    snprintf(path, sizeof path, "/proc/%ld/comm", one->pid);
    text = file_start(path, one->name, sizeof one->name - 1);
    one->name[text.n] = '\0';
    one->name[strcspn(one->name, "\n")] = '\0';
}

/* Does that process have one of the sockets? */
static void find_sockets(long pid, struct holders *all)
{
    char path[320], to[64];
    uint64_t inode;
    ssize_t n;
    const struct dirent *at;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%ld/fd", pid);
    if (!(dir = opendir(path)))
        return;
    while ((at = readdir(dir))) {
        snprintf(path, sizeof path, "/proc/%ld/fd/%.255s", pid, at->d_name);
        if ((n = readlink(path, to, sizeof to - 1)) <= 0)
            continue;
        to[n] = '\0';
        if (sscanf(to, "socket:[%" SCNu64 "]", &inode) != 1)
            continue;
        for (unsigned i = 0; i < all->n; i++)
            if (all->v[i].inode == inode && !all->v[i].pid) {
                all->v[i].pid = pid;
                read_name(&all->v[i]);
            }
    }
    closedir(dir);
}

static void find_processes(struct holders *all)
{
    DIR *dir = opendir("/proc");
    const struct dirent *at;

    while (dir && (at = readdir(dir)))
        if (isdigit((unsigned char)at->d_name[0]))
            find_sockets(strtol(at->d_name, NULL, 10), all);
    if (dir)
        closedir(dir);
}

/* Appends who holds ports of the range, as "41000 by cellspan-kernel, process 17; …", and nothing
 * where /proc does not tell it. -1: memory is out. */
static int add_holders(struct port_range r, struct buf *out)
{
    struct holders all = { .n = 0 };
    int rc = 0;

    read_sockets("/proc/net/tcp", r, &all);
    read_sockets("/proc/net/tcp6", r, &all);
    qsort(all.v, all.n, sizeof *all.v, by_port);
    if (all.n > 0)
        find_processes(&all);
    for (unsigned i = 0; i < all.n && rc == 0; i++) {
        const struct holder *one = &all.v[i];

        rc = buf_addf(out, "%s%u by ", i ? "; " : "", one->port);
        if (rc == 0 && !one->inode)
            rc = buf_add_text(out, "a connection that ends");
        else if (rc == 0 && one->pid)
            rc = buf_addf(out, "%s, process %ld", one->name, one->pid);
        else if (rc == 0)
            rc = buf_addf(out, "a process of user %u", one->user);
    }
    return rc < 0 || all.n < HOLDERS_MAX || r.last - r.first + 1 == HOLDERS_MAX
               ? rc
               : buf_add_text(out, "; …");
}

/* ---- a free one ---- */

static int listen_on_any(port_listen_f listen, void *arg, struct err *err)
{
    int why = EADDRINUSE;

    for (int i = 0; i < ANY_TRIES && why == EADDRINUSE; i++)
        why = listen(arg, 0);
    return why ? err_set(err, "no tcp port could be opened: %s", strerror(why)) : 0;
}

static int no_port_opened(struct port_range r, int why, struct err *err)
{
    const char *range = setting_text(SETTING_PORT);
    struct buf who = BUF_INIT;

    if (why == EACCES)
        return err_set(err,
                       "CELLSPAN_PORT=%.80s: no port of it could be opened: %s: ports below 1024 "
                       "are for root; choose higher ones",
                       range, strerror(why));
    if (why != EADDRINUSE)
        return err_set(err, "CELLSPAN_PORT=%.80s: no port of it could be opened: %s", range,
                       strerror(why));
    if (add_holders(r, &who) == 0)
        (void)err_set(err,
                      "CELLSPAN_PORT=%.80s: %s taken%s%s%s: give it more ports or others, or end "
                      "what holds them",
                      range, r.first == r.last ? "this port is" : "all ports of this range are",
                      who.n ? " (" : "", who.n ? who.p : "", who.n ? ")" : "");
    else
        (void)err_set(err, "out of memory");
    buf_release(&who);
    return -1;
}

int ports_listen(port_listen_f listen, void *arg, struct err *err)
{
    struct port_range r;
    int why = 0;

    if (setting_range(&r, err) < 0)
        return -1;
    if (!r.first)
        return listen_on_any(listen, arg, err);
    for (unsigned port = r.first; port <= r.last; port++)
        if ((why = listen(arg, port)) == 0)
            return 0;
        else if (why != EADDRINUSE && why != EACCES)
            break;
    return no_port_opened(r, why, err);
}
