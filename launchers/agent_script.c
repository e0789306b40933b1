/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/agent_script.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "launchers/launcher.h"
#include "launchers/environment_modules.h"

#define AGENT "cellspan-agent"
/* Containers on one machine have the same boot id but count as separate machines; so it includes
 * the namespaces. */
#define MACHINE                                                                                    \
    "b=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null) && "                                     \
    "s=$(readlink /proc/self/ns/pid /proc/self/ns/net /proc/self/ns/uts 2>/dev/null) && "          \
    "echo \"" SCRIPT_MARK SCRIPT_MACHINE "\"$b $s; "

/* Quotes a path; "~/" means the remote user's home. */
static int add_path(struct buf *out, const char *path)
{
    if (strncmp(path, "~/", 2) != 0)
        return words_quote(out, path);
    return buf_add_text(out, "\"$HOME\"/") < 0 ? -1 : words_quote(out, path + 2);
}

static bool is_told(const char *prefix)
{
    return prefix && *prefix;
}

/* Adds the paths where the agent may be: below the prefix if one is given, else at the same path as
 * on this machine. */
static int add_candidates(struct buf *out, const struct script_spec *spec)
{
    const char *program = spec->command[0];
    int rc = 0;

    if (is_told(spec->prefix))
        rc = buf_add_text(out, " ") < 0 || add_path(out, spec->prefix) < 0 ||
             buf_add_text(out, "/libexec/cellspan/") < 0 ||
             words_quote(out, path_name(program)) < 0;
    else if (program[0] == '/')
        rc = buf_add_text(out, " ") < 0 || words_quote(out, program) < 0;
    return rc ? -1 : 0;
}

/* Searches on PATH, then beside the program `cellspan` on PATH, since the agent's own folder is
 * seldom on PATH. */
static int add_search(struct buf *out, const char *name)
{
    int rc = buf_add_text(out, "[ \"$a\" ] || a=$(command -v ") < 0 || words_quote(out, name) < 0 ||
             buf_add_text(out, ") || { c=$(command -v cellspan) && c=$(readlink -f \"$c\") && "
                               "a=${c%/*}/../libexec/cellspan/") < 0 ||
             words_quote(out, name) < 0 || buf_add_text(out, "; }; ") < 0;

    return rc ? -1 : 0;
}

static int add_settings(struct buf *out, const struct script_spec *spec)
{
    for (size_t i = 0; i < spec->settings; i++)
        if (buf_addf(out, "export %s=", spec->setting[i].name) < 0 ||
            words_quote(out, spec->setting[i].value) < 0 || buf_add_text(out, "; ") < 0)
            return -1;
    return 0;
}

/* ---- where cellspan is missing ---- */

/* Is $a the agent of our version? $v: what it says. */
#define ASK_VERSION "v=; [ -x \"$a\" ] && v=$(\"$a\" --version </dev/null 2>/dev/null); "
#define OUR_VERSION "'" AGENT " " CELLSPAN_VERSION "'"
/* Sets $d to the folder $i, if an earlier start has put it into one of the two places with known
 * names, and it is whole. They must be the user's own, and nobody else may write into them, so
 * nobody else has put it there. */
#define FIND_SENT                                                                                  \
    "i=" CELLSPAN_VERSION "-$m-$h; "                                                               \
    "for p in \"${XDG_CACHE_HOME:-$HOME/.cache}/cellspan\" \"$XDG_RUNTIME_DIR/cellspan\"; do "     \
    "if [ \"$h\" ] && [ -O \"$p\" ] && [ -O \"$p/$i\" ] && "                                       \
    "case $(ls -ld \"$p\" \"$p/$i\" | cut -c 6,9) in *w*) false;; esac && "                        \
    "[ \"$(cat \"$p/$i/" SCRIPT_COUNT "\" 2>/dev/null)\" = "                                       \
    "$(find \"$p/$i\" -type f ! -name '*.pyc' | wc -l) ] && "                                      \
    "[ \"$(\"$p/$i/libexec/cellspan/" AGENT                                                        \
    "\" --version </dev/null 2>/dev/null)\" = " OUR_VERSION " ]; then d=$p/$i; break; fi; done; "
#define SAY_MISSING "echo \"" SCRIPT_MARK SCRIPT_MISSING " $m $l\""
/* Sets $l to the C library, as one word. */
#define ASK_LIBC                                                                                   \
    "l=$(getconf GNU_LIBC_VERSION 2>/dev/null); case $l in glibc*) l=glibc-${l#* };; "             \
    "*) l=unknown; for p in /lib/ld-musl-*; do [ ! -e \"$p\" ] || l=musl; done;; esac; "
/* Reads $M bytes and runs them. It must not read more: what follows is for that program, or for the
 * next. If there is a file $f, the program reads that, from byte $O on. */
#define READ_PROGRAM                                                                               \
    "import os, sys${n}b, n, f, s = b'', *sys.argv[1:4]${n}del sys.argv[1:4]${n}"                  \
    "while len(b) < int(n):${n}"                                                                   \
    " b += os.read(0, int(n) - len(b)) or sys.exit('the connection ended')${n}"                    \
    "if f:${n} f = os.open(f, os.O_RDONLY)${n} os.lseek(f, int(s), 0)${n} os.dup2(f, 0)${n}"       \
    "exec(b)"
/* Sets $u to the architecture with which packages are sent, $k, if ranks would run a Python that
 * lacks them: the first that is there of those which the agent would take (python_candidates.h). $r
 * is that Python, and $z the version for which the packages are. A Python that is stuck holds back
 * the agent for a while only, which then starts as if nothing were lacking. */
#define ASK_PACKAGES                                                                                    \
    "if [ \"$k\" ]; then if [ \"$CELLSPAN_REMOTE_PYTHON\" ]; then set -- \"$CELLSPAN_REMOTE_PYTHON\"; " \
    "else set -- \"$q\" \"python$z\" python3 python; fi; "                                              \
    "r=; for p; do if command -v \"$p\" >/dev/null 2>&1; then r=$p; break; fi; done; "                  \
    "t=; ! command -v timeout >/dev/null 2>&1 || t='timeout 15'; "                                      \
    "if [ \"$r\" ]; then $t \"$r\" -c \"$L\" </dev/null >/dev/null 2>&1; [ $? != 3 ] || u=$k; fi; fi; "
/* Sets $y to a Python that runs here, or says that there is none. $q: the notebook's. */
#define FIND_PYTHON                                                                                \
    "for p in \"$CELLSPAN_REMOTE_PYTHON\" \"$q\" python3 python; do [ -z \"$y\" ] || break; "      \
    "if [ \"$p\" ] && \"$p\" -I -c '' </dev/null >/dev/null 2>&1; then y=$p; fi; done; "           \
    "[ \"$y\" ] || { echo \"" SCRIPT_MARK SCRIPT_REFUSED                                           \
    "there is no python3, which would unpack it\"; exit 126; }; "
/* Makes the folder $F for a file, if many tasks wait. Others of the user's that are a day old were
 * left by tasks that were killed. */
#define REMOVE_FOLDER "[ -z \"$F\" ] || rm -rf \"$F\""
#define MAKE_FOLDER                                                                                \
    "if [ \"${SLURM_NTASKS:-0}\" -gt %u ]; then "                                                  \
    "find /tmp -maxdepth 1 -user \"$(id -u)\" -name 'cellspan-sent-*' -mmin +1440 "                \
    "-exec rm -rf {} + 2>/dev/null; trap '" REMOVE_FOLDER "' EXIT; trap 'exit 143' HUP INT TERM; " \
    "F=" SCRIPT_FOLDER "$SLURM_JOB_ID.$SLURM_STEP_ID; mkdir -m 700 \"$F\" 2>/dev/null; "           \
    "if [ -h \"$F\" ] || [ ! -O \"$F\" ] || "                                                      \
    "case $(ls -ld \"$F\") in drwx------*) false;; esac; "                                         \
    "then F=; echo \"" SCRIPT_MARK SCRIPT_UNFIT "\"; fi; fi; "
/* Installs what the launcher sends, if it is for this machine and the folder $i is wanted; else it
 * is read and forgotten. $d: the folder where it is now; "-": there is none, and the agent that is
 * there runs without the packages. If the program exits with 2, or says nothing, the file is not
 * what was sent. */
#define TAKE                                                                                       \
    "x=$A; f=; s=$((M + N)); if [ \"$w\" = get ]; then f=$F/" SCRIPT_FILE "; s=$M; "               \
    "[ \"$F\" ] && [ -r \"$f\" ] && [ \"$(wc -c <\"$f\")\" -eq \"$T\" ] || x=; fi; "               \
    "if [ \"$i\" ] && [ -z \"$d\" ] && [ \"$x\" = \"$m\" ]; then " FIND_PYTHON                     \
    "d=$(\"$y\" -I -c \"" READ_PROGRAM                                                             \
    "\" \"$M\" \"$f\" \"${O:-0}\" \"$N\" \"$H\" " CELLSPAN_VERSION " \"$i\") || "                  \
    "{ s=$?; if [ \"$w\" = get ] && { [ $s = 2 ] || [ -z \"$d\" ]; }; then d=; "                   \
    "elif [ \"$v\" = " OUR_VERSION " ]; then "                                                     \
    "echo \"cellspan: packages that ranks need can't be installed: $d\" >&2; d=-; "                \
    "else echo \"" SCRIPT_MARK SCRIPT_REFUSED "$d\"; exit 126; fi; }; "                            \
    "else head -c $s >/dev/null; fi; "
/* Says what came of a file. */
#define ANSWER                                                                                     \
    "if [ \"$i\" ] && [ \"$w$A\" = \"get$m\" ]; then "                                             \
    "if [ \"$d\" ]; then echo \"" SCRIPT_MARK SCRIPT_HAS "\"; else " SAY_MISSING "; fi; fi; "
/* A folder in memory is for this start alone: it is locked, and removed after the agent ($g). */
#define LOCK                                                                                       \
    "case $d in /dev/shm/*) g=$d; exec 9<\"$d\"; "                                                 \
    "\"$y\" -I -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_SH)';; esac; "

/* The shell stays until it has removed that folder. An engine's signals come to it: they are passed
 * on to the agent, for which some are notices. Only a `wait` lets a shell act on a signal at once,
 * and it ends with each ($r); what is in the background has no stdin but by another descriptor. A
 * second `wait` for what has ended may give 127, and is not the agent's exit status then. */
#define RUN_AND_REMOVE                                                                             \
    "trap '' USR1 USR2; exec 8<&0; \"$a\" \"$@\" <&8 8<&- & c=$!; r=1; s=127; "                    \
    "for p in HUP INT TERM USR1 USR2; do trap \"r=1; kill -s $p $c 2>/dev/null\" $p; done; "       \
    "while [ \"$r\" ]; do r=; wait $c; p=$?; [ $p = 127 ] || s=$p; done; rm -rf \"$g\"; exit $s"

/* Reads lines of the launcher until it has what it needs: one SCRIPT_PUT, or, where many read the
 * same, all up to SCRIPT_GO. */
static int add_wait(struct buf *out, const struct script_spec *spec)
{
    const int rc = buf_add_text(out, "while w=; IFS=' ' read -r w N H M A O T; "
                                     "[ \"$w\" = put ] || [ \"$w\" = get ]; do " TAKE) < 0 ||
                   buf_add_text(out, spec->together ? ANSWER "done; " REMOVE_FOLDER
                                                             "; trap - EXIT HUP INT TERM; "
                                                             "[ \"$w\" = go ] || exit 127; "
                                                    : "break; done; ") < 0 ||
                   buf_add_text(out, "[ -z \"$i\" ] || [ \"$d\" ] || [ \"$v\" = " OUR_VERSION
                                     " ] || exit 127; [ \"$d\" != - ] || d=; ") < 0;

    return rc ? -1 : 0;
}

/* Adds for each architecture $k and $z, where packages may be sent, and the question for them. */
static int add_packages(struct buf *out, const struct payload *p)
{
    if (!p->lacks)
        return 0;
    if (buf_add_text(out, "L=") < 0 || words_quote(out, p->lacks) < 0 ||
        buf_add_text(out, "; case $m in ") < 0)
        return -1;
    for (size_t i = 0; i < p->n; i++) {
        const char *const arch = p->row[i].arch, *const also = strchr(arch, PAYLOAD_ALSO);
        char alone[sizeof p->row[i].arch];

        snprintf(alone, sizeof alone, "%.*s", (int)strcspn(arch, (char[]){ PAYLOAD_ALSO, '\0' }),
                 arch);
        if (also && !p->row[i].why &&
            (words_quote(out, alone) < 0 || buf_add_text(out, ") k=") < 0 ||
             words_quote(out, arch) < 0 || buf_add_text(out, "; z=") < 0 ||
             words_quote(out, also + 1) < 0 || buf_add_text(out, ";; ") < 0))
            return -1;
    }
    return buf_add_text(out, "esac; " ASK_PACKAGES);
}

/* If $a is not the agent of our version, or packages are lacking: takes that of an earlier start,
 * or waits for the launcher's. $i: the folder that is wanted; "": none. */
static int add_install(struct buf *out, const struct script_spec *spec)
{
    const struct payload *p = spec->payload;

    if (buf_add_text(out, "q=") < 0 || words_quote(out, p->python) < 0 ||
        buf_add_text(out, "; m=$(uname -m); i=; d=; F=; y=; k=; u=; ") < 0 ||
        (spec->together && buf_addf(out, MAKE_FOLDER, SCRIPT_FEW) < 0) ||
        add_packages(out, p) < 0 ||
        buf_add_text(out, ASK_VERSION "if [ \"$v\" != " OUR_VERSION
                                      " ] || [ \"$u\" ]; then m=${u:-$m}; h=; case $m in ") < 0)
        return -1;
    for (size_t i = 0; i < p->n; i++)
        if (!p->row[i].why &&
            (words_quote(out, p->row[i].arch) < 0 ||
             buf_addf(out, ") h=%.*s;; ", (int)PAYLOAD_FOLDER, p->row[i].hash) < 0))
            return -1;
    if (buf_add_text(out, "esac; " FIND_SENT "if [ -z \"$d\" ]; then [ ! -x \"$a\" ] || "
                          "[ \"$v\" = " OUR_VERSION " ] || "
                          "echo \"" SCRIPT_MARK SCRIPT_VERSION "${v:-a " AGENT
                          " that does not run}\"; " ASK_LIBC SAY_MISSING "; else i=; fi; fi; ") < 0)
        return -1;
    if (buf_add_text(out, spec->together ? "[ \"$i\" ] || echo \"" SCRIPT_MARK SCRIPT_HAS "\"; { "
                                         : "[ -z \"$i\" ] || { ") < 0 ||
        add_wait(out, spec) < 0 || buf_add_text(out, "}; ") < 0)
        return -1;
    return buf_add_text(out, "if [ \"$d\" ]; then " LOCK "a=$d/libexec/cellspan/" AGENT
                             "; v=" OUR_VERSION "; fi; ");
}

/* words_quote() needs it. */
#define SET_NEWLINE "n=$(printf \"\\nx\"); n=${n%x}; "

static int add_cwd(struct buf *out, const struct script_spec *spec)
{
    if (!spec->cwd)
        return 0;
    return buf_add_text(out, "cd -- ") < 0 || words_quote(out, spec->cwd) < 0 ||
                   buf_add_text(out, " >/dev/null 2>&1; ") < 0
               ? -1
               : 0;
}

static int add_all(struct buf *out, const struct script_spec *spec)
{
    const char *const name = path_name(spec->command[0]);

    if (buf_add_text(out, "g=; " SET_NEWLINE) < 0 || add_cwd(out, spec) < 0)
        return -1;
    if (add_settings(out, spec) < 0)
        return -1;
    if (buf_add_text(out, "a=; for p in") < 0 || add_candidates(out, spec) < 0 ||
        buf_add_text(out, "; do if [ -f \"$p\" ] && [ -x \"$p\" ]; then a=$p; break; fi; done; ") <
            0 ||
        (!is_told(spec->prefix) && !(spec->image && script_installs(spec)) &&
         add_search(out, name) < 0) ||
        (script_installs(spec) && add_install(out, spec) < 0) ||
        buf_add_text(out, "[ -x \"$a\" ] || { echo " SCRIPT_MARK SCRIPT_MISSING "; exit 127; }; ") <
            0)
        return -1;
    if (strcmp(name, AGENT) == 0 &&
        ((!script_installs(spec) && buf_add_text(out, ASK_VERSION) < 0) ||
         buf_add_text(out, "echo \"" SCRIPT_MARK SCRIPT_VERSION "$v\"; ") < 0))
        return -1;
    if (buf_add_text(out, MACHINE) < 0)
        return -1;
    if (buf_add_text(out, "echo \"" SCRIPT_MARK SCRIPT_FOUND "$a\"; set --") < 0)
        return -1;
    for (char *const *arg = spec->command + 1; *arg; arg++)
        if (buf_add_text(out, " ") < 0 || words_quote(out, *arg) < 0)
            return -1;
    return buf_add_text(out, "; [ \"$g\" ] || exec \"$a\" \"$@\"; " RUN_AND_REMOVE);
}

/* ---- in a container ---- */

/* The Python is the image's: that of the notebook's version if it has one. What the user has put
 * into the home folder for other Pythons is not for it. %s: "python3.11 ", or "". */
#define INSIDE                                                                                      \
    "[ -z \"$1\" ] || rm -f \"$1\"; cd -- \"$2\" 2>/dev/null; echo \"" SCRIPT_MARK CONTAINER_INSIDE \
    "\"; PYTHONNOUSERSITE=1; export PYTHONNOUSERSITE; "
#define FIND_ITS_PYTHON                                                                            \
    "if [ -z \"$CELLSPAN_REMOTE_PYTHON\" ]; then for p in %spython3 python; do "                   \
    "if command -v \"$p\" >/dev/null 2>&1; then CELLSPAN_REMOTE_PYTHON=$(command -v \"$p\"); "     \
    "export CELLSPAN_REMOTE_PYTHON; break; fi; done; fi; "                                         \
    "[ \"$CELLSPAN_REMOTE_PYTHON\" ] || { echo \"" SCRIPT_MARK CONTAINER_UNABLE                    \
    "the image has no Python: there is no %spython3 or python on its PATH\"; exit 126; }; "

/* The version of the notebook's Python, as "3.11"; "": not known. */
static void python_version(const struct payload *p, char version[static 16])
{
    const char *const home = getenv("CELLSPAN_HOME_PYTHON"), *also = NULL;

    for (size_t i = 0; p && !also && i < p->n; i++)
        also = strchr(p->row[i].arch, PAYLOAD_ALSO);
    if (!also && (also = home ? strstr(home, "python3.") : NULL))
        also += strlen("python") - 1;
    snprintf(version, 16, "%.*s", also ? (int)strspn(also + 1, "0123456789.") : 0,
             also ? also + 1 : "");
}

static int add_inside(struct buf *out, const struct script_spec *spec)
{
    char version[16], name[32] = "", comma[32] = "";
    struct script_spec inside = *spec;

    inside.cwd = NULL; /* it is there already */
    inside.settings = 0;
    python_version(spec->payload, version);
    if (version[0]) {
        snprintf(name, sizeof name, "python%s ", version);
        snprintf(comma, sizeof comma, "python%s, ", version);
    }
    return buf_add_text(out, INSIDE SET_NEWLINE) < 0 || add_settings(out, spec) < 0 ||
                   buf_addf(out, FIND_ITS_PYTHON, name, comma) < 0 || add_all(out, &inside) < 0
               ? -1
               : 0;
}

static int add_outside(struct buf *out, const struct script_spec *spec, struct err *err)
{
    struct buf inside = BUF_INIT;
    struct container_spec container = { .image = spec->image,
                                        .prefix = spec->prefix,
                                        .agent = spec->command[0],
                                        .silent = !spec->together };
    int rc = add_inside(&inside, spec);

    container.inside = inside.p;
    if (rc == 0)
        rc = buf_add_text(out, SET_NEWLINE) < 0 || add_cwd(out, spec) < 0;
    rc = rc ? err_set(err, "out of memory") : container_add(out, &container, err);
    buf_release(&inside);
    return rc;
}

size_t script_settings(struct script_setting set[static SCRIPT_SETTINGS])
{
    static const char *const name[SCRIPT_OTHERS] = {
        "OMP_NUM_THREADS",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "TORCH_NCCL_ENABLE_MONITORING",
        "TORCH_NCCL_DUMP_ON_TIMEOUT",
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC",
        "TORCH_NCCL_RETHROW_CUDA_ERRORS",
    };
    size_t n = 0;

    for (size_t i = 0; i < N_SETTINGS; i++)
        if (setting_rows[i].hosts && (set[n].value = setting_text((enum setting)i)))
            set[n++].name = setting_rows[i].name;
    for (size_t i = 0; i < SCRIPT_OTHERS; i++)
        if ((set[n].value = getenv(name[i])))
            set[n++].name = name[i];
    return n;
}

bool script_installs(const struct script_spec *spec)
{
    return spec->payload && !is_told(spec->prefix) &&
           strcmp(path_name(spec->command[0]), AGENT) == 0;
}

int script_line(struct buf *out, const struct script_spec *spec, struct err *err)
{
    if (modules_add(out, spec->modules, err) < 0)
        return -1;
    if (spec->image && add_outside(out, spec, err) < 0)
        return -1;
    if ((!spec->image && add_all(out, spec) < 0) || buf_add_text(out, "\n") < 0)
        return err_set(err, "out of memory");
    return 0;
}

const char *script_install(const char *command, char text[static SCRIPT_INSTALL_SIZE])
{
    const char *last = strrchr(command, ' ');

    snprintf(text, SCRIPT_INSTALL_SIZE, "%s%s", command,
             last && strcmp(last, " cellspan") == 0 ? "==" CELLSPAN_VERSION : "");
    return text;
}

void script_missing(char *text, size_t size, const char *program, const char *prefix,
                    const char *version, const char *unsent)
{
    const char *const also = unsent ? "; it can't be sent there: " : "";
    char install[SCRIPT_INSTALL_SIZE];

    if (!unsent)
        unsent = "";
    if (is_told(prefix))
        snprintf(
            text, size,
            "there is no %s/libexec/cellspan/%s, where CELLSPAN_REMOTE_PREFIX says; set it, in the notebook's "
            "environment, to the folder that holds it there, or unset it",
            prefix, program);
    else if (version)
        snprintf(text, size,
                 "it has %.60s, and here is " CELLSPAN_VERSION ": `%s` there, or update here%s%s",
                 version, script_install(CELLSPAN_INSTALL, install), also, unsent);
    else
        snprintf(text, size,
                 "there is no %s; `" CELLSPAN_INSTALL
                 "` there, or set CELLSPAN_REMOTE_PREFIX to the folder that holds "
                 "libexec/cellspan/%s on that machine%s%s",
                 program, program, also, unsent);
}
