/* protocol/vectors/span-*.hex: each says in its second line what it is ("is: " and a line as for
 * the log), or why it is refused ("refused: " and a part of the error). */
#include <glob.h>
#include <stdlib.h>

#include "protocol/span.h"
#include "tests/unit/protocol/source.h"
#include "tests/unit/tap.h"

static void check_good(const char *name, const struct buf *bytes, const char *want)
{
    struct buf again = BUF_INIT, line = BUF_INIT;
    struct err err = { "" };
    struct span m;

    if (!ok(span_decode(&m, bytes->p, bytes->n, &err) == 0, "%s is a message (%s)", name, err.text))
        return;
    if (span_describe(&m, &line) == 0)
        is_text(line.p, want, "and means what it says");
    ok(span_encode(&m, &again, &err) == 0 && slice_equal(buf_slice(&again), buf_slice(bytes)),
       "encoded again it is the same bytes (%s)", err.text);
    buf_release(&again);
    buf_release(&line);
    span_release(&m);
}

static void check_refused(const char *name, const struct buf *bytes, const char *why)
{
    struct err err = { "" };
    struct span m;

    ok(span_decode(&m, bytes->p, bytes->n, &err) < 0 && strstr(err.text, why), "%s is refused: %s",
       name, err.text);
}

static void check(const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    char *text = file_read(path, NULL);
    char *verdict = text ? strstr(text, "\n# ") : NULL;
    struct buf bytes = BUF_INIT;

    if (!ok(verdict && hex_read(text, &bytes) == 0, "%s is hexadecimal with a verdict", name))
        goto out;
    verdict += 3;
    verdict[strcspn(verdict, "\n")] = '\0';
    if (strncmp(verdict, "is: ", 4) == 0)
        check_good(name, &bytes, verdict + 4);
    else if (ok(strncmp(verdict, "refused: ", 9) == 0, "%s is a message or refused", name))
        check_refused(name, &bytes, verdict + 9);
out:
    free(text);
    buf_release(&bytes);
}

int main(void)
{
    const char *top = getenv("top_srcdir");
    char pattern[4096];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/protocol/vectors/span-*.hex", top ? top : ".");
    if (!ok(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 10, "there are vectors"))
        return plan_done();
    for (size_t i = 0; i < found.gl_pathc; i++)
        check(found.gl_pathv[i]);
    globfree(&found);
    return plan_done();
}
