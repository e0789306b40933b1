/* SPDX-License-Identifier: BSD-3-Clause */
/* agent_script.h - the shell script that finds the agent on a node, says what it found, installs an
 * agent that the launcher sends (_install/unpack.py chooses the folder), and starts it. */
#ifndef LAUNCHERS_AGENT_SCRIPT_H
#define LAUNCHERS_AGENT_SCRIPT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/settings.h"
#include "launchers/container.h"
#include "launchers/payload.h"

/* The command for ssh. It is simple, because any kind of login shell must understand it. The rest
 * comes as one line on stdin (script_line), after the script has printed "ready". So text that the
 * shell's start files print can be recognised, and they can't read our line from stdin. */
#define SCRIPT_COMMAND "exec sh -c 'echo " SCRIPT_MARK "ready; IFS= read -r line && eval \"$line\"'"
/* Lines of stdout that begin with this are from the script: */
#define SCRIPT_MARK  "cellspan-launch: "
#define SCRIPT_READY "ready" /* it waits for its line */
/* There is no agent, or one of another version, or the ranks' Python lacks packages that they need.
 * Alone: exit status 127 follows. Or ARCH LIBC follow, and it waits for SCRIPT_PUT with bytes,
 * which it installs. ARCH is that of a payload_row. If another line or the end of stdin comes in
 * place of that, it exits with 127; where only packages are lacking, it runs the agent that is
 * there. */
#define SCRIPT_MISSING "missing"
/* why the bytes could not be installed; exit status 126 follows */
#define SCRIPT_REFUSED "refused "
#define SCRIPT_HAS     "has"      /* nothing is missing; it waits for SCRIPT_GO */
#define SCRIPT_VERSION "version " /* followed by the agent's --version */
/* followed by what identifies the machine: boot id and namespaces; omitted if unknown */
#define SCRIPT_MACHINE "machine "
#define SCRIPT_FOUND   "found " /* followed by the agent's path; later lines are the agent's */

/* A file in a folder that was installed: how many files it has, with this one, but without .pyc */
#define SCRIPT_COUNT ".files"

/* What it reads after SCRIPT_MISSING. N HASH M ARCH follow, and after the newline M bytes, which
 * are a Python program, and the N bytes that it reads and installs. HASH is that of the N bytes
 * when they are unpacked. */
#define SCRIPT_PUT "put "
/* The same, but its N bytes are in SCRIPT_FILE, from byte START on: N HASH M ARCH START ALL and a
 * newline, then the M bytes. If the file has not ALL bytes there, or others than were sent, it says
 * SCRIPT_MISSING again, else SCRIPT_HAS. */
#define SCRIPT_GET "get "
/* More tasks than these make a folder, SCRIPT_FOLDER JOB.STEP, for SCRIPT_FILE. It is the user's
 * alone, so nobody else can put anything into it. Each removes it when it has read SCRIPT_GO, or
 * when it ends before. */
#define SCRIPT_FEW    32u
#define SCRIPT_FOLDER "/tmp/cellspan-sent-"
#define SCRIPT_FILE   "file"
#define SCRIPT_UNFIT  "unfit" /* it could not make the folder: no file may be put there */
#define SCRIPT_GO     "go\n"  /* nothing else will come */

/* A variable for the agent's environment there. */
struct script_setting {
    const char *name, *value;
};

/* The notebook's settings for its ranks on other machines. Settings that name a file or a device of
 * one machine are left out. Returns how many are set. */
#define SCRIPT_OTHERS   6u /* settings of other programs that are passed on as well */
#define SCRIPT_SETTINGS (N_SETTINGS + SCRIPT_OTHERS)
size_t script_settings(struct script_setting set[static SCRIPT_SETTINGS]);

struct script_spec {
    char *const *command; /* NULL-terminated: the agent's command on this machine */
    const char *prefix;   /* CELLSPAN_REMOTE_PREFIX, or NULL */
    const char *cwd;      /* the folder to change to, if it exists there; NULL: none */
    const struct script_setting *setting;
    size_t settings;
    const char *modules; /* to load first (modules.h), outside of a container; NULL: none */
    const struct payload *payload; /* NULL: nothing is sent to a machine that lacks cellspan */
    /* With a payload: many such scripts read the same stdin. So each, also one that lacks nothing,
     * reads all until SCRIPT_GO before it starts the agent. */
    bool together;
    const char
        *image; /* the script runs in a container of this image (container.h); NULL: in none */
};

/* Does it wait for cellspan where that is missing? (Not where the user says which one to run.) */
bool script_installs(const struct script_spec *spec);
/* Appends one line of shell code, with its newline, that finds the agent and executes it in place
 * of the shell. */
MUST_USE int script_line(struct buf *out, const struct script_spec *spec, struct err *err);
#define SCRIPT_INSTALL_SIZE 200u
/* The command that installs this version there. command: the one that installs cellspan. An index
 * of packages has other versions, too; a checkout has not. Returns text. */
const char *script_install(const char *command, char text[static SCRIPT_INSTALL_SIZE]);
/* Writes one line: why there is no agent, and the fix. prefix: CELLSPAN_REMOTE_PREFIX, or NULL.
 * version: what another agent there says of itself, or NULL. unsent: why cellspan could not be sent
 * there; NULL: nobody tried. */
void script_missing(char *text, size_t size, const char *program, const char *prefix,
                    const char *version, const char *unsent);

#endif
