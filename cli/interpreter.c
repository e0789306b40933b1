/* SPDX-License-Identifier: BSD-3-Clause */
/* interpreter.c - finds the notebook's Python and checks its modules (declared in private.h). */
#include "cli/private.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/needs.h"
#include "base/process.h"
#include "base/runtime.h"

#define NEED_OF_PROBE(module, package, versions) "('" module "', '" package "', '" versions "'), "
#define NEEDS_FOR_PROBE                          NEEDS_EACH(NEED_OF_PROBE)

/* The script that the candidate Python runs; it prints one JSON object. It must run on very old
 * Pythons, too, so that the error can say "too old". Each module is listed with its package and the
 * versions that work. */
static const char probe[] =
    "import json, os, sys\n"
    "needs = [" NEEDS_FOR_PROBE "]\n"
    "said = {'version': '.'.join(map(str, sys.version_info[:3])), 'prefix': sys.prefix,\n"
    "        'executable': sys.executable or '', 'old': sys.version_info < (3, 9), 'lacks': [], 'managed': False}\n"
    "if not said['old']:\n"
    "    import importlib.util, sysconfig\n"
    "    from importlib.metadata import version\n"
    "    for module, name, versions in needs:\n"
    "        try:\n"
    "            good = importlib.util.find_spec(module) and int(version(name).split('.')[0]) >= int(versions[2:] or 0)\n"
    "        except Exception:\n"
    "            good = False\n"
    "        if not good:\n"
    "            said['lacks'].append('\"%s%s\"' % (name, versions))\n"
    "    mark = os.path.join(sysconfig.get_path('stdlib'), 'EXTERNALLY-MANAGED')\n"
    "    said['managed'] = sys.prefix == sys.base_prefix and os.path.exists(mark)\n"
    "sys.stdout.write(json.dumps(said))\n";

#define SAID_MAX 65536u /* bytes; a probe that says more is no Python of ours */

void interpreter_release(struct python_interpreter *p)
{
    free(p->path);
    free(p->version);
    free(p->prefix);
    *p = (struct python_interpreter){ NULL, NULL, NULL };
}

/* "DIR/NAME" if that can be executed, else NULL; the caller's. */
static char *program_in(const char *dir, size_t n, const char *name)
{
    struct buf path = BUF_INIT;

    if (buf_add(&path, dir, n) || buf_addf(&path, "/%s", name) || access(path.p, X_OK)) {
        buf_release(&path);
        return NULL;
    }
    return buf_take(&path);
}

/* The Python of the environment that the variable names. */
static char *python_of_environment(const char *variable)
{
    const char *dir = getenv(variable);

    return dir && *dir ? program_in(dir, strlen(dir), "bin/python") : NULL;
}

static char *default_python(void)
{
    char *found = python_of_environment("VIRTUAL_ENV");

    if (!found)
        found = python_of_environment("CONDA_PREFIX");
    if (!found)
        found = runtime_python();
    if (!found)
        found = runtime_on_path("python3");
    return found || access(CELLSPAN_PYTHON, X_OK) ? found : strdup(CELLSPAN_PYTHON);
}

/* Makes a path that the user wrote absolute and keeps its links: a venv's python is a link, and
 * only its name says which venv it belongs to. */
static char *absolute(const char *path)
{
    char *cwd = *path == '/' ? NULL : getcwd(NULL, 0);
    char *found;

    if (*path == '/')
        return strdup(path);
    if (!cwd)
        return NULL;
    while (!strncmp(path, "./", 2))
        path += 2;
    found = program_in(cwd, strlen(cwd), path);
    free(cwd);
    return found;
}

/* Runs the probe, from / so that no file of the user's folder is taken for a module. What a program
 * that is no Python says about the probe tells the user nothing, so its stderr is not shown. */
static json_t *ask(const char *python, struct err *err)
{
    const char *argv[] = { python, "-c", probe, NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct buf said = BUF_INIT;
    struct err why = { "" };
    json_t *answer = NULL;
    int status;

    spec.argv = argv;
    spec.cwd = "/";
    if ((spec.errs = open("/dev/null", O_WRONLY | O_CLOEXEC)) < 0)
        return err_null(err, "/dev/null: %s", strerror(errno));
    status = process_output(&spec, SAID_MAX, PROCESS_ANSWER_NS, &said, &why);
    fd_close(&spec.errs);
    if (status < 0)
        (void)err_set(err, "%s; --python PATH names another", why.text);
    if (status >= 0 && said.n)
        answer = json_loadb(said.p, said.n, 0, NULL);
    buf_release(&said);
    return answer || status < 0
               ? answer
               : err_null(
                     err,
                     "%s does not work as a Python: it ended with %s %d; --python PATH names another",
                     python, WIFSIGNALED(status) ? "signal" : "exit code",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* Says what is missing and the command that installs it. If the system manages this Python, the
 * text tells how to make a venv. */
static int refuse(const char *python, json_t *lacks, bool managed, struct err *err)
{
    struct buf names = BUF_INIT;
    json_t *name;
    size_t i;

    json_array_foreach (lacks, i, name)
        if (buf_addf(&names, "%s%s", i ? " " : "", json_string_value(name))) {
            buf_release(&names);
            return err_set(err, "out of memory");
        }
    if (managed)
        err_set(err,
                "%s lacks %s, and its packages are the system's. Make an environment:\n"
                "  %s -m venv ~/cellspan-env && ~/cellspan-env/bin/python -m pip install %s\n"
                "and choose it: --python ~/cellspan-env/bin/python",
                python, names.p, python, names.p);
    else
        err_set(err, "%s lacks %s. Install what is missing:\n  %s -m pip install %s", python,
                names.p, python, names.p);
    buf_release(&names);
    return -1;
}

/* Checks the answer and stores it in *p. named: the user gave this path, so it is not replaced. */
static int check_answer(struct python_interpreter *p, json_t *answer, bool named, struct err *err)
{
    const char *version = NULL, *prefix = NULL, *executable = NULL;
    int old = 0, managed = 0;
    json_t *lacks = NULL;

    if (json_unpack(answer, "{s:s, s:s, s:s, s:b, s:b, s:o}", "version", &version, "prefix",
                    &prefix, "executable", &executable, "old", &old, "managed", &managed, "lacks",
                    &lacks))
        return err_set(
            err,
            "%s does not work as a Python: its answer is not understood; --python PATH names another",
            p->path);
    if (old)
        return err_set(err, "%s is Python %s; 3.9 or newer is needed: --python PATH", p->path,
                       version);
    if (json_array_size(lacks))
        return refuse(p->path, lacks, managed, err);
    if (!named && *executable == '/') {
        free(p->path);
        p->path = strdup(executable); /* the interpreter behind a shim */
    }
    p->version = strdup(version);
    p->prefix = strdup(prefix);
    return p->path && p->version && p->prefix ? 0 : err_set(err, "out of memory");
}

int interpreter_find(struct python_interpreter *p, const char *asked, struct err *err)
{
    const bool named = asked && strchr(asked, '/');
    json_t *answer;
    int rc;

    *p = (struct python_interpreter){ NULL, NULL, NULL };
    p->path = named ? absolute(asked) : asked ? runtime_on_path(asked) : default_python();
    if (!p->path && asked)
        return err_set(err, "--python %s: there is no such program; give the path of a Python",
                       asked);
    if (!p->path)
        return err_set(err, "there is no python3 on PATH: --python PATH says where it is");
    answer = ask(p->path, err);
    rc = answer ? check_answer(p, answer, named, err) : -1;
    json_decref(answer);
    if (rc)
        interpreter_release(p);
    return rc;
}
