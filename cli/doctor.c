/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor.c - `cellspan doctor`: what of this machine would keep notebooks from running well, and
 * what to do about it (declared in private.h). */
#include "cli/doctor.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/kernels.h"

struct doctor_options {
    const char *python, *on;
    bool help;
};

const struct cmdline_row doctor_rows[] = {
    { "python", "PATH", "the notebook's Python (default: as for cellspan install)",
      offsetof(struct doctor_options, python) },
    { "on", "ENGINE:SPEC", "start ranks there, too, and compare their versions with those here",
      offsetof(struct doctor_options, on) },
    { "help", NULL, "this text", offsetof(struct doctor_options, help) },
    { NULL, NULL, NULL, 0 },
};

#define ANSWER_NS (3 * NS_PER_S)

/* Kernels of this user that run and do not answer. */
static void check_kernels(struct doctor *d)
{
    struct kernels k = KERNELS_INIT;
    struct err err = { "" };
    unsigned fine = 0;

    if (kernels_find(&k, false, &err) < 0) {
        finding_say(d, NOTE, "kernels", NULL, "%s", err.text);
        return;
    }
    for (size_t i = 0; i < k.n; i++) {
        struct err why = { "" };
        json_t *reply = kernel_question(&k.of[i], "kernel_info_request", "{}", "kernel_info_reply",
                                        ANSWER_NS, &why);

        /* one without a connection file can't be asked, and another may have ended meanwhile */
        if (reply || !k.of[i].file || access(k.of[i].file, R_OK) < 0 || !kernel_runs(&k.of[i]))
            fine++;
        else
            finding_say(d, BAD, "kernels", "cellspan stop PID ends it, if it does not go on",
                        "%ld (%s) does not answer", (long)k.of[i].pid, k.of[i].notebook);
        json_decref(reply);
    }
    if (fine == k.n)
        finding_say(d, FINE, "kernels", NULL, "%zu run%s", k.n, k.n == 1 ? "s" : "");
    kernels_release(&k);
}

static int check_all(struct doctor *d, struct err *err)
{
    doctor_python(d);
    doctor_jupyter(d);
    doctor_machine(d);
    check_kernels(d);
    if (d->on)
        doctor_on(d);
    if (d->bad)
        printf("%u thing%s to mend%s\n", d->bad, d->bad == 1 ? "" : "s",
               d->notes ? "; notes are for special cases" : "");
    else
        puts(d->notes ? "nothing to mend; notes are for special cases" : "nothing to mend");
    interpreter_release(&d->found);
    if (fflush(stdout))
        return err_set(err, "the output can't be written: %s", strerror(errno));
    return d->bad ? 1 : 0;
}

int command_doctor(int argc, char **argv)
{
    struct doctor_options o = { NULL, NULL, false };
    struct doctor d = { 0 };
    struct err err = { "" };
    int rc = 2;

    if (cmdline_parse(doctor_rows, argc, argv, NULL, &o, &err) == 0) {
        if (o.help) {
            puts(
                "usage: cellspan doctor [--python PATH] [--on ENGINE:SPEC]\n\n"
                "Looks at kernelspecs, Python and its packages, GPUs, memory, limits, ports and programs, and says what\n"
                "is wrong and how to mend it. The exit status is 1 if something is.\n");
            cmdline_help(doctor_rows, stdout);
            return 0;
        }
        d.python = o.python;
        d.on = o.on;
        rc = check_all(&d, &err) ? 1 : 0;
    }
    if (err.text[0])
        fprintf(stderr, "cellspan doctor: %s\n", err.text);
    return rc;
}
