/* SPDX-License-Identifier: BSD-3-Clause */
/* usage.h - the resources that a process has used, from Linux. */
#ifndef TESTS_SIM_USAGE_H
#define TESTS_SIM_USAGE_H

#include <stdint.h>
#include <sys/types.h>

uint64_t usage_cpu_ns(pid_t pid);               /* of all its threads that live */
double usage_mib(pid_t pid, const char *which); /* "VmRSS", "VmHWM"; 0: not known */
unsigned usage_children(pid_t pid);             /* how many processes descend from it */

#endif
