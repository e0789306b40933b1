# SPDX-License-Identifier: BSD-3-Clause
"""`cellspan run` beside a shell: the signals that it is started with, its descriptors, and who reads its output."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

import processes
import pytest

LIMIT = 100  # seconds for what takes a few; far off, to catch what hangs


@pytest.fixture
def started(cellspan, tmp_path):
    """started(text, ...) runs a script of that text. `shell` is what a shell does before."""
    running = []

    def start(text, *options, shell="", ranks=1, **streams):
        (tmp_path / "script.py").write_text(text, encoding="utf-8")
        changes = streams.pop("env", {})
        words = [cellspan.program, "run", "-n", str(ranks), "--python", sys.executable, *options, "script.py"]
        if shell:
            words = ["sh", "-c", shell + "\nexec \"$@\"", "sh", *words]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        running.append(subprocess.Popen(words, cwd=tmp_path, env=dict(cellspan.env, **changes), **streams))
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
            process.wait()


def kernel_of(process):
    """Its only child; None: there is none."""
    with open("/proc/%d/task/%d/children" % (process.pid, process.pid), encoding="ascii") as file:
        return next(map(int, file.read().split()), None)


def is_full(fd):
    end = os.open("/proc/self/fd/%d" % fd, os.O_WRONLY | os.O_NONBLOCK)
    try:
        return not select.select([], [end], [], 0)[1]
    finally:
        os.close(end)


WAITS = "import os, time\nprint('up', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('went on')\n"


@pytest.mark.parametrize("name", ["HUP", "INT"])
def test_a_signal_that_was_ignored_before_stays_ignored(started, tmp_path, name):
    """nohup ignores SIGHUP, and a shell without job control SIGINT of what it starts in the background."""
    process = started(WAITS, shell="trap '' " + name)
    assert b"up" in process.stdout.readline()
    process.send_signal(getattr(signal, "SIG" + name))
    (tmp_path / "go").touch()
    out, err = process.communicate(timeout=LIMIT)
    assert (out, err, process.returncode) == (b"went on\n", b"", 0)


def test_a_kernel_that_is_hung_up_ends_in_order(started, tmp_path):
    process = started(WAITS, env={"TMPDIR": str(tmp_path)})
    assert b"up" in process.stdout.readline()
    os.kill(kernel_of(process), signal.SIGHUP)
    assert b"ended by itself (exit status 0)" in process.communicate(timeout=LIMIT)[1]
    assert not list(tmp_path.glob("cellspan-*"))


def test_a_signal_before_the_kernel_answers_is_no_error_of_the_kernel(started, tmp_path):
    silent = tmp_path / "cellspan-kernel"
    silent.write_text("#!/bin/sh\ntouch up\nexec sleep 600\n", encoding="utf-8")
    silent.chmod(0o755)
    process = started("", env={"CELLSPAN_LIBEXECDIR": str(tmp_path)})
    assert processes.wait_until((tmp_path / "up").exists, LIMIT)
    process.send_signal(signal.SIGTERM)
    assert (process.communicate(timeout=LIMIT)[1], process.returncode) == (b"", 128 + signal.SIGTERM)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_stay_free_for_nothing_else(started, closed):
    """As some daemons start programs: a file that is opened later must not get the number of a stream."""
    text = "import sys\nprint('out', [*sys.stdin])\nprint('err', file=sys.stderr)"
    out, err = (process := started(text, shell="exec " + closed)).communicate(timeout=LIMIT)
    if ">&-" in closed.split():
        assert (out, process.returncode) == (b"", 1)
        assert (b"output is lost: Bad file descriptor" in err) == ("2>&-" not in closed)
    else:
        assert (out, process.returncode) == (b"out []\n", 0)
        assert (b"err" in err) == ("2>&-" not in closed)


FLOOD = "for i in range(60_000): print(i, 'x' * 1000)\n"


def test_a_run_that_is_stopped_loses_no_output(started, tmp_path):
    """As by Ctrl-Z. Its kernel no longer waits for a client that reads nothing for 10 s, but for this one it does."""
    with open(tmp_path / "out", "wb") as file:
        process = started("import os, time\nprint('up', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\n" + FLOOD, stdout=file)
    assert processes.wait_until(lambda: (tmp_path / "out").read_bytes() == b"up\n", LIMIT)
    process.send_signal(signal.SIGSTOP)
    (tmp_path / "go").touch()
    time.sleep(13)
    process.send_signal(signal.SIGCONT)
    assert process.wait(LIMIT) == 0, process.stderr.read()
    lines = [line.split()[0] for line in (tmp_path / "out").read_bytes().splitlines()[1:]]
    assert lines == [b"%d" % i for i in range(60_000)]


def resident(pid):
    with open("/proc/%d/statm" % pid, encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_reader_that_takes_nothing_holds_back_the_ranks(started):
    process = started(FLOOD)
    assert processes.wait_until(lambda: is_full(process.stdout.fileno()), LIMIT)
    before = resident(process.pid)
    time.sleep(13)
    assert resident(process.pid) - before < 30 << 20
    out, err = process.communicate(timeout=LIMIT)
    assert [line.split()[0] for line in out.splitlines()] == [b"%d" % i for i in range(60_000)] and process.returncode == 0, err


def test_who_reads_no_output_takes_no_errors_along(started, tmp_path):
    """After a signal the reader of stdout is given up, but not what is for stderr."""
    text = ("import signal\ndef save(*_): raise RuntimeError('the checkpoint could not be written')\n"
            "signal.signal(signal.SIGTERM, save)\nwhile True: print('x' * 1000, flush=True)")
    with open(tmp_path / "err", "wb") as file:
        process = started(text, stderr=file)
    assert processes.wait_until(lambda: is_full(process.stdout.fileno()), LIMIT)
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT) == 128 + signal.SIGTERM
    assert "the checkpoint could not be written" in (tmp_path / "err").read_text()


def test_what_a_script_raises_after_a_signal_is_shown(started):
    text = ("import signal, time\ndef save(*_): raise RuntimeError('the checkpoint could not be written')\n"
            "signal.signal(signal.SIGTERM, save)\nprint('up', flush=True)\ntime.sleep(600)")
    process = started(text)
    assert b"up" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert b"RuntimeError: the checkpoint could not be written" in process.communicate(timeout=LIMIT)[1]
    assert process.returncode == 128 + signal.SIGTERM


def all_printed(started, tmp_path, text):
    """(the process, its kernel's pid) of a script of this text that has printed all of it while nobody reads: no more leaves the kernel."""
    process = started(text + "\nopen('all', 'w').close()\nimport time\ntime.sleep(600)")
    assert processes.wait_until(lambda: is_full(process.stdout.fileno()), LIMIT)
    kernel, written = kernel_of(process), []
    assert processes.wait_until((tmp_path / "all").exists, LIMIT)

    def rests():
        with open("/proc/%d/io" % kernel, encoding="ascii") as file:
            written.append(file.read().split("wchar: ")[1].split()[0])
        return len(written) > 10 and len({*written[-10:]}) == 1

    assert processes.wait_until(rests, LIMIT)
    return process, kernel


def end(process, kernel, signo):
    """(stdout, stderr) of a run whose kernel gets this signal."""
    os.kill(kernel, signo)
    assert processes.wait_until(lambda: kernel_of(process) is None, LIMIT)
    out = process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    return out


def numbers(out):
    return [int(line.split()[0]) for line in out.splitlines()]


def test_each_of_many_messages_from_a_killed_kernel_is_printed(started, tmp_path):
    """A display is a message of its own."""
    text = "from IPython.display import display\nfor i in range(300): display({'text/plain': '%d %s' % (i, 'x' * 5000)}, raw=True)"
    assert numbers(end(*all_printed(started, tmp_path, text), signal.SIGKILL)[0]) == list(range(300))


def test_a_signal_to_the_kernel_itself_loses_nothing(started, tmp_path):
    """More than the client takes while its reader takes nothing: the kernel sends the rest as it ends."""
    text = "for i in range(8_000): print(i, 'x' * 1000)"
    assert numbers(end(*all_printed(started, tmp_path, text), signal.SIGTERM)[0]) == list(range(8_000))


def test_what_a_kernel_sent_before_it_was_killed_is_printed(started, tmp_path):
    """Its last output may say why, as of one that the system killed for its memory."""
    text = "for i in range(3_000): print(i, 'x' * 1000)\nprint('end', flush=True)"
    out, err = end(*all_printed(started, tmp_path, text), signal.SIGKILL)
    assert out.splitlines()[-1] == b"end" and b"signal 9" in err


def test_input_that_is_not_utf8_is_told(started, tmp_path):
    (tmp_path / "in").write_bytes(b"caf\xe9\n" + "caf\u00e9\n".encode() + b"\xff\n")
    with open(tmp_path / "in", "rb") as file:
        process = started("import sys\nprint(ascii(sys.stdin.read()))", stdin=file)
    out, err = process.communicate(timeout=LIMIT)
    assert out == b"'caf\\ufffd\\ncaf\\xe9\\n\\ufffd\\n'\n" and process.returncode == 0
    assert err.count(b"standard input is not UTF-8") == 1


def test_a_line_that_comes_in_pieces_is_cut_between_characters(started, tmp_path):
    (tmp_path / "in").write_bytes(b"x" + "\u20ac".encode() * (3 << 20))  # a piece has 8 MiB
    with open(tmp_path / "in", "rb") as file:
        process = started("import sys\nprint({*sys.stdin.read()} == {'x', '\\u20ac', '\\n'})", stdin=file)
    out, err = process.communicate(timeout=LIMIT)
    assert (out, b"UTF-8" in err, process.returncode) == (b"True\n", False, 0)
