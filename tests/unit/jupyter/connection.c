/* SPDX-License-Identifier: BSD-3-Clause */
/* connection.c - the connection file: each mistake gives an error with the file, the value and the
 * fix, but never the key. */
#include "kernel/jupyter/connection.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/tap.h"

#define PORTS_GOOD                                                                                 \
    "\"shell_port\":1001,\"control_port\":1002,\"stdin_port\":1003,\"iopub_port\":1004,\"hb_port\":1005"
#define GOOD                                                                                                             \
    "{\"transport\":\"tcp\",\"ip\":\"127.0.0.1\",\"key\":\"topsecret\",\"signature_scheme\":\"hmac-sha256\"," PORTS_GOOD \
    "}"
#define CURVE_KEY "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID" /* of the CURVE RFC's examples */

static void refused(const char *text, const char *word, const char *sentence)
{
    struct connection c;
    struct err err = { "" };
    const int rc = connection_parse(&c, "/x/kernel-1.json", slice_text(text), &err);

    ok(rc < 0 && strstr(err.text, "/x/kernel-1.json") && strstr(err.text, word) &&
           !strstr(err.text, "topsecret"),
       "%s: %s", sentence, err.text);
    if (rc == 0)
        connection_release(&c);
}

static void good_files_are_read(void)
{
    struct connection c;
    struct err err = { "" };
    char out[CONNECTION_ENDPOINT_SIZE];

    is_int(connection_parse(&c, "f", slice_text(GOOD), &err), 0, "a usual file is read %s",
           err.text);
    is_int(c.port[PORT_HEARTBEAT], 1005, "hb_port is the heartbeat's");
    ok(connection_endpoint(&c, PORT_IOPUB, out, &err) == 0 &&
           strcmp(out, "tcp://127.0.0.1:1004") == 0,
       "%s", out);
    ok(!c.curve, "without keys nothing is encrypted");
    connection_release(&c);

    is_int(connection_parse(
               &c, "f",
               slice_text("{\"transport\":\"ipc\",\"ip\":\"/tmp/a/k\",\"key\":\"\"," PORTS_GOOD
                          "}"),
               &err),
           0, "ipc and an empty key are fine");
    ok(connection_endpoint(&c, PORT_SHELL, out, &err) == 0 &&
           strcmp(out, "ipc:///tmp/a/k-1001") == 0,
       "%s", out);
    connection_release(&c);

    is_int(connection_parse(&c, "f",
                            slice_text("{\"jupyter_session\":\"/home/me/\\udcff.ipynb\"," PORTS_GOOD
                                       "}"),
                            &err),
           0, "a notebook's name may hold bytes that are no UTF-8 %s", err.text);
    is_text(c.session, "/home/me/\357\277\275.ipynb", "which are replaced");
    connection_release(&c);

    is_int(connection_parse(&c, "f", slice_text("{\"ip\":\"::1\"," PORTS_GOOD "}"), &err), 0,
           "tcp is the default");
    ok(connection_endpoint(&c, PORT_SHELL, out, &err) == 0 && strcmp(out, "tcp://[::1]:1001") == 0,
       "%s", out);
    connection_release(&c);

    is_int(connection_parse(&c, "f",
                            slice_text("{\"key\":\"k\",\"curve_publickey\":\"" CURVE_KEY
                                       "\",\"curve_secretkey\":\"" CURVE_KEY
                                       "\",\"kernel_name\":\"cellspan\",\"other\":[1]," PORTS_GOOD
                                       "}"),
                            &err),
           0, "CURVE keys are taken, what is unknown is passed over %s", err.text);
    ok(c.curve && strcmp(c.kernel_name, "cellspan") == 0, "and asked to be used");
    connection_release(&c);
}

static void mistakes_are_named(void)
{
    refused("", "JSON", "an empty text");
    refused("{\"key\":\"topsecret\"", "not JSON", "a text that is cut");
    refused("[1]", "no object", "an array");
    refused("{\"transport\":\"udp\"," PORTS_GOOD "}", "\"udp\"", "another transport");
    refused("{\"transport\":5," PORTS_GOOD "}", "transport", "a transport that is no text");
    refused("{\"ip\":7," PORTS_GOOD "}", "\"ip\"", "an address that is no text");
    refused("{\"shell_port\":\"1001\",\"control_port\":1002}", "\"shell_port\" is not a number",
            "a port in quotes");
    refused("{\"shell_port\":1001,\"control_port\":70000}", "70000", "a port too high");
    refused("{\"shell_port\":0}", "1 to 65535", "port 0");
    refused("{\"shell_port\":1001}", "\"control_port\" is missing", "a port that is missing");
    refused("{\"shell_port\":1001,\"control_port\":1001}", "both 1001", "a port given twice");
    refused("{\"key\":\"topsecret\",\"signature_scheme\":\"hmac-md5\"," PORTS_GOOD "}", "hmac-md5",
            "another scheme");
    refused("{\"key\":3," PORTS_GOOD "}", "\"key\"", "a key that is no text");
    refused("{\"curve_publickey\":\"" CURVE_KEY "\"," PORTS_GOOD "}", "curve_secretkey",
            "half of a key pair");
    refused("{\"curve_publickey\":\"abc\"," PORTS_GOOD "}", "40 characters", "a key too short");
}

/* While it is read, a link within the path is turned to and fro, so that the name is a file's at
 * one moment, and a fifo's at the next. Whoever writes to the fifo waits until somebody opens it.
 */
static void the_path_is_turned(const char *dir, const char *path)
{
    char at[6][96];
    struct connection c;
    struct err err = { "" };
    unsigned read = 0;
    pid_t turns, writes;
    int why = 0;

    for (unsigned i = 0; i < 6; i++) {
        static const char *const name[] = { "a", "b", "a/c.json", "b/c.json", "way", "next" };

        snprintf(at[i], sizeof at[i], "%s/%s", dir, name[i]);
    }
    if (mkdir(at[0], 0700) < 0 || mkdir(at[1], 0700) < 0 || link(path, at[2]) < 0 ||
        mkfifo(at[3], 0600) < 0 || symlink("a", at[4]) < 0 || (writes = fork()) < 0)
        abort();
    if (writes == 0)
        _exit(open(at[3], O_WRONLY) < 0);
    if ((turns = fork()) < 0)
        abort();
    for (unsigned i = 0; turns == 0; i++)
        if (symlink(i % 2 ? "a" : "b", at[5]) < 0 || rename(at[5], at[4]) < 0)
            _exit(1);
    snprintf(at[5], sizeof at[5], "%s/way/c.json", dir);
    for (unsigned i = 0; i < 20000; i++)
        if (connection_read_plain(&c, at[5], &err) == 0) {
            connection_release(&c);
            read++;
        }
    kill(turns, SIGKILL);
    waitpid(turns, NULL, 0);
    ok(read > 0 && waitpid(writes, &why, WNOHANG) == 0,
       "whatever its path leads to meanwhile, only a file is opened (read %u times)", read);
    kill(writes, SIGKILL);
    waitpid(writes, NULL, 0);
    for (unsigned i = 0; i < 6; i++) {
        static const char *const name[] = { "a/c.json", "b/c.json", "a", "b", "way", "next" };

        snprintf(at[i], sizeof at[i], "%s/%s", dir, name[i]);
        (void)remove(at[i]);
    }
}

static void only_plain_files(const char *dir, const char *path)
{
    char link[80], fifo[80];
    struct connection c;
    struct err err = { "" };

    snprintf(link, sizeof link, "%s/link", dir);
    snprintf(fifo, sizeof fifo, "%s/fifo", dir);
    if (symlink(path, link) < 0 || mkfifo(fifo, 0600) < 0)
        abort();
    ok(connection_read(&c, link, &err) == 0, "a kernel follows a link %s", err.text);
    connection_release(&c);
    ok(connection_read_plain(&c, path, &err) == 0, "a regular file is plain %s", err.text);
    connection_release(&c);
    ok(connection_read_plain(&c, link, &err) < 0 && strstr(err.text, "a link"),
       "who asks a kernel does not: %s", err.text);
    err.text[0] = '\0';
    ok(connection_read_plain(&c, fifo, &err) < 0 && strstr(err.text, "no regular file"),
       "nor opens a fifo: %s", err.text);
    err.text[0] = '\0';
    ok(connection_read_plain(&c, "/dev/zero", &err) < 0 && strstr(err.text, "no regular file"),
       "nor a device: %s", err.text);
    if (geteuid() == 0) {
        if (chown(path, 64001, 64001) < 0)
            abort();
        err.text[0] = '\0';
        ok(connection_read_plain(&c, path, &err) < 0 && strstr(err.text, "of root's"),
           "root reads no other user's: %s", err.text);
        if (chown(path, 0, 0) < 0)
            abort();
    }
    unlink(link);
    unlink(fifo);
}

static void names_are_known(void)
{
    static const struct {
        const char *ip;
        bool ipc, numeric;
    } given[] = {
        { "127.0.0.1", false, true },   { "::1", false, true },
        { "localhost", false, false },  { "evil.example", false, false },
        { "*", false, false },          { "10.0.0.1;127.0.0.1", false, false },
        { "fe80::1%lo", false, false }, { "", false, false },
        { "/tmp/kernel", true, true },
    };

    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        struct connection c = { .ipc = given[i].ipc, .ip = strdup(given[i].ip) };

        ok(c.ip && connection_is_numeric(&c) == given[i].numeric,
           "whether \"%s\" would be looked up", given[i].ip);
        connection_release(&c);
    }
}

static void files_are_looked_at(void)
{
    char dir[] = "/tmp/cellspan-test-XXXXXX", path[64];
    struct connection c, again;
    struct err err = { "" };
    struct stat st;

    if (!mkdtemp(dir))
        abort();
    snprintf(path, sizeof path, "%s/f.json", dir);
    ok(connection_read(&c, path, &err) < 0 && strstr(err.text, path) &&
           strstr(err.text, "No such file"),
       "a missing file: %s", err.text);
    err.text[0] = '\0';
    ok(connection_read(&c, dir, &err) < 0 && strstr(err.text, dir), "a folder: %s", err.text);
    err.text[0] = '\0';
    if (connection_parse(&c, "f", slice_text(GOOD), &err) < 0)
        abort();
    is_int(connection_write(&c, path, &err), 0, "a file is written");
    ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600, "for its owner's eyes only");
    ok(connection_write(&c, path, &err) < 0, "and never over another");
    err.text[0] = '\0';
    is_int(connection_read(&again, path, &err), 0, "what was written can be read %s", err.text);
    is_text(again.key, c.key, "with the key");
    is_int(again.port[PORT_STDIN], 1003, "and the ports");
    connection_release(&again);
    connection_release(&c);
    the_path_is_turned(dir, path);
    only_plain_files(dir, path);
    if (truncate(path, 0) < 0)
        abort();
    ok(connection_read(&c, path, &err) < 0 && strstr(err.text, "empty"), "an empty file: %s",
       err.text);
    err.text[0] = '\0';
    if (truncate(path, 2 << 20) < 0)
        abort();
    ok(connection_read(&c, path, &err) < 0 && strstr(err.text, "larger"), "a huge file: %s",
       err.text);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    good_files_are_read();
    mistakes_are_named();
    names_are_known();
    files_are_looked_at();
    return plan_done();
}
