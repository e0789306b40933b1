# SPDX-License-Identifier: BSD-3-Clause
"""The report of tests/suites/run about other projects' test suites."""

import importlib.util
from pathlib import Path

import pytest

SUITES = Path(__file__).parents[2] / "suites"
spec = importlib.util.spec_from_file_location("judge", SUITES / "judge.py")
judge = importlib.util.module_from_spec(spec)
spec.loader.exec_module(judge)

README = """| nbclient | v1 | all | 1 of 4 |
| papermill | 2 | all | 1 of 1 |

| nbclient | `TestExecute.test_words` | fails | `other words` | why |
| nbclient | `TestExecute.test_luck` | may fail | `no luck` | why |
| papermill | `TestExecute.test_other` | fails | `x` | why |
"""
CASE = '<testcase classname="tests.test_client.TestExecute" name="%s">%s</testcase>'
WORDS = ("test_words", '<failure message="ValueError">assert: other words</failure>')
LUCK = ("test_luck", "")


def judged(folder, capsys, *cases):
    (folder / "README.md").write_text(README)
    (folder / "r.xml").write_text("<testsuites><testsuite>%s</testsuite></testsuites>" % "".join(CASE % case for case in cases))
    status = judge.main("nbclient", str(folder / "r.xml"), str(folder / "README.md"))
    return status, capsys.readouterr().out


def test_what_the_readme_names_fails_with_its_words(tmp_path, capsys):
    status, said = judged(tmp_path, capsys, ("test_fine", ""), WORDS, LUCK, ("test_gone", "<skipped/>"))
    assert status == 0 and "2 passed, 1 failed, 1 skipped" in said


def test_what_may_fail_may_pass_too(tmp_path, capsys):
    assert judged(tmp_path, capsys, ("test_fine", ""), WORDS, ("test_luck", '<failure message="no luck"/>'))[0] == 0


@pytest.mark.parametrize("cases, line", [
    ([("test_other", '<failure message="x"/>'), WORDS, LUCK], "FAILED TestExecute.test_other"),
    ([("test_words", '<failure message="Segmentation fault"/>'), LUCK], "FAILED TestExecute.test_words: not with the words of README.md: other words"),
    ([("test_words", ""), LUCK], "passed, though README.md says that it fails: TestExecute.test_words"),
    ([WORDS, ("test_fine", "")], "did not run, though README.md names it: TestExecute.test_luck"),
    ([WORDS, ("test_luck", "<skipped/>")], "only 0 tests passed: README.md says at least 1"),
])
def test_all_else_is_a_failure(tmp_path, capsys, cases, line):
    status, said = judged(tmp_path, capsys, *cases)
    assert status == 1 and line in said.splitlines()


def test_a_suite_that_did_not_run_has_failed(tmp_path, capsys):
    assert judged(tmp_path, capsys)[0] == 1
    assert judge.main("nbclient", str(tmp_path / "none.xml"), str(tmp_path / "README.md")) == 1


def test_the_readme_names_tests_of_each_suite():
    text = (SUITES / "README.md").read_text()
    assert all(judge.named(text, suite) for suite in ("ipykernel", "nbclient", "papermill"))
    assert all(judge.floor(text, suite) for suite in ("ipykernel", "nbclient", "papermill", "vscode-jupyter"))
    rows = [line for line in text.splitlines() if line.startswith("| ") and "| `Test" in line or "| `test_" in line and "fail" in line]
    assert len([row for row in rows if judge.ROW.match(row)]) == sum(len(judge.named(text, s)) for s in ("ipykernel", "nbclient", "papermill"))
