# SPDX-License-Identifier: BSD-3-Clause
"""Runs a launcher alone, with a shell script in place of the agent."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import uuid

import processes
import pytest

LIMIT = 120  # seconds for what takes one; far off, to catch what hangs

# Writes "AGENT HOST SECRET FOLDER ARGUMENTS" to a file of its own, and lives until its stdin ends.
# The file comes last: a test may kill the launcher when it is there, and a later echo would end the shell by SIGPIPE.
AGENT = r"""#!/bin/sh
while [ -z "$CELLSPAN_SECRET" ] && IFS= read -r line; do
    case $line in
    CELLSPAN_AGENT=*) CELLSPAN_AGENT=${line#*=} ;;
    CELLSPAN_SECRET=*) CELLSPAN_SECRET=${line#*=} ;;
    esac
done
: "${CELLSPAN_AGENT:=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}}"
[ "$CELLSPAN_SECRET" = "%(secret)s" ] && secret=yes || secret=no
file=%(folder)s/$CELLSPAN_AGENT
trap 'rm -f "$file"; exit 0' TERM
printf '%%s\n' "$CELLSPAN_AGENT ${SLURMD_NODENAME:-$(hostname)} $secret $PWD gpus=$CUDA_VISIBLE_DEVICES $*" >"$file.new"
echo "hello from $CELLSPAN_AGENT" >&2
mv "$file.new" "$file"
while read -r line; do :; done
rm -f "$file"
"""


def launcher(name):
    """The path of cellspan-launch-NAME in the prefix that is tested."""
    cellspan = shutil.which("cellspan")
    assert cellspan, "cellspan is not on PATH"
    libexec = os.path.join(os.path.dirname(os.path.realpath(cellspan)), "..", "libexec", "cellspan")
    return os.path.normpath(os.path.join(libexec, "cellspan-launch-" + name))


class Launch:
    """A launcher that runs, with what it says."""

    def __init__(self, engine, folder, spec=None, ranks=None, env=None, command=None, program=None, arguments=()):
        self.secret = "secret-" + uuid.uuid4().hex
        self.folder = os.path.join(str(folder), uuid.uuid4().hex)
        os.mkdir(self.folder)
        self.agent = os.path.join(self.folder, "stand-in")
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write(AGENT % {"secret": self.secret, "folder": self.folder})
        os.chmod(self.agent, 0o755)
        self.marker = uuid.uuid4().hex
        environ = dict(os.environ, CELLSPAN_SECRET=self.secret, **{processes.MARKER: self.marker}, **(env or {}))
        words = [program or launcher(engine)]
        words += ["--spec", spec] if spec is not None else []
        words += ["--ranks", str(ranks)] if ranks else []
        self.process = subprocess.Popen(
            words + ["--", command or self.agent] + list(arguments), env=environ, cwd=str(folder), text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )
        self.out, self.errors = [], []
        self.readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.out), (self.process.stderr, self.errors))]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def read(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    def agents(self):
        """What the agents that live wrote of themselves, by number: lists of words."""
        found = {}
        for name in os.listdir(self.folder):
            if name.isdigit():
                try:
                    with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                        found[int(name)] = file.read().split()
                except FileNotFoundError:
                    pass
        return found

    def wait_agents(self, n):
        assert processes.wait_until(lambda: len(self.agents()) >= n, LIMIT), self.said()
        return self.agents()

    def wait_out(self, n):
        """Waits for the first n lines of stdout: a thread reads them, which may be behind the agents."""
        assert processes.wait_until(lambda: len(self.out) >= n, LIMIT), self.said()
        return self.out

    def wait_line(self, pattern):
        """Waits for a line of stdout or stderr in which the pattern is found; gives the match."""
        def look():
            matches = (re.search(pattern, line) for line in self.out + self.errors)
            return next((match for match in matches if match), None)

        found = processes.wait_until(look, LIMIT)
        assert found, "nothing says %r\n%s" % (pattern, self.said())
        return found

    def said(self):
        return "stdout:\n%s\nstderr:\n%s" % ("\n".join(self.out), "\n".join(self.errors))

    def failed(self):
        """The texts of the lines `failed I TEXT`, by I."""
        return {int(line.split()[1]): line.split(" ", 2)[2] for line in self.out if line.startswith("failed ")}

    def wait(self, limit=LIMIT):
        """Waits for the end, stdin still open; gives the exit status."""
        status = self.process.wait(limit)
        for reader in self.readers:
            reader.join(LIMIT)
        return status

    def end(self):
        """Ends stdin; gives the exit status."""
        self.process.stdin.close()
        return self.wait()

    def gone(self):
        """Waits until none of its processes and agents is left on this side."""
        left = processes.gone(self.marker, LIMIT)
        processes.wait_until(lambda: not self.agents(), LIMIT)  # those of other hosts are none of the processes
        assert not left and not self.agents(), "left: %s %s" % (left, self.agents())

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        processes.kill_all(self.marker)


@pytest.fixture
def launch(tmp_path):
    """Makes launches; what is left of them at the end is killed."""
    made = []
    os.chmod(str(tmp_path), 0o755)

    def make(engine, **options):
        made.append(Launch(engine, tmp_path, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
