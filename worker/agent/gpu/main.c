/* main.c - the program cellspan-gpus, which asks the GPU driver for an agent. It is a separate
 * process, so that a driver that hangs or kills its caller does no other harm. cellspan-agent
 * starts it with a socket as stdin; started by hand, it prints the GPUs. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/settings.h"
#include "worker/agent/gpu/probe.h"

static int usage(FILE *to, int status)
{
    fputs(
        "usage: cellspan-gpus\n"
        "Prints the GPUs of this machine that cellspan can use, as JSON (CUDA_VISIBLE_DEVICES says which).\n",
        to);
    return status;
}

static int print(const char *ask)
{
    struct gpu_driver d;
    struct buf out = BUF_INIT;
    int rc;

    driver_init(&d);
    rc = probe_answer(&d, getenv("CUDA_VISIBLE_DEVICES"), slice_text(ask), &out);
    driver_release(&d);
    if (rc == 0)
        fputs(out.p, stdout);
    buf_release(&out);
    return rc < 0;
}

static bool is_socket(int fd)
{
    int type;
    socklen_t size = sizeof type;

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

int main(int argc, char **argv)
{
    settings_open_log("gpus");
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return usage(stdout, 0);
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return puts("cellspan-gpus " CELLSPAN_VERSION) < 0;
    if (argc == 2 && strcmp(argv[1], "--serve") == 0 && is_socket(STDIN_FILENO)) {
        (void)signal(SIGPIPE, SIG_IGN);
        return probe_serve(STDIN_FILENO);
    }
    return argc == 1 ? print("{\"ask\": \"list\"}") : usage(stderr, 2);
}
