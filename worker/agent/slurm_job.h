/* SPDX-License-Identifier: BSD-3-Clause */
/* slurm_job.h - ends a job that srun has made for agents, where nobody else does. */
#ifndef WORKER_AGENT_SLURM_JOB_H
#define WORKER_AGENT_SLURM_JOB_H

/* Call it when the agent has ended, as the last thing. If the job's srun is gone, which can't
 * happen unless it was killed together with its launcher, becomes `scancel` of the job; where there
 * is none, the machine's log (syslog) says so. Else it returns. */
void slurm_job_cancel(void);

#endif
