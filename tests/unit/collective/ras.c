/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of worker/collective/ras.h, with answers in the form of NCCL 2.24 to 2.29. */
#include "worker/collective/ras.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

static const char head[] =
    "NCCL version 2.24.3 compiled with CUDA 12.4\n"
    "CUDA runtime version 12040, driver version 12040\n"
    "\n"
    "Job summary\n"
    "===========\n"
    "\n"
    "  Nodes  Processes         GPUs  Processes     GPUs\n"
    "(total)   per node  per process    (total)  (total)\n"
    "      2          4            1          8        8\n"
    "\n"
    "Communicators... (0.00s)\n"
    "=============\n"
    "\n"
    "Group     Comms      Nodes     Ranks     Ranks     Ranks   Status  Errors\n"
    "    #  in group   per comm  per node  per comm  in group\n";
static const char fine[] =
    "    0         1          2         4         8         8  RUNNING      OK\n";
static const char behind[] =
    "    0         1          2         4         8         8  RUNNING  MISMATCH\n"
    "\nErrors\n======\n\n\nWarnings\n========\n\n"
    "#0-0 (78db921d1c117b4a) MISMATCH\n"
    "  Communicator ranks have different AllReduce operation counts\n"
    "  7 ranks have launched up to operation 64\n"
    "  Rank 7 has launched up to operation 60 -- GPU 3 managed by process 1650386 on node node1\n"
    "  Communicator ranks have different Broadcast operation counts\n"
    "  6 ranks have not launched any operations\n"
    "  2 ranks have launched up to operation 3\n"
    "  Rank 1 -- GPU 1 managed by process 11 on node node0\n"
    "  Rank 4 -- GPU 0 managed by process 14 on node node1\n";
static const char older[] =
    "\nWarnings\n========\n\n#1-2 (27a079b828ff1a75) MISMATCH\n"
    "  Communicator ranks have different collective operation counts\n"
    "  26 ranks have launched up to operation 6650\n"
    "  Rank 0 has not launched any operations -- GPU 0 managed by process 5 on node node0\n";
static const char dead[] =
    "    0         1          2       3-4         7         7  RUNNING  INCOMPLETE\n"
    "\nErrors\n======\n\n"
    "DEAD\n"
    "  1 job process is considered dead (unreachable via the RAS network)\n"
    "  Process 3487984 on node node1 managing GPU 3\n\n"
    "#0-0 (cf264af53edbe986) INCOMPLETE\n"
    "  Missing communicator data from 1 job process\n"
    "  Process 3487984 on node node1 managing GPU 3\n\n"
    "Warnings\n========\n\n"
    "#0-0 (cf264af53edbe986) MISMATCH\n"
    "  Communicator ranks have different AllReduce operation counts\n"
    "  6 ranks have launched up to operation 4\n"
    "  Rank 2 has launched up to operation 3 -- GPU 2 managed by process 12 on node node0\n";

static void says(const char *first, const char *second, const char *want, const char *what)
{
    struct buf text = BUF_INIT, words = BUF_INIT;
    struct ras_status s;
    struct err err = { "" };

    if (buf_add_text(&text, first) < 0 || buf_add_text(&text, second) < 0)
        exit(1);
    if (ok(ras_parse(buf_slice(&text), &s, &err) == 0, "%s: is read (%s)", what, err.text)) {
        is_int(ras_words(&s, &words), 0, "%s: is told", what);
        is_text(words.p ? words.p : "", want, "%s: in words", what);
        ras_status_release(&s);
    }
    buf_release(&text);
    buf_release(&words);
}

static void answers_are_told(void)
{
    says(head, fine, "NCCL: in each communicator all ranks have launched equally many operations\n",
         "a job that goes on");
    says(
        head, behind,
        "NCCL #0-0 (78db921d1c117b4a): 7 ranks launched 64 AllReduce; rank 7 launched 60 AllReduce\n"
        "NCCL #0-0 (78db921d1c117b4a): 6 ranks launched no Broadcast; ranks 1,4 launched 3 Broadcast\n",
        "a rank that is behind");
    says(
        head, older,
        "NCCL #1-2 (27a079b828ff1a75): 26 ranks launched 6650 operations; rank 0 launched no operations\n",
        "an older NCCL, which counts all operations together");
    says(head, dead,
         "NCCL #0-0 (cf264af53edbe986): 6 ranks launched 4 AllReduce; rank 2 launched 3 AllReduce\n"
         "NCCL: 1 job process is considered dead (unreachable via the RAS network)\n"
         "NCCL: Process 3487984 on node node1 managing GPU 3\n"
         "NCCL: Missing communicator data from 1 job process\n"
         "NCCL: Process 3487984 on node node1 managing GPU 3\n",
         "a rank that is dead");
    says("", "", "", "an empty answer");
    says("No communicators.\n", "Rank 3 -- x\n#\n#0-0 (\n", "", "what is not known");
}

/* Cut off anywhere, and with bytes that are none of NCCL's: nothing is overrun. */
static void garbage_is_harmless(void)
{
    struct err err = { "" };
    char text[sizeof head + sizeof dead];
    const size_t n = (size_t)snprintf(text, sizeof text, "%s%s", head, dead);
    unsigned failed = 0;

    for (size_t cut = 0; cut < n; cut++) {
        struct ras_status s;
        char *copy = malloc(cut + 1);

        memcpy(copy, text, cut);
        for (size_t i = cut % 7; i < cut; i += 97)
            copy[i] = (char)(cut % 256);
        failed += ras_parse(slice_of(copy, cut), &s, &err) < 0;
        ras_status_release(&s);
        free(copy);
    }
    is_int(failed, 0, "%zu answers that are cut off or spoiled are read", n);
}

static void memory_may_be_out(void)
{
    char text[sizeof head + sizeof behind];
    unsigned leaks = 0;
    long nth = 0;

    snprintf(text, sizeof text, "%s%s", head, behind);
    for (bool failed = true; failed && nth < 1000; nth++) {
        struct ras_status s;
        struct err err = { "" };

        alloc_fail_at(nth);
        if (ras_parse(slice_text(text), &s, &err) < 0)
            leaks += s.n != 0 || s.count != NULL || !err.text[0];
        else
            ras_status_release(&s);
        failed = alloc_failed() != 0;
        alloc_fail_at(-1);
    }
    ok(nth > 3 && leaks == 0, "each of %ld failing allocations leaves nothing behind", nth - 1);
}

static bool stays; /* the next server does not end its answer */

/* A server of one client: `greeting`, then `answer`; both may be missing. */
static pid_t serve(unsigned *port, const char *greeting, const char *answer)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t size = sizeof at;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    pid_t pid;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&at, size) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &size) < 0)
        exit(1);
    *port = ntohs(at.sin_port);
    fflush(stdout);
    if ((pid = fork()) == 0) {
        const int fd = accept(listener, NULL, NULL);
        char got[64] = "";

        if (recv(fd, got, 18, MSG_WAITALL) != 18 || strcmp(got, "CLIENT PROTOCOL 2\n") != 0)
            _exit(1);
        if (!greeting) {
            (void)!recv(fd, got, 1, 0); /* hangs until the client has given up */
            _exit(0);
        }
        (void)!send(fd, greeting, strlen(greeting), MSG_NOSIGNAL);
        if (answer &&
            (recv(fd, got, 10, MSG_WAITALL) != 10 || memcmp(got, "TIMEOUT 1\n", 10) != 0 ||
             send(fd, "OK\n", 3, MSG_NOSIGNAL) != 3))
            _exit(1);
        if (answer && recv(fd, got, 15, MSG_WAITALL) == 15 &&
            memcmp(got, "VERBOSE STATUS\n", 15) == 0) {
            for (const char *p = answer; *p; p += strlen(p) < 10 ? strlen(p) : 10)
                (void)!send(fd, p, strlen(p) < 10 ? strlen(p) : 10, MSG_NOSIGNAL);
        }
        if (stays)
            (void)!recv(fd, got, 1, 0); /* as RAS, which waits for a rank that is dead */
        _exit(0);
    }
    close(listener);
    return pid;
}

static void servers_are_asked(void)
{
    struct buf out = BUF_INIT;
    struct err err = { "" };
    char where[64], words[512] = "";
    unsigned port;
    size_t n = 0;
    ssize_t k;
    pid_t pid;
    int fd;

    pid = serve(&port, "SERVER PROTOCOL 2\n", fine);
    snprintf(where, sizeof where, "127.0.0.1:%u", port);
    is_int(ras_ask(where, 10000, &out, &err), 0, "RAS is asked (%s)", err.text);
    is_text(out.p, fine, "and answers");
    waitpid(pid, NULL, 0);
    ok(ras_ask(where, 10000, &out, &err) < 0 && strstr(err.text, "no NCCL RAS at 127.0.0.1"),
       "nobody is there (%s)", err.text);
    err.text[0] = '\0';
    pid = serve(&port, "HTTP/1.1 400 Bad Request\r\n", NULL);
    snprintf(where, sizeof where, "127.0.0.1:%u", port);
    ok(ras_ask(where, 10000, &out, &err) < 0 && strstr(err.text, "is not NCCL's RAS"),
       "somebody else is there (%s)", err.text);
    waitpid(pid, NULL, 0);
    err.text[0] = '\0';
    pid = serve(&port, NULL, NULL);
    snprintf(where, sizeof where, "127.0.0.1:%u", port);
    ok(ras_ask(where, 200, &out, &err) < 0 && strstr(err.text, "does not answer"),
       "somebody is silent (%s)", err.text);
    waitpid(pid, NULL, 0);
    err.text[0] = '\0';
    stays = true;
    buf_clear(&out);
    pid = serve(&port, "SERVER PROTOCOL 2\n", behind);
    snprintf(where, sizeof where, "127.0.0.1:%u", port);
    is_int(ras_ask(where, 500, &out, &err), 0, "an answer that does not end is taken (%s)",
           err.text);
    is_text(out.p, behind, "as far as it came");
    waitpid(pid, NULL, 0);
    stays = false;
    err.text[0] = '\0';
    ok(ras_ask("nonsense", 200, &out, &err) < 0 && strstr(err.text, "not host:port"),
       "an address is checked (%s)", err.text);
    pid = serve(&port, "SERVER PROTOCOL 2\n", behind);
    snprintf(where, sizeof where, "127.0.0.1:%u", port);
    setenv("NCCL_RAS_ADDR", where, 1);
    fd = ras_begin(NULL, 0, 10000, &err);
    while (fd >= 0 && (k = read(fd, words + n, sizeof words - 1 - n)) > 0)
        n += (size_t)k;
    ok(strstr(words, "rank 7 launched 60 AllReduce") != NULL, "a loop gets the words from a pipe");
    close(fd);
    waitpid(pid, NULL, 0);
    buf_release(&out);
}

int main(void)
{
    answers_are_told();
    garbage_is_harmless();
    memory_may_be_out();
    servers_are_asked();
    return plan_done();
}
