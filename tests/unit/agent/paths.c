/* SPDX-License-Identifier: BSD-3-Clause */
/* The pure parts of the agent's connections: the tree, endpoints, addresses, the secret's lines;
 * and which Python is found. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/loop/loop.h"
#include "base/random.h"
#include "protocol/route.h"
#include "tests/unit/agent/hung.h"
#include "tests/unit/tap.h"
#include "worker/agent/net/address.h"
#include "worker/agent/net/dial.h"
#include "worker/agent/processes/path_probe.h"
#include "worker/agent/processes/python_candidates.h"
#include "worker/agent/net/sealed.h"
#include "worker/agent/net/secret.h"
#include "worker/agent/net/peer.h"

static void the_tree_knows_who_is_where(void)
{
    struct child_nodes t = CHILD_NODES_INIT;

    is_int(child_nodes_get(&t, 7), CHILD_NODES_NONE, "nobody is under nobody");
    ok(child_nodes_put(&t, 7, 7) == 0 && child_nodes_put(&t, 40, 7) == 0 &&
           child_nodes_put(&t, 3, 3) == 0,
       "two children, and one below");
    is_int(child_nodes_get(&t, 40), 7, "a node is under its child");
    is_int(child_nodes_get(&t, 41), CHILD_NODES_NONE, "others are not");
    is_int(child_nodes_get(&t, 4000000000u), CHILD_NODES_NONE, "nor what is no node");
    ok(child_nodes_put(&t, ROUTE_NODES_MAX + 1, 3) < 0, "a number that no node has is refused");
    child_nodes_drop(&t, 7);
    ok(child_nodes_get(&t, 40) == CHILD_NODES_NONE && child_nodes_get(&t, 7) == CHILD_NODES_NONE &&
           child_nodes_get(&t, 3) == 3,
       "a child goes with all that is under it");
    child_nodes_release(&t);
}

static void endpoints_are_taken_apart(void)
{
    struct slice list = slice_text(",tcp://a:1,,tcp://b:2,"), one;
    struct address a;
    struct err err = { "" };
    char text[ADDRESS_TEXT_SIZE];

    ok(dial_next(&list, &one) && slice_is(one, "tcp://a:1") && dial_next(&list, &one) &&
           slice_is(one, "tcp://b:2") && !dial_next(&list, &one),
       "a list of endpoints");
    ok(address_parse(slice_text("tcp://10.1.2.3:4321"), &a, &err) == 0, "IPv4");
    address_text(&a, text);
    is_text(text, "10.1.2.3", "is told without its port");
    ok(address_parse(slice_text("tcp://[fd00::1]:4321"), &a, &err) == 0, "IPv6");
    address_text(&a, text);
    is_text(text, "fd00::1", "without brackets");
    ok(address_parse(slice_text("tcp://[::ffff:10.0.0.9]:1"), &a, &err) == 0, "IPv4 in IPv6");
    address_text(&a, text);
    is_text(text, "10.0.0.9", "is IPv4");
    static const char *const wrong[] = { "",
                                         "tcp://",
                                         "tcp://:1",
                                         "tcp://10.0.0.1",
                                         "tcp://10.0.0.1:",
                                         "tcp://10.0.0.1:123456",
                                         "unix:///x",
                                         "10.0.0.1:1",
                                         "tcp://10.0.0.1:x",
                                         "tcp://localhost:1" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ok(address_parse(slice_text(wrong[i]), &a, &err) < 0, "no endpoint: \"%s\"", wrong[i]);
    is_text(dial_words(ECONNREFUSED), "connection refused", "errors are in words");
    is_text(dial_words(0), "timed out", "so is none");
}

static void lists_begin_with_what_was_used(void)
{
    struct slice ifname, ip;
    struct buf list = BUF_INIT;
    struct address a;
    struct err err = { "" };

    address_first(slice_text("ib0=10.1.0.1,eth0=10.0.0.1"), &ifname, &ip);
    ok(slice_is(ifname, "ib0") && slice_is(ip, "10.1.0.1"), "the first of a list");
    address_first(slice_text("eth0=fd00::1"), &ifname, &ip);
    ok(slice_is(ifname, "eth0") && slice_is(ip, "fd00::1"), "the only one");
    address_first(slice_text(""), &ifname, &ip);
    ok(ifname.n == 0 && ip.n == 0, "none");
    ok(address_parse(slice_text("tcp://127.0.0.1:1"), &a, &err) == 0 &&
           address_list(&a, &list) == 0 && strstr(list.p, "=127.0.0.1") != NULL,
       "the loopback is named when it was used");
    buf_clear(&list);
    ok(address_list(NULL, &list) == 0 && (list.n == 0 || !strstr(list.p, "=127.0.0.1")),
       "and else not");
    buf_release(&list);
}

/* What an engine gives an agent that shall know nothing of the others. */
static void an_agent_may_have_its_own_secret(void)
{
    static const unsigned char seven[4] = { 7 };
    struct keys k, run, alone;
    struct secret s, own = { .own = true }, again;
    char text[SECRET_TEXT_SIZE];
    struct err err = { "" };

    keys_create(&k);
    secret_create(&s, &k);
    memcpy(own.kernel, s.kernel, KEY_SIZE);
    (void)crypto_generichash(own.seed, KEY_SIZE, seven, sizeof seven, s.seed, KEY_SIZE);
    secret_format(&own, text);
    ok(strncmp(text, "2a:", 3) == 0 && secret_parse(&again, slice_text(text), &err) == 0 &&
           memcmp(&again, &own, sizeof own) == 0,
       "a secret of one agent is told from a run's");
    keys_derive(&run, &s, 7, 0);
    keys_derive(&alone, &again, 7, 0);
    ok(memcmp(&run, &alone, sizeof run) == 0, "it makes the keys that the run's makes");
    keys_derive(&run, &s, 8, 0);
    keys_derive(&alone, &again, 8, 0);
    ok(memcmp(&run, &alone, sizeof run) != 0, "and no other agent's");
    keys_derive(&run, &s, 7, 1);
    ok(memcmp(&run, &alone, sizeof run) != 0, "nor those of the one that comes in its place");
    text[1] = ':';
    ok(secret_parse(&again, slice_text(text), &err) < 0, "neither is taken for the other");
}

static void secrets_are_sealed_for_one_agent(void)
{
    struct keys kernel, mine, other;
    struct secret s;
    struct handed h = { .index = 0 };
    char text[SECRET_TEXT_SIZE], hex[2 * KEY_SIZE + 1], sealed[SEALED_TEXT_SIZE],
        line[SEALED_TEXT_SIZE + 40];
    struct err err = { "" }, none = { "" }, wrong = { "" }, half = { "" }, empty = { "" };

    keys_create(&kernel);
    keys_create(&mine);
    keys_create(&other);
    secret_create(&s, &kernel);
    secret_format(&s, text);
    (void)sodium_bin2hex(hex, sizeof hex, mine.public, KEY_SIZE);
    ok(sealed_close(hex, text, sealed, &err) == 0 && !strstr(sealed, text + 70),
       "a secret is sealed: %s", err.text);
    snprintf(line, sizeof line, "CELLSPAN_SEALED=%s", sealed);
    ok(secret_take_line(&h, slice_text(line), &none) < 0,
       "an agent that was not told to takes no sealed one");
    h.sealed_for = &other;
    ok(secret_take_line(&h, slice_text(line), &wrong) < 0 && !h.has_secret &&
           strstr(wrong.text, "not sealed for this agent"),
       "another agent can't open it: %s", wrong.text);
    h.sealed_for = &mine;
    ok(secret_take_line(&h, slice_text(line), &err) == 0 && h.has_secret &&
           memcmp(&h.secret, &s, sizeof s) == 0,
       "the one for which it was sealed can: %s", err.text);
    line[40] = line[40] == '0' ? '1' : '0';
    ok(secret_take_line(&h, slice_text(line), &err) < 0, "unless something has changed it");
    ok(sealed_close("00", text, sealed, &half) < 0 && strstr(half.text, "--seal 00"), "%s",
       half.text);
    ok(sealed_close(hex, "", sealed, &empty) < 0, "%s", empty.text);
}

static void secrets_are_lines(void)
{
    struct keys k;
    struct secret s;
    struct handed h = { .index = 0 };
    char text[SECRET_TEXT_SIZE], line[SECRET_TEXT_SIZE + 40];
    struct err err = { "" };

    keys_create(&k);
    secret_create(&s, &k);
    secret_format(&s, text);
    snprintf(line, sizeof line, "CELLSPAN_SECRET=%s\r", text);
    ok(secret_take_line(&h, slice_text(line), &err) == 0 && h.has_secret &&
           memcmp(&h.secret, &s, sizeof s) == 0,
       "a secret, even from Windows");
    ok(secret_take_line(&h, slice_text("CELLSPAN_AGENT=41"), &err) == 0 && h.has_index &&
           h.index == 41 && h.turn == 0,
       "a number");
    ok(secret_take_line(&h, slice_text("CELLSPAN_AGENT=41.2"), &err) == 0 && h.index == 41 &&
           h.turn == 2,
       "a number, and how many had it before");
    static const char *const wrong[] = { "CELLSPAN_AGENT=",
                                         "CELLSPAN_AGENT=-1",
                                         "CELLSPAN_AGENT=1x",
                                         "CELLSPAN_AGENT=1.",
                                         "CELLSPAN_AGENT=.1",
                                         "CELLSPAN_AGENT=1.1.1",
                                         "CELLSPAN_AGENT=12345678901",
                                         "",
                                         "Welcome to host h1",
                                         "CELLSPAN_SECRET=2:00" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct err why = { "" };

        ok(secret_take_line(&h, slice_text(wrong[i]), &why) < 0 && why.text[0] &&
               !strstr(why.text, "h1"),
           "not: %s", wrong[i]);
    }
    setenv("CELLSPAN_SECRET", text, 1);
    setenv("CELLSPAN_AGENT", "3", 1);
    char *where = getenv("CELLSPAN_SECRET");
    h = (struct handed){ .index = 0 };
    ok(secret_from_environment(&h, &err) == 0 && h.has_secret && h.index == 3,
       "both from the environment");
    ok(!getenv("CELLSPAN_SECRET") && !getenv("CELLSPAN_AGENT") && where[0] == '\0' &&
           where[60] == '\0',
       "where they are wiped and unset");
    secret_wipe(&h.secret);
}

static void secrets_are_waited_for(void)
{
    struct handed h = { .index = 0 };
    struct err err = { "" }, end = { "" };
    int fd[2];

    if (pipe(fd) < 0)
        return;
    ok(secret_from_stdin(&h, fd[0], 20, &err) < 0 && strstr(err.text, "neither in the environment"),
       "not for ever: %s", err.text);
    close(fd[1]);
    ok(secret_from_stdin(&h, fd[0], 20, &end) < 0 && strstr(end.text, "ended before"),
       "an end is an end: %s", end.text);
    close(fd[0]);
}

/* Which program python_candidates.h takes of those that path_probe.h finds. NULL: none; then *err
 * says why. */
struct sought {
    struct loop *loop;
    int found;
    bool folder, over;
    char why[512];
};

static void on_found(void *arg, int found, bool folder, const char *why)
{
    struct sought *s = arg;

    s->found = found;
    s->folder = folder;
    s->over = true;
    snprintf(s->why, sizeof s->why, "%s", why ? why : "");
    loop_stop(s->loop);
}

static struct sought seek(const struct path_probe_for *what)
{
    struct err err = { "" };
    struct sought s = { .loop = loop_create(&clock_system, &err), .found = -2 };
    struct path_probes looks = { s.loop, NULL };

    if (!s.loop || path_probe_start(&looks, what, on_found, &s, &err) < 0 ||
        loop_run(s.loop, &err) < 0)
        abort();
    ok(s.over && !looks.first, "it comes back");
    loop_destroy(s.loop);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    return s;
}

static const char *python_of(const char *wanted, const char *told, const char *path,
                             char out[static PATH_MAX], struct err *err)
{
    struct path_probe_for what = { .folder = "", .limit_ns = 100 * NS_PER_S };
    const char *found;
    struct python_candidates p;

    if (python_candidates_list(&p, wanted, told, path, err) < 0)
        abort();
    what.program = p.program;
    what.n = p.n;
    found = python_candidates_found(&p, seek(&what).found, "h2", err);
    snprintf(out, PATH_MAX, "%s", found ? found : "");
    python_candidates_release(&p);
    return found ? out : NULL;
}

static void folders_are_looked_for(const char *folder, const char *file)
{
    struct path_probe_for what = { .folder = folder, .limit_ns = 100 * NS_PER_S };

    ok(seek(&what).folder, "a folder");
    what.folder = file;
    ok(!seek(&what).folder, "a file is none");
    what.folder = "/nowhere";
    ok(!seek(&what).folder, "nor is nothing");
}

static void pythons_are_looked_for(void)
{
    char folder[] = "/tmp/cellspan-test-XXXXXX", path[PATH_MAX], python[64], out[PATH_MAX],
         version[32];
    struct err err = { "" };

    ok(python_candidates_version("/opt/x/python3.12", version) &&
           strcmp(version, "python3.12") == 0 &&
           !python_candidates_version("/usr/bin/python3", version) &&
           python_candidates_version("/usr/lib/python3.9/site-packages", version) &&
           strcmp(version, "python3.9") == 0,
       "versions in paths");
    if (!mkdtemp(folder))
        return;
    snprintf(python, sizeof python, "%s/python3", folder);
    snprintf(path, sizeof path, "/nowhere::%s", folder);
    ok(!python_of("/nowhere/python", NULL, path, out, &err) &&
           strstr(err.text, "h2 has no /nowhere/python") &&
           strstr(err.text, "CELLSPAN_REMOTE_PYTHON"),
       "none: %s", err.text);
    if (symlink("/bin/sh", python) < 0)
        return;
    ok(python_of("/nowhere/python", NULL, path, out, &err) && strcmp(out, python) == 0,
       "the one on PATH will do");
    ok(python_of("/bin/ls", "/bin/sh", path, out, &err) && strcmp(out, "/bin/sh") == 0,
       "the one that was set counts");
    ok(python_of("/bin/ls", "python3", path, out, &err) && strcmp(out, python) == 0,
       "by its name on PATH too");
    err.text[0] = '\0';
    ok(!python_of("/bin/sh", "/nowhere/else", path, out, &err) &&
           strstr(err.text, "h2 has no /nowhere/else, which CELLSPAN_REMOTE_PYTHON names"),
       "and no other stands in for it: %s", err.text);
    folders_are_looked_for(folder, python);
    unlink(python);
    rmdir(folder);
}

static void a_file_system_that_hangs_is_named(void)
{
    char hung[HUNG_SIZE], path[HUNG_SIZE + 16], sh[] = "/bin/sh";
    char *programs[] = { path, sh };
    struct path_probe_for what = { programs, 2, "", 300 * NS_PER_MS };
    struct sought s;
    int fd, turns = 3;

    if ((fd = hung_open(hung)) < 0) {
        skip("no file system can be made that hangs");
        return;
    }
    snprintf(path, sizeof path, "%s/python3", hung);
    s = seek(&what);
    ok(s.found < 0 && strstr(s.why, path) && strstr(s.why, "does not answer"),
       "where it hangs is told: %s", s.why);
    programs[0] = sh;
    what.folder = path;
    do { /* where this machine stood still, it had not come to the folder yet */
        what.limit_ns *= 4;
        s = seek(&what);
    } while (--turns && !strstr(s.why, path));
    ok(s.found < 0 && strstr(s.why, path), "a folder, too");
    hung_close(hung, fd);
}

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        return 99;
    the_tree_knows_who_is_where();
    endpoints_are_taken_apart();
    lists_begin_with_what_was_used();
    an_agent_may_have_its_own_secret();
    secrets_are_sealed_for_one_agent();
    secrets_are_lines();
    secrets_are_waited_for();
    pythons_are_looked_for();
    a_file_system_that_hangs_is_named();
    return plan_done();
}
