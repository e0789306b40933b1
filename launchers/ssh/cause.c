/* SPDX-License-Identifier: BSD-3-Clause */
/* cause.c - see cause.h. The patterns are OpenSSH's messages, which it never translates. */
#include "launchers/ssh/cause.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "launchers/agent_script.h"

struct pattern {
    const char *says; /* a part of ssh's stderr */
    const char *fix;
};

/* The first match counts: special messages come before those that end every failed login. */
static const struct pattern patterns[] = {
    { "Could not resolve hostname",
      "the name does not resolve; check it, or give it an address in ~/.ssh/config" },
    { "Name or service not known",
      "the name does not resolve; check it, or give it an address in ~/.ssh/config" },
    /* a jump host that can't reach its target: "channel 0: open failed: connect failed: ..." */
    { "failure in name resolution",
      "the name does not resolve; check it, or give it an address in ~/.ssh/config" },
    { "administratively prohibited",
      "the jump host lets nothing through; is it the right one (ProxyJump), and does its sshd allow it "
      "(AllowTcpForwarding)?" },
    { "REMOTE HOST IDENTIFICATION HAS CHANGED",
      "its host key is not the one in known_hosts; if the host was installed again, "
      "`ssh-keygen -R HOST`, then log in once by hand" },
    { "host key is known for",
      "its host key is unknown; log in once by hand with ssh, which asks, or add it to known_hosts" },
    { "Host key verification failed",
      "its host key is unknown; log in once by hand with ssh, which asks, or add it to known_hosts" },
    { "Permission denied",
      "it refuses the login; no password can be typed here, so put a key there (`ssh-copy-id HOST`), load "
      "your key into ssh-agent (`ssh-add`), or name user and key in ~/.ssh/config" },
    { "Too many authentication failures",
      "it refuses the login; name the key in ~/.ssh/config (IdentityFile, IdentitiesOnly yes)" },
    { "Connection refused",
      "nothing listens for ssh there; is sshd running, and on the port of ~/.ssh/config?" },
    { "No route to host", "it can't be reached; is it on, and on this network?" },
    { "Network is unreachable", "it can't be reached; is it on, and on this network?" },
    { "Connection timed out",
      "it does not answer; is it on, and does a firewall let ssh through?" },
    { "Operation timed out", "it does not answer; is it on, and does a firewall let ssh through?" },
    /* "… port 22 timed out" */
    { " timed out", "it does not answer; is it on, and does a firewall let ssh through?" },
    { "Bad configuration option", "ssh's configuration can't be read" },
    { "Can't open user config file",
      "ssh's configuration can't be read; is the path in CELLSPAN_SSH right?" },
};

static const char *const passing[] = {
    "kex_exchange_identification",
    "ssh_exchange_identification",
    "Connection reset by",
    "Connection closed by",
};

/* The last line, or ""; borrowed from said. */
static const char *last_line(const char *said)
{
    const char *newline = strrchr(said, '\n');

    return newline ? newline + 1 : said;
}

/* Finds the last line that contains `words`, or else the last line; borrowed from said. */
static void pick_line(const char *said, const char *words, int *n, const char **line)
{
    const char *at = words ? strstr(said, words) : NULL;

    if (!at) {
        *line = last_line(said);
        *n = (int)strlen(*line);
        return;
    }
    while (at > said && at[-1] != '\n')
        at--;
    *line = at;
    *n = (int)strcspn(at, "\n");
}

static void end_text(int status, char text[static 64])
{
    if (WIFSIGNALED(status))
        snprintf(text, 64, "was killed by signal %d", WTERMSIG(status));
    else
        snprintf(text, 64, "ended with status %d", WEXITSTATUS(status));
}

/* Is it the exit status of the remote shell? If ssh itself fails, it exits with SSH_FAILED. */
static bool is_shells_end(const struct cause *c)
{
    return WIFEXITED(c->status) && WEXITSTATUS(c->status) != SSH_FAILED;
}

/* The login works, but the user has no shell. nologin says so on stdout; other messages don't
 * matter. */
static void no_shell_text(const struct cause *c, char text[static CAUSE_TEXT_SIZE])
{
    const char *const said = c->heard && *c->heard ? c->heard : last_line(c->said);
    const char *const login = c->login ? c->login : c->host;

    snprintf(
        text, CAUSE_TEXT_SIZE,
        "%s: the login works, but its shell ended with status %d and ran nothing%s%.400s; `ssh %s true` has to work: "
        "is it a user with a login shell?",
        c->host, WEXITSTATUS(c->status), *said ? ": " : "", said, login);
}

static void connecting_text(const struct cause *c, char text[static CAUSE_TEXT_SIZE])
{
    const char *fix = NULL, *words = NULL, *line;
    char end[64];
    int n;

    for (size_t i = 0; i < sizeof patterns / sizeof *patterns && !fix; i++)
        if (strstr(c->said, patterns[i].says)) {
            fix = patterns[i].fix;
            words = patterns[i].says;
        }
    pick_line(c->said, words, &n, &line);
    if (n > 5 && strncmp(line, "ssh: ", 5) == 0) { /* our text has "ssh: " already */
        line += 5;
        n -= 5;
    }
    if (fix)
        snprintf(text, CAUSE_TEXT_SIZE, "%s: %s (ssh: %.*s)", c->host, fix, n, line);
    else if (is_shells_end(c))
        no_shell_text(c, text);
    else if (n)
        snprintf(text, CAUSE_TEXT_SIZE, "%s: ssh can't log in (ssh: %.*s)", c->host, n, line);
    else {
        end_text(c->status, end);
        snprintf(text, CAUSE_TEXT_SIZE, "%s: ssh %s and said nothing; try `ssh -v %s true`",
                 c->host, end, c->login ? c->login : c->host);
    }
}

static bool is_other_version(const struct cause *c)
{
    return c->version && c->version[0] &&
           strcmp(c->version, "cellspan-agent " CELLSPAN_VERSION) != 0;
}

static void running_text(const struct cause *c, char text[static CAUSE_TEXT_SIZE])
{
    const char *const line = last_line(c->said);
    char end[64], install[SCRIPT_INSTALL_SIZE], other[256 + SCRIPT_INSTALL_SIZE] = "";

    if (is_other_version(c))
        snprintf(other, sizeof other,
                 "; it is %.60s, and here is " CELLSPAN_VERSION ": `%s` there, or update here",
                 c->version, script_install(CELLSPAN_INSTALL, install));
    end_text(c->status, end);
    if (WIFEXITED(c->status) && WEXITSTATUS(c->status) == SSH_FAILED)
        snprintf(text, CAUSE_TEXT_SIZE, "%s: the connection broke%s%s%s", c->host,
                 *line ? ": " : "", line, other);
    else if (WIFSIGNALED(c->status)) /* ssh itself was killed; for remote processes it exits */
        snprintf(text, CAUSE_TEXT_SIZE, "%s: the connection broke: ssh %s", c->host, end);
    else
        snprintf(text, CAUSE_TEXT_SIZE, "%s: %s %s%s%s%s", c->host, c->program, end,
                 *line ? ": " : "", line, other);
}

static void missing_text(const struct cause *c, char text[static CAUSE_TEXT_SIZE])
{
    char why[CAUSE_TEXT_SIZE - 256];

    script_missing(why, sizeof why, c->program, c->prefix, c->version, c->unsent);
    snprintf(text, CAUSE_TEXT_SIZE, "%.250s: %s", c->host, why);
}

static void container_text(const struct cause *c, char text[static CAUSE_TEXT_SIZE])
{
    char why[CAUSE_TEXT_SIZE - 256], end[64];

    end_text(c->status, end);
    container_state_text(c->container, end, last_line(c->said), why, sizeof why);
    snprintf(text, CAUSE_TEXT_SIZE, "%.250s: %s", c->host, why);
}

void cause_text(const struct cause *c, char text[static CAUSE_TEXT_SIZE])
{
    if (c->container && container_state_failed(c->container) && c->stage != CAUSE_CONNECTING &&
        WIFEXITED(c->status))
        container_text(c, text);
    else if (c->missing)
        missing_text(c, text);
    else if (c->stage == CAUSE_CONNECTING)
        connecting_text(c, text);
    else
        running_text(c, text);
}

bool cause_is_passing(const struct cause *c)
{
    if (c->stage != CAUSE_CONNECTING || !WIFEXITED(c->status) ||
        WEXITSTATUS(c->status) != SSH_FAILED)
        return false;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (strstr(c->said, patterns[i].says))
            return false;
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        if (strstr(c->said, passing[i]))
            return true;
    return false;
}
