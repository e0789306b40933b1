/* SPDX-License-Identifier: BSD-3-Clause */
/* container.c - see container.h. A setting has the words of each program's command; {mounts} and
 * the like stand for words that depend on the node, so they are made there. Names of images and
 * folders are only ever in quotes or in variables: nothing of them is run. */
#include "launchers/container.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "base/slice.h"
#include "launchers/agent_script.h"
#include "launchers/launcher.h"
#include "launchers/environment_modules.h"

/* Shell code for what stands in {} in a command: it adds words to "$@". */
struct container_words {
    const char *mount; /* for the folder $p */
    const char *env;   /* for the variable whose name is $v */
    const char *gpus;  /* if the node has GPUs of NVIDIA */
    const char *user;
};

struct container_row {
    const char *name;
    enum setting setting; /* its command */
    const char *command;  /* unless the setting says another one; the first word is the program */
    struct container_words words;
    /* sets $i to what the command takes, and gets it if need be; $w is the program */
    const char *get;
    const char *also; /* runs before the command; NULL: nothing */
};

#define SHARED                                                                                     \
    "--network=host --pid=host --ipc=host --uts=host --log-driver=none --security-opt=label=disable "
#define AS_USER "set -- \"$@\" --user \"$(id -u):$(id -g)\"; "

/* Something is left of a container whose conmon was killed, as by scancel. Its agent may still be
 * there: it ends, but may first wait whether it is to cancel its job. Nothing of this holds the
 * script's own output open. */
#define REMOVE_ENDED                                                                               \
    "({ \"$w\" ps -a --filter label=cellspan --filter status=running --filter status=exited "      \
    "--format '{{.ID}} {{.Pid}}' | while read -r v p; do k=60; [ ! -d \"/proc/$p\" ] || "          \
    "c=$(\"$w\" container inspect --format '{{.State.ConmonPid}}' \"$v\" </dev/null); "            \
    "while [ -d \"/proc/$p\" ] && [ ! -d \"/proc/$c\" ] && [ $k != 0 ]; do sleep 1; "              \
    "k=$((k - 1)); done; [ -d \"/proc/$p\" ] || \"$w\" rm -f \"$v\" </dev/null; "                  \
    "done; } </dev/null >/dev/null 2>&1 &); "

/* in the order of enum container */
static const struct container_row rows[] = {
    { .name = "apptainer",
      .setting = SETTING_APPTAINER,
      .command = "apptainer exec --cleanenv --no-eval {user} {gpus} {mounts} {env} {image}",
      .words = { .mount = "set -- \"$@\" --bind \"$p:$p\"; ",
                 .env = "eval \"APPTAINERENV_$v=\\$$v; export APPTAINERENV_$v\"; ",
                 .gpus = "set -- \"$@\" --nv; ",
                 .user = "" },
      /* the command itself gets it, and looks first whether it has it */
      .get =
          "case $i in *:*) says \"gets the image $i by apptainer, unless it has it: that may take "
          "minutes\";; *) [ -e \"$i\" ] || unable \"there is no image $i\";; esac; " },
    { .name = "podman",
      .setting = SETTING_PODMAN,
      .command =
          "podman run --rm --interactive --pull=never --label=cellspan " SHARED
          "--cgroups=no-conmon --ulimit=host --entrypoint= {user} {gpus} {mounts} {env} {image}",
      .words = { .mount = "set -- \"$@\" -v \"$p:$p\"; ",
                 .env = "set -- \"$@\" -e \"$v\"; ",
                 .gpus = "set -- \"$@\" --device nvidia.com/gpu=all; ",
                 .user = AS_USER "[ \"$(id -u)\" = 0 ] || set -- \"$@\" --userns=keep-id; " },
      .get = "i=${i#docker://}; \"$w\" image exists \"$i\" </dev/null >/dev/null 2>&1 || "
             "get podman \"$w\" pull \"$i\"; ",
      .also = REMOVE_ENDED },
    { .name = "docker",
      .setting = SETTING_DOCKER,
      .command = "docker run --rm --interactive --label=cellspan " SHARED
                 "--ulimit=memlock=-1 --entrypoint= {user} {gpus} {mounts} {env} {image}",
      .words = { .mount = "set -- \"$@\" -v \"$p:$p\"; ",
                 .env = "set -- \"$@\" -e \"$v\"; ",
                 .gpus = "set -- \"$@\" --gpus all; ",
                 .user = AS_USER "for v in $(id -G); do set -- \"$@\" --group-add \"$v\"; done; " },
      .get = "i=${i#docker://}; \"$w\" image inspect \"$i\" </dev/null >/dev/null 2>&1 || "
             "get docker \"$w\" pull \"$i\"; " },
    { .name = "enroot",
      .setting = SETTING_ENROOT,
      .command = "enroot start {user} {gpus} {mounts} {env} {image}",
      /* each mount is a line of fstab, in which some letters are written as numbers */
      .words = { .mount =
                     "set -- \"$@\" --mount \"$(printf %s \"$p\" | sed 's/\\\\/\\\\134/g; "
                     "s/ /\\\\040/g; s/:/\\\\072/g; s/.*/&:&:none:x-create=dir,rbind,rw/')\"; ",
                 .env = "set -- \"$@\" --env \"$v\"; ",
                 .gpus =
                     "NVIDIA_VISIBLE_DEVICES=${NVIDIA_VISIBLE_DEVICES:-all}; "
                     "NVIDIA_DRIVER_CAPABILITIES=${NVIDIA_DRIVER_CAPABILITIES:-compute,utility}; "
                     "export NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES; ",
                 /* so that the image's own start-up is not run */
                 .user = "f=$(mktemp /tmp/cellspan-rc-XXXXXX) && echo 'exec \"$@\"' >\"$f\" || "
                         "unable \"nothing can be written to /tmp\"; set -- \"$@\" --rc \"$f\"; " },
      /* registries are written with a # after them */
      .get = "case $i in *://*) u=${i#*://}; case ${u%%/*} in \"$u\"|*'#'*) ;; *.*|*:*|localhost) "
             "i=${i%%://*}://${u%%/*}'#'${u#*/};; esac; "
             "o=${XDG_CACHE_HOME:-$HOME/.cache}/cellspan-images; mkdir -p \"$o\"; "
             "o=$o/$(printf %s \"$i\" | tr -c A-Za-z0-9._- +).sqsh; "
             "[ -f \"$o\" ] || { get enroot \"$w\" import -o \"$o.$$\" \"$i\"; "
             "mv \"$o.$$\" \"$o\" || unable \"nothing can be written to $o\"; }; i=$o;; esac; " },
};

#define N_ROWS (sizeof rows / sizeof *rows)

/* The first says what takes minutes; unable ends the script; get runs a command that gets the
 * image. */
#define FUNCTIONS                                                                                  \
    "f=; says() { printf '%%s\\n' '" SCRIPT_MARK CONTAINER_SAYS "'\"$1\"; }; "                     \
    "unable() { printf '%%s\\n' '" SCRIPT_MARK CONTAINER_UNABLE "'\"$1\"; exit 126; }; "           \
    "get() { says \"gets the image $i by $1, which may take minutes\"; c=$1; shift; %s"            \
    "[ $r = 0 ] || unable \"$c can't get the image $i\"; }; "
#define GET "\"$@\" </dev/null >&2; r=$?; "
/* If stdin ends meanwhile, nobody wants it any more. */
#define GET_WATCHED                                                                                   \
    "exec 8<&0; \"$@\" </dev/null >&2 & p=$!; { read -r v <&8 || kill \"$p\"; } 2>/dev/null & v=$!; " \
    "wait \"$p\"; r=$?; kill \"$v\" 2>/dev/null; wait \"$v\" 2>/dev/null; exec 8<&-; "

/* Of the node's environment the container gets these, and not the secret. */
#define PASSED                                                                                          \
    "(CELLSPAN|SLURM|SLURMD|CUDA|NVIDIA|NCCL|TORCH|PYTORCH|GLOO|UCX|FI|OMP|MKL|OPENBLAS|HF|JAX|XLA|LC)" \
    "_[A-Za-z0-9_]*|HOME|USER|LOGNAME|LANG|TZ|TERM|XDG_RUNTIME_DIR|XDG_CACHE_HOME|"                     \
    "[A-Za-z]*_[pP][rR][oO][xX][yY]"
#define FOR_EACH_VARIABLE                                                                          \
    "for v in $(env | sed -n -E 's/^(" PASSED ")=.*/\\1/p'); do "                                  \
    "[ \"$v\" != CELLSPAN_SECRET ] && eval \"[ \\\"\\${$v+x}\\\" ]\" || continue; "
/* Each folder once, and none that lies in another one. What is of the system is the image's. */
#define FOR_EACH_FOLDER                                                                            \
    "k=:; for p in \"$HOME\" \"$PWD\" /tmp \"$XDG_RUNTIME_DIR\" \"$XDG_CACHE_HOME\"%s; do "        \
    "case $p in /|/bin|/boot|/dev|/dev/*|/etc|/home|/lib|/lib64|/mnt|/opt|/proc|/proc/*|/run|"     \
    "/sbin|/srv|/sys|/sys/*|/usr|/usr/bin|/usr/lib|/usr/local|/var|*\"$n\"*) continue;; "          \
    "/*) ;; *) continue;; esac; [ -d \"$p\" ] || continue; q=$p; "                                 \
    "while [ \"$q\" ]; do case $k in *:\"$q\":*) continue 2;; esac; q=${q%%/*}; done; "            \
    "%s k=$k$p:; "
/* Such a folder can't be named to the others. */
#define NO_COLON                                                                                   \
    "case $p in *[:,]*) echo \"cellspan: the container does not see $p: there is a colon or a "    \
    "comma in its name\" >&2; continue;; esac;"

static int no_memory(struct err *err)
{
    return err_set(err, "out of memory");
}

/* The folders that hold cellspan where it is installed there, as words. */
static int installed(struct buf *out, const struct container_spec *spec)
{
    static const char *const below[] = { "libexec/cellspan", "lib/cellspan" };
    const char *const slash = strstr(spec->agent, "/libexec/cellspan/");
    const bool told = spec->prefix && *spec->prefix;
    char *const here = slash ? strndup(spec->agent, (size_t)(slash - spec->agent)) : NULL;
    const char *prefix = told ? spec->prefix : here;
    const bool of_home = prefix && strncmp(prefix, "~/", 2) == 0;
    int rc = slash && !here ? -1 : 0;

    for (size_t i = 0; rc == 0 && prefix && i < 2; i++)
        rc = buf_add_text(out, of_home ? " \"$HOME\"/" : " ") < 0 ||
                     words_quote(out, of_home ? prefix + 2 : prefix) < 0 ||
                     buf_addf(out, "/%s", below[i]) < 0
                 ? -1
                 : 0;
    free(here);
    return rc;
}

static int add_mounts(struct buf *out, const struct container_row *row,
                      const struct container_spec *spec)
{
    struct buf more = BUF_INIT;
    const int rc = installed(&more, spec) < 0 ||
                           buf_addf(out, FOR_EACH_FOLDER, more.p ? more.p : "",
                                    row->setting == SETTING_ENROOT ? "" : NO_COLON) < 0 ||
                           buf_addf(out, "%sdone; ", row->words.mount) < 0
                       ? -1
                       : 0;

    buf_release(&more);
    return rc;
}

/* Adds what stands for the word {…}. 0: it was none, or is not known. */
static int add_special(struct buf *out, const struct container_row *row, const char *word,
                       const struct container_spec *spec, struct err *err)
{
    int rc;

    if (strcmp(word, "{mounts}") == 0)
        rc = add_mounts(out, row, spec);
    else if (strcmp(word, "{env}") == 0)
        rc = buf_addf(out, FOR_EACH_VARIABLE "%sdone; ", row->words.env);
    else if (strcmp(word, "{gpus}") == 0)
        rc = buf_addf(out, "if [ -e /dev/nvidiactl ]; then %sfi; ", row->words.gpus);
    else if (strcmp(word, "{user}") == 0)
        rc = buf_add_text(out, row->words.user);
    else if (strcmp(word, "{image}") == 0)
        rc = buf_add_text(out, "set -- \"$@\" \"$i\"; ");
    else
        return err_set(
            err, "%s: %s stands for nothing: write {user}, {gpus}, {mounts}, {env} or {image}",
            setting_rows[row->setting].name, word);
    return rc < 0 ? no_memory(err) : 0;
}

static bool is_special(const char *word)
{
    return word[0] == '{' && word[strlen(word) - 1] == '}';
}

/* Its command's words; the first is the program. */
static int read_command(struct words *words, const struct container_row *row, struct err *err)
{
    const char *const text = setting_text(row->setting);
    const char *const name = setting_rows[row->setting].name;
    struct err why = { "" };
    bool has_image = false;

    if (words_split(words, text ? text : row->command, &why) < 0)
        return err_set(err, "%s: %s", name, why.text);
    for (size_t i = 0; i < words->n; i++)
        has_image = has_image || strcmp(words->v[i], "{image}") == 0;
    if (!words->n || is_special(words->v[0]))
        return err_set(err, "%s: it begins with no program: write one", name);
    return has_image
               ? 0
               : err_set(err, "%s: {image} is not in it: write it where the image is to stand",
                         name);
}

/* Adds what runs the image by one of the programs. */
static int add_row(struct buf *out, const struct container_row *row, const struct words *words,
                   const struct container_spec *spec, struct err *err)
{
    int rc = buf_add_text(out, "w=") < 0 || words_quote(out, words->v[0]) < 0 ||
                     buf_addf(out, "; %s%sset --; ", row->get, row->also ? row->also : "") < 0
                 ? no_memory(err)
                 : 0;

    for (size_t i = 0; rc == 0 && i < words->n; i++)
        if (is_special(words->v[i]))
            rc = add_special(out, row, words->v[i], spec, err);
        else if (buf_add_text(out, "set -- \"$@\" ") < 0 || words_quote(out, words->v[i]) < 0 ||
                 buf_add_text(out, "; ") < 0)
            rc = no_memory(err);
    return rc;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The only program that runs images of this kind; CONTAINER_AUTO: several do. */
static enum container only_one(const char *image)
{
    static const char *const apptainers[] = { "library://", "shub://", "oras://" };

    for (size_t i = 0; i < sizeof apptainers / sizeof *apptainers; i++)
        if (strncmp(image, apptainers[i], strlen(apptainers[i])) == 0)
            return CONTAINER_APPTAINER;
    if (ends_with(image, ".sqsh"))
        return CONTAINER_ENROOT;
    return ends_with(image, ".sif") || ends_with(image, "/") ? CONTAINER_APPTAINER : CONTAINER_AUTO;
}

/* Which are tried? CONTAINER_AUTO: each. */
static int choose(const char *image, enum container *which, struct err *err)
{
    const enum container set = (enum container)setting_value(SETTING_CONTAINER);
    const enum container only = only_one(image);

    *which = set ? set : only;
    if (!set || !only || set == only)
        return 0;
    return err_set(err, "--in %s: only %s runs such an image, and CELLSPAN_CONTAINER is %s", image,
                   rows[only - 1].name, rows[set - 1].name);
}

static int add_unable(struct buf *out, enum container which, const char *image)
{
    const char *const name = which ? rows[which - 1].name : NULL;
    struct buf text = BUF_INIT;
    int rc;

    if (name)
        rc = buf_addf(
            &text,
            "%s is not on its PATH, and runs the image %s: install it there, or name where "
            "it is (%s, in the notebook's environment)",
            name, image, setting_rows[rows[which - 1].setting].name);
    else
        rc = buf_addf(
            &text,
            "none of apptainer, podman, docker and enroot is on its PATH, and one must run the "
            "image %s: install one there, or name where it is (CELLSPAN_APPTAINER, …)",
            image);
    if (rc == 0)
        rc = buf_add_text(out, "else unable ") < 0 || words_quote(out, text.p) < 0 ||
                     buf_add_text(out, "; fi; ") < 0
                 ? -1
                 : 0;
    buf_release(&text);
    return rc;
}

/* The image as the commands have it. ~/ is the home folder there. */
static int add_image(struct buf *out, const char *image)
{
    const bool of_home = strncmp(image, "~/", 2) == 0;

    return buf_add_text(out, of_home ? "i=\"$HOME\"/" : "i=") < 0 ||
                   words_quote(out, of_home ? image + 2 : image) < 0 || buf_add_text(out, "; ") < 0
               ? -1
               : 0;
}

static int add_programs(struct buf *out, const struct container_spec *spec, enum container which,
                        struct err *err)
{
    const char *word = "if";
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < N_ROWS; i++) {
        struct words words = WORDS_INIT;

        if (which && which - 1 != i)
            continue;
        rc = read_command(&words, &rows[i], err);
        if (rc == 0 &&
            (buf_addf(out, "%s command -v ", word) < 0 || words_quote(out, words.v[0]) < 0 ||
             buf_add_text(out, " >/dev/null 2>&1; then ") < 0))
            rc = no_memory(err);
        if (rc == 0)
            rc = add_row(out, &rows[i], &words, spec, err);
        word = "elif";
        words_release(&words);
    }
    return rc;
}

int container_add(struct buf *out, const struct container_spec *spec, struct err *err)
{
    enum container which;

    if (spec->image[0] == '-' || strpbrk(spec->image, "\n\r\t"))
        return err_set(
            err, "--in %s: that is no name of an image: write one, as docker://NAME or ~/FILE.sif",
            spec->image);
    if (choose(spec->image, &which, err) < 0)
        return -1;
    if (buf_addf(out, FUNCTIONS, spec->silent ? GET_WATCHED : GET) < 0 ||
        add_image(out, spec->image) < 0 || buf_add_text(out, "s=") < 0 ||
        words_quote(out, spec->inside) < 0 || buf_add_text(out, "; ") < 0)
        return no_memory(err);
    if (add_programs(out, spec, which, err) < 0)
        return -1;
    return add_unable(out, which, spec->image) < 0 ||
                   buf_add_text(out, "exec \"$@\" sh -c \"$s\" sh \"$f\" \"$PWD\"") < 0
               ? no_memory(err)
               : 0;
}

int container_check(const char *image, struct err *err)
{
    const struct container_spec spec = { .image = image, .inside = ":", .agent = "/" };
    struct buf code = BUF_INIT;
    const int rc = container_add(&code, &spec, err);

    buf_release(&code);
    return rc;
}

/* ---- what the script of a node has said before it looks for the agent ---- */

void container_state_release(struct container_state *s)
{
    free(s->unable);
    s->unable = NULL;
}

void container_state_word(struct container_state *s, unsigned agent, const char *node,
                          const char *word)
{
    if (text_begins(word, MODULES_FAILED)) {
        text_replace(&s->unable, word + strlen(MODULES_FAILED));
        s->whole = true;
    }
    if (!s->image)
        return;
    if (strcmp(word, CONTAINER_INSIDE) == 0)
        s->inside = true;
    else if (text_begins(word, CONTAINER_UNABLE))
        text_replace(&s->unable, word + strlen(CONTAINER_UNABLE));
    else if (text_begins(word, SCRIPT_FOUND))
        s->busy = false;
    else if (text_begins(word, CONTAINER_SAYS)) {
        s->busy = true;
        report_busy(agent, "%s %s", node, word + strlen(CONTAINER_SAYS));
    }
}

bool container_state_failed(const struct container_state *s)
{
    return s->unable || (s->image && !s->inside);
}

void container_state_text(const struct container_state *s, const char *how, const char *said,
                          char *text, size_t size)
{
    const char *const colon = *said ? ": " : "";

    if (s->whole && s->unable)
        snprintf(text, size, "%s", s->unable);
    else if (s->unable)
        snprintf(text, size, "%.500s%s%.300s", s->unable, colon, said);
    else
        snprintf(text, size, "no container of the image %.200s began (%s)%s%.300s", s->image, how,
                 colon, said);
}
