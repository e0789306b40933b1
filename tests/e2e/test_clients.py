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
