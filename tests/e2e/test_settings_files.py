# SPDX-License-Identifier: BSD-3-Clause
"""Settings of files: the site's, the user's and the project's, as a notebook and `cellspan config` have them."""

import os
import pathlib
import shutil
import subprocess

import pytest
from jupyter_client.manager import KernelManager

SITE = "/etc/cellspan.toml"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="only root can have an /etc of its own")
FORMAT = KernelManager.format_kernel_cmd


def own_etc(folder, text):
    """The words before a command that give it an /etc in which the site's file says this."""
    etc = folder / "etc"
    shutil.copytree("/etc", etc, symlinks=True)
    (etc / "cellspan.toml").write_text(text)
    return "unshare", "--mount", "sh", "-c", "mount --make-rprivate / && mount --bind '%s' /etc && exec \"$@\"" % etc, "sh"


@pytest.fixture
def place(tmp_path):
    """Writes the user's and the project's file; what a kernel gets that is to read them."""
    class Place:
        home, project = tmp_path / "me", tmp_path / "project"
        user = home / ".config/cellspan/cellspan.toml"

        def __init__(self):
            self.user.parent.mkdir(parents=True)
            self.user.parent.chmod(0o700)
            (self.project / "deep").mkdir(parents=True)
            (self.project / ".git").mkdir()

        def write(self, user=None, project=None):
            for path, text in (self.user, user), (self.project / "cellspan.toml", project):
                if text is not None:
                    path.write_text(text)
                    path.chmod(0o600)

        def kernel(self, **env):
            return {"env": dict(env, XDG_CONFIG_HOME=str(self.home / ".config")), "cwd": str(self.project / "deep")}

        def config(self, *words, **env):
            env = dict({k: v for k, v in os.environ.items() if not k.startswith("CELLSPAN_")}, XDG_CONFIG_HOME=str(self.home / ".config"), **env)
            done = subprocess.run([*words, shutil.which("cellspan"), "config"], env=env, cwd=self.project / "deep", capture_output=True, text=True, timeout=60)
            rows = {line.split()[0]: line.split(None, 2)[1:] for line in done.stdout.partition("\n\n")[0].splitlines()}
            return done.returncode, rows, done.stderr, done.stdout

    return Place()


def test_a_notebook_has_its_files_settings_and_says_what_is_refused(fresh, place):
    place.write(user='merge = "prefix"\nstatus = "of"\npreload = "-torch,-numpy,wave"\n', project='merge = "rank0"\npreload = "evil"\nlog = "debug:/tmp/x"\n')
    nb = fresh(**place.kernel(CELLSPAN_PRELOAD=""))  # which the tests set otherwise
    first = nb.ok("%%distribute -n 2\nimport os, sys\nprint(os.environ['CELLSPAN_MERGE'], 'wave' in sys.modules, 'evil' in sys.modules)")
    assert first.stdout == "rank0 True False\n", first.stdout
    file = str(place.project / "cellspan.toml")
    assert first.stderr.splitlines()[:3] == [
        '%s:2: status = "of": off or on is wanted' % place.user,
        *("%s:%d: %s: a project's file may not set what runs something or reaches something; set it in your own file (%s), or as CELLSPAN_%s in the "
          "environment" % (file, line, name, place.user, name.upper()) for line, name in ((2, "preload"), (3, "log")))], first.stderr
    again = nb.ok("%%distribute --merge prefix\nprint(1)")
    assert sorted(again.stdout.split("\n")) == ["", "[0] 1", "[1] 1"] and "refused" not in again.stderr and file not in again.stderr


def test_the_environment_counts_before_files(fresh, place):
    place.write(user='merge = "prefix"\n', project='hang_notice = "5m"\n')
    nb = fresh(**place.kernel(CELLSPAN_MERGE="rank0"))
    assert nb.ok("%%distribute -n 2\nprint(1)").stdout == "1\n"
    # what a cell starts reads its own files, in its own folder
    shown = nb.ok("!cd / && cellspan config; cd %s; cellspan config" % place.project).stdout
    assert shown.count("CELLSPAN_MERGE in the environment") == 2 and shown.count("cellspan.toml:1\n") == 1, shown
    assert "CELLSPAN_HANG_NOTICE" not in shown, shown


def test_options_count_before_all_and_files_where_a_cell_has_none(fresh, place):
    place.write(user='on = "nosuch:h1"\n', project='n = 3\ntimeout = "1h"\non = "ssh:evil"\n')
    nb = fresh(**place.kernel())
    refused = nb.run("%%distribute\nprint(1)")
    assert refused.status == "error" and "nosuch" in refused.reply["evalue"], refused.reply["evalue"]
    assert "cellspan.toml:3: on: a project's file may not set what runs something or reaches something" in refused.stderr, refused.stderr
    assert "evil" not in refused.reply["evalue"]
    # then a place is to be named
    assert nb.ok("%%distribute --on local --gather\nimport os\nint(os.environ['WORLD_SIZE'])").value == "[3, 3, 3]"
    assert nb.ok("%%distribute -n 2 --gather\nint(os.environ['WORLD_SIZE'])").value == "[2, 2]"
    assert nb.ok("import cellspan\ncellspan.run(lambda: os.environ['WORLD_SIZE'], n=1)").value == "'1'"
    other = fresh(**place.kernel(CELLSPAN_ON="local", CELLSPAN_N="2"))
    assert other.ok("%%distribute --gather\n1").value == "[1, 1]", "the environment counts before files"
    other.ok("%ranks stop")
    assert other.ok("%%distribute -n 1 --gather\n1").value == "[1]"


def test_a_cell_has_the_time_that_settings_give_it(fresh, place):
    place.write(project="timeout = 1\ngrace = 0.5\n")
    nb = fresh(**place.kernel())
    late = nb.run("%%distribute -n 1\nimport time\ntime.sleep(600)")
    assert late.status == "error" and late.reply["evalue"].startswith(
        "CELLSPAN_TIMEOUT: the cell still ran after 1 s (`cellspan config` says where that is set)"), late.reply["evalue"]
    assert nb.ok("%%distribute --timeout 1h\nimport time\ntime.sleep(1.5)\n7").value == "7"


def test_a_wrong_place_is_named_with_its_setting(fresh):
    nb = fresh(env={"CELLSPAN_ON": "SSH!:h1"})
    refused = nb.run("%%distribute -n 1\n1")
    assert refused.reply["evalue"].startswith("CELLSPAN_ON SSH!:h1: no engine has that name"), refused.reply["evalue"]
    assert nb.ok("%%distribute -n 1 --on local\n7").value == "7"


@AS_ROOT
def test_no_cell_exceeds_what_the_site_allows(fresh, place, tmp_path, monkeypatch):
    """The kernel is started by hand, with an /etc of its own."""
    place.write(user="n = 9\n")
    own = own_etc(tmp_path, '[maximum]\nn = 2\ntimeout = "1h"\ngrace = 3\n')
    monkeypatch.setattr(KernelManager, "format_kernel_cmd", lambda self, *args, **kw: [*own, *FORMAT(self, *args, **kw)])
    nb = fresh(**place.kernel())
    assert nb.ok("%%distribute --gather\n1").value == "[1, 1]", "neither does a file"
    refused = nb.run("%%distribute -n 3\n1")
    assert refused.reply["evalue"].startswith("-n 3: /etc/cellspan.toml allows at most 2 ranks"), refused.reply["evalue"]
    told = nb.ok("%%distribute --timeout 2h --grace 4\n7")
    assert told.value == "7" and "--timeout: 3600 s is used, the most that /etc/cellspan.toml allows" in told.stderr, told.stderr
    assert "--grace: 3 s is used, the most that /etc/cellspan.toml allows" in told.stderr, told.stderr
    assert "allows" not in nb.ok("%%distribute --timeout 10\n7").stderr


def test_config_shows_each_setting_and_where_it_comes_from(place):
    place.write(user='merge = "prefix"\nresume = 90\n', project='merge = "rank0"\n')
    code, rows, err, out = place.config(CELLSPAN_STATUS="off")
    assert (code, err) == (0, ""), (code, err)
    assert rows["merge"] == ["rank0", "%s:1" % (place.project / "cellspan.toml")], out
    assert rows["resume"] == ["90", "%s:2" % place.user], out
    assert rows["status"] == ["off", "CELLSPAN_STATUS in the environment"], out
    assert rows["dial_timeout"] == ["30", "default"], out
    assert "%s\n" % place.user in out and SITE in out


def test_config_fails_where_a_file_or_a_variable_is_wrong(place):
    place.write(user="merge = raw\n")
    code, rows, err, _ = place.config()
    assert code == 1 and rows["merge"] == ["fold", "default"]
    assert err.startswith("%s:1: it is not TOML: " % place.user) and err.endswith("; nothing of the file is used\n") and err.count("\n") == 1, err
    place.write(user="")
    code, _, err, _ = place.config(CELLSPAN_STATUS="of")
    assert code == 1 and err == "CELLSPAN_STATUS=of: off or on is wanted; on is used\n", err
    place.user.chmod(0o666)
    code, _, err, _ = place.config()
    assert code == 1 and err == "%s: other users can write it: chmod go-w %s\n" % (place.user, place.user), err
    place.user.unlink()
    os.mkfifo(place.user)
    code, _, err, _ = place.config()
    assert code == 1 and err == "%s: it is a device or a pipe; a file is wanted\n" % place.user, err


def test_doctor_names_what_is_wrong_in_a_file(place, cellspan):
    place.write(user="meerge = 1\n")
    code, out, _ = cellspan("doctor", "--python", "/bin/ls", XDG_CONFIG_HOME=str(place.home / ".config"))
    assert code == 1 and "%s:1: meerge: there is no such setting; did you mean merge?" % place.user in out, out


@AS_ROOT
def test_nothing_exceeds_what_the_sites_file_states(place, tmp_path):
    place.write(user='capture_limit = "64G"\nresume = 100\n')
    code, rows, err, out = place.config(*own_etc(
        tmp_path, 'merge = "prefix"\n[maximum]\ncapture_limit = "8G"\nresume = 200\ndial_timeout = 10\n'))
    assert (code, err) == (0, ""), (code, err)
    assert rows["merge"] == ["prefix", SITE + ":1"], out
    assert rows["capture_limit"] == ["8G", "the maximum of %s:3; 64G, %s:1" % (SITE, place.user)], out
    assert rows["resume"] == ["100", "%s:2" % place.user], out
    assert rows["dial_timeout"] == ["10", "the maximum of %s:5; 30, default" % SITE], out


def test_the_example_files_are_right(place):
    """Those of docs/settings.md."""
    page = pathlib.Path(__file__).resolve().parents[2] / "docs/settings.md"
    site, user, project = [block.partition("```")[0] for block in page.read_text().split("```toml\n")[1:]]
    for text, name, value in (site.partition("[maximum]")[0], "port", "41000-41100"), (user, "preload", "jax"):
        place.write(user=text, project=project)
        code, rows, err, out = place.config()
        assert (code, err) == (0, ""), err
        assert rows["merge"][0] == "rank0" and rows["seed"][0] == "42" and rows[name][0] == value, out
    place.write(user=site[site.index("[maximum]"):], project="")
    assert place.config()[2] == "%s:1: maximum: only /etc/cellspan.toml states maxima\n" % place.user
