# SPDX-License-Identifier: BSD-3-Clause
"""Wrong input gives one clear error that names it, and starts nothing."""

from __future__ import annotations

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import uuid

import processes
import pytest
from client import KERNEL
from jupyter_client.kernelspec import KernelSpecManager


def usage(nb, line, body="print('ran')"):
    """The one line of the usage error."""
    cell = nb.run(line + "\n" + body)
    cell.assert_error("UsageError")
    assert "ran" not in cell.stdout
    text = cell.reply["evalue"]
    assert "\n" not in text and len(text) < 300, text
    return text


@pytest.mark.parametrize(
    "line, words",
    [
        ("%%distribute -n 0", ["0"]),
        ("%%distribute -n -3", ["-3"]),
        ("%%distribute -n abc", ["abc"]),
        ("%%distribute -n 1.5", ["1.5"]),
        ("%%distribute -n 99999999999999999999", ["99999999999999999999"]),
        ("%%distribute -n", ["-n"]),
        ("%%distribute -n 4 --ranks 7", ["7", "4"]),
        ("%%distribute -n 4 --ranks 1,,2", ["1,,2"]),
        ("%%distribute -n 4 --ranks 3-1", ["3-1"]),
        ("%%distribute --merge foo", ["foo", "fold"]),
        ("%%distribute --merge prefx", ["prefx", "prefix"]),
        ("%%distribute --nprocs 4", ["--nprocs", "--nproc"]),
        ("%%distribute --into 1x", ["1x"]),
        ("%%distribute --env NOVALUE", ["NOVALUE"]),
        ("%%distribute --timeout soon", ["soon"]),
        ("%%distribute --init foo", ["foo"]),
        ("%%distribute --capture a --no-capture", ["--capture", "--no-capture"]),
        ("%%distribute 'unclosed", ["'"]),
    ],
)
def test_a_wrong_option_is_named_and_nothing_starts(nb, line, words):
    before = processes.marked(nb.marker)
    text = usage(nb, line)
    for word in words:
        assert word in text, text
    started = [p for p in processes.marked(nb.marker) if p not in before]
    assert not [p for p in started if "zygote" in processes.command(p)], processes.described(started)


@pytest.mark.parametrize("line, word", [("%ranks foo", "foo"), ("%push", "push"), ("%pull", "pull"), ("%push 1x", "1x"), ("%ranks stp", "stp")])
def test_wrong_words_of_line_magics_are_named(nb, line, word):
    cell = nb.run(line).assert_error("UsageError")
    assert word in cell.reply["evalue"] and "\n" not in cell.reply["evalue"]


CALLS = [
    ("cellspan.run(one, ranks=[9])", "ValueError", "ranks=[9]: there are 2 ranks, 0 to 1"),
    ("cellspan.run(one, ranks='0,7')", "ValueError", "ranks='0,7': there are 2 ranks, 0 to 1"),
    ("cellspan.run(print, n='x')", "ValueError", "n='x': not a number"),
    ("cellspan.run(print, n=True)", "ValueError", "n=True: a count, or 'gpu', is wanted"),
    ("cellspan.run(print, timeout=True)", "ValueError", "timeout=True: "),
    ("cellspan.run(print, n='gpu')", "ValueError", "n='gpu': there is no GPU on "),
    ("cellspan.call(one, n=0)", "ValueError", "n=0: a world needs at least one rank"),
    ("cellspan.run(one, merge='foo')", "ValueError", "merge='foo': unknown mode"),
    ("cellspan.run(one, timeout='soon')", "ValueError", "timeout='soon': not a duration"),
    ("cellspan.run(one, grace=-1)", "ValueError", "grace=-1: not a duration"),
    ("cellspan.run(one, gpus=0)", "ValueError", "gpus=0: from 1 to 64"),
    ("cellspan.run(one, init='glo')", "ValueError", "init='glo': unknown backend; did you mean gloo?"),
    ("cellspan.run(one, on='k8s:foo')", "ValueError", "on='k8s:foo': there is no such engine"),
    ("cellspan.group(on='k8s:foo')", "ValueError", "on='k8s:foo': there is no such engine. There are: local, "),
    ("cellspan.group(on='shh:h1')", "ValueError", "on='shh:h1': there is no such engine; did you mean ssh? There are: local, "),
    ("cellspan.group(on='ssh:')", "ValueError", "on='ssh:': nothing follows the colon"),
    ("cellspan.distributed(n=2, on='k8s:foo')(one)", "ValueError", "on='k8s:foo': there is no such engine"),
    ("cellspan.distributed(n=2)(one).with_overrides(on=3)", "ValueError", "on=3: there is no such engine"),
    ("cellspan.torch.TorchDistributor(2, use_gpu=False, on='k8s:foo').run(one)", "ValueError", "on='k8s:foo': there is no such engine"),
    ("cellspan.torch.TorchDistributor(2, use_gpu=False, on='k8s:foo').run('a.py')", "ValueError", "on='k8s:foo': there is no such engine"),
    ("cellspan.torch.TorchDistributor(2, use_gpu=False, on='ssh:').run(one)", "ValueError", "on='ssh:': nothing follows the colon"),
    ("cellspan.horovod.HorovodRunner(np=2, on='k8s:foo').run(one)", "ValueError", "on='k8s:foo': there is no such engine"),
    ("cellspan.run(one, on='local:x')", "ValueError", "on='local:x': local is this machine"),
    ("cellspan.run(one, cwd='/no/such')", "ValueError", "cwd='/no/such': No such file or directory"),
    ("cellspan.run(one, no_gpu=True, gpus=1)", "ValueError", "gpus= and no_gpu=True can't be used together"),
    ("cellspan.run(one, env=3)", "TypeError", "env=3: a dict is wanted"),
    ("cellspan.map(abs, [1], n='x')", "ValueError", "n='x': not a number"),
    ("cellspan.map(abs, [1], ranks=[4])", "ValueError", "ranks=[4]: there are 2 ranks"),
    ("cellspan.group().push(5)", "TypeError", "push(5) names no variable: push(a=1)"),
    ("cellspan.group().push(None)", "TypeError", "push(None) names no variable: push(a=1)"),
    ("cellspan.group().push(ranks=None)", "TypeError", "push(None) names no variable: push(a=1)"),
    ("cellspan.group().push({'a': 1})", "TypeError", "push({'a': 1}) names no variable: push(**{'a': 1})"),
    ("cellspan.group().push({'a': 'x' * 999})", "TypeError", "push({'a': '" + 110 * "x" + "...) names no variable: push(**values)"),
    ("cellspan.group().push('a')", "TypeError", "push('a') names no variable: push(a=1)"),
    ("cellspan.group().push('b', 'c')", "TypeError", "push('b', 'c') names no variable: push(a=1)"),
    ("cellspan.group().push(ranks=[7], a=1)", "ValueError", "ranks=[7]: there are 2 ranks"),
    ("cellspan.group().pull('one', ranks=8)", "ValueError", "ranks=8: there are 2 ranks"),
    ("cellspan.group().stop(ranks=[7])", "ValueError", "ranks=[7]: there are 2 ranks"),
    ("cellspan.group().scatter('x', [1], n='k')", "ValueError", "n='k': not a number"),
]


@pytest.mark.parametrize("code, ename, words", CALLS)
def test_a_wrong_argument_of_a_call_is_told_in_python_at_the_users_line(nb, code, ename, words):
    nb.ok("import cellspan, cellspan.horovod, cellspan.torch\ndef one(): return 1")
    assert nb.ok("cellspan.group().size").value == "2" or nb.ok("%%distribute -n 2 --fresh\n1")
    cell = nb.run("before = 1\n" + code).assert_error(ename)
    said = cell.reply["evalue"]
    assert said.startswith(words) and "--" not in said and "\n" not in said, said
    assert "----> 2 " + code in cell.traceback, cell.traceback
    assert "cellspan/_" not in cell.traceback, cell.traceback


def test_ranks_that_are_not_there_yet_are_not_said_to_be_there(nb):
    nb.ok("import cellspan\ndef one(): return 1\n%ranks stop")
    would = "this would run on 2 ranks, 0 to 1; ask for more ranks"
    for call in ("cellspan.run(one, ranks=[9])", "cellspan.call(one, ranks=[9])", "cellspan.map(abs, [1], ranks=[9])",
                 "cellspan.group().push(ranks=[9], a=1)"):
        assert nb.run(call).assert_error("ValueError").reply["evalue"] == "ranks=[9]: " + would, call
    assert usage(nb, "%%distribute -r 9") == "rank 9: " + would
    nb.ok("%%distribute -n 2\n1")
    assert usage(nb, "%%distribute -r 9") == "rank 9: there are 2 ranks, 0 to 1"
    assert usage(nb, "%%distribute --beside -r 9") == "rank 9: " + would


def test_an_empty_body_is_an_error_or_does_nothing_but_start_the_ranks(nb):
    for cell in (nb.run("%%distribute -n 2"), nb.run("%%distribute -n 2\n\n   \n")):
        assert cell.status == "ok" or cell.ename == "UsageError"
        assert cell.result is None and "Traceback" not in cell.shown


def test_a_syntax_error_is_shown_once_at_its_line(nb):
    cell = nb.run("%%distribute -n 4\nx = 1\nif x\n    y = 2").assert_error("SyntaxError")
    assert cell.traceback.count("if x\n") == 1 and cell.traceback.count("SyntaxError") <= 3


def test_a_name_that_nobody_has_is_a_name_error_on_all_ranks(nb):
    nb.run_until("%%distribute -n 4\nnobody_has_this", lambda cell: "NameError on ranks 0-3 of 4" in cell.assert_error("NameError").traceback)


def test_capture_of_a_name_that_home_lacks_names_it(nb):
    cell = nb.run("%%distribute -n 2 --capture nobody_has_this\n1")
    assert cell.status == "error" and "nobody_has_this" in cell.reply["evalue"]


def test_a_directory_that_is_not_there_is_named(nb):
    cell = nb.run("%%distribute -n 2 --cwd /no/such/folder\n1")
    assert cell.status == "error" and "/no/such/folder" in cell.shown


def test_a_directory_is_written_as_in_a_shell(nb, tmp_path):
    (tmp_path / "$HOME").mkdir()
    home = os.path.realpath(os.path.expanduser("~"))
    for written, wanted in (("~", home), ("$HOME", home), ("%s/$HOME" % tmp_path, str(tmp_path / "$HOME"))):
        assert nb.ok("%%%%distribute -n 2 --cwd %s\nimport os\nos.getcwd()" % written).value == repr(wanted)
    cell = nb.run("%%distribute -n 2 --cwd ~/no/such/folder\n1")
    assert cell.status == "error" and "--cwd ~/no/such/folder: No such file or directory" in cell.shown


def test_push_and_pull_of_unknown_names_name_them(nb):
    nb.ok("%%distribute -n 2\npass")
    for line in ("%push nobody_has_this", "%pull nobody_has_this"):
        cell = nb.run(line)
        assert cell.status == "error" and "nobody_has_this" in cell.shown


def test_pull_from_a_rank_that_is_not_there_names_it(nb):
    nb.ok("%%distribute -n 2\nx = 1")
    cell = nb.run("%pull x -r 9")
    assert cell.status == "error" and "9" in cell.reply["evalue"]


def test_pull_before_anything_was_distributed_is_one_clear_error(fresh):
    notebook = fresh()
    cell = notebook.run("%pull x")
    assert cell.status == "error" and len(cell.traceback.splitlines()) < 8, cell.traceback


# -- what is no character


@pytest.mark.parametrize("written", ["escape", "byte"])
@pytest.mark.parametrize("where", ["", "%%distribute -n 2\n"], ids=["home", "ranks"])
def test_a_message_with_half_a_character_is_answered(nb, written, where):
    """Python and JavaScript write it as an escape, jupyter_client as a byte that is no UTF-8. ipykernel answers both."""
    def pack(thing):
        return json.dumps(thing, default=str, ensure_ascii=written == "escape").encode("utf-8", "surrogateescape")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nb.kc.session, "pack", pack)
        cell = nb.run(where + "print('be\udcffore')")
        assert cell.status in ("ok", "error") and (cell.status == "ok" or "surrogate" in cell.traceback), cell.shown
        assert nb.request("complete_request", {"code": "pri\udcff\npri", "cursor_pos": 8})["status"] in ("ok", "error")
        assert nb.request("is_complete_request", {"code": "'\udcff'"})["status"] in ("complete", "incomplete", "invalid", "unknown")
        assert nb.request("inspect_request", {"code": "print\udcff", "cursor_pos": 3, "detail_level": 0})["status"] in ("ok", "error")
        assert nb.ok(where + "print('after')", header={"username": "\udcff"} if not where else None) is not None
    assert "whole" in nb.ok(where + "print('whole')").stdout


# -- starting


def kernel_argv(connection_file):
    spec = KernelSpecManager().get_kernel_spec(KERNEL)
    return [word.replace("{connection_file}", str(connection_file)).replace("{resource_dir}", spec.resource_dir) for word in spec.argv]


def start_kernel(connection_file, argv=None, **env):
    """Runs the kernel until it ends by itself; its exit status and what it said."""
    marker = uuid.uuid4().hex
    try:
        done = subprocess.run(
            argv or kernel_argv(connection_file),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, **{processes.MARKER: marker}, **env),
            timeout=60,
        )
        assert processes.gone(marker) == []
        return done.returncode, done.stdout.decode()
    finally:
        processes.kill_all(marker)


def assert_one_error(outcome, *words):
    code, text = outcome
    lines = [line for line in text.splitlines() if line.strip()]
    assert code not in (0, None) and code > 0, outcome
    assert len(lines) == 1, text
    for word in words:
        assert word in lines[0], text


def test_a_connection_file_that_is_missing_is_named(tmp_path):
    assert_one_error(start_kernel(tmp_path / "missing.json"), "missing.json", "No such file")


def test_a_connection_file_that_is_unreadable_is_named(tmp_path):
    (tmp_path / "folder.json").mkdir()
    assert_one_error(start_kernel(tmp_path / "folder.json"), "folder.json")


@pytest.mark.parametrize("text", ["", "not json", "[1, 2]", "{}", '{"shell_port": 1', "\0\xff"])
def test_a_connection_file_that_is_not_json_is_named(tmp_path, text):
    path = tmp_path / "odd.json"
    path.write_text(text)
    assert_one_error(start_kernel(path), "odd.json")


def connection(tmp_path, **changes):
    ports = []
    sockets = [socket.socket() for _ in range(5)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
        ports.append(s.getsockname()[1])
    for s in sockets:
        s.close()
    names = ("shell", "iopub", "stdin", "control", "hb")
    content = {name + "_port": port for name, port in zip(names, ports)}
    content.update(ip="127.0.0.1", transport="tcp", key=uuid.uuid4().hex, signature_scheme="hmac-sha256", kernel_name="")
    content.update(changes)
    path = tmp_path / "connection.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    "changes, word",
    [
        ({"transport": "carrier-pigeon"}, "carrier-pigeon"),
        ({"signature_scheme": "hmac-md5"}, "hmac-md5"),
        ({"shell_port": 70000}, "shell_port"),
        ({"shell_port": "many"}, "shell_port"),
        ({"ip": 5}, "ip"),
    ],
)
def test_a_connection_file_that_asks_for_something_odd_is_told_what(tmp_path, changes, word):
    assert_one_error(start_kernel(connection(tmp_path, **changes)), word)


def test_a_port_in_use_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert_one_error(start_kernel(connection(tmp_path, shell_port=port)), str(port))


def test_a_python_that_is_not_there_is_named_in_the_cell(fresh, tmp_path):
    spec = json.loads(open(os.path.join(KernelSpecManager().get_kernel_spec(KERNEL).resource_dir, "kernel.json")).read())
    at = spec["argv"].index("--python")
    spec["argv"][at + 1] = "/no/such/python"
    run_broken(fresh, tmp_path, spec, "/no/such/python")


def test_a_python_without_ipython_is_told_what_to_install(fresh, tmp_path):
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    spec = json.loads(open(os.path.join(KernelSpecManager().get_kernel_spec(KERNEL).resource_dir, "kernel.json")).read())
    at = spec["argv"].index("--python")
    spec["argv"][at + 1] = str(bare / "bin" / "python")
    said = run_broken(fresh, tmp_path, spec, "(?i)ipython")
    page = (pathlib.Path(__file__).parents[2] / "docs" / "failures.md").read_text()
    documented = re.search(r"^HomeNotStarted: .*?(?=\n```)", page, re.M | re.S).group()
    assert documented.replace("/usr/bin/python3", spec["argv"][at + 1]) == said


def run_broken(fresh, tmp_path, spec, pattern):
    """The kernel comes up and answers; the cell says what is wrong."""
    folder = tmp_path / "data" / "kernels" / "broken"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps(spec))
    manager = KernelSpecManager(kernel_dirs=[str(folder.parent)])
    notebook = fresh(kernel="broken", kernel_spec_manager=manager)
    cell = notebook.run("1 + 1")
    assert cell.status == "error" and re.search(pattern, cell.traceback), cell.shown
    assert len(cell.traceback.splitlines()) <= 6, cell.traceback
    assert notebook.control("kernel_info_request")["status"] == "ok"
    return cell.traceback


def test_a_cell_magic_below_other_code_says_where_it_goes(nb):
    for above in ("x = 1\n", "import os  # first\n\n"):
        text = usage(nb, above + "%%distribute -n 2")
        assert text == "%distribute must be the first line of a cell: move it, and the code that it runs, to a new cell".replace("%", "%%"), text
    assert nb.ok("# a comment above is fine\n\n%%distribute -n 2 --gather\nimport os\nint(os.environ['RANK'])").value == "[0, 1]"


def test_the_spellings_of_torchrun_and_mpirun_are_taken(nb):
    code = "import os\nint(os.environ['WORLD_SIZE'])"
    for options, world in (("-np 2", 2), ("--nproc-per-node 3", 3), ("--nproc_per_node=2", 2), ("--nproc_per_node 3 --no_capture", 3)):
        assert nb.ok("%%%%distribute %s\n%s" % (options, code)).value == str(world), options
    assert usage(nb, "%%distribute -n 2 --nproc_per_node 2") == "-n and --nproc-per-node can't be used together"
