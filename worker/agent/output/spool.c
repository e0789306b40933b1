/* SPDX-License-Identifier: BSD-3-Clause */
/* spool.c - see spool.h. A record: cell u64, rank u32, stream u32, flags u32, n u32, then n
 * bytes. */
#include "worker/agent/output/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "protocol/bytes.h"
#include "worker/agent/output/lines.h"

#define HEAD        24u      /* bytes before a record's text */
#define TEXT_MAX    262144u  /* bytes of text in one record; longer text is several */
#define FRESH_MAX   65536u   /* bytes that are collected before they are written */
#define SCAN_MAX    4194304u /* bytes that one spool_read() examines: it must not delay the agent */
#define BLOCK       1048576u /* bytes of one read */
#define LIMIT_LEAST 1048576u /* bytes; a smaller limit counts as this */

void spool_init(struct spool *s, const char *folder, uint64_t limit)
{
    *s = (struct spool){ .limit = limit };
    if (s->limit && s->limit < LIMIT_LEAST)
        s->limit = LIMIT_LEAST;
    if (folder && !(s->folder = strdup(folder)))
        s->limit = 0;
}

static void drop_first(struct spool *s)
{
    struct spool_file *f = &s->file[0];

    if (s->n == 0)
        return;
    s->lost_cell = f->last_cell > s->lost_cell ? f->last_cell : s->lost_cell;
    if (f->path)
        (void)unlink(f->path);
    free(f->path);
    fd_close(&f->fd);
    memmove(&s->file[0], &s->file[1], --s->n * sizeof s->file[0]);
}

void spool_release(struct spool *s)
{
    while (s->n)
        drop_first(s);
    buf_release(&s->fresh);
    free(s->folder);
    s->folder = NULL;
    s->limit = 0;
}

/* ---- writing ---- */

static int open_file(struct spool *s, struct spool_file *f)
{
    const char *set = getenv("TMPDIR"), *folder = s->folder     ? s->folder
                                                  : set && *set ? set
                                                                : "/tmp";
    char path[4096];

    snprintf(path, sizeof path, "%s/cellspan-spool-%ld-%u", folder, (long)getpid(), s->made++);
    *f = (struct spool_file){ .fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                                         0600),
                              .begin = s->end - s->fresh.n,
                              .first_cell = s->first_cell,
                              .last_cell = s->last_cell };
    if (f->fd < 0)
        return -1;
    if (s->folder && (f->path = strdup(path)))
        return 0;
    (void)unlink(path);
    return 0;
}

static struct spool_file *file_for(struct spool *s)
{
    const uint64_t most = s->limit / SPOOL_FILES;
    struct spool_file *last = s->n ? &s->file[s->n - 1] : NULL;

    if (last && last->size < most)
        return last;
    if (s->n == SPOOL_FILES)
        drop_first(s);
    if (open_file(s, &s->file[s->n]) < 0)
        return NULL;
    return &s->file[s->n++];
}

static int write_fresh(struct spool *s)
{
    struct spool_file *f = file_for(s);
    size_t done = 0;

    while (f && done < s->fresh.n) {
        const ssize_t n = pwrite(f->fd, s->fresh.p + done, s->fresh.n - done,
                                 (off_t)(f->size + done));

        if (n <= 0 && errno != EINTR)
            return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    if (!f)
        return -1;
    f->size += done;
    f->first_cell = s->first_cell < f->first_cell ? s->first_cell : f->first_cell;
    f->last_cell = s->last_cell > f->last_cell ? s->last_cell : f->last_cell;
    return 0;
}

/* If the disk is full, the oldest files are removed. Records that find no room even without them
 * are dropped. */
static void flush(struct spool *s)
{
    if (!s->fresh.n)
        return;
    while (write_fresh(s) < 0) {
        const bool makes_room = s->n && s->file[0].size > 0; /* a new file is empty */

        if (!s->complained)
            log_warn("spool", "what the ranks print can't be kept for %%ranks logs: %s",
                     strerror(errno));
        s->complained = true;
        drop_first(s);
        if (!makes_room) {
            s->lost_cell = s->last_cell > s->lost_cell ? s->last_cell : s->lost_cell;
            break;
        }
    }
    buf_clear(&s->fresh);
}

static int add_record(struct spool *s, uint64_t cell, uint32_t rank, unsigned stream,
                      unsigned flags, struct slice text)
{
    struct writer w = writer_of(&s->fresh);

    writer_u64(&w, cell);
    writer_u32(&w, rank);
    writer_u32(&w, stream);
    writer_u32(&w, flags);
    writer_u32(&w, (uint32_t)text.n);
    writer_bytes(&w, text);
    return writer_end(&w);
}

void spool_add(struct spool *s, uint64_t cell, uint32_t rank, unsigned stream, unsigned flags,
               struct slice text)
{
    while (s->limit && text.n) {
        const size_t n = text.n > TEXT_MAX ? TEXT_MAX : text.n;

        if (!s->fresh.n)
            s->first_cell = s->last_cell = cell;
        s->first_cell = cell < s->first_cell ? cell : s->first_cell;
        s->last_cell = cell > s->last_cell ? cell : s->last_cell;
        if (add_record(s, cell, rank, stream, n < text.n ? LINES_WITHIN : flags,
                       slice_of(text.p, n)) < 0)
            return;
        s->end += HEAD + n;
        if (s->fresh.n >= FRESH_MAX)
            flush(s);
        text = slice_of(text.p + n, text.n - n);
    }
}

/* ---- reading ---- */

struct search {
    uint64_t cell;
    const struct ranks *ranks;
    size_t limit;
    struct buf *out;
    bool full, bad;
};

static bool is_wanted(const struct search *q, uint64_t cell, uint32_t rank)
{
    if (cell != q->cell)
        return false;
    return rank == SPOOL_HOME ? ranks_count(q->ranks) == 0
                              : rank < RANKS_MAX && ranks_has(q->ranks, rank);
}

/* Takes the complete records at the start of the block. Returns how many bytes they have. */
static size_t take_records(struct search *q, struct slice block)
{
    size_t done = 0;

    while (!q->full && !q->bad && block.n - done >= HEAD) {
        struct reader r = reader_of(block.p + done, block.n - done);
        const uint64_t cell = reader_u64(&r);
        const uint32_t rank = reader_u32(&r);
        size_t n;

        (void)reader_u32(&r);
        (void)reader_u32(&r);
        n = reader_u32(&r);
        if (reader_left(&r) < n)
            break;
        if (is_wanted(q, cell, rank)) { /* LOGS does not contain the cell */
            q->bad = buf_add(q->out, block.p + done + 8, HEAD - 8 + n) < 0;
            q->full = q->out->n >= q->limit;
        }
        done += HEAD + n;
    }
    return done;
}

/* Takes the records of one file from *at on. */
static void read_file(struct search *q, const struct spool_file *f, char *block, uint64_t *at,
                      size_t *scanned)
{
    while (!q->full && !q->bad && *scanned < SCAN_MAX && *at < f->begin + f->size) {
        const uint64_t left = f->begin + f->size - *at;
        const ssize_t n = pread(f->fd, block, left < BLOCK ? (size_t)left : BLOCK,
                                (off_t)(*at - f->begin));
        const size_t done = n > 0 ? take_records(q, slice_of(block, (size_t)n)) : 0;

        if (done == 0 && !q->full) { /* the file can't be read */
            *at = f->begin + f->size;
            return;
        }
        *at += done;
        *scanned += done;
    }
}

static void read_files(struct spool *s, struct search *q, char *block, uint64_t *at,
                       size_t *scanned)
{
    for (unsigned i = 0; i < s->n; i++) {
        const struct spool_file *f = &s->file[i];

        if (*at < f->begin)
            *at = f->begin;
        if (*at >= f->begin + f->size)
            continue;
        if (f->first_cell > q->cell || f->last_cell < q->cell)
            *at = f->begin + f->size;
        else
            read_file(q, f, block, at, scanned);
        if (q->full || q->bad || *at < f->begin + f->size)
            return;
    }
}

int spool_read(struct spool *s, uint64_t cell, const struct ranks *ranks, uint64_t *at,
               size_t limit, struct buf *out, bool *more, bool *lost)
{
    struct search q = { .cell = cell, .ranks = ranks, .limit = limit, .out = out };
    char *block = malloc(BLOCK);
    size_t scanned = 0;

    if (!block)
        return -1;
    flush(s);
    *lost = s->lost_cell >= cell && (s->n == 0 || *at < s->file[0].begin);
    read_files(s, &q, block, at, &scanned);
    free(block);
    *more = s->n && *at < s->file[s->n - 1].begin + s->file[s->n - 1].size;
    return q.bad ? -1 : 0;
}
