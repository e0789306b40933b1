/* SPDX-License-Identifier: BSD-3-Clause */
/* Combines the ranks' answers to the steps of %ranks check: of both ends of a pair, and of all
 * ranks of the world. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rows.h"
#include "kernel/ranks/check.h"

const struct check_way *check_way_between(const struct check *k, unsigned from, unsigned to)
{
    for (size_t i = 0; i < k->ways; i++)
        if (k->way[i].from == from && k->way[i].to == to)
            return &k->way[i];
    return NULL;
}

static void add_way(struct check *k, unsigned from, unsigned to, const char *why)
{
    struct check_way *way;
    char *copy;

    if (!why[0] || check_way_between(k, from, to) || !(copy = strdup(why)))
        return;
    if ((way = rows_add(&k->way, &k->ways, &k->room_ways, sizeof *way)))
        *way = (struct check_way){ from, to, copy };
    else
        free(copy);
}

/* For each direction, the error of the rank that connects is kept; what the other rank did not
 * receive is used only if there is no such error. */
void check_note_ways(struct check *k)
{
    for (unsigned pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < k->n; i++) {
            const json_t *peers = json_object_get(k->rank[i].said, "peers"), *one;
            size_t p;

            json_array_foreach (peers, p, one) {
                const unsigned other = (unsigned)json_integer_value(json_object_get(one, "rank"));

                if (pass == 0)
                    add_way(k, k->rank[i].rank, other, text_field(one, "error"));
                else
                    add_way(k, other, k->rank[i].rank, text_field(one, "silent"));
            }
        }
}

/* During a check its ports accept connections from anybody; strangers are refused and counted. */
void check_log_strangers(const struct check *k)
{
    for (size_t i = 0; i < k->n; i++) {
        const json_int_t n = json_integer_value(json_object_get(k->rank[i].said, "strangers"));

        if (n > 0)
            log_warn(
                "check",
                "refused: %lld connection%s to rank %u on %s that did not know the check's token",
                (long long)n, n > 1 ? "s" : "", k->rank[i].rank, k->rank[i].node_name);
    }
}

static struct check_pair *pair_of(struct check *k, size_t a, size_t b)
{
    for (size_t p = 0; p < k->pairs; p++)
        if (k->pair[p].a == a && k->pair[p].b == b)
            return &k->pair[p];
    k->pair[k->pairs] = (struct check_pair){ .a = a, .b = b };
    return &k->pair[k->pairs++];
}

static long index_of(const struct check *k, json_int_t rank)
{
    for (size_t i = 0; i < k->n; i++)
        if ((json_int_t)k->rank[i].rank == rank)
            return (long)i;
    return -1;
}

void check_set_error(char **to, const char *text)
{
    if (!*to && text[0])
        *to = strdup(text);
}

/* Adds what one end of a pair has measured. */
static void note_pair(struct check *k, const json_t *said)
{
    const long a = index_of(k, json_integer_value(json_object_get(said, "a")));
    const long b = index_of(k, json_integer_value(json_object_get(said, "b")));
    const double us = json_number_value(json_object_get(said, "us")),
                 gbps = json_number_value(json_object_get(said, "gbps"));
    struct check_pair *p;

    if (a < 0 || b < 0 || a == b || k->pairs > k->paired * k->paired)
        return;
    p = pair_of(k, (size_t)(a < b ? a : b), (size_t)(a < b ? b : a));
    check_set_error(&p->error, text_field(said, "error"));
    p->us = us > p->us ? us : p->us;
    p->gbps = !p->measured || gbps < p->gbps ? gbps : p->gbps;
    p->bad += json_integer_value(json_object_get(said, "bad"));
    p->measured = true;
}

void check_note_pairs(struct check *k)
{
    const json_t *one;
    size_t p;

    for (size_t i = 0; i < k->n; i++) {
        json_array_foreach (json_object_get(k->rank[i].said, "pairs"), p, one)
            note_pair(k, one);
    }
}

static void note_row(struct check *k, const json_t *said)
{
    const char *op = text_field(said, "op");
    const json_int_t bytes = json_integer_value(json_object_get(said, "bytes"));
    struct check_row *row = NULL;

    for (size_t i = 0; i < k->rows; i++)
        if (strcmp(k->row[i].op, op) == 0 && k->row[i].bytes == bytes)
            row = &k->row[i];
    if (!row) {
        if (k->rows >= 256 || !(row = rows_add(&k->row, &k->rows, &k->room_rows, sizeof *row)))
            return;
        *row = (struct check_row){ .bytes = bytes };
        snprintf(row->op, sizeof row->op, "%s", op);
    }
    row->us += json_number_value(json_object_get(said, "us"));
    row->algbw += json_number_value(json_object_get(said, "algbw"));
    row->busbw += json_number_value(json_object_get(said, "busbw"));
    row->bad += json_integer_value(json_object_get(said, "bad"));
    row->ranks++;
}

void check_note_world(struct check *k)
{
    const json_t *one;
    size_t p;

    for (size_t i = 0; i < k->n; i++) {
        check_set_error(&k->world_error, text_field(k->rank[i].said, "error"));
        json_array_foreach (json_object_get(k->rank[i].said, "rows"), p, one)
            note_row(k, one);
    }
}

void check_note_listen(struct check *k)
{
    for (size_t i = 0; i < k->n; i++)
        k->rank[i].port = (unsigned)json_integer_value(json_object_get(k->rank[i].said, "port"));
    check_set_error(&k->nccl_id, text_field(k->rank[0].said, "nccl_id"));
}
