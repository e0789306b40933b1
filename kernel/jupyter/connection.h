/* connection.h - the connection file: which five sockets to bind, and with which keys. */
#ifndef KERNEL_JUPYTER_CONNECTION_H
#define KERNEL_JUPYTER_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"

enum port { PORT_SHELL, PORT_CONTROL, PORT_STDIN, PORT_IOPUB, PORT_HEARTBEAT, PORTS };

#define CONNECTION_ENDPOINT_SIZE 1024u
#define CONNECTION_CURVE_SIZE    41u /* Z85 text of a CURVE key and its NUL */

struct connection {
    char *file; /* owned: where it was read, for error texts */
    bool ipc;   /* else tcp */
    char *ip;   /* owned; of ipc: the start of the sockets' paths */
    unsigned port[PORTS];
    char *key; /* owned, secret; key_size bytes */
    size_t key_size;
    bool curve; /* the two keys below are there */
    char public_key[CONNECTION_CURVE_SIZE];
    char secret_key[CONNECTION_CURVE_SIZE];
    char *kernel_name; /* owned; NULL: not given */
    char *session;     /* owned; jupyter_session, the notebook's path; NULL: not given */
};

/* "shell_port", …: as the file names it. */
const char *connection_port_name(enum port port);

/* NULL-safe parts; on failure nothing is to be released. The err names the file, the value and the
 * fix, never a key. */
MUST_USE int connection_read(struct connection *c, const char *file, struct err *err);
/* The same from the file's text; file is what the errors call it. */
MUST_USE int connection_parse(struct connection *c, const char *file, struct slice text,
                              struct err *err);
/* Writes c for a kernel to read, 0600; the file must not be there yet. */
MUST_USE int connection_write(const struct connection *c, const char *file, struct err *err);
void connection_release(struct connection *c); /* wipes the keys */

/* "tcp://127.0.0.1:5555", "ipc:///path-1", NUL-terminated. */
MUST_USE int connection_endpoint(const struct connection *c, enum port port,
                                 char out[CONNECTION_ENDPOINT_SIZE], struct err *err);
/* Removes the sockets' files of ipc, which libzmq leaves behind; nothing with tcp. */
void connection_unlink(const struct connection *c);

#endif
