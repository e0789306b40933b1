/* SPDX-License-Identifier: BSD-3-Clause */
/* printer.c - prints streams at once. A display with an id may be updated, so its last state is
 * printed at the end of the cell. */
#include "cli/private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"

#define PICTURES_MAX 256u

struct picture {
    char *id; /* owned */
    struct buf text;
};

/* What descriptor 1 or 2 has no room for yet. */
struct piece {
    struct piece *next;
    int fd;
    size_t n, at; /* at: so much of it was written */
    char text[];
};

struct printer {
    struct picture picture[PICTURES_MAX];
    size_t n;
    struct piece *first, **last; /* owned */
    int own[3];                  /* by descriptor: the same pipe or terminal, but it never blocks */
    bool given_up[3];            /* by descriptor */
    uint64_t written;            /* bytes */
    bool broken;
    int failed; /* errno of the first write to 1 that failed for another reason; 0: none did */
};

/* O_NONBLOCK on a descriptor would be seen by each process that has it. So a pipe or a terminal is
 * opened once more. -1: it is something else, or may not be opened. */
static int open_again(int fd)
{
    char path[32];
    struct stat is;

    if (fstat(fd, &is) < 0 || (!S_ISFIFO(is.st_mode) && !isatty(fd)))
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

struct printer *printer_create(void)
{
    struct printer *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->last = &s->first;
    for (int fd = 0; fd < 3; fd++)
        s->own[fd] = fd == 0 ? -1 : open_again(fd);
    return s;
}

static void drop_first(struct printer *s)
{
    struct piece *p = s->first;

    if (!(s->first = p->next))
        s->last = &s->first;
    free(p);
}

void printer_destroy(struct printer *s)
{
    if (!s)
        return;
    while (s->first)
        drop_first(s);
    for (int fd = 0; fd < 3; fd++)
        fd_close(&s->own[fd]);
    for (size_t i = 0; i < s->n; i++) {
        free(s->picture[i].id);
        buf_release(&s->picture[i].text);
    }
    free(s);
}

/* Writes without waiting, also to what has no descriptor of ours: where poll(2) sees room, a pipe
 * takes PIPE_BUF bytes. -1 and EAGAIN: there is no room. */
static ssize_t write_now(const struct printer *s, int fd, const char *p, size_t n)
{
    struct pollfd room = { s->own[fd] >= 0 ? s->own[fd] : fd, POLLOUT, 0 };
    ssize_t done;

    n = n < PIPE_BUF ? n : PIPE_BUF;
    if (poll(&room, 1, 0) == 0) {
        errno = EAGAIN;
        return -1;
    }
    done = send(room.fd, p, n, MSG_DONTWAIT);
    return done < 0 && errno == ENOTSOCK ? write(room.fd, p, n) : done;
}

/* How many bytes are dealt with: they were written, or never will be. */
static size_t write_some(struct printer *s, int fd, const char *p, size_t n)
{
    size_t at = 0;

    while (at < n && !s->broken && !s->given_up[fd]) {
        const ssize_t done = write_now(s, fd, p + at, n - at);

        if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return at;
        if (done < 0 && errno != EINTR) {
            s->broken = errno == EPIPE;
            s->failed = s->failed || s->broken || fd != 1 ? s->failed : errno;
            return n;
        }
        if (done > 0) {
            at += (size_t)done;
            s->written += (uint64_t)done;
        }
    }
    return n;
}

/* What has no room waits. */
static void write_all(struct printer *s, int fd, const char *p, size_t n)
{
    const size_t at = s->first ? 0 : write_some(s, fd, p, n);
    struct piece *rest;

    if (at == n || s->broken || s->given_up[fd])
        return;
    if (!(rest = malloc(sizeof *rest + n - at))) {
        s->failed = s->failed || fd != 1 ? s->failed : ENOMEM;
        return;
    }
    *rest = (struct piece){ .fd = fd, .n = n - at };
    memcpy(rest->text, p + at, n - at);
    *s->last = rest;
    s->last = &rest->next;
}

int printer_waits(const struct printer *s)
{
    if (!s->first)
        return -1;
    return s->own[s->first->fd] >= 0 ? s->own[s->first->fd] : s->first->fd;
}

void printer_go_on(struct printer *s)
{
    while (s->first) {
        struct piece *p = s->first;

        p->at += write_some(s, p->fd, p->text + p->at, p->n - p->at);
        if (p->at < p->n)
            return;
        drop_first(s);
    }
}

void printer_flush(struct printer *s)
{
    while (s->first) {
        struct pollfd room = { printer_waits(s), POLLOUT, 0 };

        (void)poll(&room, 1, -1);
        printer_go_on(s);
    }
}

uint64_t printer_written(const struct printer *s)
{
    return s->written;
}

void printer_give_up(struct printer *s)
{
    if (!s->first)
        return;
    s->given_up[s->first->fd] = true;
    printer_go_on(s);
}

static void stream(struct printer *s, const json_t *content)
{
    const char *name = json_string_value(json_object_get(content, "name"));
    const json_t *text = json_object_get(content, "text");

    if (name && json_is_string(text))
        write_all(s, strcmp(name, "stderr") == 0 ? 2 : 1, json_string_value(text),
                  json_string_length(text));
}

static void print_line(struct printer *s, int fd, struct slice text)
{
    write_all(s, fd, text.p, text.n);
    if (text.n && text.p[text.n - 1] != '\n')
        write_all(s, fd, "\n", 1);
}

static int add_string(struct buf *text, const json_t *value)
{
    return json_is_string(value)
               ? buf_add(text, json_string_value(value), json_string_length(value))
               : 0;
}

/* Returns the text/plain of a display, which may be a list of lines; empty if there is none. The
 * caller releases it. */
static struct buf plain_text(const json_t *content)
{
    const json_t *value = json_object_get(json_object_get(content, "data"), "text/plain");
    struct buf text = BUF_INIT;
    const json_t *line;
    size_t i;
    int rc = add_string(&text, value);

    json_array_foreach (value, i, line)
        if (rc == 0)
            rc = add_string(&text, line);
    return text;
}

static struct picture *picture_find(struct printer *s, const char *id)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->picture[i].id, id) == 0)
            return &s->picture[i];
    if (s->n == PICTURES_MAX || !(s->picture[s->n].id = strdup(id)))
        return NULL;
    return &s->picture[s->n++];
}

static void display(struct printer *s, const json_t *content, bool update)
{
    const char *id = json_string_value(
        json_object_get(json_object_get(content, "transient"), "display_id"));
    struct picture *p = id ? picture_find(s, id) : NULL;
    struct buf text = plain_text(content);

    if (p) {
        buf_release(&p->text);
        p->text = text;
        return;
    }
    if (text.n && !update)
        print_line(s, 1, buf_slice(&text));
    buf_release(&text);
}

/* Escape sequences of colours: what is no terminal has no use for them. */
static void without_colours(struct buf *text)
{
    size_t to = 0;

    for (size_t at = 0; at < text->n;) {
        if (text->p[at] == '\033' && at + 1 < text->n && text->p[at + 1] == '[') {
            for (at += 2; at < text->n && (text->p[at] < '@' || text->p[at] > '~'); at++)
                ;
            at += at < text->n;
        } else {
            text->p[to++] = text->p[at++];
        }
    }
    text->n = to;
}

static void error(struct printer *s, const json_t *content)
{
    const json_t *line, *traceback = json_object_get(content, "traceback");
    const char *ename = json_string_value(json_object_get(content, "ename"));
    const char *evalue = json_string_value(json_object_get(content, "evalue"));
    struct buf text = BUF_INIT;
    size_t i;
    int rc = 0;

    json_array_foreach (traceback, i, line)
        if (rc == 0 && (rc = add_string(&text, line)) == 0)
            rc = buf_add(&text, "\n", 1);
    if (text.n == 0 && rc == 0)
        rc = buf_addf(&text, "%s: %s\n", ename ? ename : "error", evalue ? evalue : "");
    if (rc == 0) {
        if (!isatty(2))
            without_colours(&text);
        write_all(s, 2, text.p, text.n);
    }
    buf_release(&text);
}

/* Messages about ranks go to stderr, because they are not output of the ranks. */
static bool is_status(const struct picture *p)
{
    static const char status[] = "cellspan-status-";

    return strncmp(p->id, status, sizeof status - 1) == 0;
}

/* What was printed stays. A status is not printed yet: it told of ranks that did not run yet. */
static void forget_statuses(struct printer *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (is_status(&s->picture[i]))
            s->picture[i].text.n = 0;
}

void printer_message(struct printer *s, const char *type, const json_t *content)
{
    if (strcmp(type, "stream") == 0)
        stream(s, content);
    else if (strcmp(type, "error") == 0)
        error(s, content);
    else if (strcmp(type, "display_data") == 0 || strcmp(type, "execute_result") == 0)
        display(s, content, false);
    else if (strcmp(type, "update_display_data") == 0)
        display(s, content, true);
    else if (strcmp(type, "clear_output") == 0)
        forget_statuses(s);
}

void printer_prompt(struct printer *s, const json_t *content)
{
    const char *prompt = json_string_value(json_object_get(content, "prompt"));

    if (prompt)
        write_all(s, 1, prompt, strlen(prompt));
}

void printer_note(struct printer *s, const char *text)
{
    print_line(s, 2, slice_text(text));
}

void printer_finish(struct printer *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->picture[i].text.n)
            print_line(s, is_status(&s->picture[i]) ? 2 : 1, buf_slice(&s->picture[i].text));
}

int printer_failed(const struct printer *s, struct err *err)
{
    return s->failed ? err_set(err, "output is lost: %s", strerror(s->failed)) : 0;
}

bool printer_broken(const struct printer *s)
{
    return s->broken;
}
