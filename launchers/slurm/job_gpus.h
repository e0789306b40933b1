/* job_gpus.h - how many GPUs a job has on each of its nodes, from the output of scontrol. */
#ifndef LAUNCHERS_SLURM_JOB_GPUS_H
#define LAUNCHERS_SLURM_JOB_GPUS_H

/* text: the output of `scontrol --details show job`. Returns the least number of GPUs of a node (0:
 * some node has none); *most: the greatest number. */
unsigned job_gpus_per_node(const char *text, unsigned *most);

#endif
