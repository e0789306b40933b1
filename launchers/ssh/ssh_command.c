/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/ssh/ssh_command.h"

#include "launchers/agent_script.h"
#include "launchers/relay_child.h"
#include "launchers/ssh/relogin_child.h"

static int add_words(const struct ssh_child *c, struct words *argv)
{
    for (size_t i = 0; i < c->plan->ssh->n; i++)
        if (words_add(argv, c->plan->ssh->v[i]) < 0)
            return -1;
    /* after "--", a destination can't be taken as an option */
    return words_add(argv, "--") < 0 || words_add(argv, c->host->destination) < 0 ? -1 : 0;
}

int ssh_command_agent(const struct ssh_child *c, struct words *argv)
{
    return add_words(c, argv) < 0 ? -1 : words_add(argv, SCRIPT_COMMAND);
}

int ssh_command_relay(const struct ssh_child *c, const char *folder, struct words *argv)
{
    struct buf line = BUF_INIT;
    const int rc = add_words(c, argv) < 0 || buf_add_text(&line, "exec ") < 0 ||
                           words_quote(&line, c->found) < 0 ||
                           buf_add_text(&line, " " RELAY_OPTION " ") < 0 ||
                           words_quote(&line, folder) < 0 || words_add(argv, line.p) < 0
                       ? -1
                       : 0;

    buf_release(&line);
    return rc;
}

int ssh_command_relogin(const struct ssh_child *c, struct words *argv)
{
    struct buf line = BUF_INIT;
    int rc = add_words(c, argv);

    if (rc == 0 &&
        (relogin_child_command(&line, c->found, c->folder) < 0 || words_add(argv, line.p) < 0))
        rc = -1;
    buf_release(&line);
    return rc;
}
