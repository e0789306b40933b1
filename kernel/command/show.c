/* show.c - streams leave as they come. A display with an id is a picture that is drawn again and again: its last state is
 * shown at the end. */
#include "kernel/command/show.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

#define PICTURES_MAX 256u

struct picture {
    char *id, *text; /* owned */
};

struct show {
    struct picture picture[PICTURES_MAX];
    size_t n;
    bool broken;
};

struct show *show_create(void)
{
    return calloc(1, sizeof(struct show));
}

void show_destroy(struct show *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++) {
        free(s->picture[i].id);
        free(s->picture[i].text);
    }
    free(s);
}

/* Waits for a slow reader, so that it slows the ranks. */
static void write_all(struct show *s, int fd, const char *p, size_t n)
{
    while (n > 0 && !s->broken) {
        const ssize_t done = write(fd, p, n);

        if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            struct pollfd wait = { fd, POLLOUT, 0 };

            poll(&wait, 1, 100);
        } else if (done < 0 && errno != EINTR) {
            s->broken = errno == EPIPE;
            return;
        } else if (done > 0) {
            p += done;
            n -= (size_t)done;
        }
    }
}

static void stream(struct show *s, const json_t *content)
{
    const char *name = json_string_value(json_object_get(content, "name"));
    const json_t *text = json_object_get(content, "text");

    if (name && json_is_string(text))
        write_all(s, strcmp(name, "stderr") == 0 ? 2 : 1, json_string_value(text), json_string_length(text));
}

static void print_line(struct show *s, const char *text)
{
    write_all(s, 1, text, strlen(text));
    if (*text && text[strlen(text) - 1] != '\n')
        write_all(s, 1, "\n", 1);
}

/* A bundle's values may be lists of lines. NULL: no text in it; the caller's. */
static char *plain_text(const json_t *content)
{
    const json_t *value = json_object_get(json_object_get(content, "data"), "text/plain");
    struct buf text = BUF_INIT;
    const json_t *line;
    size_t i;

    if (json_is_string(value))
        return strdup(json_string_value(value));
    json_array_foreach(value, i, line)
        if (json_is_string(line) && buf_add_text(&text, json_string_value(line)) < 0)
            break;
    return text.p ? buf_take(&text) : NULL;
}

static struct picture *picture_find(struct show *s, const char *id)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->picture[i].id, id) == 0)
            return &s->picture[i];
    if (s->n == PICTURES_MAX || !(s->picture[s->n].id = strdup(id)))
        return NULL;
    return &s->picture[s->n++];
}

static void display(struct show *s, const json_t *content, bool update)
{
    const char *id = json_string_value(json_object_get(json_object_get(content, "transient"), "display_id"));
    struct picture *p = id ? picture_find(s, id) : NULL;
    char *text = plain_text(content);

    if (p) {
        free(p->text);
        p->text = text;
        return;
    }
    if (text && !update)
        print_line(s, text);
    free(text);
}

/* Escape sequences of colours: what is no terminal has no use for them. */
static void without_colours(char *text)
{
    char *to = text;

    while (*text) {
        if (text[0] == '\033' && text[1] == '[') {
            for (text += 2; *text && (*text < '@' || *text > '~'); text++)
                ;
            text += *text != '\0';
        } else {
            *to++ = *text++;
        }
    }
    *to = '\0';
}

static void error(struct show *s, const json_t *content)
{
    const json_t *line, *traceback = json_object_get(content, "traceback");
    const char *ename = json_string_value(json_object_get(content, "ename"));
    const char *evalue = json_string_value(json_object_get(content, "evalue"));
    struct buf text = BUF_INIT;
    size_t i;
    int rc = 0;

    json_array_foreach(traceback, i, line)
        if (json_is_string(line) && rc == 0)
            rc = buf_addf(&text, "%s\n", json_string_value(line));
    if (text.n == 0 && rc == 0)
        rc = buf_addf(&text, "%s: %s\n", ename ? ename : "error", evalue ? evalue : "");
    if (rc == 0) {
        if (!isatty(2))
            without_colours(text.p);
        write_all(s, 2, text.p, strlen(text.p));
    }
    buf_release(&text);
}

void show_message(struct show *s, const char *type, const json_t *content)
{
    if (strcmp(type, "stream") == 0)
        stream(s, content);
    else if (strcmp(type, "error") == 0)
        error(s, content);
    else if (strcmp(type, "display_data") == 0 || strcmp(type, "execute_result") == 0)
        display(s, content, false);
    else if (strcmp(type, "update_display_data") == 0)
        display(s, content, true);
}

void show_finish(struct show *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->picture[i].text)
            print_line(s, s->picture[i].text);
}

bool show_broken(const struct show *s)
{
    return s->broken;
}
