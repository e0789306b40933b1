/* says.h - what srun's lines mean. */
#ifndef LAUNCHERS_SLURM_SAYS_H
#define LAUNCHERS_SLURM_SAYS_H

#include <limits.h>

#include "base/err.h"
#include "base/ranks.h"

enum says_kind {
    SAYS_TEXT,   /* for people */
    SAYS_NOISE,  /* of no use to anybody */
    SAYS_QUEUED, /* the job waits */
    SAYS_ALLOCATED,
    SAYS_TASKS,     /* tasks ended badly */
    SAYS_NODE,      /* a node is gone */
    SAYS_UNSTARTED, /* a node did not start its task */
};

struct says {
    enum says_kind kind;
    unsigned long job;  /* srun's own, where it names it; else 0 */
    struct ranks tasks; /* SAYS_TASKS; owned */
    /* SAYS_TASKS: how they ended; SAYS_NODE: the node's name; SAYS_UNSTARTED: "NODE: WHY". Within
     * the line. */
    const char *text;
};

#define SAYS_NOBODY UINT_MAX

/* What follows "TASK: ", which srun --label sets before each line of a task; *task is SAYS_NOBODY
 * for lines of srun's own. */
const char *says_unlabel(const char *line, unsigned *task);
void says_release(struct says *s);
/* Reads one line (borrowed, for as long as *s). -1: memory is out. */
MUST_USE int says_read(struct says *s, const char *line);
/* Whether a job with this reason (squeue's %r) will never start unless somebody changes it, or the
 * cluster. */
bool says_hopeless(const char *reason);
/* What a reason means for whoever asked, where its name alone does not tell and waiting may not
 * help. NULL: nothing. */
const char *says_meaning(const char *reason);

#endif
