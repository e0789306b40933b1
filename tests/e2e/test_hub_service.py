# SPDX-License-Identifier: BSD-3-Clause
"""The parts of cli/hub_service that need no JupyterHub. tests/hub/run tries it with one."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from processes import wait_until

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "cli" / "hub_service"


@pytest.fixture(scope="module")
def parts():
    """The modules, by name."""
    sys.path.append(str(FOLDER.parent))
    yield lambda name: importlib.import_module("hub_service." + name)
    sys.path.remove(str(FOLDER.parent))


def row(pid, uid, **more):
    told = {"pid": pid, "uid": uid, "user": "u%d" % uid, "notebook": "/n/%d.ipynb" % pid, "job": False, "state": "ranks", "ranks": 2, "busy": 1, "gpus": 1,
            "on": None, "memory": 5, "idle": 0.0, "cell": 7, "running": 3.0, "version": "1", "seconds": 9}
    return dict(told, **more)


def card(label, *holders, **more):
    told = {"gpu": label, "uuid": "GPU-" + label, "name": "A", "use": 50, "used": 1, "total": 2, "held": bool(holders), "since": 100 if holders else None,
            "idle": 4.0 if holders else None, "holders": [{"pid": 1, "uid": uid, "user": "u%d" % uid, "notebook": pid} for uid, pid in holders], "programs": 0}
    return dict(told, **more)


def told(notebooks, gpus=()):
    return {"form": 1, "all_users": True, "notebooks": notebooks, "left_out": 3, "gpus": list(gpus)}


def test_who_has_the_scope_sees_no_cell_and_no_command_of_others(parts):
    view = parts("view")
    rows = [row(1, 5), row(2, 6), row(3, 6, job=True, notebook="cellspan run --token=secret train.py", on="mpi:-x KEY=secret")]
    every = view.view(told(rows), view.Viewer(5, True))
    assert [(one["own"], one["cell"], one["notebook"], one["on"]) for one in every["notebooks"]] == [
        (True, 7, "/n/1.ipynb", None), (False, None, "/n/2.ipynb", None), (False, None, "cellspan run", "mpi")]
    assert "secret" not in json.dumps(every) and every["left_out"] == 3
    own = view.view(told(rows), view.Viewer(6, False))
    assert [one["pid"] for one in own["notebooks"]] == [2, 3] and own["notebooks"][1]["on"] == "mpi:-x KEY=secret" and own["left_out"] == 0
    nobody = view.view(told(rows, [card("0", (6, 2))]), view.Viewer(None, False))
    assert nobody["notebooks"] == [] and nobody["gpus"][0]["held"] and nobody["gpus"][0]["by"] == [] and nobody["gpus"][0]["idle"] is None


def test_a_hub_that_is_not_roots_says_so(parts):
    view = parts("view")
    seen = view.view(dict(told([row(1, 5)]), all_users=False), view.Viewer(5, True))
    assert not seen["all_users"] and "of the hub's own account only" in parts("page").page(seen, "u5", None, 1.0, 200.0)


def test_a_gpu_that_two_hold_tells_each_only_of_himself(parts):
    view = parts("view")
    shared = told([row(1, 5), row(2, 6)], [card("0", (5, 1), (6, 2))])
    assert [one["user"] for one in view.view(shared, view.Viewer(5, False))["gpus"][0]["by"]] == ["u5"]
    assert [one["user"] for one in view.view(shared, view.Viewer(5, True))["gpus"][0]["by"]] == ["u5", "u6"]


def test_the_idle_time_of_a_gpu_is_that_of_those_whom_one_sees(parts):
    view, metrics = parts("view"), parts("metrics")
    rows = [row(1, 5, idle=9.0), row(2, 6, idle=2.0), row(3, 6, idle=None)]
    shared = told(rows, [card("0", (5, 1), (6, 2)), card("1", (5, 1), (6, 3))])
    for uid, sees, idle in ((5, False, [9.0, 9.0]), (6, False, [2.0, None]), (5, True, [2.0, None]), (7, False, [None, None])):
        assert [one["idle"] for one in view.view(shared, view.Viewer(uid, sees))["gpus"]] == idle
    text = metrics.metrics(view.view(shared, view.Viewer(None, True)), 1.5, 0.25, True)
    assert sorted(re.findall(r'^cellspan_gpu_idle_seconds{user="(u.)",gpu="(.)",.*} (.*)$', text, re.M)) == [("u5", "0", "9.0"), ("u5", "1", "9.0"), ("u6", "0", "2.0")]


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "\"'><b>", "a\nb\tc", "\u202e\u2066\u200f\u061c", "\x1b[2J\x9b", "\ufeff\u200b\U000e0041", "x" * 1_000_000, "\udcff"])
def test_no_name_leaves_its_place_on_the_page(parts, text):
    shown = parts("page").named(text)
    inner = re.fullmatch("<bdi>(.*)</bdi>", shown, re.S)[1]
    assert not re.search("[<>\"'\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]", inner) and len(inner) < 2000
    view = parts("view")
    seen = view.view(told([row(1, 5, notebook=text, user=text, on=text)], [card(text, (5, 1), uuid=text, name=text)]), view.Viewer(5, True))
    whole = parts("page").page(seen, text, None, 1.0, 200.0)
    assert whole.count("<") == parts("page").page(view.view(told([row(1, 5, notebook="n", user="n", on="n")], [card("n", (5, 1), uuid="n", name="n")]),
                                                            view.Viewer(5, True)), "n", None, 1.0, 200.0).count("<")


def test_metrics_keep_to_the_text_format(parts):
    view, metrics = parts("view"), parts("metrics")
    odd = 'a"b\\c\nd'
    text = metrics.metrics(view.view(told([row(1, 5, user=odd)], [card("0", (5, 1), use=None), card("1")]), view.Viewer(None, True)), 1.5, 0.25, True)
    assert text.endswith("\n") and 'cellspan_notebooks{user="a\\"b\\\\c\\nd"} 1\n' in text and "ipynb" not in text
    assert 'cellspan_gpu_held{user="",gpu="1",uuid="GPU-1"} 0\n' in text and "cellspan_gpu_use_ratio{gpu=\"0\"" not in text
    families = re.findall(r"^# TYPE (\w+) gauge$", text, re.M)
    assert len(families) == len(set(families)) and metrics.metrics(None, 0, 0, False).splitlines()[-1] == "cellspan_listing_up 0"


def listed(parts, command, limit=30.0):
    lister = parts("lister").Lister(command, limit)
    return (*lister._list(), lister)


def test_a_list_is_handed_on_as_it_is(parts, cellspan):
    program = os.path.join(os.path.dirname(os.path.realpath(subprocess.run(["which", "cellspan"], env=cellspan.env, capture_output=True, text=True).stdout.strip())), "cellspan")
    ok, text, _ = listed(parts, [program])
    assert ok and json.loads(text)["form"] == parts("view").FORM


def test_a_list_that_hangs_or_fails_or_has_no_end_is_given_up(parts):
    mark = "600.%d" % os.getpid()
    ok, text, _ = listed(parts, ["sh", "-c", "sleep %s & echo $$; sleep %s" % (mark, mark)], 1.0)
    assert not ok and text == b"cellspan ps has not ended within 1 s"
    ok, text, _ = listed(parts, ["sh", "-c", "exec >&- 2>&-; sleep 600"], 1.0)
    assert not ok and text == b"cellspan ps has not ended within 1 s", "also one that has closed its output"
    assert wait_until(lambda: not any(mark.encode() in cmdline(pid) for pid in os.listdir("/proc") if pid.isdigit()), 20), "nothing of it is left"
    ok, text, _ = listed(parts, ["sh", "-c", "echo it has no list >&2; exit 1"])
    assert (ok, text) == (False, b"it has no list")
    ok, text, _ = listed(parts, ["sh", "-c", "yes"])
    assert not ok and b"longer than 64 MiB" in text
    ok, text, _ = listed(parts, ["/nowhere/cellspan"])
    assert not ok and b"No such file" in text


def cmdline(pid):
    try:
        return pathlib.Path("/proc/%s/cmdline" % pid).read_bytes()
    except OSError:
        return b""


def test_one_that_the_system_holds_is_not_waited_for(parts, monkeypatch):
    lister = parts("lister")
    monkeypatch.setattr(lister, "END", 0.1)
    killed = []
    monkeypatch.setattr(lister.os, "killpg", lambda pid, signo: killed.append(pid))
    ok, text, one = listed(parts, ["sh", "-c", "exec sleep 600"], 0.5)
    try:
        assert not ok and one._list() == (False, b"cellspan ps (pid %d) got SIGKILL and does not end: the system holds it" % killed[0])
    finally:
        os.kill(killed[0], signal.SIGKILL)
        one._held.wait()
    assert b"got SIGKILL" not in one._list()[1]


def start(*words, **environment):
    return subprocess.run([sys.executable, "-I", str(FOLDER), *words], capture_output=True, text=True, env=dict(os.environ, **environment), timeout=100)


def test_what_is_missing_for_a_start_is_named():
    done = start()
    assert done.returncode == 1 and "-m pip install jupyterhub" in done.stderr and len(done.stderr.splitlines()) == 1, done


def test_a_brief_list_has_one_form(cellspan, fresh):
    """Whatever runs: docs/machines.md names the keys."""
    nb = fresh(env={"JPY_SESSION_NAME": "/x/" + "n" * 5000 + ".ipynb"})
    nb.ok("%%distribute -n 2\n1")
    code, out, err = cellspan("ps", "--all", "--brief")
    brief = json.loads(out)
    one = next(one for one in brief["notebooks"] if one["pid"] == nb.pid)
    assert (code, err, brief["form"]) == (0, "", 1)
    page = (FOLDER.parents[1] / "docs" / "machines.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| (`[^|]+`) \|", page[page.index("### For programs"):page.index("### Several ranks on one GPU")], re.M)
    assert {key.strip("`") for names in named for key in names.split(", ")} == set(brief) | set(one) | set(card("0"))
    assert set(one) == set(row(1, 1)) and one["notebook"].endswith("n.ipynb") and len(one["notebook"]) == 1024
    assert (one["state"], one["ranks"], one["busy"], one["cell"], one["job"], one["on"]) == ("idle", 2, 0, None, False, None)
