/* SPDX-License-Identifier: BSD-3-Clause */
/* From a list of workers to one route for each connection: order, waiting, trees, dead nodes; and
 * any allocation may fail. */
#include <stdlib.h>

#include "kernel/agents/to_agents.h"
#include "tests/unit/chaos.h"
#include "tests/unit/kernel/agents/words.h"
#include "tests/unit/tap.h"

#define NODES 12u /* 0, and a run of eleven */

struct world {
    struct node_table nodes;
    struct fan fan;
    zmq_msg_t body;
};

static void world_open(struct world *w)
{
    struct err err = { "" };

    *w = (struct world){ .nodes = NODE_TABLE_INIT };
    w->fan.nodes = &w->nodes;
    (void)zmq_msg_init_size(&w->body, 100);
    memset(zmq_msg_data(&w->body), 'b', 100);
    if (node_table_add(&w->nodes, 1, 0, &err) < 0 ||
        node_table_add(&w->nodes, NODES - 1, 1, &err) < 0)
        abort();
    for (unsigned k = 0; k < NODES; k++) {
        w->nodes.link[k]->node.state = NODE_UP;
        w->nodes.link[k]->identity_size = 5;
    }
    for (uint32_t worker = 2; worker < 100; worker++) /* four a node, from node 1 on */
        if (node_table_place(&w->nodes, worker, 1 + (worker - 2) / 4 % (NODES - 1), &err) < 0)
            abort();
}

static void world_close(struct world *w)
{
    fan_release(&w->fan);
    node_table_release(&w->nodes);
    zmq_msg_close(&w->body);
}

static const char *route_of(const struct world *w, size_t top, char *out, size_t size)
{
    return top < w->fan.n_top ? route_words(buf_slice(&w->fan.top[top]->fan.route), out, size) : "";
}

static void a_list_becomes_routes(void)
{
    static const uint32_t list[] = { 2, 3, 6, 4, 1, 7, 99 };
    struct world w;
    char text[256];

    world_open(&w);
    ok(fan_workers(&w.fan, list, 7, &w.body) == 0 && w.fan.n_top == 4,
       "seven workers on four nodes: four connections");
    is_text(route_of(&w, 0, text, sizeof text), "1:2,3,4",
            "a node's workers in the order of the list");
    is_text(route_of(&w, 1, text, sizeof text), "2:6,7", "the second node's");
    is_text(route_of(&w, 2, text, sizeof text), "0:1", "home is on node 0");
    is_text(route_of(&w, 3, text, sizeof text), "3:99", "whatever its number");
    ok(fan_workers(&w.fan, list, 2, &w.body) == 0 && w.fan.n_top == 1,
       "the next message has its own routes");
    is_text(route_of(&w, 0, text, sizeof text), "1:2,3", "and nothing of the last one");
    ok(fan_nodes(&w.fan, (const unsigned[]){ 5, 7, 5 }, 3, &w.body) == 0 && w.fan.n_top == 2,
       "agents, each once");
    is_text(route_of(&w, 1, text, sizeof text),
            "7:", "a section without workers is the agent's own");
    world_close(&w);
}

static void a_tree_has_one_route_a_connection(void)
{
    uint32_t list[40];
    struct world w;
    char text[256];

    world_open(&w);
    for (unsigned k = 3; k < NODES; k++) { /* 1 and 2 have all others below them; 3 has 11 */
        w.nodes.link[k]->move = TREE_MOVE_DONE;
        w.nodes.link[k]->parent = w.nodes.link[k == 11 ? 3 : 1 + (k - 1) % 2];
    }
    for (unsigned k = 0; k < 40; k++)
        list[k] = 2 + k;
    ok(fan_workers(&w.fan, list, 40, &w.body) == 0, "forty workers in a tree");
    is_int(w.fan.n_top, 2, "leave by two connections");
    is_int(w.fan.n_touched, 10, "to ten nodes");
    ok(strstr(route_of(&w, 0, text, sizeof text), "3:10,11,12,13"),
       "a child's section is in its parent's route");
    ok(fan_workers(&w.fan, (const uint32_t[]){ 42 }, 1, &w.body) == 0 && w.fan.n_top == 1,
       "a grandchild alone");
    is_text(route_of(&w, 0, text, sizeof text), "11:42",
            "its own section, to the connection above");
    ok(w.fan.top[0] == w.nodes.link[1], "which is that of its grandparent");
    ok(node_link_is_under(w.nodes.link[11], w.nodes.link[1]) &&
           !node_link_is_under(w.nodes.link[1], w.nodes.link[11]) &&
           !node_link_is_under(w.nodes.link[11], w.nodes.link[2]),
       "who is under whom");
    node_link_lost(w.nodes.link[1]);
    ok(fan_workers(&w.fan, (const uint32_t[]){ 42 }, 1, &w.body) == 0 && w.fan.n_top == 0 &&
           w.nodes.link[11]->first,
       "nothing leaves by way of one that was lost a moment ago");
    node_link_lost(w.nodes.link[1]);
    ok(fan_workers(&w.fan, (const uint32_t[]){ 42 }, 1, &w.body) == 0 && w.fan.n_top == 0 &&
           w.nodes.link[11]->first,
       "once the grandparent is lost, nothing leaves by it");
    w.nodes.link[3]->move = TREE_MOVE_DIALING;
    ok(!node_link_is_under(w.nodes.link[3], w.nodes.link[1]),
       "while it dials it speaks for itself");
    world_close(&w);
}

static void who_can_not_take_it_has_it_wait(void)
{
    static const uint32_t list[] = { 2, 3, 6 };
    struct world w;
    struct waiting_message *message;
    char text[256];

    world_open(&w);
    w.nodes.link[1]->move = TREE_MOVE_DIALING;
    ok(fan_workers(&w.fan, list, 3, &w.body) == 0 && fan_workers(&w.fan, list, 1, &w.body) == 0,
       "one node is on its way");
    is_int(w.fan.n_top, 0, "nothing leaves to it");
    message = node_link_take(w.nodes.link[1]);
    is_text(route_words(buf_slice(&message->route), text, sizeof text), "1:2,3", "the first waits");
    is_int(zmq_msg_size(&message->body), 100, "with its body");
    waiting_message_free(message);
    message = node_link_take(w.nodes.link[1]);
    is_text(route_words(buf_slice(&message->route), text, sizeof text), "1:2",
            "the second after it");
    waiting_message_free(message);
    ok(node_link_take(w.nodes.link[1]) == NULL, "no more");
    waiting_message_free(NULL);
    world_close(&w);
}

/* What has a number and could not be sent to all of its nodes is the next one for each. */
static void without_memory_nothing_is_handed(void)
{
    static const uint32_t list[] = { 2, 6, 10 };
    unsigned wrong = 0, failures = 0;

    for (long at = 0; at < 40; at++) {
        struct world w;
        int rc;

        world_open(&w);
        w.fan.numbered = true;
        for (unsigned k = 1; k < NODES; k++)
            if (session_resume(&w.nodes.link[k]->session, 0, NULL) < 0)
                abort();
        alloc_fail_at(at);
        rc = fan_workers(&w.fan, list, 3, &w.body);
        alloc_fail_at(-1);
        failures += rc < 0;
        for (unsigned k = 1; k <= 3; k++) {
            struct node_link *link = w.nodes.link[k];

            wrong += link->session.handed != (rc < 0 ? 0 : 1);
            wrong += rc < 0 && link->session.numbered && !node_link_next(link);
        }
        wrong += rc < 0 && w.fan.n_top != 0;
        world_close(&w);
    }
    ok(failures > 3 && failures < 40, "each of %u allocations fails once", failures);
    is_int(wrong, 0, "then no node's session believes that the message was sent");
}

static void the_dead_get_nothing(void)
{
    static const uint32_t list[] = { 2, 6, 1 };
    unsigned nodes[NODES];
    struct world w;

    world_open(&w);
    node_link_lost(w.nodes.link[1]);
    ok(fan_workers(&w.fan, list, 2, &w.body) == 0 && w.fan.n_top == 1 && w.fan.gone == 1,
       "the others get it");
    is_int(fan_list(&w.fan, list, 3, nodes), 2, "nor are they listed");
    ok(fan_workers(&w.fan, list, 1, &w.body) == 0 && w.fan.n_touched == 0 && w.fan.gone == 1,
       "there is nobody left");
    node_table_forget(&w.nodes, 6);
    ok(fan_workers(&w.fan, list + 1, 1, &w.body) == 0 && w.fan.gone == 1,
       "who is forgotten is nowhere");
    is_int(node_table_where(&w.nodes, 6), NODE_NOWHERE, "indeed");
    node_link_lost(w.nodes.link[0]);
    ok(fan_workers(&w.fan, list + 2, 1, &w.body) == 0 && w.nodes.link[0]->first,
       "home's waits: it is started again");
    world_close(&w);
}

static void addresses_are_read(void)
{
    struct world w;
    struct node_link *link;

    world_open(&w);
    link = w.nodes.link[2];
    ok(node_link_set_addresses(link, slice_text("eth0=10.0.0.2,ib0=10.1.0.2")) == 0, "a list");
    is_text(link->node.address, "10.0.0.2", "the first is the node's");
    ok(node_link_set_addresses(link, slice_text("")) == 0 && *link->node.address == '\0', "none");
    ok(node_link_set_addresses(link, slice_text("fd00::1")) == 0 &&
           strcmp(link->node.address, "fd00::1") == 0,
       "without a name");
    world_close(&w);
}

static void numbers_end(void)
{
    struct world w;
    struct err err = { "" };

    world_open(&w);
    is_int(node_table_add(&w.nodes, ROUTE_NODES_MAX, 2, &err), -1, "too many nodes: %s", err.text);
    is_int(w.nodes.n, NODES, "none was added");
    is_int(node_table_place(&w.nodes, 5, NODES, &err), -1, "no place on a node that is not there");
    world_close(&w);
}

static void any_allocation_may_fail(void)
{
    uint32_t list[90];
    long nth = 0;
    int rc = -1;

    for (unsigned k = 0; k < 90; k++)
        list[k] = 1 + k;
    for (; rc < 0 && nth < 500; nth++) {
        struct world w;
        struct err err = { "" };

        world_open(&w);
        w.nodes.link[4]->move = TREE_MOVE_DIALING;
        alloc_fail_at(nth);
        rc = fan_workers(&w.fan, list, 90, &w.body);
        rc = rc < 0 ? rc : node_table_add(&w.nodes, 3, 2, &err);
        rc = rc < 0 ? rc : node_table_place(&w.nodes, 5000, 1, &err);
        rc = rc < 0 ? rc : node_link_set_name(w.nodes.link[1], slice_text("h1"));
        alloc_fail_at(-1);
        if (fan_workers(&w.fan, list, 2, &w.body) < 0 || w.fan.n_top != 2)
            nth = 1000; /* a mark was left */
        world_close(&w);
    }
    ok(rc == 0 && nth < 500, "%ld allocations failed in turn: said, and the next message is sent",
       nth);
}

int main(void)
{
    a_list_becomes_routes();
    a_tree_has_one_route_a_connection();
    who_can_not_take_it_has_it_wait();
    without_memory_nothing_is_handed();
    the_dead_get_nothing();
    addresses_are_read();
    numbers_end();
    any_allocation_may_fail();
    return plan_done();
}
