/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors say exactly what is wrong, since users also edit such files by hand. */
#ifdef __linux__
#define _GNU_SOURCE /* O_PATH */
#endif
#include "kernel/jupyter/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "protocol/json_repair.h"
#include "protocol/jupyter.h"

#define FILE_MAX (1u << 20) /* bytes; real files have about 400 */

const char *connection_port_name(enum port port)
{
    static const char *const name[PORTS] = {
        [PORT_SHELL] = "shell_port", [PORT_CONTROL] = "control_port", [PORT_STDIN] = "stdin_port",
        [PORT_IOPUB] = "iopub_port", [PORT_HEARTBEAT] = "hb_port",
    };

    return (unsigned)port < PORTS ? name[port] : "no_port";
}

void connection_release(struct connection *c)
{
    if (c->key)
        sodium_memzero(c->key, c->key_size);
    free(c->file);
    free(c->ip);
    free(c->key);
    free(c->kernel_name);
    free(c->session);
    sodium_memzero(c, sizeof *c);
}

/* Copies a string of the file to *out; NULL if it is not given. */
static int take_text(const struct connection *c, const json_t *object, const char *name, char **out,
                     struct err *err)
{
    const json_t *value = json_object_get(object, name);

    if (!value || json_is_null(value))
        return 0;
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
        return err_set(err, "connection file %s: \"%s\" is not a text", c->file, name);
    if (!(*out = strdup(json_string_value(value))))
        return err_set(err, "connection file %s: out of memory", c->file);
    return 0;
}

static int take_transport(struct connection *c, const json_t *object, struct err *err)
{
    const json_t *value = json_object_get(object, "transport");
    const char *text = value ? json_string_value(value) : "tcp";

    if (!text)
        return err_set(err, "connection file %s: \"transport\" is not a text", c->file);
    if (strcmp(text, "tcp") != 0 && strcmp(text, "ipc") != 0)
        return err_set(
            err, "connection file %s: \"transport\" is \"%.64s\"; it can be \"tcp\" or \"ipc\"",
            c->file, text);
    c->ipc = strcmp(text, "ipc") == 0;
    return 0;
}

static int take_port(struct connection *c, const json_t *object, enum port port, struct err *err)
{
    const char *name = connection_port_name(port);
    const json_t *value = json_object_get(object, name);
    const json_int_t most = c->ipc ? 0x7fffffff : 65535;

    if (!value)
        return err_set(err, "connection file %s: \"%s\" is missing", c->file, name);
    if (!json_is_integer(value))
        return err_set(
            err,
            "connection file %s: \"%s\" is not a number; write the port as 1 to %lld, without quotes",
            c->file, name, (long long)most);
    if (json_integer_value(value) < 1 || json_integer_value(value) > most)
        return err_set(err, "connection file %s: \"%s\" is %lld; a port is 1 to %lld", c->file,
                       name, (long long)json_integer_value(value), (long long)most);
    c->port[port] = (unsigned)json_integer_value(value);
    for (unsigned other = 0; other < (unsigned)port; other++)
        if (c->port[other] == c->port[port])
            return err_set(
                err, "connection file %s: \"%s\" and \"%s\" are both %u; each socket needs its own",
                c->file, connection_port_name((enum port)other), name, c->port[port]);
    return 0;
}

static int take_scheme(const struct connection *c, const json_t *object, struct err *err)
{
    const json_t *value = json_object_get(object, "signature_scheme");

    if (!value || c->key_size == 0)
        return 0;
    if (!json_is_string(value))
        return err_set(err, "connection file %s: \"signature_scheme\" is not a text", c->file);
    if (strcmp(json_string_value(value), JUPYTER_SCHEME) == 0)
        return 0;
    return err_set(err,
                   "connection file %s: \"signature_scheme\" is \"%.64s\"; only \"" JUPYTER_SCHEME
                   "\" is known",
                   c->file, json_string_value(value));
}

/* Checks only the form of the key. libzmq refuses other invalid keys, but only with EINVAL. */
static int take_curve_key(const struct connection *c, const json_t *object, const char *name,
                          char out[CONNECTION_CURVE_SIZE], struct err *err)
{
    const json_t *value = json_object_get(object, name);

    out[0] = '\0';
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_string(value) || json_string_length(value) != CONNECTION_CURVE_SIZE - 1 ||
        strlen(json_string_value(value)) != CONNECTION_CURVE_SIZE - 1)
        return err_set(err, "connection file %s: \"%s\" is not a CURVE key: 40 characters of Z85",
                       c->file, name);
    memcpy(out, json_string_value(value), CONNECTION_CURVE_SIZE);
    return 0;
}

static int take_curve(struct connection *c, const json_t *object, struct err *err)
{
    if (take_curve_key(c, object, "curve_publickey", c->public_key, err) < 0 ||
        take_curve_key(c, object, "curve_secretkey", c->secret_key, err) < 0)
        return -1;
    if (!c->public_key[0] != !c->secret_key[0])
        return err_set(err,
                       "connection file %s: \"curve_%s\" is missing; encryption needs both keys",
                       c->file, c->public_key[0] ? "secretkey" : "publickey");
    c->curve = c->public_key[0] != '\0';
    return 0;
}

static int take_all(struct connection *c, const json_t *object, struct err *err)
{
    if (take_transport(c, object, err) < 0 || take_text(c, object, "ip", &c->ip, err) < 0 ||
        take_text(c, object, "key", &c->key, err) < 0 ||
        take_text(c, object, "kernel_name", &c->kernel_name, err) < 0 ||
        take_text(c, object, "jupyter_session", &c->session, err) < 0)
        return -1;
    if (!c->ip && !(c->ip = strdup(c->ipc ? "kernel-ipc" : "127.0.0.1")))
        return err_set(err, "connection file %s: out of memory", c->file);
    c->key_size = c->key ? strlen(c->key) : 0;
    for (unsigned port = 0; port < PORTS; port++)
        if (take_port(c, object, (enum port)port, err) < 0)
            return -1;
    return take_scheme(c, object, err) < 0 ? -1 : take_curve(c, object, err);
}

int connection_parse(struct connection *c, const char *file, struct slice text, struct err *err)
{
    json_error_t error;
    json_t *object = json_parse(text, 0, &error);
    int rc = -1;

    memset(c, 0, sizeof *c);
    if (!(c->file = strdup(file)))
        err_set(err, "connection file %s: out of memory", file);
    else if (!object) /* don't show error.text: it may quote the file and so the key */
        err_set(err, "connection file %s: not JSON (line %d, column %d)", file, error.line,
                error.column);
    else if (!json_is_object(object))
        err_set(err, "connection file %s: holds JSON, but no object", file);
    else
        rc = take_all(c, object, err);
    json_decref(object);
    if (rc < 0)
        connection_release(c);
    return rc;
}

static int open_failed(const char *file, int why, struct err *err)
{
    return err_set(err, "connection file %s: %s%s", file, strerror(why),
                   why == ENOENT ? "; give the path of the file that Jupyter wrote" : "");
}

/* Reads and closes it. */
static int descriptor_read(int fd, const char *file, struct buf *out, struct err *err)
{
    char piece[4096];
    ssize_t n;

    while ((n = read(fd, piece, sizeof piece)) > 0 && out->n <= FILE_MAX)
        if (buf_add(out, piece, (size_t)n) < 0) {
            close(fd);
            return err_set(err, "connection file %s: out of memory", file);
        }
    const int why = errno;

    close(fd);
    sodium_memzero(piece, sizeof piece);
    if (n < 0)
        return err_set(err, "connection file %s: %s", file, strerror(why));
    if (out->n > FILE_MAX)
        return err_set(err, "connection file %s: larger than %u bytes, so not a connection file",
                       file, FILE_MAX);
    if (out->n == 0)
        return err_set(err, "connection file %s: empty", file);
    return 0;
}

/* Takes the descriptor. */
static int read_and_parse(struct connection *c, int fd, const char *file, struct err *err)
{
    struct buf text = BUF_INIT;
    int rc = descriptor_read(fd, file, &text, err);

    if (rc == 0)
        rc = connection_parse(c, file, buf_slice(&text), err);
    if (text.p)
        sodium_memzero(text.p, text.cap);
    buf_release(&text);
    return rc;
}

int connection_read(struct connection *c, const char *file, struct err *err)
{
    /* O_NONBLOCK: don't block if it is a pipe without a writer */
    const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    return fd < 0 ? open_failed(file, errno, err) : read_and_parse(c, fd, file, err);
}

/* May we open it? A device may do something when it is opened. */
static bool is_plain(const struct stat *s, const char *file, struct err *err)
{
    if (!S_ISREG(s->st_mode))
        return err_set(err, "connection file %s: a link, or no regular file: it is not opened",
                       file) == 0;
    return geteuid() != 0 || s->st_uid == 0 ||
           err_set(err, "connection file %s: root reads only regular files of root's", file) == 0;
}

/* Opens just what it has looked at: meanwhile the name may lead to something else. */
static int open_plain(const char *file, struct err *err)
{
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    struct stat s;
    int fd;
#ifdef O_PATH
    const int seen = open(file, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    char path[64];

    if (seen < 0 || fstat(seen, &s) < 0)
        fd = open_failed(file, errno, err);
    else if (!is_plain(&s, file, err))
        fd = -1;
    else if (snprintf(path, sizeof path, "/proc/self/fd/%d", seen) && (fd = open(path, flags)) < 0)
        (void)open_failed(file, errno, err);
    if (seen >= 0)
        close(seen);
#else
    if (lstat(file, &s) < 0)
        return open_failed(file, errno, err);
    if (!is_plain(&s, file, err))
        return -1;
    if ((fd = open(file, flags | O_NOFOLLOW)) < 0)
        return open_failed(file, errno, err);
    if (fstat(fd, &s) < 0 || !is_plain(&s, file, err)) {
        close(fd);
        fd = -1;
    }
#endif
    return fd;
}

int connection_read_plain(struct connection *c, const char *file, struct err *err)
{
    const int fd = open_plain(file, err);

    return fd < 0 ? -1 : read_and_parse(c, fd, file, err);
}

bool connection_is_numeric(const struct connection *c)
{
    unsigned char address[sizeof(struct in6_addr)];

    return c->ipc || inet_pton(AF_INET, c->ip, address) == 1 ||
           inet_pton(AF_INET6, c->ip, address) == 1;
}

static json_t *to_json(const struct connection *c)
{
    json_t *object = json_pack("{s:s, s:s, s:s#, s:s}", "transport", c->ipc ? "ipc" : "tcp", "ip",
                               c->ip, "key", c->key ? c->key : "", c->key_size, "signature_scheme",
                               JUPYTER_SCHEME);

    for (unsigned port = 0; object && port < PORTS; port++)
        json_object_set_new(object, connection_port_name((enum port)port),
                            json_integer(c->port[port]));
    if (c->curve) {
        json_object_set_new(object, "curve_publickey", json_string(c->public_key));
        json_object_set_new(object, "curve_secretkey", json_string(c->secret_key));
    }
    if (c->kernel_name)
        json_object_set_new(object, "kernel_name", json_string(c->kernel_name));
    return object;
}

int connection_write(const struct connection *c, const char *file, struct err *err)
{
    json_t *object = to_json(c);
    int fd = -1;
    int rc = -1;

    if (!object)
        return err_set(err, "connection file %s: out of memory", file);
    if ((fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) < 0 ||
        json_dumpfd(object, fd, 0) < 0)
        err_set(err, "connection file %s: %s", file, strerror(errno));
    else
        rc = 0;
    if (fd >= 0)
        close(fd);
    json_decref(object);
    return rc;
}

/* libzmq binds to addresses and interfaces, not to host names. An IPv6 address needs brackets. */
int connection_endpoint(const struct connection *c, enum port port,
                        char out[CONNECTION_ENDPOINT_SIZE], struct err *err)
{
    const char *ip = strcmp(c->ip, "localhost") == 0 ? "127.0.0.1" : c->ip;
    const bool v6 = strchr(ip, ':') && ip[0] != '[';
    const int n = c->ipc
                      ? snprintf(out, CONNECTION_ENDPOINT_SIZE, "ipc://%s-%u", c->ip, c->port[port])
                      : snprintf(out, CONNECTION_ENDPOINT_SIZE, "tcp://%s%s%s:%u", v6 ? "[" : "",
                                 ip, v6 ? "]" : "", c->port[port]);

    if (n < 0 || (size_t)n >= CONNECTION_ENDPOINT_SIZE)
        return err_set(err, "connection file %s: \"ip\" is longer than any address", c->file);
    return 0;
}

void connection_unlink(const struct connection *c)
{
    char endpoint[CONNECTION_ENDPOINT_SIZE];

    for (unsigned port = 0; c->ipc && port < PORTS; port++)
        if (connection_endpoint(c, (enum port)port, endpoint, NULL) == 0)
            unlink(endpoint + strlen("ipc://"));
}
