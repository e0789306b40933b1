# SPDX-License-Identifier: BSD-3-Clause
"""Settings of files: the site's, the user's and the project's, as a notebook and `cellspan config` have them."""

import os
import pathlib
import shutil
import subprocess

import pytest

SITE = "/etc/cellspan.toml"


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
    place.write(user='merge = "prefix"\nstatus = "of"\npreload = "wave"\n', project='merge = "rank0"\npreload = "evil"\nlog = "debug:/tmp/x"\n')
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


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="only root can have an /etc of its own")
def test_nothing_exceeds_what_the_sites_file_states(place, tmp_path):
    place.write(user='capture_limit = "64G"\nresume = 100\n')
    site = tmp_path / "site.toml"
    site.write_text('merge = "prefix"\n[maximum]\ncapture_limit = "8G"\nresume = 200\ndial_timeout = 10\n')
    # a file system of its own, in which /etc has one file more
    script = "mount --make-rprivate / && cp -a /etc '%s' && cp '%s' '%s/cellspan.toml' && mount --bind '%s' /etc && exec \"$@\"" % (
        (tmp_path / "etc", site) + (tmp_path / "etc",) * 2)
    code, rows, err, out = place.config("unshare", "--mount", "sh", "-c", script, "sh")
    assert (code, err) == (0, ""), (code, err)
    assert rows["merge"] == ["prefix", SITE + ":1"], out
    assert rows["capture_limit"] == ["8G", "the maximum of %s:3; 64G, %s:1" % (SITE, place.user)], out
    assert rows["resume"] == ["100", "%s:2" % place.user], out
    assert rows["dial_timeout"] == ["10", "the maximum of %s:5; 30, default" % SITE], out


def test_the_example_files_are_right(place):
    """Those of docs/settings.md."""
    page = pathlib.Path(__file__).resolve().parents[2] / "docs/settings.md"
    site, user, project = [block.partition("```")[0] for block in page.read_text().split("```toml\n")[1:]]
    place.write(user=site.partition("[maximum]")[0] + user, project=project)
    code, rows, err, out = place.config()
    assert (code, err) == (0, ""), err
    assert rows["merge"][0] == "rank0" and rows["port"][0] == "41000-41100" and rows["seed"][0] == "42", out
    place.write(user=site[site.index("[maximum]"):], project="")
    assert place.config()[2] == "%s:1: maximum: only /etc/cellspan.toml states maxima\n" % place.user
