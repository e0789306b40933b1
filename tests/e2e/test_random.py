# SPDX-License-Identifier: BSD-3-Clause
"""Random steps in a notebook. After each step, home's and every rank's variables are compared with the model of rules.py.

It takes so many steps, and goes on until each kind of step had something to do, with a fixed seed. CELLSPAN_TEST_RANDOM_STEPS and
CELLSPAN_TEST_RANDOM_SEED set others; tests/soak runs an hour with another seed. A failure shows the seed and the last steps, as cells
that can be run by hand.
"""

from __future__ import annotations

import ast
import copy
import os
import pathlib
import random
import re
import signal
import time

import processes
import pytest
from client import Notebook, by_rank
from rules import KINDS, NAMES, Conflict, World, words

STEPS = int(os.environ.get("CELLSPAN_TEST_RANDOM_STEPS", "200"))
SEED = int(os.environ.get("CELLSPAN_TEST_RANDOM_SEED", "20261122"))
MOST = 4  # ranks
LISTS = "list", "rebound"  # what is pulled is a list, so that cells can change it as these kinds do
RANK = "int(__import__('os').environ['RANK'])"
# What of the names a side holds, without a word that cellspan could take for a name that the cell reads.
LOOK = "{k: eval(e) for k, e in %r.items() if k in globals()}" % {
    name: KINDS[kind].look.format(name=name) for name, kind in NAMES.items()
}


def spec(ranks):
    return ",".join(map(str, ranks))


def numbers(spec):
    """The ranks of "0,2-3"."""
    ends = [[int(end) for end in part.split("-")] for part in spec.split(",")]
    return {rank for pair in ends for rank in range(pair[0], pair[-1] + 1)}


class Walk:
    """One notebook, the model beside it, and the cells so far."""

    def __init__(self, seed, folder):
        self.random = random.Random(seed)
        self.nb = Notebook()
        self.world = World()
        self.before = None  # the world before the last step, if its cell failed on a rank that lacked a name
        self.cells = []
        self.folder = pathlib.Path(folder)
        self.meetings = 0
        self.number = 1000  # beyond the numbers that Python keeps one object of

    def next_number(self):
        self.number += 100
        return self.number

    # ---- cells

    def run(self, code, **options):
        self.cells.append(code)
        return self.nb.run(code, **options)

    def ok(self, code):
        return self.run(code).assert_ok()

    def look_at_home(self):
        return ast.literal_eval(self.nb.ok("print(%s)" % LOOK).stdout)

    def look_at_ranks(self):
        n = len(self.world.ranks)
        if n == 0:
            return []
        self.world.follow(range(n))
        return ast.literal_eval(self.nb.ok("%%%%distribute -n %d --gather --no-capture\n%s" % (n, LOOK)).value)

    def compare(self):
        home = {name: own.value for name, own in self.world.home.items()}
        assert self.look_at_home() == home
        ranks = self.look_at_ranks()
        for rank, (found, wanted) in enumerate(zip(ranks, self.world.ranks)):
            if self.before:
                self.take_back(found, wanted, self.before.ranks[rank])
            assert found == {name: held.value for name, held in wanted.items()}, "rank %d" % rank

        self.before = None

    @staticmethod
    def take_back(found, wanted, before):
        """A rank that is interrupted while it loads what travelled, for another rank has failed already, has what it had before. (It
        gets that with the next cell that reads it: the steps after this one hold the kernel to it.)"""
        for name in [name for name, held in wanted.items() if found.get(name) != held.value]:
            del wanted[name]
            if name in before:
                wanted[name] = before[name]

    # ---- what steps are about

    def some(self, names):
        return self.random.sample(sorted(names), self.random.randint(1, min(3, len(names)))) if names else []

    def name(self):
        return self.random.choice(sorted(NAMES))

    def own_names(self):
        """Names of home's that can be named for sending. Of what was pulled only those whose kind is a list, as that is."""
        return [name for name in self.some(self.world.home) if not self.world.home[name].pulled or NAMES[name] in LISTS]

    def where(self):
        """(options, ranks) of a cell: sometimes a subset, sometimes another size."""
        world, pick = self.world, self.random.random()
        if not world.ranks or pick < 0.1:
            n = self.random.randint(1, MOST)
            world.size_to(n)
            return " -n %d" % n, list(range(n))
        everybody = list(range(len(world.ranks)))
        if pick < 0.25:
            ranks = sorted(self.random.sample(everybody, self.random.randint(1, len(everybody))))
            return " -r " + spec(ranks), ranks
        return "", everybody

    # ---- steps at home

    def home_assigns(self):
        name, n = self.name(), self.next_number()
        kind = KINDS[NAMES[name]]
        self.ok(kind.new.format(name=name, n=n))
        self.world.assign(name, kind.made(n))

    def home_changes(self):
        name, n = self.name(), self.next_number()
        kind, own = KINDS[NAMES[name]], self.world.home.get(name)
        if own is None or (own.pulled and NAMES[name] not in LISTS) or kind.change is None:
            return
        self.ok(kind.change.format(name=name, n=n))
        if own.pulled and NAMES[name] == "rebound":
            self.world.assign(name, kind.changed(own.value, n))  # it is not the list that was pulled any more
        else:
            self.world.change(name, kind.changed(own.value, n))

    def home_binds_again(self):
        """The same object once more: no assignment."""
        name = self.name()
        if name in self.world.home and not self.world.home[name].pulled:
            self.ok("%s = %s" % (name, name))

    def home_deletes(self):
        if self.world.home:
            name = self.random.choice(sorted(self.world.home))
            self.ok("del " + words([name]))
            self.world.delete(name)

    def home_fails(self):
        self.run("print('before')\n1/0").assert_error("ZeroDivisionError")

    def home_is_interrupted(self):
        code = "import time\nprint('sleeps', flush=True)\ntime.sleep(100)"
        self.cells.append(code + "\n# interrupted")
        cell = self.nb.start(code)
        self.nb.wait_shown(cell, "sleeps")
        self.nb.km.interrupt_kernel()
        self.nb.wait(cell).assert_error("KeyboardInterrupt")

    def home_crashes(self):
        os.kill(self.nb.home_pid(), signal.SIGKILL)
        self.nb.run("pass")  # this one, or the one before it, may have failed
        self.ok("pass")
        self.world.forget_home()

    def home_resets(self):
        self.ok("%reset -f")
        self.world.forget_home()

    # ---- steps on ranks

    def on_ranks(self, reads, body, then=None, options=""):
        """A cell that reads names; then(rank): what it does to a rank. A cell that would change some ranks and fail on others, which may
        be interrupted before they change anything, is left out."""
        where, ranks = self.where()
        names = sorted(reads)
        before = copy.deepcopy(self.world)
        code = "%%%%distribute%s%s\n%s" % (where, options, body)
        try:
            self.world.travel(names, ranks)
        except Conflict as conflict:
            self.conflicts(self.run(code), conflict.args[0])
            return None
        lacking = [n for n in names if any(n not in self.world.ranks[r] for r in ranks)]
        if lacking and then:
            self.world = before
            return None
        cell = self.run(code)
        if lacking:
            cell.assert_error("NameError")
            assert any("'%s'" % name in cell.traceback for name in lacking), cell.traceback
            self.before = before
            return None
        cell.assert_ok()
        for rank in ranks if then else ():
            then(rank)
        return cell, ranks

    def conflicts(self, cell, names):
        assert cell.status == "error", "%s should conflict\n%s" % (sorted(names), cell.shown)
        said = cell.reply["evalue"]
        for name in names:
            assert re.search(r"\b%s\b" % name, said), said
        assert "%push" in said and "%pull" in said and "\n" not in said.strip(), said

    def ranks_read(self):
        names = self.some(NAMES)
        token = "token %d" % self.next_number()
        done = self.on_ranks(names, "[%s]\nprint(%r)" % (words(names), token))
        if done is not None:
            lines = by_rank(done[0].stdout) if len(self.world.ranks) > 1 and "[" in done[0].stdout else None
            if lines is not None:
                assert lines == {rank: [token] for rank in done[1]}, done[0].stdout
            else:
                assert done[0].stdout == token + "\n"

    def about_to_assign(self):
        """(name, a statement that ranks assign it by, what a rank has then, does home's small value go along?, options, ranks)"""
        name, n = self.name(), self.next_number()
        kind = KINDS[NAMES[name]]
        where, ranks = self.where()
        statement = kind.new.format(name=name, n="%d + %s" % (n, RANK))
        return name, statement, lambda rank: kind.made(n + rank), NAMES[name] not in ("function", "array", "pair"), where, ranks

    def meet(self, ranks):
        """Statements in which ranks wait for each other: when one fails, the others are past what they did before."""
        self.meetings += 1
        place = str(self.folder / ("%d-" % self.meetings))
        return "open(%r + str(%s), 'w').close()\nwhile len(__import__('glob').glob(%r)) < %d:\n    pass" % (
            place, RANK, place + "*", len(ranks))  # fmt: skip

    def ranks_assign(self):
        name, statement, made, sent, where, ranks = self.about_to_assign()
        self.ok("%%%%distribute%s\n%s" % (where, statement))
        self.world.follow(ranks)
        for rank in ranks:
            self.world.bind(name, rank, made(rank), sent)

    def ranks_assign_and_fail(self):
        name, statement, made, sent, where, ranks = self.about_to_assign()
        code = "%%%%distribute%s\n%s\n%s\n1/0" % (where, statement, self.meet(ranks))
        self.run(code).assert_error("ZeroDivisionError")
        self.world.follow(ranks)
        for rank in ranks:
            self.world.bind(name, rank, made(rank), sent)

    def ranks_fail_before_they_assign(self):
        name, statement, _, sent, where, ranks = self.about_to_assign()
        self.run("%%%%distribute%s\n1/0\n%s" % (where, statement)).assert_error("ZeroDivisionError")
        self.world.follow(ranks)
        for rank in ranks:
            self.world.offer(name, rank, sent)

    def ranks_bind_unseen(self):
        """By means of which the text of the cell does not tell."""
        name, statement, made, _, where, ranks = self.about_to_assign()
        if self.random.random() < 0.5:
            code = "exec(%r)" % statement
        else:
            body = "".join("    %s\n" % line for line in statement.splitlines())
            self.ok("%%%%distribute%s\ndef binds():\n    global %s\n%s" % (where, words([name]), body))
            code, where = "binds()", " -r " + spec(ranks)
            for rank in ranks:
                self.world.offer(name, rank, sent=True)  # this cell could assign it: nobody knows when its function is called
        self.world.follow(ranks)
        code = "%%%%distribute%s\n%s" % (where, code)
        if self.random.random() < 0.3:
            self.run(code + "\n%s\n1/0" % self.meet(ranks)).assert_error("ZeroDivisionError")
        else:
            self.ok(code)
        for rank in ranks:
            self.world.bind(name, rank, made(rank))

    def ranks_capture(self):
        """A cell that names what it wants of home's."""
        names = self.own_names()
        if not names:
            return
        where, ranks = self.where()
        cell = self.ok("%%%%distribute%s --capture %s\n[%s]" % (where, words(names).replace(" ", ""), words(names)))
        losers = self.world.capture(names, ranks)
        if losers:
            said = re.search(r"--capture replaces .* on ranks? (\S+), which they (?:had|may have) changed", cell.stderr)
            assert said and numbers(said.group(1)) == losers, cell.shown
        else:
            assert "--capture" not in cell.stderr, cell.shown

    def ranks_change(self):
        name, n = self.name(), self.next_number()
        kind = KINDS[NAMES[name]]
        if kind.change is None:
            return

        def then(rank):
            held = self.world.ranks[rank][name]
            held.value = kind.changed(held.value, n + rank)

        self.on_ranks([name], kind.change.format(name=name, n="%d + %s" % (n, RANK)), then)

    def ranks_delete(self):
        name = self.name()
        self.on_ranks([name], "%s\ndel %s" % (words([name]), words([name])), lambda rank: self.world.ranks[rank].pop(name))

    def ranks_fail(self):
        where, ranks = self.where()
        self.run("%%%%distribute%s\nraise LookupError('on purpose')" % where).assert_error("LookupError")
        self.world.follow(ranks)

    def ranks_are_interrupted(self):
        where, ranks = self.where()
        code = "%%%%distribute%s\nprint('sleeps', flush=True)\n__import__('time').sleep(100)" % where
        self.cells.append(code + "\n# interrupted")
        cell = self.nb.start(code)
        if len(self.world.ranks) > 1 or len(ranks) > 1:
            self.nb.wait(cell, 60, lambda: cell.stdout.count("sleeps") and self.all_sleep(cell, ranks))
        else:
            self.nb.wait_shown(cell, "sleeps")
        self.nb.km.interrupt_kernel()
        self.nb.wait(cell).assert_error("KeyboardInterrupt")
        self.world.follow(ranks)

    @staticmethod
    def all_sleep(cell, ranks):
        lines = by_rank(cell.stdout)
        return not lines or all("sleeps" in lines.get(rank, ()) for rank in ranks)

    def a_rank_dies(self):
        if not self.world.ranks:
            return
        victim = self.random.randrange(len(self.world.ranks))
        n = len(self.world.ranks)
        cell = self.run("%%%%distribute -n %d\nif %s == %d:\n    __import__('os')._exit(3)" % (n, RANK, victim))
        assert cell.status == "error", cell.shown
        self.world.follow([r for r in range(n) if r != victim])
        self.world.lose([victim])

    def a_rank_is_killed(self):
        """Between two cells."""
        if not self.world.ranks:
            return
        n = len(self.world.ranks)
        victim = self.random.randrange(n)
        pids = self.nb.rank_pids(n, "--no-capture")
        os.kill(pids[victim], signal.SIGKILL)
        assert processes.wait_until(lambda: not processes.alive(pids[victim]), 60)
        self.cells.append("# kill -9 rank %d" % victim)
        self.ok("import cellspan\nwhile any(r['rank'] == %d and r['pid'] == %d for r in cellspan.group().ranks()):\n    pass" % (victim, pids[victim]))
        self.world.lose([victim])

    # ---- what magics do

    def push(self):
        names = self.own_names()
        if not names or not self.world.ranks:
            return
        ranks = list(range(len(self.world.ranks)))
        option = ""
        if self.random.random() < 0.3:
            ranks = sorted(self.random.sample(ranks, self.random.randint(1, len(ranks))))
            option = " -r " + spec(ranks)
        self.ok("%push " + words(names).replace(",", "") + option)
        self.world.push(names, ranks)

    def pull(self):
        name, world = self.name(), self.world
        if NAMES[name] == "function" or not world.ranks:
            return
        into = self.name() if self.random.random() < 0.3 else name
        if KINDS[NAMES[into]].look != "{name}" or KINDS[NAMES[name]].look != "{name}":
            return
        code = "%%pull %s%s" % (name, " --into " + into if into != name else "")
        if all(name in held for held in world.ranks):
            self.ok(code)
            world.assign(into, [copy.deepcopy(held[name].value) for held in world.ranks], pulled=True)
        else:
            assert self.run(code).status == "error"

    def restart_ranks(self):
        if not self.world.ranks:
            return
        if self.random.random() < 0.5:
            rank = self.random.randrange(len(self.world.ranks))
            self.ok("%%ranks restart -r %d" % rank)
            self.world.lose([rank])
        else:
            self.ok("%ranks restart")
            self.world.lose(range(len(self.world.ranks)))

    def stop_ranks(self):
        self.ok("%ranks stop")
        self.world.stop()

    def restart_kernel(self):
        self.cells.append("# the kernel is restarted")
        self.nb.km.restart_kernel(now=self.random.random() < 0.5)
        self.nb.ready()
        self.world = World()

    STEPS = {
        "home_assigns": 16, "home_changes": 10, "home_binds_again": 2, "home_deletes": 5, "home_fails": 1, "home_is_interrupted": 1,
        "home_crashes": 0.4, "home_resets": 0.7, "ranks_read": 16, "ranks_assign": 7, "ranks_assign_and_fail": 4,
        "ranks_fail_before_they_assign": 4, "ranks_bind_unseen": 6, "ranks_capture": 5, "ranks_change": 14, "ranks_delete": 5,
        "ranks_fail": 1, "ranks_are_interrupted": 1, "a_rank_dies": 0.7, "a_rank_is_killed": 0.7, "push": 6, "pull": 6,
        "restart_ranks": 0.8, "stop_ranks": 0.4, "restart_kernel": 0.4,
    }  # fmt: skip

    def step(self, kinds):
        """One step of these kinds; gives its name and whether it had something to do."""
        name = self.random.choices(list(kinds), list(kinds.values()))[0]
        self.cells.append("# " + name)
        before = len(self.cells)
        getattr(self, name)()
        return name, len(self.cells) > before


def walk(seed, folder, go_on):
    """Steps while go_on(how many there were). Then steps of those kinds that had nothing to do until then. folder: an empty one."""
    it, steps, missing = Walk(seed, folder), 0, dict(Walk.STEPS)
    print("seed %d" % seed)
    try:
        while go_on(steps) or missing:
            # Most steps need a variable or ranks: some of the usual ones are between.
            name, done = it.step(Walk.STEPS if go_on(steps) or steps % 2 else missing)
            it.compare()
            steps += 1
            if done:
                missing.pop(name, None)
    except AssertionError as error:
        raise AssertionError("seed %d, step %d: %s\nthe cells until then:\n%s" % (
            seed, steps, error, "\n\n".join(it.cells[-40:]))) from error
    finally:
        it.nb.close()
    assert not it.nb.left, it.nb.left
    print("%d steps" % steps)


@pytest.mark.limit(600)
def test_random_steps_keep_to_the_rules(tmp_path):
    walk(SEED, tmp_path, lambda steps: steps < STEPS)


@pytest.mark.soak
@pytest.mark.limit(4200)
def test_random_steps_keep_to_the_rules_for_an_hour(tmp_path):
    seed, end = int(os.environ.get("CELLSPAN_TEST_RANDOM_SEED", str(int(time.time())))), time.monotonic() + 3600
    walk(seed, tmp_path, lambda steps: time.monotonic() < end)
