/* SPDX-License-Identifier: BSD-3-Clause */
/* private.h - the table of comms, as only the files of this folder see it. */
#ifndef KERNEL_COMMS_PRIVATE_H
#define KERNEL_COMMS_PRIVATE_H

#include "kernel/comms/comms.h"

#define BUCKETS 1024u

struct comm_table {
    struct page_comm *bucket[BUCKETS];
    struct page_comm *first, *last; /* all, owned */
    size_t n;
    size_t copied; /* bytes of all copies */
    struct page_comm *waiting, *waiting_last;
    uint64_t slot; /* updates that left in this slot: `sent` */
    unsigned sent;
    uint64_t dropped_ns; /* no line about what is dropped before then */
};

/* ---- widget_state.c ---- */
/* Appends the path of each binary value to `paths`, with `head` in front (NULL: without), and the
 * bytes to list[*n …]. -1: memory is out. */
MUST_USE int widget_state_list(const struct widget_state *s, const char *head, json_t *paths,
                               struct slice *list, size_t *n);

#endif
