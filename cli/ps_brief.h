/* SPDX-License-Identifier: BSD-3-Clause */
/* ps_brief.h - what `cellspan ps --brief` prints for programs: the numbers of the tables. It has
 * the same form and a bounded size whatever kernels of other users answer. */
#ifndef CLI_PS_BRIEF_H
#define CLI_PS_BRIEF_H

#include "cli/kernels.h"

/* cards: of cards.h; NULL: they were not asked for. users: are the notebooks those of all users?
 * The caller's; NULL: memory is out. */
json_t *ps_brief(const struct kernels *k, const struct overview *of, const json_t *cards,
                 bool users);

#endif
