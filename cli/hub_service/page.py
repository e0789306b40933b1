# SPDX-License-Identifier: BSD-3-Clause
"""The view as a page. It has no script, and loads nothing; all that users can name goes through named()."""

from __future__ import annotations

import base64
import hashlib
import html
import re

STYLE = """
:root { color-scheme: light dark; --text: #1d2433; --quiet: #5a6478; --back: #fff; --line: #d8dde6; --busy: #0b6b3a; --own: #eef4ff; --bad: #a11d1d }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e8f0; --quiet: #9aa5b8; --back: #14181f; --line: #333b48; --busy: #6fd49b; --own: #1b2740; --bad: #ff8f8f }
}
body { margin: 1.5rem; font: 15px/1.45 system-ui, sans-serif; color: var(--text); background: var(--back) }
h1 { font-size: 1.3rem } h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem }
.scrolls { overflow-x: auto }
table { border-collapse: collapse; min-width: 60% }
th, td { text-align: left; padding: .3rem .8rem .3rem .4rem; border-bottom: 1px solid var(--line); white-space: nowrap }
th { color: var(--quiet); font-weight: 600 }
td.name { white-space: normal; overflow-wrap: anywhere; max-width: 32rem }
tr.own { background: var(--own) } .busy { color: var(--busy); font-weight: 600 } .quiet { color: var(--quiet) } .bad { color: var(--bad) }
"""
POLICY = ("default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
          % base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode())
RELOAD = 15  # seconds
SHOWN = 200  # characters of a name: the last ones
# Controls, surrogates, and what changes the direction of text or is not seen
ODD = re.compile("[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]")


def named(text):
    """A user's text as HTML that stays in its place: odd characters are question marks, and it does not set the direction of others."""
    text = text if len(text) <= SHOWN else "…" + text[-SHOWN:]
    return "<bdi>%s</bdi>" % html.escape(ODD.sub("?", text))


def lasted(seconds):
    """0:42, 1:02:03, 3 days; a dash if it is not known, or nothing."""
    if seconds is None or seconds < 1:
        return "–"
    seconds = int(seconds)
    if seconds >= 172800:
        return "%d days" % (seconds // 86400)
    return "%d:%02d:%02d" % (seconds // 3600, seconds // 60 % 60, seconds % 60) if seconds >= 3600 else "%d:%02d" % (seconds // 60, seconds % 60)


def size(count):
    """Of memory in bytes."""
    if not count:
        return "–"
    return "%.1f GiB" % (count / (1 << 30)) if count >= 1 << 30 else "%.0f MiB" % (count / (1 << 20))


def _table(heads, rows, none):
    if not rows:
        return '<p class="quiet">%s</p>' % none
    return '<div class="scrolls"><table><thead><tr>%s</tr></thead><tbody>%s</tbody></table></div>' % (
        "".join('<th scope="col">%s</th>' % head for head in heads), "".join(rows))


def _row(own, *cells):
    return "<tr%s>%s</tr>" % (' class="own"' if own else "", "".join(cell if cell.startswith("<td") else "<td>%s</td>" % cell for cell in cells))


def _holders(card):
    if not card["held"]:
        return '<span class="quiet">nobody</span>'
    if not card["by"]:
        return "somebody else"
    return ", ".join("%s, %s" % (named(one["user"] or "?"), named(one["notebook"]) if one["notebook"] else "pid %d" % one["pid"]) for one in card["by"])


def _card(card, now):
    memory = "%s of %s" % (size(card["used"]) if card["used"] else "0", size(card["total"])) if card["total"] else "–"
    more = "; %d without a lease" % card["programs"] if card["programs"] else ""
    use = "–" if card["use"] is None else '<span class="%s">%d %%</span>' % ("busy" if card["use"] else "quiet", card["use"])
    return _row(card["own"], named(card["gpu"] or "?"), named(card["name"] or card["uuid"] or "?"), use, memory,
                lasted(None if card["since"] is None else now - card["since"]), lasted(card["idle"]), '<td class="name">%s%s</td>' % (_holders(card), more))


def _state(row):
    if row["state"] == "ranks":
        return '<span class="busy">%s %s</span>' % ("In [%d]" % row["cell"] if row["cell"] is not None else "a cell", lasted(row["running"]))
    if row["state"] == "home":
        return '<span class="busy">at home</span>'
    return '<span class="quiet">%s</span>' % {"idle": "–"}.get(row["state"], html.escape(row["state"]))


def _notebook(row):
    ranks = "%d (%d busy)" % (row["ranks"], row["busy"]) if row["busy"] else "%d" % row["ranks"]
    return _row(row["own"], named(row["user"]), '<td class="name">%s</td>' % named(row["notebook"]), _state(row), ranks,
                named(row["on"]) if row["on"] else "this machine", size(row["memory"]), "%d" % row["gpus"], lasted(row["idle"]), lasted(row["seconds"]))


def page(seen, who, error, age, now):
    """seen: of view.py; None: there is no list. error says why there is no newer one; None: it is the newest."""
    parts = ['<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
             '<meta http-equiv="refresh" content="%d"><title>cellspan: GPUs and notebooks</title><style>%s</style></head><body>' % (RELOAD, STYLE),
             "<h1>GPUs and notebooks of this machine</h1>"]
    if seen is None:
        parts.append('<p class="bad">There is no list: %s</p>' % named(error))
    else:
        whose = "of all users" if seen["all_users"] else "of %s only" % named(who)
        whose = whose if seen["root"] else "of the hub's own account only, as the hub is not root's"
        if error is not None:
            parts.append('<p class="bad">There is no newer list: %s</p>' % named(error))
        parts.append('<p class="quiet">%s s old. Notebooks: %s.</p><h2>GPUs</h2>' % ("%.0f" % age, whose))
        parts.append(_table(("GPU", "Name", "Use", "Memory", "Since", "Idle", "Held by"), [_card(card, now) for card in seen["gpus"]], "No GPU of this machine is known."))
        parts.append("<h2>Notebooks</h2>")
        parts.append(_table(("User", "Notebook", "Runs", "Ranks", "On", "Memory", "GPUs", "Idle", "Age"), [_notebook(row) for row in seen["notebooks"]],
                            "No notebook with cellspan's kernel runs."))
        if seen["left_out"]:
            parts.append('<p class="bad">%d more of users who have more than 64.</p>' % seen["left_out"])
    return "".join(parts) + "</body></html>\n"
