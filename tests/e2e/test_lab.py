"""JupyterLab in a headless Chromium, used as a person would use it."""

from __future__ import annotations

import os
import pathlib
import re
import shutil

import nbformat
import pytest
from client import KERNEL, by_rank
from processes import wait_until
from servers import serving

webdriver = pytest.importorskip("selenium.webdriver")
pytest.importorskip("jupyterlab")
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
        return wait_until(lambda: "NameError" in lab.output(1), 20)

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
    lab.command("docmanager:save")
    again = lab.driver.current_url
    lab.driver.get("about:blank")
    lab.driver.get(again)
    assert wait_until(lambda: lab.all(".jp-Notebook .jp-CodeCell"), 100)
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
