/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/settings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/log.h"
#include "base/seed.h"
#include "base/suggest.h"

#define PREFIX "CELLSPAN_"
#define DAY    86400.0 /* seconds */

extern char **environ;

const struct setting_row setting_rows[N_SETTINGS] = {
    [SETTING_CAPTURE_LIMIT] = { "CELLSPAN_CAPTURE_LIMIT",
                                "how much of home's variables may be sent for one cell",
                                .standard = "4 GiB", .kind = SETTING_BYTES },
    [SETTING_PRELOAD] = { "CELLSPAN_PRELOAD",
                          "modules, with commas between, that are imported before ranks are forked",
                          .standard = "none", .hosts = true },
    [SETTING_SEED] = { "CELLSPAN_SEED",
                       "the seed from which the random numbers of ranks that start are derived",
                       .standard = "none", .kind = SETTING_NUMBER, .words = { "none" },
                       .hosts = true },
    [SETTING_ON] = { "CELLSPAN_ON",
                     "where work of the drop-in modules runs that wants a cluster, as --on",
                     .standard = "the notebook's Spark session, else here" },
    [SETTING_HOROVOD] = { "CELLSPAN_HOROVOD",
                          "real: cellspan.horovod uses the Horovod that is installed",
                          .standard = "none", .kind = SETTING_CHOICE, .words = { "none", "real" } },
    [SETTING_CODE] = { "CELLSPAN_CODE", "whether the notebook's own modules go to other machines",
                       .standard = "auto", .kind = SETTING_CHOICE, .words = { "never", "auto" } },
    [SETTING_STATUS] = { "CELLSPAN_STATUS",
                         "whether cells that run for more than 2 s show a status", .standard = "on",
                         .kind = SETTING_CHOICE, .words = { "off", "on" } },
    [SETTING_MERGE] = { "CELLSPAN_MERGE", "how the output of ranks is shown without --merge",
                        .standard = "fold", .kind = SETTING_CHOICE,
                        /* enum plan_merge, in its order */
                        .words = { "fold", "prefix", "rank0", "panel", "raw" } },
    [SETTING_HANG_NOTICE] = { "CELLSPAN_HANG_NOTICE",
                              "seconds until a cell says for which rank the others wait; off: never",
                              .standard = "60", .kind = SETTING_SECONDS, .least = 0, .most = 1e6,
                              .words = { "off" } },
    [SETTING_COMMS] = { "CELLSPAN_COMMS",
                        "where comm messages run that name a subshell: in the main shell, or there",
                        .standard = "main", .kind = SETTING_CHOICE,
                        .words = { "main", "subshell" } },
    [SETTING_SPOOL_LIMIT] = { "CELLSPAN_SPOOL_LIMIT",
                              "how much output each node keeps for %ranks logs; 0: none",
                              .standard = "128 MiB", .kind = SETTING_BYTES, .hosts = true },
    [SETTING_LOG] = { "CELLSPAN_LOG", "what kernel and agents log, and where: LEVEL or LEVEL:FILE",
                      .standard = "error", .kind = SETTING_LEVEL,
                      .words = { "error", "warn", "info", "debug" }, .hosts = true },
    [SETTING_LIBEXECDIR] = { "CELLSPAN_LIBEXECDIR",
                             "the folder with cellspan-agent and cellspan-launch-*",
                             .standard = "beside the kernel" },
    [SETTING_PYTHONPATH] = { "CELLSPAN_PYTHONPATH", "the folder with the Python package cellspan",
                             .standard = "where installed" },
    [SETTING_INTERFACE] = { "CELLSPAN_INTERFACE",
                            "the interface, or the address, at which agents reach the kernel",
                            .standard = "all" },
    [SETTING_PORT] = { "CELLSPAN_PORT",
                       "the tcp port, or the range of ports, on which kernel and agents listen",
                       .standard = "any", .hosts = true },
    [SETTING_ADVERTISE] = { "CELLSPAN_ADVERTISE",
                            "HOST:PORT,…: what agents dial instead of this machine's addresses",
                            .standard = "none" },
    [SETTING_HEARTBEAT_TIMEOUT] = { "CELLSPAN_HEARTBEAT_TIMEOUT",
                                    "seconds of silence after which a machine is lost, or shown as away",
                                    .standard = "10", .kind = SETTING_SECONDS, .least = 0.1,
                                    .most = DAY },
    [SETTING_RESUME] = { "CELLSPAN_RESUME",
                         "seconds of silence after which a machine is lost, if that is later",
                         .standard = "120", .kind = SETTING_SECONDS, .least = 0, .most = DAY },
    [SETTING_START_TIMEOUT] = { "CELLSPAN_START_TIMEOUT",
                                "seconds in which an engine's machines must come up",
                                .standard = "120", .kind = SETTING_SECONDS, .least = 0.1,
                                .most = 1e6 },
    [SETTING_DIAL_TIMEOUT] = { "CELLSPAN_DIAL_TIMEOUT",
                               "seconds for which an agent tries to reach the kernel",
                               .standard = "30", .kind = SETTING_SECONDS, .least = 0.1, .most = DAY,
                               .hosts = true },
    [SETTING_NOTICE] = { "CELLSPAN_NOTICE",
                         "seconds until a machine is gone whose agent gets SIGUSR1 or SIGUSR2",
                         .standard = "60", .kind = SETTING_SECONDS, .least = 1, .most = DAY,
                         .hosts = true },
    [SETTING_REMOTE_PYTHON] = { "CELLSPAN_REMOTE_PYTHON", "the ranks' Python on other machines",
                                .standard = "as here", .hosts = true },
    [SETTING_REMOTE_PREFIX] = { "CELLSPAN_REMOTE_PREFIX",
                                "the folder that holds libexec/cellspan on other machines",
                                .standard = "as here" },
    [SETTING_INSTALL] = { "CELLSPAN_INSTALL",
                          "whether cellspan is sent to machines that lack it: auto, or never",
                          .standard = "auto", .kind = SETTING_CHOICE,
                          /* enum install, in its order */
                          .words = { "auto", "never" } },
    [SETTING_WHEELS] = { "CELLSPAN_WHEELS",
                         "a folder with wheels of cellspan, for machines of other architectures",
                         .standard = "none" },
    [SETTING_RELAY] = { "CELLSPAN_RELAY",
                        "whether an agent that can't reach the kernel does so through ssh: auto, or never",
                        .standard = "auto", .kind = SETTING_CHOICE,
                        /* enum relay, in its order */
                        .words = { "auto", "never" } },
    [SETTING_SSH] = { "CELLSPAN_SSH", "the ssh command with its options", .standard = "ssh" },
    [SETTING_SSH_TIMEOUT] = { "CELLSPAN_SSH_TIMEOUT",
                              "seconds from the start of ssh until a shell answers",
                              .standard = "30", .kind = SETTING_SECONDS, .least = 1, .most = DAY },
    [SETTING_SLURM_TIMEOUT] = { "CELLSPAN_SLURM_TIMEOUT",
                                "seconds in which all agents must come, after the first of their job",
                                .standard = "60", .kind = SETTING_SECONDS, .least = 1,
                                .most = DAY },
    [SETTING_GPU_LEASES] = { "CELLSPAN_GPU_LEASES",
                             "the folder of the leases by which notebooks share GPUs",
                             .standard = "/dev/shm/cellspan-gpu" },
    [SETTING_NVML_LIBRARY] = { "CELLSPAN_NVML_LIBRARY", "the NVML library to load",
                               .standard = "libnvidia-ml.so.1" },
    [SETTING_CUDA_LIBRARY] = { "CELLSPAN_CUDA_LIBRARY", "the CUDA driver's library to load",
                               .standard = "libcuda.so.1" },
    [SETTING_NCCL_LIBRARY] = { "CELLSPAN_NCCL_LIBRARY", "the NCCL library to load",
                               .standard = "the one of torch" },
};

const char *setting_text(enum setting which)
{
    const char *text = getenv(setting_rows[which].name);

    return text && *text ? text : NULL;
}

/* ---- values ---- */

static int read_seconds(const struct setting_row *row, const char *text, uint64_t *ns)
{
    uint64_t read;

    if (duration_read(text, &read) < 0 || (double)read < row->least * (double)NS_PER_S ||
        (double)read > row->most * (double)NS_PER_S)
        return -1;
    *ns = read;
    return 0;
}

/* Reads "4294967296", "512M", "4 GiB" or "1.5g". */
static int read_bytes(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    const char *at = text + strspn(text, "0123456789."), *unit;
    char *end;
    double number = strtod(text, &end);

    if (end != at || !isdigit((unsigned char)text[0]) || !isdigit((unsigned char)at[-1]))
        return -1;
    at += strspn(at, " ");
    if (*at && (unit = strchr(units, toupper((unsigned char)*at)))) {
        number *= (double)(UINT64_C(1) << (10 * (unit - units + 1)));
        at++;
    }
    if (*at && strcasecmp(at, "B") != 0 && strcasecmp(at, "iB") != 0)
        return -1;
    *bytes = number < 1e18 ? (uint64_t)number : (uint64_t)1e18;
    return 0;
}

static int read_number(const char *text, uint64_t *number)
{
    if (!seed_is(text))
        return -1;
    *number = strtoull(text, NULL, 10);
    return 0;
}

/* Finds the row's word that equals the first n bytes of text. */
static int read_word(const struct setting_row *row, const char *text, size_t n, uint64_t *word)
{
    for (uint64_t i = 0; row->words[i]; i++)
        if (strlen(row->words[i]) == n && strncmp(row->words[i], text, n) == 0) {
            *word = i;
            return 0;
        }
    return -1;
}

static int read_value(const struct setting_row *row, const char *text, uint64_t *value)
{
    switch (row->kind) {
    case SETTING_SECONDS:
        return read_word(row, text, strlen(text), value) < 0 ? read_seconds(row, text, value) : 0;
    case SETTING_BYTES:
        return read_bytes(text, value);
    case SETTING_NUMBER:
        return read_word(row, text, strlen(text), value) < 0 ? read_number(text, value) : 0;
    case SETTING_CHOICE:
        return read_word(row, text, strlen(text), value);
    case SETTING_LEVEL:
        return read_word(row, text, strcspn(text, ":"), value);
    case SETTING_TEXT:
        break;
    }
    return 0;
}

/* Appends what is wrong with the value, which values are valid, and which one is used. */
static int describe(const struct setting_row *row, const char *text, struct buf *out)
{
    int rc = buf_addf(out, "%s=%.80s: ", row->name, text);

    if (rc == 0 && row->kind == SETTING_SECONDS)
        rc = buf_addf(out,
                      "a duration is wanted (10, 10s, 1.5m, 2h or 500ms), from %.10g to %.10g s%s",
                      row->least, row->most, row->words[0] ? ", or " : "");
    else if (rc == 0 && row->kind == SETTING_BYTES)
        rc = buf_add_text(out, "a size is wanted: bytes, or as 64M, 8G");
    else if (rc == 0 && row->kind == SETTING_NUMBER)
        rc = buf_add_text(out, "a whole number is wanted, from 0 to " SEED_MOST ", or ");
    for (size_t i = 0; rc == 0 && row->words[i]; i++)
        rc = buf_addf(out, "%s%s", i == 0 ? "" : row->words[i + 1] ? ", " : " or ", row->words[i]);
    return rc < 0 ? -1
                  : buf_addf(out, "%s; %s is used", row->kind < SETTING_CHOICE ? "" : " is wanted",
                             row->standard);
}

uint64_t setting_value(enum setting which)
{
    const struct setting_row *const row = &setting_rows[which];
    const char *text = setting_text(which);
    struct buf words = BUF_INIT;
    uint64_t value = 0;

    if (text && read_value(row, text, &value) == 0)
        return value;
    if (text) {
        log_error("settings", "%s", describe(row, text, &words) == 0 ? words.p : "out of memory");
        buf_release(&words);
    }
    (void)read_value(row, row->standard, &value);
    return value;
}

/* ---- mistakes ---- */

/* The setting probably meant by this name of n bytes; NULL: the name is right, or near to none. */
static const char *probably_meant(const char *name, size_t n)
{
    const char *near = NULL;
    char typed[SUGGEST_MAX + 1] = "";

    memcpy(typed, name, n < SUGGEST_MAX ? n : SUGGEST_MAX);
    for (size_t i = 0; i < N_SETTINGS; i++) {
        const char *known = setting_rows[i].name + (sizeof PREFIX - 1);

        if (strcmp(known, typed) == 0)
            return NULL;
        if (suggest_distance(known, typed) <= 2 || strncmp(known, typed, n) == 0)
            near = setting_rows[i].name;
    }
    return near;
}

int settings_mistakes(struct buf *out)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < N_SETTINGS; i++) {
        const char *text = setting_text((enum setting)i);
        uint64_t value;

        if (!text || read_value(&setting_rows[i], text, &value) == 0)
            continue;
        rc = describe(&setting_rows[i], text, out) < 0 ? -1 : buf_add_text(out, "\n");
        (void)unsetenv(setting_rows[i].name);
    }
    for (char **at = environ; rc == 0 && at && *at; at++) {
        const char *name = *at + (sizeof PREFIX - 1), *near;
        size_t n;

        if (strncmp(*at, PREFIX, (sizeof PREFIX - 1)) != 0 || !(n = strcspn(name, "=")))
            continue;
        if ((near = probably_meant(name, n)))
            rc = buf_addf(out, PREFIX "%.*s: there is no such setting; did you mean %s?\n", (int)n,
                          name, near);
    }
    return rc;
}

void settings_open_log(const char *process)
{
    const char *text = setting_text(SETTING_LOG), *file = text ? strchr(text, ':') : NULL;

    log_open(process, LOG_ERROR, NULL);
    log_open(process, (enum log_level)setting_value(SETTING_LOG),
             file && file[1] ? file + 1 : NULL);
}
