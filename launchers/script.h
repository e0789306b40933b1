/* script.h - what a shell on a node does before the agent: it finds it, and says what it found. */
#ifndef LAUNCHERS_SCRIPT_H
#define LAUNCHERS_SCRIPT_H

#include "base/buf.h"
#include "base/err.h"

/* The command for ssh. A login shell of any kind reads it, so that it holds nothing that one of
 * them reads otherwise; all else comes as a line of stdin (script_line), once "ready" was said:
 * what start files print is told from it, and what they read from stdin is not ours. */
#define SCRIPT_COMMAND "exec sh -c 'echo " SCRIPT_MARK "ready; IFS= read -r line && eval \"$line\"'"
/* Lines of its stdout that begin with this are the script's: */
#define SCRIPT_MARK    "cellspan-launch: "
#define SCRIPT_READY   "ready"    /* it waits for its line */
#define SCRIPT_MISSING "missing"  /* there is no agent; exit status 127 follows */
#define SCRIPT_VERSION "version " /* and what the agent says of itself */
/* and what tells it from all others: its boot, its namespaces; absent where unknown */
#define SCRIPT_MACHINE "machine "
#define SCRIPT_FOUND   "found " /* and its path: it is executed now; what follows is its own */

/* A variable for the agent's environment there. */
struct script_setting {
    const char *name, *value;
};

struct script_spec {
    char *const *command; /* NULL-terminated: the agent as it is called here */
    const char *prefix;   /* CELLSPAN_REMOTE_PREFIX, or NULL */
    const char *cwd;      /* where to go, if that is there; NULL: nowhere */
    const struct script_setting *setting;
    size_t settings;
};

/* Appends one shell line, with its newline, that finds the agent and executes it in its own
 * place. */
MUST_USE int script_line(struct buf *out, const struct script_spec *spec, struct err *err);
/* Why there is no agent, and what to do, in one line. prefix: CELLSPAN_REMOTE_PREFIX, or NULL. */
void script_missing(char *text, size_t size, const char *program, const char *prefix);

#endif
