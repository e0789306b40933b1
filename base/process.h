/* process.h - descriptors and children: thin helpers over POSIX, with Linux's own calls behind
 * checks. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/slice.h"

MUST_USE int fd_cloexec(int fd);           /* sets FD_CLOEXEC; -1 and errno */
MUST_USE int fd_cloexec_both(int fd[2]);   /* the same for a pair; -1: both are closed */
MUST_USE int fd_nonblock(int fd, bool on); /* -1 and errno */
/* closes it unless it is -1, sets it to -1, keeps errno */
void fd_close(int *fd);
MUST_USE int fd_pipe(int fd[2]); /* a pipe, both ends close-on-exec; -1 and errno */
/* How many bytes can be read now (FIONREAD); 0 when that can't be told. */
size_t fd_waiting(int fd);
/* What a file begins with, at most `size` bytes of it, in `to`; empty when it can't be read. For
 * those of /proc and /sys. */
struct slice file_start(const char *path, char *to, size_t size);
/* Reads some of what is there, for nobody; true: it was the end, or an error. For an input whose
 * end alone counts. */
MUST_USE bool fd_is_over(int fd);
/* Moves fd to a number of at least `least`, close-on-exec, so that 0-2 stay free. Returns the new
 * number or -1; fd is closed when it was moved. */
MUST_USE int fd_raise(int fd, int least);

struct process_spec {
    /* NULL-terminated; argv[0] is the program, looked for on PATH when it has no slash */
    const char *const *argv;
    const char *const *env; /* NULL-terminated; NULL: ours */
    const char *cwd;        /* NULL: ours */
    /* what becomes the child's 0, 1, 2; -1: /dev/null for in, ours for the others */
    int in, out, errs;
    /* other descriptors that the child inherits under the same numbers (all above 2) */
    const int *keep;
    unsigned n_keep;
    bool session; /* setsid(): a session and process group of its own */
    /* SIGKILL when the thread that started it ends (Linux; nothing elsewhere) */
    bool die_with_parent;
    /* die_with_parent by this signal, to clean up before the end; 0: SIGKILL */
    int last_words;
};

#define PROCESS_SPEC_INIT { .in = -1, .out = -1, .errs = -1 }

/* fork and exec; the child starts with default signal actions and an empty mask. Returns when exec
 * has happened: a program that can't be executed is an error here, not an exit status. The pid, or
 * -1. */
pid_t process_start(const struct process_spec *spec, struct err *err);

/* Same, with the write end of a pipe to the child's stdin in *in (the caller's to close;
 * close-on-exec). */
pid_t process_start_piped(const struct process_spec *spec, int *in, struct err *err);

/* The orphans among our descendants become our children. -1/ENOSYS where there is no such thing. */
MUST_USE int process_adopt_orphans(void);
/* We get `signo` when our parent ends. `parent` is the pid that it should have: -1/ESRCH when it
 * ended before. */
MUST_USE int process_die_with_parent(int signo, pid_t parent);
/* A descriptor, close-on-exec, that is readable once the process has ended. -1/ENOSYS where there
 * is no pidfd: fall back to SIGCHLD. */
MUST_USE int process_pidfd(pid_t pid);
/* Sends signo to the group that pid leads. 0 also when nothing of it is left. */
int process_kill_group(pid_t pid, int signo);

#endif
