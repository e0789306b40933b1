# SPDX-License-Identifier: BSD-3-Clause
"""The commands cellspan install and cellspan run, as a new user types them, with a home folder of their own.

tests/install/pip.sh tests that `pip install` of the source, and of the wheel, works in a new environment.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import uuid
import venv

import processes
import pytest
from client import KERNEL, by_rank, rank_values, values
from commands import one_line
from jupyter_client.kernelspec import KernelSpecManager


def test_version_and_help_are_told(cellspan):
    code, out, _ = cellspan("--version")
    assert code == 0 and re.fullmatch(r"cellspan \d+\.\d+\.\d+\S*\n", out)
    for words in (["--help"], *([name, "--help"] for name in ("install", "uninstall", "run", "ps", "logs", "stop", "notice", "doctor", "config"))):
        code, out, err = cellspan(*words)
        assert code == 0 and "usage" in out.lower() and err == ""


@pytest.mark.parametrize("words", [["instal"], ["--versoin"], ["install", "--usr"], ["install", "--user", "--prefix", "x"], ["install", "--name", "a/b"], ["run"], ["run", "-n", "abc", "x.py"]])
def test_wrong_words_are_named_in_one_line(cellspan, words):
    one_line(cellspan(*words), next((w for w in reversed(words) if w in ("instal", "--versoin", "--usr", "--prefix", "a/b", "abc")), ""))


def test_install_for_a_user_makes_a_kernel_that_jupyter_finds_and_runs(cellspan):
    code, out, err = cellspan("install", "--user", "--python", sys.executable)
    assert code == 0, err
    folder = cellspan.home / ".local" / "share" / "jupyter" / "kernels" / "cellspan"
    spec = json.loads((folder / "kernel.json").read_text())
    assert spec["display_name"] == "Python (cellspan)" and spec["interrupt_mode"] == "message"
    assert spec["language"] == "python" and "{connection_file}" in spec["argv"]
    assert str(folder) in out
    listed = subprocess.run(
        [sys.executable, "-m", "jupyter", "kernelspec", "list", "--json"], env=cellspan.env, capture_output=True, check=True
    )
    assert json.loads(listed.stdout)["kernelspecs"]["cellspan"]["resource_dir"] == str(folder)
    notebook = cellspan.home / "n.ipynb"
    import nbformat

    cells = [nbformat.v4.new_code_cell(code) for code in ("6 * 7", "%%distribute -n 2 --gather\nimport os\nint(os.environ['RANK'])")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), str(notebook))
    done = subprocess.run(
        [sys.executable, "-m", "jupyter", "execute", "--kernel_name=cellspan", "--inplace", str(notebook)],
        env=cellspan.env, capture_output=True, timeout=200,
    )
    assert done.returncode == 0, done.stderr.decode()
    first, second = nbformat.read(str(notebook), 4).cells
    assert [cell.outputs[-1].data["text/plain"] for cell in (first, second)] == ["42", "[0, 1]"]


def test_install_takes_name_display_name_prefix_and_python(cellspan, tmp_path):
    code, _, err = cellspan(
        "install", "--prefix", tmp_path / "p", "--name", "mine", "--display-name", "My kernel", "--python", sys.executable
    )
    assert code == 0, err
    spec = json.loads((tmp_path / "p" / "share" / "jupyter" / "kernels" / "mine" / "kernel.json").read_text())
    assert spec["display_name"] == "My kernel"
    assert spec["argv"][spec["argv"].index("--python") + 1] == sys.executable
    assert not (cellspan.home / ".local").exists()


def test_make_install_makes_the_kernel_that_install_makes(cellspan):
    """Jupyter finds it in the same prefix. It names the kernel from there, so that the tree may be moved."""
    spec = json.loads((share(cellspan) / "jupyter" / "kernels" / "cellspan" / "kernel.json").read_text())
    assert spec["argv"][0] == "{resource_dir}/../../../../bin/cellspan-kernel"
    found = KernelSpecManager(kernel_dirs=[str(share(cellspan) / "jupyter" / "kernels")]).get_kernel_spec("cellspan")
    kernel = found.argv[0].format(resource_dir=found.resource_dir)
    assert subprocess.run([kernel, "--version"], capture_output=True, text=True, check=True).stdout.startswith("cellspan-kernel ")
    assert cellspan("install", "--prefix", cellspan.home, "--python", spec["argv"][2])[0] == 0
    folder = cellspan.home / "share" / "jupyter" / "kernels" / "cellspan"
    made = json.loads((folder / "kernel.json").read_text())
    assert made.pop("argv")[1:] == spec.pop("argv")[1:] and made == spec
    assert {path.name for path in folder.iterdir()} == {path.name for path in pathlib.Path(found.resource_dir).iterdir()}


def test_install_twice_replaces(cellspan):
    for name in ("One", "Two"):
        assert cellspan("install", "--python", sys.executable, "--display-name", name)[0] == 0
    folder = cellspan.home / ".local" / "share" / "jupyter" / "kernels"
    assert [f.name for f in folder.iterdir()] == ["cellspan"]
    assert json.loads((folder / "cellspan" / "kernel.json").read_text())["display_name"] == "Two"


def test_install_for_a_python_that_is_not_there_names_it(cellspan):
    one_line(cellspan("install", "--python", "/no/such/python"), "/no/such/python")
    one_line(cellspan("install", "--python", "/bin/true"), "/bin/true")


def test_install_for_a_python_without_ipython_says_what_to_install(cellspan, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    code, out, err = cellspan("install", "--python", tmp_path / "bare" / "bin" / "python")
    assert re.search("(?i)ipython", out + err), (code, out, err)


def test_install_where_nothing_may_be_written_names_the_place(cellspan, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    one_line(cellspan("install", "--python", sys.executable, "--prefix", tmp_path / "file"), str(tmp_path / "file"))


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "import os, sys, time\nrank = os.environ['RANK']\nprint('rank', rank, sys.argv[1:], flush=True)\n"
        "print('to stderr', file=sys.stderr)\n"
        "if sys.argv[1:] == ['exit', rank]: sys.exit(3)\n"
        "if sys.argv[1:] == ['die', rank]: os.kill(os.getpid(), 9)\n"
        "if sys.argv[1:] and sys.argv[1] in ('wait', 'die'): time.sleep(600)\n"
    )
    return path


def test_run_runs_a_script_on_ranks(cellspan, script):
    code, out, err = cellspan("run", "-n", 2, "--python", sys.executable, script, "a", "-n", "7")
    assert code == 0, err
    assert sorted(out.splitlines()) == ["[%d] rank %d ['a', '-n', '7']" % (r, r) for r in range(2)]
    assert by_rank(err) == {0: ["to stderr"], 1: ["to stderr"]}


def test_run_ends_with_the_status_of_the_script(cellspan, script):
    code, out, err = cellspan("run", "-n", 2, "--python", sys.executable, script, "exit", "1")
    assert code == 3 and "rank 1" in err


def test_run_fails_when_a_rank_dies(cellspan, script):
    code, out, err = cellspan("run", "-n", 2, "--python", sys.executable, script, "die", "1")
    assert code not in (0, None) and "rank 1" in err and "SIGKILL" in err


def test_run_of_a_script_that_is_not_there_names_it(cellspan):
    code, out, err = cellspan("run", "-n", 2, "--python", sys.executable, "missing.py")
    assert code > 0 and "missing.py" in err


def test_run_takes_torchruns_options_or_names_its_own(cellspan, script):
    options = "--standalone --nnodes=1 --max_restarts 0 --rdzv-backend=c10d --master_port 29876 -n 2".split()
    code, out, err = cellspan("run", *options, "--python", sys.executable, script)
    assert code == 0 and len(out.splitlines()) == 2, err
    everywhere = len(cellspan("run", "--python", sys.executable, script)[1].splitlines())
    for words, count in (("-n auto", everywhere), ("--nproc-per-node=auto", everywhere), ("--nproc_per_node 3", 3), ("-n 3 -r 1", 1)):
        code, out, err = cellspan("run", *words.split(), "--python", sys.executable, script)
        assert code == 0 and len(out.splitlines()) == count > 0, (words, out, err)
    for words, told in (("--nnodes 2", "--on"), ("--max-restarts=3", "not started again"), ("--no-python", "Python script"), ("--log-dir x", "--merge prefix")):
        code, out, err = cellspan("run", *words.split(), "--python", sys.executable, script)
        assert code == 2 and told in err and words.partition("=")[0].split()[0] in err


def test_run_takes_the_python_of_path_and_a_role(cellspan, tmp_path):
    venv.create(tmp_path / "other", with_pip=False)
    (site,) = (tmp_path / "other").glob("lib/python3*/site-packages")
    (site / "outer.pth").write_text("\n".join(folder for folder in sys.path if folder.endswith("-packages")))
    (tmp_path / "tells.py").write_text("import os, sys\nprint(sys.prefix, os.environ['ROLE_NAME'])")
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        cellspan.env.pop(name, None)
    code, out, err = cellspan("run", "-n", 1, "--role", "trainer", "tells.py", PATH="%s:%s" % (tmp_path / "other" / "bin", os.environ["PATH"]))
    assert (code, out) == (0, "%s trainer\n" % (tmp_path / "other")), err


def test_run_hands_its_input_to_rank_0_and_its_status_to_stderr(cellspan, tmp_path):
    (tmp_path / "reads.py").write_text(
        "import os, sys, time\nif os.environ['RANK'] == '0': print([input()], sys.stdin.read().split(), os.path.isabs(__file__))\n"
        "else: print([sys.stdin.read()])\ntime.sleep(2.5)\n"
    )
    told = []

    def has_status():
        """What runs for 2 s has one; on a busy machine the kernel may see only the end of 2.5 s."""
        code, out, err = cellspan("run", "-n", 2, "--python", sys.executable, "reads.py", given=b"one\ntwo words\nlast")
        assert code == 0, err
        assert sorted(out.splitlines()) == ["[0] ['one'] ['two', 'words', 'last'] True", "[1] ['']"]
        told.append(err)
        return "done in" in err

    assert processes.wait_until(has_status, 60), told


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_run_hands_signals_on_to_the_script(cellspan, tmp_path, sent):
    (tmp_path / "saves.py").write_text(
        "import atexit, signal, sys, time\nsignal.signal(%d, lambda *_: sys.exit(0))\natexit.register(print, 'saved')\n"
        "print('rank', flush=True)\ntime.sleep(600)\n" % sent
    )
    process = cellspan("run", "-n", 2, "--python", sys.executable, tmp_path / "saves.py", start=True)
    for line in process.stdout:
        if b"rank" in line:
            break
    process.send_signal(sent)
    assert b"saved" in process.stdout.read()
    assert process.wait(60) == 128 + sent
    assert processes.gone(cellspan.marker) == []


@pytest.mark.parametrize("end", ["", "raise ValueError", "sys.exit(3)"])
def test_the_end_of_a_script_calls_no_handler_of_its_own(cellspan, tmp_path, end):
    (tmp_path / "ends.py").write_text(
        "import os, signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: open(f'called-{os.getpid()}', 'w').close())\n" + end
    )
    # It would be called on a third of the ranks.
    cellspan("run", "-n", 12, "--python", sys.executable, "--cwd", tmp_path, tmp_path / "ends.py")
    assert [name for name in os.listdir(tmp_path) if name.startswith("called-")] == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_run_ends_with_all_that_came_of_it_when_it_is_signalled(cellspan, script, sent):
    process = cellspan("run", "-n", 2, "--python", sys.executable, script, "wait", start=True)
    for line in process.stdout:
        if b"rank" in line:
            break
    process.send_signal(sent)
    process.stdout.close()
    assert process.wait(60) != 0
    assert processes.gone(cellspan.marker) == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_run_ends_when_it_is_signalled_while_nobody_reads_its_output(cellspan, tmp_path, sent):
    (tmp_path / "prints.py").write_text("while True: print('x' * 1000, flush=True)")
    process = cellspan("run", "-n", 2, "--python", sys.executable, tmp_path / "prints.py", start=True)
    end = os.open(f"/proc/self/fd/{process.stdout.fileno()}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        assert processes.wait_until(lambda: not select.select([], [end], [], 0)[1], 100)
        process.send_signal(sent)
        assert process.wait(60) == 128 + sent
    finally:
        os.close(end)
    assert processes.gone(cellspan.marker) == []


def test_run_loses_nothing_to_a_reader_that_comes_late(cellspan, tmp_path):
    (tmp_path / "prints.py").write_text("import sys\nfor i in range(3000): print(i, 'x' * 100)\nprint('end', file=sys.stderr)")
    process = cellspan("run", "-n", 1, "--python", sys.executable, tmp_path / "prints.py", start=True)
    end = os.open(f"/proc/self/fd/{process.stdout.fileno()}", os.O_WRONLY | os.O_NONBLOCK)
    assert processes.wait_until(lambda: not select.select([], [end], [], 0)[1], 100)
    os.close(end)
    lines = [line.split()[0] for line in process.stdout.read().decode().splitlines()]
    assert lines[:3001] == [*map(str, range(3000)), "end"], lines[-5:]
    assert process.wait(60) == 0


def test_run_loses_nothing_when_its_reader_comes_after_the_kernel_has_ended(cellspan, tmp_path):
    (tmp_path / "shows.py").write_text("from IPython.display import display\ndisplay('x' * 300_000, display_id=True)")  # shown at the end: it may change
    process = cellspan("run", "-n", 1, "--python", sys.executable, tmp_path / "shows.py", start=True)

    def children():
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
            return file.read().split()

    assert processes.wait_until(children, 60) and processes.wait_until(lambda: not children(), 100)
    assert process.stdout.read().count(b"x") == 300_000
    assert process.wait(60) == 0


def test_every_command_has_a_manual_page():
    spec = KernelSpecManager().get_kernel_spec(KERNEL)
    share = pathlib.Path(spec.argv[0]).parents[1] / "share" / "man" / "man1"
    if not share.exists():
        pytest.skip("the manual pages are not installed beside the kernel")
    assert {"cellspan.1", "cellspan-install.1", "cellspan-uninstall.1", "cellspan-run.1", "cellspan-kernel.1"} <= {p.name for p in share.iterdir()}


def test_uninstall_takes_away_what_install_wrote_and_nothing_else(cellspan, tmp_path):
    for options in (["--user"], ["--prefix", tmp_path / "p", "--name", "mine"]):
        code, out, err = cellspan("install", *options, "--python", sys.executable)
        assert code == 0, err
        folder = pathlib.Path(out.splitlines()[0].partition(" is in ")[2])
        code, out, err = cellspan("uninstall", *options)
        assert (code, out, err) == (0, "%s is removed\n" % folder, "") and not folder.exists()
        one_line(cellspan("uninstall", *options), str(folder), "--prefix DIR")
    other = cellspan.home / ".local" / "share" / "jupyter" / "kernels" / "cellspan"
    other.mkdir(parents=True)
    (other / "kernel.json").write_text('{"argv": ["/usr/bin/python3", "-m", "ipykernel"]}')
    one_line(cellspan("uninstall"), "is no kernel of cellspan's: it starts /usr/bin/python3")
    one_line(cellspan("install", "--python", sys.executable), "is no kernel of cellspan's", "--name gives")
    assert "ipykernel" in (other / "kernel.json").read_text()
    (other / "kernel.json").unlink()
    assert cellspan("install", "--python", sys.executable)[0] == 0
    (other / "notes.txt").write_text("mine")
    assert cellspan("uninstall")[0] == 0 and [f.name for f in other.iterdir()] == ["notes.txt"]


def test_run_speaks_of_itself(cellspan):
    """Not of a magic, whose user is in a notebook; and not of what is of use there alone."""
    code, out, err = cellspan("run", "--help")
    assert code == 0 and "%" not in out and "--fresh" not in out and "cell " not in out, out
    one_line(cellspan("run"), "cellspan run: which script? (cellspan run [options] script.py")
    one_line(cellspan("run", "-n", 2), "which script?")
    one_line(cellspan("run", "--into", "x", "y.py"), "--into: only in a notebook")
    for words in (["--zzzzzz", "x.py"], ["-m"], ["--merge", "foo", "x.py"], [""]):
        code, out, err = cellspan("run", *words)
        assert code == 2 and "distribute" not in err and len(err.splitlines()) == 1, err
    assert "cellspan run --help lists them" in cellspan("run", "--zzzzzz", "x.py")[2]
    one_line(cellspan("run", "-n", 1, "--timeuot"), "did you mean --timeout?")


# -- completion


def share(cellspan):
    return pathlib.Path(shutil.which("cellspan")).resolve().parents[1] / "share"


def tab(cellspan, line, **changes):
    """What bash offers for a line, Tab at its end."""
    script = ("source %s; COMP_WORDS=(%s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _cellspan; printf '%%s\\n' \"${COMPREPLY[@]}\""
              % (share(cellspan) / "bash-completion/completions/cellspan", line))
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=str(cellspan.home), timeout=60)
    assert done.returncode == 0, done
    return done.stdout.split("\n")[:-1]


def test_bash_completes_commands_options_values_and_files(cellspan):
    (cellspan.home / "train.py").write_text("")
    (cellspan.home / "my data").mkdir()
    assert tab(cellspan, "cellspan ''") == ["install", "uninstall", "run", "ps", "logs", "stop", "notice", "doctor", "config", "--help", "--settings", "--version"]
    assert tab(cellspan, "cellspan un") == ["uninstall"]
    assert tab(cellspan, "cellspan install --p") == ["--prefix", "--python"]
    assert tab(cellspan, "cellspan install --prefix ''") == ["my data"]
    assert tab(cellspan, "cellspan run --no") == ["--no-gpu", "--no-code"]
    assert "--fresh" not in tab(cellspan, "cellspan run --") and "--python" in tab(cellspan, "cellspan run --")
    assert tab(cellspan, "cellspan run -n 2 --merge ''") == ["fold", "prefix", "rank0", "panel", "raw"]
    assert tab(cellspan, "cellspan run -n 2 tr") == ["train.py"]
    assert tab(cellspan, "cellspan run -n 2 train.py tr") == ["train.py"], "arguments may be files, too"
    assert tab(cellspan, "cellspan run --cwd ''") == ["my data"]
    assert tab(cellspan, "cellspan run -n ''") == ["gpu"]


def test_every_shell_finds_its_completion_where_it_looks(cellspan):
    for path in ("bash-completion/completions/cellspan", "zsh/site-functions/_cellspan", "fish/vendor_completions.d/cellspan.fish"):
        text = (share(cellspan) / path).read_text()
        assert "--complete" in text, path
    for shell, path in (("bash", "bash-completion/completions/cellspan"), ("zsh", "zsh/site-functions/_cellspan"), ("fish", "fish/vendor_completions.d/cellspan.fish")):
        if shutil.which(shell):
            subprocess.run([shell, "-n", str(share(cellspan) / path)], check=True, timeout=60)


def test_fish_completes_what_the_command_offers(cellspan, tmp_path):
    if not shutil.which("fish"):
        pytest.skip("fish is not installed")
    (tmp_path / "train.py").touch()
    path = share(cellspan) / "fish/vendor_completions.d/cellspan.fish"
    bin = share(cellspan).parent / "bin"

    def offered(line):
        code = "set -p PATH %s; source %s; complete -C '%s'" % (bin, path, line)
        out = subprocess.run(["fish", "--no-config", "-c", code], cwd=tmp_path, env=cellspan.env, capture_output=True, text=True, check=True, timeout=60).stdout
        return [offer.partition("\t")[0] for offer in out.splitlines()]  # descriptions stand behind

    assert offered("cellspan run --no-g") == ["--no-gpu"]
    assert offered("cellspan un") == ["uninstall"]
    assert offered("cellspan run -n 2 tr") == ["train.py"]


# A zsh at a terminal of its own: its completion works at a prompt only. $1: the folder of the completion, $2: that of the command.
ZSH = r"""zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; unsetopt zle_bracketed_paste; fpath=($1 \$fpath); path=($2 \$path); autoload -U compinit; compinit -D -u; echo REA''DY"
zpty -r -m z shown '*READY*'
zpty -n -w z $'cellspan run --no-g\t'
zpty -r -m z shown '*--no-gpu*' && print found
zpty -d z
"""


def test_zsh_completes_what_the_command_offers(cellspan, tmp_path):
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed")
    (tmp_path / "ask").write_text(ZSH)
    words = [tmp_path / "ask", share(cellspan) / "zsh/site-functions", share(cellspan).parent / "bin"]
    done = subprocess.run(["timeout", "60", "zsh", "-f", *map(str, words)], env=dict(cellspan.env, TERM="dumb"), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.stdout == "found\n", done


# -- building in odd folders

SOURCES = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("command", [
    ["bash", "-c", ". tests/setup.sh"],
    [sys.executable, "-c", "import sys; sys.path.insert(0, 'worker/python/backend'); import cellspan_build as b; b.configure('/tmp', {})"],
    [str(SOURCES / "configure")],
])
def test_a_folder_with_white_space_is_refused_in_a_line_that_names_it(tmp_path, command):
    """autotools can't have one; what would fail later, and elsewhere, is told at once."""
    folder = tmp_path / "my clone"
    for part in ("tests/setup.sh", "worker/python/backend/cellspan_build.py"):
        (folder / part).parent.mkdir(parents=True)
        shutil.copy(SOURCES / part, folder / part)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
    lines = [line for line in done.stderr.splitlines() if "white space" in line]
    assert done.returncode != 0 and len(lines) == 1 and str(folder) in lines[0], done


def test_a_kernel_takes_the_python_beside_it_or_says_that_it_does_not_run(tmp_path):
    """As a wheel's kernelspec starts it, without --python."""
    spec = KernelSpecManager().get_kernel_spec(KERNEL)
    kernel = tmp_path / "cellspan-kernel"
    shutil.copy(spec.argv[0], kernel)
    asked = tmp_path / "asked"
    beside = tmp_path / "cellspan-python"
    beside.write_text("#!/bin/sh\necho beside >>%s\nexec %s \"$@\"\n" % (asked, sys.executable))
    beside.chmod(0o755)
    done = subprocess.run([kernel, "-f", tmp_path / "none.json"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 1 and "none.json" in done.stderr and asked.read_text() == "beside\n", done
    for script, says in (("#!/no/such/python\n", "can't start %s (the program): No such file or directory; --python PATH names the notebook's Python"),
                         ("#!/bin/sh\nexit 1\n", "%s does not run: --python PATH names the notebook's Python")):
        beside.write_text(script)
        done = subprocess.run([kernel, "-f", tmp_path / "none.json"], capture_output=True, text=True, timeout=100)
        assert done.returncode == 1 and done.stdout == "" and done.stderr == "cellspan-kernel: " + says % beside + "\n", done


def test_make_install_stores_bytecode_that_the_kernel_uses(nb):
    """Its head has the flag 0 and the module's time and size, or the flag 1 or 3 and a digest (SOURCE_DATE_EPOCH)."""
    path = nb.ok("import cellspan; cellspan.__path__[0]").value.strip("'")
    modules = list(pathlib.Path(path).rglob("*.py"))
    assert modules and not [m for m in modules if not os.path.exists(importlib.util.cache_from_source(m))]
    # Python takes it only if it was made from the module as it is now.
    stamps = nb.ok("import cellspan._worker.home as home, os\nwith open(home.__cached__, 'rb') as file:\n    head = file.read(16)\n"
                   "bool(head[4]) or int.from_bytes(head[8:12], 'little') == int(os.stat(home.__file__).st_mtime), "
                   "bool(head[4]) or int.from_bytes(head[12:], 'little') == os.stat(home.__file__).st_size").value
    assert stamps == "(True, True)"


def test_a_python_that_pip_did_not_install_for_leaves_no_bytecode(tmp_path, fresh, monkeypatch):
    """As in a wheel, where the file no-bytecode is: a worker writes nothing beside the package, but user's modules have bytecode."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    folder = tmp_path / "lib" / "cellspan" / "python"
    nb = fresh()
    source = nb.ok("import cellspan, os; os.path.dirname(cellspan.__path__[0])").value.strip("'")
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "mine.py").write_text("import sys\n")
    env = {"CELLSPAN_PYTHONPATH": str(folder)}
    look = "import cellspan.torch, mine, os, sys\ncellspan.__path__[0], sys.dont_write_bytecode, 'PYTHONDONTWRITEBYTECODE' in os.environ"

    def written():
        return list(folder.rglob("__pycache__"))

    def use(**env):
        nb = fresh(env=env, cwd=tmp_path)
        want = (str(folder / "cellspan"), False, False)
        assert values(nb.ok(look)) == want
        assert rank_values(nb, look, 2) == [want] * 2
        return nb

    (folder.parent / "no-bytecode").touch()
    nb = use(**env)
    nb.ok("import multiprocessing\nfrom cellspan._capture.capture import split_names\nwith multiprocessing.get_context('spawn').Pool(1) as pool:\n    pool.apply(split_names, ('a, b',))")
    assert not written() and list((tmp_path / "__pycache__").iterdir())
    nb = fresh(env=dict(env, PYTHONDONTWRITEBYTECODE="1"), cwd=tmp_path)
    assert nb.ok("import os, sys\nos.environ['PYTHONDONTWRITEBYTECODE'], sys.dont_write_bytecode").value == "('1', True)"
    assert not written()
    (folder.parent / "no-bytecode").unlink()
    use(**env)
    assert written()
