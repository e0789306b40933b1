# SPDX-License-Identifier: BSD-3-Clause
"""Images of containers, made of this machine's own programs: no registry is asked. An image has a shell, a few programs and a Python of
its own, with a module `of_the_image` that is nowhere else."""

from __future__ import annotations

import os
import shutil
import subprocess

PROGRAMS = ("sh cat cut env find getconf head id kill ls mkdir mktemp mv ps readlink rm rmdir sleep sort stat tail timeout touch tr true uname wc").split()
PYTHON = "/usr/bin/python3.11"
LIBRARY = "/usr/lib/python3.11"
PATH = "/usr/local/bin:/usr/bin:/bin"


def libraries(*programs):
    """The paths of the shared libraries that they load."""
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    found = (word for line in said.splitlines() for word in line.split() if word.startswith("/") and not word.endswith(":"))
    return sorted(path for path in set(found) if os.path.isfile(path))


def take(root, path, to=None):
    """Copies a file of this machine into an image, with the links to it followed."""
    at = root + (to or path)
    os.makedirs(os.path.dirname(at), exist_ok=True)
    if not os.path.exists(at):
        shutil.copy2(path, at)


def make_root(root, also=(), python=True):
    """The file system of an image. also: programs whose libraries it has as well."""
    for folder in ("usr/bin", "usr/lib", "usr/lib64", "etc", "tmp", "root", "proc", "dev", "sys", "run", "var/tmp"):
        os.makedirs("%s/%s" % (root, folder))
    for name in ("bin", "lib", "lib64"):
        os.symlink("usr/" + name, "%s/%s" % (root, name))
    programs = [path for path in (shutil.which(name, path="/usr/bin:/bin") for name in PROGRAMS) if path]
    for path in programs:
        take(root, os.path.realpath(path), "/usr/bin/" + os.path.basename(path))
    modules = []
    if python:
        take(root, PYTHON)
        os.symlink("python3.11", root + "/usr/bin/python3")
        shutil.copytree(LIBRARY, root + LIBRARY, symlinks=True, ignore=shutil.ignore_patterns("test", "idlelib", "__pycache__", "ensurepip", "config-*", "lib2to3", "tkinter"))
        folder = LIBRARY + "/lib-dynload"
        modules = [PYTHON] + [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
        with open(root + LIBRARY + "/of_the_image.py", "w", encoding="ascii") as file:
            file.write("value = 'of the image'\n")
    for path in libraries(*programs, *modules, *also):
        take(root, path)
    with open(root + "/etc/os-release", "w", encoding="ascii") as file:
        file.write('ID=cellspan-test\nNAME="an image of cellspan\'s tests"\n')
    for name, line in (("passwd", "root:x:0:0:root:/root:/bin/sh"), ("group", "root:x:0:")):
        with open("%s/etc/%s" % (root, name), "w", encoding="ascii") as file:
            file.write(line + "\n")


def pack(root, tar):
    """A tar of it, which `podman import` takes."""
    subprocess.run(["tar", "--numeric-owner", "-C", root, "-cf", tar, "."], check=True)
