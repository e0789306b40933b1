/* SPDX-License-Identifier: BSD-3-Clause */
/* label.c - writes the label before a line, such as "[0-3] " (declared in private.h). */
#include "kernel/merge/private.h"

#include <stdlib.h>

void labels_release(struct labels *l)
{
    for (size_t i = 0; i < LABEL_SLOTS; i++) {
        buf_release(&l->slots[i].text);
        free(l->slots[i].who);
        l->slots[i].who = NULL;
    }
}

static unsigned slot_of(const struct labels *l, const uint64_t *who)
{
    uint64_t h = 0;

    for (unsigned i = 0; i < l->words; i++)
        h = (h ^ who[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (unsigned)(h >> 60) % LABEL_SLOTS;
}

static int label_write(struct label *label, const uint64_t *who, unsigned words)
{
    const struct ranks set = { label->who, words };

    memcpy(label->who, who, words * sizeof *who);
    buf_clear(&label->text);
    if (buf_add_text(&label->text, "[") < 0 || ranks_format(&set, &label->text) < 0 ||
        buf_add_text(&label->text, "] ") < 0)
        return -1;
    return 0;
}

int labels_add(struct labels *l, const uint64_t *who, struct buf *out)
{
    struct label *label = &l->slots[slot_of(l, who)];

    if (!label->who || memcmp(label->who, who, l->words * sizeof *who) != 0) {
        if (!label->who && !(label->who = calloc(l->words, sizeof *who)))
            return -1;
        if (label_write(label, who, l->words) < 0) {
            free(label->who);
            label->who = NULL;
            return -1;
        }
    }
    return buf_add_slice(out, buf_slice(&label->text));
}
