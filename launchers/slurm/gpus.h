/* gpus.h - how many GPUs a job has on each of its nodes, from what scontrol tells of it. */
#ifndef LAUNCHERS_SLURM_GPUS_H
#define LAUNCHERS_SLURM_GPUS_H

/* `text` is `scontrol --details show job`'s. How many every node has, *most: how many the best one
 * has. 0: some has none. */
unsigned gpus_per_node(const char *text, unsigned *most);

#endif
