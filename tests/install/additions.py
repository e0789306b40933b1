# SPDX-License-Identifier: BSD-3-Clause
"""additions.py - what where_to_add.py adds: for each row of docs/architecture.md's table the edits, file by file; the cells that use
what is new. An edit gets the file's text and returns the new one."""

from __future__ import annotations

import re


def _place(anchor, old):
    found = list(re.finditer(anchor, old, re.M | re.S))
    if len(found) != 1:
        raise SystemExit(f"{anchor!r} matches {len(found)} times, not once")
    return found[0]


def before(anchor, text):
    """An edit that inserts text before the only place where the expression matches."""

    def edit(old):
        at = _place(anchor, old).start()
        return old[:at] + text + old[at:]

    return edit


def behind(anchor, text):
    """The same behind it."""

    def edit(old):
        at = _place(anchor, old).end()
        return old[:at] + text + old[at:]

    return edit


def everywhere(anchor, text):
    """As before(), at each place where the expression matches."""
    return lambda old: re.sub(f"(?={anchor})", lambda found: text, old)


def both(*edits):
    """These edits, one after the other."""

    def edit(old):
        for one in edits:
            old = one(old)
        return old

    return edit


def whole(text):
    """A new file."""
    return lambda old: text


def _kind_rows(old):
    """protocol/README.md: a row behind those of what goes to workers, and two at the end of the table."""
    start = old.index("<!-- kinds:")
    table = old[start : old.index("\n\n", start)]
    numbers = [int(n) for n in re.findall(r"^\| (\d+) \|", table, re.M)]
    down, up = max(n for n in numbers if n < 64) + 1, max(numbers) + 1
    new = re.sub(r"(?m)^(?=\| 64 \|)", f"| {down} | KNOCKED | K→W | text str 256 |\n", table)
    return old.replace(table, f"{new}\n| {up} | KNOCK | W→K | text str 256 |\n| {up + 1} | ECHO | K→A, A→K | text str 256 |")


# In Python: the message comes, and cells see it.
_KNOCKED = both(
    before(r'^        "EXIT": "_exit",\n', '        "KNOCKED": "_knocked",\n'),
    before(r"^    def _exit\(self, message\)", '    def _knocked(self, message):\n        os.environ["KNOCKED"] = message.fields["text"]\n\n'),
)

# Home and ranks send KNOCK. The kernel answers a rank with KNOCKED, and home when the agent has sent ECHO back.
MESSAGE = {
    "protocol/span.h": both(
        before(r"^    /\* from a worker \*/\n", "    SPAN_KNOCKED,\n"),
        before(r"^\};\n\n/\* README\.md's column \"way\"", "    SPAN_KNOCK,\n    SPAN_ECHO,\n"),
    ),
    "protocol/span_table.c": before(
        r"^\};\n\n#define ROWS",
        """    KIND(KNOCK, W_TO_K, NONE, STR("text", 256)),
    KIND(KNOCKED, K_TO_W, MAIN, STR("text", 256)),
    KIND(ECHO, K_TO_A | A_TO_K, NONE, STR("text", 256)),
""",
    ),
    "protocol/span_fields.h": both(
        before(r"^enum \{ F_READY_", "enum { F_KNOCKED_TEXT };\n"),
        before(r"^\n#endif\n\Z", "enum { F_KNOCK_TEXT };\nenum { F_ECHO_TEXT };\n"),
    ),
    "protocol/README.md": _kind_rows,
    "kernel/dispatch/from_home.c": both(
        before(
            r"^void from_home\(",
            """static void knock(struct notebook *nb, const struct span *m)
{
    struct span echo = { .kind = SPAN_ECHO, .v[F_ECHO_TEXT].s = m->v[F_KNOCK_TEXT].s };
    struct err err = { "" };

    if (notebook_send_node(nb, NODE_HERE, &echo, &err) < 0)
        log_error("home", "%s", err.text);
}

""",
        ),
        before(r'^    default:\n        log_warn\("home"', "    case SPAN_KNOCK:\n        knock(nb, m);\n        break;\n"),
    ),
    "worker/agent/from_kernel.c": both(
        before(
            r"^static void on_quit\(",
            """static void on_echo(struct agent *a, const struct span *m)
{
    struct span answer = { .kind = SPAN_ECHO, .v[F_ECHO_TEXT].s = m->v[F_ECHO_TEXT].s };

    kernel_link_send(&a->kernel, &answer);
}

""",
        ),
        before(r"^    \{ SPAN_QUIT, on_quit, NULL \},\n", "    { SPAN_ECHO, on_echo, NULL },\n"),
    ),
    "kernel/dispatch/dispatch.c": both(
        before(
            r"^void dispatch_message\(",
            """static void take_echo(struct notebook *nb, const struct span *m)
{
    struct span answer = { .kind = SPAN_KNOCKED, .v[F_KNOCKED_TEXT].s = m->v[F_ECHO_TEXT].s };

    notebook_send(nb, SPAN_WORKER_HOME, &answer);
}

""",
        ),
        before(r"^    else if \(m->kind == SPAN_GAUGES\)", "    else if (m->kind == SPAN_ECHO)\n        take_echo(nb, m);\n"),
    ),
    "kernel/dispatch/from_ranks.c": both(
        before(
            r"^void from_ranks\(",
            """static void knock(struct notebook *nb, const struct rank *r, const struct span *m)
{
    struct span answer = { .kind = SPAN_KNOCKED, .v[F_KNOCKED_TEXT].s = m->v[F_KNOCK_TEXT].s };

    notebook_send(nb, r->worker, &answer);
}

""",
        ),
        before(r'^    default:\n        log_warn\("ranks"', "    case SPAN_KNOCK:\n        knock(nb, r, m);\n        break;\n"),
    ),
    "worker/python/cellspan/_worker/home.py": _KNOCKED,
    "worker/python/cellspan/_worker/rank.py": _KNOCKED,
}

OPTION = {
    "magics/distribute.c": before(
        r"^    OPTION_ROW_HELP,\n",
        '    OPTION("greeting", OPTION_PATH, greeting, .value = "TEXT", .help = "the value of GREETING on ranks"),\n',
    ),
    "magics/plan.h": before(r"^    char \*cwd;\n", "    char *greeting;\n"),
    "kernel/cell/world_env.c": before(
        r"^    for \(char \*\*e = c->plan\.env; e",
        """    if (c->plan.greeting)
        set(env, "GREETING", json_string(c->plan.greeting));
""",
    ),
    "worker/python/cellspan-stubs/_api.pyi": everywhere(r"\btimeout: _Time \|", "greeting: str | None = None, "),
    "worker/python/cellspan-stubs/_map.pyi": everywhere(r"\btimeout: _Time \|", "greeting: str | None = None, "),
    "docs/guide.md": before(r"^\| `--no-capture` \|", "| `--greeting` | `--greeting hello` | the value of GREETING on ranks |\n"),
    "docs/man/cellspan-run.1": before(r"^\.SH INPUT AND SIGNALS", ".SS greetings\n.TP\n.BI \\-\\-greeting \" TEXT\"\nthe value of GREETING on ranks.\n"),
}

MAGIC = {
    "magics/greet.c": whole(
        """/* SPDX-License-Identifier: BSD-3-Clause */
/* greet.c - %greet: each rank says hello. */
#include <stdlib.h>

#include "magics/option.h"

static const struct option options[] = {
    OPTION_ROW_RANKS("only these say it"),
    OPTION_ROW_HELP,
    { 0 },
};

static const char *const usage[] = { "%greet [-r SPEC]", NULL };

static int finish(const struct call *call, struct plan *plan, struct err *err)
{
    static const char code[] = "import cellspan; print('hello from rank', cellspan.rank())";

    (void)call;
    plan->kind = PLAN_DISTRIBUTE;
    plan->body_size = sizeof code - 1;
    return (plan->body = strdup(code)) ? 0 : err_set(err, "out of memory");
}

const struct magic magic_greet = {
    .name = "greet",
    .usage = usage,
    .about = "Lets each rank say hello.",
    .options = options,
    .finish = finish,
};
"""
    ),
    "magics/table.h": lambda old: re.sub(r"( +)\\\n    X\(ranks\)\n", r"\1\\\n    X(ranks)\1\\\n    X(greet)\n", old),
    "magics/Local.mk": lambda old: old.replace("magics/push.c", "magics/push.c magics/greet.c", 1),
    "docs/guide.md": before(r"^## Options\n", "`%greet` lets each rank say hello.\n\n"),
}

MODULE = {
    "worker/python/cellspan/_dropin/hello.py": whole(
        '''# SPDX-License-Identifier: BSD-3-Clause
"""The interface of a package "hello"."""

from __future__ import annotations

from . import run


def everybody():
    """The length of a text, measured on every rank."""
    return run(len, "hello", gather=True)
'''
    ),
    "worker/python/Local.mk": both(
        behind(r"^dist_cellspan_py_dropin_DATA = \\\n", "\tworker/python/cellspan/_dropin/hello.py \\\n"),
        before(
            r"^cellspan_stubs_horovoddir = ",
            "cellspan_stubs_hellodir = $(cellspan_stubsdir)/hello\ndist_cellspan_stubs_hello_DATA = \\\n"
            "\tworker/python/cellspan-stubs/hello/__init__.pyi\n\n",
        ),
    ),
    "worker/python/cellspan/__init__.py": lambda old: old.replace('_MODULES = ("', '_MODULES = ("hello", "', 1),
    "worker/python/cellspan-stubs/__init__.pyi": before(r"^from \. import maggy as maggy\n", "from . import hello as hello\n"),
    "worker/python/cellspan-stubs/hello/__init__.pyi": whole("# SPDX-License-Identifier: BSD-3-Clause\ndef everybody() -> list[int]: ...\n"),
    "docs/names.md": before(r"^\| `from databricks\.air", "| `import hello` | `import cellspan.hello` |\n"),
}

EDITS = {
    "a message": MESSAGE,
    "an option of `%%distribute`": OPTION,
    "a magic": MAGIC,
    "a module with another package's name (`cellspan.NAME`)": MODULE,
}
# Files that a row names for cases other than these.
NOT_ALWAYS = {
    "an option of `%%distribute`": ("worker/python/cellspan/_call_options.py",),
    "a message": ("worker/ext/link.c",),
    "a module with another package's name (`cellspan.NAME`)": ("worker/python/cellspan/_dropin_api.py",),
}

# Code, and what it shows.
CELLS = (
    ('from cellspan import _link\n_link.send("KNOCK", 0, {"text": "is anybody there?"})', ()),
    ('import os; print(os.environ.get("KNOCKED"))', ("is anybody there?",)),
    ('%%distribute -n 2\nimport cellspan\nfrom cellspan import _link\n_link.send("KNOCK", 0, {"text": f"from rank {cellspan.rank()}"})', ()),
    ('%%distribute -n 2\nimport os; print(os.environ.get("KNOCKED"))', ("from rank 0", "from rank 1")),
    ("%%distribute -n 2 --greeting 'good morning'\nimport os; print(os.environ['GREETING'])", ("good morning",)),
    ("import cellspan; print(cellspan.run(os.getenv, 'GREETING', greeting='good evening'))", ("good evening",)),
    ("%%distribute --help", ("--greeting TEXT", "the value of GREETING on ranks")),
    ("%greet", ("hello from rank 0", "hello from rank 1")),
    ("if True:\n    %greet -r 1", ("hello from rank 1",)),
    ("%greet --help", ("%greet [-r SPEC]", "Lets each rank say hello.")),
    ("print(cellspan.hello.everybody())", ("[5, 5]",)),
)
# Code with the cursor at its end, and one of the texts that Tab offers.
COMPLETIONS = (("%%distribute --gree", "--greeting"), ("%gree", "%greet"))
