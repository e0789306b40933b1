/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of launchers/ssh/hosts.h and cause.h. */
#include "launchers/ssh/hosts.h"

#include <stdlib.h>

#include "base/buf.h"
#include "launchers/agent_script.h"
#include "launchers/ssh/cause.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

struct hosts_case {
    const char *spec;
    const char *want; /* "destination name slots;" for each; NULL: refused, */
    const char *says; /* in words that hold this */
};

static const struct hosts_case hosts_cases[] = {
    { "h1", "h1 h1 0;", NULL },
    { "h1,h2*4,user@h3", "h1 h1 0;h2 h2 4;user@h3 h3 0;", NULL },
    { " h1 , h2*2 ", "h1 h1 0;h2 h2 2;", NULL },
    { "a@b@h1*1", "a@b@h1 h1 1;", NULL },
    { "10.0.0.1,fe80::1", "10.0.0.1 10.0.0.1 0;fe80::1 fe80::1 0;", NULL },
    { "h[1-3]", "h1 h1 0;h2 h2 0;h3 h3 0;", NULL },
    { "me@g[08-10,2]-ib*4, x",
      "me@g08-ib g08-ib 4;me@g09-ib g09-ib 4;me@g10-ib g10-ib 4;me@g2-ib g2-ib 4;x x 0;", NULL },
    { "r[1-2]n[1-2]", "r1n1 r1n1 0;r1n2 r1n2 0;r2n1 r2n1 0;r2n2 r2n2 0;", NULL },
    { "[fe80::1],h[1]", "[fe80::1] [fe80::1] 0;h1 h1 0;", NULL },
    { "h[1-2],h2", NULL, "h2 is in the list more than once; h2*2 runs 2 ranks there" },
    { "h[3-1]", NULL, "'h[3-1]': write numbers in the brackets" },
    { "h[]", NULL, "'h[]': write numbers in the brackets" },
    { "h[a-b]", NULL, "'h[a-b]': write numbers in the brackets" },
    { "h[1-", NULL, "'h[1-': write numbers in the brackets" },
    { "h[1,,2]", NULL, "'h[1,,2]': write numbers in the brackets" },
    { "h[1-999999]", NULL, "write numbers in the brackets" },
    { "h[1-4095],g[1-2]", NULL, "more than 4096 hosts" },
    { "", NULL, "ssh needs hosts" },
    { "  ", NULL, "ssh needs hosts" },
    { "h1,", NULL, "'' is no host" },
    { "h1,,h2", NULL, "'' is no host" },
    { "user@", NULL, "'user@' is no host" },
    { "-oProxyCommand=x", NULL, "'-oProxyCommand=x' is no host" },
    { "u@-x", NULL, "'u@-x' is no host" },
    { "h1;id", NULL, "';' can't stand" },
    { "h1 h2", NULL, "' ' can't stand" },
    { "h1*", NULL, "'h1*'" },
    { "h1*0", NULL, "from 1 to" },
    { "h1*-1", NULL, "from 1 to" },
    { "h1*+1", NULL, "from 1 to" },
    { "h1*2x", NULL, "'h1*2x'" },
    { "h1*99999999999999999999", NULL, "from 1 to" },
    { "h1:2222", NULL, "Port 2222" },
    { "h1,h2,h1", NULL, "h1 is in the list more than once; h1*2 runs 2 ranks there" },
    { "h1*2,h2,h1,h1*3", NULL, "h1 is in the list more than once; h1*6 runs 6 ranks there" },
    { "h1,you@H1", NULL, "h1 is in the list more than once" },
};

static char *described(const struct ssh_hosts *hosts)
{
    struct buf all = BUF_INIT;

    for (size_t i = 0; i < hosts->n; i++)
        if (buf_addf(&all, "%s %s %u;", hosts->v[i].destination, hosts->v[i].name,
                     hosts->v[i].slots) < 0)
            break;
    return all.p ? buf_take(&all) : strdup("");
}

static void host_lists_are_read_or_refused(void)
{
    for (size_t i = 0; i < sizeof hosts_cases / sizeof *hosts_cases; i++) {
        const struct hosts_case *c = &hosts_cases[i];
        struct ssh_hosts hosts = SSH_HOSTS_INIT;
        struct err err = { "" };
        const int rc = ssh_hosts_parse(&hosts, c->spec, &err);
        char *all = described(&hosts);

        if (c->want)
            ok(rc == 0 && strcmp(all, c->want) == 0, "<%s> is %s", c->spec, c->want);
        else
            ok(rc < 0 && strstr(err.text, c->says) && hosts.n == 0, "<%s> is refused: %s", c->spec,
               err.text);
        free(all);
        ssh_hosts_release(&hosts);
    }
}

static void any_allocation_may_fail(void)
{
    struct ssh_hosts hosts = SSH_HOSTS_INIT;
    struct err err = { "" };
    int rc = -1;

    for (long nth = 0; rc < 0 && nth < 100; nth++) {
        alloc_fail_at(nth);
        rc = ssh_hosts_parse(&hosts, "h1,h2*4,user@h[3-3]", &err);
        alloc_fail_at(-1);
        if (rc < 0 && hosts.n)
            break;
    }
    ok(rc == 0 && hosts.n == 3, "a list is read whole, or not at all");
    ssh_hosts_release(&hosts);
}

static void too_many_ranks_are_refused_where_all_hosts_have_numbers(void)
{
    struct ssh_hosts all = SSH_HOSTS_INIT, some = SSH_HOSTS_INIT;
    struct err err = { "" };

    ok(ssh_hosts_parse(&all, "h1*2,h2*4", &err) == 0 &&
           ssh_hosts_parse(&some, "h1*2,h2", &err) == 0,
       "two lists");
    ok(ssh_hosts_check(&all, 6, &err) == 0 && ssh_hosts_check(&all, 0, &err) == 0,
       "as many as they take are fine");
    ok(ssh_hosts_check(&some, 60, &err) == 0, "a host without a number takes any");
    ok(ssh_hosts_check(&all, 7, &err) < 0 && strstr(err.text, "-n 7") &&
           strstr(err.text, "take 6 ranks"),
       "%s", err.text);
    ssh_hosts_release(&all);
    ssh_hosts_release(&some);
}

struct cause_case {
    enum cause_stage stage;
    int status; /* as wait() gives it */
    const char *said;
    const char *says[3]; /* all of them stand in the text */
    bool passing;
};

#define EXIT(n) ((n) << 8)

static const struct cause_case cause_cases[] = {
    { CAUSE_CONNECTING,
      EXIT(255),
      "ssh: Could not resolve hostname h9: Name or service not known",
      { "h9: the name does not resolve", "~/.ssh/config" },
      false },
    { CAUSE_CONNECTING,
      EXIT(255),
      "ssh: connect to host h9 port 22: Connection refused",
      { "nothing listens", "(ssh: connect to host h9 port 22" },
      false },
    { CAUSE_CONNECTING,
      EXIT(255),
      "ssh: connect to host h9 port 22: Connection timed out",
      { "does not answer", "firewall" },
      false },
    { CAUSE_CONNECTING,
      EXIT(255),
      "Connection to 10.0.0.9 port 22 timed out",
      { "does not answer", "firewall" },
      false },
    { CAUSE_CONNECTING,
      EXIT(255),
      "ssh: connect to host h9 port 22: No route to host",
      { "can't be reached" },
      false },
    { CAUSE_CONNECTING,
      EXIT(255),
      "banner\nroot@h9: Permission denied (publickey).",
      { "refuses the login", "ssh-copy-id", "(ssh: root@h9: Permission denied (publickey).)" },
      false },
    { CAUSE_CONNECTING,
      EXIT(255),
      "No ED25519 host key is known for h9 and you have requested strict checking.\nHost key verification failed.",
      { "host key is unknown", "by hand" },
      false },
    { CAUSE_CONNECTING,
      EXIT(255),
      "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
      { "not the one in known_hosts", "ssh-keygen -R" },
      false },
    { CAUSE_CONNECTING,
      EXIT(255),
      "Can't open user config file /x: No such file or directory",
      { "CELLSPAN_SSH" },
      false },
    { CAUSE_CONNECTING,
      EXIT(255),
      "kex_exchange_identification: Connection closed by remote host\nConnection closed by UNKNOWN port 65535",
      { "can't log in (ssh: Connection closed" },
      true },
    { CAUSE_CONNECTING,
      EXIT(255),
      "ssh: connect to host jump port 22: Connection refused\nConnection closed by UNKNOWN port 65535",
      { "nothing listens" },
      false },
    { CAUSE_CONNECTING,
      EXIT(255),
      "channel 0: open failed: connect failed: Temporary failure in name resolution\nstdio forwarding failed\n"
      "kex_exchange_identification: Connection closed by remote host\nConnection closed by UNKNOWN port 65535",
      { "h9: the name does not resolve", "(ssh: channel 0: open failed" },
      false },
    { CAUSE_CONNECTING,
      EXIT(255),
      "channel 0: open failed: administratively prohibited: open failed\nstdio forwarding failed\n"
      "kex_exchange_identification: Connection closed by remote host\nConnection closed by UNKNOWN port 65535",
      { "the jump host lets nothing through", "AllowTcpForwarding" },
      false },
    { CAUSE_CONNECTING,
      EXIT(1),
      "Could not chdir to home directory /nonexistent: No such file or directory",
      { "the login works, but its shell ended with status 1 and ran nothing: This account",
        "`ssh me@h9 true` has to" },
      false },
    { CAUSE_CONNECTING, EXIT(255), "", { "ended with status 255", "ssh -v me@h9 true" }, false },
    { CAUSE_CONNECTING, 9, "", { "killed by signal 9" }, false },
    { CAUSE_RUNNING,
      EXIT(255),
      "Timeout, server h9 not responding.",
      { "the connection broke: Timeout, server h9" },
      false },
    { CAUSE_RUNNING,
      EXIT(1),
      "first\nlast words",
      { "cellspan-agent ended with status 1: last words" },
      false },
    { CAUSE_RUNNING, 9, "", { "the connection broke: ssh was killed by signal 9" }, false },
    { CAUSE_RUNNING, EXIT(137), "", { "cellspan-agent ended with status 137" }, false },
};

static void causes_name_the_host_and_the_fix(void)
{
    for (size_t i = 0; i < sizeof cause_cases / sizeof *cause_cases; i++) {
        const struct cause_case *c = &cause_cases[i];
        const struct cause cause = { .host = "h9",
                                     .login = "me@h9",
                                     .program = "cellspan-agent",
                                     .said = c->said,
                                     .heard = "This account is currently not available.",
                                     .stage = c->stage,
                                     .status = c->status };
        char text[CAUSE_TEXT_SIZE];
        bool all = true;

        cause_text(&cause, text);
        for (unsigned k = 0; k < 3 && c->says[k]; k++)
            all = all && strstr(text, c->says[k]);
        ok(all && strncmp(text, "h9: ", 4) == 0 && !strchr(text, '\n'), "%s", text);
        ok(cause_is_passing(&cause) == c->passing, "it is tried again: %s",
           c->passing ? "yes" : "no");
    }
}

static void an_agent_that_is_missing_or_of_another_version_is_told_how_to_come(void)
{
    struct cause cause = { .host = "h9",
                           .program = "cellspan-agent",
                           .said = "",
                           .stage = CAUSE_SEARCHING,
                           .missing = true,
                           .status = EXIT(127) };
    char text[CAUSE_TEXT_SIZE];

    cause_text(&cause, text);
    ok(strstr(text, "pip install cellspan") && strstr(text, "CELLSPAN_REMOTE_PREFIX") &&
           !strstr(text, "sent"),
       "%s", text);
    cause.unsent = "no place takes it: /home: full";
    cause_text(&cause, text);
    ok(strstr(text, "h9: there is no cellspan-agent; ") &&
           strstr(text, "; it can't be sent there: no place takes it: /home: full"),
       "%s", text);
    cause.version = "cellspan-agent 0.0.1";
    cause_text(&cause, text);
    ok(strstr(text, "h9: it has cellspan-agent 0.0.1, and here is " CELLSPAN_VERSION) &&
           strstr(text, "; it can't be sent there: no place"),
       "%s", text);
    cause.prefix = "/opt/none";
    cause_text(&cause, text);
    ok(strstr(
           text,
           "h9: there is no /opt/none/libexec/cellspan/cellspan-agent, where CELLSPAN_REMOTE_PREFIX says"),
       "%s", text);
    cause = (struct cause){ .host = "h9",
                            .program = "cellspan-agent",
                            .said = "usage: x",
                            .stage = CAUSE_RUNNING,
                            .status = EXIT(2),
                            .found = "/x",
                            .version = "cellspan-agent 0.0.1" };
    cause_text(&cause, text);
    ok(strstr(text, "it is cellspan-agent 0.0.1, and here is " CELLSPAN_VERSION) &&
           strstr(text, "pip install cellspan=="),
       "%s", text);
    cause.version = "cellspan-agent " CELLSPAN_VERSION;
    cause_text(&cause, text);
    ok(!strstr(text, "and here is"), "of the same version nothing is said of versions");
}

static void a_checkout_has_one_version(void)
{
    char text[SCRIPT_INSTALL_SIZE];

    is_text(script_install("pip install cellspan", text), "pip install cellspan==" CELLSPAN_VERSION,
            "an index has more than this version");
    is_text(script_install("pip install .", text), "pip install .", "a checkout has not");
}

static void long_words_are_cut(void)
{
    char said[5000], text[CAUSE_TEXT_SIZE];
    struct cause cause = {
        .host = "h9", .program = "cellspan-agent", .said = said, .status = EXIT(255)
    };

    memset(said, 'x', sizeof said - 1);
    said[sizeof said - 1] = '\0';
    cause_text(&cause, text);
    ok(strlen(text) == CAUSE_TEXT_SIZE - 1, "a line longer than the text is cut");
}

int main(void)
{
    host_lists_are_read_or_refused();
    any_allocation_may_fail();
    too_many_ranks_are_refused_where_all_hosts_have_numbers();
    causes_name_the_host_and_the_fix();
    an_agent_that_is_missing_or_of_another_version_is_told_how_to_come();
    a_checkout_has_one_version();
    long_words_are_cut();
    return plan_done();
}
