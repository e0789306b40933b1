/* link.c - see link.h. */
#include "launchers/ssh/link.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/process.h"
#include "launchers/report.h"
#include "launchers/script.h"

#define LAST_LINES 16u
#define TRIES      5u
#define AGAIN_NS   (300 * NS_PER_MS) /* doubled with each try */

void link_init(struct link *l, const struct link_plan *plan, const struct ssh_host *host,
               unsigned agent)
{
    *l = (struct link){
        .plan = plan, .host = host, .agent = agent, .in = -1, .out = -1, .errs = -1
    };
}

static void close_in(struct link *l)
{
    watch_stop(l->in_watch);
    l->in_watch = NULL;
    fd_close(&l->in);
    if (l->send.p)
        memory_wipe(l->send.p, l->send.cap); /* the secret */
    buf_release(&l->send);
}

static void close_out(struct watch **watch, int *fd)
{
    watch_stop(*watch);
    *watch = NULL;
    fd_close(fd);
}

void link_release(struct link *l)
{
    close_in(l);
    close_out(&l->out_watch, &l->out);
    close_out(&l->err_watch, &l->errs);
    watch_stop(l->timer);
    tail_release(&l->errors);
    child_lines_release(&l->out_lines);
    child_lines_release(&l->err_lines);
    free(l->found);
    free(l->version);
    free(l->heard);
    free(l->machine);
}

static void over(struct link *l)
{
    l->state = LINK_OVER;
    watch_stop(l->timer);
    l->timer = NULL;
    l->plan->settled(l->plan->arg);
}

static void fail(struct link *l, const char *text)
{
    l->failed = true;
    report_failed(l->agent, "%s", text);
    over(l);
}

/* ---- output of ssh ---- */

static void err_line(void *arg, const char *line)
{
    struct link *l = arg;

    fprintf(stderr, "%s: %s\n", l->host->name, line);
    if (tail_add(&l->errors, slice_text(line)) < 0 || tail_add(&l->errors, slice_text("\n")) < 0)
        tail_clear(&l->errors);
}

static void keep(char **place, const char *text)
{
    free(*place);
    *place = strdup(text);
}

static void in_ready(struct loop *loop, int fd, unsigned events, void *arg)
{
    struct link *l = arg;
    const ssize_t n = write(fd, l->send.p, l->send.n);

    (void)loop;
    (void)events;
    if (n > 0)
        buf_drop(&l->send, (size_t)n);
    else if (errno != EAGAIN && errno != EINTR)
        buf_clear(&l->send); /* ssh is gone; link_ended() reports why */
    if (l->send.n)
        return;
    watch_stop(l->in_watch);
    l->in_watch = NULL;
    if (l->send.p)
        memory_wipe(l->send.p, l->send.cap);
    buf_release(&l->send);
    if (l->told)
        close_in(l);
}

/* The remote shell is ready: sends it the script, and the agent's number and secret. */
static void send_lines(struct link *l)
{
    struct err err = { "" };
    int rc = buf_add_slice(&l->send, l->plan->line) < 0 ||
             buf_addf(&l->send, "CELLSPAN_AGENT=%u\n", l->agent) < 0;

    if (rc == 0 && l->plan->secret)
        rc = buf_addf(&l->send, "CELLSPAN_SECRET=%s\n", l->plan->secret) < 0;
    if (rc == 0)
        l->in_watch = loop_fd(l->plan->loop, l->in, LOOP_WRITE, in_ready, l, &err);
    if (!l->in_watch)
        close_in(l); /* out of memory: the shell ends */
    l->state = LINK_UP;
    watch_stop(l->timer);
    l->timer = NULL;
    l->plan->settled(l->plan->arg);
}

/* Refuses a second name of the same machine: it would be two nodes with the same LOCAL_RANKs and
 * GPUs. */
static void know_machine(struct link *l, const char *machine)
{
    const struct link *twin;
    char text[CAUSE_TEXT_SIZE];

    keep(&l->machine, machine);
    if (!l->machine || l->told || !(twin = l->plan->twin(l->plan->arg, l)))
        return;
    snprintf(text, sizeof text,
             "%.250s: it is the machine of %.250s, by another name; %.250s*2 runs two ranks there",
             l->host->name, twin->host->name, twin->host->name);
    l->failed = true;
    report_failed(l->agent, "%s", text);
    l->told = true; /* so that its end is not reported as another failure */
    (void)process_kill_group(l->pid, SIGTERM);
}

/* Handles a line of the script. false: it is not one. */
static bool mark_line(struct link *l, const char *line)
{
    const char *word = line + strlen(SCRIPT_MARK);

    if (strncmp(line, SCRIPT_MARK, strlen(SCRIPT_MARK)) != 0 || l->found)
        return false;
    if (strcmp(word, SCRIPT_READY) == 0 && l->state == LINK_CONNECTING && l->in >= 0)
        send_lines(l);
    else if (strcmp(word, SCRIPT_MISSING) == 0)
        l->missing = true;
    else if (strncmp(word, SCRIPT_VERSION, strlen(SCRIPT_VERSION)) == 0)
        keep(&l->version, word + strlen(SCRIPT_VERSION));
    else if (strncmp(word, SCRIPT_MACHINE, strlen(SCRIPT_MACHINE)) == 0)
        know_machine(l, word + strlen(SCRIPT_MACHINE));
    else if (strncmp(word, SCRIPT_FOUND, strlen(SCRIPT_FOUND)) == 0)
        keep(&l->found, word + strlen(SCRIPT_FOUND));
    return true;
}

/* Start files may print lines before the script's. They are ignored, but the last one is kept in
 * case nothing else comes. */
static void out_line(void *arg, const char *line)
{
    struct link *l = arg;

    if (mark_line(l, line))
        return;
    if (l->state == LINK_UP)
        fprintf(stderr, "%s: %s\n", l->host->name, line);
    else if (*line)
        keep(&l->heard, line);
}

static void out_ready(struct loop *loop, int fd, unsigned events, void *arg)
{
    struct link *l = arg;

    (void)loop;
    (void)events;
    if (!child_lines_read(&l->out_lines, fd, out_line, l))
        close_out(&l->out_watch, &l->out);
}

static void err_ready(struct loop *loop, int fd, unsigned events, void *arg)
{
    struct link *l = arg;

    (void)loop;
    (void)events;
    if (!child_lines_read(&l->err_lines, fd, err_line, l))
        close_out(&l->err_watch, &l->errs);
}

/* ---- start ---- */

static void no_answer(struct loop *loop, void *arg)
{
    struct link *l = arg;

    (void)loop;
    l->late = true;
    link_kill(l, SIGKILL);
}

/* Composes ssh's command line. After "--", a destination can't be taken as an option. */
static int compose(const struct link *l, struct words *argv)
{
    for (size_t i = 0; i < l->plan->ssh->n; i++)
        if (words_add(argv, l->plan->ssh->v[i]) < 0)
            return -1;
    if (words_add(argv, "--") < 0 || words_add(argv, l->host->destination) < 0 ||
        words_add(argv, SCRIPT_COMMAND) < 0)
        return -1;
    return 0;
}

static int spawn(struct link *l, const struct words *argv, struct err *err)
{
    struct process_spec spec = PROCESS_SPEC_INIT;
    int out[2] = { -1, -1 }, errs[2] = { -1, -1 };

    if (fd_pipe(out) < 0 || fd_pipe(errs) < 0)
        (void)err_set(err, "no pipe for ssh: %s", strerror(errno));
    else {
        spec.argv = (const char *const *)argv->v;
        spec.out = out[1];
        spec.errs = errs[1];
        /* so that a terminal's Ctrl-C does not reach it, and ssh does not ask on /dev/tty */
        spec.session = true;
        spec.die_with_parent = true;
        /* SIGTERM lets it end the ssh to a jump host; while it connects, it ignores stdin's end */
        spec.last_words = SIGTERM;
        l->pid = process_start_piped(&spec, &l->in, err);
    }
    fd_close(&out[1]);
    fd_close(&errs[1]);
    l->out = out[0];
    l->errs = errs[0];
    if (l->pid > 0)
        return 0;
    l->pid = 0;
    return -1;
}

static int watch(struct link *l, struct err *err)
{
    struct loop *loop = l->plan->loop;

    if (fd_nonblock(l->in, true) < 0 || fd_nonblock(l->out, true) < 0 ||
        fd_nonblock(l->errs, true) < 0)
        return err_set(err, "the pipes to ssh: %s", strerror(errno));
    if (!(l->out_watch = loop_fd(loop, l->out, LOOP_READ, out_ready, l, err)) ||
        !(l->err_watch = loop_fd(loop, l->errs, LOOP_READ, err_ready, l, err)) ||
        !(l->timer = loop_timer(loop, l->plan->patience_ns, 0, no_answer, l, err)))
        return -1;
    return 0;
}

static void close_all(struct link *l)
{
    close_in(l);
    close_out(&l->out_watch, &l->out);
    close_out(&l->err_watch, &l->errs);
    watch_stop(l->timer);
    l->timer = NULL;
}

void link_start(struct link *l)
{
    struct words argv = WORDS_INIT;
    struct err err = { "" };

    l->state = LINK_CONNECTING;
    l->tries++;
    tail_clear(&l->errors);
    if (compose(l, &argv) < 0)
        (void)err_set(&err, "out of memory");
    else if (spawn(l, &argv, &err) == 0 && watch(l, &err) < 0)
        link_kill(l, SIGKILL);
    words_release(&argv);
    if (l->pid > 0)
        return;
    close_all(l);
    fail(l, err.text);
}

static void again(struct loop *loop, void *arg)
{
    struct link *l = arg;

    (void)loop;
    watch_stop(l->timer);
    l->timer = NULL;
    link_start(l);
}

/* ---- end ---- */

void link_end(struct link *l)
{
    l->told = true;
    if (l->state == LINK_WAITING || (l->state == LINK_CONNECTING && l->pid == 0))
        over(l);
    else if (!l->send.n)
        close_in(l);
    if (l->state == LINK_CONNECTING)
        link_kill(l, SIGTERM); /* there is no agent yet that would end by itself */
}

void link_kill(struct link *l, int signo)
{
    if (l->pid > 0)
        /* the group, since CELLSPAN_SSH may be a script that waits for its ssh */
        (void)process_kill_group(l->pid, signo);
}

/* The last lines of stderr, as one text; the caller frees it. */
static char *last_words(const struct link *l)
{
    struct buf all = BUF_INIT;

    if (tail_text(&l->errors, LAST_LINES, &all) == 0 && all.n)
        all.p[--all.n] = '\0'; /* the newline of the last */
    return buf_take(&all);
}

static void report_end(struct link *l, int status)
{
    char *said = last_words(l);
    char text[CAUSE_TEXT_SIZE];
    struct cause cause = {
        .host = l->host->name,
        .login = l->host->destination,
        .heard = l->heard,
        .program = l->plan->program,
        .prefix = l->plan->prefix,
        .found = l->found,
        .version = l->version,
        .said = said ? said : "",
        .missing = l->missing,
        .status = status,
        .stage = l->found              ? CAUSE_RUNNING
                 : l->state == LINK_UP ? CAUSE_SEARCHING
                                       : CAUSE_CONNECTING,
    };
    struct err err = { "" };

    if (l->state == LINK_CONNECTING && !l->late && l->tries < TRIES && cause_is_passing(&cause) &&
        (l->timer = loop_timer(l->plan->loop, AGAIN_NS << (l->tries - 1), 0, again, l, &err)))
        goto out;
    if (l->late)
        snprintf(text, sizeof text,
                 "%s: no shell answered within %u s%s%s; is it on, and what do its start files do? "
                 "CELLSPAN_SSH_TIMEOUT gives more seconds",
                 l->host->name, (unsigned)(l->plan->patience_ns / NS_PER_S),
                 cause.said[0] ? "; ssh said: " : "", cause.said);
    else
        cause_text(&cause, text);
    fail(l, text);
out:
    free(said);
}

void link_ended(struct link *l, int status)
{
    l->pid = 0;
    while (l->out >= 0 && fd_waiting(l->out))
        out_ready(l->plan->loop, l->out, LOOP_READ, l);
    while (l->errs >= 0 && fd_waiting(l->errs))
        err_ready(l->plan->loop, l->errs, LOOP_READ, l);
    child_lines_end(&l->out_lines, out_line, l);
    child_lines_end(&l->err_lines, err_line, l);
    close_all(l);
    if (l->told || (l->found && status == 0))
        over(l);
    else
        report_end(l, status);
}
