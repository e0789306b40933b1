/* SPDX-License-Identifier: BSD-3-Clause */
/* container.h - the shell code that runs an agent's script in a container on a node (--in IMAGE):
 * it finds what runs images there, gets the image, and says what the container sees of the node. */
#ifndef LAUNCHERS_CONTAINER_H
#define LAUNCHERS_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Lines of the script, after SCRIPT_MARK: */
#define CONTAINER_SAYS   "says "   /* what takes long now, for the user */
#define CONTAINER_UNABLE "unable " /* why there is no container; exit status 126 follows */
#define CONTAINER_INSIDE "inside"  /* what follows comes from the container */

struct container_spec {
    const char *image;  /* as --in has it */
    const char *inside; /* shell code without a newline, for the container's shell */
    const char *prefix; /* CELLSPAN_REMOTE_PREFIX, or NULL */
    const char *agent;  /* its path here, where it may be there, too */
    /* Nothing comes on stdin before the script inside asks for it: so its end is noticed while the
     * image is on its way. */
    bool silent;
};

/* Appends shell code without a newline. Its variable n must hold a newline. In the container the
 * code inside has $1, a file to remove or "", and $2, the folder in which this code runs. -1: *err
 * says what is wrong with a setting, or with the image's name. */
MUST_USE int container_add(struct buf *out, const struct container_spec *spec, struct err *err);

/* Are the settings fine, and the image's name? */
MUST_USE int container_check(const char *image, struct err *err);

/* ---- what the script of a node has said before it looks for the agent ---- */

/* All zero: a node whose agent runs in no container, and whose modules are loaded. */
struct container_state {
    const char *image; /* borrowed; NULL: none */
    bool busy;         /* the node gets the image, and the kernel's clock stands for it */
    bool inside;       /* the container runs */
    char *unable;      /* owned: why there is none, or why there are no modules; NULL: that is not
                        * known */
    bool whole;        /* that is all that there is to say */
};

void container_state_release(struct container_state *s);
/* Takes a word of the node's script. If the node is busy, the user is told. */
void container_state_word(struct container_state *s, unsigned agent, const char *node,
                          const char *word);
/* There is no container, or a module is missing: a script that has ended has done so for that
 * reason. */
bool container_state_failed(const struct container_state *s);
/* Writes why. how: how the script ended; said: the last line of what runs the container; ""; none.
 */
void container_state_text(const struct container_state *s, const char *how, const char *said,
                          char *text, size_t size);

#endif
