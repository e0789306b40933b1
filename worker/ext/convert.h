/* convert.h - converts cellspan's messages to and from Python: a dict of fields by name. Both
 * directions use the table in protocol/. */
#ifndef WORKER_EXT_CONVERT_H
#define WORKER_EXT_CONVERT_H

#include "worker/ext/python.h"

#include "base/buf.h"
#include "protocol/span.h"
#include "worker/link/packet.h"

/* Encodes a message of `kind` from a dict (NULL: no fields). A missing field is 0 or empty. Lone
 * surrogates in strings are replaced. -1 with a Python exception. */
MUST_USE int convert_encode(const char *kind, struct span *head, PyObject *fields, struct buf *out);

/* (kind, cell, worker, blob, blob_fd, blob_size, fields), a new reference; the blob's descriptor
 * goes with it (-1: none). NULL with a Python exception. */
PyObject *convert_packet(struct packet *p);

#endif
