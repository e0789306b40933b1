/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef __linux__
#define _GNU_SOURCE
#include <sched.h>
#endif
#include "worker/agent/net/join.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "base/log.h"
#include "base/mux/forward.h"
#include "base/process.h"
#include "base/runtime.h"
#include "base/settings.h"
#include "protocol/route.h"
#include "protocol/span_fields.h"
#include "worker/agent/net/dial.h"
#include "worker/agent/net/kernel_link.h"

/* so that a blob on its way through is decrypted and encrypted at the same time */
#define IO_THREADS    2
#define NEVER_NS      (UINT64_MAX / 2)
#define ADDRESSES_MAX 4096u /* HELLO's limit */
/* how long the kernel is dialed directly before a relay is wanted, if it can be had */
#define DIRECT_NS (4 * NS_PER_S)
/* so much longer where an endpoint has taken the connection: the kernel may be busy, or somebody
 * else says nothing there */
#define BUSY_NS (8 * NS_PER_S)

bool join_is_remote(const char *connect)
{
    return strncmp(connect, ROUTE_UNIX, strlen(ROUTE_UNIX)) != 0;
}

void join_keys(struct join *j, const struct secret *s, uint32_t index, uint32_t turn)
{
    keys_derive(&j->keys, s, index, turn);
    memcpy(j->kernel_key, s->kernel, KEY_SIZE);
    j->has_keys = true;
}

/* Writes one line. It is among the engine's last lines, so the cell can show it. */
static void give_up(struct join *j, const char *why)
{
    j->kernel->status = JOIN_STATUS_UNREACHED;
    fprintf(stderr, "cellspan-agent on %s %s\n", j->kernel->node, why);
    kernel_link_quit(j->kernel, "the kernel does not answer");
}

/* ---- HELLO ---- */

/* The cores that this process may use: an engine may have pinned it to a few. */
static long count_cores(void)
{
#ifdef __linux__
    cpu_set_t mine;

    if (sched_getaffinity(0, sizeof mine, &mine) == 0 && CPU_COUNT(&mine) > 0)
        return CPU_COUNT(&mine);
#endif
    return sysconf(_SC_NPROCESSORS_ONLN);
}

static void say_hello(struct kernel_link *kernel, struct slice addresses)
{
    struct span m = { .kind = SPAN_HELLO };
    const long cores = count_cores();

    m.v[F_HELLO_VERSION].u64 = SPAN_VERSION;
    m.v[F_HELLO_NODE].s = slice_text(kernel->node);
    m.v[F_HELLO_PID].u64 = (uint64_t)getpid();
    m.v[F_HELLO_CORES].u64 = cores > 0 ? (uint64_t)cores : 1;
    m.v[F_HELLO_ADDRESSES].s = addresses;
    m.v[F_HELLO_SOFTWARE].s = slice_text("cellspan " CELLSPAN_VERSION);
    m.v[F_HELLO_NEXT].s = uplink_next_key(kernel->uplink);
    kernel_link_send(kernel, &m);
}

/* If the list is too long, its last entries are left out. */
static struct slice cut(struct slice list)
{
    if (list.n <= ADDRESSES_MAX)
        return list;
    for (list.n = ADDRESSES_MAX; list.n > 0 && list.p[list.n] != ','; list.n--)
        ;
    return list;
}

/* Ranks use the interface on which this node reached the kernel to talk to ranks of other nodes. */
static void tell_ranks(struct slice addresses)
{
    struct slice ifname, ip;
    char text[64];

    address_first(addresses, &ifname, &ip);
    if (ifname.n == 0 || ifname.n >= sizeof text)
        return;
    memcpy(text, ifname.p, ifname.n);
    text[ifname.n] = '\0';
    (void)setenv("CELLSPAN_IFNAME", text, 1);
}

/* The address at which ssh has reached this host, whose sshd says it: "CLIENT PORT SERVER PORT". */
static bool ssh_address(struct address *a)
{
    const char *text = getenv("SSH_CONNECTION");
    char server[ADDRESS_TEXT_SIZE], endpoint[ADDRESS_TEXT_SIZE + 16];

    if (!text || sscanf(text, "%*s %*s %63s", server) != 1)
        return false;
    snprintf(endpoint, sizeof endpoint, strchr(server, ':') ? "tcp://[%s]:1" : "tcp://%s:1",
             server);
    return address_parse(slice_text(endpoint), a, NULL) == 0;
}

/* ---- the line ---- */

static const char *endpoints_of(const struct join *j)
{
    return j->with_relay ? j->with_relay : j->connect;
}

/* For a launcher that looks for the agent, and does not get its lines. why NULL: none is wanted. */
static void note_wanted(const struct join *j, const char *why)
{
    struct err err = { "" };
    char *const path = runtime_path(j->folder, RELAY_WANTED_FILE, &err);
    int fd = path && why ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;

    if (!path)
        log_warn("agent", "%s", err.text);
    else if (!why)
        (void)unlink(path);
    else if (fd < 0 || write(fd, why, strlen(why)) < 0)
        log_warn("agent", "%s: %s", path, strerror(errno));
    fd_close(&fd);
    free(path);
}

/* Asks the launcher for a relay. Direct ways are tried on: a network may be slow. -1: it can't be.
 */
static int ask_for_relay(struct join *j, const char *why)
{
    struct buf all = BUF_INIT;

    if (!j->offered || !j->folder || j->with_relay)
        return -1;
    if (buf_addf(&all, "%s," DIAL_RELAY "%s/" RELAY_SOCKET, j->connect, j->folder) < 0)
        return -1;
    j->with_relay = buf_take(&all);
    log_info("agent", "a relay is wanted: %s", why);
    note_wanted(j, why);
    printf(RELAY_WANTED "%s\t%s\n", j->folder, why);
    fflush(stdout);
    return 0;
}

/* The kernel was reached directly. */
static void need_no_relay(struct join *j)
{
    if (!j->with_relay)
        return;
    free(j->with_relay);
    j->with_relay = NULL;
    log_info("agent", "the relay is not wanted any more");
    note_wanted(j, NULL);
    printf(RELAY_UNWANTED "\n");
    fflush(stdout);
}

/* The kernel was reached before. */
static const char *stuck(void *arg, bool yes)
{
    struct join *j = arg;

    if (yes)
        return ask_for_relay(j, "its connection has ended, and a new one could not be made") < 0
                   ? NULL
                   : j->with_relay;
    need_no_relay(j);
    return j->connect;
}

/* socket: already connected to the kernel; NULL: the endpoint is dialed. */
static int open_line(struct join *j, const char *endpoint, void *socket, struct err *err)
{
    struct uplink_config c = {
        .endpoint = endpoint,
        .socket = socket,
        .context = j->context,
        .keys = j->has_keys ? &j->keys : NULL,
        .kernel = j->kernel_key,
        .again = j->has_keys ? endpoints_of(j) : NULL,
        .hello_ns = j->limit_ns / 3,
        .relayed = j->relayed,
        .stuck = { stuck, j->with_relay != NULL, j },
        .handler = j->handler,
    };

    if (!(j->kernel->uplink = uplink_open(j->kernel->loop, &c, err)))
        return -1;
    keys_wipe(&j->keys);
    return 0;
}

static void no_welcome(void *arg)
{
    struct join *j = arg;
    char why[DIAL_ENDPOINT_SIZE + 128];

    if (!j->kernel->uplink || uplink_is_welcome(j->kernel->uplink))
        return;
    snprintf(why, sizeof why, "reached the kernel at %s, which does not answer: run the cell again",
             j->endpoint);
    give_up(j, why);
}

static void unreached(struct join *j, const char *why)
{
    struct buf text = BUF_INIT;

    if (buf_addf(
            &text,
            "can't reach the kernel: %s; open that port, or set CELLSPAN_INTERFACE, CELLSPAN_PORT or CELLSPAN_ADVERTISE where the notebook runs",
            why) < 0)
        give_up(j, "can't reach the kernel, and memory is out");
    else
        give_up(j, text.p);
    buf_release(&text);
}

static int dial(struct join *j, struct err *err);

/* Dials a relay's socket as well. -1: there will be none. */
static int want_relay(struct join *j, const char *why, struct err *err)
{
    if (ask_for_relay(j, why) < 0)
        return -1;
    dial_stop(j->dial);
    j->dial = NULL;
    return dial(j, err);
}

static void reached(void *arg, const struct dial_found *found, const char *why)
{
    struct join *j = arg;
    struct buf text = BUF_INIT;
    struct address own;
    struct err err = { "" };

    if (!found) {
        if (want_relay(j, why, &err) < 0)
            unreached(j, why);
        return;
    }
    if (strncmp(found->endpoint, DIAL_RELAY, strlen(DIAL_RELAY)) != 0)
        need_no_relay(j);
    if (open_line(j, found->endpoint, found->socket, &err) < 0 ||
        !(j->endpoint = strdup(found->endpoint))) {
        give_up(j, err.text[0] ? err.text : "is out of memory");
        return;
    }
    own = found->own;
    if (address_list(own.size || ssh_address(&own) ? &own : NULL, &text) < 0)
        log_error("agent", "out of memory: the kernel hears of no addresses");
    tell_ranks(buf_slice(&text));
    say_hello(j->kernel, cut(buf_slice(&text)));
    buf_release(&text);
    loop_timer_again(j->limit, j->limit_ns);
}

static int dial(struct join *j, struct err *err)
{
    const bool short_one = j->offered && j->folder && !j->with_relay && DIRECT_NS < j->limit_ns;
    const struct dial_to to = { .endpoints = slice_text(endpoints_of(j)),
                                .names = true,
                                .context = j->context,
                                .own = &j->keys,
                                .server = j->kernel_key,
                                .limit_ns = short_one ? DIRECT_NS : j->limit_ns,
                                .more_ns = short_one
                                               ? clock_earlier(j->limit_ns - DIRECT_NS, BUSY_NS)
                                               : 0 };

    return (j->dial = dial_start(j->kernel->loop, &to, reached, j, err)) ? 0 : -1;
}

int join_start(struct join *j, const struct uplink_handler *handler, struct err *err)
{
    j->handler = *handler;
    if (!j->has_keys) {
        if (open_line(j, j->connect, NULL, err) < 0)
            return -1;
        say_hello(j->kernel, slice_text(""));
        return 0;
    }
    j->limit_ns = setting_value(SETTING_DIAL_TIMEOUT);
    if (j->offered && j->folder && !(j->relayed = relayed_open(j->folder, err)))
        return -1;
    if (!(j->context = zmq_ctx_new()) || zmq_ctx_set(j->context, ZMQ_IO_THREADS, IO_THREADS) < 0)
        return err_set(err, "ZeroMQ: %s", zmq_strerror(zmq_errno()));
    if (!(j->limit = loop_timer(j->kernel->loop, NEVER_NS, 0, no_welcome, j, err)))
        return -1;
    return dial(j, err);
}

void join_release(struct join *j)
{
    dial_stop(j->dial);
    watch_stop(j->limit);
    if (j->context)
        zmq_ctx_term(j->context);
    keys_wipe(&j->keys);
    free(j->endpoint);
    free(j->with_relay);
    relayed_close(j->relayed);
    j->endpoint = j->with_relay = NULL;
    j->relayed = NULL;
    j->context = NULL;
}
