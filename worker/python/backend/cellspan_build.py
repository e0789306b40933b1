# SPDX-License-Identifier: BSD-3-Clause
"""PEP 517: makes a wheel of what `make install` installs, and an sdist of what `make dist` packs.

`pip install .` links the binaries with the machine's libzmq, jansson, libsodium and libuuid, so such a wheel works only on this
machine and on machines with the same libraries. packaging/wheel gives configure static ones and an old C library, and names the
platform that the wheel is for then. Both lay out an environment as `make install --prefix` would:

    bin/            cellspan, cellspan-kernel; cellspan-python, in which pip writes the Python that it installs for
    libexec/        cellspan/cellspan-agent, cellspan/cellspan-launch-*
    lib/            cellspan/python/cellspan/, the package: workers get this folder, which has nothing else in it, on their path
    site-packages/  cellspan/, which loads that package for scripts; cellspan-stubs/, its types
    share/          man pages, the documents, and the kernelspec, which names the kernel relative to itself

config_settings (pip: -C NAME=VALUE):
    configure       more options for configure
    platform        the platform of the wheel's tag, instead of this machine's
    licenses        a folder with the licences of what is linked in; they go to dist-info/licenses
    sbom            the list of what is linked in; it goes to dist-info/sboms
"""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
NOWHERE = "/nonexistent/cellspan"  # the prefix of the build: nothing compiled in may be found by accident
NAME = "cellspan"
NEEDED = "a C compiler, make, pkg-config, and libzmq, jansson, libsodium, libuuid and Python with their headers"

# pip puts the path of its Python into the first line, as it does in every script of a wheel. The kernel asks it for that path.
ASKED = b"""#!python
# The Python that cellspan was installed for; cellspan-kernel runs it.
import os
import sys

os.execv(sys.executable, [sys.executable] + sys.argv[1:])
"""


# The package lies in one place only. This loads it from there for programs that find this one in site-packages.
LOADER = b'''"""Loads cellspan, which is in lib/cellspan/python of this environment: workers of another Python find it there, too."""


def _load():
    import importlib.util
    import os
    import sys

    folder = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..", "..", "lib", "cellspan", "python", "cellspan"))
    path = os.path.join(folder, "__init__.py")
    if not os.path.exists(path):
        raise ImportError("cellspan is incomplete: there is no %s. Install it in an environment of its own: `pip install --target` leaves "
                          "that folder out, and so does a copy of site-packages" % folder, name=__name__)
    spec = importlib.util.spec_from_file_location(__name__, path, submodule_search_locations=[folder])
    sys.modules[__name__] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


_load()
'''

# Workers look whether this file is there.
UNWRITTEN = b"python/ is the package for workers. They write no bytecode into it: pip would not remove it.\n"


def version():
    """The version that configure.ac names."""
    with open(os.path.join(TOP, "configure.ac"), encoding="utf-8") as file:
        return re.search(r"^AC_INIT\(\[cellspan\], \[([^]]+)\]", file.read(), re.M).group(1)


def requirements():
    """What the package needs at run time."""
    with open(os.path.join(TOP, "worker", "python", "requirements.txt"), encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


def project():
    """{key: value} of [project] in pyproject.toml, and its addresses under "urls". Python 3.9 has no reader of TOML: what is written
    there are strings, lists of strings, and one list of tables with names."""
    with open(os.path.join(TOP, "pyproject.toml"), encoding="utf-8") as file:
        sections = re.split(r"^\[([\w.-]+)\]$", re.sub(r"^#.*", "", file.read(), flags=re.M), flags=re.M)
    tables = {}
    for name, text in zip(sections[1::2], sections[2::2]):
        text = re.sub(r"\{name = (\"[^\"]*\")\}", r"\1", text)
        tables[name] = {key: ast.literal_eval(value) for key, value in re.findall(r"^\"?([\w-]+)\"? = (\"[^\"]*\"|\[[^]]*\])$", text, re.M)}
    return {**tables["project"], "urls": tables.get("project.urls", {})}


def description(readme, source):
    """The README as an index shows it: what it links to in the project has an address, or, where none is known, is no link."""
    def link(found):
        picture, text, target = found.groups()
        if re.match(r"[a-z]+:", target):
            return found[0]
        if not source:
            return "" if picture else text
        if target.startswith("#"):
            target = readme + target
        return "%s[%s](%s/%s/main/%s)" % (picture, text, source.rstrip("/"), "raw" if picture else "blob", target)

    with open(os.path.join(TOP, readme), encoding="utf-8") as file:
        return re.sub(r"(!?)\[([^]]*)\]\(([^)\s]+)\)", link, file.read())


def metadata(settings=None):
    """The text of METADATA and PKG-INFO; settings: also of what is linked in."""
    ours, inside = project(), settings or {}
    licenses, names = {"MIT"}, list(ours["license-files"])  # vendor/tomlc17's
    if inside.get("sbom"):
        with open(inside["sbom"], encoding="utf-8") as file:
            licenses |= {part["licenses"][0]["expression"] for part in json.load(file)["components"]}
    if inside.get("licenses"):
        names += sorted(os.listdir(inside["licenses"]))
    lines = ["Metadata-Version: 2.4", "Name: " + ours["name"], "Version: " + version(), "Summary: " + ours["description"]]
    lines += ["Author: " + ", ".join(ours["authors"]), "Keywords: " + ",".join(ours["keywords"])]
    lines += ["License-Expression: " + " AND ".join([ours["license"], *sorted(set(licenses) - {ours["license"]})])]
    lines += ["License-File: " + name for name in names]
    lines += ["Classifier: " + name for name in ours["classifiers"]]
    lines += ["Project-URL: %s, %s" % url for url in ours["urls"].items()]
    lines.append("Requires-Python: " + ours["requires-python"])
    lines += ["Requires-Dist: " + requirement for requirement in requirements()]
    lines.append("Description-Content-Type: text/markdown")
    return "\n".join(lines) + "\n\n" + description(ours["readme"], ours["urls"].get("Source"))


def tag(settings):
    """One extension for every Python since 3.9, for one platform."""
    return "cp39-abi3-" + re.sub(r"[-.]", "_", (settings or {}).get("platform") or sysconfig.get_platform())


def no_wheel_fitted():
    """Why pip took the sources although there are wheels (cp39-abi3-manylinux_2_28 for two kinds of processor)."""
    machine, (libc, libc_version) = platform.machine(), platform.libc_ver()
    if sys.platform != "linux":
        return "they are for Linux, and this is %s" % sys.platform
    if machine not in ("x86_64", "aarch64"):
        return "they are for x86_64 and aarch64, and this machine is %s" % machine
    if platform.python_implementation() != "CPython":
        return "they are for CPython, and this is %s" % platform.python_implementation()
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "they are not for free-threaded Python, which this is"
    if libc != "glibc":
        return "they are for glibc, and this Python's C library is another one (musl?)"
    if [int(part) for part in libc_version.split(".")[:2]] < [2, 28]:
        return "they need glibc 2.28 or newer, and this machine has %s" % libc_version
    return "one would fit, so pip found none (it may be too old: 20.3 is the first that knows them) or was told to take the sources"


def say_why():
    """Where pip builds from an sdist: one line, the first of what it shows if the build fails."""
    if os.path.exists(os.path.join(TOP, "PKG-INFO")):
        print("cellspan: no wheel of cellspan was taken: %s. So it is built here, with %s." % (no_wheel_fitted(), NEEDED), flush=True)


def run(*command, cwd):
    """Runs a step of the build with its output among ours; a failure ends the build."""
    print("+", shlex.join(command), flush=True)
    if subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL).returncode:
        sys.exit("cellspan: `%s` failed; its output is above" % command[0])


def is_checkout(settings):
    """Is it neither built from an sdist nor the wheel that is released?"""
    return "platform" not in (settings or {}) and not os.path.exists(os.path.join(TOP, "PKG-INFO"))


def configure(folder, settings):
    """Configures in a copy of the sources, which it makes in this folder: nothing is left in the user's. Returns the folder of the build."""
    source = os.path.join(folder, "source")
    build = os.path.join(source, ".build", "build")
    if not any(map(shutil.which, shlex.split(os.environ.get("CC", ""))[:1] or ["cc", "gcc"])):
        sys.exit("cellspan: there is no C compiler here. Install %s; docs/building.md names the packages%s" % (
            NEEDED, ". No wheel was taken: " + no_wheel_fitted() if os.path.exists(os.path.join(TOP, "PKG-INFO")) else ""))
    for path in (TOP, build):
        if re.search(r"\s", path):
            sys.exit("cellspan: autotools can't build where a path has white space in it: %r; move it to a folder without" % path)
    made = os.path.exists(os.path.join(TOP, "configure"))
    if not made and not shutil.which("autoreconf"):
        sys.exit("cellspan: autoreconf is missing: install autoconf and automake")
    shutil.copytree(TOP, source, symlinks=True, ignore=lambda at, names: [
        name for name in names if name == "__pycache__" or at == TOP and name in (".git", ".build", "build", "dist", "autom4te.cache")
        or os.path.exists(os.path.join(at, name, "pyvenv.cfg"))])  # an environment may be large
    if not made:
        run("autoreconf", "-fi", cwd=source)
    more = (settings or {}).get("configure", [])
    more = shlex.split(more) if isinstance(more, str) else more
    if is_checkout(settings) and "INSTALL_COMMAND" not in os.environ and not any(word.startswith("INSTALL_COMMAND=") for word in more):
        more = ["INSTALL_COMMAND=pip install .", *more]  # an index of packages need not have it
    os.makedirs(build)
    # The compiler gets no path of this folder, so its cache serves what another build of the same sources has compiled.
    run("../../configure", "--prefix=" + NOWHERE, "--with-python=" + sys.executable, *more, cwd=build)
    return build


class Wheel:
    """A wheel that is being written, and the RECORD of what is in it."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, content, mode=0o644):
        """Adds a file of the given content (bytes) and mode."""
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        self.record.append("%s,sha256=%s,%d" % (name, digest, len(content)))

    def add_tree(self, folder, to):
        """Adds all files below a folder under the name `to`."""
        for at, dirs, files in os.walk(folder):
            dirs.sort()
            for file in sorted(files):
                path = os.path.join(at, file)
                with open(path, "rb") as content:
                    name = os.path.normpath(os.path.join(to, os.path.relpath(path, folder)))
                    self.add(name, content.read(), os.stat(path).st_mode & 0o755)

    def close(self, info):
        """Writes RECORD into the folder `info`, last."""
        self.record.append(info + "/RECORD,,")
        self.zip.writestr(info + "/RECORD", "\n".join(self.record) + "\n")
        self.zip.close()


def info_files(settings):
    """The files of dist-info, but RECORD: (name there, content)."""
    yield "METADATA", metadata(settings).encode()
    yield "WHEEL", ("Wheel-Version: 1.0\nGenerator: cellspan_build\nRoot-Is-Purelib: false\nTag: %s\n" % tag(settings)).encode()
    paths = [("licenses/" + name, os.path.join(TOP, name)) for name in project()["license-files"]]
    if settings.get("licenses"):
        paths += [("licenses/" + name, os.path.join(settings["licenses"], name)) for name in sorted(os.listdir(settings["licenses"]))]
    if settings.get("sbom"):
        paths.append(("sboms/" + os.path.basename(settings["sbom"]), settings["sbom"]))
    for name, path in paths:
        with open(path, "rb") as file:
            yield name, file.read()


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """PEP 517's hook: the name of the dist-info. Who only asks what the package needs waits for no build, and needs no compiler."""
    info = "%s-%s.dist-info" % (NAME, version())
    for name, content in info_files(config_settings or {}):
        path = os.path.join(metadata_directory, info, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
    return info


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517's hook: the wheel's file name."""
    stem = "%s-%s" % (NAME, version())
    file = "%s-%s.whl" % (stem, tag(config_settings))
    say_why()
    with tempfile.TemporaryDirectory(prefix="cellspan-build-") as folder:
        root = os.path.join(folder, "root")
        build = configure(folder, config_settings)
        run("make", "-j%d" % (os.cpu_count() or 1), "default_python=", cwd=build)  # that of cellspan-python
        run("make", "install-strip", "default_python=", "DESTDIR=" + root, "BYTECODE=no", cwd=build)
        root += NOWHERE
        wheel = Wheel(os.path.join(wheel_directory, file))
        package = os.path.join(root, "lib", "cellspan", "python")
        shutil.move(os.path.join(package, NAME + "-stubs"), os.path.join(folder, "types", NAME + "-stubs"))
        wheel.add_tree(os.path.join(folder, "types"), ".")
        wheel.add(NAME + "/__init__.py", LOADER)
        for folder in ("libexec", "lib", "share"):
            wheel.add_tree(os.path.join(root, folder), "%s.data/data/%s" % (stem, folder))
        wheel.add("%s.data/data/lib/cellspan/no-bytecode" % stem, UNWRITTEN)
        wheel.add_tree(os.path.join(root, "bin"), stem + ".data/scripts")
        wheel.add(stem + ".data/scripts/cellspan-python", ASKED, 0o755)
        for name, content in info_files(config_settings or {}):
            wheel.add(stem + ".dist-info/" + name, content)
        wheel.close(stem + ".dist-info")
    return file


def build_sdist(sdist_directory, config_settings=None):
    """PEP 517's hook: the sdist's file name."""
    stem = "%s-%s" % (NAME, version())
    with tempfile.TemporaryDirectory(prefix="cellspan-build-") as folder:
        build = configure(folder, config_settings)
        run("make", "distdir", cwd=build)
        with tarfile.open(os.path.join(sdist_directory, stem + ".tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as tar:
            tar.add(os.path.join(build, stem), stem)
            info, text = tarfile.TarInfo(stem + "/PKG-INFO"), metadata().encode()
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    return stem + ".tar.gz"
