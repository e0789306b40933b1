/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/settings.h"

#include <ctype.h>
#include <stdio.h>
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
                                .standard = "4 GiB", .kind = SETTING_BYTES, .project = true },
    [SETTING_PRELOAD] = { "CELLSPAN_PRELOAD",
                          "modules, with commas between, that are imported before ranks are forked",
                          .standard = "none", .hosts = true },
    [SETTING_SEED] = { "CELLSPAN_SEED",
                       "the seed from which the random numbers of ranks that start are derived",
                       .standard = "none", .kind = SETTING_NUMBER, .words = { "none" },
                       .hosts = true, .project = true },
    [SETTING_ON] = { "CELLSPAN_ON", "where ranks are that start without --on", .standard = "here" },
    [SETTING_N] = { "CELLSPAN_N", "how many ranks start without -n", .standard = "auto",
                    .kind = SETTING_NUMBER, .least = 1, .most = 65536, .words = { "auto" },
                    .project = true },
    [SETTING_TIMEOUT] = { "CELLSPAN_TIMEOUT", "after how long a cell without --timeout is stopped",
                          .standard = "never", .kind = SETTING_SECONDS, .least = 0.001,
                          .most = 365 * DAY, .words = { "never" }, .project = true },
    [SETTING_GRACE] = { "CELLSPAN_GRACE",
                        "seconds that an interrupt may take in a cell without --grace",
                        .standard = "10", .kind = SETTING_SECONDS, .least = 0, .most = 365 * DAY,
                        .project = true },
    [SETTING_HOROVOD] = { "CELLSPAN_HOROVOD",
                          "real: cellspan.horovod uses the Horovod that is installed",
                          .standard = "none", .kind = SETTING_CHOICE, .words = { "none", "real" } },
    [SETTING_CODE] = { "CELLSPAN_CODE", "whether the notebook's own modules go to other machines",
                       .standard = "auto", .kind = SETTING_CHOICE, .words = { "never", "auto" } },
    [SETTING_STATUS] = { "CELLSPAN_STATUS",
                         "whether cells that run for more than 2 s show a status", .standard = "on",
                         .kind = SETTING_CHOICE, .words = { "off", "on" }, .project = true },
    [SETTING_MERGE] = { "CELLSPAN_MERGE", "how the output of ranks is shown without --merge",
                        .standard = "fold", .kind = SETTING_CHOICE,
                        /* enum plan_merge, in its order */
                        .words = { "fold", "prefix", "rank0", "panel", "raw" }, .project = true },
    [SETTING_HANG_NOTICE] = { "CELLSPAN_HANG_NOTICE",
                              "seconds until a cell says for which rank the others wait; off: never",
                              .standard = "60", .kind = SETTING_SECONDS, .least = 0, .most = 1e6,
                              .words = { "off" }, .project = true },
    [SETTING_COMMS] = { "CELLSPAN_COMMS",
                        "where comm messages run that name a subshell: in the main shell, or there",
                        .standard = "main", .kind = SETTING_CHOICE,
                        .words = { "main", "subshell" } },
    [SETTING_SPOOL_LIMIT] = { "CELLSPAN_SPOOL_LIMIT",
                              "how much output each node keeps for %ranks logs; 0: none",
                              .standard = "128 MiB", .kind = SETTING_BYTES, .hosts = true,
                              .project = true },
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
                                    .most = DAY, .project = true },
    [SETTING_RESUME] = { "CELLSPAN_RESUME",
                         "seconds of silence after which a machine is lost, if that is later",
                         .standard = "120", .kind = SETTING_SECONDS, .least = 0, .most = DAY,
                         .project = true },
    [SETTING_START_TIMEOUT] = { "CELLSPAN_START_TIMEOUT",
                                "seconds in which an engine's machines must come up",
                                .standard = "120", .kind = SETTING_SECONDS, .least = 0.1,
                                .most = 1e6, .project = true },
    [SETTING_DIAL_TIMEOUT] = { "CELLSPAN_DIAL_TIMEOUT",
                               "seconds for which an agent tries to reach the kernel",
                               .standard = "30", .kind = SETTING_SECONDS, .least = 0.1, .most = DAY,
                               .hosts = true, .project = true },
    [SETTING_NOTICE] = { "CELLSPAN_NOTICE",
                         "seconds until a machine is gone whose agent gets SIGUSR1 or SIGUSR2",
                         .standard = "60", .kind = SETTING_SECONDS, .least = 1, .most = DAY,
                         .hosts = true, .project = true },
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
                              .standard = "30", .kind = SETTING_SECONDS, .least = 1, .most = DAY,
                              .project = true },
    [SETTING_SLURM_TIMEOUT] = { "CELLSPAN_SLURM_TIMEOUT",
                                "seconds in which all agents must come, after the first of their job",
                                .standard = "60", .kind = SETTING_SECONDS, .least = 1, .most = DAY,
                                .project = true },
    [SETTING_MODULES] = { "CELLSPAN_MODULES",
                          "environment modules that machines load before the agent, with blanks between",
                          .standard = "none", .kind = SETTING_NAMES, .words = { "none" } },
    [SETTING_IN] = { "CELLSPAN_IN",
                     "the image of a container in which ranks on other machines run without --in",
                     .standard = "none" },
    [SETTING_CONTAINER] = { "CELLSPAN_CONTAINER",
                            "what runs the image of --in there; auto: the first that is there",
                            .standard = "auto", .kind = SETTING_CHOICE,
                            /* enum container, in its order */
                            .words = { "auto", "apptainer", "podman", "docker", "enroot" } },
    [SETTING_APPTAINER] = { "CELLSPAN_APPTAINER", "how apptainer runs the image of --in",
                            .standard = "built in" },
    [SETTING_PODMAN] = { "CELLSPAN_PODMAN", "how podman runs the image of --in",
                         .standard = "built in" },
    [SETTING_DOCKER] = { "CELLSPAN_DOCKER", "how docker runs the image of --in",
                         .standard = "built in" },
    [SETTING_ENROOT] = { "CELLSPAN_ENROOT", "how enroot runs the image of --in",
                         .standard = "built in" },
    [SETTING_GPU_LEASES] = { "CELLSPAN_GPU_LEASES",
                             "the folder of the leases by which notebooks share GPUs",
                             .standard = "/dev/shm/cellspan-gpu" },
    [SETTING_GPU_IDLE_RELEASE] = { "CELLSPAN_GPU_IDLE_RELEASE",
                                   "how long ranks keep GPUs that others could use while no cell runs; off: for ever",
                                   .standard = "off", .kind = SETTING_SECONDS, .least = 0,
                                   .most = 30 * DAY, .words = { "off" }, .on_hub = "15m" },
    [SETTING_GPU_IDLE] = { "CELLSPAN_GPU_IDLE",
                           "what becomes of ranks that have kept GPUs for that long: they end, are parked in the machine's memory, or keep them",
                           .standard = "end", .kind = SETTING_CHOICE,
                           /* enum gpu_idle, in its order */
                           .words = { "end", "park", "park-or-keep", "keep" }, .ordered = true },
    [SETTING_GPU_QUOTA] = { "CELLSPAN_GPU_QUOTA",
                            "how many GPUs of a machine all notebooks of one user may hold together; off: any number",
                            .standard = "off", .kind = SETTING_NUMBER, .least = 1, .most = 4096,
                            .words = { "off" }, .project = true, .smallest = true },
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

/* On a hub, others wait for what a notebook does not use. */
const char *setting_standard(enum setting which)
{
    const struct setting_row *const row = &setting_rows[which];

    return row->on_hub && getenv("JUPYTERHUB_API_URL") ? row->on_hub : row->standard;
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

static int read_number(const struct setting_row *row, const char *text, uint64_t *number)
{
    uint64_t read;

    if (!seed_is(text))
        return -1;
    read = strtoull(text, NULL, 10);
    if (row->most > 0 && ((double)read < row->least || (double)read > row->most))
        return -1;
    *number = read;
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

/* Checks names of environment modules. None is an option, or anything else to a shell. */
static int read_names(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static const char also[] = "_./+-:=@,";
    bool begins = true, any = false;

    for (; *text; text++) {
        if (*text != ' ' && !strchr(letters, *text) &&
            (!strchr(also, *text) || (begins && *text == '-')))
            return -1;
        begins = *text == ' ';
        any = any || !begins;
    }
    return any ? 0 : -1;
}

static int read_value(const struct setting_row *row, const char *text, uint64_t *value)
{
    switch (row->kind) {
    case SETTING_SECONDS:
        return read_word(row, text, strlen(text), value) < 0 ? read_seconds(row, text, value) : 0;
    case SETTING_BYTES:
        return read_bytes(text, value);
    case SETTING_NUMBER:
        return read_word(row, text, strlen(text), value) < 0 ? read_number(row, text, value) : 0;
    case SETTING_CHOICE:
        return read_word(row, text, strlen(text), value);
    case SETTING_LEVEL:
        return read_word(row, text, strcspn(text, ":"), value);
    case SETTING_NAMES:
        return read_names(text);
    case SETTING_TEXT:
        break;
    }
    return 0;
}

int setting_wanted(enum setting which, struct buf *out)
{
    const struct setting_row *const row = &setting_rows[which];
    int rc = 0;

    if (row->kind == SETTING_TEXT)
        return buf_add_text(out, "a text is wanted");
    if (row->kind == SETTING_NAMES)
        return buf_add_text(out, "names of modules are wanted, with blanks between: letters, "
                                 "digits and _ . / + - : = @ , but no - first; or none");
    if (row->kind == SETTING_SECONDS)
        rc = buf_addf(out,
                      "a duration is wanted (10, 10s, 5min, 2h or 500ms), from %.10g to %.10g s%s",
                      row->least, row->most, row->words[0] ? ", or " : "");
    else if (row->kind == SETTING_BYTES)
        rc = buf_add_text(out, "a size is wanted: bytes, or as 64M, 8G");
    else if (row->kind == SETTING_NUMBER && row->most > 0)
        rc = buf_addf(out, "a whole number is wanted, from %.0f to %.0f, or ", row->least,
                      row->most);
    else if (row->kind == SETTING_NUMBER)
        rc = buf_add_text(out, "a whole number is wanted, from 0 to " SEED_MOST ", or ");
    for (size_t i = 0; rc == 0 && row->words[i]; i++)
        rc = buf_addf(out, "%s%s", i == 0 ? "" : row->words[i + 1] ? ", " : " or ", row->words[i]);
    return rc < 0 ? -1 : buf_add_text(out, row->kind < SETTING_CHOICE ? "" : " is wanted");
}

/* Appends what is wrong with the value, which values are valid, and which one is used. */
static int describe(enum setting which, const char *text, struct buf *out)
{
    const struct setting_row *const row = &setting_rows[which];

    return buf_addf(out, "%s=%.80s: ", row->name, text) < 0 || setting_wanted(which, out) < 0
               ? -1
               : buf_addf(out, "; %s is used", setting_standard(which));
}

/* ---- the site's maximum ---- */

bool setting_has_order(enum setting which)
{
    const struct setting_row *const row = &setting_rows[which];

    return row->kind == SETTING_SECONDS || row->kind == SETTING_BYTES ||
           (row->kind == SETTING_NUMBER && row->most > 0) || row->ordered;
}

/* Seconds, or a number of which the smallest counts, that stand for no limit are more than any. */
static uint64_t in_order(const struct setting_row *row, uint64_t value)
{
    const bool limits = row->kind == SETTING_SECONDS || row->smallest;

    return value == 0 && limits && row->words[0] ? UINT64_MAX : value;
}

bool setting_exceeds(enum setting which, const char *text, const char *most)
{
    const struct setting_row *const row = &setting_rows[which];
    uint64_t value = 0, limit = 0;

    if (!setting_has_order(which) ||
        read_value(row, text ? text : setting_standard(which), &value) < 0 ||
        read_value(row, most, &limit) < 0 || (limit == 0 && row->kind == SETTING_NUMBER))
        return false;
    return in_order(row, value) > in_order(row, limit);
}

const char *setting_maximum(enum setting which, char out[static SETTING_MAXIMUM])
{
    snprintf(out, SETTING_MAXIMUM, "CELLSPAN_MAXIMUM_%s",
             setting_rows[which].name + strlen(PREFIX));
    return out;
}

const char *setting_place_variable(enum setting which, char out[static SETTING_MAXIMUM])
{
    snprintf(out, SETTING_MAXIMUM, "CELLSPAN_PLACE_OF_%s",
             setting_rows[which].name + strlen(PREFIX));
    return out;
}

const char *setting_place(enum setting which)
{
    char name[SETTING_MAXIMUM];
    const char *place = getenv(setting_place_variable(which, name));

    return place ? place : "";
}

const char *setting_key(enum setting which, char out[static SETTING_KEY])
{
    const char *name = setting_rows[which].name + strlen(PREFIX);
    size_t n = 0;

    for (; name[n] && n + 1 < SETTING_KEY; n++)
        out[n] = (char)tolower((unsigned char)name[n]);
    out[n] = '\0';
    return out;
}

uint64_t setting_most(enum setting which)
{
    char name[SETTING_MAXIMUM];
    const char *most = getenv(setting_maximum(which, name));
    uint64_t value = 0;

    return most && read_value(&setting_rows[which], most, &value) == 0 ? value : 0;
}

int setting_check(enum setting which, const char *text)
{
    uint64_t value;

    return read_value(&setting_rows[which], text, &value);
}

uint64_t setting_value(enum setting which)
{
    const struct setting_row *const row = &setting_rows[which];
    const char *text = setting_text(which), *most;
    char name[SETTING_MAXIMUM];
    struct buf words = BUF_INIT;
    uint64_t value = 0;

    if (text && read_value(row, text, &value) < 0) {
        log_error("settings", "%s", describe(which, text, &words) == 0 ? words.p : "out of memory");
        buf_release(&words);
        text = NULL;
    }
    most = getenv(setting_maximum(which, name));
    if (most && *most && setting_exceeds(which, text, most))
        text = most; /* a process may have changed its environment since the kernel's start */
    (void)read_value(row, text ? text : setting_standard(which), &value);
    return value;
}

/* ---- what idle ranks do ---- */

/* Does the site let idle ranks keep their GPUs? Not if it says how long they may have them, or what
 * they do instead. */
static bool may_be_kept(void)
{
    char name[SETTING_MAXIMUM];
    const char *most = getenv(setting_maximum(SETTING_GPU_IDLE, name));

    return !setting_most(SETTING_GPU_IDLE_RELEASE) &&
           !(most && *most && setting_exceeds(SETTING_GPU_IDLE, "keep", most));
}

/* Parking frees GPUs for others, but nobody else gets those of an allocation. Where they can't be
 * kept, they are not in an allocation either, for anybody can set the variables that tell of one.
 */
enum gpu_idle setting_gpu_idle(void)
{
    const bool allocated = getenv("SLURM_JOB_ID") || getenv("KUBERNETES_SERVICE_HOST");
    enum gpu_idle wanted = (enum gpu_idle)setting_value(SETTING_GPU_IDLE);

    if (allocated && (wanted == GPU_IDLE_PARK || wanted == GPU_IDLE_PARK_OR_KEEP))
        wanted = GPU_IDLE_KEEP;
    if (wanted == GPU_IDLE_KEEP && !may_be_kept())
        return GPU_IDLE_END;
    if (wanted == GPU_IDLE_PARK_OR_KEEP && setting_most(SETTING_GPU_IDLE_RELEASE))
        return GPU_IDLE_PARK;
    return wanted;
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
        rc = describe((enum setting)i, text, out) < 0 ? -1 : buf_add_text(out, "\n");
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
