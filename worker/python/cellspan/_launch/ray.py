# SPDX-License-Identifier: BSD-3-Clause
"""The engine `ray`: one actor on each node, in a placement group, and one agent as a child of each actor.

SPEC is `[ADDRESS][*N] [--nodes N] [--cpus N] [--gpus N] [--runtime-env JSON]`; docs/launchers.md describes it. An agent ends with
its actor, because its stdin does; Ray ends the actors and gives the resources back when this process, its driver, ends.
"""
from __future__ import annotations

import json
import math
import os
import shlex
import socket
import subprocess
import sys
import time

from .launcher import Cannot, Failed, passed_on

LEAST = (2, 10)  # get_accelerator_ids() and the errors that are read here
INSTALL = 'pip install "ray[default]"'
CONNECT_S, POLL_S, END_S = 5, 2, 10
DRAIN_S = 30  # of a node without a deadline
NUMBERS = ("--nodes", "--cpus", "--gpus")


class Spec:
    """What SPEC says. each: ranks of an agent, with `*N`; 0: not said. cpus, gpus: of a rank; gpus None: one, if the cluster has any."""

    def __init__(self, text):
        self.address, self.each, self.nodes, self.cpus, self.gpus, self.runtime_env = "", 0, 0, 1, None, None
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise Cannot("ray:%s: %s: write both quotes" % (text, error)) from None
        if words and not words[0].startswith("--"):
            self._take_address(words.pop(0))
        while words:
            option, equals, value = words.pop(0).partition("=")
            if option not in (*NUMBERS, "--runtime-env"):
                raise Cannot("ray:%s: there is no option %s. There are: %s and --runtime-env" % (text, option, ", ".join(NUMBERS)))
            if not equals:
                if not words:
                    raise Cannot("ray:%s: %s needs a value" % (text, option))
                value = words.pop(0)
            self._take(option, value)
        if self.each and self.nodes:
            raise Cannot("ray:%s: *%d says how many ranks an agent has, and --nodes on how many nodes agents are: leave one of them out" % (text, self.each))

    def _take_address(self, word):
        address, star, each = word.partition("*")
        if star and not (each.isdecimal() and int(each)):
            raise Cannot("ray:%s: *%s: write a number of ranks, such as *4" % (word, each))
        if address.startswith("ray://"):
            raise Cannot("ray:%s: that is an address of Ray Client; write the one of the cluster itself, HOST:PORT as `ray start --address` takes it, in a "
                         "notebook on one of its nodes" % word)
        self.address, self.each = address, int(each or 0)

    def _take(self, option, value):
        if option == "--runtime-env":
            try:
                self.runtime_env = json.loads(value)
            except ValueError as error:
                raise Cannot("--runtime-env %s: that is no JSON: %s; write it as {\"pip\": [\"numpy\"]}, in quotes" % (value, error)) from None
            if not isinstance(self.runtime_env, dict):
                raise Cannot("--runtime-env %s: that is no object of JSON; write it as {\"pip\": [\"numpy\"]}, in quotes" % value)
            return
        if not value.isdecimal() or (option != "--gpus" and not int(value)):
            raise Cannot("%s %s: write a number" % (option, value))
        setattr(self, option[2:], int(value))


def plan(spec, ranks, nodes):
    """[(ranks, resources)] of the agents: a bundle each. ranks 0: not said. nodes: the resources of each node of the cluster, in all."""
    gpus = spec.gpus if spec.gpus is not None else int(any(node.get("GPU", 0) >= 1 for node in nodes))

    def bundle(n):
        return {"CPU": n * spec.cpus, **({"GPU": n * gpus} if gpus else {})}

    def room(node):
        return int(min(node.get(name, 0) // amount for name, amount in bundle(1).items()))

    rooms = sorted((room(node) for node in nodes), reverse=True)
    if spec.each:
        count = math.ceil(ranks / spec.each) if ranks else sum(k // spec.each for k in rooms)
        if sum(k // spec.each for k in rooms) < max(count, 1):
            raise Cannot(_too_much(ranks or spec.each, bundle(spec.each), nodes, ", %d ranks together" % spec.each))
        return [(spec.each, bundle(spec.each))] * count
    if spec.nodes and not ranks:
        ranks = spec.nodes * max(1, rooms[spec.nodes - 1] if spec.nodes <= len(rooms) else 1)
    ranks = ranks or max(1, sum(rooms))
    count = min(spec.nodes, ranks) or next((k for k in range(1, len(rooms) + 1) if rooms[k - 1] * k >= ranks or _fits(ranks, rooms[:k])), 0)
    if not count:  # with --nodes the cluster may grow
        raise Cannot(_too_much(ranks, bundle(1), nodes, ""))
    return [(n, bundle(n)) for n in _blocks(ranks, count)]


def _blocks(ranks, count):
    return [ranks // count + (k < ranks % count) for k in range(count)]


def _fits(ranks, rooms):
    return all(n <= room for n, room in zip(_blocks(ranks, len(rooms)), rooms))


def _words(resources):
    return " ".join("%g %s" % (amount, name) for name, amount in resources.items()) or "nothing"


def _too_much(ranks, each, nodes, together):
    has = ", ".join(_words({name: node.get(name, 0) for name in each}) for node in nodes[:8]) + (", …" if len(nodes) > 8 else "")
    return "%d rank%s with %s each%s: the cluster has no room for them, its nodes have %s; ask for fewer ranks, or write --nodes N to wait for a cluster that " \
           "grows" % (ranks, "s" * (ranks != 1), _words(each), together, has or "nothing")


# ---- on a node ----

def actor():
    """The actor's class. It is pickled as it is, for a node that lacks cellspan, so it names nothing of this module."""
    class CellspanAgent:
        def where(self):
            import socket

            import ray

            here = ray.get_runtime_context()
            return socket.gethostname(), here.get_accelerator_ids().get("GPU", []), here.get_node_id()

        def start(self, sent, arguments, passed, gpus):
            """Starts the agent. ("", the key that it has made), or why there is none."""
            import os
            import subprocess
            import sys

            names, env = {}, {**os.environ, "CELLSPAN_REMOTE_PYTHON": sys.executable, **passed, "CUDA_VISIBLE_DEVICES": ",".join(gpus)}
            exec(sent[:sent.index(0)], names)  # noqa: S102 - _install/find_agent.py
            try:
                path = names["agent"](sent, env)
            except RuntimeError as error:
                return str(error), ""
            self.agent = subprocess.Popen([path, *arguments, "--sealed"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
            said = self.agent.stdout.readline().decode()
            return ("", said.split()[1]) if said.startswith("key ") else (self.wait()[1], "")

        def begin(self, number, sealed):
            self.agent.stdin.write(("CELLSPAN_AGENT=%d\nCELLSPAN_SEALED=%s\n" % (number, sealed)).encode())
            self.agent.stdin.flush()

        def wait(self):
            """(exit status, the last lines of stderr) of the agent."""
            import collections

            last = [line.decode("utf-8", "replace").strip() for line in collections.deque(self.agent.stderr, 3)]
            return self.agent.wait(), "; ".join(line for line in last if line)

        def end(self):
            if hasattr(self, "agent"):
                self.agent.stdin.close()
                self.agent.wait()

    return CellspanAgent


# ---- on the notebook's machine ----

def the_client():
    try:
        import ray
    except ImportError as error:
        raise Cannot("Ray is not in the notebook's Python, %s (%s): %s" % (sys.executable, error, INSTALL)) from None
    version = tuple(int(part) for part in ray.__version__.split(".")[:2])
    if version < LEAST:
        raise Cannot("Ray %s is too old, %d.%d is the first that works: %s" % (ray.__version__, *LEAST, INSTALL.replace("install", "install --upgrade")))
    return ray


def refuse_silence(address):
    """Ray itself waits long for an address at which nothing is, and ends the process."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        raise Cannot("ray:%s: write HOST:PORT, as `ray start --address` takes it" % address)
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except OSError as error:
        raise Failed("no Ray cluster answers at %s: %s; see by `ray status --address %s` whether it is up" % (address, error, address)) from None


def check_runtime_env(given):
    """By Ray itself, for whose connect() it would look like a notebook that is not let in."""
    from ray.runtime_env import RuntimeEnv
    try:
        RuntimeEnv(**given)
    except (TypeError, ValueError) as error:
        raise Cannot("--runtime-env: Ray does not take it: %s" % one_line(error)) from None


def connect(launch, ray, spec):
    if spec.runtime_env is not None:
        check_runtime_env(spec.runtime_env)
    address = spec.address or os.environ.get("RAY_ADDRESS", "")
    if address.startswith("ray://"):
        raise Cannot("RAY_ADDRESS=%s is an address of Ray Client; write ray:HOST:PORT, or unset it" % address)
    if address and address != "auto":
        refuse_silence(address)
    try:
        with launch.answer_of("the Ray cluster " + ("at " + address if address else "on this machine")):
            ray.init(address=address or "auto", runtime_env=spec.runtime_env, log_to_driver=False, logging_level="error")
    except Exception as error:
        raise Failed("Ray does not let this notebook in%s: %s; a notebook must be on a node of the cluster (`ray start --address=HOST:PORT`), with the cluster's "
                     "versions of Ray and Python" % (" at " + address if address else "", one_line(error))) from None
    return address


def one_line(error):
    """An error in Ray's words, without the table of the actor that Ray puts between, and without what might have been."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("\t")]
    text = " ".join(lines).partition(" Some common causes include")[0] or type(error).__name__
    return text if len(text) <= 400 else text[:399] + "…"


def wait_for(launch, ray, group, bundles):
    """Waits until Ray has the resources, and says what it waits for. False: the kernel wants the end."""
    said = ""
    while not group.wait(POLL_S):
        if launch.over.is_set():
            return False
        table = ray.util.placement_group_table(group)
        state = "%s, %s" % (table.get("state", "PENDING"), table.get("stats", {}).get("scheduling_state", "QUEUED"))
        free, all_ = ray.available_resources(), ray.cluster_resources()
        names = sorted({name for _, bundle in bundles for name in bundle})
        text = "Ray's placement group is %s: %s wanted; the cluster has %s" % (
            state, " + ".join(_words(bundle) for _, bundle in bundles[:8]) + (" + …" if len(bundles) > 8 else ""),
            ", ".join("%g of %g %s free" % (free.get(name, 0), all_.get(name, 0), name) for name in names))
        if text != said:
            launch.say(text)
            said = text
    return True


def seal(launch, number, key):
    done = subprocess.run([launch.command[0], "--seal", key], env={**os.environ, "CELLSPAN_SECRET": launch.secret_of(number)}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failed(done.stderr.strip())
    return done.stdout.strip()


class Drains:
    """Nodes that Ray drains, as before a preemption. The kernel is told once of each agent there, and keeps that until the agent is up.

    No public name of Ray tells them: 2.60.0 was read, where ray.nodes() and ray.util.state know whether a node lives, and Ray's own training
    asks as is done here. If that is not there either, a line says what is missing, and all else works.
    """

    def __init__(self, launch, ray):
        self.launch, self._ask = launch, _asker_for_drains(ray)
        self.agents = {}  # the node's id: the numbers of its agents
        self._reported, self._due = set(), 0.0
        self._version = ray.__version__
        if self._ask is None:
            self._say_none()

    def _say_none(self):
        self.launch.say("Ray %s does not tell cellspan which nodes it drains: ranks get no notice before that" % self._version)

    def add(self, number, node):
        self.agents.setdefault(node, []).append(number)

    def poll(self):
        if self._ask is None or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + POLL_S
        for node, deadline in self._draining().items():
            for number in self.agents.get(node, ()):
                if number not in self._reported:
                    self.launch.notice(number, deadline / 1000 - time.time() if deadline else DRAIN_S, "Ray drains the node")
                    self._reported.add(number)

    def _draining(self):
        """{id: when it ends, in ms; 0: Ray does not say}."""
        try:
            nodes = self._ask()
        except (TypeError, AttributeError):  # of a Ray where it is another function
            self._ask = None
            self._say_none()
            return {}
        except Exception:  # the cluster does not answer just now
            return {}
        return nodes if isinstance(nodes, dict) else dict.fromkeys(nodes or (), 0)  # of older versions: without a time


def _asker_for_drains(ray):
    """The function that tells; None: there is none."""
    try:
        ask = ray._private.state.state.get_draining_nodes
    except AttributeError:
        return None
    return ask if callable(ask) else None


def start_agents(launch, ray, actors, bundles, drains):
    """Starts the agent of each actor; {reference of its end: (number, name)} of those that came up."""
    sent, passed = ray.put(launch.sent()), passed_on()
    running, names = {}, {}
    where = {one.where.remote(): number for number, one in enumerate(actors)}
    keys = {}

    def step(waiting, then):
        while waiting and not launch.over.is_set():
            drains.poll()
            for ref in ray.wait(list(waiting), num_returns=1, timeout=0.5)[0]:
                number = waiting.pop(ref)
                try:
                    then(number, ray.get(ref))
                except ray.exceptions.RayError as error:
                    launch.failed(number, "%s: Ray: %s" % (names.get(number, "node %d" % number), one_line(error)))

    def located(number, answer):
        names[number], gpus, node = answer
        drains.add(number, node)
        launch.node(number, names[number], bundles[number][0])
        keys[actors[number].start.remote(sent, launch.command[1:], passed, [str(gpu) for gpu in gpus])] = number

    def started(number, answer):
        why, key = answer
        if why:
            launch.failed(number, "%s: %s" % (names[number], why))
            return
        actors[number].begin.remote(number, seal(launch, number, key))
        running[actors[number].wait.remote()] = number, names[number]

    step(where, located)
    step(keys, started)
    return running


def watch_agents(launch, ray, running, drains):
    """Until all agents have ended, or the kernel wants the end."""
    while running and not launch.over.is_set():
        drains.poll()
        for ref in ray.wait(list(running), num_returns=1, timeout=0.5)[0]:
            number, name = running.pop(ref)
            try:
                status, last = ray.get(ref)
            except ray.exceptions.RayError as error:
                launch.failed(number, "%s: Ray has ended the agent's actor: %s" % (name, one_line(error)))
                continue
            if status and not launch.over.is_set():
                launch.failed(number, "%s: %s" % (name, last or "cellspan-agent ended with status %d" % status))


def main(launch):
    spec = Spec(launch.spec)
    launch.say("connecting to Ray")
    ray = the_client()
    launch.end(END_S)
    connect(launch, ray, spec)
    bundles = plan(spec, launch.ranks, [node["Resources"] for node in ray.nodes() if node["Alive"]])
    group = ray.util.placement_group([bundle for _, bundle in bundles], strategy="PACK" if spec.each else "STRICT_SPREAD")
    if wait_for(launch, ray, group, bundles):
        launch.nodes(len(bundles), by_ranks=True)
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        kind = ray.remote(actor())
        actors = [kind.options(num_cpus=bundle["CPU"], num_gpus=bundle.get("GPU", 0), max_concurrency=4, max_restarts=0,
                               scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number)).remote()
                  for number, (_, bundle) in enumerate(bundles)]
        drains = Drains(launch, ray)
        watch_agents(launch, ray, start_agents(launch, ray, actors, bundles, drains), drains)
        ray.wait([one.end.remote() for one in actors], num_returns=len(actors), timeout=2)
    ray.shutdown()
