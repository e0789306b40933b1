# SPDX-License-Identifier: BSD-3-Clause
"""One cell on many ranks: options, variables, results, the other magics, and Python."""

from __future__ import annotations

import ast
import os
import re
import zipfile

import pytest
from client import all_print, by_rank, rank_values
from packages import needs
from processes import wait_until

N = 4


# -- the world


def test_a_cell_runs_on_each_rank_and_rank_0_gives_the_result(nb):
    cell = nb.ok("%%distribute -n 4\nimport os\nint(os.environ['RANK']) + 10")
    assert cell.value == "10"
    assert nb.ok("_").value == "10"
    assert nb.ok("Out[%d]" % cell.reply["execution_count"]).value == "10"


def test_each_rank_is_a_process_of_its_own(nb):
    pids = nb.rank_pids(N)
    assert len(set(pids + [nb.home_pid()])) == N + 1
    assert nb.rank_pids(N) == pids  # and stays so


def test_later_cells_reuse_the_group_and_its_variables(nb):
    nb.ok("%%distribute -n 4\nimport os\nmine = int(os.environ['RANK']) ** 2")
    assert nb.ok("%%distribute --gather\nmine").value == "[0, 1, 4, 9]"


def test_blank_and_comment_lines_may_stand_above(nb):
    assert nb.ok("\n# a remark\n\n%%distribute -n 2\n'ran'").value == "'ran'"


def test_options_are_expanded_by_home(nb):
    nb.ok("count = 2")
    for line in ("%%distribute -n {count} --gather", "%%distribute -n $count --gather"):
        assert nb.ok(line + "\n1").value == "[1, 1]"


def test_an_error_about_an_option_names_what_could_not_be_expanded(nb):
    """One name that fails leaves the whole line as it is, also where it stands elsewhere."""
    nb.ok("count = 2")
    for line, why in (
        ("%%distribute -n {countt}\n1", "NameError: name 'countt' is not defined. Did you mean: 'count'?"),
        ("%%distribute -n $count --env HERE={1/0}\n1", "ZeroDivisionError: division by zero"),
        ("%ranks logs -r {nosuch}", "NameError: name 'nosuch' is not defined"),
    ):
        cell = nb.run(line)
        cell.assert_error("UsageError")
        text = cell.error["evalue"]
        assert text.endswith("; nothing in {} and after $ was replaced: " + why), text
    cell = nb.run("%%distribute --nosuch --env A={nosuch}\n1")
    cell.assert_error("UsageError")
    assert "replaced" not in cell.error["evalue"]


def test_growth_keeps_the_living_ranks_variables(fresh):
    notebook = fresh()
    two = notebook.rank_pids(2)
    notebook.ok("%%distribute -n 2\nkept = 'old'")
    four = notebook.rank_pids(4)
    assert four[:2] == two
    assert rank_values(notebook, "'kept' in globals()") == [True, True, False, False]
    assert rank_values(notebook, "__import__('os').environ['WORLD_SIZE']") == ["4"] * 4


def test_a_smaller_world_leaves_the_others_idle_and_alive(nb):
    four = nb.rank_pids(4)
    assert nb.rank_pids(2) == four[:2]
    assert rank_values(nb, "__import__('os').environ['WORLD_SIZE']", 2) == ["2", "2"]
    assert nb.rank_pids(4) == four


@pytest.mark.parametrize("spec, wanted", [("0", [0]), ("1,3", [1, 3]), ("1-2", [1, 2]), ("-1", [3]), ("0,2-3", [0, 2, 3])])
def test_ranks_chooses_who_runs_and_the_world_keeps_its_size(nb, spec, wanted):
    cell = nb.ok(
        "%%%%distribute -n 4 --ranks %s --merge raw\nimport os\nprint(os.environ['RANK'], os.environ['WORLD_SIZE'])" % spec
    )
    assert sorted(cell.stdout.split("\n")[:-1]) == ["%d 4" % r for r in wanted]


def test_fresh_starts_the_group_anew(nb):
    before = nb.rank_pids(2)
    nb.ok("%%distribute -n 2\nold = 1")
    cell = nb.ok("%%distribute -n 2 --fresh --gather\nimport os\n(os.getpid(), 'old' in globals())")
    after = [int(p) for p in re.findall(r"\((\d+), False\)", cell.value)]
    assert len(after) == 2 and not set(after) & set(before)


def test_a_process_group_that_stays_is_told_to_who_asks_for_another(nb):
    needs("torch")
    nb.ok("%%distribute -n 2 --init gloo --fresh\npass", limit=100)
    cell = nb.ok("%%distribute --init nccl\nimport torch.distributed as dist\ndist.get_backend()")
    told = "cellspan: --init nccl: the process group of this world exists already, and uses gloo (--fresh makes another)"
    assert cell.value == "'gloo'" and cell.stderr.count(told) == 1, cell.shown
    assert nb.ok("%%distribute --init\npass").stderr == nb.ok("%%distribute --init gloo\npass").stderr == ""


@pytest.mark.parametrize("options, body, ename, told", [
    ("--on nope", "3", "EngineError", "no such engine"), ("--capture nothere", "3", "", "nothere"),
    ("-n 1 --no-capture", "x = 1\n\nif x\n  3", "SyntaxError", "line 4"), ("--on ssh:h1 --capture lock", "lock", "CaptureError", "lock"),
    ("-n gpu", "3", "UsageError", "there is no GPU"), ("--gpus 2", "3", "UsageError", "there is no GPU"),
    ("--cwd /no/such/folder", "3", "UsageError", "--cwd /no/such/folder: No such file or directory"),
])
def test_fresh_ends_no_ranks_for_a_cell_that_can_not_run(nb, options, body, ename, told):
    nb.ok("import threading\nlock = threading.Lock()")
    before = nb.rank_pids(2)
    nb.ok("%%distribute -n 2\ntrained = 1")
    cell = nb.run(f"%%distribute --fresh {options}\n{body}")
    assert cell.status == "error" and ename in cell.ename and told in cell.shown, cell.shown
    assert nb.ok("%%distribute\ntrained").value == "1"
    assert nb.rank_pids(2) == before


def test_fresh_ends_no_ranks_for_a_script_that_is_not_there(nb, tmp_path):
    (tmp_path / "there.py").write_text("print('ran')")
    before = nb.rank_pids(2)
    for line in ("%%distribute --fresh --cwd %s missing.py", "%%distribute --fresh --cwd %s/missing there.py", "%%distribute --fresh -n gpu %s/there.py"):
        nb.run(line % tmp_path).assert_error("UsageError")
    assert nb.rank_pids(2) == before
    assert nb.ok("%%distribute -n 2 --fresh --merge rank0 --cwd %s there.py" % tmp_path).stdout == "ran\n"
    assert nb.rank_pids(2) != before


def test_fresh_ends_no_ranks_for_variables_over_the_limit(fresh, monkeypatch):
    monkeypatch.setenv("CELLSPAN_CAPTURE_LIMIT", "1M")
    nb = fresh()
    nb.ok("import numpy\na = numpy.zeros(600 << 10, 'u1')\nb = a\nc = a + 1")
    nb.ok("%%distribute -n 2\ntrained = 1")
    before = nb.rank_pids(2)
    told = nb.run("%%distribute --fresh\na, c").assert_error("CaptureError").error["evalue"]
    assert told == "this cell would send 1.2 MiB, more than CELLSPAN_CAPTURE_LIMIT (1 MiB): a 600.1 KiB, c 600.1 KiB", told
    assert nb.rank_pids(2) == before
    assert nb.ok("%%distribute --fresh\nlen(a) + len(b)").value == str(1200 << 10), "one array, sent once"


def test_the_environment_is_torchruns_complete(nb):
    names = (
        "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_WORLD_SIZE ROLE_NAME "
        "NODE_RANK MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS "
        "TORCHELASTIC_ERROR_FILE TORCHELASTIC_USE_AGENT_STORE TORCH_NCCL_ASYNC_ERROR_HANDLING OMP_NUM_THREADS "
        "JAX_COORDINATOR_ADDRESS JAX_PROCESS_ID JAX_NUM_PROCESSES"
    ).split()
    values = rank_values(nb, "{k: __import__('os').environ.get(k) for k in %r}" % names, N, "--fresh")
    for rank, env in enumerate(values):
        assert None not in env.values(), env
        own = {"RANK": rank, "LOCAL_RANK": rank, "ROLE_RANK": rank, "JAX_PROCESS_ID": rank}
        world = {"WORLD_SIZE": N, "LOCAL_WORLD_SIZE": N, "ROLE_WORLD_SIZE": N, "JAX_NUM_PROCESSES": N}
        node = {"GROUP_RANK": 0, "NODE_RANK": 0, "GROUP_WORLD_SIZE": 1, "TORCHELASTIC_RESTART_COUNT": 0}
        for name, number in dict(own, **world, **node).items():
            assert env[name] == str(number), (rank, name)
        assert env["TORCHELASTIC_USE_AGENT_STORE"] == "False"
        host, _, port = env["JAX_COORDINATOR_ADDRESS"].rpartition(":")
        assert host == env["MASTER_ADDR"] and port != env["MASTER_PORT"] and 20000 <= int(port) < 30000
        assert int(env["OMP_NUM_THREADS"]) == max(1, os.cpu_count() // N)
    for shared in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
        assert len({env[shared] for env in values}) == 1
    assert len({env["TORCHELASTIC_ERROR_FILE"] for env in values}) == N


WATCHDOG = "{k: v for k, v in __import__('os').environ.items() if k.startswith('TORCH_NCCL_')}"
RESIDENT = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "TORCH_NCCL_ENABLE_MONITORING": "0", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "1", "TORCH_NCCL_RETHROW_CUDA_ERRORS": "0",
}  # fmt: skip


def test_torchs_watchdog_does_not_end_ranks_that_stay_and_scripts_have_torchruns(nb, tmp_path):
    assert rank_values(nb, WATCHDOG, 2) == [RESIDENT] * 2
    script = tmp_path / "watchdog.py"
    script.write_text("print(sorted(%s.items()))" % WATCHDOG)
    assert "[('TORCH_NCCL_ASYNC_ERROR_HANDLING', '1')]" in nb.ok("%%distribute -n 2 %s" % script).stdout
    env = rank_values(nb, WATCHDOG, 2, "--env TORCH_NCCL_ENABLE_MONITORING=1")
    assert env == [dict(RESIDENT, TORCH_NCCL_ENABLE_MONITORING="1")] * 2
    nb.ok("%%distribute -n 2\nimport os\nos.environ['TORCH_NCCL_ASYNC_ERROR_HANDLING'] = '3'")
    assert rank_values(nb, WATCHDOG, 2) == [dict(RESIDENT, TORCH_NCCL_ASYNC_ERROR_HANDLING="3")] * 2


def test_env_and_cwd_are_set_on_the_ranks_only(nb, tmp_path):
    cell = nb.ok(
        "%%%%distribute -n 2 --env SPECIAL=yes --env OTHER=1=2 --cwd %s --gather\n"
        "import os\n(os.environ['SPECIAL'], os.environ['OTHER'], os.getcwd())" % tmp_path
    )
    assert ast.literal_eval(cell.value) == [("yes", "1=2", str(tmp_path))] * 2
    assert nb.ok("import os\nos.environ.get('SPECIAL')").result is None


def test_random_state_differs_by_rank_and_in_each_start(nb):
    needs("numpy")
    body = "(__import__('random').random(), float(__import__('numpy').random.rand()))"
    drawn = rank_values(nb, body, 3, "--fresh") + rank_values(nb, body, 3, "--fresh")
    assert [len(set(numbers)) for numbers in zip(*drawn)] == [6, 6]


# -- results and displays


def test_gather_gives_a_list_by_rank_and_into_binds_it(nb):
    nb.ok("%%distribute -n 3 --gather --into squares\nimport os\nint(os.environ['RANK']) ** 2")
    assert nb.ok("squares").value == "[0, 1, 4]"


def test_into_binds_rank_0s_object_at_home(nb):
    needs("numpy")
    nb.ok("%%distribute -n 2 --into table\nimport numpy\nnumpy.arange(6).reshape(2, 3)")
    assert nb.ok("table.sum(), type(table).__name__").value in ("(15, 'ndarray')", "(np.int64(15), 'ndarray')")


def test_a_rich_result_is_shown_as_rank_0_rendered_it(nb):
    cell = nb.ok(
        "%%distribute -n 2\nclass R:\n    def _repr_html_(self):\n        return '<b>from a rank</b>'\nR()"
    )
    assert cell.result["text/html"] == "<b>from a rank</b>"


def test_a_data_frame_arrives_as_html_and_as_object(nb):
    needs("pandas")
    cell = nb.ok("%%distribute -n 2\nimport pandas\npandas.DataFrame({'a': [1, 2]})", limit=200)
    assert "<table" in cell.result["text/html"]
    assert nb.ok("int(_['a'].sum())").value == "3"


def test_a_cell_without_a_last_expression_has_no_result(nb):
    assert nb.ok("%%distribute -n 2\nx = 1").result is None
    assert nb.ok("%%distribute -n 2\n2;").result is None


def test_a_result_that_does_not_pickle_is_a_handle(nb):
    cell = nb.ok("%%distribute -n 2\nimport threading\nthreading.Lock()")
    assert "lock" in cell.value
    out = nb.ok("_").value
    assert "lock" in out and "pull" in nb.ok("dir(_)").value


def test_displays_of_rank_0_are_shown_and_updated(nb):
    cell = nb.ok(
        "%%distribute -n 2\nfrom IPython.display import display\n"
        "h = display({'text/plain': 'one', 'text/html': '<i>one</i>'}, raw=True, display_id=True)\n"
        "h.update({'text/plain': 'two', 'text/html': '<i>two</i>'}, raw=True)"
    )
    assert [d["text/html"] for d in cell.displays if "text/html" in d].count("<i>two</i>") >= 1
    assert "update_display_data" in cell.kinds


def test_displays_of_other_ranks_are_not_shown_with_rank0(nb):
    body = "import os\nfrom IPython.display import display\ndisplay({'text/plain': 'from ' + os.environ['RANK']}, raw=True)"
    cell = nb.ok("%%distribute -n 3 --merge rank0\n" + body)
    assert [d["text/plain"] for d in cell.displays_of_code] == ["from 0"]


def test_displays_of_other_ranks_are_labelled_with_prefix(nb):
    body = "import os\nfrom IPython.display import display\ndisplay({'text/plain': 'from ' + os.environ['RANK']}, raw=True)"
    cell = nb.ok("%%distribute -n 3 --merge prefix\n" + body)
    words = cell.shown.split()
    for rank in range(3):
        at = words.index("from") if rank == 0 and words[:2] == ["from", "0"] else None  # the first needs no label
        assert at == 0 or "[%d] from %d" % (rank, rank) in " ".join(words), cell.shown


def test_a_figure_of_rank_0_is_shown(nb):
    needs("matplotlib")
    cell = nb.ok(
        "%%distribute -n 2\nimport matplotlib.pyplot as plt\nimport os\n"
        "if os.environ['RANK'] == '0':\n    plt.plot([1, 2])\n    plt.show()", limit=200
    )
    assert len([d for d in cell.displays if "image/png" in d]) == 1


def test_displays_and_lines_of_a_rank_keep_their_order(nb):
    cell = nb.ok(
        "%%distribute -n 2 --ranks 0\nfrom IPython.display import display\n"
        "for i in range(4):\n    print('line', i)\n    display({'text/plain': 'shown %d' % i}, raw=True)"
    )
    words = [w for w in cell.shown.split() if w != "[0]"]
    assert words == [w for i in range(4) for w in ("line", str(i), "shown", str(i))]


# -- merged output


def run_in_step(nb, code, printed, wanted):
    """Runs a cell until it shows the `wanted` lines, in any order: twins have to be there within 100 ms, and on a busy
    machine one may be later. What each rank printed is the same each time."""
    shown = []

    def in_step():
        shown.append(nb.ok(code).stdout)
        assert by_rank(shown[-1]) == printed, shown[-1]
        return sorted(shown[-1].splitlines()) == sorted(wanted)

    assert wait_until(in_step, 100), shown[-1]
    return shown[-1].splitlines()


def test_fold_shows_a_line_of_several_ranks_once(nb):
    lines = run_in_step(
        nb,
        "%%distribute -n 4\nimport os\nprint('alike')\nprint('odd', int(os.environ['RANK']) % 2)",
        {rank: ["alike", "odd %d" % (rank % 2)] for rank in range(4)},
        ["[0-3] alike", "[0,2] odd 0", "[1,3] odd 1"],
    )
    assert lines[0] == "[0-3] alike"


def test_fold_finds_twins_behind_lines_that_differ(nb):
    """What training prints: a loss of each rank's own, then an accuracy that is the same."""
    lines = run_in_step(
        nb,
        "%%distribute -n 4\nimport os\nprint('loss', os.environ['RANK'])\nprint('same')",
        {rank: ["loss %d" % rank, "same"] for rank in range(4)},
        ["[%d] loss %d" % (rank, rank) for rank in range(4)] + ["[0-3] same"],
    )
    assert lines[-1] == "[0-3] same"


def test_prefix_labels_each_line(nb):
    cell = nb.ok("%%distribute -n 3 --merge prefix\nprint('a'); print('b')")
    for rank in range(3):
        mine = [line for line in cell.stdout.splitlines() if line.startswith("[%d] " % rank)]
        assert mine == ["[%d] a" % rank, "[%d] b" % rank]


def test_rank0_shows_only_rank_0(nb):
    assert nb.ok("%%distribute -n 3 --merge rank0\nprint('only once')").stdout == "only once\n"


def test_raw_shows_every_rank_unlabelled(nb):
    assert nb.ok("%%distribute -n 3 --merge raw\nprint('same')").stdout == "same\n" * 3


def test_a_world_of_one_is_not_labelled(nb):
    assert nb.ok("%%distribute -n 1\nprint('alone')").stdout == "alone\n"


def test_stdout_and_stderr_stay_apart(nb):
    cell = nb.ok("%%distribute -n 2\nimport sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert by_rank(cell.stdout) == {0: ["out"], 1: ["out"]} and by_rank(cell.stderr) == {0: ["err"], 1: ["err"]}


def test_output_of_c_and_of_children_is_caught(nb):
    cell = nb.ok(
        "%%distribute -n 2 --merge prefix\nimport ctypes, os, subprocess\nctypes.CDLL(None).puts(b'from C')\n"
        "subprocess.run(['echo', 'from a child'])\nos.write(1, b'from the descriptor\\n');"
    )
    for text in ("from C", "from a child", "from the descriptor"):
        for rank in range(2):
            assert "[%d] %s\n" % (rank, text) in cell.stdout


def test_text_keeps_indents_blank_lines_and_missing_newlines(nb):
    cell = nb.ok("%%distribute -n 1\nprint('  indented\\n\\nmsg_id: 7\\n{}')\nprint('no newline', end='')")
    assert cell.stdout.rstrip("\n") == "  indented\n\nmsg_id: 7\n{}\nno newline"


def test_output_streams_while_the_cell_runs(nb, gate):
    cell = nb.start("%%distribute -n 2\nprint('early')\n" + gate.code + "print('late')")
    nb.wait_shown(cell, "early")
    assert not cell.ended and "late" not in cell.stdout
    gate.open()
    nb.wait(cell).assert_ok()
    assert by_rank(cell.stdout) == {0: ["early", "late"], 1: ["early", "late"]}


# -- what a cell may hold


def test_magics_shell_and_await_work_on_ranks(nb):
    assert by_rank(nb.ok("%%distribute -n 2\n!echo hello").stdout) == {0: ["hello"], 1: ["hello"]}
    cell = nb.ok("%%distribute -n 2\nimport asyncio\nawait asyncio.sleep(0.01)\nprint('awaited')\n'value'")
    assert by_rank(cell.stdout) == {0: ["awaited"], 1: ["awaited"]} and cell.value == "'value'"
    assert "Wall time" in nb.ok("%%distribute -n 2\n%time sum(range(10))").stdout


def test_a_folder_or_an_archive_without_main_is_named_in_one_line(nb, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "train.py").touch()
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as file:
        file.writestr("train.py", "")
    for name in ("folder", "code.zip"):
        cell = nb.run("%%distribute -n 2 %s" % (tmp_path / name)).assert_error("UsageError")
        assert "%s: there is no __main__.py in it: name a script" % (tmp_path / name) in cell.traceback and "File " not in cell.traceback
    (tmp_path / "folder" / "__main__.py").write_text("print('main ran')")
    assert all_print(nb.ok("%%distribute -n 2 %s" % (tmp_path / "folder")).stdout, "main ran", 2)


def test_a_call_of_on_notice_without_a_function_ends_in_the_users_line(nb):
    for where in ("", "%%distribute -n 2\n"):
        cell = nb.run(where + "import cellspan\ncellspan.on_notice(5)").assert_error("TypeError")
        assert "cellspan.on_notice(5)" in cell.traceback and "_steps.py" not in cell.traceback, cell.traceback


def test_another_cell_magic_may_stand_above(nb):
    cell = nb.ok("%%time\n%%distribute -n 2\nprint('inside')")
    assert by_rank(cell.stdout) == {0: ["inside"], 1: ["inside"]} and "Wall time" in cell.stdout


def test_line_numbers_in_tracebacks_are_the_cells(nb):
    cell = nb.run("%%distribute -n 2\nx = 1\n\n1 / 0").assert_error("ZeroDivisionError")
    assert re.search(r"-+> 4 1 / 0", cell.traceback) or re.search(r"-+> 3 1 / 0", cell.traceback), cell.traceback


def test_a_timeout_stops_the_cell(nb):
    nb.ok("%%distribute -n 2\npass")
    cell = nb.run("%%distribute -n 2 --timeout 2s\nimport time\ntime.sleep(600)")
    assert cell.status == "error" and "still ran after 2 s" in cell.shown, cell.shown
    assert nb.ok("%%distribute -n 2\n'alive'").value == "'alive'"


def test_help_is_shown_and_nothing_runs(nb):
    for code in ("%%distribute --help\nprint('ran')", "%distribute --help", "%distribute?"):
        cell = nb.ok(code)
        for option in ("--nproc", "--ranks", "--merge", "--into", "--gather", "--init", "--grace"):
            assert option in cell.shown, (code, option)
        assert "ran\n" not in cell.stdout


def test_the_cell_and_its_raw_text_are_in_the_history(nb):
    nb.ok("%%distribute -n 2\nremembered = 1")
    found = nb.request("history_request", {"hist_access_type": "tail", "n": 1, "raw": True, "output": False})
    assert found["history"][-1][2] == "%%distribute -n 2\nremembered = 1"
    assert "distribute" in nb.ok("In[-2]").value


def test_user_expressions_of_a_distributed_cell_are_homes(nb):
    nb.ok("at_home = 5")
    cell = nb.ok("%%distribute -n 2\n1", user_expressions={"e": "at_home + 1"})
    assert cell.reply["user_expressions"]["e"]["data"]["text/plain"] == "6"


# -- torch.distributed


def test_init_makes_a_world_that_reduces(nb, torch):
    cell = nb.ok(
        "%%distribute -n 4 --init gloo --gather\nimport torch, torch.distributed as dist\n"
        "t = torch.tensor([dist.get_rank() + 1.0])\ndist.all_reduce(t)\nt.item()",
        limit=200,
    )
    assert cell.value == "[10.0, 10.0, 10.0, 10.0]"
    cell = nb.ok("%%distribute --gather\ndist.all_reduce(t)\nt.item()")  # once per world
    assert cell.value == "[40.0, 40.0, 40.0, 40.0]"


def test_init_process_group_without_arguments_works(nb, torch):
    cell = nb.ok(
        "%%distribute -n 3 --fresh --gather\nimport torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\nt = torch.ones(1)\ndist.all_reduce(t)\n"
        "dist.destroy_process_group()\nt.item()",
        limit=200,
    )
    assert cell.value == "[3.0, 3.0, 3.0]"


@pytest.mark.limit(400)
def test_init_works_again_after_the_world_changed(nb, torch):
    body = "import torch, torch.distributed as dist\nt = torch.ones(1)\ndist.all_reduce(t)\nt.item()"
    for n in (2, 4, 3):
        assert nb.ok("%%%%distribute -n %d --init\n%s" % (n, body), limit=100).value == str(float(n))


# -- the other magics


def test_ranks_shows_a_table(nb):
    pids = nb.rank_pids(2)
    cell = nb.ok("%ranks")
    assert all(str(pid) in cell.shown for pid in pids), cell.shown


def test_ranks_stop_ends_them_and_the_next_cell_starts_new_ones(nb):
    import processes

    before = nb.rank_pids(2)
    nb.ok("%%distribute -n 2\nforgotten = 1")
    nb.ok("%ranks stop")
    assert wait_until(lambda: not any(map(processes.alive, before)), 30)
    assert "False" in nb.ok("%%distribute -n 2\n'forgotten' in globals()").value


def test_ranks_restart_gives_new_processes(nb):
    before = nb.rank_pids(2)
    nb.ok("%ranks restart")
    after = nb.rank_pids(2)
    assert len(after) == 2 and not set(before) & set(after)


def test_magics_in_the_middle_of_a_cell_and_in_control_flow(nb):
    nb.ok("%%distribute -n 4\npass")
    nb.ok("x = 11\n%push x")
    assert nb.ok("%%distribute --no-capture --gather\nx").value == "[11, 11, 11, 11]"
    cell = nb.ok("for y in (1, 2):\n    %push y -r 0\n    %pull y -r 0 --into back\n    print('back', back)")
    assert cell.stdout.split() == ["back", "1", "back", "2"]


# -- Python


def test_run_gives_rank_0s_value(nb):
    nb.ok("import cellspan\ndef work(a, b=1):\n    import os\n    return a * b + int(os.environ['RANK'])")
    assert nb.ok("cellspan.run(work, 6, b=7, n=2)").value == "42"


def test_a_group_pushes_pulls_and_runs(nb):
    nb.ok("%%distribute -n 4\npass")
    nb.ok("import cellspan\ng = cellspan.group()\ng.push(a=1, b=[2])")
    assert nb.ok("g.pull('a')").value == "[1, 1, 1, 1]"
    assert nb.ok("g.size").value == "4"
    assert nb.ok("g.pull('b', ranks=1)").value == "[2]"
    nb.ok("def add(x):\n    return x + 1")
    assert nb.ok("g.run(add, 1)").value == "2"


def test_an_error_on_the_ranks_is_raised_in_python(nb):
    cell = nb.ok(
        "import cellspan\ndef bad():\n    raise ValueError('on purpose')\n"
        "try:\n    cellspan.run(bad, n=2)\nexcept Exception as e:\n    print('caught', e)"
    )
    assert "on purpose" in cell.stdout


# -- completion and inspection


@pytest.mark.parametrize(
    "code, wanted",
    [
        ("%%dist", "%%distribute"),
        ("%ran", "%ranks"),
        ("%%distribute --me", "--merge"),
        ("%%distribute --merge pre", "prefix"),
        ("%ranks re", "restart"),
    ],
)
def test_completion_knows_the_magics(nb, code, wanted):
    found = nb.request("complete_request", {"code": code, "cursor_pos": len(code)})
    done = [code[: found["cursor_start"]] + match + code[found["cursor_end"] :] for match in found["matches"]]
    assert any(text.rstrip().endswith(wanted) for text in done), found


def test_completion_in_the_body_is_pythons(nb):
    code = "%%distribute -n 2\nenumer"
    found = nb.request("complete_request", {"code": code, "cursor_pos": len(code)})
    assert "enumerate" in found["matches"]
    assert code[found["cursor_start"] : found["cursor_end"]] == "enumer"


def test_inspection_shows_the_options(nb):
    for code in ("%%distribute", "%distribute"):
        found = nb.request("inspect_request", {"code": code, "cursor_pos": 5, "detail_level": 0})
        assert found["found"] and "--merge" in found["data"]["text/plain"]


# -- what is imported beforehand


@pytest.mark.parametrize("setting, there", [("-torch", True), ("-torch,-numpy", False)])
def test_numpy_is_imported_beforehand_on_ranks_and_at_home_or_on_neither(fresh, setting, there):
    notebook = fresh(env={"CELLSPAN_PRELOAD": setting})
    has = "'numpy' in __import__('sys').modules"
    assert notebook.ok("%%distribute -n 1\n" + has).value == notebook.ok(has).value == str(there)
