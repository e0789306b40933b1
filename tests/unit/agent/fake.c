/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/agent/fake.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/blob.h"
#include "base/buf.h"
#include "protocol/span.h"
#include "protocol/span_fields.h"
#include "worker/link/packet.h"
#include "worker/link/stacks.h"

struct fake {
    int link;
    int stack;
    uint32_t id;
    uint64_t blob; /* the number that the answer's is to have */
    int blob_fd;   /* what it brings; -1: nothing */
    uint64_t blob_size;
    bool cut_waits;
    const char *raised; /* the error that the answer is to have; NULL: ok */
};

static int stack_fd = -1; /* for the signal handler */
static volatile sig_atomic_t stacks_written;

bool fake_is_wanted(int argc, char **argv)
{
    return argc == 6 && strcmp(argv[1], "-c") == 0 && strcmp(argv[3], "cellspan._worker") == 0;
}

static void die(const char *what)
{
    perror(what);
    _exit(70);
}

static void write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(fd, p, n);

        if (done < 0)
            die("write");
        p += done;
        n -= (size_t)done;
    }
}

static void say(struct fake *f, struct span *m, int blob_fd)
{
    struct buf msg = BUF_INIT;
    struct err err = { "" };

    m->worker = f->id;
    if (span_encode(m, &msg, &err) < 0 || packet_send(f->link, msg.p, msg.n, blob_fd, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        _exit(71);
    }
    buf_release(&msg);
}

static void say_ready(struct fake *f)
{
    struct span m = { .kind = SPAN_READY };

    m.v[F_READY_PID].u64 = (uint64_t)getpid();
    m.v[F_READY_PYTHON].s = slice_text("fake");
    m.v[F_READY_INFO].s = slice_text("{}");
    say(f, &m, -1);
}

/* ---- commands ---- */

static void unescape(char *text)
{
    char *to = text;

    for (; *text; text++)
        if (text[0] == '\\' && (text[1] == 'n' || text[1] == 'r'))
            *to++ = *++text == 'n' ? '\n' : '\r';
        else
            *to++ = *text;
    *to = '\0';
}

static void flood(size_t n)
{
    char line[80];

    memset(line, 'x', sizeof line);
    line[79] = '\n';
    for (; n > 0; n -= n < sizeof line ? n : sizeof line)
        write_all(1, line, n < sizeof line ? n : sizeof line);
}

static void nap(long ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

    if (ms <= 0)
        for (;;)
            pause();
    while (nanosleep(&t, &t) < 0)
        ;
}

static void await(struct fake *f, enum span_kind kind, struct packet *p, struct span *m)
{
    struct err err = { "" };

    if (packet_recv(f->link, p, &err) != PACKET_GOT || span_decode(m, p->p, p->n, &err) < 0 ||
        m->kind != kind) {
        fprintf(stderr, "wanted kind %d: %s\n", kind, err.text);
        _exit(72);
    }
}

static void sync_pipes(struct fake *f)
{
    struct span m = { .kind = SPAN_SYNC };
    struct packet p = PACKET_INIT;

    say(f, &m, -1);
    await(f, SPAN_SYNCED, &p, &m);
    packet_release(&p);
}

static void wait_for_cut(struct fake *f)
{
    struct packet p = PACKET_INIT;
    struct span m;
    char text[64];

    await(f, SPAN_CUT_SOCKETS, &p, &m);
    snprintf(text, sizeof text, "cut %zu\n", m.v[F_CUT_SOCKETS_INODES].s.n / 8);
    write_all(1, text, strlen(text));
    packet_release(&p);
}

static void publish(struct fake *f, const char *type)
{
    struct span m = { .kind = SPAN_PUBLISH };

    m.v[F_PUBLISH_TYPE].s = slice_text(type);
    m.v[F_PUBLISH_CONTENT].s = slice_text("{}");
    m.v[F_PUBLISH_METADATA].s = slice_text("{}");
    say(f, &m, -1);
}

static void make_blob(struct fake *f, long n)
{
    char *p = calloc(1, (size_t)n);
    struct err err = { "" };

    f->blob_fd = blob_create("fake", &err);
    f->blob_size = (uint64_t)n;
    memset(p, 'b', (size_t)n);
    if (f->blob_fd < 0 || blob_write(f->blob_fd, p, (size_t)n, 0, &err) < 0 ||
        blob_seal(f->blob_fd, &err) < 0)
        die("blob");
    free(p);
}

static void leave_child(bool daemon)
{
    char text[32];
    const pid_t pid = fork();

    if (pid == 0) {
        if (daemon)
            setsid();
        nap(0);
    }
    snprintf(text, sizeof text, "%ld\n", (long)pid);
    write_all(1, text, strlen(text));
}

static void tcp(int port, bool listening)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    const int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (!listening && connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        die("connect");
    if (listening && (bind(fd, (struct sockaddr *)&to, sizeof to) < 0 || listen(fd, 9) < 0))
        die("listen");
    if (listening)
        write_all(1, "listening\n", 10);
    if (listening && accept(fd, NULL, NULL) < 0)
        die("accept");
    write_all(1, "connected\n", 10);
}

static void on_stack_signal(int signo)
{
    (void)signo;
    (void)!write(stack_fd, "Thread 1: fake.c\n", 17);
    stacks_written = 1;
}

static void wait_for_stacks(void)
{
    while (!stacks_written)
        nap(5);
}

static void run_line(struct fake *f, char *line)
{
    char *arg = strchr(line, ' ');
    long number;

    if (arg)
        *arg++ = '\0';
    number = arg ? strtol(arg, NULL, 10) : 0;
    if (arg)
        unescape(arg);
    if (strcmp(line, "out") == 0)
        write_all(1, arg, strlen(arg));
    else if (strcmp(line, "err") == 0)
        write_all(2, arg, strlen(arg));
    else if (strcmp(line, "flood") == 0)
        flood((size_t)number);
    else if (strcmp(line, "pub") == 0)
        publish(f, arg);
    else if (strcmp(line, "sync") == 0)
        sync_pipes(f);
    else if (strcmp(line, "sleep") == 0)
        nap(number);
    else if (strcmp(line, "oom") == 0)
        f->raised =
            "{\"ename\":\"OutOfMemoryError\",\"evalue\":\"CUDA out of memory.\",\"traceback\":[\"a\"]}";
    else if (strcmp(line, "exit") == 0)
        _exit((int)number);
    else if (strcmp(line, "kill") == 0)
        raise((int)number);
    else if (strcmp(line, "close") == 0)
        close(f->link);
    else if (strcmp(line, "blob") == 0)
        make_blob(f, number);
    else if (strcmp(line, "nonsense") == 0)
        (void)!send(f->link, "\7nonsense", 9, 0);
    else if (strcmp(line, "child") == 0 || strcmp(line, "daemon") == 0)
        leave_child(line[0] == 'd');
    else if (strcmp(line, "listen") == 0 || strcmp(line, "connect") == 0)
        tcp((int)number, line[0] == 'l');
    else if (strcmp(line, "cut") == 0)
        wait_for_cut(f);
    else if (strcmp(line, "stuck") == 0)
        wait_for_stacks();
    else if (strcmp(line, "stacks") == 0)
        signal(STACKS_SIGNAL, on_stack_signal);
    else if (strcmp(line, "env") == 0)
        dprintf(1, "%s\n", getenv(arg) ? getenv(arg) : "(none)");
}

static void run(struct fake *f, struct slice script)
{
    char *text = strndup(script.p, script.n), *rest = text, *line;

    while ((line = strsep(&rest, "\n")))
        run_line(f, line);
    free(text);
}

/* ---- messages ---- */

static void answer(struct fake *f, enum span_kind kind, uint64_t cell)
{
    struct span m = { .kind = kind, .cell = cell };

    m.v[0].s = slice_text(f->raised ? "error" : "ok");
    if (f->raised)
        m.v[F_DONE_CONTENT].s = slice_text(f->raised);
    f->raised = NULL;
    if (f->blob_fd >= 0) {
        m.blob = f->blob;
        m.blob_size = f->blob_size;
    }
    say(f, &m, f->blob_fd);
    if (f->blob_fd >= 0)
        close(f->blob_fd);
    f->blob_fd = -1;
}

static void bound(const struct span *m, int fd)
{
    char start[9] = "";

    if (fd >= 0)
        (void)!pread(fd, start, 8, 0);
    dprintf(1, "blob %llu of %llu: %s\n", (unsigned long long)m->blob,
            (unsigned long long)m->blob_size, start);
}

static void handle(struct fake *f, const struct span *m, int blob_fd)
{
    f->blob = m->blob;
    switch ((int)m->kind) {
    case SPAN_REQUEST:
        run(f, m->v[F_REQUEST_CONTENT].s);
        answer(f, SPAN_REPLY, m->cell);
        break;
    case SPAN_RUN:
        run(f, m->v[F_RUN_CODE].s);
        answer(f, SPAN_DONE, m->cell);
        break;
    case SPAN_BIND:
        bound(m, blob_fd);
        break;
    case SPAN_EXIT:
        _exit(0);
    case SPAN_INTERRUPT:
        dprintf(1, "interrupted\n");
        break;
    default:
        break;
    }
}

static int serve(struct fake *f)
{
    say_ready(f);
    for (;;) {
        struct packet p = PACKET_INIT;
        struct err err = { "" };
        struct span m;

        if (packet_recv(f->link, &p, &err) != PACKET_GOT)
            return 0;
        if (span_decode(&m, p.p, p.n, &err) == 0) {
            handle(f, &m, p.blob_fd);
            span_release(&m);
        }
        packet_release(&p);
    }
}

/* ---- the zygote ---- */

#define RANKS 64

struct ordered {
    uint32_t id;
    char *env; /* START's */
    int fd[4];
};

static ssize_t take_order(int link, struct ordered *o, char *p, size_t size)
{
    union {
        char bytes[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = { p, size };
    struct msghdr h = { .msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = control.bytes,
                        .msg_controllen = sizeof control };
    const ssize_t n = recvmsg(link, &h, 0);

    if (n > 0 && CMSG_FIRSTHDR(&h))
        memcpy(o->fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof o->fd);
    return n;
}

static void set_env(const char *json)
{
    json_t *object = json_loads(json, 0, NULL), *value;
    const char *name;

    json_object_foreach (object, name, value)
        setenv(name, json_string_value(value), 1);
    json_decref(object);
}

static void be_rank(const struct ordered *o)
{
    struct fake f = { .link = o->fd[0], .id = o->id, .blob_fd = -1 };

    set_env(o->env);
    setsid();
    dup2(o->fd[1], 1);
    dup2(o->fd[2], 2);
    stack_fd = o->fd[3];
    close(o->fd[1]);
    close(o->fd[2]);
    if (getenv("FAKE_RANK_DIES"))
        _exit(9);
    _exit(serve(&f));
}

/* Forks them all, says who they are, and ends, so that they become the agent's. */
static void be_in_between(int link, const struct ordered *o, unsigned n)
{
    uint8_t said[1 + 8 * RANKS] = { 0x04 };

    for (unsigned i = 0; i < n; i++) {
        const pid_t pid = fork();
        const uint32_t number = (uint32_t)pid;

        if (pid == 0) {
            for (unsigned k = 0; k < n; k++)
                for (int fd = 0; k != i && fd < 4; fd++)
                    close(o[k].fd[fd]);
            close(link);
            be_rank(&o[i]);
        }
        memcpy(said + 1 + 8 * i, &o[i].id, 4);
        memcpy(said + 5 + 8 * i, &number, 4);
    }
    if (!getenv("FAKE_SAYS_NO_PIDS"))
        (void)!send(link, said, 1 + 8 * n, 0);
    _exit(0);
}

static int serve_zygote(int link)
{
    struct ordered o[RANKS];
    unsigned n = 0;
    char p[65536];
    ssize_t size;

    if (getenv("FAKE_ZYGOTE_DIES")) {
        fprintf(stderr, "ImportError: nothing works\n");
        return 3;
    }
    while ((size = take_order(link, &o[n < RANKS ? n : 0], p, sizeof p)) > 0) {
        struct err err = { "" };
        struct span m;

        if (p[0] == ZYGOTE_RANK && span_decode(&m, p + 1, (size_t)size - 1, &err) == 0) {
            o[n].id = m.worker;
            o[n++].env = strndup(m.v[F_START_ENV].s.p, m.v[F_START_ENV].s.n);
            continue;
        }
        if (fork() == 0)
            be_in_between(link, o, n);
        for (unsigned i = 0; i < n; i++) {
            free(o[i].env);
            for (int fd = 0; fd < 4; fd++)
                close(o[i].fd[fd]);
        }
        n = 0;
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
    return 0;
}

int fake_main(int argc, char **argv)
{
    struct fake f = { .link = atoi(argv[5]), .id = 1, .blob_fd = -1 };

    (void)argc;
    if (strcmp(argv[4], "zygote") == 0)
        return serve_zygote(f.link);
    stack_fd = getenv("CELLSPAN_STACK_FD") ? atoi(getenv("CELLSPAN_STACK_FD")) : -1;
    if (getenv("FAKE_HOME_DIES")) {
        fprintf(stderr, "ModuleNotFoundError: No module named 'IPython'\n");
        return 1;
    }
    return serve(&f);
}
