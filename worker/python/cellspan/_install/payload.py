# SPDX-License-Identifier: BSD-3-Clause
"""Makes what is sent to a machine without cellspan: the agent, what it runs, and the Python package.

    payload.py AGENT VERSION [WHEELS]               prints what can be sent: lines `can ARCH HASH LIBC`, `cannot ARCH WHY`, perhaps
                                                    `lacks PROGRAM`, and after `script` the program that unpacks it there
    payload.py AGENT VERSION WHEELS HASH            writes it to stdout, compressed

AGENT is this installation's. WHEELS is a folder with wheels of this version: for machines of another architecture, and where this
installation can't be sent. HASH is that of the files: it names the folder there, and tells that all have come. Launchers run this by
its path, `python3 -I -S`: it imports nothing of cellspan.

For a machine whose Python has not the packages that ranks need, ARCH is followed by `+3.11`, the version of this Python: then these
packages, as this Python has them, are sent with it. PROGRAM tells such a Python: its exit status is 3.
"""
from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import struct
import sys
import zipfile
import zlib

PROGRAMS = ("cellspan-agent", "cellspan-gpus")
PACKAGE = "lib/cellspan/python"
PACKAGES = "lib/cellspan/packages"  # others', which _worker/__main__.py puts at the end of the ranks' path
NEEDED = {"IPython": "ipython", "comm": "comm", "cloudpickle": "cloudpickle", "matplotlib_inline": "matplotlib-inline", "traitlets": "traitlets"}
# What these packages require, and ranks don't use: for completion at a terminal, and, compiled, to recognise the terminal.
LEFT_OUT = ("jedi", "parso", "psutil")
METADATA_FILES = ("METADATA", "PKG-INFO", "")  # one of these describes a package; the last: its .egg-info is a file
PYTHON = "%d.%d" % sys.version_info[:2]
# A folder that is left of a removed package is none: it is imported as a namespace, without a file.
LACKS = ("import sys, importlib.util as u; sys.path[:1] == [''] and sys.path.pop(0); "
         "sys.exit(3 if '%%d.%%d' %% sys.version_info[:2] == '%s' and [n for n in %r if not getattr(u.find_spec(n), 'origin', None)] else 0)") % (PYTHON, list(NEEDED))
HERE = os.path.dirname(os.path.abspath(__file__))
CHANGED = 4  # the exit status if what was listed is not there any more: launchers/payload.c
MACHINES = {62: "x86_64", 183: "aarch64"}
# What every machine with glibc has.
EVERYWHERE = re.compile(r"(libc|libm|libpthread|libdl|librt|libutil|ld-linux[\w-]*)\.so\.\d+$")


LOADABLE = b"\x7fELF\2\1"
SYMBOLS = 2  # the type of a section with names that only debuggers want


def segments(content):
    """What the loader reads: (type, flags, offset, address, address, size in the file) of each."""
    start, size, count = struct.unpack_from("<Q", content, 32)[0], *struct.unpack_from("<HH", content, 54)
    return [struct.unpack_from("<IIQQQQ", content, start + size * k) for k in range(count)]


def stripped(content):
    """The same program without what only debuggers and linkers read, which is most of one that was not stripped. It stands behind what
    the loader reads. (`strip` does the same, but few machines have it.)"""
    if content[:6] != LOADABLE:
        return content
    start, size, count = struct.unpack_from("<Q", content, 40)[0], *struct.unpack_from("<HH", content, 58)
    if SYMBOLS not in [struct.unpack_from("<I", content, start + size * k + 4)[0] for k in range(count)]:
        return content
    at, each, headers = struct.unpack_from("<Q", content, 32)[0], struct.unpack_from("<H", content, 54)[0], segments(content)
    whole = bytearray(content[:max([at + each * len(headers)] + [offset + length for _, _, offset, _, _, length in headers])])
    struct.pack_into("<Q", whole, 40, 0)  # where sections are listed,
    struct.pack_into("<HH", whole, 60, 0, 0)  # how many they are, and which has their names
    return bytes(whole)


class Elf:
    """What a program is for, and what it needs. Only 64-bit little-endian files, as both architectures have them."""

    def __init__(self, content):
        self.machine, self.needed, self.libc = "", [], "2.0"
        if content[:6] != LOADABLE:
            return
        self.machine = MACHINES.get(struct.unpack_from("<H", content, 18)[0], "")
        headers = segments(content)
        versions = [tuple(map(int, found.split(b"."))) for found in set(re.findall(rb"\0GLIBC_(\d+\.\d+)(?=[.\0])", content))]
        self.libc = "%d.%d" % max(versions, default=(2, 0))
        for kind, _, offset, _, _, length in headers:
            if kind == 2:
                self.needed = self.names(content, headers, content[offset:offset + length])

    @staticmethod
    def names(content, headers, dynamic):
        """The libraries that the dynamic section names."""
        entries = [struct.unpack_from("<QQ", dynamic, at) for at in range(0, len(dynamic) - 15, 16)]
        address = next((value for tag, value in entries if tag == 5), 0)
        table = next((offset + address - at for kind, _, offset, at, _, length in headers if kind == 1 and at <= address < at + length), 0)
        return [content[table + value:content.index(b"\0", table + value)].decode() for tag, value in entries if tag == 1]


def installed(agent):
    """{path there: (mode, bytes)} of this installation."""
    files = {}
    for name in PROGRAMS:
        with open(os.path.join(os.path.dirname(agent), name), "rb") as file:
            files["libexec/cellspan/" + name] = (0o755, stripped(file.read()))
    top = os.path.dirname(HERE)
    for at, folders, names in os.walk(top):
        folders[:] = [folder for folder in folders if folder != "__pycache__"]
        for name in names:
            path = os.path.join(at, name)
            with open(path, "rb") as file:
                files["%s/cellspan/%s" % (PACKAGE, os.path.relpath(path, top))] = (0o644, stripped(file.read()))
    return files


def of_wheel(path):
    """The same of a wheel."""
    files = {}
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            inside = name.partition(".data/data/")[2]
            if inside in ["libexec/cellspan/" + program for program in PROGRAMS]:
                files[inside] = (0o755, stripped(wheel.read(name)))
            elif inside.startswith(PACKAGE + "/") and not inside.endswith("/"):
                files[inside] = (0o644, stripped(wheel.read(name)))
    return files


# -- the packages that ranks need


def places():
    """Where this Python's packages are. (Without the module site, as here, sys.path has none of them.)"""
    import site
    import sysconfig

    prefix = os.path.dirname(os.path.dirname(os.path.abspath(sys.executable)))
    try:
        with open(os.path.join(prefix, "pyvenv.cfg"), encoding="utf-8") as file:
            shared = re.search(r"(?mi)^include-system-site-packages\s*=\s*true", file.read())
        # Debian's site takes this for no environment, since it has not begun, and names other folders.
        of_environment = [sysconfig.get_path(kind, "posix_prefix", {"base": prefix, "platbase": prefix}) for kind in ("purelib", "platlib")]
        prefixes, users = [sys.base_prefix] * bool(shared), bool(shared)
    except OSError:
        of_environment, prefixes, users = [], [sys.prefix], True
    own = [site.getusersitepackages()] if users and not os.environ.get("PYTHONNOUSERSITE") else []
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path] + own + list(dict.fromkeys(of_environment)) + site.getsitepackages(prefixes)


def closure(paths):
    """The distributions of the needed packages, and of all that these require."""
    from importlib import metadata

    found, todo = {}, list(NEEDED.values())
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in found or name in LEFT_OUT:
            continue
        # A folder without a file that tells of the package is left of one that was removed.
        one = next((one for one in metadata.distributions(name=name, path=paths) if any(map(one.read_text, METADATA_FILES))), None)
        if one:  # else it is for another system
            found[name] = one
            todo += [re.match(r"[\w.-]+", text)[0] for text in one.requires or () if not re.search(r"\bextra\s*==", text)]
    return found


def python_files(one):
    """(path, the file) of a distribution, without what is compiled, and tests."""
    base, listed = str(one.locate_file("")), one.read_text("top_level.txt")
    names = listed.split() if listed else {os.path.splitext(file.parts[0])[0] for file in one.files or () if file.suffix == ".py"}
    for name in sorted(names - {".."} if isinstance(names, set) else names):
        if os.path.isfile(os.path.join(base, name + ".py")):
            yield name + ".py", os.path.join(base, name + ".py")
        for at, folders, inside in os.walk(os.path.join(base, name)):
            folders[:] = [folder for folder in folders if folder not in ("__pycache__", "tests")]
            for file in inside:
                if not file.endswith((".so", ".pyc")):
                    path = os.path.join(at, file)
                    yield os.path.relpath(path, base), path


def packages():
    """{path there: (mode, bytes)} of the packages that ranks need; {}: this Python has not all of them, and all that they require, as files."""
    files = {}
    try:
        for name, one in closure(places()).items():
            inside = list(python_files(one))
            if not inside:  # elsewhere, as those of an editable install are: the others are of no use without it
                return {}
            for path, source in inside:
                with open(source, "rb") as file:
                    files["%s/%s" % (PACKAGES, path)] = (0o644, file.read())
            for part, text in [("METADATA", one.read_text("METADATA") or one.read_text("PKG-INFO")), ("entry_points.txt", one.read_text("entry_points.txt"))]:
                if text:
                    files["%s/%s-%s.dist-info/%s" % (PACKAGES, name.replace("-", "_"), one.version, part)] = (0o644, text.encode())
    except (OSError, ValueError, ImportError, KeyError):  # a Python without its sysconfig's data has no such folders
        return {}
    has = [module for module in NEEDED if files.keys() & {"%s/%s.py" % (PACKAGES, module), "%s/%s/__init__.py" % (PACKAGES, module)}]
    return files if has == list(NEEDED) else {}


# -- what is sent


def packed(files):
    """One line that lists them, and then their bytes: equal files give equal bytes, and so one hash."""
    order = sorted(files)
    index = json.dumps([[path, files[path][0], len(files[path][1])] for path in order]).encode()
    return b"".join([index, b"\n"] + [files[path][1] for path in order])


def foreign(files):
    """Why these can't run on another machine; "" if they can."""
    for path, (_, content) in sorted(files.items()):
        if content[:4] == b"\x7fELF":
            shared = [name for name in Elf(content).needed if not EVERYWHERE.match(name)]
            if shared:
                return "%s uses %s of this machine. A wheel of cellspan uses none: install that here, or set CELLSPAN_WHEELS to a folder with it" % (
                    os.path.basename(path), ", ".join(shared))
    return ""


def offers(agent, version, wheels):
    """What can be sent: (architecture, files, "") or (architecture, None, why not), the best one of each architecture first."""
    machine, why = "", ""
    if os.path.exists(agent):
        files = installed(agent)
        machine, why = Elf(files["libexec/cellspan/cellspan-agent"][1]).machine, foreign(files)
        if not why:
            yield machine, files, ""
    for path in sorted(glob.glob(os.path.join(glob.escape(wheels), "cellspan-%s-*manylinux*.whl" % glob.escape(version)))) if wheels else ():
        files = of_wheel(path)
        yield Elf(files.get("libexec/cellspan/cellspan-agent", (0, b""))[1]).machine, files, ""
    if why:
        yield machine, None, why


def chosen(agent, version, wheels):
    """The best of each architecture, with its bytes: (architecture, bytes, hash, its oldest glibc, ""), or why not at the end."""
    seen = set()
    for machine, files, why in offers(agent, version, wheels):
        if not machine or machine in seen:
            continue
        seen.add(machine)
        if files:
            whole = packed(files)
            yield machine, whole, hashlib.sha256(whole).hexdigest(), Elf(files["libexec/cellspan/cellspan-agent"][1]).libc, ""
        else:
            yield machine, b"", "", "", why


def main(agent, version, wheels="", wanted=""):
    """Lists what can be sent, or writes it."""
    also = packages()
    more = packed(also) if also else b""
    for machine, whole, digest, libc, why in chosen(agent, version, wheels):
        with_more = hashlib.sha256(whole + more).hexdigest() if also and digest else ""
        if not wanted:
            print("cannot %s %s" % (machine, why) if why else "can %s %s %s" % (machine, digest, libc))
            if with_more:
                print("can %s+%s %s %s" % (machine, PYTHON, with_more, libc))
        elif wanted in (digest, with_more):
            sys.stdout.buffer.write(zlib.compress(whole, 6) + (zlib.compress(more, 6) if wanted == with_more else b""))
            return
    if wanted:
        sys.exit(CHANGED)
    print("lacks %s\nscript" % LACKS)
    with open(os.path.join(HERE, "unpack.py"), encoding="utf-8") as file:
        print(file.read(), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
