/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's requests, as the kernel reads them from its sockets. tests/unit/pure.c has others. */
#include "tests/unit/kernel/double.h"

#include <stdlib.h>

#include "kernel/jupyter/inbox.h"

void ask(struct world *w, const char *type, const char *content)
{
    ask_in(w, "", type, content);
}

void ask_in(struct world *w, const char *subshell, const char *type, const char *content)
{
    static unsigned number; /* in the id, behind the session and the client's process id */
    char header[256];
    const char *const text[] = {
        w->client ? w->client : "client", "<IDS|MSG>", "", header, "{}", "{}", content
    };
    zmq_msg_t part[7];
    struct request *r = NULL;

    snprintf(header, sizeof header,
             "{\"msg_id\":\"s_7_%u\",\"msg_type\":\"%s\",\"session\":\"s\",\"version\":\"5.5\","
             "\"subshell_id\":\"%s\"}",
             number++, type, subshell);
    for (size_t k = 0; k < 7; k++) {
        zmq_msg_init_size(&part[k], strlen(text[k]));
        memcpy(zmq_msg_data(&part[k]), text[k], strlen(text[k]));
    }
    if (w->own)
        w->own(true);
    if (request_create(CHANNEL_SHELL, part, 7, &w->session, &r) != JUPYTER_FINE)
        abort();
    if (w->own)
        w->own(false);
    dispatch_request(w->nb, r);
    settle(w);
    request_unref(r);
    for (size_t k = 0; k < 7; k++)
        zmq_msg_close(&part[k]);
}
