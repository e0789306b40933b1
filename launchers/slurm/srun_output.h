/* srun_output.h - what srun's lines mean. */
#ifndef LAUNCHERS_SLURM_SRUN_OUTPUT_H
#define LAUNCHERS_SLURM_SRUN_OUTPUT_H

#include <limits.h>

#include "base/err.h"
#include "base/ranks.h"

enum srun_output_kind {
    SRUN_TEXT,   /* for people */
    SRUN_NOISE,  /* of no use to anybody */
    SRUN_QUEUED, /* the job waits */
    SRUN_ALLOCATED,
    SRUN_TASKS,     /* tasks ended badly */
    SRUN_NODE,      /* a node is gone */
    SRUN_UNSTARTED, /* a node did not start its task */
};

struct srun_output {
    enum srun_output_kind kind;
    unsigned long job;  /* srun's own, where it names it; else 0 */
    struct ranks tasks; /* SRUN_TASKS; owned */
    /* SRUN_TASKS: how they ended; SRUN_NODE: the node's name; SRUN_UNSTARTED: "NODE: WHY". Within
     * the line. */
    const char *text;
};

#define SRUN_NOBODY UINT_MAX

/* What follows "TASK: ", which srun --label sets before each line of a task; *task is SRUN_NOBODY
 * for lines of srun's own. */
const char *srun_output_unlabel(const char *line, unsigned *task);
void srun_output_release(struct srun_output *s);
/* Reads one line (borrowed, for as long as *s). -1: memory is out. */
MUST_USE int srun_output_read(struct srun_output *s, const char *line);
/* Whether a job with this reason (squeue's %r) will never start unless somebody changes it, or the
 * cluster. */
bool slurm_reason_hopeless(const char *reason);
/* What a reason means for whoever asked, where its name alone does not tell and waiting may not
 * help. NULL: nothing. */
const char *slurm_reason_meaning(const char *reason);

#endif
