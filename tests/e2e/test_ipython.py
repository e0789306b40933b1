# SPDX-License-Identifier: BSD-3-Clause
"""What users of IPython and ipykernel expect of a cell: extensions, events, magics for clients, and settings of a start."""

from __future__ import annotations

import importlib.util
import json
import os
import signal

import pytest
from client import all_print, by_rank, values
from packages import needs
from processes import wait_until

LIMIT = 90  # seconds, far off
BOOM = "def boom(*args):\n    raise ValueError('boom')\n"
NO_CLIENT = "a rank has no clients of its own"


def test_stored_variables_are_there_for_another_kernel(fresh):
    fresh().ok("kept_for_later = [1, 2]\n%store kept_for_later")
    other = fresh()
    assert other.ok("%store -r kept_for_later\nkept_for_later").value == "[1, 2]"
    cell = other.run("%%distribute -n 2\n%store kept_for_later", LIMIT).assert_error("UsageError")
    assert "for the notebook's own cells" in cell.shown


@pytest.mark.parametrize("event", ["pre_execute", "pre_run_cell", "post_execute", "post_run_cell"])
@pytest.mark.parametrize("where", ["", "%%distribute -n 2\n"])
def test_a_callback_that_raises_is_shown_and_the_cell_goes_on(nb, where, event):
    nb.run(where + BOOM + "get_ipython().events.register(%r, boom)" % event, LIMIT).assert_ok()
    try:
        cell = nb.run(where + "after = 6 * 7\nprint('printed')", LIMIT).assert_ok()
        assert "ValueError: boom" in cell.shown and "printed" in cell.stdout, cell.shown
        nb.run(where + "1 / 0", LIMIT).assert_error("ZeroDivisionError")
    finally:
        nb.ok(where + "get_ipython().events.unregister(%r, boom)\nassert after == 42" % event, LIMIT)


@pytest.mark.parametrize("where", ["", "%%distribute -n 2\n"])
def test_a_transformer_that_raises_fails_the_cell_at_the_users_line(nb, where):
    nb.ok(where + "def once(lines):\n    get_ipython().input_transformers_cleanup.remove(once)\n    raise ValueError('once')\n"
          "get_ipython().input_transformers_cleanup.append(once)", LIMIT)
    cell = nb.run(where + "5", LIMIT).assert_error("ValueError")
    assert "raise ValueError('once')" in cell.traceback and "shell.py" not in cell.traceback, cell.traceback
    nb.ok(where + "5", LIMIT)


@pytest.mark.parametrize("magic", ["%load {0}", "%recall 1", "%edit {0}", "get_ipython().set_next_input('x')", "%autosave 5", "%qtconsole"])
def test_what_needs_a_client_says_so_on_ranks(nb, magic, tmp_path):
    path = tmp_path / "file.py"
    path.write_text("1\n")
    cell = nb.ok("%%distribute -n 2\n" + magic.format(path) + "\nprint('on')", LIMIT)
    assert NO_CLIENT in cell.stderr and "on" in cell.stdout, cell.shown
    assert ("without %%distribute" in cell.stderr) is (magic != "%qtconsole") is ("-r 0" not in cell.stderr), cell.stderr


def test_files_and_history_are_printed_on_ranks(nb, tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("its text\n")
    for magic in ("%less", "%more"):
        assert "its text" in nb.ok("%%%%distribute -n 2\n%s %s" % (magic, path), LIMIT).stdout
    nb.ok("%%distribute -n 2 -r 0-1\nlooked_for = 1", LIMIT)
    for line in ("%history -l 2", "%history -g looked_for", "%history"):
        cell = nb.ok("%%distribute -n 2\n" + line, LIMIT)
        assert all("looked_for = 1" in "\n".join(lines) for lines in by_rank(cell.stdout).values()), cell.shown


def test_loops_without_windows_are_accepted(nb):
    for where in ("", "%%distribute -n 2\n"):
        for line in ("%gui asyncio", "%gui"):
            cell = nb.run(where + line, LIMIT).assert_ok()
            assert cell.shown == "", cell.shown
        assert "no window system" in nb.run(where + "%gui tk", LIMIT).shown


def test_figures_of_the_classic_notebook_become_others_with_a_line(nb):
    needs("matplotlib")
    cell = nb.ok("%matplotlib notebook", LIMIT)
    assert "%matplotlib notebook does not work here: %matplotlib " in cell.stderr, cell.shown
    cell = nb.run("%matplotlib nosuch", LIMIT)
    assert "'nosuch'" in cell.error["evalue"] and "_worker" not in "".join(cell.error["traceback"]), cell.error
    nb.ok("%matplotlib inline", LIMIT)


def test_the_real_ipykernel_finds_this_kernel_and_comms_still_reach_the_page(fresh):
    needs("ipykernel")
    nb = fresh()
    path = nb.km.connection_file
    assert nb.ok("import ipykernel\nipykernel.get_connection_file()", LIMIT).value == repr(path)
    assert nb.ok("import json\njson.loads(ipykernel.get_connection_info())['key']", LIMIT).value == repr(nb.km.get_connection_info()["key"].decode())
    assert nb.ok("get_ipython().config['IPKernelApp']['connection_file']").value == repr(path)
    assert nb.ok("import comm\nx = comm.create_comm(target_name='t')").of("comm_open")


def test_the_kernels_object_has_what_libraries_ask_for(nb):
    assert nb.ok("kernel = get_ipython().kernel\n(kernel.execution_count, kernel.user_ns is globals())").value.endswith(", True)")
    cell = nb.ok("kernel.send_response(kernel.iopub_socket, 'stream', {'name': 'stdout', 'text': 'sent'})\nkernel.log.debug('')")
    assert "sent" in cell.stdout
    cell = nb.run("kernel.raw_input('? ')", answer="typed").assert_ok()
    assert cell.value == "'typed'"


def test_load_ext_says_that_the_kernel_has_it_already(nb):
    for where in ("", "%%distribute -n 2\n"):
        for magic, told in 2 * [("load", "the kernel has it already"), ("unload", "there is nothing to unload"), ("reload", "the kernel has it already")]:
            cell = nb.ok(f"{where}%{magic}_ext cellspan", LIMIT)
            assert told in cell.stdout and len(cell.stdout.splitlines()) == 1 and not cell.stderr, cell.shown
    assert "already" not in nb.ok("%%distribute -n 2\nprint(1)", LIMIT).stdout  # ranks don't load it because home has


def test_a_qt_console_is_started_on_this_kernel(fresh, tmp_path):
    (tmp_path / "qtconsole").mkdir()
    (tmp_path / "qtconsole" / "__init__.py").write_text("")
    (tmp_path / "qtconsole" / "qtconsoleapp.py").write_text("def main():\n    import json, sys\n    open(%r, 'w').write(json.dumps(sys.argv[1:]))\n" % str(tmp_path / "args"))
    nb = fresh(env={"PYTHONPATH": str(tmp_path)})
    nb.ok("%qtconsole --style monokai")
    args = nb.until(lambda: (tmp_path / "args").exists() and (tmp_path / "args").read_text(), LIMIT)
    assert json.loads(args) == ["--existing", nb.km.connection_file, "--style", "monokai"]


def test_a_start_heeds_the_settings_of_the_application(fresh, tmp_path):
    profile = tmp_path / "profile_default"
    (profile / "startup").mkdir(parents=True)
    (profile / "startup" / "first.py").write_text("of_startup = 1\n")
    (tmp_path / "typed.py").write_text("typed = 1\n")
    (profile / "ipython_kernel_config.py").write_text(
        "c = get_config()\nc.IPKernelApp.matplotlib = 'agg'\nc.InteractiveShellApp.extra_extensions = ['autoreload']\n"
        "c.InteractiveShellApp.exec_PYTHONSTARTUP = False\n")
    nb = fresh(env={"IPYTHONDIR": str(tmp_path), "PYTHONSTARTUP": str(tmp_path / "typed.py")})
    assert nb.ok("'autoreload' in str(get_ipython().extension_manager.loaded), 'typed' in globals(), of_startup").value == "(True, False, 1)"
    nb.ok("mine = 1")
    assert nb.ok("%who_ls").value == "['mine']"
    if importlib.util.find_spec("matplotlib"):
        assert nb.ok("import matplotlib\nmatplotlib.get_backend()").value == "'agg'"
    assert nb.ok("%%distribute -n 1 --gather\nof_startup", LIMIT).value == "[1]"  # what a start-up file bound is sent as any name


@pytest.mark.parametrize("broken", ["folder", "profile"])
def test_ipythons_folder_that_cannot_be_made_is_replaced(fresh, tmp_path, broken):
    """As on a full disk: a folder that looks as if one could write there, but whose parts can't be made."""
    folder = tmp_path / ("x" * 300 if broken == "folder" else "ipython")
    if broken == "profile":
        folder.mkdir()
        (folder / "profile_default").symlink_to("nowhere/there")
    nb = fresh(env={"IPYTHONDIR": str(folder)})
    cell = nb.run("1 + 1", LIMIT)
    assert cell.value == "2" and "IPython's folder can't be written" in cell.stderr and str(folder) in cell.stderr, cell.shown
    where = "(get_ipython().profile_dir.location, get_ipython().ipython_dir, os.getpid())"
    profile, instead, home = values(nb.ok("import os\n" + where))
    assert nb.ok("%%distribute -n 2 --gather\n3", LIMIT).value == "[3, 3]"
    if broken == "folder":
        ranks = values(nb.ok("%%distribute --gather\nimport os\n" + where))
        assert len({ipython for _, ipython, _ in ranks} | {instead}) == 3 and all(os.path.isdir(one[1]) for one in ranks), ranks
        os.kill(ranks[1][2], signal.SIGKILL)
        nb.run("%%distribute -n 2 --gather\n3", LIMIT)
        assert wait_until(lambda: not os.path.exists(ranks[1][1]), LIMIT), "of a rank that was killed"
        assert os.path.isdir(ranks[0][1])
    os.kill(home, signal.SIGKILL)
    assert wait_until(lambda: not os.path.exists(profile), LIMIT), "of a home that was killed"
    assert nb.until(lambda: nb.run("1 + 1", LIMIT).value == "2")
    again = nb.ok("get_ipython().profile_dir.location").value.strip("'")
    nb.km.shutdown_kernel()
    assert not os.path.exists(again)


@pytest.mark.parametrize("head", ["", "%%distribute -n 2\n"])
@pytest.mark.parametrize("event", ["post_execute", "post_run_cell"])
def test_a_callback_that_exits_shows_no_frame_of_ours(nb, head, event):
    nb.ok(head + "import sys\ndef leaves(*_):\n    get_ipython().events.unregister('%s', leaves)\n    sys.exit(3)" % event)
    cell = nb.run(head + "get_ipython().events.register('%s', leaves)" % event)
    text = cell.shown
    assert "SystemExit" in text and "leaves" in text and "cellspan/_" not in text, text


@pytest.mark.parametrize("above", ["", "\n", "\n \t\n", "%%distribute -n 2\n", "%%distribute -n 2\n\n"])
def test_a_single_line_may_be_a_magic_without_its_sign(nb, above, tmp_path):
    """As `pip install x` and `ls`, also below empty lines; which still count. A name of the user's own is none."""
    nb.ok("%%distribute -n 2\nglobals().pop('time', None)")
    nb.ok("globals().pop('time', None)")
    assert nb.ok(above + "pwd").value == repr(os.getcwd())
    (tmp_path / "a.txt").touch()
    assert "a.txt" in nb.ok(above + "ls %s" % tmp_path).stdout
    assert "Wall time" in nb.ok(above + "time sum(range(10))").stdout
    assert "Wall time" in nb.ok(above + "%%time\nsum(range(10))").stdout
    nb.ok("pwd = 5")  # a variable is meant before a magic
    assert nb.ok(above + "pwd").value == "5" and nb.ok(above + "pwd, 1").value == "(5, 1)"
    nb.ok("del pwd")
    nb.ok(above + "from IPython.core.macro import Macro\nsaid = Macro('print(1 + 1)')")
    assert "2" in nb.ok(above + "said").stdout
    nb.ok(above + "del said")
    line = above.count("\n") + 1
    assert "line %d\n" % line in nb.run(above + "1 / 0").assert_error("ZeroDivisionError").traceback


def test_exit_does_not_end_a_rank_and_says_so(nb):
    pids = nb.rank_pids(2)
    for code in ("exit", "quit", "exit()", "quit(3)\nx = 1"):
        cell = nb.ok("%%distribute -n 2\n" + code)
        assert all_print(cell.stderr, "cellspan: exit does nothing here: %ranks stop ends the ranks, sys.exit() or an error ends the cell", 2), cell.shown
        assert cell.value is None and nb.rank_pids(2) == pids
