/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor_python.c - the notebook's Python, its packages, and GPUs; the same of the ranks of --on
 * (declared in doctor.h). */
#include "cli/doctor.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "base/runtime.h"
#include "protocol/jupyter.h"

#define SAID_MAX 65536u

/* Prints {name: version or null}. It imports nothing: torch takes seconds, and may need a GPU. */
static const char packages[] =
    "import json\n"
    "from importlib.metadata import version\n"
    "def of(*names):\n"
    "    for name in names:\n"
    "        try:\n"
    "            return version(name)\n"
    "        except Exception:\n"
    "            pass\n"
    "print(json.dumps({'ipython': of('ipython'), 'ipykernel': of('ipykernel'), 'numpy': of('numpy'), 'torch': of('torch'),\n"
    "                  'nccl': of('nvidia-nccl-cu13', 'nvidia-nccl-cu12', 'nvidia-nccl-cu11'), 'debugpy': of('debugpy'),\n"
    "                  'mpi4py': of('mpi4py')}))\n";

/* What a program prints as JSON; NULL: it did not. err has a text if it did not start or end. */
static json_t *said_by(const char *const *argv, struct err *err)
{
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct buf said = BUF_INIT;
    json_t *answer = NULL;

    spec.argv = argv;
    spec.cwd = "/";
    if ((spec.errs = open("/dev/null", O_WRONLY | O_CLOEXEC)) < 0)
        return NULL;
    if (process_output(&spec, SAID_MAX, PROCESS_ANSWER_NS, &said, err) == 0 && said.n)
        answer = json_loadb(said.p, said.n, 0, NULL);
    fd_close(&spec.errs);
    buf_release(&said);
    return answer;
}

static void say_package(struct doctor *d, const json_t *all, const char *name, const char *without)
{
    const char *version = json_string_value(json_object_get(all, name));

    if (version)
        finding_say(d, FINE, name, NULL, "%s", version);
    else
        finding_say(d, NOTE, name, NULL, "not installed: %s", without);
}

static void check_packages(struct doctor *d)
{
    const char *const argv[] = { d->found.path, "-c", packages, NULL };
    struct err why = { "" };
    json_t *all = said_by(argv, &why);

    if (!all) {
        finding_say(d, BAD, "packages", "repair that Python", "%s can't list its packages%s%s",
                    d->found.path, *why.text ? ": " : "", why.text);
        return;
    }
    say_package(d, all, "ipython", "no notebook can start");
    say_package(d, all, "numpy", "arrays are not sent as memory");
    say_package(d, all, "torch", "--init and torch.distributed do not work");
    say_package(d, all, "debugpy", "the debugger is off");
    if (json_object_get(all, "nccl") != json_null() && json_object_get(all, "nccl"))
        say_package(d, all, "nccl", "");
    json_decref(all);
}

static void check_gpus(struct doctor *d)
{
    struct err why = { "" };
    char *program = runtime_find("cellspan-gpus", &why);
    const char *const argv[] = { program, NULL };
    json_t *said = program ? said_by(argv, &why) : NULL, *gpus = json_object_get(said, "gpus");
    const char *reason = json_string_value(json_object_get(said, "why"));

    if (json_is_array(gpus) && json_array_size(gpus))
        finding_say(d, FINE, "GPUs", NULL, "%zu", json_array_size(gpus));
    else
        finding_say(d, FINE, "GPUs", NULL, "none (%s)",
                    reason      ? reason
                    : *why.text ? why.text
                                : "the driver lists none");
    json_decref(said);
    free(program);
}

void doctor_python(struct doctor *d)
{
    struct err err = { "" };

    if (interpreter_find(&d->found, d->python, &err) < 0) {
        char *fix = strchr(err.text, '\n');

        if (fix)
            *fix++ = '\0';
        finding_say(d, BAD, "Python", fix ? fix + strspn(fix, " ") : NULL, "%s", err.text);
        return;
    }
    finding_say(d, FINE, "Python", NULL, "%s (%s)", d->found.path, d->found.version);
    check_packages(d);
    check_gpus(d);
}

/* The cell that compares the ranks of --on with here: one rank of each machine answers. */
static const char compare[] =
    "import cellspan\n"
    "def told():\n"
    "    import os, platform, shutil, socket\n"
    "    from importlib.metadata import version\n"
    "    def of(name):\n"
    "        try:\n"
    "            return version(name)\n"
    "        except Exception:\n"
    "            return 'none'\n"
    "    shm = shutil.disk_usage('/dev/shm').total >> 20 if os.path.isdir('/dev/shm') else 0\n"
    "    return socket.gethostname(), {'Python': platform.python_version(), **{n: of(n) for n in ('ipython', 'numpy', 'torch')}}, shm\n"
    "_, here, _ = told()\n"
    "class Wrong(Exception):\n" /* has been printed: no traceback is shown */
    "    def _render_traceback_(self):\n"
    "        return []\n"
    "seen, wrong, on = set(), 0, %s\n"
    "try:\n"
    "    answers = cellspan.run(told, on=on, gather=True)\n"
    "except (ValueError, RuntimeError) as error:\n"
    "    print(f\"{'bad':<5} {'--on':<14} {str(error).replace(f'on={on!r}', on, 1)}\")\n"
    "    raise Wrong from None\n"
    "for host, there, shm in answers:\n"
    "    if host in seen:\n"
    "        continue\n"
    "    seen.add(host)\n"
    "    differ = [f'{n} {there[n]} (here {here[n]})' for n in here if there[n] != here[n]]\n"
    "    small = [f'/dev/shm has {shm} MiB'] if shm < 1024 else []\n"
    "    wrong += bool(differ or small)\n"
    "    print(f\"{'bad ' if differ or small else 'ok  '}  {host:<14} \" + ('; '.join(differ + small) or 'as here: ' + ', '.join(f'{n} {v}' for n, v in there.items())))\n"
    "if wrong:\n"
    "    print(f\"{'':<5} {'':<14} -> install the same versions there, or choose that Python: CELLSPAN_REMOTE_PYTHON\")\n"
    "    raise Wrong\n";

void doctor_on(struct doctor *d)
{
    struct buf code = BUF_INIT, on = BUF_INIT;
    struct err err = { "" };
    int status;

    if (!d->found.path) {
        finding_say(d, BAD, "--on", "mend Python first", "%s was not tried", d->on);
        return;
    }
    if (jupyter_quote(&on, slice_text(d->on)) < 0 || buf_addf(&code, compare, on.p) < 0) {
        finding_say(d, BAD, "--on", NULL, "out of memory");
        goto out;
    }
    fflush(stdout); /* the cell's lines follow */
    status = run_job(&d->found, buf_slice(&code), &err);
    if (status < 0)
        finding_say(d, BAD, "--on", NULL, "%s: %s", d->on, err.text);
    else if (status > 0)
        d->bad++; /* the cell has said why */
    else
        finding_say(d, FINE, "--on", NULL, "%s: ranks came up there", d->on);
out:
    buf_release(&code);
    buf_release(&on);
}
