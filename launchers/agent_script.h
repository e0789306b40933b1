/* SPDX-License-Identifier: BSD-3-Clause */
/* agent_script.h - the shell script that finds and starts the agent on a node, and says what it
 * found. */
#ifndef LAUNCHERS_AGENT_SCRIPT_H
#define LAUNCHERS_AGENT_SCRIPT_H

#include "base/buf.h"
#include "base/err.h"

/* The command for ssh. It is simple, because any kind of login shell must understand it. The rest
 * comes as one line on stdin (script_line), after the script has printed "ready". So text that the
 * shell's start files print can be recognised, and they can't read our line from stdin. */
#define SCRIPT_COMMAND "exec sh -c 'echo " SCRIPT_MARK "ready; IFS= read -r line && eval \"$line\"'"
/* Lines of stdout that begin with this are from the script: */
#define SCRIPT_MARK    "cellspan-launch: "
#define SCRIPT_READY   "ready"    /* it waits for its line */
#define SCRIPT_MISSING "missing"  /* there is no agent; exit status 127 follows */
#define SCRIPT_VERSION "version " /* followed by the agent's --version */
/* followed by what identifies the machine: boot id and namespaces; omitted if unknown */
#define SCRIPT_MACHINE "machine "
#define SCRIPT_FOUND   "found " /* followed by the agent's path; later lines are the agent's */

/* A variable for the agent's environment there. */
struct script_setting {
    const char *name, *value;
};

struct script_spec {
    char *const *command; /* NULL-terminated: the agent's command on this machine */
    const char *prefix;   /* CELLSPAN_REMOTE_PREFIX, or NULL */
    const char *cwd;      /* the folder to change to, if it exists there; NULL: none */
    const struct script_setting *setting;
    size_t settings;
};

/* Appends one line of shell code, with its newline, that finds the agent and executes it in place
 * of the shell. */
MUST_USE int script_line(struct buf *out, const struct script_spec *spec, struct err *err);
/* Writes one line: why there is no agent, and the fix. prefix: CELLSPAN_REMOTE_PREFIX, or NULL. */
void script_missing(char *text, size_t size, const char *program, const char *prefix);

#endif
