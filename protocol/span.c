/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/span.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/le.h"
#include "base/utf8.h"
#include "protocol/bytes.h"

#define KIND_AT   1u /* where the header holds the kind */
#define WORKER_AT 4u /* where the header holds the worker */

/* ---- encode ---- */

static int check_text(const struct span_info *info, const struct span_field *f, struct slice s,
                      struct err *err)
{
    if (s.n > f->max)
        return err_set(err, "%s: %s has %zu bytes, the most is %zu", info->name, f->name, s.n,
                       f->max);
    if (f->type == SPAN_STR && !utf8_is_valid(s))
        return err_set(err, "%s: %s is not UTF-8", info->name, f->name);
    return 0;
}

static int check_list(const struct span_info *info, const struct span_field *f,
                      const struct span_list *list, struct err *err)
{
    size_t left = f->max;

    if (list->n > SPAN_ITEMS_MAX)
        return err_set(err, "%s: %s has %zu items, the most is %u", info->name, f->name, list->n,
                       SPAN_ITEMS_MAX);
    for (size_t i = 0; i < list->n; i++) {
        if (list->item[i].n > left)
            return err_set(err, "%s: %s has more than %zu bytes", info->name, f->name, f->max);
        left -= list->item[i].n;
    }
    return 0;
}

static int check_field(const struct span_info *info, unsigned i, const union span_value *v,
                       struct err *err)
{
    const struct span_field *f = &info->field[i];

    if (f->type == SPAN_U64)
        return 0;
    return f->type == SPAN_LIST ? check_list(info, f, &v->list, err)
                                : check_text(info, f, v->s, err);
}

/* Bytes that the first `count` fields take. The sum can't wrap: each is within its limit. */
static size_t fields_size(const struct span_info *info, const struct span *m, unsigned count)
{
    size_t n = 0;

    for (unsigned i = 0; i < count; i++) {
        const union span_value *v = &m->v[i];

        if (info->field[i].type == SPAN_U64) {
            n += 8;
            continue;
        }
        n += 4;
        if (info->field[i].type != SPAN_LIST)
            n += v->s.n;
        else
            for (size_t k = 0; k < v->list.n; k++)
                n += 4 + v->list.item[k].n;
    }
    return n;
}

static void put_text(struct writer *w, struct slice s)
{
    writer_u32(w, (uint32_t)s.n);
    writer_bytes(w, s);
}

static void put_field(struct writer *w, enum span_type type, const union span_value *v)
{
    if (type == SPAN_U64) {
        writer_u64(w, v->u64);
        return;
    }
    if (type != SPAN_LIST) {
        put_text(w, v->s);
        return;
    }
    writer_u32(w, (uint32_t)v->list.n);
    for (size_t i = 0; i < v->list.n; i++)
        put_text(w, v->list.item[i]);
}

static void put_header(struct writer *w, unsigned version, const struct span *m)
{
    writer_u8(w, (uint8_t)version);
    writer_u8(w, (uint8_t)m->kind);
    writer_u16(w, 0);
    writer_u32(w, m->worker);
    writer_u64(w, m->cell);
    writer_u64(w, m->blob);
    writer_u64(w, m->blob_size);
}

/* Writes the header and the first n fields, and reserves `more` bytes after them. -1: a field is
 * not valid. */
static int put(struct writer *w, unsigned version, const struct span *m, unsigned n, size_t more,
               struct err *err)
{
    const struct span_info *info = span_info((unsigned)m->kind);

    for (unsigned i = 0; i < n; i++)
        if (check_field(info, i, &m->v[i], err) < 0)
            return -1;
    writer_reserve(w, SPAN_HEADER_SIZE + fields_size(info, m, n) + more);
    put_header(w, version, m);
    for (unsigned i = 0; i < n; i++)
        put_field(w, info->field[i].type, &m->v[i]);
    return 0;
}

static int end(struct writer *w, const struct span_info *info, struct err *err)
{
    return writer_end(w) < 0 ? err_set(err, "%s: out of memory", info->name) : 0;
}

int span_encode(const struct span *m, struct buf *out, struct err *err)
{
    return span_encode_as(SPAN_VERSION, m, out, err);
}

int span_encode_as(unsigned version, const struct span *m, struct buf *out, struct err *err)
{
    const struct span_info *info = span_info((unsigned)m->kind);
    struct writer w = writer_of(out);

    if (!info)
        return err_set(err, "there is no message of kind %u", (unsigned)m->kind);
    return put(&w, version, m, info->n, 0, err) < 0 ? -1 : end(&w, info, err);
}

char *span_encode_room(const struct span *m, size_t n, struct buf *out, struct err *err)
{
    const struct span_info *info = span_info((unsigned)m->kind);
    const unsigned last = info && info->n ? info->n - 1 : 0;
    struct writer w = writer_of(out);

    if (!info || info->n == 0 || info->field[last].type != SPAN_BYTES)
        return err_null(err, "a message of kind %u does not end in bytes", (unsigned)m->kind);
    if (check_text(info, &info->field[last], slice_of(NULL, n), err) < 0 ||
        put(&w, SPAN_VERSION, m, last, 4 + n, err) < 0)
        return NULL;
    writer_u32(&w, (uint32_t)n);
    writer_room(&w, n);
    return end(&w, info, err) < 0 ? NULL : out->p + out->n - n;
}

/* ---- decode ---- */

static int refuse_version(unsigned version, struct err *err)
{
    const bool newer = version > SPAN_VERSION;

    return err_set(
        err,
        "the peer speaks version %u of cellspan's protocol, this side %u: the %s side is older; install the "
        "same cellspan on both",
        version, SPAN_VERSION, newer ? "receiving" : "sending");
}

static int get_header(struct span *m, struct reader *r, struct err *err)
{
    const unsigned version = reader_u8(r);
    const unsigned kind = reader_u8(r);
    const unsigned zero = reader_u16(r);

    *m = (struct span){ .kind = (enum span_kind)kind };
    m->worker = reader_u32(r);
    m->cell = reader_u64(r);
    m->blob = reader_u64(r);
    m->blob_size = reader_u64(r);
    if (r->bad)
        return err_set(err, "a message is shorter than its header");
    if (version != SPAN_VERSION)
        return refuse_version(version, err);
    if (!span_info(kind))
        return err_set(err, "there is no message of kind %u", kind);
    if (zero != 0)
        return err_set(err, "%s: the header's bytes 2 and 3 are not zero", span_info(kind)->name);
    return 0;
}

static int cut_short(const struct span_info *info, const struct span_field *f, struct err *err)
{
    return err_set(err, "%s: the message ends within %s", info->name, f->name);
}

static int get_text(struct slice *s, const struct span_info *info, const struct span_field *f,
                    struct reader *r, struct err *err)
{
    const uint32_t n = reader_u32(r);

    if (!r->bad && n > f->max)
        return err_set(err, "%s: %s has %" PRIu32 " bytes, the most is %zu", info->name, f->name, n,
                       f->max);
    *s = reader_take(r, n);
    if (r->bad)
        return cut_short(info, f, err);
    if (f->type == SPAN_STR && !utf8_is_valid(*s))
        return err_set(err, "%s: %s is not UTF-8", info->name, f->name);
    return 0;
}

/* Each item takes at least four bytes, so a false count can't make us allocate much. */
static int get_list(struct span_list *list, const struct span_info *info,
                    const struct span_field *f, struct reader *r, struct err *err)
{
    const uint32_t n = reader_u32(r);
    size_t left = f->max;

    if (r->bad || n > reader_left(r) / 4)
        return cut_short(info, f, err);
    if (n > SPAN_ITEMS_MAX)
        return err_set(err, "%s: %s has %" PRIu32 " items, the most is %u", info->name, f->name, n,
                       SPAN_ITEMS_MAX);
    if (n > 0 && !(list->item = calloc(n, sizeof *list->item)))
        return err_set(err, "%s: out of memory", info->name);
    for (; list->n < n; list->n++) {
        if (get_text(&list->item[list->n], info, f, r, err) < 0)
            return -1;
        if (list->item[list->n].n > left)
            return err_set(err, "%s: %s has more than %zu bytes", info->name, f->name, f->max);
        left -= list->item[list->n].n;
    }
    return 0;
}

static int get_field(union span_value *v, const struct span_info *info, const struct span_field *f,
                     struct reader *r, struct err *err)
{
    if (f->type == SPAN_U64) {
        v->u64 = reader_u64(r);
        return r->bad ? cut_short(info, f, err) : 0;
    }
    return f->type == SPAN_LIST ? get_list(&v->list, info, f, r, err)
                                : get_text(&v->s, info, f, r, err);
}

int span_decode(struct span *m, const void *p, size_t n, struct err *err)
{
    struct reader r = reader_of(p, n);
    const struct span_info *info;

    if (get_header(m, &r, err) < 0)
        return -1;
    info = span_info((unsigned)m->kind);
    for (unsigned i = 0; i < info->n; i++)
        if (get_field(&m->v[i], info, &info->field[i], &r, err) < 0)
            goto fail;
    if (reader_left(&r) == 0)
        return 0;
    (void)err_set(err, "%s: %zu bytes too many", info->name, reader_left(&r));
fail:
    span_release(m);
    return -1;
}

void span_release(struct span *m)
{
    const struct span_info *info = span_info((unsigned)m->kind);

    for (unsigned i = 0; info && i < info->n; i++)
        if (info->field[i].type == SPAN_LIST) {
            free(m->v[i].list.item);
            m->v[i].list = (struct span_list){ NULL, 0 };
        }
}

unsigned span_version(const void *p, size_t n)
{
    return n ? *(const uint8_t *)p : 0;
}

int span_peek(struct span *m, const void *p, size_t n, struct err *err)
{
    struct reader r = reader_of(p, n);

    return get_header(m, &r, err);
}

bool span_is_numbered(const void *p, size_t n)
{
    const struct span_info *info = n < SPAN_HEADER_SIZE ? NULL
                                                        : span_info(((const uint8_t *)p)[KIND_AT]);

    return !info || !info->unnumbered;
}

void span_stamp(void *p, uint32_t worker)
{
    le_put((uint8_t *)p + WORKER_AT, 4, worker);
}

struct slice span_cut_ip(struct slice *addresses)
{
    struct slice ip = slice_cut(addresses, ',');

    if (slice_has(ip, '='))
        (void)slice_cut(&ip, '=');
    return ip;
}
