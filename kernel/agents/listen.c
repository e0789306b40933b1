/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/agents/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <zmq.h>

#include "base/log.h"
#include "base/ports.h"
#include "base/runtime.h"
#include "base/settings.h"
#include "protocol/route.h"

#define IO_THREADS    2     /* one decrypts while the other encrypts */
#define SOCKETS_MAX   16384 /* connections */
#define FILES_MORE    256   /* descriptors besides one for each connection */
#define ADDRESSES_MAX 16u   /* agents don't try more addresses */
#define ENDPOINT_SIZE (INET6_ADDRSTRLEN + 32u)

struct listen_address {
    char interface[IF_NAMESIZE];
    char ip[INET6_ADDRSTRLEN];
    bool six, loopback;
};

struct listen_addresses {
    struct listen_address address[ADDRESSES_MAX];
    unsigned n;
};

/* false: no other machine could dial that address. */
static bool address_of(const struct ifaddrs *at, struct listen_address *p)
{
    const struct sockaddr *sa = at->ifa_addr;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    if (!sa || !(at->ifa_flags & IFF_UP))
        return false;
    *p = (struct listen_address){ .six = sa->sa_family == AF_INET6,
                                  .loopback = at->ifa_flags & IFF_LOOPBACK };
    snprintf(p->interface, sizeof p->interface, "%s", at->ifa_name);
    if (sa->sa_family == AF_INET) {
        memcpy(&in, sa, sizeof in);
        return inet_ntop(AF_INET, &in.sin_addr, p->ip, sizeof p->ip) != NULL;
    }
    if (sa->sa_family != AF_INET6)
        return false;
    memcpy(&in6, sa, sizeof in6);
    return !IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr) &&
           inet_ntop(AF_INET6, &in6.sin6_addr, p->ip, sizeof p->ip);
}

static bool is_wanted(const struct listen_address *p, const char *interface)
{
    return !interface || !*interface || strcmp(p->interface, interface) == 0 ||
           strcmp(p->ip, interface) == 0;
}

/* The wanted addresses: IPv4 first, loopback last. */
static void choose(struct listen_addresses *out, const struct ifaddrs *all, const char *interface)
{
    for (int round = 0; round < 4; round++)
        for (const struct ifaddrs *at = all; at && out->n < ADDRESSES_MAX; at = at->ifa_next) {
            struct listen_address p;

            if (address_of(at, &p) && is_wanted(&p, interface) && 2 * p.loopback + p.six == round)
                out->address[out->n++] = p;
        }
}

/* CELLSPAN_INTERFACE names what this machine does not have. */
static int no_such_interface(const struct ifaddrs *all, const char *interface, struct err *err)
{
    struct listen_addresses there = { .n = 0 };
    struct buf list = BUF_INIT;

    choose(&there, all, NULL);
    for (unsigned i = 0; i < there.n; i++)
        if (buf_addf(&list, "%s%s (%s)", i ? ", " : "", there.address[i].interface,
                     there.address[i].ip) < 0)
            break;
    err_set(
        err,
        "CELLSPAN_INTERFACE=%.64s: this machine has no such interface or address; there are: %s",
        interface, list.n ? list.p : "none");
    buf_release(&list);
    return -1;
}

struct binding {
    struct router *router;
    const struct listen_addresses *addresses; /* NULL: all of this machine, also later ones */
};

static void write_endpoint(char out[static ENDPOINT_SIZE], const char *ip, bool six, unsigned port)
{
    char number[16] = "*";

    if (port)
        snprintf(number, sizeof number, "%u", port);
    snprintf(out, ENDPOINT_SIZE, six ? "tcp://[%s]:%s" : "tcp://%s:%s", ip, number);
}

/* Binds each wanted address, all to the port that the first one got. Returns 0 or an errno. */
static int bind_each(void *arg, unsigned port)
{
    const struct binding *b = arg;
    const struct listen_address *p;
    char endpoint[ENDPOINT_SIZE];
    int why = 0;
    unsigned i;

    if (!b->addresses) {
        write_endpoint(endpoint, "*", false, port);
        return network_router_bind(b->router, endpoint);
    }
    for (i = 0; i < b->addresses->n && !why; i++) {
        p = &b->addresses->address[i];
        write_endpoint(endpoint, p->ip, p->six, i ? network_router_port(b->router) : port);
        why = network_router_bind(b->router, endpoint);
    }
    for (i = why ? i - 1 : 0; i > 0; i--) {
        p = &b->addresses->address[i - 1];
        write_endpoint(endpoint, p->ip, p->six, network_router_port(b->router));
        network_router_unbind(b->router, endpoint);
    }
    return why;
}

/* In the order in which agents should try them. */
static int list_addresses(const struct listen_addresses *addresses, unsigned port, struct buf *out,
                          struct err *err)
{
    for (unsigned i = 0; i < addresses->n; i++) {
        const struct listen_address *p = &addresses->address[i];

        if (buf_addf(out, p->six ? "%stcp://[%s]:%u" : "%stcp://%s:%u", i ? "," : "", p->ip, port) <
            0)
            return err_set(err, "out of memory");
    }
    return 0;
}

/* What a program on this machine dials: its loopback, unless CELLSPAN_INTERFACE leaves that out. */
static int add_own(struct listen *l, const struct listen_addresses *bound, struct err *err)
{
    char endpoint[ENDPOINT_SIZE];

    write_endpoint(endpoint, bound ? bound->address[0].ip : "127.0.0.1",
                   bound && bound->address[0].six, network_router_port(l->remote));
    buf_clear(&l->own);
    return buf_add_text(&l->own, endpoint) < 0 ? err_set(err, "out of memory") : 0;
}

static int bind_and_list(struct listen *l, const struct ifaddrs *all, const char *interface,
                         struct err *err)
{
    struct listen_addresses addresses = { .n = 0 };
    const bool some = interface && *interface;
    const char *advertised = setting_text(SETTING_ADVERTISE);
    struct binding binding = { l->remote, some ? &addresses : NULL };
    unsigned port;

    choose(&addresses, all, interface);
    if (addresses.n == 0)
        return some ? no_such_interface(all, interface, err)
                    : err_set(err, "this machine has no address that other machines could "
                                   "reach: connect it to their network, or use --on local");
    if (ports_listen(bind_each, &binding, err) < 0 || add_own(l, binding.addresses, err) < 0)
        return -1;
    port = network_router_port(l->remote);
    return advertised ? advertise_endpoints(advertised, port, &l->endpoints, err)
                      : list_addresses(&addresses, port, &l->endpoints, err);
}

static int bind_router(struct listen *l, const char *interface, struct err *err)
{
    struct ifaddrs *all;
    int rc;

    if (getifaddrs(&all) < 0)
        return err_set(err, "this machine's addresses can't be listed: %s", strerror(errno));
    rc = bind_and_list(l, all, interface, err);
    freeifaddrs(all);
    return rc;
}

/* ---- the two sockets ---- */

int listen_here(struct listen *l, struct loop *loop, const char *folder,
                const struct router_handler *handler, struct err *err)
{
    struct buf endpoint = BUF_INIT;
    char *path = runtime_path(folder, "agents", err);

    if (!path)
        return -1;
    if (buf_addf(&endpoint, "%s%s", ROUTE_UNIX, path) == 0 && (l->endpoint = buf_take(&endpoint)))
        l->here = local_router_create(loop, path, handler, err);
    else
        (void)err_set(err, "out of memory");
    buf_release(&endpoint);
    free(path);
    return l->here ? 0 : -1;
}

/* As many connections as the system allows. */
static void raise_limits(struct listen *l)
{
    struct rlimit files;

    (void)zmq_ctx_set(l->zmq, ZMQ_MAX_SOCKETS, SOCKETS_MAX);
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= files.rlim_max)
        return;
    files.rlim_cur = files.rlim_max < SOCKETS_MAX + FILES_MORE ? files.rlim_max
                                                               : SOCKETS_MAX + FILES_MORE;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        log_info("agents", "the limit of open files stays: %s", strerror(errno));
}

int listen_remote(struct listen *l, struct loop *loop, const struct router_handler *handler,
                  struct err *err)
{
    if (!l->zmq &&
        (!(l->zmq = zmq_ctx_new()) || zmq_ctx_set(l->zmq, ZMQ_IO_THREADS, IO_THREADS) < 0))
        return err_set(err, "no socket for the agents: %s", zmq_strerror(errno));
    raise_limits(l);
    keys_create(&l->keys);
    if (!l->zap && !(l->zap = agents_zap_create(loop, l->zmq, &l->allowed, err)))
        return -1;
    if (!(l->remote = network_router_create(loop, l->zmq, &l->keys, AGENTS_ZAP_DOMAIN, handler,
                                            err)))
        return -1;
    if (bind_router(l, setting_text(SETTING_INTERFACE), err) == 0)
        return 0;
    router_destroy(l->remote);
    l->remote = NULL;
    buf_clear(&l->endpoints);
    return -1;
}

void listen_release(struct listen *l)
{
    router_destroy(l->here);
    router_destroy(l->remote);
    agents_zap_destroy(l->zap);
    if (l->zmq)
        zmq_ctx_term(l->zmq);
    allowed_keys_release(&l->allowed);
    keys_wipe(&l->keys);
    buf_release(&l->endpoints);
    buf_release(&l->own);
    free(l->endpoint);
}
