/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/ssh/ssh_child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/agent_lines.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/mux/forward.h"
#include "launchers/launcher.h"
#include "launchers/relay_child.h"
#include "launchers/ssh/relogin_child.h"
#include "launchers/ssh/ssh_command.h"
#include "launchers/agent_script.h"

#define LAST_LINES 16u /* of an ssh, in an error */
#define TRIES      5u
#define AGAIN_NS   (300 * NS_PER_MS) /* doubled with each try */

static void start(void *arg);

void ssh_child_init(struct ssh_child *c, const struct ssh_plan *plan, const struct ssh_host *host,
                    unsigned agent)
{
    *c = (struct ssh_child){ .plan = plan,
                             .host = host,
                             .agent = agent,
                             .in = -1,
                             .out = -1,
                             .errs = -1,
                             .container = { .image = plan->image } };
    c->login = (struct login){ .login_limit = plan->login_limit, .start = start, .arg = c };
}

static void close_in(struct ssh_child *c)
{
    watch_clear(&c->in_watch);
    fd_close(&c->in);
    if (c->send.p)
        memory_wipe(c->send.p, c->send.cap); /* the secret */
    buf_release(&c->send);
}

static void close_out(struct watch **watch, int *fd)
{
    watch_clear(watch);
    fd_close(fd);
}

void ssh_child_release(struct ssh_child *c)
{
    login_over(&c->login);
    close_in(c);
    close_out(&c->out_watch, &c->out);
    close_out(&c->err_watch, &c->errs);
    watch_stop(c->timer);
    relay_child_stop(c->relay);
    relogin_child_stop(c->relogin);
    tail_release(&c->errors);
    child_lines_release(&c->out_lines);
    child_lines_release(&c->err_lines);
    free(c->found);
    free(c->version);
    free(c->unsent);
    container_state_release(&c->container);
    free(c->heard);
    free(c->machine);
    free(c->folder);
    free(c->boot);
    free(c->broke);
}

static void over(struct ssh_child *c)
{
    c->state = SSH_OVER;
    login_over(&c->login);
    watch_clear(&c->timer);
    relay_child_stop(c->relay);
    c->relay = NULL;
    relogin_child_stop(c->relogin);
    c->relogin = NULL;
    c->plan->settled(c->plan->arg);
}

static void fail(struct ssh_child *c, const char *text)
{
    c->failed = true;
    if (c->container.busy) /* the kernel's clock stands for it */
        report_node(c->agent, c->host->name, c->host->slots);
    report_failed(c->agent, "%s", text);
    over(c);
}

/* ---- output of ssh ---- */

static void err_line(void *arg, const char *line)
{
    struct ssh_child *c = arg;

    fprintf(stderr, "%s: %s\n", c->host->name, line);
    if (tail_add(&c->errors, slice_text(line)) < 0 || tail_add(&c->errors, slice_text("\n")) < 0)
        tail_clear(&c->errors);
}

/* Writes once. */
static void write_some(struct ssh_child *c, int fd)
{
    const bool first = c->send.n > 0;
    const struct slice all = first ? buf_slice(&c->send) : c->after;
    const ssize_t n = write(fd, all.p, all.n);

    if (n > 0 && first)
        buf_drop(&c->send, (size_t)n);
    else if (n > 0)
        c->after = slice_of(all.p + n, all.n - (size_t)n);
    else if (errno != EAGAIN && errno != EINTR) { /* ssh is gone; ssh_child_ended() reports why */
        buf_clear(&c->send);
        c->after = slice_of("", 0);
    }
}

static void in_ready(void *arg, int fd, unsigned events)
{
    struct ssh_child *c = arg;

    (void)events;
    write_some(c, fd);
    if (c->send.n || c->after.n)
        return;
    watch_clear(&c->in_watch);
    if (c->send.p)
        memory_wipe(c->send.p, c->send.cap);
    buf_release(&c->send);
    if (c->asked_to_end)
        close_in(c);
}

/* Writes what is in c->send. rc: -1 if it could not be composed. */
static void send_it(struct ssh_child *c, int rc)
{
    struct err err = { "" };

    if (rc == 0 && !c->in_watch)
        c->in_watch = loop_fd(c->plan->loop, c->in, LOOP_WRITE, in_ready, c, &err);
    if (rc < 0 || !c->in_watch)
        close_in(c); /* out of memory: the shell, or the agent, ends */
}

/* The remote shell is ready. */
static void send_script(struct ssh_child *c)
{
    send_it(c, buf_add_slice(&c->send, c->plan->line(c->plan->arg)));
    c->state = SSH_UP;
    watch_clear(&c->timer);
    login_over(&c->login);
}

/* The agent starts now. It does nothing before it has its number and secret, so no agent joins
 * whose machine has not been compared with the others'. */
static void agent_found(struct ssh_child *c, const char *path)
{
    int rc;

    text_replace(&c->found, path);
    c->missing = false;
    if (c->sent ||
        c->container.busy) /* which takes its time: that of CELLSPAN_START_TIMEOUT begins again */
        report_node(c->agent, c->host->name, c->host->slots);
    if (c->asked_to_end || c->in < 0)
        return;
    rc = buf_addf(&c->send, "CELLSPAN_AGENT=%u\n", c->agent);
    if (rc == 0 && c->plan->secret)
        rc = buf_addf(&c->send, "CELLSPAN_SECRET=%s\n", c->plan->secret);
    send_it(c, rc);
}

/* The host has no cellspan of our version, and waits for it: words say what kind of machine it is.
 */
static void send_cellspan(struct ssh_child *c, const char *words)
{
    struct payload *p = c->plan->payload;
    struct payload_row *row = NULL;
    struct err err = { "" };
    char arch[32], libc[32];
    bool *said;

    if (c->asked_to_end || c->in < 0)
        return;
    if (sscanf(words, "%31s %31s", arch, libc) == 2)
        row = payload_for(p, arch, libc, &err);
    if (!row || payload_make(p, row, &err) < 0) {
        text_replace(&c->unsent, err.text);
        send_it(c, buf_add_text(&c->send, SCRIPT_GO)); /* it ends, or runs what is there */
        return;
    }
    c->after = buf_slice(&row->bytes);
    said = &p->said[*payload_with(row) != '\0'];
    if (!*said)
        report_say("version " CELLSPAN_VERSION "%s is sent to hosts that lack it (%.1f MiB each)",
                   payload_with(row), (double)c->after.n / (1 << 20));
    *said = c->sent = true;
    send_it(c, 0);
}

/* Refuses a second name of the same machine: it would be two nodes with the same LOCAL_RANKs and
 * GPUs. */
static void know_machine(struct ssh_child *c, const char *machine)
{
    const struct ssh_child *twin;
    char text[CAUSE_TEXT_SIZE];
    unsigned ranks = 0;

    text_replace(&c->machine, machine);
    if (!c->machine || c->asked_to_end || !(twin = c->plan->twin(c->plan->arg, c, &ranks)))
        return;
    snprintf(text, sizeof text,
             "%.250s: it is the machine of %.250s, by another name; %.250s*%u runs %u ranks there",
             c->host->name, twin->host->name, twin->host->name, ranks, ranks);
    c->failed = true;
    report_failed(c->agent, "%s", text);
    c->asked_to_end = true; /* so that its end is not reported as another failure */
    (void)process_kill_group(c->pid, SIGTERM);
}

/* Handles a line of the script. false: it is not one. */
static bool mark_line(struct ssh_child *c, const char *line)
{
    const char *word = line + strlen(SCRIPT_MARK);

    if (!text_begins(line, SCRIPT_MARK) || c->found)
        return false;
    if (strcmp(word, SCRIPT_READY) == 0 && c->state == SSH_CONNECTING && c->in >= 0)
        send_script(c);
    else if (text_begins(word, SCRIPT_MISSING)) {
        c->missing = true;
        if (word[strlen(SCRIPT_MISSING)])
            send_cellspan(c, word + strlen(SCRIPT_MISSING));
        else
            text_replace(&c->unsent, payload_why_not(c->plan->payload));
    } else if (text_begins(word, SCRIPT_REFUSED))
        text_replace(&c->unsent, word + strlen(SCRIPT_REFUSED));
    else if (text_begins(word, SCRIPT_VERSION))
        text_replace(&c->version, word + strlen(SCRIPT_VERSION));
    else if (text_begins(word, SCRIPT_MACHINE))
        know_machine(c, word + strlen(SCRIPT_MACHINE));
    else if (text_begins(word, SCRIPT_FOUND))
        agent_found(c, word + strlen(SCRIPT_FOUND));
    if (!c->asked_to_end)
        container_state_word(&c->container, c->agent, c->host->name, word);
    return true;
}

/* The agent can't reach the kernel: its connection goes through another ssh. said: its folder, and
 * after a tab why it can't. */
static void start_relay(struct ssh_child *c, const char *said)
{
    struct words argv = WORDS_INIT;
    struct relay_child_spec spec = { .loop = c->plan->loop,
                                     .login_limit = c->plan->login_limit,
                                     .host = c->host->name,
                                     .way = "ssh",
                                     .argv = &argv };
    struct err err = { "" };
    char *folder = NULL;

    if (c->relay || c->asked_to_end)
        return;
    if (!(folder = strndup(said, strcspn(said, "\t"))) || ssh_command_relay(c, folder, &argv) < 0)
        (void)err_set(&err, "out of memory");
    else {
        spec.why = said + strlen(folder) + (said[strlen(folder)] == '\t');
        c->relay = relay_child_start(&spec, &err);
    }
    if (!c->relay)
        fprintf(stderr, "%s: no relay: %s\n", c->host->name, err.text);
    words_release(&argv);
    free(folder);
}

static void stop_relay(struct ssh_child *c)
{
    relay_child_stop(c->relay);
    c->relay = NULL;
}

/* Start files may print lines before the script's. They are ignored, but the last one is kept in
 * case nothing else comes. */
static void out_line(void *arg, const char *line)
{
    struct ssh_child *c = arg;

    if (mark_line(c, line))
        return;
    if (c->found && text_begins(line, RELAY_WANTED))
        start_relay(c, line + strlen(RELAY_WANTED));
    else if (c->found && strcmp(line, RELAY_UNWANTED) == 0)
        stop_relay(c);
    else if (c->found && text_begins(line, AGENT_LINE_FOLDER))
        text_replace(&c->folder, line + strlen(AGENT_LINE_FOLDER));
    else if (c->state == SSH_UP)
        fprintf(stderr, "%s: %s\n", c->host->name, line);
    else if (*line)
        text_replace(&c->heard, line);
}

static void out_ready(void *arg, int fd, unsigned events)
{
    struct ssh_child *c = arg;

    (void)events;
    if (!child_lines_read(&c->out_lines, fd, out_line, c))
        close_out(&c->out_watch, &c->out);
}

static void err_ready(void *arg, int fd, unsigned events)
{
    struct ssh_child *c = arg;

    (void)events;
    if (!child_lines_read(&c->err_lines, fd, err_line, c))
        close_out(&c->err_watch, &c->errs);
}

/* ---- start ---- */

static void no_answer(void *arg)
{
    struct ssh_child *c = arg;

    c->late = true;
    ssh_child_kill(c, SIGKILL);
}

static int spawn(struct ssh_child *c, const struct words *argv, struct err *err)
{
    struct process_spec spec = PROCESS_SPEC_INIT;

    spec.argv = (const char *const *)argv->v;
    /* so that a terminal's Ctrl-C does not reach it, and ssh does not ask on /dev/tty */
    spec.session = true;
    spec.die_with_parent = true;
    /* SIGTERM lets it end the ssh to a jump host; while it connects, it ignores stdin's end */
    spec.last_words = SIGTERM;
    c->pid = process_start_streams(&spec, &c->in, &c->out, &c->errs, err);
    if (c->pid > 0)
        return 0;
    c->pid = 0;
    return -1;
}

static int watch(struct ssh_child *c, struct err *err)
{
    struct loop *loop = c->plan->loop;

    if (fd_nonblock(c->in, true) < 0)
        return err_set(err, "the pipes to ssh: %s", strerror(errno));
    if (!(c->out_watch = loop_fd(loop, c->out, LOOP_READ, out_ready, c, err)) ||
        !(c->err_watch = loop_fd(loop, c->errs, LOOP_READ, err_ready, c, err)) ||
        !(c->timer = loop_timer(loop, c->plan->limit_ns, 0, no_answer, c, err)))
        return -1;
    return 0;
}

static void close_all(struct ssh_child *c)
{
    login_over(&c->login);
    close_in(c);
    close_out(&c->out_watch, &c->out);
    close_out(&c->err_watch, &c->errs);
    watch_clear(&c->timer);
}

static void start(void *arg)
{
    struct ssh_child *c = arg;
    struct words argv = WORDS_INIT;
    struct err err = { "" };

    c->state = SSH_CONNECTING;
    c->tries++;
    tail_clear(&c->errors);
    if (ssh_command_agent(c, &argv) < 0)
        (void)err_set(&err, "out of memory");
    else if (spawn(c, &argv, &err) == 0 && watch(c, &err) < 0)
        ssh_child_kill(c, SIGKILL);
    words_release(&argv);
    if (c->pid > 0)
        return;
    close_all(c);
    fail(c, err.text);
}

void ssh_child_start(struct ssh_child *c)
{
    login_ask(&c->login);
}

static void again(void *arg)
{
    struct ssh_child *c = arg;

    watch_clear(&c->timer);
    ssh_child_start(c);
}

/* ---- end ---- */

void ssh_child_end(struct ssh_child *c)
{
    c->asked_to_end = true;
    if (c->state == SSH_BROKEN && relogin_child_end(c->relogin))
        return;
    if (c->state == SSH_BROKEN || c->state == SSH_WAITING ||
        (c->state == SSH_CONNECTING && c->pid == 0))
        over(c);
    else if (c->found && c->plan->outlasts && c->in >= 0)
        send_it(c, buf_add_text(&c->send, AGENT_LINE_END));
    else if (!c->send.n && !c->after.n)
        close_in(c);
    if (c->state == SSH_CONNECTING)
        ssh_child_kill(c, SIGTERM); /* there is no agent yet that would end by itself */
}

void ssh_child_kill(struct ssh_child *c, int signo)
{
    if (c->pid > 0)
        /* the group, since CELLSPAN_SSH may be a script that waits for its ssh */
        (void)process_kill_group(c->pid, signo);
    relogin_child_kill(c->relogin, signo);
}

/* The last lines of stderr, as one text; the caller frees it. */
static char *last_words(const struct ssh_child *c)
{
    struct buf all = BUF_INIT;

    if (tail_text(&c->errors, LAST_LINES, &all) == 0 && all.n)
        all.p[--all.n] = '\0'; /* the newline of the last */
    return buf_take(&all);
}

static struct cause cause_of(const struct ssh_child *c, int status, const char *said)
{
    return (struct cause){
        .host = c->host->name,
        .login = c->host->destination,
        .heard = c->heard,
        .program = c->plan->program,
        .prefix = c->plan->prefix,
        .found = c->found,
        .version = c->version,
        .unsent = c->unsent,
        .container = &c->container,
        .said = said ? said : "",
        .missing = c->missing,
        .status = status,
        .stage = c->found             ? CAUSE_RUNNING
                 : c->state == SSH_UP ? CAUSE_SEARCHING
                                      : CAUSE_CONNECTING,
    };
}

static void settle_end(struct ssh_child *c, int status)
{
    char *said = last_words(c);
    char text[CAUSE_TEXT_SIZE];
    const struct cause cause = cause_of(c, status, said);
    struct err err = { "" };

    if (c->state == SSH_CONNECTING && !c->late && c->tries < TRIES && cause_is_passing(&cause) &&
        (c->timer = loop_timer(c->plan->loop, login_pause_ns(AGAIN_NS << (c->tries - 1)), 0, again,
                               c, &err)))
        goto out;
    if (c->late)
        snprintf(text, sizeof text,
                 "%s: no shell answered within %u s%s%s; is it on, and what do its start files do? "
                 "CELLSPAN_SSH_TIMEOUT gives more seconds",
                 c->host->name, (unsigned)(c->plan->limit_ns / NS_PER_S),
                 cause.said[0] ? "; ssh said: " : "", cause.said);
    else
        cause_text(&cause, text);
    fail(c, text);
out:
    free(said);
}

/* ---- an agent that may outlast its ssh ---- */

static void gone(void *arg, bool restarted)
{
    struct ssh_child *c = arg;

    c->failed = true;
    if (restarted)
        report_gone(c->agent, "%s: it was restarted, and its agent is gone", c->host->name);
    else
        report_gone(c->agent, "%s, and its agent is gone", c->broke ? c->broke : c->host->name);
    over(c);
}

/* said: as in the agent's own line; NULL: it wants none. */
static void relay_wanted(void *arg, const char *said)
{
    if (said)
        start_relay(arg, said);
    else
        stop_relay(arg);
}

static void ended_as_told(void *arg)
{
    over(arg);
}

/* ssh itself has failed, or was killed: what became of the agent is not known. */
static bool has_broken(const struct ssh_child *c, int status)
{
    return c->plan->outlasts && c->found && c->folder &&
           (WIFSIGNALED(status) || WEXITSTATUS(status) == SSH_FAILED);
}

/* false: out of memory. */
static bool start_relogin(struct ssh_child *c, int status)
{
    char *said = last_words(c), text[CAUSE_TEXT_SIZE];
    const struct cause cause = cause_of(c, status, said);
    struct words argv = WORDS_INIT;
    struct relogin_child_spec spec = { .loop = c->plan->loop,
                                       .login_limit = c->plan->login_limit,
                                       .host = c->host->name,
                                       .limit_ns = c->plan->limit_ns,
                                       .argv = &argv,
                                       .gone = gone,
                                       .wanted = relay_wanted,
                                       .over = ended_as_told,
                                       .arg = c };
    struct err err = { "" };

    cause_text(&cause, text);
    free(said);
    text_replace(&c->broke, text);
    text_replace(&c->boot, c->machine);
    if (c->boot)
        c->boot[strcspn(c->boot, " ")] = '\0';
    spec.boot = c->boot;
    if (ssh_command_relogin(c, &argv) == 0)
        c->relogin = relogin_child_start(&spec, &err);
    words_release(&argv);
    if (!c->relogin)
        return false;
    c->state = SSH_BROKEN;
    c->plan->broken(c->plan->arg);
    report_away(c->agent);
    return true;
}

void ssh_child_other_ended(struct ssh_child *c, pid_t pid, int status)
{
    if (!relay_child_ended(c->relay, pid))
        (void)relogin_child_ended(c->relogin, pid, status);
}

void ssh_child_ended(struct ssh_child *c, int status)
{
    c->pid = 0;
    while (c->out >= 0 && fd_waiting(c->out))
        out_ready(c, c->out, LOOP_READ);
    while (c->errs >= 0 && fd_waiting(c->errs))
        err_ready(c, c->errs, LOOP_READ);
    child_lines_end(&c->out_lines, out_line, c);
    child_lines_end(&c->err_lines, err_line, c);
    close_all(c);
    if (!c->asked_to_end && has_broken(c, status) && start_relogin(c, status))
        return;
    if (!c->asked_to_end && c->found && status == 0 && c->plan->outlasts)
        report_gone(c->agent, "%s: its agent has ended", c->host->name);
    if (c->asked_to_end || (c->found && status == 0))
        over(c);
    else
        settle_end(c, status);
}
