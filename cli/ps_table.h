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
/* Prints nothing if there is no kernel. users: with the columns for all users' notebooks. */
void ps_table_notebooks(const struct kernels *k, const struct overview *of, bool users);
/* cards: of cards.h; k and of say which of them hold GPUs, and how long these have been idle. */
void ps_table_cards(const json_t *cards, const struct kernels *k, const struct overview *of);

#endif
