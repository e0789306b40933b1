/* SPDX-License-Identifier: BSD-3-Clause */
/* connection.h - reads and writes Jupyter's connection file: the addresses of the five sockets, and
 * the keys. */
#ifndef KERNEL_JUPYTER_CONNECTION_H
#define KERNEL_JUPYTER_CONNECTION_H

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"

enum port { PORT_SHELL, PORT_CONTROL, PORT_STDIN, PORT_IOPUB, PORT_HEARTBEAT, PORTS };

#define CONNECTION_ENDPOINT_SIZE 1024u
#define CONNECTION_CURVE_SIZE    41u /* Z85 text of a CURVE key and its NUL */

struct connection {
    char *file; /* owned: its path, for error texts */
    bool ipc;   /* else tcp */
    char *ip;   /* owned; with ipc: the start of the sockets' paths */
    unsigned port[PORTS];
    char *key; /* owned, secret; key_size bytes */
    size_t key_size;
    bool curve; /* the two keys below are set */
    char public_key[CONNECTION_CURVE_SIZE];
    char secret_key[CONNECTION_CURVE_SIZE];
    char *kernel_name; /* owned; NULL: not given */
    char *session;     /* owned; jupyter_session, the notebook's path; NULL: not given */
};

/* The name of a port in the file: "shell_port", … */
const char *connection_port_name(enum port port);

/* On failure release nothing. *err names the file, the value and the fix, but never a key. */
MUST_USE int connection_read(struct connection *c, const char *file, struct err *err);
/* The same for somebody who asks another process's kernel, where other users may have put anything:
 * no link, only a regular file, and as root only one of root's. */
MUST_USE int connection_read_plain(struct connection *c, const char *file, struct err *err);
/* Is the address a number, or a path? Then no name is looked up to reach it. */
bool connection_is_numeric(const struct connection *c);
/* connection_read() from the file's text; file is its name in error texts. */
MUST_USE int connection_parse(struct connection *c, const char *file, struct slice text,
                              struct err *err);
/* Writes c to a new file of mode 0600, for a kernel to read. */
MUST_USE int connection_write(const struct connection *c, const char *file, struct err *err);
void connection_release(struct connection *c); /* wipes the keys */

/* "tcp://127.0.0.1:5555", "ipc:///path-1", NUL-terminated. */
MUST_USE int connection_endpoint(const struct connection *c, enum port port,
                                 char out[CONNECTION_ENDPOINT_SIZE], struct err *err);
/* Removes the sockets' files of ipc, which libzmq does not remove. Does nothing with tcp. */
void connection_unlink(const struct connection *c);

#endif
