/* SPDX-License-Identifier: BSD-3-Clause */
/* ps_table.h - the tables of `cellspan ps`: notebooks, and with --all the machine's GPUs. */
#ifndef CLI_PS_TABLE_H
#define CLI_PS_TABLE_H

#include "cli/kernels.h"

/* The memory of a process. quick: without looking at each page for those who share it, which takes
 * milliseconds a process, and as long as its owner wants it to. false: it can't be read. */
bool ps_table_memory(long pid, bool quick, uint64_t *bytes);
/* Adds to what a kernel has said what can be read here: the memory of this machine's ranks, as far
 * as the caller may read it. */
void ps_table_complete(json_t *said, bool quick);

struct ps_sum {
    unsigned ranks, busy, parked, gpus;
    uint64_t memory; /* bytes */
};

/* Adds up the ranks of what a kernel has said, which may be anything. */
void ps_table_sum(struct ps_sum *s, const json_t *content);
/* Has it said it? Kernels of older versions don't. */
bool ps_table_answered(const json_t *content);
const char *ps_table_user(char out[static 33], uid_t uid);
/* The index of the kernel whose agent the process is; k->n: of none on this machine. */
size_t ps_table_kernel_of(const struct kernels *k, long pid);
/* Prints nothing if there is no kernel. users: with the columns for all users' notebooks. */
void ps_table_notebooks(const struct kernels *k, const struct overview *of, bool users);
/* cards: of cards.h; k and of say which of them hold GPUs, and how long these have been idle. */
void ps_table_cards(const json_t *cards, const struct kernels *k, const struct overview *of);

#endif
