/* SPDX-License-Identifier: BSD-3-Clause */
/* floor.c - the least that a kernel can do, in C: it checks a request's signature, signs and sends
 * all the messages that answer it, and executes nothing. The time that a client measures with it is
 * the client's own, ZeroMQ's and HMAC's; what another kernel takes beyond that is that kernel's
 * own. It parses no JSON, so it serves roundtrip.py and nobody else.
 *
 * With PROCESSES, each cell also asks the last one of so many processes in a row, over plain
 * sockets. That is the least that a kernel can do whose cells run in another process.
 *
 *   cc -O2 -pthread floor.c -o floor $(pkg-config --cflags --libs libzmq libsodium jansson)
 *   ./floor CONNECTION_FILE [PROCESSES]
 */
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

/* Frames of a request: identity, delimiter, signature, header, parent header, metadata, content;
 * each cut at FRAME_MAX. */
enum { IDENTITY, DELIMITER, SIGNATURE, HEADER, PARENT, METADATA, CONTENT, FRAMES };
#define FRAME_MAX 65536
#define HEX_MAX   (2 * crypto_auth_hmacsha256_BYTES + 1)
#define LINGER_US 50000

#define INFO                                                                                                         \
    "{\"status\":\"ok\",\"protocol_version\":\"5.3\",\"implementation\":\"floor\",\"implementation_version\":\"0\"," \
    "\"banner\":\"\",\"help_links\":[],\"language_info\":{\"name\":\"python\",\"version\":\"3\","                    \
    "\"mimetype\":\"text/x-python\",\"file_extension\":\".py\"}}"

struct frame {
    char bytes[FRAME_MAX];
    size_t n;
};

struct floor {
    const json_t *connection;
    const char *key;
    void *context, *shell, *control, *in, *iopub, *heartbeat;
    int behind;          /* a socket to the process that cells ask; -1: none */
    unsigned long sent;  /* messages: their ids */
    unsigned long count; /* execution_count */
    struct frame frame[FRAMES];
};

/* NULL: the socket could not be bound. */
static void *bound(struct floor *f, int type, const char *name)
{
    char endpoint[128], port[32];
    const int linger = 0;
    void *socket = zmq_socket(f->context, type);

    snprintf(port, sizeof port, "%s_port", name);
    snprintf(endpoint, sizeof endpoint, "tcp://%s:%lld",
             json_string_value(json_object_get(f->connection, "ip")),
             (long long)json_integer_value(json_object_get(f->connection, port)));
    if (!socket || zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger) < 0 ||
        zmq_bind(socket, endpoint) < 0) {
        perror(endpoint);
        return NULL;
    }
    return socket;
}

static void sign(const struct floor *f, const char *const part[4], char hex[HEX_MAX])
{
    unsigned char mac[crypto_auth_hmacsha256_BYTES];
    crypto_auth_hmacsha256_state state;

    crypto_auth_hmacsha256_init(&state, (const unsigned char *)f->key, strlen(f->key));
    for (int k = 0; k < 4; k++)
        crypto_auth_hmacsha256_update(&state, (const unsigned char *)part[k], strlen(part[k]));
    crypto_auth_hmacsha256_final(&state, mac);
    sodium_bin2hex(hex, HEX_MAX, mac, sizeof mac);
}

/* to: whom a ROUTER's message is for, or the topic on iopub. */
static void tell(struct floor *f, void *socket, const char *to, size_t to_n, const char *type,
                 const char *content)
{
    char header[256], hex[HEX_MAX];
    const char *part[4] = { header, f->frame[HEADER].bytes, "{}", content };

    snprintf(
        header, sizeof header,
        "{\"msg_id\":\"%lu\",\"session\":\"floor\",\"username\":\"floor\",\"date\":\"2026-01-01T00:00:00.000000Z\","
        "\"msg_type\":\"%s\",\"version\":\"5.4\"}",
        f->sent++, type);
    sign(f, part, hex);
    zmq_send(socket, to, to_n, ZMQ_SNDMORE);
    zmq_send(socket, "<IDS|MSG>", 9, ZMQ_SNDMORE);
    zmq_send(socket, hex, HEX_MAX - 1, ZMQ_SNDMORE);
    for (int k = 0; k < 4; k++)
        zmq_send(socket, part[k], strlen(part[k]), k < 3 ? ZMQ_SNDMORE : 0);
}

static void publish(struct floor *f, const char *type, const char *content)
{
    tell(f, f->iopub, type, strlen(type), type, content);
}

static void reply(struct floor *f, void *socket, const char *type, const char *content)
{
    tell(f, socket, f->frame[IDENTITY].bytes, f->frame[IDENTITY].n, type, content);
}

/* Whether all frames came, none too long, under a right signature. */
static bool receive(struct floor *f, void *socket)
{
    const char *part[4];
    char hex[HEX_MAX];
    int more = 1;
    size_t more_n = sizeof more;
    bool fits = true;
    unsigned n;

    for (n = 0; more; n++) {
        struct frame *frame = &f->frame[n < FRAMES ? n : FRAMES - 1];
        const int got = zmq_recv(socket, frame->bytes, sizeof frame->bytes - 1, 0);

        if (got < 0)
            return false;
        fits = fits && (size_t)got < sizeof frame->bytes;
        frame->n = (size_t)got < sizeof frame->bytes ? (size_t)got : sizeof frame->bytes - 1;
        frame->bytes[frame->n] = '\0';
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &more_n);
    }
    for (int k = 0; k < 4; k++)
        part[k] = f->frame[HEADER + k].bytes;
    if (!fits || n != FRAMES)
        return false;
    sign(f, part, hex);
    return f->frame[SIGNATURE].n == HEX_MAX - 1 &&
           sodium_memcmp(hex, f->frame[SIGNATURE].bytes, HEX_MAX - 1) == 0;
}

/* In a process of the row: answers, or asks the next one. Ends with the socket. */
static void pass_on(int from, int next)
{
    char bytes[FRAME_MAX];
    ssize_t n;

    while ((n = recv(from, bytes, sizeof bytes, 0)) > 0) {
        if (next >= 0 &&
            (send(next, bytes, (size_t)n, 0) != n || (n = recv(next, bytes, sizeof bytes, 0)) <= 0))
            return;
        if (send(from, bytes, (size_t)n, 0) != n)
            return;
    }
}

/* Starts the row. Returns the socket to its first process, or -1. */
static int start_row(long processes)
{
    int fd[2], next = -1;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd) < 0)
        return -1;
    switch (fork()) {
    case -1:
        return -1;
    case 0:
        close(fd[0]);
        if (processes == 1 || (next = start_row(processes - 1)) >= 0)
            pass_on(fd[1], next);
        _exit(0);
    default:
        close(fd[1]);
        return fd[0];
    }
}

static void ask_behind(const struct floor *f)
{
    const struct frame *content = &f->frame[CONTENT];
    char answer[FRAME_MAX];

    if (f->behind >= 0 && (send(f->behind, content->bytes, content->n, 0) < 0 ||
                           recv(f->behind, answer, sizeof answer, 0) <= 0)) {
        perror("the processes behind the floor");
        exit(1);
    }
}

static void execute(struct floor *f, void *socket)
{
    const char *content = f->frame[CONTENT].bytes;
    char text[256];

    if (!strstr(content, "\"silent\": true") && !strstr(content, "\"silent\":true")) {
        snprintf(text, sizeof text, "{\"code\":\"1+1\",\"execution_count\":%lu}", ++f->count);
        publish(f, "execute_input", text);
        ask_behind(f);
        snprintf(text, sizeof text,
                 "{\"data\":{\"text/plain\":\"2\"},\"metadata\":{},\"execution_count\":%lu}",
                 f->count);
        publish(f, "execute_result", text);
    }
    snprintf(text, sizeof text,
             "{\"status\":\"ok\",\"execution_count\":%lu,\"payload\":[],\"user_expressions\":{}}",
             f->count);
    reply(f, socket, "execute_reply", text);
}

/* False: the floor was asked to end. */
static bool answer(struct floor *f, void *socket)
{
    const char *header = f->frame[HEADER].bytes;
    bool on = true;

    publish(f, "status", "{\"execution_state\":\"busy\"}");
    if (strstr(header, "\"execute_request\"")) {
        execute(f, socket);
    } else if (strstr(header, "\"kernel_info_request\"")) {
        reply(f, socket, "kernel_info_reply", INFO);
    } else if (strstr(header, "\"shutdown_request\"")) {
        reply(f, socket, "shutdown_reply", "{\"status\":\"ok\",\"restart\":false}");
        on = false;
    }
    publish(f, "status", "{\"execution_state\":\"idle\"}");
    return on;
}

static void *echo(void *socket)
{
    zmq_proxy(socket, socket, NULL);
    return NULL;
}

static void serve(struct floor *f)
{
    for (;;) {
        zmq_pollitem_t item[] = { { .socket = f->control, .events = ZMQ_POLLIN },
                                  { .socket = f->shell, .events = ZMQ_POLLIN } };

        if (zmq_poll(item, 2, -1) < 0)
            continue;
        for (int k = 0; k < 2; k++)
            if (item[k].revents && receive(f, item[k].socket) && !answer(f, item[k].socket))
                return;
    }
}

int main(int argc, char **argv)
{
    static struct floor f;
    json_t *connection = argc == 2 || argc == 3 ? json_load_file(argv[1], 0, NULL) : NULL;
    const long processes = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    pthread_t thread;

    signal(SIGINT, SIG_IGN); /* a manager sends it before it asks for the end */
    f.behind = processes > 0 ? start_row(processes) : -1;
    if (!connection || sodium_init() < 0 || (processes > 0 && f.behind < 0) ||
        !(f.context = zmq_ctx_new())) {
        fprintf(stderr, "usage: floor CONNECTION_FILE [PROCESSES]\n");
        return 2;
    }
    f.connection = connection;
    if (!(f.key = json_string_value(json_object_get(connection, "key"))))
        return 2;
    f.shell = bound(&f, ZMQ_ROUTER, "shell");
    f.control = bound(&f, ZMQ_ROUTER, "control");
    f.in = bound(&f, ZMQ_ROUTER, "stdin");
    f.iopub = bound(&f, ZMQ_PUB, "iopub");
    f.heartbeat = bound(&f, ZMQ_ROUTER, "hb");
    if (!f.shell || !f.control || !f.in || !f.iopub || !f.heartbeat ||
        pthread_create(&thread, NULL, echo, f.heartbeat))
        return 1;
    serve(&f);
    usleep(LINGER_US); /* until the last messages have left */
    return 0;
}
