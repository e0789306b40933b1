# SPDX-License-Identifier: BSD-3-Clause
"""Widgets of ranks, from a client that speaks the messages of a page."""

from __future__ import annotations

import time

import pytest
from packages import needs
from processes import wait_until

needs("ipywidgets")
VIEW = "application/vnd.jupyter.widget-view+json"
RANK = "import cellspan\nrank = cellspan.rank()\n"
SLIDERS = """%%distribute -n {n}
import cellspan
rank = cellspan.rank()
import ipywidgets, time
from IPython.display import display
slider = ipywidgets.IntSlider(value=3, description=f'of {{rank}}')
moves = []
def moved(change):
    moves.append(change['new'])
    print('moved to', change['new'])
slider.observe(moved, 'value')
display(slider)
"""


def opened(cell, **values):
    """The ids of the comms that the cell has opened with these values, in order."""
    found = []
    for message in cell.of("comm_open"):
        state = message["content"]["data"]["state"]
        if all(state.get(name) == value for name, value in values.items()):
            found.append(message["content"]["comm_id"])
    return found


def state(cell, comm):
    """The values that messages of the cell have set."""
    values = {}
    for message in cell.messages:
        if message["msg_type"] in ("comm_open", "comm_msg") and message["content"]["comm_id"] == comm:
            values.update(message["content"]["data"].get("state") or {})
    return values


def move(nb, comm, **values):
    """What a page sends when a widget is moved; waits until the kernel is idle again."""
    sent = nb.send("comm_msg", {"comm_id": comm, "data": {"method": "update", "state": values, "buffer_paths": []}})
    nb.until(lambda: sent.idle_at is not None)
    return sent


def ask_states(nb):
    """The answer to what JupyterLab asks when a page is opened: (states by id, seconds)."""
    nb.send("comm_open", {"comm_id": "control", "target_name": "jupyter.widget.control", "data": {}})
    began = time.monotonic()
    asked = nb.send("comm_msg", {"comm_id": "control", "data": {"method": "request_states"}})
    nb.until(lambda: asked.of("comm_msg") or asked.of("comm_close"))
    took = time.monotonic() - began
    nb.send("comm_close", {"comm_id": "control", "data": {}})
    return (asked.of("comm_msg")[0]["content"]["data"]["states"] if asked.of("comm_msg") else None), took


def test_a_slider_of_a_rank_is_moved_by_the_page_and_its_callback_runs_there(nb):
    cell = nb.ok(SLIDERS.format(n=4))
    comm, = opened(cell, description="of 2")
    assert {"version_major": 2, "version_minor": 0, "model_id": comm} in [d.get(VIEW) for d in cell.displays]
    sent = move(nb, comm, value=8)
    assert "[2] moved to 8" in sent.stdout and "moved" not in cell.stdout
    assert nb.ok("%%distribute\nprint(rank, slider.value, moves)").stdout.splitlines().count("[2] 2 8 [8]") == 1
    assert "0 3 []" in nb.ok("%%distribute -r 0\nprint(rank, slider.value, moves)").stdout


def test_two_clients_move_the_widgets_of_ranks(nb):
    cell = nb.ok(SLIDERS.format(n=2))
    one, two = (opened(cell, description="of %d" % rank)[0] for rank in range(2))
    other = nb.second_client()
    try:
        assert ask_states(other)[0][two]["state"]["value"] == 3
        assert "[1] moved to 8" in move(other, two, value=8).stdout
        assert "[1] moved to 9" in move(nb, two, value=9).stdout
        assert "[0] moved to 5" in move(other, one, value=5).stdout
        assert {comm: ask_states(nb)[0][comm]["state"]["value"] for comm in (one, two)} == {one: 5, two: 9}
        nb.ok("%%distribute\nslider.value = 20 + rank")  # both pages hear of it
        assert other.until(lambda: [m for m in other.strays if m["msg_type"] == "comm_msg" and m["content"]["data"].get("state", {}).get("value") == 21])
    finally:
        other.close()
    assert "[0] moved to 6" in move(nb, one, value=6).stdout


def test_pages_learn_the_state_of_all_widgets_though_ranks_and_home_are_busy(nb, gate):
    at_home = nb.ok("import ipywidgets\nhere = ipywidgets.IntSlider(value=1, description='home')\ndisplay(here)")
    cell = nb.ok(SLIDERS.format(n=2))
    comm, = opened(cell, description="of 1")
    busy = nb.start("%%distribute\nslider.value = 40 + rank\nprint('go')\n" + gate.code)
    nb.wait(busy, until=lambda: busy.stdout.count("go"))
    nb.wait(busy, until=lambda: len(busy.of("comm_msg")) >= 2)
    asked = []

    def soon():
        """On a busy machine one answer may be slow."""
        asked.append(ask_states(nb))
        return asked[-1][1] < 2

    assert wait_until(soon, 30), [took for _, took in asked]
    states = asked[-1][0]
    assert states[comm]["state"]["value"] == 41 and states[comm]["model_name"] == "IntSliderModel"
    assert states[opened(at_home, description="home")[0]]["state"]["value"] == 1
    info = nb.request("comm_info_request", {"target_name": "jupyter.widget"})["comms"]
    assert set(states) == set(info)
    gate.open()
    nb.wait(busy).assert_ok()
    nb.ok("%%distribute -r 1\nslider.close()")
    assert comm not in ask_states(nb)[0]


def test_callbacks_run_while_the_cell_of_the_rank_awaits(nb):
    cell = nb.start(f"%%distribute -n 2\n{RANK}import asyncio, ipywidgets\nw = ipywidgets.IntText(description='await %d' % rank)\n"
                    "got = asyncio.get_running_loop().create_future()\nw.observe(lambda c: got.set_result(c['new']), 'value')\n"
                    "print('got', await asyncio.wait_for(got, 60) if rank == 1 else 0)")
    nb.wait(cell, until=lambda: opened(cell, description="await 1"))
    move(nb, opened(cell, description="await 1")[0], value=7)
    assert "[1] got 7" in nb.wait(cell).assert_ok().stdout


def test_one_of_four_ranks_captures_into_its_output(nb):
    cell = nb.ok(f"%%distribute -n 4\n{RANK}import ipywidgets, sys\nfrom IPython.display import display, HTML\nout = ipywidgets.Output()\ndisplay(out)\n"
                 "import contextlib\nwith out if rank == 2 else contextlib.nullcontext():\n"
                 "    print('hidden' if rank == 2 else 'seen')\n    if rank == 2:\n        display(HTML('<b>x</b>'))\n        1 / 0\nprint('after')")
    assert "hidden" not in cell.stdout and cell.stdout.count("seen") >= 1 and "after" in cell.stdout
    full = [message["content"]["comm_id"] for message in cell.of("comm_msg") if message["content"]["data"]["state"].get("outputs")]
    outputs = state(cell, full[0])["outputs"]
    assert [o["output_type"] for o in outputs] == ["stream", "display_data", "error"]
    assert outputs[0]["text"] == "hidden\n" and outputs[2]["ename"] == "ZeroDivisionError" and len(set(full)) == 1
    assert not state(cell, full[0]).get("msg_id")
    flood = nb.ok("%%distribute -r 2\nwith out:\n    for i in range(100_000):\n        print('line', i)")
    text = state(flood, full[0])["outputs"][-1]["text"]
    assert text.endswith("line 99999\n") and text.count("the middle is left out") == 1 and len(text) < 300_000
    nb.ok("%%distribute -r 2\nout.clear_output()\nwith out:\n    print('anew')\nassert len(out.outputs) == 1, out.outputs")


def test_streams_of_a_rank_are_whole_in_an_output_and_after_it(nb):
    nb.ok("%%distribute -n 4\nimport ipywidgets, subprocess, sys\nbefore, out = (sys.stdout, sys.stderr), ipywidgets.Output()\n"
          "with out:\n    print(1)\n    held = sys.stdout\n    assert held.encoding.lower() == 'utf-8' and held.fileno() == before[0].fileno()\n"
          "assert (sys.stdout, sys.stderr) == before and held.errors == before[0].errors")
    assert "a command" in nb.ok("%%distribute\nsubprocess.run(['echo', 'a command'], stdout=sys.stdout, check=True)").stdout


def test_interact_on_ranks_shows_what_the_slider_gives_in_its_output(nb):
    cell = nb.ok(f"%%distribute -n 2\n{RANK}from ipywidgets import interact\ndef f(x=(0, 10)):\n    print('x of', rank, 'is', x)\nshown = interact(f)")
    assert "x of" not in cell.stdout
    sliders = opened(cell, _model_name="IntSliderModel")
    outputs = opened(cell, _model_name="OutputModel")
    assert len(sliders) == len(outputs) == 2
    texts = []
    for slider in sliders:
        moved = move(nb, slider, value=7)
        texts += [o["text"] for comm in outputs for o in state(moved, comm).get("outputs", ())]
    assert sorted(set(texts)) == ["x of 0 is 7\n", "x of 1 is 7\n"], texts


def test_a_rank_that_dies_closes_its_widgets_with_a_word(nb):
    cell = nb.ok(SLIDERS.format(n=2))
    comm, = opened(cell, description="of 1")
    died = nb.run("%%distribute -r 1\nslider.value = 9\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)").assert_error("RankDied")
    assert [m["content"]["comm_id"] for m in died.of("comm_close") if m["content"]["comm_id"] == comm] == [comm]
    told = [m["content"]["data"]["text/plain"] for m in died.of("update_display_data") if "slider" not in str(m)]
    assert "of 1 9 (rank 1 has ended)" in told, told
    assert "the widgets of rank 1 are closed" in died.stderr
    assert comm not in nb.request("comm_info_request", {})["comms"]
    assert move(nb, opened(cell, description="of 0")[0], value=5).stdout.endswith("moved to 5\n")


def test_widgets_end_with_the_group_and_new_ranks_have_new_ones(nb):
    first = opened(nb.ok(SLIDERS.format(n=2)), _model_name="IntSliderModel")
    stopped = nb.ok("%ranks stop")
    nb.until(lambda: {m["content"]["comm_id"] for m in stopped.of("comm_close")} >= set(first))  # at a rate
    second = opened(nb.ok(SLIDERS.format(n=2)), _model_name="IntSliderModel")
    assert len(second) == 2 and not set(first) & set(second)
    assert set(first) & set(ask_states(nb)[0]) == set()


def test_a_flood_of_updates_is_merged_and_nothing_else_is(nb):
    cell = nb.ok(f"%%distribute -n 4\n{RANK}import ipywidgets\nbar = ipywidgets.FloatProgress(max=20000, description='flood %d' % rank)\n"
                 "for i in range(5000):\n    bar.value = i + 1\n    if i % 1000 == 0:\n        bar.send({'custom': i})\nbar.description = 'done'")
    bars = opened(cell, _model_name="FloatProgressModel")
    for bar in bars:
        messages = [m["content"]["data"] for m in cell.of("comm_msg") if m["content"]["comm_id"] == bar]
        assert [m["content"]["custom"] for m in messages if m["method"] == "custom"] == [0, 1000, 2000, 3000, 4000]
        values = [m["state"]["value"] for m in messages if m["method"] == "update" and "value" in m["state"]]
        assert values == sorted(values) and values[-1] == 5000
        assert state(cell, bar)["description"] == "done"
        at = [k for k, m in enumerate(messages) if m["method"] == "custom"]
        for k, custom in zip(at, range(0, 5000, 1000)):
            before = [m["state"]["value"] for m in messages[:k] if m["method"] == "update" and "value" in m["state"]]
            assert before[-1] == custom + 1
    assert len(cell.of("comm_msg")) < 10_000


def test_a_callback_that_raises_shows_its_error_with_its_rank(nb):
    cell = nb.ok(f"%%distribute -n 2\n{RANK}import ipywidgets\nw = ipywidgets.IntText(description='raises %d' % rank)\n"
                 "def bad(change):\n    1 / 0\nw.observe(bad, 'value')")
    moved = move(nb, opened(cell, description="raises 1")[0], value=1)
    error, = moved.of("error")
    assert "_worker" not in "".join(error["content"]["traceback"][1:])  # no line of ours
    assert error["content"]["ename"] == "ZeroDivisionError" and "rank 1" in error["content"]["traceback"][0]
    assert "still here" in nb.ok("%%distribute\nprint('still here')").stdout


def test_a_callback_that_hangs_does_not_keep_the_next_cell(nb):
    cell = nb.ok(f"%%distribute -n 2\n{RANK}import ipywidgets, time\nw = ipywidgets.IntText(description='hangs %d' % rank)\n"
                 "def bad(change):\n    while True:\n        time.sleep(1)\nw.observe(bad, 'value')")
    nb.send("comm_msg", {"comm_id": opened(cell, description="hangs 1")[0],
                         "data": {"method": "update", "state": {"value": 1}, "buffer_paths": []}})
    after = nb.ok("%%distribute\nprint('runs')")
    assert "callback has run for" in after.stderr and "on rank 1" in after.stderr and "runs" in after.stdout


def test_a_callback_that_hangs_ends_by_an_interrupt(nb):
    cell = nb.ok(f"%%distribute -n 2\n{RANK}import ipywidgets, time\nw = ipywidgets.IntText(description='hangs %d' % rank)\n"
                 "def bad(change):\n    print('in it')\n    while True:\n        time.sleep(1)\nw.observe(bad, 'value')")
    sent = nb.send("comm_msg", {"comm_id": opened(cell, description="hangs 0")[0],
                                "data": {"method": "update", "state": {"value": 1}, "buffer_paths": []}})
    nb.until(lambda: "in it" in sent.stdout)
    nb.control("interrupt_request")
    nb.until(lambda: sent.idle_at is not None)
    assert sent.of("error")[0]["content"]["ename"] == "KeyboardInterrupt"


def test_a_callback_that_prints_without_end_is_cut_off(nb):
    cell = nb.ok(f"%%distribute -n 2\n{RANK}import ipywidgets\nw = ipywidgets.IntText(description='prints %d' % rank)\n"
                 "def bad(change):\n    while True:\n        print('x' * 100)\nw.observe(bad, 'value')")
    sent = nb.send("comm_msg", {"comm_id": opened(cell, description="prints 1")[0],
                                "data": {"method": "update", "state": {"value": 1}, "buffer_paths": []}})
    nb.until(lambda: "is left out" in sent.stderr)
    assert "runs" in nb.ok("%%distribute\nprint('runs')").stdout
    assert len(sent.stdout) < 1 << 20


def test_numbers_beyond_64_bits_do_not_lose_a_widget(nb):
    cell = nb.ok("%%distribute -n 1\nimport ipywidgets, traitlets\nclass Big(ipywidgets.IntText):\n"
                 "    big = traitlets.Any(2**70).tag(sync=True)\nbig = Big(value=6, description='big')")
    comm, = opened(cell, description="big")
    move(nb, comm, value=7)
    assert nb.ok("%%distribute -r 0\nprint(big.value, big.big == 2**70)").stdout == "7 True\n"
    assert ask_states(nb)[0][comm]["state"]["big"] == 2**70


def test_a_closed_widget_of_a_rank_is_text(nb):
    cell = nb.ok(f"%%distribute -n 1\n{RANK}import ipywidgets\nfrom IPython.display import display\nw = ipywidgets.IntText(value=6)\nw.close()\ndisplay(w)\nw")
    assert all(VIEW not in m["content"].get("data", {}) for m in cell.messages)


def test_tqdm_of_eight_ranks_ends_whole(nb):
    cell = nb.ok("%%distribute -n 8\nfrom tqdm.notebook import tqdm\nfor i in tqdm(range(500), desc='epoch'):\n    pass")
    bars = opened(cell, _model_name="FloatProgressModel")
    assert len(bars) == 8 and len([d for d in cell.displays if VIEW in d]) == 8
    assert {(state(cell, bar)["value"], state(cell, bar)["bar_style"]) for bar in bars} == {(500, "success")}
    gone = nb.ok("%%distribute --fresh\nprint('new')")
    texts = [m["content"]["data"]["text/plain"] for m in gone.of("update_display_data")]
    texts = [text for text in texts if "epoch" in text]
    assert len(texts) == 8 and all("500/500" in text and "has ended)" in text for text in texts), texts


def custom(nb, comm, **content):
    """A widget's own message, as its part of the page sends it."""
    sent = nb.send("comm_msg", {"comm_id": comm, "data": {"method": "custom", "content": content}})
    nb.until(lambda: sent.idle_at is not None)
    return sent


def test_a_figure_of_ipympl_on_a_rank_is_drawn_and_zoomed(nb):
    needs("ipympl")
    cell = nb.ok("%%distribute -n 2\n%matplotlib widget\nimport matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 3, 2])\nplt.show()")
    canvas = opened(cell, _model_name="MPLCanvasModel")
    assert len(canvas) == 2
    custom(nb, canvas[1], type="send_image_mode")
    custom(nb, canvas[1], type="initialized")
    drawn = custom(nb, canvas[1], type="draw")
    picture, = [m for m in drawn.of("comm_msg") if m["buffers"]]
    assert bytes(picture["buffers"][0]).startswith(b"\x89PNG") and picture["content"]["comm_id"] == canvas[1]
    custom(nb, canvas[1], type="toolbar_button", name="zoom")
    for kind, x, y in (("button_press", 200, 200), ("motion_notify", 300, 300), ("button_release", 300, 300)):
        custom(nb, canvas[1], type=kind, x=x, y=y, button=0, buttons=1, step=0, modifiers=[], guiEvent={})
    limits = nb.ok("%%distribute -n 2\nprint([round(float(v), 2) for v in ax.get_xlim()])").stdout
    assert limits.count("[-0.1, 2.1]") == 1, limits


def test_an_anywidget_and_a_plotly_figure_of_ranks_are_alive(nb):
    needs("anywidget", "plotly")
    cell = nb.ok("%%distribute -n 2\nimport anywidget, cellspan, traitlets\nimport plotly.graph_objects as go\n"
                 "class Counter(anywidget.AnyWidget):\n    _esm = 'export default {render() {}}'\n    value = traitlets.Int(0).tag(sync=True)\n"
                 "    name = traitlets.Unicode(f'counter {cellspan.rank()}').tag(sync=True)\n"
                 "counter = Counter()\ndisplay(counter)\nfigure = go.FigureWidget(data=[go.Scatter(y=[1, 3, 2])])\ndisplay(figure)\n"
                 "figure.data[0].y = [4, 5, 6]")
    move(nb, opened(cell, name="counter 1")[0], value=3)
    assert "[1] 3" in nb.ok("%%distribute -n 2\nprint(counter.value)").stdout
    figures = [comm for comm in opened(cell, _model_name="FigureModel") or opened(cell, _model_name="AnyModel") if "_py2js_addTraces" in state(cell, comm)]
    told = [m["content"]["comm_id"] for m in cell.of("comm_msg") if m["content"]["data"].get("state", {}).get("_py2js_restyle")]
    assert len(figures) == 2 and set(told) == set(figures)
    many = nb.ok("%%distribute -n 2\nfor i in range(300):\n    figure.data[0].y = [i, i]")
    told = [m["content"]["comm_id"] for m in many.of("comm_msg") if m["content"]["data"].get("state", {}).get("_py2js_restyle")]
    assert sorted(map(told.count, figures)) == [300, 300]  # commands, which are reset to null at once, are not merged


def test_widgets_of_a_rank_stand_together_in_order_of_rank(nb):
    """A slider and an empty Output of each rank, and no label above an output that shows nothing."""
    nb.rank_pids(4)
    code = ("%%distribute -n 4\nimport cellspan, ipywidgets\nfrom IPython.display import display\n"
            "rank = cellspan.rank()\ndisplay(ipywidgets.IntSlider(description='of %d' % rank), ipywidgets.Output())\nprint('shown')")

    def in_order():
        """On a busy machine a rank may be so late that others don't wait for it."""
        cell = nb.ok(code)
        assert len([d for d in cell.displays if VIEW in d]) == 8
        return cell.stdout.splitlines() == ["[1]", "[2]", "[3]", "[0-3] shown"]

    assert wait_until(in_order, 100), nb.ok(code).shown
