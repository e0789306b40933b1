/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as texts of engines, nodes and the system; the first byte chooses the parser. Nothing
 * is read beyond the end, an error text never repeats a secret, and the results are within their
 * limits. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/child_lines.h"
#include "base/utf8.h"
#include "kernel/blobs/direct_links.h"
#include "kernel/engines/private.h"
#include "protocol/keys.h"
#include "tests/fuzz/fuzz.h"
#include "worker/agent/net/address.h"
#include "worker/agent/net/secret.h"
#include "worker/agent/cut_ranks.h"

const char fuzz_corpus[] = "tests/fuzz/seeds/words-*.hex";
const unsigned fuzz_prefixes = 0;

enum reader { SAID, SAID_BYTES, SECRET, HANDED, ADDRESSES, SOCKETS, READERS };

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static bool within(struct slice part, struct slice whole)
{
    return part.n == 0 || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n);
}

static void take_said(struct slice line)
{
    const struct engine_line s = engine_line_parse(line);

    demand(within(s.text, line));
    demand(s.n <= ENGINE_NODES_MAX && s.slots <= ENGINE_NODES_MAX && utf8_is_valid(s.text));
    demand(s.kind != ENGINE_LINE_NODE || s.text.n > 0);
}

static void take_line(void *arg, const char *line)
{
    (void)arg;
    demand(*line && strlen(line) <= CHILD_LINE_MAX && !strchr(line, '\n'));
    take_said(slice_text(line));
}

/* In pieces: the first byte says how large. */
static void read_said(struct slice text)
{
    const size_t step = text.n ? 1 + (unsigned char)text.p[0] : 1;
    struct child_lines lines = CHILD_LINES_MESSAGES;
    struct tail tail = TAIL_INIT;
    struct buf shown = BUF_INIT;

    for (size_t at = 0; at < text.n; at += step) {
        const struct slice piece = slice_of(text.p + at, text.n - at < step ? text.n - at : step);

        demand(child_lines_add(&lines, piece, take_line, NULL) == 0 && tail_add(&tail, piece) == 0);
    }
    child_lines_end(&lines, take_line, NULL);
    demand(tail.bytes.n <= 2 * TAIL_SIZE && engine_errors(&tail, &shown) == 0 &&
           utf8_is_valid(buf_slice(&shown)));
    child_lines_release(&lines);
    tail_release(&tail);
    buf_release(&shown);
}

static void read_secret(struct slice text)
{
    char again[SECRET_TEXT_SIZE];
    struct err err = { "" };
    struct secret s;

    if (secret_parse(&s, text, &err) < 0) {
        demand(err.text[0] != '\0');
        return;
    }
    secret_format(&s, again);
    demand(strlen(again) == text.n);
    secret_wipe(&s);
}

static void read_handed(struct slice line)
{
    struct handed h = { .index = 0 };
    struct err err = { "" };

    if (secret_take_line(&h, line, &err) < 0)
        demand(err.text[0] && !h.has_secret && !h.has_index);
    else
        demand(h.has_secret != h.has_index);
    secret_wipe(&h.secret);
}

static void read_addresses(struct slice list)
{
    struct slice ifname, ip;
    struct buf out = BUF_INIT;

    address_first(list, &ifname, &ip);
    demand(within(ifname, list) && within(ip, list));
    demand(direct_link_endpoints(list, 65535, &out) == 0);
    buf_release(&out);
}

/* A line of /proc/net/tcp, and the rest as CONNECTIONS. */
static void read_sockets(struct slice text)
{
    struct tcp_row row;
    char line[512];

    snprintf(line, sizeof line, "%.*s", SLICE_ARG(text));
    if (cut_ranks_parse(line, &row) < 0)
        return;
    demand(row.inode != 0);
    (void)cut_ranks_is_listed(&row, text);
    (void)cut_ranks_is_between(&row, &row, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct slice text = slice_of((const char *)data + 1, size ? size - 1 : 0);

    if (size == 0)
        return 0;
    switch ((enum reader)(data[0] % READERS)) {
    case SAID:
        if (text.n <= CHILD_LINE_MAX)
            take_said(text);
        break;
    case SAID_BYTES:
        read_said(text);
        break;
    case SECRET:
        read_secret(text);
        break;
    case HANDED:
        read_handed(text);
        break;
    case ADDRESSES:
        read_addresses(text);
        break;
    case SOCKETS:
    case READERS:
        read_sockets(text);
        break;
    }
    return 0;
}
