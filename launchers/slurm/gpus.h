/* gpus.h - how many GPUs a job has on each of its nodes, from what scontrol tells of it. */
#ifndef LAUNCHERS_SLURM_GPUS_H
#define LAUNCHERS_SLURM_GPUS_H

/* `text` is `scontrol --details show job`'s. 0: none, or not as many on each node. */
unsigned gpus_per_node(const char *text);

#endif
