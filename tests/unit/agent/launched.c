/* SPDX-License-Identifier: BSD-3-Clause */
/* Agents of engines that have no stdin for them and number them in variables of their own, as an
 * MPI does; and what the end of their parent's threads means. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "protocol/span_fields.h"
#include "tests/unit/agent/fake.h"
#include "tests/unit/agent/lan.h"
#include "tests/unit/agent/must.h"
#include "tests/unit/tap.h"
#include "worker/agent/net/secret.h"

static const char *self;

static void the_number_is_that_of_the_first_variable_that_is_set(void)
{
    struct handed h = { .index = 0 };
    struct err none = { "" }, unset = { "" }, wrong = { "" }, empty = { "" };

    setenv("NUMBER_B", "12", 1);
    setenv("NUMBER_C", "x", 1);
    setenv("NUMBER_D", "", 1);
    ok(secret_number_from(&h, "NUMBER_A,NUMBER_B,NUMBER_C", &none) == 0 && h.has_index &&
           h.index == 12,
       "the first that is set counts: %s", none.text);
    ok(secret_number_from(&h, "NUMBER_A,NUMBER_Z", &unset) < 0 &&
           strstr(unset.text, "--agent-from NUMBER_A,NUMBER_Z: no such variable is set"),
       "if none is set they are named: %s", unset.text);
    ok(secret_number_from(&h, "NUMBER_C,NUMBER_B", &wrong) < 0 &&
           strstr(wrong.text, "NUMBER_C is not a number"),
       "one that is no number is named: %s", wrong.text);
    ok(secret_number_from(&h, "NUMBER_D", &empty) < 0 && strstr(empty.text, "NUMBER_D is empty"),
       "and one that is empty: %s", empty.text);
}

/* ---- what ranks see ---- */

static bool prints(struct lan *l, uint32_t worker, const char *code, const char *wanted)
{
    static uint64_t cell = 1;
    const uint32_t node = 1;
    struct span m = { .kind = SPAN_RUN, .cell = cell++ };
    char line[64];
    int n;

    m.v[F_RUN_CODE].s = slice_text(code);
    lan_send(l, 1, &node, &worker, 1, &m);
    if (!lan_until(l, SPAN_LINES, 1))
        return false;
    n = snprintf(line, sizeof line, "%s", wanted);
    return l->last.v[F_LINES_DATA].s.n >= (size_t)n &&
           memcmp(l->last.v[F_LINES_DATA].s.p, line, (size_t)n) == 0;
}

static void ranks_are_no_processes_of_the_mpi(void)
{
    const struct span quit = { .kind = SPAN_QUIT };
    struct lan l;
    int ends[2];
    char fd[16];

    lan_open(&l);
    must(pipe(ends) == 0 && fd_nonblock(ends[0], true) == 0, "pipe");
    snprintf(fd, sizeof fd, "%d", ends[1]);
    setenv("PMI_FD", fd, 1);
    setenv("OMPI_MCA_orte_jobid", "7", 1);
    setenv("PMIX_NAMESPACE", "job", 1);
    setenv("PMIXTURE", "kept", 1);
    lan_join(&l, 1, LAN_NO_STDIN);
    unsetenv("PMI_FD");
    unsetenv("OMPI_MCA_orte_jobid");
    unsetenv("PMIX_NAMESPACE");
    unsetenv("PMIXTURE");
    lan_start_rank(&l, self, 2);
    ok(lan_until(&l, SPAN_READY, 1), "an agent without a stdin dials, and its rank comes up");
    ok(prints(&l, 2, "env PMI_RANK", "(none)") && prints(&l, 2, "env PMI_FD", "(none)") &&
           prints(&l, 2, "env OMPI_MCA_orte_jobid", "(none)") &&
           prints(&l, 2, "env PMIX_NAMESPACE", "(none)"),
       "the rank sees nothing of the MPI that started the agent");
    ok(prints(&l, 2, "env PMIXTURE", "kept"), "and the rest");
    lan_tell(&l, 1, 1, &quit);
    is_int(lan_wait(&l, 1), 0, "QUIT ends it");
    close(ends[1]);
    ok(read(ends[0], fd, 1) == 0, "nobody holds the process manager's socket any more");
    close(ends[0]);
    lan_close(&l);
}

static void what_is_not_handed_over_is_named(void)
{
    char text[SECRET_TEXT_SIZE];
    struct lan l;

    lan_open(&l);
    secret_format(&l.secret, text);
    lan_start(&l, 1, LAN_NO_STDIN, NULL, "");
    ok(lan_wait(&l, 1) == 1 && lan_wrote(&l, 1, "CELLSPAN_SECRET"), "a secret that is missing");
    l.timeout_ms = 2000;
    lan_join(&l, 2, LAN_NO_STDIN);
    is_int(lan_wait(&l, 2), 1, "an agent without a stdin ends when it hears nothing");
    ok(lan_wrote(&l, 2, "nothing was heard from the kernel for 2.0 s"), "and says why");
    lan_close(&l);
}

/* Slurm ends the stdin of a job's tasks also where srun was killed: then its guard looks for srun.
 */
static void the_end_of_stdin_is_announced(void)
{
    struct lan l;

    lan_open(&l);
    lan_join(&l, 1, LAN_SLURM);
    must(write(l.member[1].in, "end\n", 4) == 4, "stdin");
    ok(lan_end(&l, 1) == 0 && !lan_wrote(&l, 1, "stdin"), "an agent that is told to end does so");
    lan_join(&l, 2, LAN_SLURM);
    is_int(lan_end(&l, 2), 1, "one that is not told ends as well, but not as it should");
    ok(lan_wrote(&l, 2, "stdin is over without a word"), "and says so");
    lan_close(&l);
}

/* ---- the machine will be gone soon ---- */

static bool tells(struct lan *l, uint64_t seconds, const char *text)
{
    return lan_until(l, SPAN_NOTICE, 1) && l->last.v[F_NOTICE_SECONDS].u64 == seconds &&
           slice_is(l->last.v[F_NOTICE_TEXT].s, text);
}

static void signals_are_notices(void)
{
    const struct span quit = { .kind = SPAN_QUIT };
    struct lan l;

    lan_open(&l);
    setenv("CELLSPAN_NOTICE", "90", 1);
    lan_join(&l, 1, LAN_NO_STDIN);
    unsetenv("CELLSPAN_NOTICE");
    must(kill(l.member[1].pid, SIGUSR1) == 0, "kill");
    ok(tells(&l, 90, "SIGUSR1 has come"), "SIGUSR1 to the guard becomes a NOTICE");
    must(kill(l.member[1].pid, SIGUSR2) == 0, "kill");
    ok(tells(&l, 90, "SIGUSR2 has come"), "and so does SIGUSR2; both live on");
    lan_tell(&l, 1, 1, &quit);
    is_int(lan_wait(&l, 1), 0, "until QUIT");
    lan_close(&l);
}

/* The set of signals of this name, as bits. */
static unsigned long long signals_of(pid_t pid, const char *name)
{
    char path[64], text[4096];
    struct slice all;
    const char *at;

    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    all = file_start(path, text, sizeof text - 1);
    text[all.n] = '\0';
    must((at = strstr(text, name)), path);
    return strtoull(at + strlen(name), NULL, 16);
}

static void a_signal_before_the_agent_is_there(void)
{
    const struct span quit = { .kind = SPAN_QUIT };
    char text[SECRET_TEXT_SIZE], line[SECRET_TEXT_SIZE + 64];
    struct lan l;
    int n;

    lan_open(&l);
    secret_format(&l.secret, text);
    lan_start(&l, 1, LAN_STDIN, NULL, NULL);
    for (int i = 0; i < 3000 && !(signals_of(l.member[1].pid, "SigBlk:") >> (SIGUSR1 - 1) & 1); i++)
        usleep(10000);
    must(kill(l.member[1].pid, SIGUSR1) == 0, "kill");
    n = snprintf(line, sizeof line, "CELLSPAN_AGENT=1\nCELLSPAN_SECRET=%s\n", text);
    ok(write(l.member[1].in, line, (size_t)n) == n && lan_until(&l, SPAN_HELLO, 0),
       "SIGUSR1 does not end an agent that waits for its secret");
    ok(lan_until(&l, SPAN_NOTICE, 1) && slice_is(l.last.v[F_NOTICE_TEXT].s, "SIGUSR1 has come") &&
           l.last.v[F_NOTICE_SECONDS].u64 <= 60,
       "and is told once the kernel is there");
    lan_tell(&l, 1, 1, &quit);
    is_int(lan_wait(&l, 1), 0, "until QUIT");
    lan_close(&l);
}

/* ---- its parent ---- */

static void *join_from_a_thread(void *lan)
{
    lan_join(lan, 1, LAN_NO_STDIN);
    return NULL;
}

static bool beats(struct lan *l, uint64_t sent)
{
    struct span beat = { .kind = SPAN_BEAT };

    beat.v[F_BEAT_SENT].u64 = sent;
    lan_tell(l, 1, 1, &beat);
    while (lan_until(l, SPAN_BEAT, 1))
        if (l->last.v[F_BEAT_SENT].u64 == sent)
            return true;
    return false;
}

static void sigterm_is_a_notice_where_the_engine_says_so(void)
{
    const struct span quit = { .kind = SPAN_QUIT };
    char text[SECRET_TEXT_SIZE];
    struct lan l;
    pid_t agent;

    lan_open(&l);
    lan_join(&l, 1, LAN_SIGTERM);
    agent = (pid_t)l.last.v[F_HELLO_PID].u64;
    must(beats(&l, 1), "no BEAT"); /* it has got WELCOME */
    must(kill(l.member[1].pid, SIGTERM) == 0, "kill");
    ok(tells(&l, 30, "SIGTERM has come") && l.last.v[F_NOTICE_SIGNAL].u64 == 1,
       "SIGTERM to the guard becomes a NOTICE");
    must(kill(agent, SIGTERM) == 0, "kill");
    ok(tells(&l, 30, "SIGTERM has come"), "and so does one to the agent; both live on");
    lan_tell(&l, 1, 1, &quit);
    is_int(lan_wait(&l, 1), 0, "until QUIT");
    lan_join(&l, 2, LAN_SIGTERM);
    agent = (pid_t)l.last.v[F_HELLO_PID].u64;
    kill(l.member[2].pid, SIGKILL);
    ok(lan_wait(&l, 2) == -1 && is_gone(agent), "the agent still ends with its guard");
    l.mute = true;
    secret_format(&l.secret, text);
    lan_start(&l, 3, LAN_SIGTERM, NULL, text);
    must(lan_until(&l, SPAN_HELLO, 0), "no HELLO");
    must(kill(l.member[3].pid, SIGTERM) == 0, "kill");
    is_int(lan_wait(&l, 3), 0, "and at SIGTERM before the kernel has taken it in");
    lan_close(&l);
}

static void the_end_of_a_thread_is_not_the_end_of_its_process(void)
{
    struct lan l;
    pthread_t thread;

    lan_open(&l);
    must(pthread_create(&thread, NULL, join_from_a_thread, &l) == 0 &&
             pthread_join(thread, NULL) == 0,
         "a thread");
    for (int i = 0; i < 3000 && signals_of(l.member[1].pid, "ShdPnd:"); i++)
        usleep(10000);
    ok(beats(&l, 1) && beats(&l, 2), "an agent outlives the thread that started it");
    kill(l.member[1].pid, SIGTERM);
    ok(lan_until(&l, SPAN_QUIT, 1), "tells the kernel that it ends at SIGTERM");
    is_int(lan_wait(&l, 1), 0, "and does");
    lan_close(&l);
}

static void the_end_of_its_parent_is_the_agents(void)
{
    const pid_t test = getpid();
    char text[SECRET_TEXT_SIZE];
    struct lan l;
    pid_t parent, agent;

    lan_open(&l);
    secret_format(&l.secret, text);
    if ((parent = fork()) == 0) {
        (void)!process_die_with_parent(SIGKILL, test);
        lan_start(&l, 1, LAN_NO_STDIN, NULL, text);
        for (;;)
            pause();
    }
    must(parent > 0 && lan_until(&l, SPAN_HELLO, 0), "an agent");
    agent = (pid_t)l.last.v[F_HELLO_PID].u64;
    kill(parent, SIGKILL);
    (void)waitpid(parent, NULL, 0);
    ok(is_gone(agent), "an agent ends with its parent, though nothing says so on a stdin");
    unlink(strcat(strcpy(l.member[1].errors, l.dir), "/1"));
    lan_close(&l);
}

int main(int argc, char **argv)
{
    if (fake_is_wanted(argc, argv))
        return fake_main(argc, argv);
    self = argv[0];
    the_number_is_that_of_the_first_variable_that_is_set();
    ranks_are_no_processes_of_the_mpi();
    what_is_not_handed_over_is_named();
    the_end_of_stdin_is_announced();
    signals_are_notices();
    a_signal_before_the_agent_is_there();
    sigterm_is_a_notice_where_the_engine_says_so();
    the_end_of_a_thread_is_not_the_end_of_its_process();
    the_end_of_its_parent_is_the_agents();
    return plan_done();
}
