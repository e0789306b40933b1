"""The report of tests/suites/run about other projects' test suites."""

import importlib.util
from pathlib import Path

SUITES = Path(__file__).parents[2] / "suites"
spec = importlib.util.spec_from_file_location("judge", SUITES / "judge.py")
judge = importlib.util.module_from_spec(spec)
spec.loader.exec_module(judge)

README = "| nbclient | `TestExecute.test_words` | why |\n| papermill | `TestExecute.test_other` | why |\n"
CASE = '<testcase classname="tests.test_client.TestExecute" name="%s">%s</testcase>'


def judged(folder, capsys, *cases):
    (folder / "README.md").write_text(README)
    (folder / "r.xml").write_text("<testsuites><testsuite>%s</testsuite></testsuites>" % "".join(CASE % case for case in cases))
    status = judge.main("nbclient", str(folder / "r.xml"), str(folder / "README.md"))
    return status, capsys.readouterr().out


def test_only_what_the_readme_names_may_fail(tmp_path, capsys):
    status, said = judged(tmp_path, capsys, ("test_fine", ""), ("test_words", "<failure/>"), ("test_gone", "<skipped/>"))
    assert status == 0 and "1 passed, 1 failed (1 of them named in README.md), 1 skipped" in said
    status, said = judged(tmp_path, capsys, ("test_other", "<failure/>"), ("test_words", ""))
    assert status == 1 and "FAILED TestExecute.test_other" in said
    assert "passed, though README.md names it: TestExecute.test_words" in said


def test_a_suite_that_did_not_run_has_failed(tmp_path, capsys):
    assert judged(tmp_path, capsys)[0] == 1
    assert judge.main("nbclient", str(tmp_path / "none.xml"), str(tmp_path / "README.md")) == 1


def test_the_readme_names_tests_of_each_suite():
    text = (SUITES / "README.md").read_text()
    assert all(judge.named(text, suite) for suite in ("ipykernel", "nbclient", "papermill"))
