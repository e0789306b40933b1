/* SPDX-License-Identifier: BSD-3-Clause */
/* settings.h - the settings by environment variables, one row each. Programs read them only here;
 * pure code gets the values as arguments. An invalid value is always reported, and the default is
 * used. docs/limits.md has the same rows; a test compares them. What files say comes to the
 * environment by settings_files.h. */
#ifndef BASE_SETTINGS_H
#define BASE_SETTINGS_H

#include "base/buf.h"

enum setting {
    SETTING_CAPTURE_LIMIT,
    SETTING_PRELOAD,
    SETTING_SEED,
    SETTING_ON,
    SETTING_N,
    SETTING_TIMEOUT,
    SETTING_GRACE,
    SETTING_HOROVOD,
    SETTING_CODE,
    SETTING_STATUS,
    SETTING_MERGE,
    SETTING_HANG_NOTICE,
    SETTING_COMMS,
    SETTING_SPOOL_LIMIT,
    SETTING_LOG,
    SETTING_LIBEXECDIR,
    SETTING_PYTHONPATH,
    SETTING_INTERFACE,
    SETTING_PORT,
    SETTING_ADVERTISE,
    SETTING_HEARTBEAT_TIMEOUT,
    SETTING_RESUME,
    SETTING_START_TIMEOUT,
    SETTING_DIAL_TIMEOUT,
    SETTING_NOTICE,
    SETTING_REMOTE_PYTHON,
    SETTING_REMOTE_PREFIX,
    SETTING_INSTALL,
    SETTING_WHEELS,
    SETTING_RELAY,
    SETTING_SSH,
    SETTING_SSH_TIMEOUT,
    SETTING_SLURM_TIMEOUT,
    SETTING_MODULES,
    SETTING_IN,
    SETTING_CONTAINER,
    SETTING_APPTAINER,
    SETTING_PODMAN,
    SETTING_DOCKER,
    SETTING_ENROOT,
    SETTING_GPU_LEASES,
    SETTING_GPU_IDLE_RELEASE,
    SETTING_GPU_IDLE,
    SETTING_GPU_QUOTA,
    SETTING_NVML_LIBRARY,
    SETTING_CUDA_LIBRARY,
    SETTING_NCCL_LIBRARY,
    N_SETTINGS
};

enum setting_kind {
    SETTING_TEXT,    /* the code that uses it checks it */
    SETTING_NAMES,   /* names of environment modules, with blanks between; or one of words */
    SETTING_SECONDS, /* least to most, or one of words, which stands for 0 */
    SETTING_BYTES,   /* "128M", "1.5 GiB" */
    SETTING_NUMBER,  /* as seed_is() takes it, and from least to most unless most is 0; or one of
                      * words, for which setting_value() is 0 */
    SETTING_CHOICE,  /* one of words */
    SETTING_LEVEL    /* one of words; ":FILE" may follow */
};

/* The words of SETTING_INSTALL, in their order. */
enum install { INSTALL_AUTO, INSTALL_NEVER };
/* The words of SETTING_RELAY, in their order. */
enum relay { RELAY_AUTO, RELAY_NEVER };

/* The words of SETTING_CONTAINER, in their order. Those after the first are the rows of
 * launchers/container.c, in their order. */
enum container {
    CONTAINER_AUTO,
    CONTAINER_APPTAINER,
    CONTAINER_PODMAN,
    CONTAINER_DOCKER,
    CONTAINER_ENROOT
};

/* The words of SETTING_GPU_IDLE, in their order. */
enum gpu_idle { GPU_IDLE_END, GPU_IDLE_PARK, GPU_IDLE_PARK_OR_KEEP, GPU_IDLE_KEEP };

struct setting_row {
    const char *name;
    const char *help;     /* one line */
    const char *standard; /* the default, as a user would write it; SETTING_TEXT: a description */
    enum setting_kind kind;
    double least, most;   /* seconds, or a number */
    const char *words[6]; /* NULL-terminated */
    const char *on_hub;   /* the default on JupyterHub; NULL: standard */
    bool hosts;           /* the engine ssh passes it on to its hosts */
    /* A project's file may set it: it neither runs nor reaches anything, and is read by nobody who
     * would. Whoever clones a repository has not agreed to more. */
    bool project;
    bool ordered;  /* a later word is more than an earlier one, so there may be a maximum */
    bool smallest; /* of all values that are stated, in files and in the environment, the smallest
                    * counts */
};

extern const struct setting_row setting_rows[N_SETTINGS];

/* The value, borrowed from the environment; NULL: not set, or "". */
const char *setting_text(enum setting which);
/* The default, here: JupyterHub sets JUPYTERHUB_API_URL. */
const char *setting_standard(enum setting which);
/* Seconds in ns, bytes, or the index of the word; not above the site's maximum. If the value is
 * invalid, logs an error and returns the default. Not for SETTING_TEXT. */
uint64_t setting_value(enum setting which);
/* What ranks with GPUs do when no cell has run for SETTING_GPU_IDLE_RELEASE, here: they are parked
 * in no job of Slurm and in no pod, and keep their GPUs only if the site has no maximum for that,
 * wherever they are. */
enum gpu_idle setting_gpu_idle(void);
/* The site's maximum of the setting, as setting_value() has it; 0: there is none. */
uint64_t setting_most(enum setting which);
/* Is the text a value of the setting? -1: no. Anything is one of SETTING_TEXT. */
MUST_USE int setting_check(enum setting which, const char *text);
/* Appends which values are valid: "off or on is wanted". -1: memory is out. */
MUST_USE int setting_wanted(enum setting which, struct buf *out);
/* Can one value be more than another? Only then there may be a maximum. */
bool setting_has_order(enum setting which);
/* Is the valid value (NULL: the default) above the valid `most`? "off" and "never" are above all.
 */
bool setting_exceeds(enum setting which, const char *text, const char *most);
/* The name of the setting in files, "hang_notice". Returns out. */
#define SETTING_KEY 32u
const char *setting_key(enum setting which, char out[static SETTING_KEY]);
/* The variable for the site's maximum of the setting, which settings_files.h sets. Returns out. */
#define SETTING_MAXIMUM 64u
const char *setting_maximum(enum setting which, char out[static SETTING_MAXIMUM]);
/* Where a setting comes from of which the smallest value counts: "/etc/cellspan.toml:7". Borrowed
 * from the environment, where settings_files.h puts it; "": not from a file. */
const char *setting_place(enum setting which);
/* The variable for that. Returns out. */
const char *setting_place_variable(enum setting which, char out[static SETTING_MAXIMUM]);
/* Appends a line for each invalid value, and for each variable whose name is nearly that of a
 * setting. Removes invalid values from the environment, so that child processes don't report them
 * again. -1: memory is out. */
MUST_USE int settings_mistakes(struct buf *out);
/* Opens the process's log as CELLSPAN_LOG says; see log_open(). */
void settings_open_log(const char *process);

#endif
