/* SPDX-License-Identifier: BSD-3-Clause */
/* job_gpus.c - reads from the output of scontrol how many GPUs a job has on each node (declared in
 * step.h). */
#include "launchers/slurm/step.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define GPUS_MAX 1024u

/* Counts the GPUs: "gpu:a100:2(IDX:0-1),gpu:1(IDX:2),nic:1" has 3. The list ends at a blank. */
static unsigned count(const char *gres)
{
    unsigned long sum = 0;

    while (*gres && !isspace((unsigned char)*gres)) {
        const size_t item = strcspn(gres, ", \n"), name = strcspn(gres, "(, \n");
        const char *number = gres + name;

        while (number > gres && isdigit((unsigned char)number[-1]))
            number--;
        if (strncmp(gres, "gpu:", 4) == 0 && number > gres && number[-1] == ':')
            sum += strtoul(number, NULL, 10);
        gres += item;
        while (*gres == ',') { /* commas may also be within (IDX:0,2) */
            gres++;
            if (isalpha((unsigned char)*gres))
                break;
            gres += strcspn(gres, ", \n");
        }
    }
    return sum > GPUS_MAX ? 0 : (unsigned)sum;
}

/* The text has a line for each group of equal nodes: "Nodes=n[1-2] CPU_IDs=2-3 Mem=0
 * GRES=gpu:2(IDX:0-1)" */
unsigned job_gpus_per_node(const char *text, unsigned *most)
{
    static const char nodes[] = " Nodes=", gres[] = " GRES=";
    unsigned least = 0;

    *most = 0;
    while ((text = strstr(text, nodes))) {
        const char *at, *const next = strstr(text + 1, nodes);
        unsigned n;

        text += strlen(nodes);
        at = strstr(text, gres);
        n = at && (!next || at < next) ? count(at + strlen(gres)) : 0;
        if (n == 0)
            return 0;
        least = least && least < n ? least : n;
        *most = *most > n ? *most : n;
    }
    return least;
}
