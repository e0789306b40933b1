/* SPDX-License-Identifier: BSD-3-Clause */
/* crash_stack.c - writes the C stack of a worker that crashes (declared in private.h). */
#include "worker/ext/private.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#if defined(__GLIBC__) || defined(__APPLE__)
#include <execinfo.h>
#define HAVE_BACKTRACE 1
#endif

#define FRAMES_MAX   32 /* deeper frames are the interpreter's */
#define HANDLERS_MAX 8  /* frames that handlers of signals may have */

/* A signal handler has no argument of ours, so this must be a global variable. */
static volatile sig_atomic_t stack_fd = -1;

static const int fatal[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

static void say(const char *text)
{
    const ssize_t n = write((int)stack_fd, text, strlen(text));

    (void)n; /* if it fails, there is nothing to do about it during a crash */
}

static void on_fatal(int signo)
{
    struct sigaction standard = { .sa_handler = SIG_DFL };

#ifdef HAVE_BACKTRACE
    void *frame[FRAMES_MAX];
    const int n = backtrace(frame, FRAMES_MAX);
    int first = 0;

    /* Frame 1 is the system's call of a handler. faulthandler's handler has raised the signal
     * again, so it may be there twice. What is above belongs to the handlers. */
    for (int i = 1; i < n && i < HANDLERS_MAX; i++)
        if (frame[i] == frame[1])
            first = i + 1;
    say("\nC stack (most recent call first):\n");
    backtrace_symbols_fd(frame + first, n - first, (int)stack_fd);
#else
    say("\nNo C stack: this platform has no backtrace().\n");
#endif
    sigaction(signo, &standard, NULL);
    raise(signo);
}

int crash_stack_install(int fd, struct err *err)
{
    struct sigaction act = { .sa_handler = on_fatal, .sa_flags = SA_NODEFER | SA_ONSTACK };

#ifdef HAVE_BACKTRACE
    void *frame[2];

    (void)backtrace(frame, 2); /* loads the unwinder now, rather than during a crash */
#endif
    stack_fd = fd;
    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++) {
        if (sigaction(fatal[i], &act, NULL) < 0)
            return err_set(err, "no handler for signal %d: %s", fatal[i], strerror(errno));
    }
    return 0;
}
