# SPDX-License-Identifier: BSD-3-Clause
"""%scatter and %gather. They divide and join objects of Python, so they are home's, unlike %push and %pull."""

from __future__ import annotations

from .._base.errors import undefined
from .._base.options import Option, parse, usage
from .requests import own_names

RANKS = Option(("-r", "--ranks"), "ranks", "SPEC", "only these ranks: 0,2-5")
INTO = Option(("--into",), "into", "NAME", "the name of the result (default: the same name)")
HELP = Option(("-h", "--help"), "help", "", "show this text")
SCATTER = (
    Option(("-n", "--nproc"), "n", "N", "the number of ranks, if more have to start"),
    RANKS,
    INTO,
    Option(("--flatten",), "flatten", "", "a part of one item is that item"),
    HELP,
)
GATHER = (RANKS, INTO, HELP)


def register(home):
    """Registers the magics with home's shell."""

    def scatter(line):
        """See %scatter --help."""
        __tracebackhide__ = True
        given = _options("%scatter", line, SCATTER, "NAME", "Divides a list, array, tensor or DataFrame of home among the ranks.")
        if given is None:
            return
        options, name = given
        if name not in home.shell.user_ns:
            raise undefined(name, own_names(home.shell, ""))
        from .._api import group

        group().scatter(options.get("into", name), home.shell.user_ns[name], n=options.get("n"), ranks=options.get("ranks"),
                        flatten="flatten" in options)

    def gather(line):
        """See %gather --help."""
        __tracebackhide__ = True
        given = _options("%gather", line, GATHER, "NAME", "Joins the ranks' parts: home's variable is the whole list, array, tensor "
                                                          "or DataFrame.")
        if given is None:
            return
        options, name = given
        from .._api import group

        home.shell.user_ns[options.get("into", name)] = group().gather(name, ranks=options.get("ranks"))

    for magic in (scatter, gather):
        magic.__qualname__ = magic.__name__
        home.shell.register_magic_function(magic, "line")


def _options(magic, line, table, what, about):
    """(options, the one name); None: it was --help."""
    from IPython.core.error import UsageError

    options, words = parse(magic, line, table)
    names = []
    while words and not options.get("help"):
        word, _, words = words.strip().partition(" ")
        names.append(word)
        more, words = parse(magic, words, table)
        options.update(more)
    if options.get("help"):
        print(usage(f"{magic} {what} [options]", about, table))
        return None
    if len(names) != 1:
        raise UsageError(f"{magic} takes one name, not {' '.join(names) or 'none'}: {magic} data")
    for name in [*names, options.get("into", "x")]:
        if not name.isidentifier():
            raise UsageError(f"{magic}: {name!r} is not the name of a variable")
    return options, names[0]
