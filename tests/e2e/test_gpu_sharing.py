# SPDX-License-Identifier: BSD-3-Clause
"""Notebooks of one and of several unix users that share the GPUs of a machine: who holds them, and how many one user may hold."""

from __future__ import annotations

import os
import re
import signal

import processes
import pytest
from test_gpus import book, doubles, four, gpus, lent, refused  # noqa: F401  (fixtures)
from test_ps_all import machine  # noqa: F401  (a fixture)

ANN = 300_000 + os.getpid() % 50_000 * 2  # another run of the tests on this machine has other users
BOB = ANN + 1
SIZE = "%%%%distribute %s\nimport os\nos.environ['WORLD_SIZE']"


# ---- a quota


def test_the_notebooks_of_a_user_have_one_quota(book, tmp_path):  # noqa: F811
    one, two = (book(CELLSPAN_GPU_QUOTA="3", JPY_SESSION_NAME=str(tmp_path / name)) for name in ("train.ipynb", "look.ipynb"))
    assert one.ok(SIZE % "-n 2").value == "'2'"
    text = refused(two.run(SIZE % "-n 2"), "-n 2: there is 1 GPU", "gpu_quota is 3 (CELLSPAN_GPU_QUOTA in the environment)")
    assert re.search(r"train\.ipynb \(pid %d\) holds 2 since \d\d:\d\d; `%%ranks stop` in such a notebook, or `cellspan stop` with its pid, frees" % one.pid, text), text
    assert two.ok(SIZE % "").value == "'1'", "as many ranks as it may have GPUs"
    cell = two.run("%%distribute -n 3 --share --fresh\n1")
    assert cell.status == "error" and "GPUs more would be too many for one user: gpu_quota is 3" in cell.error["evalue"], "shared ones count, too"
    one.ok("%ranks stop")
    assert two.ok(SIZE % "-n 3 --fresh").value == "'3'"
    text = refused(one.run(SIZE % "-n gpu"), "-n gpu: there is no free GPU", "look.ipynb (pid %d) holds 3" % two.pid)
    os.kill(two.pid, signal.SIGKILL)
    assert processes.gone(two.marker) == []
    assert one.ok(SIZE % "-n gpu").value == "'3'", "what a killed kernel held does not count"


def test_a_quota_of_a_file_is_named_and_a_project_does_not_raise_it(book, tmp_path, monkeypatch):  # noqa: F811
    user, project = tmp_path / "config" / "cellspan", tmp_path / "project"
    user.mkdir(parents=True)
    project.mkdir()
    (user / "cellspan.toml").write_text("\ngpu_quota = 1\n")
    (project / "cellspan.toml").write_text("gpu_quota = 4\n")
    monkeypatch.chdir(project)
    one = book(XDG_CONFIG_HOME=str(tmp_path / "config"), CELLSPAN_GPU_QUOTA="8")
    refused(one.run("%%distribute -n 2\n1"), "gpu_quota is 1 (%s/cellspan.toml:2)" % user)
    assert one.ok(SIZE % "").value == "'1'"


def test_config_says_which_quotas_do_not_count(cellspan, tmp_path):
    (tmp_path / "cellspan").mkdir()
    (tmp_path / "cellspan" / "cellspan.toml").write_text("gpu_quota = 2\n")
    code, out, err = cellspan("config", XDG_CONFIG_HOME=str(tmp_path), CELLSPAN_GPU_QUOTA="4")
    row = next(line for line in out.splitlines() if line.startswith("gpu_quota"))
    assert code == 0 and row.split(None, 2)[1:] == ["2", "%s/cellspan/cellspan.toml:1, the smallest; not 4, CELLSPAN_GPU_QUOTA in the environment" % tmp_path], row


@pytest.mark.parametrize("value", ["-1", "x", "0", "1.5"])
def test_what_is_no_quota_is_named(book, value):  # noqa: F811
    cell = book(CELLSPAN_GPU_QUOTA=value).ok(SIZE % "")
    assert cell.value == "'4'"
    assert "CELLSPAN_GPU_QUOTA=%s: a whole number is wanted, from 1 to 4096, or off; off is used" % value in cell.stderr, cell.stderr


# ---- the queue


def waiting(nb, cell, text, limit=60):
    """Waits until the cell's status has this text."""
    def shows():
        return any(text in one.get("text/plain", "") for one in cell.displays)

    nb.wait(cell, limit, lambda: cell.ended or shows())
    assert shows(), cell.shown


def test_a_cell_waits_for_gpus_and_gets_them(book):  # noqa: F811
    one, two = book(), book()
    one.ok("%%distribute -n 4\n1")
    cell = two.start(SIZE % "-n 2 --wait 10min")
    waiting(two, cell, "waits for 2 GPUs: 1st in the queue")
    assert "waits for 2 GPUs: 1st in the queue, for at most 10 min (" in cell.stderr and "held: GPU 0 by " in cell.stderr, cell.stderr
    one.ok("%ranks stop")
    two.wait(cell).assert_ok()
    assert cell.value == "'2'"
    assert one.ok(SIZE % "-n 2").value == "'2'", "nobody waits any more"


def test_who_wants_few_does_not_pass_who_wants_many(book, gpus):  # noqa: F811
    holder, many, few, hasty = book(), book(), book(), book()
    holder.ok("%%distribute -n 3\n1")
    first = many.start(SIZE % "-n 4 --wait 10min")
    waiting(many, first, "waits for 4 GPUs: 1st in the queue")
    second = few.start(SIZE % "-n 1 --wait 10min")
    waiting(few, second, "waits for 1 GPU: 2nd in the queue")
    text = refused(hasty.run("%%distribute -n 1\n1"), "there are 0 GPUs", "GPU 3 by ")
    assert ", who waits for it" in text and "(pid " in text, text
    holder.ok("%ranks stop")
    many.wait(first).assert_ok()
    waiting(few, second, "waits for 1 GPU: 1st in the queue")
    os.kill(many.pid, signal.SIGKILL)
    few.wait(second).assert_ok()
    assert first.value == "'4'" and second.value == "'1'"
    assert not [name for name in os.listdir(gpus.leases) if name.startswith("wait.")], "no place is left"


def test_shared_ranks_leave_free_gpus_to_who_waits(book):  # noqa: F811
    holder, many, sharing = book(), book(), book()
    holder.ok("%%distribute -n 1\n1")
    cell = many.start(SIZE % "-n 4 --wait 10min")
    waiting(many, cell, "waits for 4 GPUs: 1st in the queue")
    where = "%%distribute -n 2 --share --gather\nimport os\nos.environ['CUDA_VISIBLE_DEVICES']"
    assert sharing.ok(where).value == "['0', '0']", "the one that somebody holds, though others are free"
    cell2 = sharing.run("%%distribute -n 1 --gpus 2 --share --fresh\n1")
    assert cell2.status == "error" and "--share: 3 free GPUs are kept for " in cell2.error["evalue"] and ", who waits for it" in cell2.error["evalue"], cell2.error
    sharing.ok("%ranks stop")
    holder.ok("%ranks stop")
    many.wait(cell).assert_ok()


def test_a_dead_or_interrupted_waiter_is_in_nobodys_way(book, gpus):  # noqa: F811
    holder, dead, gone, last = book(), book(), book(), book()
    holder.ok("%%distribute -n 4\n1")
    cells = []
    for nb, place in ((dead, "1st"), (gone, "2nd"), (last, "3rd")):
        cells.append(nb.start(SIZE % "-n 2 --wait 10min"))
        waiting(nb, cells[-1], "%s in the queue" % place)
    os.kill(dead.pid, signal.SIGKILL)
    waiting(last, cells[2], "waits for 2 GPUs: 2nd in the queue")
    gone.km.interrupt_kernel()
    gone.wait(cells[1]).assert_error("KeyboardInterrupt")
    waiting(last, cells[2], "waits for 2 GPUs: 1st in the queue")
    holder.ok("%ranks stop")
    last.wait(cells[2]).assert_ok()
    assert gone.ok(SIZE % "-n 2").value == "'2'", "who has left the queue is as before"


def test_cells_that_keep_gpus_do_not_wait_for_each_other(book):  # noqa: F811
    one, two, three = book(), book(), book()
    one.ok("%%distribute -n 2\n1")
    two.ok("%%distribute -n 1\n1")
    cell = one.start(SIZE % "-n 4 --wait 10min")
    waiting(one, cell, "waits for 2 GPUs: 1st in the queue")
    text = refused(two.run(SIZE % "-n 4 --wait 10min"), "who comes first, waits for GPUs that this notebook's ranks keep", "(pid ")
    assert "`%ranks stop` ends them" in text, text
    two.ok("%ranks stop")
    one.wait(cell).assert_ok()
    assert cell.value == "'4'"


def test_a_stopped_waiter_is_in_nobodys_way(book):  # noqa: F811
    holder, stopped, other = book(), book(), book()
    holder.ok("%%distribute -n 3\n1")
    cell = stopped.start(SIZE % "-n 4 --wait 10min")
    waiting(stopped, cell, "waits for 4 GPUs: 1st in the queue")
    family = processes.marked(stopped.marker)
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert other.ok(SIZE % "-n 1 --wait 10min").value == "'1'", "it counts for 10 s more"
        other.ok("%ranks stop")
        holder.ok("%ranks stop")
    finally:
        for pid in reversed(family):
            os.kill(pid, signal.SIGCONT)
    stopped.wait(cell).assert_ok()
    assert cell.value == "'4'", "it has its place again"


def test_the_end_of_the_time_says_who_held_what(book, tmp_path):  # noqa: F811
    one, two = book(JPY_SESSION_NAME=str(tmp_path / "train.ipynb")), book()
    one.ok("%%distribute -n 3\n1")
    cell = two.run(SIZE % "-n 2 --wait 3s")
    cell.assert_error("RankNotStarted")
    text = cell.error["evalue"]
    assert text.startswith("--wait 3 s is over, and the cell still waits for 2 GPUs: 1st in the queue (") and "train.ipynb (pid " in text, text
    assert two.ok(SIZE % "-n 1").value == "'1'"


def test_a_quota_is_waited_for_and_holds_up_nobody(book, gpus):  # noqa: F811
    one, two, other = book(CELLSPAN_GPU_QUOTA="2"), book(CELLSPAN_GPU_QUOTA="2"), book()
    one.ok("%%distribute -n 2\n1")
    cell = two.start(SIZE % "-n 2 --wait 10min")
    waiting(two, cell, "waits for 2 GPUs")
    assert "gpu_quota is 2" in cell.stderr, cell.stderr
    assert other.ok(SIZE % "-n 2").value == "'2'", "what the quota keeps from one is free for others"
    other.ok("%ranks stop")  # it is of the same user, who holds too many as long as it has them
    one.ok("%ranks stop")
    two.wait(cell).assert_ok()


@pytest.mark.parametrize("options, why", [
    ("--wait 0", "--wait 0: too short (at least 1000 ms)"),
    ("--wait soon", "--wait soon: not a duration"),
    ("--wait 1min --no-gpu", "--wait and --no-gpu can't be used together"),
    ("--wait 1min --share", "--wait and --share can't be used together"),
    ("-n 5 --wait 1min", "-n 5: there are 4 GPUs"),
])
def test_what_can_not_be_waited_for_is_refused(four, options, why):  # noqa: F811
    refused(four.run("%%%%distribute %s\n1" % options), why)


def test_where_there_is_no_gpu_nothing_is_waited_for(book, gpus):  # noqa: F811
    gpus.set("count 0")
    refused(book().run("%%distribute --wait 1min\n1"), "--wait: there is no GPU on ", "to wait for (leave --wait out to run without)")


def test_fresh_ranks_wait_with_the_old_ones(book):  # noqa: F811
    one, two = book(), book()
    one.ok("%%distribute -n 2\n1")
    two.ok("%%distribute -n 2\nx = 1")
    cell = two.start(SIZE % "-n 3 --fresh --wait 10min")
    waiting(two, cell, "waits for 3 GPUs: 1st in the queue")
    one.ok("%ranks stop")
    two.wait(cell).assert_ok()
    assert cell.value == "'3'"


def test_python_waits_too(book):  # noqa: F811
    one, two = book(), book()
    one.ok("%%distribute -n 4\n1")
    cell = two.start("import cellspan, os\ncellspan.run(lambda: os.environ['WORLD_SIZE'], n=2, wait='10min')")
    waiting(two, cell, "1st in the queue")
    one.ok("%ranks stop")
    two.wait(cell).assert_ok()


def test_the_command_waits_as_well(book, gpus, cellspan, tmp_path):  # noqa: F811
    one = book()
    one.ok("%%distribute -n 4\n1")
    script = tmp_path / "two.py"
    script.write_text("import os\nprint('of', os.environ['WORLD_SIZE'])\n")
    code, out, err = cellspan("run", "-n", "2", "--wait", "2s", str(script), **gpus.environment)
    assert code and "waits for 2 GPUs: 1st in the queue, for at most 2 s (" in err and "--wait 2 s is over" in err, (code, out, err)
    started = cellspan("run", "-n", "2", "--wait", "10min", str(script), start=True, **gpus.environment)
    try:
        one.ok("%ranks stop")
        out, err = started.communicate(timeout=100)
        assert started.returncode == 0 and b"of 2" in out, (out, err)
    finally:
        started.kill()
        started.communicate()


# ---- two users


def test_users_wait_for_each_other_and_can_not_touch_each_others_places(users, machine):
    ann = users.notebook(ANN, env=dict(machine.environment, JPY_SESSION_NAME="/books/secret.ipynb"))
    bob, carl = (users.notebook(uid, env=machine.environment) for uid in (BOB, BOB))
    ann.ok("%%distribute -n 4\n1")
    first = bob.start(SIZE % "-n 4 --wait 10min")
    waiting(bob, first, "waits for 4 GPUs: 1st in the queue")
    assert "secret" not in first.stderr and re.search(r"GPU 0 by user%d \(uid %d, pid \d+, since \d\d:\d\d\)" % (ANN, ANN), first.stderr), first.stderr
    (place,) = machine.leases.glob("wait.*")
    second = carl.start(SIZE % "-n 1 --wait 10min")
    waiting(carl, second, "2nd in the queue")
    user = users[ANN]
    for words in (("rm", "-f", place), ("mv", place, "%s.0" % place), ("sh", "-c", "echo wants 0 >%s" % place), ("ln", place, machine.leases / "wait.00000000000000000001.1")):
        assert user.run(*words).returncode != 0 or place.exists(), words
    for k in range(40):  # made by her: without a lock, and so of nobody
        user.run("sh", "-c", "echo wants 4 >%s/wait.%020d.1; chmod 644 %s/wait.*.1" % (machine.leases, k, machine.leases))
        break
    ann.ok("%ranks stop")
    bob.wait(first).assert_ok()
    bob.ok("%ranks stop")
    carl.wait(second).assert_ok()


def test_each_user_has_a_quota_and_reads_no_notebook_of_others(users, machine):
    machine.set("count 6")
    ann = users.notebook(ANN, env=dict(machine.environment, CELLSPAN_GPU_QUOTA="2", JPY_SESSION_NAME="/books/secret.ipynb"))
    bob = users.notebook(BOB, env=dict(machine.environment, CELLSPAN_GPU_QUOTA="3"))
    assert ann.ok(SIZE % "").value == "'2'"
    text = refused(bob.run(SIZE % "-n 5"), "-n 5: there are 3 GPUs", "3 for this notebook, of 6; held: GPU 0 by user%d (uid %d, pid " % (ANN, ANN), "since ")
    assert "secret" not in text and "gpu_quota is 3" in text and "holds" not in text, text
    assert bob.ok(SIZE % "").value == "'3'", "none of hers counts as his"
    again = users.notebook(ANN, env=dict(machine.environment, CELLSPAN_GPU_QUOTA="2"))
    text = refused(again.run(SIZE % "-n 1"), "gpu_quota is 2", "secret.ipynb (pid %d) holds 2" % ann.pid)
