/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - the program cellspan-gpus, which asks the GPU driver for an agent. It is a separate
 * process, so that a driver that hangs or kills its caller does no other harm. cellspan-agent
 * starts it with a socket as stdin; started by hand, it prints the GPUs. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cmdline.h"
#include "base/process.h"
#include "base/settings.h"
#include "worker/agent/gpu/lease_holders.h"
#include "worker/agent/gpu/probe.h"

struct options {
    bool help, version, serve, cards;
};

static const struct cmdline_row rows[] = {
    { "serve", NULL, "answer an agent's questions; standard input is a socket to it",
      offsetof(struct options, serve) },
    { "cards", NULL,
      "print a line each: the leases and who holds them, all GPUs, leases again if there are too many, their use",
      offsetof(struct options, cards) },
    { "version", NULL, "print the version", offsetof(struct options, version) },
    { "help", NULL, "this text", offsetof(struct options, help) },
    { NULL, NULL, NULL, 0 },
};

static int print_help(void)
{
    puts(
        "usage: cellspan-gpus [options]\n"
        "Prints the GPUs of this machine that cellspan can use, as JSON (CUDA_VISIBLE_DEVICES says which).\n");
    cmdline_help(rows, stdout);
    return 0;
}

static int print(struct gpu_driver *d, const char *visible, const char *ask)
{
    struct buf out = BUF_INIT;
    const int rc = probe_answer(d, visible, slice_text(ask), &out);

    if (rc == 0)
        fputs(out.p, stdout);
    buf_release(&out);
    return rc < 0;
}

/* The GPUs that ranks could get. */
static int print_list(void)
{
    struct gpu_driver d;
    int rc;

    driver_init(&d);
    rc = print(&d, getenv("CUDA_VISIBLE_DEVICES"), "{\"ask\":\"list\"}");
    driver_release(&d);
    return rc;
}

static int print_leases(const json_t *leases)
{
    return !leases || json_dumpf(leases, stdout, JSON_COMPACT | JSON_ENSURE_ASCII) < 0 ||
           puts("") < 0 || fflush(stdout) != 0;
}

/* In place of the leases that are printed already: those of the GPUs that the driver has told. */
static int print_leases_of(struct slice list)
{
    json_t *told = json_loadb(list.n ? list.p : "", list.n, 0, NULL);
    const json_t *gpus = json_object_get(told, "gpus");
    json_t *leases = json_array_size(gpus) ? lease_holders_list(gpus) : json_object();
    const int rc = print_leases(leases);

    json_decref(leases);
    json_decref(told);
    return rc;
}

/* For `cellspan ps --all`. The leases come first: the driver may hang. */
static int print_cards(void)
{
    struct gpu_driver d;
    struct buf list = BUF_INIT;
    json_t *leases = lease_holders_list(NULL);
    int rc = print_leases(leases);

    driver_init(&d);
    rc = rc || probe_answer(&d, NULL, slice_text("{\"ask\":\"list\"}"), &list) < 0 ||
         fputs(list.p, stdout) < 0 || fflush(stdout) != 0;
    if (rc == 0 && json_is_true(json_object_get(leases, "cut")))
        rc = print_leases_of(buf_slice(&list));
    else if (rc == 0)
        rc = puts("{}") < 0;
    rc = rc || print(&d, NULL, "{\"ask\":\"read\",\"workers\":[]}");
    driver_release(&d);
    buf_release(&list);
    json_decref(leases);
    return rc;
}

static bool is_socket(int fd)
{
    int type;
    socklen_t size = sizeof type;

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

int main(int argc, char **argv)
{
    struct options o = { 0 };
    struct err err = { "" };

    (void)fd_open_standard();
    settings_open_log("gpus");
    if (cmdline_parse(rows, argc, argv, NULL, &o, &err) == 0 && o.serve && !is_socket(STDIN_FILENO))
        (void)err_set(&err, "--serve: standard input is no socket");
    if (err.text[0]) {
        fprintf(stderr, "cellspan-gpus: %s\n", err.text);
        return 2;
    }
    if (o.help)
        return print_help();
    if (o.version)
        return puts("cellspan-gpus " CELLSPAN_VERSION) < 0;
    if (o.cards)
        return print_cards();
    if (!o.serve)
        return print_list();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGUSR1, SIG_IGN); /* notices, which the agent takes */
    (void)signal(SIGUSR2, SIG_IGN);
    process_take_notices();
    return probe_serve(STDIN_FILENO);
}
