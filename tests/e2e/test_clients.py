"""What clients and libraries that know ipykernel expect of a kernel, at home."""

from __future__ import annotations


def test_arguments_that_nobody_knows_are_ignored_with_a_warning(fresh, tmp_path):
    with open(tmp_path / "said", "w+") as said:
        nb = fresh(arguments=["--nothing=1", "x.py", "--IPKernelApp.exec_lines=['a = 1', 'b = 2']",
                              "--InteractiveShell.cache_size=7", "--ZMQInteractiveShell..x=1"], output=said)
        assert nb.ok("a, b, get_ipython().cache_size, 'CELLSPAN_IPYTHON_ARGS' in __import__('os').environ").value == (
            "(1, 2, 7, False)")
    text = (tmp_path / "said").read_text()
    assert "--nothing=1: unknown argument, ignored" in text and "x.py: unknown argument, ignored" in text


def test_an_error_that_is_shown_and_caught_does_not_fail_the_cell(nb):
    cell = nb.ok("try:\n    1 / 0\nexcept ZeroDivisionError:\n    get_ipython().showtraceback()\nprint('goes on')")
    assert "ZeroDivisionError" in cell.traceback and "goes on" in cell.stdout, cell.shown
    nb.run("try:\n    1 / 0\nexcept ZeroDivisionError:\n    get_ipython().showtraceback()\n[][1]").assert_error("IndexError")
    nb.run("class Odd:\n    def __repr__(self):\n        1 / 0\nOdd()").assert_error("ZeroDivisionError")
    cell = nb.ok("%%distribute -n 2\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    get_ipython().showtraceback()\n'on'")
    assert cell.value == "'on'" and "ZeroDivisionError" in cell.stderr, cell.shown


def test_the_magics_of_notebooks_are_there(nb, tmp_path):
    (tmp_path / "text.txt").write_text("what it says\n")
    for name in ("less", "more"):
        page = nb.ok("%%%s %s" % (name, tmp_path / "text.txt")).payloads[0]
        assert page["source"] == "page" and page["data"]["text/plain"] == "what it says\n"
    nb.run("%less /no/such/file").assert_error("UsageError")
    edited = nb.ok("%%edit %s" % (tmp_path / "text.txt")).payloads[0]
    assert edited["source"] == "edit_magic" and edited["filename"] == str(tmp_path / "text.txt")
    assert nb.km.connection_file in nb.ok("%connect_info").stdout
    assert "clear_output" in nb.ok("print(1)\n%clear").kinds
    assert "page" in nb.ok("%autosave 120").stdout
    assert nb.run("%man no-such-page-anywhere").ename == "UsageError"


def test_messages_of_a_library_go_out_by_the_kernels_session(nb):
    cell = nb.ok("k = get_ipython().kernel\n"
                 "for kind, text in (('display_data', 'a'), ('update_display_data', 'b')):\n"
                 "    content = {'data': {'text/plain': text}, 'metadata': {}, 'transient': {'display_id': 'one'}}\n"
                 "    k.session.send(k.iopub_socket, kind, content, parent=get_ipython().parent_header)")
    assert [d["text/plain"] for d in cell.displays] == ["b"], cell.shown
    assert cell.kinds.count("display_data") == 1


def test_what_nobody_answers_is_refused_at_once(nb):
    for kind in ("create_subshell_request", "debug_request"):
        reply = nb.control(kind)
        assert reply["status"] == "error" and kind in reply["evalue"], reply


def test_debug_after_an_error_on_ranks_says_where_it_works(nb):
    nb.run("1 / 0").assert_error("ZeroDivisionError")
    nb.run("%%distribute -n 2\nraise ValueError('on ranks')").assert_error("ValueError")
    cell = nb.run("%debug", answer="q").assert_error("UsageError")
    assert "ranks" in cell.shown and "breakpoint()" in cell.shown and not cell.prompts, cell.shown
    assert nb.ok("%debug", answer="q").prompts
