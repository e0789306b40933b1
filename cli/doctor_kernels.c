/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor_kernels.c - kernels of this user that run (declared in doctor.h). */
#include <unistd.h>

#include "base/clock.h"
#include "cli/doctor.h"
#include "cli/kernels.h"

#define ANSWER_NS (3 * NS_PER_S)

void doctor_kernels(struct doctor *d)
{
    struct kernels k = KERNELS_INIT;
    struct err err = { "" };
    unsigned fine = 0;

    if (kernels_find(&k, &err) < 0) {
        finding_say(d, NOTE, "kernels", NULL, "%s", err.text);
        return;
    }
    for (size_t i = 0; i < k.n; i++) {
        struct err why = { "" };
        json_t *told = kernel_question(&k.of[i], "kernel_info_request", "{}", "kernel_info_reply",
                                       ANSWER_NS, &why);

        /* one without a connection file can't be asked, and another may have ended meanwhile */
        if (told || !k.of[i].file || access(k.of[i].file, R_OK) < 0 || !kernel_runs(&k.of[i]))
            fine++;
        else
            finding_say(d, BAD, "kernels", "cellspan stop PID ends it, if it does not go on",
                        "%ld (%s) does not answer", (long)k.of[i].pid, k.of[i].notebook);
        json_decref(told);
    }
    if (fine == k.n)
        finding_say(d, FINE, "kernels", NULL, "%zu run%s", k.n, k.n == 1 ? "s" : "");
    kernels_release(&k);
}
