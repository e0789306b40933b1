/* cli_job.h - one cell on a kernel of its own: started, asked, shown, ended. */
#ifndef CLI_CLI_JOB_H
#define CLI_CLI_JOB_H

#include "base/err.h"
#include "base/slice.h"
#include "cli/interpreter.h"

/* Runs code as a cell on a fresh kernel whose home is `python`, and ends that kernel. Returns the
 * exit status of command_run(), or -1: there was no kernel to ask. */
int cli_job_run(const struct python_interpreter *python, struct slice code, struct err *err);

#endif
