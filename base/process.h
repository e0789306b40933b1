/* SPDX-License-Identifier: BSD-3-Clause */
/* process.h - helpers for descriptors, child processes and threads. Portable POSIX; Linux's own
 * calls are used where they exist. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <pthread.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/slice.h"

/* ---- fd.c ---- */
MUST_USE int fd_cloexec(int fd);           /* sets FD_CLOEXEC; -1 and errno */
MUST_USE int fd_cloexec_both(int fd[2]);   /* the same for a pair; -1: both are closed */
MUST_USE int fd_nonblock(int fd, bool on); /* -1 and errno */
void fd_close(int *fd); /* closes it unless it is -1, sets it to -1, keeps errno */
/* The first thing that a program does: opens /dev/null in place of those of descriptors 0 to 2 that
 * are closed, so that nothing which is opened later gets their numbers. Reads of 0 find the end;
 * writes to 1 and 2 fail, so that it is noticed that output is lost. true: 0 was open. */
bool fd_open_standard(void);
MUST_USE int fd_pipe(int fd[2]); /* a pipe, both ends close-on-exec; -1 and errno */
size_t fd_waiting(int fd); /* How many bytes can be read now (FIONREAD); 0 if that is not known. */
/* Writes all bytes, in as many writes as that takes. -1 and errno */
MUST_USE int fd_write(int fd, struct slice bytes);
/* Reads at most `size` bytes of a file of /proc or /sys into `to`; empty if it can't be read. */
struct slice file_start(const char *path, char *to, size_t size);
/* The number at the start of the text; `none`: there is none. */
uint64_t file_number(struct slice text, uint64_t none);
/* The number in the line of this name, as files of /proc have it: "MemFree:  12 kB", "oom_kill 3".
 * `none`: there is no such line. */
uint64_t file_number_of(struct slice text, const char *name, uint64_t none);
/* When a process or a thread did not start, or memory is out: which limit this process has reached,
 * as text for the user. false: none that is known. */
bool limit_held(char *text, size_t size);
/* Reads and discards bytes. true: the end, or an error. For inputs of which only the end matters.
 */
MUST_USE bool fd_is_over(int fd);
/* Moves fd to a number of at least `least`, close-on-exec, so that 0-2 stay free. Returns the new
 * number or -1; fd is closed if it was moved. */
MUST_USE int fd_raise(int fd, int least);

/* ---- process.c ---- */
struct process_spec {
    /* NULL-terminated; argv[0] is the program, looked for on PATH when it has no slash */
    const char *const *argv;
    const char *const *env; /* NULL-terminated; NULL: ours */
    const char *cwd;        /* NULL: ours */
    /* the child's descriptors 0, 1, 2; -1: /dev/null for in, ours for out and errs */
    int in, out, errs;
    /* other descriptors that the child inherits with the same numbers (all above 2) */
    const int *keep;
    unsigned n_keep;
    bool session; /* setsid(): a session and process group of its own */
    /* SIGKILL when the thread that started it ends (Linux; nothing elsewhere) */
    bool die_with_parent;
    /* the signal of die_with_parent, if the child must clean up first; 0: SIGKILL */
    int last_words;
    /* where stdin is a new pipe: what it begins with, at most PIPE_BUF bytes, there before the
     * child is */
    struct slice first;
    /* The child has SIGUSR1 and SIGUSR2 blocked, which would end it before it has handlers. It must
     * unblock them. */
    bool holds_notices;
};

#define PROCESS_SPEC_INIT { .in = -1, .out = -1, .errs = -1 }

/* Forks and executes; the child starts with default signal actions and an empty signal mask, but
 * for spec->holds_notices. Returns after exec, so a program that can't be executed is an error
 * here, not an exit status. The pid, or -1. */
pid_t process_start(const struct process_spec *spec, struct err *err);

/* The same with a pipe to the child's stdin. The caller must close *in, its write end
 * (close-on-exec). */
pid_t process_start_piped(const struct process_spec *spec, int *in, struct err *err);
/* The same with pipes for the three streams; nothing waits at our ends of out and errs. */
pid_t process_start_streams(const struct process_spec *spec, int *in, int *out, int *errs,
                            struct err *err);

/* How long a program of others may take for an answer. Python may be on a slow network. */
#define PROCESS_ANSWER_NS (60 * NS_PER_S)
/* Waits for a child that has got SIGKILL, but for a short while only: it can't end while it is in a
 * system call that does not, as one that waits for a file server. */
void process_reap(pid_t pid);
/* Kills a child and its descendants, and waits for it so. Does nothing if it is no child of ours,
 * as one that was waited for: another process may have its number. */
void process_end_tree(pid_t pid);
/* Appends what a child of ours writes to `from`, until that is more than `most` bytes, closes
 * `from` and waits for the child's end. Blocks, until end_ns at most: then process_end_tree() ends
 * the child, and it returns -1, errno ETIMEDOUT. pid 0: the child was waited for already, and
 * *status stays as it is. */
MUST_USE int process_answer(pid_t pid, int *from, size_t most, uint64_t end_ns, struct buf *out,
                            int *status);
/* Runs a program to its end and appends what it writes to stdout, until that is more than `most`
 * bytes. Blocks, for at most limit_ns: then it and its descendants are killed. spec->out is not
 * used. Returns its status as waitpid() does; -1: it didn't start, or, with errno ETIMEDOUT,
 * has not ended in time. */
int process_output(const struct process_spec *spec, size_t most, uint64_t limit_ns, struct buf *out,
                   struct err *err);

/* Blocks SIGUSR1 and SIGUSR2, which are notices here, until process_take_notices(). */
void process_hold_notices(void);
void process_take_notices(void);

/* SIGHUP and SIGINT only: was it ignored when this program started? nohup(1) does that, and a shell
 * to its background jobs. Such a signal is to stay ignored. Ask before it gets a handler. */
bool process_ignores(int signo);

/* From now on, orphans among our descendants become our children. -1/ENOSYS if not supported. */
MUST_USE int process_adopt_orphans(void);
/* From now on we get `signo` when our parent (pid `parent`) ends. -1/ESRCH: it has already ended.
 */
MUST_USE int process_die_with_parent(int signo, pid_t parent);
/* A descriptor, close-on-exec, that becomes readable when the process ends. -1/ENOSYS where there
 * is no pidfd: use SIGCHLD instead. */
MUST_USE int process_pidfd(pid_t pid);
/* Memory of the process in bytes: its own pages, and its share of those that it shares (PSS).
 * false: it can't be read. */
bool process_memory(long pid, uint64_t *bytes);
/* The time on processors that it has had, with that of its children that have ended. false: the
 * system does not tell. */
bool process_cpu(long pid, uint64_t *ns);
/* How long ago the process was started. false: the system does not tell. */
bool process_age(long pid, uint64_t *ns);
/* Whose process it is: its real user. (The owner of its folder in /proc is root if it may not be
 * traced, which any user's program can see to.) false: it has ended, or it is not known. */
bool process_uid(long pid, uid_t *uid);
/* Has it ended? It may wait to be reaped. */
bool process_has_ended(long pid);
/* Has a signal such as SIGSTOP stopped it? false, too: the system does not tell. */
bool process_is_stopped(long pid);
/* Sends signo to the process group that pid leads. 0 also if none of it is left. */
int process_kill_group(pid_t pid, int signo);

/* ---- orphans.c ---- */
/* Lists and kills our child processes, including orphans that we have adopted. */

/* The parent of a process; 0: there is no such process; -1: this system does not tell. */
pid_t orphans_parent(pid_t pid);
/* Sends SIGKILL to a child of ours and to all that descend from it. The caller waits for it. */
void orphans_kill_tree(pid_t pid);
/* Sends SIGKILL to each of our children, and to the group it leads, except `spare` (0: none). */
void orphans_kill(pid_t spare);
void orphans_kill_but(const pid_t *spare, size_t n); /* The same, with n children to spare. */

/* pthread_create() with all signals blocked in the new thread: the main thread handles them. */
MUST_USE int thread_start(pthread_t *thread, void *(*f)(void *arg), void *arg);

#endif
