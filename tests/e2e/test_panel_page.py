# SPDX-License-Identifier: BSD-3-Clause
"""The tabs of --merge panel in JupyterLab: the choice, the keyboard, widths, themes, and pages without style."""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from client import KERNEL
from processes import wait_until
from servers import serving
from test_lab import By, Keys, Lab, browser, pytestmark  # noqa: F401

PANEL = "%%%%distribute -n %d --merge panel\nimport cellspan, sys, time\nrank = cellspan.rank()\n"
BUTTONS = ".cellspan-tabs input"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A server with a notebook of one cell, and a browser: (driver, URL of the notebook, its file)."""
    import nbformat

    folder = tmp_path_factory.mktemp("panel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])
    notebook.metadata["kernelspec"] = {"name": KERNEL, "display_name": "Python (cellspan)", "language": "python"}
    nbformat.write(notebook, str(folder / "panel.ipynb"))
    with serving(folder) as url:
        driver = browser(folder)
        try:
            yield driver, url + "/lab/workspaces/panel/tree/panel.ipynb?reset", folder / "panel.ipynb"
        finally:
            driver.quit()


@pytest.fixture
def lab(opened, gate):
    """The notebook in a page, with its kernel, and without outputs."""
    lab = Lab(*opened[:2])
    lab.command("notebook:clear-all-cell-outputs")
    assert wait_until(lambda: not buttons(lab), 30)
    yield lab
    gate.open()
    if lab.driver.current_url.startswith("http"):
        saved(lab)  # else the browser would ask whether to leave


def saved(lab):
    """Saves, and waits until it is done."""
    lab.command("docmanager:save")
    dirty = "const p = window.jupyterapp.shell.currentWidget; return Boolean(p && p.context && p.context.model.dirty)"
    assert wait_until(lambda: not lab.driver.execute_script(dirty), 60)


def buttons(lab, n=0):
    return lab.cell(n).find_elements(By.CSS_SELECTOR, BUTTONS)


def chosen(lab, n=0):
    """The names of the chosen tabs of a cell: one for each view of it."""
    return [label.text for label in lab.all(".cellspan-tabs label:has(:checked)", lab.cell(n))]


def focused(lab):
    return lab.driver.execute_script("const e = document.activeElement; return e.closest('.cellspan-tabs') ? e.parentElement.textContent : null")


def texts(lab, n=0, within=None):
    """The bodies that are to be seen, at one moment: an update may replace them."""
    script = (
        "return [...arguments[0].querySelectorAll(\"[class*='-b ']:has(> .cellspan-says)\")]"
        ".filter(e => e.offsetParent !== null).map(e => e.innerText)"
    )
    return lab.driver.execute_script(script, within or lab.cell(n))


def text(lab, n=0):
    """The only body that is to be seen."""
    seen = texts(lab, n)
    return seen[0] if len(seen) == 1 else ""


def picture(lab, name):
    """For people, where they want to look at it."""
    folder = os.environ.get("CELLSPAN_TEST_SCREENSHOTS")
    if folder:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        lab.driver.save_screenshot(os.path.join(folder, "panel-%s.png" % name))


def begin(lab, code, ranks=4):
    """Runs a cell with tabs, and waits for them."""
    lab.run(0, PANEL % ranks + code)
    assert wait_until(lambda: len(buttons(lab)) == ranks + 1 and texts(lab), 100), lab.output(0)


def wait_text(lab, part, limit=60):
    """Waits until one body is shown and has that part."""
    assert wait_until(lambda: part in text(lab), limit), (part, texts(lab))


def test_the_choice_and_the_focus_survive_updates(lab, gate):
    begin(lab, "print('begun', rank)\n" + gate.code.replace("(0.02)", "(0.2); print('tick of', rank)") + "\nprint('the end of', rank)")
    wait_text(lab, "begun 3")
    assert chosen(lab) == ["All"]
    wait_text(lab, "All ranks 0-3 running")
    buttons(lab)[3].click()
    wait_text(lab, "begun 2")
    wait_text(lab, "rank 2 running")
    assert "begun 1" not in text(lab)
    before = text(lab).count("tick")
    assert wait_until(lambda: text(lab).count("tick") > before + 5, 60), "no update came"
    assert chosen(lab) == ["2"] and focused(lab) == "2"
    gate.open()
    wait_text(lab, "the end of 2")
    assert chosen(lab) == ["2"] and focused(lab) == "2" and text(lab).startswith("rank 2 done")


def test_the_keyboard_chooses(lab, gate):
    begin(lab, "print('lines of', rank)\n" + gate.code)
    buttons(lab)[0].click()
    for key, want in ((Keys.ARROW_RIGHT, "0"), (Keys.ARROW_DOWN, "1"), (Keys.ARROW_RIGHT, "2"), (Keys.ARROW_LEFT, "1"), (Keys.ARROW_UP, "0"), (Keys.ARROW_LEFT, "All"), (Keys.ARROW_LEFT, "3")):
        lab.keys(key)
        assert wait_until(lambda: chosen(lab) == [want], 60) and focused(lab) == want, (want, chosen(lab), focused(lab))
    wait_text(lab, "lines of 3")
    url = lab.driver.current_url
    for key in (Keys.ENTER, Keys.SPACE, "d", "d", "x", "m"):  # JupyterLab's own keys cut cells and make them text
        lab.keys(key)
    assert chosen(lab) == ["3"] and lab.driver.current_url == url
    lab.keys(Keys.TAB)
    assert wait_until(lambda: focused(lab) is None, 60)
    lab.chord(Keys.SHIFT, Keys.TAB)
    assert wait_until(lambda: focused(lab) == "3", 60), "back to the chosen one"
    gate.open()


def test_two_views_of_a_cell_have_a_choice_each(lab):
    begin(lab, "print('lines of', rank)")
    wait_text(lab, "ranks 0-3 done")
    lab.command("notebook:create-output-view")
    assert wait_until(lambda: lab.all(".jp-LinkedOutputView " + BUTTONS) or lab.driver.find_elements(By.CSS_SELECTOR, ".jp-LinkedOutputView " + BUTTONS), 60)
    view = lab.driver.find_element(By.CSS_SELECTOR, ".jp-LinkedOutputView")
    view.find_elements(By.CSS_SELECTOR, BUTTONS)[2].click()
    assert wait_until(lambda: [t.split("\n")[0] for t in texts(lab, within=view)] == ["rank 1 done"], 60), texts(lab, within=view)
    picture(lab, "two-views")
    assert [t.split("\n")[0] for t in texts(lab)] == ["All ranks 0-3 done"], "the other view keeps its own"
    buttons(lab)[4].click()
    wait_text(lab, "lines of 3")
    assert [t.split("\n")[0] for t in texts(lab, within=view)] == ["rank 1 done"]


def test_displays_belong_to_the_tab_of_their_rank(lab):
    begin(
        lab,
        "from IPython.display import HTML, display\nprint('begun')\ndisplay(HTML('<i>own html of %d</i>' % rank))\n"
        "if rank == 2:\n    import matplotlib.pyplot as plt\n    plt.plot([1, 3, 2]); plt.show()\n'the result'",
    )
    lab.wait_output(0, "the result")

    def seen():
        shown = lab.output(0)
        return [n for n in range(4) if "own html of %d" % n in shown], "«image»" in shown, "the result" in shown

    assert wait_until(lambda: seen() == ([0, 1, 2, 3], True, True), 60), lab.output(0)
    picture(lab, "displays-all")
    for button, want in ((2, ([1], False, True)), (3, ([2], True, True)), (0, ([0, 1, 2, 3], True, True))):
        buttons(lab)[button].click()
        assert wait_until(lambda: seen() == want, 60), (button, lab.output(0))
        picture(lab, "displays-%d" % button)
    children = lab.cell(0).find_elements(By.CSS_SELECTOR, ".jp-OutputArea-child")  # the status of a slow cell is one, empty at the end
    hidden = [e for e in children if not e.is_displayed() and (e.get_attribute("textContent").strip() or e.find_elements(By.CSS_SELECTOR, "img"))]
    assert not hidden, "in All, all are shown"


def colour(lab, element):
    return lab.driver.execute_script("return getComputedStyle(arguments[0], '::before').backgroundColor", element)


def theme(lab, name):
    lab.driver.execute_script("window.jupyterapp.commands.execute('apputils:change-theme', {theme: arguments[0]}); return null", name)


@pytest.mark.limit(600)
def test_64_ranks_a_failed_one_dark_and_narrow(lab):
    begin(lab, "print('lines of', rank)\nassert rank != 17, 'seventeen'", ranks=64)
    lab.wait_output(0, "AssertionError", 200)
    assert wait_until(lambda: "rank 17 failed" in text(lab), 60)
    labels = lab.all(".cellspan-tabs label", lab.cell(0))
    bad, well = colour(lab, labels[18]), colour(lab, labels[17])
    assert len(labels) == 65 and bad != well and bad == colour(lab, labels[0]), "its colour comes from its state"
    picture(lab, "64-light")
    buttons(lab)[18].click()
    wait_text(lab, "rank 17 failed\nlines of 17")
    light = lab.driver.execute_script("return getComputedStyle(arguments[0]).color", labels[3])
    theme(lab, "JupyterLab Dark")
    assert wait_until(lambda: lab.driver.execute_script("return getComputedStyle(arguments[0]).color", labels[3]) != light, 60), "dark on dark"
    picture(lab, "64-dark")
    lab.driver.set_window_size(500, 900)
    area = lab.cell(0).find_element(By.CSS_SELECTOR, ".jp-OutputArea").rect
    assert wait_until(lambda: all(e.rect["x"] + e.rect["width"] <= area["x"] + area["width"] + 1 for e in labels), 60), "tabs wrap in a narrow window"
    assert chosen(lab) == ["17"]
    picture(lab, "64-narrow")
    theme(lab, "JupyterLab Light")
    assert wait_until(lambda: lab.driver.execute_script("return getComputedStyle(arguments[0]).color", labels[3]) == light, 60)


def test_a_page_that_does_not_trust_the_notebook_shows_all_texts_under_headings(lab, opened):
    import nbformat

    begin(lab, "print('lines of', rank, '<i>')\nfrom IPython.display import HTML, display\nif rank == 1: display(HTML('<i>own html</i>'))")
    wait_text(lab, "ranks 0-3 done")
    saved(lab)
    notebook = nbformat.read(str(opened[2]), 4)
    assert "ranks 0-3 done" in json.dumps(notebook.cells[0].outputs)
    notebook.cells[0].source = "# somebody else's"
    nbformat.write(notebook, str(opened[2].with_name("other.ipynb")))
    other = Lab(lab.driver, opened[1].replace("panel.ipynb", "other.ipynb"))
    assert wait_until(lambda: len(texts(other)) == 5, 60), other.output(0)
    heads = [shown.split("\n")[0] for shown in texts(other)]
    assert heads == ["All ranks 0-3 done"] + ["rank %d done" % r for r in range(4)]
    assert "lines of 2 <i>" in texts(other)[3] and not other.all(BUTTONS), "there is nothing to choose"
    assert "own html" in other.output(0)
    picture(other, "untrusted")


def test_a_page_that_nbconvert_makes_has_the_choice_too(lab, opened, tmp_path):
    from nbconvert import HTMLExporter

    begin(lab, "print('lines of', rank)")
    wait_text(lab, "ranks 0-3 done")
    saved(lab)
    page = tmp_path / "page.html"

    def look(clean):
        page.write_text(HTMLExporter(sanitize_html=clean).from_filename(str(opened[2]))[0])
        lab.driver.get("file://%s" % page)
        picture(lab, "nbconvert-%s" % ("clean" if clean else "plain"))
        return lab.driver.find_element(By.CSS_SELECTOR, "body")

    body = look(False)
    lab.driver.find_elements(By.CSS_SELECTOR, BUTTONS)[2].click()
    assert wait_until(lambda: [t.split("\n")[0] for t in texts(lab, within=body)] == ["rank 1 done"], 60)
    body = look(True)
    assert [t.split("\n")[0] for t in texts(lab, within=body)] == ["All ranks 0-3 done"] + ["rank %d done" % r for r in range(4)]
    assert "<label" not in body.text and "checked" not in body.text


def test_the_text_of_a_tab_has_the_size_of_other_output(lab):
    lab.run(0, PANEL % 2 + "print('line', rank)")
    assert wait_until(lambda: lab.ready() and lab.all(".cellspan-says ~ pre", lab.cell(0)), 60)
    sizes = lab.driver.execute_script(
        "return [...arguments[0].querySelectorAll('.cellspan-says ~ pre')].map(e => getComputedStyle(e).fontSize)", lab.cell(0))
    wanted = lab.driver.execute_script("return getComputedStyle(document.body).getPropertyValue('--jp-code-font-size').trim()")
    assert set(sizes) == {wanted}, sizes
