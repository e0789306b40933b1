# SPDX-License-Identifier: BSD-3-Clause
"""The build backend's words for a machine that no wheel fits."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BACKEND = os.path.join(TOP, "worker", "python", "backend", "cellspan_build.py")


@pytest.fixture
def backend(monkeypatch):
    spec = importlib.util.spec_from_file_location("cellspan_build", BACKEND)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(module.platform, "libc_ver", lambda: ("glibc", "2.31"))
    monkeypatch.setattr(module.platform, "python_implementation", lambda: "CPython")
    monkeypatch.setattr(module.sysconfig, "get_config_var", lambda name: None)
    return module


@pytest.mark.parametrize("name, value, says", [
    ("platform.machine", lambda: "riscv64", "x86_64 and aarch64, and this machine is riscv64"),
    ("platform.libc_ver", lambda: ("", ""), "for glibc, and this Python's C library is another one"),
    ("platform.libc_ver", lambda: ("glibc", "2.27"), "need glibc 2.28 or newer, and this machine has 2.27"),
    ("platform.python_implementation", lambda: "PyPy", "for CPython, and this is PyPy"),
    ("sysconfig.get_config_var", lambda name: 1, "not for free-threaded Python"),
    ("sys.platform", "darwin", "for Linux, and this is darwin"),
    ("platform.machine", lambda: "aarch64", "one would fit, so pip found none"),
])
def test_the_reason_is_named(backend, monkeypatch, name, value, says):
    module, attribute = name.split(".")
    monkeypatch.setattr(getattr(backend, module), attribute, value)
    assert says in backend.no_wheel_fitted()


@pytest.mark.parametrize("how, given, says", [
    ("checkout", {}, ["INSTALL_COMMAND=pip install ."]), ("sdist", {}, []), ("wheel", {"platform": "manylinux_2_28_x86_64"}, []),
    ("checkout", {"configure": "INSTALL_COMMAND='apt install cellspan'"}, ["INSTALL_COMMAND=apt install cellspan"]),
])
def test_errors_name_the_command_that_this_was_installed_by(backend, monkeypatch, tmp_path, how, given, says):
    monkeypatch.delenv("INSTALL_COMMAND", raising=False)
    monkeypatch.setattr(backend, "TOP", str(tmp_path))
    (tmp_path / "configure").write_text("")
    if how == "sdist":
        (tmp_path / "PKG-INFO").write_text("")
    commands = []
    monkeypatch.setattr(backend, "run", lambda *command, cwd: commands.append(command))
    backend.configure(str(tmp_path / "made"), given)
    assert [word for word in commands[0] if word.startswith("INSTALL_COMMAND")] == says


def test_an_sdist_says_it_in_one_line_and_asks_for_a_compiler(backend, monkeypatch, tmp_path, capsys):
    (tmp_path / "PKG-INFO").write_text("Name: cellspan\n")
    (tmp_path / "configure.ac").write_text("AC_INIT([cellspan], [1.2.3])\n")
    monkeypatch.setattr(backend, "TOP", str(tmp_path))
    monkeypatch.setattr(backend.platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(SystemExit) as error:
        backend.build_wheel(str(tmp_path))
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 and "no wheel of cellspan was taken: they are for glibc" in printed[0]
    assert str(error.value) == ("cellspan: there is no C compiler here. Install %s; docs/building.md names the packages. "
                                "No wheel was taken: %s" % (backend.NEEDED, backend.no_wheel_fitted()))


def test_a_clone_says_nothing_of_wheels(backend, monkeypatch, tmp_path, capsys):
    (tmp_path / "configure.ac").write_text("AC_INIT([cellspan], [1.2.3])\n")
    monkeypatch.setattr(backend, "TOP", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(SystemExit, match="no C compiler here. Install .*; docs/building.md names the packages$"):
        backend.build_wheel(str(tmp_path))
    assert capsys.readouterr().out == ""


# What a machine says of itself, for pip and for the backend that it starts. pip asks the module _manylinux (PEP 600).
MACHINES = {
    "musl": ({"_manylinux": "def manylinux_compatible(*version):\n    return False\n",
              "sitecustomize": "import platform\nplatform.libc_ver = lambda *a, **k: ('', '')\n"},
             "they are for glibc, and this Python's C library is another one (musl?)"),
    "riscv64": ({"sitecustomize": "import os\nown = os.uname()\nos.uname = lambda: os.uname_result((*own[:4], 'riscv64'))\n"},
                "they are for x86_64 and aarch64, and this machine is riscv64"),
    "old": ({"_manylinux": "def manylinux_compatible(major, minor, arch):\n    return (major, minor) < (2, 28)\n",
             "sitecustomize": "import platform\nplatform.libc_ver = lambda *a, **k: ('glibc', '2.27')\n"},
            "they need glibc 2.28 or newer, and this machine has 2.27"),
}


@pytest.fixture
def shelf(tmp_path):
    """A folder with an sdist and the wheels, whose content matters to nobody here."""
    shelf, source = tmp_path / "shelf", tmp_path / "cellspan-1.2.3"
    shelf.mkdir()
    info = "Metadata-Version: 2.1\nName: cellspan\nVersion: 1.2.3\n"
    for arch in "x86_64", "aarch64":
        with zipfile.ZipFile(shelf / ("cellspan-1.2.3-cp39-abi3-manylinux_2_28_%s.whl" % arch), "w") as wheel:
            wheel.writestr("cellspan-1.2.3.dist-info/METADATA", info)
            wheel.writestr("cellspan-1.2.3.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp39-abi3-manylinux_2_28_%s\n" % arch)
            wheel.writestr("cellspan-1.2.3.dist-info/RECORD", "")
    for name in "pyproject.toml", "README.md", "LICENSE", "vendor/tomlc17/LICENSE", "worker/python/requirements.txt", "worker/python/backend/cellspan_build.py":
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.join(TOP, name), source / name)
    (source / "PKG-INFO").write_text(info)
    (source / "configure.ac").write_text("AC_INIT([cellspan], [1.2.3])\n")
    with tarfile.open(shelf / "cellspan-1.2.3.tar.gz", "w:gz") as sdist:
        sdist.add(source, "cellspan-1.2.3")
    return shelf


def pip(shelf, folder, modules, *how):
    """What pip says that is to install cellspan from there, on a machine without a compiler on which Python has these modules."""
    for name, text in modules.items():
        (folder / (name + ".py")).write_text(text)
    env = dict(os.environ, PYTHONPATH=str(folder), CC="no-such-compiler")
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", *how, "--no-build-isolation", "--disable-pip-version-check",
               "--find-links", str(shelf), "--ignore-installed", "cellspan"]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=200)


@pytest.mark.parametrize("machine", MACHINES)
def test_pip_refuses_the_wheels_and_the_sdist_says_why_and_what_to_do(shelf, tmp_path, machine):
    modules, why = MACHINES[machine]
    done = pip(shelf, tmp_path, modules, "--target", str(tmp_path / "there"))
    said = done.stdout + done.stderr
    assert done.returncode != 0 and ".whl" not in said, said
    lines = [line.strip() for line in said.splitlines() if "no wheel of cellspan was taken" in line]
    assert lines and why in lines[0] and "So it is built here, with a C compiler, make, pkg-config, and libzmq" in lines[0], said
    assert "cellspan: there is no C compiler here. Install a C compiler" in said


def test_pip_knows_what_an_sdist_needs_without_a_compiler(shelf, tmp_path):
    done = pip(shelf, tmp_path, {}, "--dry-run", "--no-binary", "cellspan")
    assert done.returncode == 0 and "Would install cellspan-1.2.3" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="no wheel is for this machine")
def test_pip_takes_the_wheel_where_it_fits(shelf, tmp_path):
    done = pip(shelf, tmp_path, {}, "--dry-run")
    assert done.returncode == 0 and "Would install cellspan-1.2.3" in done.stdout, done.stdout + done.stderr
    assert "manylinux_2_28_%s.whl" % os.uname().machine in done.stdout
