/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of checks in jupyter_decode matters: counts, sizes, signature, whether it was seen
 * before, and only then JSON. So nobody without the key reaches the parser. */
#include "protocol/jupyter.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "protocol/json_repair.h"

const char *jupyter_fault_text(enum jupyter_fault fault)
{
    static const char *const text[JUPYTER_FAULTS] = {
        [JUPYTER_FINE] = "is fine",
        [JUPYTER_NO_DELIMITER] = "has no " JUPYTER_DELIMITER " frame",
        [JUPYTER_TOO_FEW] = "has too few frames",
        [JUPYTER_TOO_MANY] = "has too many frames",
        [JUPYTER_TOO_LARGE] = "has a frame that is too large",
        [JUPYTER_UNSIGNED] = "is not signed",
        [JUPYTER_FORGED] = "has a wrong signature",
        [JUPYTER_REPLAYED] = "has a signature that was seen before",
        [JUPYTER_NOT_JSON] = "holds no JSON object where one belongs",
        [JUPYTER_NO_HEADER] = "has a header without msg_type or msg_id",
        [JUPYTER_NO_MEMORY] = "found no memory",
    };

    return (unsigned)fault < JUPYTER_FAULTS ? text[fault] : "is odd";
}

int jupyter_session_init(struct jupyter_session *s, const char *id, const char *username,
                         struct slice key, struct err *err)
{
    memset(s, 0, sizeof *s);
    if (hmac_init(&s->key, key, err) < 0)
        return -1;
    seen_signatures_init(&s->seen, JUPYTER_SEEN_MAX);
    if (!(s->id = strdup(id)) || buf_add_text(&s->who, ",\"session\":") < 0 ||
        jupyter_quote(&s->who, slice_text(id)) < 0 || buf_add_text(&s->who, ",\"username\":") < 0 ||
        jupyter_quote(&s->who, slice_text(username)) < 0) {
        jupyter_session_release(s);
        return err_set(err, "out of memory");
    }
    return 0;
}

void jupyter_session_release(struct jupyter_session *s)
{
    hmac_release(&s->key);
    seen_signatures_release(&s->seen);
    free(s->id);
    buf_release(&s->who);
    buf_release(&s->header);
    memset(s, 0, sizeof *s);
}

/* Jansson recurses once for each bracket, so the depth is checked before Jansson parses. */
static bool depth_fits(struct slice text)
{
    bool quoted = false;
    unsigned depth = 0;

    for (size_t i = 0; i < text.n; i++) {
        const char c = text.p[i];

        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            if (++depth > JUPYTER_DEPTH_MAX)
                return false;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return true;
}

json_t *jupyter_object(struct slice text)
{
    json_error_t error;
    json_t *value;

    if (!depth_fits(text))
        return NULL;
    value = json_parse(text, JSON_ALLOW_NUL, &error);
    /* JavaScript writes 1e20 as an integer, too large for 64 bits. Then read all numbers as reals;
     * such a message is rare. */
    if (!value && json_error_code(&error) == json_error_numeric_overflow)
        value = json_parse(text, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    if (json_is_object(value))
        return value;
    json_decref(value);
    return NULL;
}

static const char *text_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);

    return text && *text && strlen(text) == json_string_length(value) ? text : NULL;
}

static enum jupyter_fault split(const struct slice *frame, size_t n, struct jupyter_message *m,
                                struct slice *signature)
{
    size_t at = 0;

    if (n > JUPYTER_FRAMES_MAX)
        return JUPYTER_TOO_MANY;
    while (at < n && !slice_is(frame[at], JUPYTER_DELIMITER))
        at++;
    if (at == n)
        return JUPYTER_NO_DELIMITER;
    if (n - at < 2 + JUPYTER_PARTS)
        return JUPYTER_TOO_FEW;
    m->identity = frame;
    m->identities = at;
    *signature = frame[at + 1];
    memcpy(m->part, frame + at + 2, sizeof m->part);
    m->buffer = frame + at + 2 + JUPYTER_PARTS;
    m->buffers = n - at - 2 - JUPYTER_PARTS;
    return JUPYTER_FINE;
}

static bool sizes_fit(const struct jupyter_message *m)
{
    size_t left = JUPYTER_BUFFERS_MAX;

    for (size_t i = 0; i < m->buffers; i++) {
        if (m->buffer[i].n > left)
            return false;
        left -= m->buffer[i].n;
    }
    return m->part[JUPYTER_HEADER].n <= JUPYTER_HEADER_MAX &&
           m->part[JUPYTER_PARENT].n <= JUPYTER_HEADER_MAX &&
           m->part[JUPYTER_METADATA].n <= JUPYTER_METADATA_MAX &&
           m->part[JUPYTER_CONTENT].n <= JUPYTER_CONTENT_MAX;
}

static enum jupyter_fault verify(struct jupyter_session *s, const struct jupyter_message *m,
                                 struct slice signature)
{
    if (!s->key.signs)
        return JUPYTER_FINE;
    if (signature.n == 0)
        return JUPYTER_UNSIGNED;
    if (!hmac_check(&s->key, m->part, JUPYTER_PARTS, signature))
        return JUPYTER_FORGED;
    switch (seen_signatures_add(&s->seen, signature)) {
    case 0:
        return JUPYTER_FINE;
    case 1:
        return JUPYTER_REPLAYED;
    default:
        return JUPYTER_NO_MEMORY;
    }
}

/* Some clients write half of a character as a byte: as ipykernel, replaces it. */
static bool repair(struct jupyter_message *m)
{
    for (size_t i = 0; i < JUPYTER_PARTS; i++) {
        if (utf8_is_valid(m->part[i]))
            continue;
        if (utf8_add_clean(&m->repaired[i], m->part[i]) < 0)
            return false;
        m->part[i] = buf_slice(&m->repaired[i]);
    }
    return true;
}

static enum jupyter_fault parse(struct jupyter_message *m)
{
    if (!repair(m))
        return JUPYTER_NO_MEMORY;
    m->header = jupyter_object(m->part[JUPYTER_HEADER]);
    m->content = jupyter_object(m->part[JUPYTER_CONTENT]);
    if (!m->header || !m->content)
        return JUPYTER_NOT_JSON;
    m->type = text_of(m->header, "msg_type");
    m->id = text_of(m->header, "msg_id");
    return m->type && m->id ? JUPYTER_FINE : JUPYTER_NO_HEADER;
}

enum jupyter_fault jupyter_decode(struct jupyter_session *s, const struct slice *frame, size_t n,
                                  struct jupyter_message *m)
{
    struct slice signature = { "", 0 };
    enum jupyter_fault fault;

    memset(m, 0, sizeof *m);
    if ((fault = split(frame, n, m, &signature)) != JUPYTER_FINE)
        return fault;
    if (!sizes_fit(m))
        return JUPYTER_TOO_LARGE;
    if ((fault = verify(s, m, signature)) != JUPYTER_FINE)
        return fault;
    if ((fault = parse(m)) != JUPYTER_FINE)
        jupyter_message_release(m);
    return fault;
}

void jupyter_message_release(struct jupyter_message *m)
{
    json_decref(m->header);
    json_decref(m->content);
    for (size_t i = 0; i < JUPYTER_PARTS; i++)
        buf_release(&m->repaired[i]);
    memset(m, 0, sizeof *m);
}

/* Writes the escape sequence of a byte and returns its length; 0: the byte needs no escape. */
static size_t escape(unsigned char c, char out[6])
{
    static const char hex[] = "0123456789abcdef";
    static const char brief[] = "\n\"\\\t\r", letter[] = "n\"\\tr";
    const char *at = c ? strchr(brief, c) : NULL;

    if (at) {
        out[0] = '\\';
        out[1] = letter[at - brief];
        return 2;
    }
    if (c >= 0x20)
        return 0;
    memcpy(out, "\\u00", 4);
    out[4] = hex[c >> 4];
    out[5] = hex[c & 15];
    return 6;
}

int jupyter_quote(struct buf *out, struct slice text)
{
    const size_t before = out->n;
    size_t from = 0;

    if (buf_reserve(out, text.n + text.n / 16 + 2) < 0 || buf_add(out, "\"", 1) < 0)
        return -1;
    for (size_t i = 0; i < text.n; i++) {
        const unsigned char c = (unsigned char)text.p[i];
        char escaped[6];
        size_t n;

        if ((c >= 0x20 && c != '"' && c != '\\') || (n = escape(c, escaped)) == 0)
            continue;
        if (buf_add(out, text.p + from, i - from) < 0 || buf_add(out, escaped, n) < 0)
            goto undo;
        from = i + 1;
    }
    if (buf_add(out, text.p + from, text.n - from) == 0 && buf_add(out, "\"", 1) == 0)
        return 0;
undo:
    out->n = before;
    return -1;
}

/* "name":value, as one member of an object. */
static int add_member(struct buf *out, const char *name, struct slice value)
{
    return buf_addf(out, "\"%s\":", name) < 0 ? -1 : jupyter_quote(out, value);
}

int jupyter_display(struct buf *out, struct slice text, struct slice html, const char *id)
{
    const size_t before = out->n;

    if (buf_add_text(out, "{\"data\":{") == 0 &&
        (!text.p || add_member(out, "text/plain", text) == 0) &&
        (!text.p || !html.p || buf_add_text(out, ",") == 0) &&
        (!html.p || add_member(out, "text/html", html) == 0) &&
        buf_add_text(out, "},\"metadata\":{},\"transient\":{") == 0 &&
        (!id || add_member(out, "display_id", slice_text(id)) == 0) && buf_add_text(out, "}}") == 0)
        return 0;
    out->n = before;
    return -1;
}

static int header_write(struct jupyter_session *s, const char *type, const char *date)
{
    struct buf *b = &s->header;

    buf_clear(b);
    if (buf_addf(b, "{\"msg_id\":\"%s_%llu\",\"msg_type\":", s->id, (unsigned long long)s->count) <
            0 ||
        jupyter_quote(b, slice_text(type)) < 0 || buf_add_slice(b, buf_slice(&s->who)) < 0)
        return -1;
    return buf_addf(b, ",\"date\":\"%s\",\"version\":\"" JUPYTER_VERSION "\"}", date);
}

static struct slice or_empty_object(struct slice s)
{
    return s.n ? s : slice_text("{}");
}

int jupyter_encode(struct jupyter_session *s, const char *type, const char *date,
                   struct slice parent, struct slice metadata, struct slice content,
                   struct slice out[JUPYTER_OUT_FRAMES], struct err *err)
{
    if (header_write(s, type, date) < 0)
        return err_set(err, "out of memory");
    s->count++;
    out[JUPYTER_OUT_DELIMITER] = slice_text(JUPYTER_DELIMITER);
    out[JUPYTER_OUT_HEADER] = buf_slice(&s->header);
    out[JUPYTER_OUT_PARENT] = or_empty_object(parent);
    out[JUPYTER_OUT_METADATA] = or_empty_object(metadata);
    out[JUPYTER_OUT_CONTENT] = or_empty_object(content);
    hmac_sign(&s->key, out + JUPYTER_OUT_HEADER, JUPYTER_PARTS, s->signature);
    out[JUPYTER_OUT_SIGNATURE] = slice_text(s->signature);
    return 0;
}
