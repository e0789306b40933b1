/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/kernels.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/path.h"
#include "base/process.h"
#include "cli/owners.h"

#define PROGRAM   "cellspan-kernel"
#define WORDS_MAX 65536u /* bytes of a command line or an environment that are read */

static void kernel_release(struct running_kernel *k)
{
    free(k->notebook);
    free(k->file);
}

void kernels_release(struct kernels *k)
{
    for (size_t i = 0; i < k->n; i++)
        kernel_release(&k->of[i]);
    free(k->of);
    free(k->more);
    *k = (struct kernels)KERNELS_INIT;
}

/* The words of /proc/PID/NAME, each ended by a NUL, and one NUL more. *words: the caller's; NULL:
 * it can't be read. *n: bytes without the last NUL. -1: memory is out. */
static int words_of(pid_t pid, const char *name, char **words, size_t *n)
{
    char path[64];

    *n = 0;
    if (!(*words = malloc(WORDS_MAX + 2)))
        return -1;
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, name);
    *n = file_start(path, *words, WORDS_MAX).n;
    (*words)[*n] = (*words)[*n + 1] = '\0';
    if (*n)
        return 0;
    free(*words);
    *words = NULL;
    return 0;
}

static const char *word_after(const char *words, size_t n, const char *name)
{
    for (const char *w = words; w < words + n; w += strlen(w) + 1)
        if (strcmp(w, name) == 0 && w + strlen(w) + 1 < words + n)
            return w + strlen(w) + 1;
    return NULL;
}

/* The value of a variable in the words of an environment. */
static const char *value_of(const char *words, size_t n, const char *name)
{
    const size_t size = strlen(name);

    for (const char *w = words; w < words + n; w += strlen(w) + 1)
        if (strncmp(w, name, size) == 0 && w[size] == '=')
            return w + size + 1;
    return NULL;
}

/* The words of a command with blanks between them; the program without its folder. */
static char *command_text(const char *words, size_t n)
{
    struct buf text = BUF_INIT;
    int rc = buf_add_text(&text, path_name(words));

    for (const char *w = words + strlen(words) + 1; rc == 0 && w < words + n; w += strlen(w) + 1)
        rc = buf_addf(&text, " %s", w);
    if (rc == 0)
        return buf_take(&text);
    buf_release(&text);
    return NULL;
}

/* What started the kernel: `cellspan run`, whose command names it better than a notebook could, or
 * a Jupyter server. -1: memory is out. */
static int read_parent(struct running_kernel *k)
{
    const pid_t parent = orphans_parent(k->pid);
    size_t n;
    char *words = NULL;

    if (parent > 1 && words_of(parent, "cmdline", &words, &n) < 0)
        return -1;
    if (!words)
        return 0;
    if (strcmp(path_name(words), "cellspan") == 0) {
        free(k->notebook);
        k->notebook = command_text(words, n);
        k->job = true;
    }
    for (const char *w = words; w < words + n && !k->job; w += strlen(w) + 1)
        k->served = k->served || strstr(path_name(w), "jupyter") != NULL;
    free(words);
    return k->notebook ? 0 : -1;
}

/* The state and the start (clock ticks after boot) of /proc/PID/stat: the first and the 20th field
 * after the name, which may hold anything but a NUL. false: there is no such process. */
static bool stat_of(pid_t pid, char *state, uint64_t *start)
{
    char path[64], text[1024], *at;
    size_t n;

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    n = file_start(path, text, sizeof text - 1).n;
    text[n] = '\0';
    if (!(at = strrchr(text, ')')) || sscanf(at + 1, " %c", state) != 1)
        return false;
    for (unsigned field = 0; field < 20 && at; field++)
        at = strchr(at + 1, ' ');
    *start = at ? strtoull(at, NULL, 10) : 0;
    return true;
}

bool kernel_runs(const struct running_kernel *k)
{
    uint64_t start;
    char state;

    return stat_of(k->pid, &state, &start) && start == k->start && state != 'Z' && state != 'X';
}

#ifdef __linux__
static bool same_namespace(pid_t pid, const char *kind)
{
    char path[64], ours[64], its[64];
    ssize_t n;

    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    n = readlink(path, ours, sizeof ours);
    snprintf(path, sizeof path, "/proc/%ld/ns/%s", (long)pid, kind);
    return n > 0 && readlink(path, its, sizeof its) == n && memcmp(ours, its, (size_t)n) == 0;
}

bool kernel_is_elsewhere(const struct running_kernel *k)
{
    static const char *const kind[] = { "mnt", "user", "pid", "net" };
    bool same = true;

    if (k->uid != 0 || geteuid() != 0)
        return false;
    for (size_t i = 0; same && i < sizeof kind / sizeof *kind; i++)
        same = same_namespace(k->pid, kind[i]);
    return !same || !kernel_runs(k); /* else it was another process */
}
#else
bool kernel_is_elsewhere(const struct running_kernel *k)
{
    (void)k;
    return false;
}
#endif

static uint64_t seconds_since(uint64_t start)
{
    char text[64] = "";
    const uint64_t up = file_number(file_start("/proc/uptime", text, sizeof text), 0);
    const long ticks = sysconf(_SC_CLK_TCK);

    return ticks <= 0 || start / (uint64_t)ticks > up ? 0 : up - start / (uint64_t)ticks;
}

/* NULL: memory is out. If the process has ended, the name is as it was given. One that is too long
 * to be opened is kept as one that is. */
static char *absolute(pid_t pid, const char *file)
{
    char path[64], cwd[PATH_MAX];
    struct buf whole = BUF_INIT;
    ssize_t n = 0;

    snprintf(path, sizeof path, "/proc/%ld/cwd", (long)pid);
    if (*file == '/' || (n = readlink(path, cwd, sizeof cwd)) <= 0)
        return strndup(file, PATH_MAX);
    if (buf_addf(&whole, "%.*s/%.*s", (int)n, cwd, PATH_MAX, file) == 0)
        return buf_take(&whole);
    buf_release(&whole);
    return NULL;
}

/* The notebook's path as the server gave it; else the connection file's name says something. NULL:
 * memory is out. */
static char *notebook_of(pid_t pid, const char *file)
{
    size_t n;
    char *words, *found;
    const char *path;

    if (words_of(pid, "environ", &words, &n) < 0)
        return NULL;
    path = words ? value_of(words, n, "JPY_SESSION_NAME") : NULL;
    found = strdup(path && *path ? path : file ? path_name(file) : "?");
    free(words);
    return found;
}

/* Of another user's only the end. -1: memory is out. */
static int shorten(struct running_kernel *k)
{
    const size_t n = strlen(k->notebook);
    size_t from = n > KERNELS_NAME_MAX ? n - KERNELS_NAME_MAX : 0;
    char *end;

    if (!k->foreign || !from)
        return 0;
    while (((unsigned char)k->notebook[from] & 0xc0) == 0x80) /* within a character of UTF-8 */
        from++;
    if (!(end = strdup(k->notebook + from)))
        return -1;
    free(k->notebook);
    k->notebook = end;
    return 0;
}

/* Is it a kernel? All but its names is known then. */
static bool is_kernel(pid_t pid, bool all, struct running_kernel *k)
{
    char path[64], program[PATH_MAX + 1], state;

    *k = (struct running_kernel){ .pid = pid };
    if (!process_uid(pid, &k->uid) || (!all && k->uid != geteuid()))
        return false;
    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)pid);
    program[file_start(path, program, sizeof program - 1).n] = '\0';
    if (strcmp(path_name(program), PROGRAM) != 0 || !stat_of(pid, &state, &k->start))
        return false;
    k->foreign = k->uid != geteuid();
    k->owner = k->uid;
    k->seconds = seconds_since(k->start);
    return true;
}

/* 1: it has its names; 0: it has ended; -1: memory is out. */
static int read_names(struct running_kernel *k)
{
    size_t n;
    char *words;
    const char *file;
    int rc = words_of(k->pid, "cmdline", &words, &n);

    if (rc < 0 || !words)
        return rc;
    file = word_after(words, n, "-f");
    if ((file && !(k->file = absolute(k->pid, file))) ||
        !(k->notebook = notebook_of(k->pid, file)) || read_parent(k) < 0 || shorten(k) < 0)
        rc = -1;
    free(words);
    return rc < 0 ? -1 : 1;
}

static int add(struct kernels *k, const struct running_kernel *one)
{
    const size_t room = k->room ? 2 * k->room : 8;
    struct running_kernel *more;

    if (k->n == k->room) {
        if (!(more = realloc(k->of, room * sizeof *more)))
            return -1;
        k->of = more;
        k->room = room;
    }
    k->of[k->n++] = *one;
    return 0;
}

static int older_first(const void *a, const void *b)
{
    const struct running_kernel *x = a, *y = b;

    if (x->seconds != y->seconds)
        return x->seconds > y->seconds ? -1 : 1;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int by_owner(const void *a, const void *b)
{
    const struct running_kernel *x = a, *y = b;

    if (x->owner != y->owner)
        return x->owner < y->owner ? -1 : 1;
    return older_first(a, b);
}

static int count_more(struct kernels *k, uid_t owner)
{
    struct kernels_more *more;

    if (!k->n_more || k->more[k->n_more - 1].owner != owner) {
        if (!(more = realloc(k->more, (k->n_more + 1) * sizeof *more)))
            return -1;
        k->more = more;
        k->more[k->n_more++] = (struct kernels_more){ .owner = owner };
    }
    k->more[k->n_more - 1].n++;
    return 0;
}

static int find_owners(struct kernels *k)
{
    struct owners o = OWNERS_INIT;

    if (owners_load(&o, "/etc/passwd", "/etc/subuid") < 0)
        return -1;
    for (size_t i = 0; i < k->n; i++) {
        k->of[i].owner = owners_of(&o, k->of[i].uid);
        k->of[i].known = owners_know(&o, k->of[i].uid);
    }
    owners_release(&o);
    return 0;
}

/* Of others, only the oldest ones stay. */
static int leave_out(struct kernels *k)
{
    size_t stay = 0, before = 0;

    if (find_owners(k) < 0)
        return -1;
    qsort(k->of, k->n, sizeof *k->of, by_owner);
    for (size_t i = 0; i < k->n; i++) {
        const struct running_kernel one = k->of[i];

        before = i && one.owner == k->of[i - 1].owner ? before + 1 : 0;
        if (!one.foreign || before < KERNELS_OWNER_MAX)
            k->of[stay++] = one;
        else if (count_more(k, one.owner) < 0)
            return -1;
    }
    k->n = stay;
    return 0;
}

static int name_all(struct kernels *k)
{
    size_t named = 0;
    int rc = 0;

    for (size_t i = 0; i < k->n; i++) {
        struct running_kernel one = k->of[i];

        if (rc >= 0 && (rc = read_names(&one)) > 0)
            k->of[named++] = one;
        else
            kernel_release(&one);
    }
    k->n = named;
    return rc < 0 ? -1 : 0;
}

/* None of them has its names. */
static int list_all(struct kernels *k, DIR *dir, bool all)
{
    struct dirent *entry;

    while ((entry = readdir(dir))) {
        const long pid = strtol(entry->d_name, NULL, 10);
        struct running_kernel one;

        if (pid > 0 && is_kernel((pid_t)pid, all, &one) && add(k, &one) < 0)
            return -1;
    }
    return 0;
}

int kernels_find(struct kernels *k, bool all, struct err *err)
{
    DIR *dir = opendir("/proc");
    int rc;

    if (!dir)
        return err_set(err, "/proc: %s: it has the list of processes, and must be mounted",
                       strerror(errno));
    rc = list_all(k, dir, all);
    closedir(dir);
    if (rc == 0 && all && k->n)
        rc = leave_out(k);
    if (rc == 0 && k->n) {
        qsort(k->of, k->n, sizeof *k->of, older_first);
        rc = name_all(k);
    }
    return rc < 0 ? err_set(err, "out of memory") : 0;
}

static bool is_number(const char *word)
{
    return *word && word[strspn(word, "0123456789")] == '\0';
}

static bool is_meant(const struct running_kernel *k, const char *word)
{
    if (is_number(word))
        return strtol(word, NULL, 10) == (long)k->pid;
    return strcmp(k->notebook, word) == 0 || strcmp(path_name(k->notebook), word) == 0;
}

const struct running_kernel *kernels_named(const struct kernels *k, const char *word,
                                           struct err *err)
{
    const struct running_kernel *found = NULL;
    char path[64];

    for (size_t i = 0; i < k->n; i++) {
        if (!is_meant(&k->of[i], word))
            continue;
        if (found)
            return err_null(err, "%s: kernels %ld and %ld have that notebook; give the pid", word,
                            (long)found->pid, (long)k->of[i].pid);
        found = &k->of[i];
    }
    if (found)
        return found;
    snprintf(path, sizeof path, "/proc/%.20s", word);
    if (is_number(word) && access(path, F_OK) == 0)
        return err_null(err, "%s: that process is no kernel of yours (cellspan ps lists them)",
                        word);
    return err_null(err,
                    "%s: no such kernel or notebook runs as this user (cellspan ps lists them)",
                    word);
}
