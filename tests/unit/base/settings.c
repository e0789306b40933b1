/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/settings.h. With "rows" as its argument it prints the rows, for documented.sh. */
#include "base/settings.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/unit/tap.h"

/* What the setting is worth when its variable has this value; NULL: when it is not set. */
static uint64_t value(enum setting which, const char *text)
{
    uint64_t v;

    if (text)
        setenv(setting_rows[which].name, text, 1);
    v = setting_value(which);
    unsetenv(setting_rows[which].name);
    return v;
}

static void is_refused(enum setting which, const char *text, const char *why)
{
    const char *name = setting_rows[which].name;
    struct buf out = BUF_INIT;
    char whole[256];

    snprintf(whole, sizeof whole, "%s=%s: %s\n", name, text, why);
    setenv(name, text, 1);
    ok(settings_mistakes(&out) == 0, "%s=%s", name, text);
    ok(!getenv(name), "no child will say so again");
    is_text(out.p ? out.p : "", whole, "is named, with what is wanted and what is used");
    is_int((int64_t)value(which, text), (int64_t)value(which, NULL), "and the default is used");
    buf_release(&out);
}

static void seconds_are_read(void)
{
    static const char *const bad[] = {
        "0", "-1", "ten", "5 s", "nan", "inf", "1e9", "0.01", "25h"
    };

    is_int((int64_t)value(SETTING_HEARTBEAT_TIMEOUT, NULL), 10 * (int64_t)NS_PER_S, "not set");
    is_int((int64_t)value(SETTING_HEARTBEAT_TIMEOUT, ""), 10 * (int64_t)NS_PER_S, "empty is unset");
    is_int((int64_t)value(SETTING_HEARTBEAT_TIMEOUT, "2.5"), 2500 * (int64_t)NS_PER_MS, "decimals");
    is_int((int64_t)value(SETTING_HANG_NOTICE, "5min"), 300 * (int64_t)NS_PER_S,
           "units, as --timeout has them");
    is_int((int64_t)value(SETTING_HEARTBEAT_TIMEOUT, "500ms"), 500 * (int64_t)NS_PER_MS, "ms");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_refused(
            SETTING_HEARTBEAT_TIMEOUT, bad[i],
            "a duration is wanted (10, 10s, 5min, 2h or 500ms), from 0.1 to 86400 s; 10 is used");
    is_int((int64_t)value(SETTING_HANG_NOTICE, "off"), 0, "a word may stand for no seconds");
    is_int((int64_t)value(SETTING_HANG_NOTICE, "0"), 0, "as 0 does there");
    is_int((int64_t)value(SETTING_DIAL_TIMEOUT, NULL), 30 * (int64_t)NS_PER_S,
           "as long an agent tries to reach the kernel before it says that it can't");
    is_int((int64_t)value(SETTING_RESUME, NULL), 120 * (int64_t)NS_PER_S, "two minutes");
    is_int((int64_t)value(SETTING_RESUME, "5m"), 300 * (int64_t)NS_PER_S,
           "unless the user says so");
    is_refused(
        SETTING_HANG_NOTICE, "never",
        "a duration is wanted (10, 10s, 5min, 2h or 500ms), from 0 to 1000000 s, or off; 60 is used");
}

static void sizes_are_read(void)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } sizes[] = {
        { "0", 0 },
        { "4294967296", INT64_C(4) << 30 },
        { "64M", 64 << 20 },
        { "1.5g", 3 << 29 },
        { "4 GiB", INT64_C(4) << 30 },
        { "10MB", 10 << 20 },
        { "4gib", INT64_C(4) << 30 },
        { "7 B", 7 },
    };
    static const char *const bad[] = { "much", "-1", "1X", "1MM",  "1MiBs", "nan",
                                       "1e9",  "1.", ".5", "0x10", "1 2" };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        is_int((int64_t)value(SETTING_SPOOL_LIMIT, sizes[i].text), sizes[i].bytes, "%s",
               sizes[i].text);
    is_int((int64_t)value(SETTING_SPOOL_LIMIT, NULL), 128 << 20, "not set");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_refused(SETTING_SPOOL_LIMIT, bad[i],
                   "a size is wanted: bytes, or as 64M, 8G; 128 MiB is used");
}

static void numbers_are_read(void)
{
    static const char *const bad[] = { "ten",
                                       "-1",
                                       "+1",
                                       "1.5",
                                       " 1",
                                       "1e3",
                                       "0x10",
                                       "18446744073709551616",
                                       "000000000000000000001" };

    is_int((int64_t)value(SETTING_SEED, "0"), 0, "the least");
    is_int((int64_t)value(SETTING_SEED, "42"), 42, "a number");
    ok(value(SETTING_SEED, "18446744073709551615") == UINT64_MAX, "the most");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_refused(
            SETTING_SEED, bad[i],
            "a whole number is wanted, from 0 to 18446744073709551615, or none; none is used");
}

static void words_are_read(void)
{
    is_int((int64_t)value(SETTING_STATUS, "off"), 0, "off");
    is_int((int64_t)value(SETTING_STATUS, NULL), 1, "on is the default");
    is_refused(SETTING_STATUS, "of", "off or on is wanted; on is used");
    is_int((int64_t)value(SETTING_LOG, "debug:/tmp/x"), 3, "a level, and a file behind it");
    is_refused(SETTING_LOG, "loud:/tmp/x", "error, warn, info or debug is wanted; error is used");
}

static void modules_are_names(void)
{
    ok(setting_check(SETTING_MODULES, "cuda/12.4 gcc@11:13") == 0, "names of modules");
    is_refused(SETTING_MODULES, "a; b",
               "names of modules are wanted, with blanks between: letters, digits and _ . / + - : "
               "= @ , but no - first; or none; none is used");
    ok(setting_check(SETTING_MODULES, "a -b") < 0, "none is an option");
}

static void names_are_checked(void)
{
    static const struct {
        const char *name, *meant;
    } names[] = {
        { "CELLSPAN_STATSU", "CELLSPAN_STATUS" },
        { "CELLSPAN_HEARTBEAT", "CELLSPAN_HEARTBEAT_TIMEOUT" },
        { "CELLSPAN_START_TIMOUT", "CELLSPAN_START_TIMEOUT" },
        { "CELLSPAN_TEST_PREFIX", NULL },
        { "CELLSPAN_SESSION_NAME", NULL },
        { "CELLSPAN_", NULL },
        { "CELLSPANSTATUS", NULL },
        { "CELLSPAN_STATUS", NULL },
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct buf out = BUF_INIT;
        char whole[256] = "";

        if (names[i].meant)
            snprintf(whole, sizeof whole, "%s: there is no such setting; did you mean %s?\n",
                     names[i].name, names[i].meant);
        setenv(names[i].name, "on", 1);
        ok(settings_mistakes(&out) == 0, "%s", names[i].name);
        is_text(out.p ? out.p : "", whole, "%s", whole[0] ? "is told" : "is nobody's mistake");
        unsetenv(names[i].name);
        buf_release(&out);
    }
}

static void idle_ranks_may_be_parked(void)
{
    static const struct {
        const char *text, *most, *job;
        enum gpu_idle what;
    } rows[] = {
        { NULL, NULL, NULL, GPU_IDLE_END },
        { "park", NULL, NULL, GPU_IDLE_PARK },
        { "keep", NULL, NULL, GPU_IDLE_KEEP },
        { "park-or-keep", NULL, NULL, GPU_IDLE_PARK_OR_KEEP },
        { "park", NULL, "SLURM_JOB_ID", GPU_IDLE_KEEP },
        { "park-or-keep", NULL, "KUBERNETES_SERVICE_HOST", GPU_IDLE_KEEP },
        { "park", "1h", "SLURM_JOB_ID", GPU_IDLE_END },
        { "park-or-keep", "1h", "KUBERNETES_SERVICE_HOST", GPU_IDLE_END },
        { "keep", "1h", "SLURM_JOB_ID", GPU_IDLE_END },
        { "end", NULL, "SLURM_JOB_ID", GPU_IDLE_END },
        { "keep", "1h", NULL, GPU_IDLE_END },
        { "park-or-keep", "1h", NULL, GPU_IDLE_PARK },
        { "park", "1h", NULL, GPU_IDLE_PARK },
    };
    const char *const setting = setting_rows[SETTING_GPU_IDLE].name;
    char most[SETTING_MAXIMUM];

    setting_maximum(SETTING_GPU_IDLE_RELEASE, most);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].text)
            setenv(setting, rows[i].text, 1);
        if (rows[i].most)
            setenv(most, rows[i].most, 1);
        if (rows[i].job)
            setenv(rows[i].job, "1", 1);
        is_int(setting_gpu_idle(), rows[i].what, "%s, at most %s, %s",
               rows[i].text ? rows[i].text : "nothing set",
               rows[i].most ? rows[i].most : "any time",
               rows[i].job ? rows[i].job : "no allocation");
        unsetenv(setting);
        unsetenv(most);
        if (rows[i].job)
            unsetenv(rows[i].job);
    }
}

static void every_row_has_a_default_that_can_be_read(void)
{
    struct buf out = BUF_INIT;

    for (size_t i = 0; i < N_SETTINGS; i++)
        setenv(setting_rows[i].name, setting_rows[i].standard, 1);
    ok(settings_mistakes(&out) == 0 && out.n == 0, "%s", out.p ? out.p : "all of them");
    for (size_t i = 0; i < N_SETTINGS; i++)
        unsetenv(setting_rows[i].name);
    buf_release(&out);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "rows") == 0) {
        for (size_t i = 0; i < N_SETTINGS; i++)
            printf("%s\t%s\n", setting_rows[i].name,
                   setting_rows[i].kind == SETTING_TEXT ? "" : setting_rows[i].standard);
        return 0;
    }
    for (size_t i = 0; i < N_SETTINGS; i++)
        unsetenv(setting_rows[i].name);
    unsetenv("SLURM_JOB_ID");
    unsetenv("KUBERNETES_SERVICE_HOST");
    seconds_are_read();
    sizes_are_read();
    numbers_are_read();
    words_are_read();
    names_are_checked();
    modules_are_names();
    idle_ranks_may_be_parked();
    every_row_has_a_default_that_can_be_read();
    return plan_done();
}
