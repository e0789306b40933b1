# SPDX-License-Identifier: BSD-3-Clause
"""JupyterLab in a headless Chromium, used as a person would use it."""

from __future__ import annotations

import os
import pathlib
import re
import shutil

import pytest
from client import KERNEL, by_rank
from packages import needs
from processes import wait_until
from servers import serving

webdriver = pytest.importorskip("selenium.webdriver")
needs("jupyterlab")
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver") or next(
    (path for path in ("/usr/lib/chromium/chromedriver",) if os.path.exists(path)), None
)
pytestmark = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium with its driver here"),
    pytest.mark.limit(500),
    pytest.mark.clients,
]
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1280,1600"
).split()

CELLS = [
    "import os\nprint('home is ' + 'ready')",
    "%%distribute -n 4\nimport os, time\nrank = int(os.environ['RANK'])\nprint('all print this')\n"
    "print('loss', (rank + 1) / 8)\nsum(range(10))",
    "%%distribute\nif rank == 0:\n    import matplotlib.pyplot as plt\n    plt.plot([1, 3, 2])\n    plt.show()",
    "_ + 1 if isinstance(_, int) else 'no result came home'",
]


class Lab:
    """One notebook, open in a browser."""

    def __init__(self, driver, url):
        self.driver = driver
        self.driver.get(url)
        assert wait_until(lambda: self.all(".jp-Notebook .jp-CodeCell"), 100), "no notebook appeared"
        assert wait_until(self.ready, 100), "the kernel is not idle"

    def ready(self):
        """Whether the page is connected to an idle kernel: what is run earlier is dropped by the page."""
        return self.driver.execute_script(
            "const panel = window.jupyterapp.shell.currentWidget;"
            "const kernel = panel && panel.sessionContext && panel.sessionContext.session && panel.sessionContext.session.kernel;"
            "return Boolean(kernel && panel.sessionContext.isReady && kernel.connectionStatus == 'connected' && kernel.status == 'idle')"
        )

    def all(self, css, within=None):
        try:
            return [e for e in (within or self.driver).find_elements(By.CSS_SELECTOR, css) if e.is_displayed()]
        except StaleElementReferenceException:
            return []

    def cell(self, n):
        return self.driver.find_elements(By.CSS_SELECTOR, ".jp-Notebook .jp-Cell")[n]

    def command(self, name):
        """What a menu entry or a button of that command does; does not wait for it."""
        self.driver.execute_script("window.jupyterapp.commands.execute(arguments[0]); return null", name)

    def button(self, command):
        # The button's name in the page is the command's, in a part of it or whole, by Lab's version.
        for css in ('.jp-NotebookPanel-toolbar [data-command="%s"]' % command, '[data-jp-item-name="%s"] jp-button' % command):
            for element in self.all(css):
                element.click()
                return
        raise AssertionError("no button for " + command)

    def output(self, n):
        """The text under a cell; a picture is «image»."""
        try:
            cell = self.cell(n)
            text = "\n".join(e.text for e in self.all(".jp-OutputArea-output", cell))
            return text + "«image»" * len(self.all(".jp-RenderedImage img", cell))
        except (StaleElementReferenceException, IndexError):
            return ""

    def seen(self, n):
        """The texts under a cell as they stand on the page, from the top."""
        outputs = [(e.rect["y"], e.text) for e in self.all(".jp-OutputArea-output", self.cell(n))]
        return [text for _, text in sorted(outputs)]

    def prompt(self, n):
        try:
            return "".join(e.text for e in self.all(".jp-InputArea-prompt", self.cell(n)))
        except (StaleElementReferenceException, IndexError):
            return ""

    def wait_output(self, n, pattern, limit=100):
        assert wait_until(lambda: re.search(pattern, self.output(n)), limit), (pattern, self.output(n), self.prompt(n))
        return self.output(n)

    def type(self, n, text):
        """Clicks into a cell, empties it and fills it."""
        editor = self.cell(n).find_element(By.CSS_SELECTOR, ".cm-content")
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", editor)
        ActionChains(self.driver).move_to_element(editor).click().perform()
        self.chord(Keys.CONTROL, "a")
        self.keys(Keys.DELETE)
        # Pasted whole, as typing would have the editor add indents and closing brackets.
        self.driver.execute_cdp_cmd("Input.insertText", {"text": text})

    def keys(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def complete(self, wanted):
        """Presses Tab until `wanted` is offered or written; a page drops what comes later than a second after Tab, so
        that on a busy machine a person presses it again."""

        def there():
            offers = [e.text for e in self.all(".jp-Completer-match")]
            return any(wanted in text for text in offers + [e.text for e in self.all(".jp-mod-focused .cm-content")])

        assert wait_until(lambda: self.all(".jp-mod-completer-enabled"), 30), "the page offers no completion here"
        for _ in range(12):
            self.keys(Keys.TAB)
            if wait_until(there, 3):
                return
        raise AssertionError("%s was not offered" % wanted)

    def chord(self, modifier, key):
        ActionChains(self.driver).key_down(modifier).send_keys(key).key_up(modifier).perform()

    def run(self, n, text):
        """Types into a cell and runs it."""
        self.type(n, text)
        self.chord(Keys.CONTROL, Keys.ENTER)

    def open_again(self):
        """Saves the notebook, closes the page and opens it again."""
        def saved():
            """The command does nothing while the page saves by itself, and leaving the page would end that."""
            self.command("docmanager:save")
            return not self.driver.execute_script("return window.jupyterapp.shell.currentWidget.context.model.dirty")
        assert wait_until(saved, 100), "the notebook could not be saved"
        again = self.driver.current_url
        self.driver.get("about:blank")
        self.driver.get(again)
        assert wait_until(lambda: self.all(".jp-Notebook .jp-CodeCell"), 100), "no notebook appeared"

    def debug(self, text, line):
        """Runs the text in the first cell, with a breakpoint on that line."""
        self.type(0, text)
        self.break_at(0, line)
        self.driver.execute_script("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0")
        self.command("notebook:run-cell")

    def break_at(self, n, line):
        """Switches the debugger on, and clicks left of that line of a cell."""
        def on():
            """A click does nothing until the page knows that the kernel has a debugger."""
            button = self.driver.find_element(By.CSS_SELECTOR, ".jp-DebuggerBugButton, [data-jp-item-name='debugger-icon'] jp-button")
            if button.get_attribute("aria-pressed") != "true":
                button.click()
            return wait_until(lambda: self.cell(n).find_elements(By.CSS_SELECTOR, ".cm-breakpoint-gutter"), 5)

        assert wait_until(on, 100), "the debugger is not on"
        gutter = self.cell(n).find_element(By.CSS_SELECTOR, ".cm-breakpoint-gutter").rect
        row = next(e for e in self.all(".cm-lineNumbers .cm-gutterElement", self.cell(n)) if e.text == str(line)).rect
        actions = ActionChains(self.driver)
        actions.w3c_actions.pointer_action.move_to_location(int(gutter["x"] + gutter["width"] / 2), int(row["y"] + row["height"] / 2))
        actions.w3c_actions.pointer_action.click()
        actions.perform()
        assert wait_until(lambda: self.all(".jp-DebuggerBreakpoint"), 60), "no breakpoint is set"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A JupyterLab server of its own: (URL, folder)."""
    folder = tmp_path_factory.mktemp("lab")
    with serving(folder) as url:
        yield url, folder


def browser(folder):
    """A Chromium, driven; its profile is in the folder."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS + ["--user-data-dir=%s" % (folder / "browser")]:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    driver.set_script_timeout(60)
    # Some Chromiums give a headless page no focus, and to Lab a notebook without it is not the current one.
    driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
    return driver


@pytest.fixture
def lab(server, tmp_path):
    """Opens a notebook with CELLS in a new browser."""
    import nbformat

    url, folder = server
    driver = browser(tmp_path)
    name = "%s.ipynb" % tmp_path.name
    try:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS])
        notebook.metadata["kernelspec"] = {"name": KERNEL, "display_name": "Python (cellspan)", "language": "python"}
        nbformat.write(notebook, str(folder / name))
        opened = Lab(driver, "%s/lab/workspaces/%s/tree/%s?reset" % (url, tmp_path.name, name))
        yield opened
    finally:
        shots = pathlib.Path(os.environ.get("CELLSPAN_TEST_SCREENSHOTS", tmp_path))
        shots.mkdir(parents=True, exist_ok=True)
        try:
            driver.save_screenshot(str(shots / (tmp_path.name + ".png")))
        except WebDriverException:
            pass
        driver.quit()


def test_run_all_shows_merged_lines_a_figure_and_the_result(lab):
    lab.command("runmenu:run-all")
    lab.wait_output(0, "home is ready")
    text = lab.wait_output(1, r"45")
    assert by_rank(text) == {rank: ["all print this", "loss %s" % ((rank + 1) / 8)] for rank in range(4)}
    lab.wait_output(2, "«image»")
    lab.wait_output(3, "46")


def test_the_interrupt_button_ends_a_distributed_cell_and_the_restart_button_gives_a_new_kernel(lab):
    lab.run(0, "%%distribute -n 2\nimport time\nprint('spin' + 'ning')\ntime.sleep(600)")
    lab.wait_output(0, r"spinning")
    assert "[*]" in lab.prompt(0)
    lab.button("notebook:interrupt-kernel")
    lab.wait_output(0, "KeyboardInterrupt")
    assert wait_until(lambda: "[*]" not in lab.prompt(0), 60)
    lab.run(1, "before_restart = 'known'; before_restart")
    lab.wait_output(1, "known")
    lab.button("notebook:restart-kernel")
    assert wait_until(lambda: lab.all(".jp-Dialog .jp-mod-accept"), 60)
    lab.all(".jp-Dialog .jp-mod-accept")[0].click()
    assert wait_until(lambda: not lab.all(".jp-Dialog"), 60)

    def forgotten():
        """Whether the kernel is a new one; the old one may still look idle, and answer."""
        assert wait_until(lab.ready, 100)
        lab.run(1, "before_restart")
        return wait_until(lambda: "NameError" in lab.output(1), 5)

    assert wait_until(forgotten, 100), lab.output(1)


def test_tab_completes_magics_and_names(lab):
    lab.run(0, "a_rather_long_name = 1; a_rather_long_sibling = 2; print('de' + 'fined')")
    lab.wait_output(0, "defined")

    lab.type(1, "")
    lab.keys("a_rather")
    lab.complete("a_rather_long_name")
    lab.keys(Keys.ESCAPE)
    lab.type(1, "")
    lab.keys("%%distribute --merge pr")
    lab.complete("prefix")


def test_an_input_box_asks_and_answers(lab):
    lab.run(0, "print('hello ' + input('your name? '))")
    assert wait_until(lambda: lab.all(".jp-Stdin-input"), 100)
    assert "your name?" in lab.cell(0).text
    box = lab.all(".jp-Stdin-input")[0]
    box.send_keys("Ada", Keys.ENTER)
    lab.wait_output(0, "hello Ada")


def test_a_page_that_is_opened_again_while_a_cell_runs_is_usable(lab, gate):
    lab.run(0, "print('be' + 'gun')\n" + gate.code)
    lab.wait_output(0, "begun")
    lab.open_again()
    assert wait_until(lambda: lab.all('.jp-Notebook-ExecutionIndicator[data-status="busy"]'), 60), "the page does not know that the kernel is busy"


def test_two_hundred_thousand_lines_of_ranks_do_not_make_the_server_drop_any(lab):
    lab.run(0, "%%distribute -n 4 --merge prefix\nfor i in range(50_000):\n    print('line', i, 'of', 'x' * 60)")
    lab.wait_output(0, r"line 49999 of x+", 300)
    text = lab.wait_output(0, r"lines are left out here")
    assert "rate exceeded" not in text and "line 0 of" in text
    lab.run(1, "%ranks logs -r 2")
    lab.wait_output(1, r"line 49999 of x+", 300)
    assert "rate exceeded" not in lab.output(1)


def test_the_status_of_a_long_cell_stands_above_its_lines(lab, gate):
    lab.run(0, "%%distribute -n 4\nprint('first ' + 'line')\n" + gate.code + "\nprint('last ' + 'line')\n'the ' + 'result'")
    lab.wait_output(0, r"ranks 0-3 running \d+:\d\d \(\S+\), as of 20")
    assert lab.seen(0)[0].startswith("ranks 0-3 running") and "first line" in lab.seen(0)[1], lab.seen(0)
    gate.open()
    lab.wait_output(0, r"ranks 0-3 done in \d+:\d\d")
    lab.wait_output(0, "the result")
    status, first, *_, last, result = lab.seen(0)
    assert status.startswith("ranks 0-3 done in") and "first line" in first and "last line" in last and "result" in result
    sizes = "return ['.cellspan-status', '.jp-OutputArea-output pre'].map(css => getComputedStyle(arguments[0].querySelector(css)).fontSize)"
    shown = lab.driver.execute_script(sizes, lab.cell(0))
    assert shown[0] == shown[1], shown


def slide(lab, n, keys):
    """Moves the first slider under a cell by keys."""
    assert wait_until(lambda: lab.all(".noUi-handle", lab.cell(n)), 100), lab.output(n)
    handle = lab.all(".noUi-handle", lab.cell(n))[0]
    lab.driver.execute_script("arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", handle)
    handle.send_keys(*keys)


def test_a_slider_of_a_rank_moves_also_after_the_page_is_opened_again_while_ranks_are_busy(lab, gate):
    lab.run(0, "%%distribute -n 3\nimport cellspan, ipywidgets\nrank = cellspan.rank()\nseen = []\n"
               "slider, echo = ipywidgets.IntSlider(value=3), ipywidgets.Label('nothing')\n"
               "def moved(change):\n    seen.append(change['new'])\n    echo.value = 'rank %d has %d' % (rank, change['new'])\n"
               "slider.observe(moved, 'value')\nif rank == 2:\n    display(ipywidgets.HBox([slider, echo]))")
    slide(lab, 0, [Keys.ARROW_RIGHT, Keys.ARROW_RIGHT])
    lab.wait_output(0, "rank 2 has 5")
    lab.run(1, "%%distribute -r 2\nprint('rank', rank, 'saw', seen[-1])")
    lab.wait_output(1, "rank 2 saw 5")
    lab.run(1, "%%distribute\nslider.value = 7\nprint('be' + 'gun')\n" + gate.code)
    lab.wait_output(1, "begun")
    lab.wait_output(0, "rank 2 has 7")
    lab.open_again()
    lab.wait_output(0, "rank 2 has 7")
    gate.open()
    assert wait_until(lab.ready, 100)
    slide(lab, 0, [Keys.ARROW_RIGHT])
    lab.wait_output(0, "rank 2 has 8")


def test_an_output_of_a_rank_and_tqdm_are_drawn_and_become_text_when_ranks_end(lab):
    lab.run(0, "%%distribute -n 2\nimport cellspan, ipywidgets\nfrom tqdm.notebook import tqdm\nrank = cellspan.rank()\n"
               "@ipywidgets.interact(x=(0, 10))\ndef square(x=4):\n    print('square', x * x, 'on', rank)\n"
               "for _ in tqdm(range(20), desc='bar'):\n    pass")
    lab.wait_output(0, "square 16 on 0")
    lab.wait_output(0, "square 16 on 1")
    assert wait_until(lambda: len(lab.all(".widget-hprogress", lab.cell(0))) == 2, 60)
    slide(lab, 0, [Keys.ARROW_RIGHT])
    lab.wait_output(0, r"square 25 on \d")
    lab.run(1, "%ranks stop")
    lab.wait_output(0, r"20/20.*\(rank 0 has ended\)")
    lab.wait_output(0, r"\(rank 1 has ended\)")
    assert not lab.all(".widget-hprogress", lab.cell(0))


def test_a_flood_of_widgets_and_lines_of_ranks_stays_below_the_servers_limits(lab):
    lab.run(0, "%%distribute -n 8\nimport cellspan, ipywidgets, time\nbar, out = ipywidgets.IntProgress(max=100_000), ipywidgets.Output()\n"
               "said = ipywidgets.Label()\ndisplay(ipywidgets.HBox([bar, said, out]))\nwith out:\n    for i in range(20_000):\n"
               "        bar.value, said.value = i + 1, 'step %d' % (i + 1)\n        if i % 1000 == 0:\n            print('line', i)\n"
               "for i in range(20_000):\n    print(cellspan.rank(), 'says', 'x' * 100)\nsaid.value = 'rank %d is at its end' % cellspan.rank()")
    for rank in range(8):
        lab.wait_output(0, "rank %d is at its end" % rank)
    assert wait_until(lambda: [e.text[-10:] for e in lab.all(".widget-output pre", lab.cell(0))] == ["line 19000"] * 8, 60)
    assert "exceeded" not in lab.output(0)


DEBUGGED = """%%distribute -n 3 --no-gpu
import os
rank = int(os.environ["RANK"])
double = 2 * rank
print("sum", double + 1)"""


def variables(lab):
    """What the debugger's panel shows of the rank that stands."""
    return "\n".join(e.text for e in lab.all(".jp-DebuggerVariables-body"))


def test_a_breakpoint_on_ranks_shows_the_chosen_ranks_variables(lab):
    needs("debugpy")
    lab.debug(DEBUGGED, 5)
    lab.wait_output(0, "ranks 0-2 at a breakpoint")
    assert wait_until(lambda: "double" in variables(lab), 60), variables(lab)
    lab.run(1, "%ranks debug -r 2")
    assert wait_until(lambda: re.search(r"rank\W+2\b", variables(lab)), 60), variables(lab)
    assert re.search(r"double\W+4\b", variables(lab)), variables(lab)
    lab.command("debugger:next")
    lab.wait_output(0, r"sum 5")

    def over():
        """The page shows the ranks that still stand one after the other."""
        if "[*]" in lab.prompt(0):
            lab.command("debugger:continue")
        return wait_until(lambda: "[*]" not in lab.prompt(0), 3)

    assert wait_until(over, 60), lab.output(0)
    text = lab.output(0)
    assert all("[%d] sum %d" % (rank, 2 * rank + 1) in text for rank in range(3)), text


def test_a_page_that_is_closed_at_a_breakpoint_is_opened_again(lab):
    needs("debugpy")
    lab.debug(DEBUGGED.replace("-n 3", "-n 8"), 5)
    lab.wait_output(0, "ranks 0-7 at a breakpoint")
    lab.open_again()
    # The new page shows a rank that stands, and lets all go on, one after the other.
    assert wait_until(lambda: re.search(r"double\W+\d+\b", variables(lab)), 60), variables(lab)

    def over():
        lab.command("debugger:continue")
        return wait_until(lambda: "double" not in variables(lab) and lab.ready(), 2)

    assert wait_until(over, 100), variables(lab)
    lab.run(1, "%%distribute\nprint('sum', double + 1)")
    lab.wait_output(1, r"\[7\] sum 15")


def test_a_subshell_console_runs_cells_while_the_notebooks_cell_runs(lab, gate):
    lab.run(0, "here = 'known to both'; print('be' + 'gun')\n" + gate.code + "print('al' + 'so', there)")
    lab.wait_output(0, "begun")
    lab.command("notebook:create-subshell-console")
    assert wait_until(lambda: lab.all(".jp-CodeConsole-promptCell .cm-content"), 60), "no console appeared"

    def shown():
        return "\n".join(e.text for e in lab.all(".jp-CodeConsole-content .jp-OutputArea-output"))

    def run(text):
        lab.all(".jp-CodeConsole-promptCell .cm-content")[0].click()
        lab.driver.execute_cdp_cmd("Input.insertText", {"text": text})
        lab.chord(Keys.SHIFT, Keys.ENTER)

    def is_shown(text):
        return wait_until(lambda: text in shown(), 60)

    # Its first cell may be typed before it is connected; the page drops that.
    assert wait_until(lambda: run("print('it is', here)") or wait_until(lambda: "it is known" in shown(), 5), 60), shown()
    run("there = 'made there'; print('in', __import__('threading').current_thread().name)")
    assert is_shown("in subshell-"), shown()
    run("%%distribute -n 2\nprint('on ranks of', here)")
    assert is_shown("on ranks of known to both"), shown()
    assert "[*]" in lab.prompt(0)
    gate.open()
    lab.wait_output(0, "also made there")
