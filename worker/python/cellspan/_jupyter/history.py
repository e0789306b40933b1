# SPDX-License-Identifier: BSD-3-Clause
"""IPython's history, with the same file and tables, but written after the cell's reply.

The file is opened when something asks for earlier sessions, or after the reply to the first cell. A thread writes the lines.
"""

from __future__ import annotations

import atexit
import fnmatch
import os
import re
import threading
import time

from IPython.core.history import HistoryManager

from .._base import threads

LEAVES = re.compile(r"(exit|quit)(\s*\(.*\))?$")  # is not stored, but has a number
GATHER = 0.25  # seconds between a cell's reply and the write of its line


class History(HistoryManager):
    """The lists of this session in memory, and the file."""

    _i00 = _i = _ii = _iii = ""  # traits that nobody observes; assigned for each cell

    def __init__(self, shell=None, config=None, wanted=True, **traits):
        super().__init__(shell=shell, config=config, enabled=False, **traits)
        self._wanted = wanted
        self._opened = False
        self._opening = threading.RLock()
        self._writing = threading.RLock()
        self._flag = threading.Event()
        self._saver = None
        self.db_cache_size = 1 << 30  # so that IPython never uses its own thread

    def open(self):
        """Opens the file, once. If that fails (read-only home, full disk), the history stays in memory."""
        if self._opened or not self._wanted:
            return
        with self._opening:
            if self._opened:
                return
            self.enabled = True
            try:
                if not self.hist_file:
                    self.hist_file = str(self._get_hist_file_name())
                self.init_db()
                self.new_session()
            except Exception:  # noqa: BLE001 - no sqlite3, a read-only home, a locked or broken file
                self._wanted = self.enabled = False
            self._opened = True

    def store_inputs(self, line_num, source, source_raw=None):
        """As IPython's, but In[line_num] is always this cell, even if earlier cells were not stored, and lines that no file gets are not
        kept for one. IPython's looks at traits a dozen times, which takes as long as a small cell."""
        raw = source if source_raw is None else source_raw
        leaves = LEAVES.match(raw.strip())
        line = [text if leaves else text.rstrip("\n") for text in (source, raw)]
        for kept, text in zip((self.input_hist_parsed, self.input_hist_raw), line):
            if len(kept) != line_num:
                del kept[line_num:]
                kept.extend([""] * (line_num - len(kept)))
            kept.append(text)
        if leaves:
            return
        if self._wanted:
            with self.db_input_cache_lock:
                self.db_input_cache.append((line_num, *line))
        self._iii, self._ii, self._i, self._i00 = self._ii, self._i, self._i00, line[1]
        self.shell.push({"_i": self._i, "_ii": self._ii, "_iii": self._iii, f"_i{line_num}": line[1]}, interactive=False)

    def save(self):
        """Call it after a cell's reply: writes its line in the background."""
        if not self._wanted or not self.db_input_cache:
            return
        if self._saver is None:
            try:
                self._saver = threads.begin("history", self._save)
            except RuntimeError:  # the user's limit of threads: the next cell tries again
                return
            atexit.register(self._last)
        self._flag.set()

    def _save(self):
        pid = os.getpid()
        while os.getpid() == pid:
            self._flag.wait()
            time.sleep(GATHER)  # so that several cells share a write, and the next cell does not wait for the disk
            self._flag.clear()
            try:
                self.writeout_cache()
            except Exception:  # noqa: BLE001 - a full disk must neither end the thread nor disturb the cell
                pass

    def _last(self):
        try:
            self.writeout_cache()
        except Exception:  # noqa: BLE001 - the process ends, so nobody can be told
            pass

    def writeout_cache(self, conn=None):
        """Writes the waiting lines. Returns when these, and those that a thread was writing, are in the file."""
        self.open()
        with self._writing:
            with self.db_input_cache_lock:
                lines, self.db_input_cache = self.db_input_cache, []
            with self.db_output_cache_lock:
                outputs, self.db_output_cache = self.db_output_cache, []
            if not self.enabled:
                return
            self._insert("INSERT OR REPLACE INTO history VALUES (?, ?, ?, ?)", lines)
            self._insert("INSERT OR REPLACE INTO output_history VALUES (?, ?, ?)", outputs)

    def _insert(self, statement, lines):
        if lines:
            with self.db:
                self.db.executemany(statement, [(self.session_number,) + tuple(line) for line in lines])

    def _run_sql(self, *args, **kwargs):
        self.writeout_cache()
        if not self.enabled:
            return iter(())
        with self._writing:
            found = super()._run_sql(*args, **kwargs)
            return iter(list(found))

    def get_tail(self, n=10, raw=True, output=False, include_latest=False):
        self.open()
        if self.enabled:
            return super().get_tail(n, raw=raw, output=output, include_latest=include_latest)
        lines = self._here(raw, output)
        return _last(lines if include_latest else lines[:-1], 10 if n is None else n)

    def search(self, pattern="*", raw=True, search_raw=True, output=False, n=None, unique=False):
        self.open()
        if self.enabled:
            return super().search(pattern, raw=raw, search_raw=search_raw, output=output, n=n, unique=unique)
        texts = self.input_hist_raw if search_raw else self.input_hist_parsed
        found = [line for line in self._here(raw, output) if fnmatch.fnmatchcase(texts[line[1]], pattern)]
        if unique:
            found = list({line[2]: line for line in found}.values())
        return iter(_last(found, len(found) if n is None else n))

    def _here(self, raw, output):
        """The lines of this session, for a process that has no file: a rank, or home without a place to write."""
        return [line for line in super().get_range(0, 1, None, raw=raw, output=output) if self.input_hist_raw[line[1]]]

    def get_range(self, *args, **kwargs):
        self.open()
        return super().get_range(*args, **kwargs)

    def get_session_info(self, *args, **kwargs):
        self.open()
        return super().get_session_info(*args, **kwargs)

    def get_last_session_id(self):
        self.open()
        return super().get_last_session_id()

    def reset(self, new_session=True):
        self.open()
        return super().reset(new_session)

    def end_session(self):
        if self._opened and self.enabled:
            super().end_session()

    def forked(self):
        """In the child of a fork: the file belongs to the parent, so write nothing."""
        self._wanted = self.enabled = False
        self._opened = True


def _last(lines, n):
    return lines[max(0, len(lines) - n) :]
