# SPDX-License-Identifier: BSD-3-Clause
"""Runs on an executor, in a barrier task of the engine spark: starts one agent and stays until it has ended.

The engine sends this text: an executor may have no cellspan. It imports the standard library and pyspark only.
"""
import os
import socket
import subprocess
import sys
import threading

SAID_MAX = 20  # lines of an agent that an error may show


def name_of(number, addresses):
    """What this node is called: the host, and if several tasks run on it, the task's number."""
    hosts = [address.rpartition(":")[0] for address in addresses]
    own = socket.gethostname()
    return "%s:%d" % (own, number) if hosts.count(hosts[number]) > 1 else own


def environment(settings, resources, number, secret):
    """The agent's: the task's own, without the secret of Spark's own Python processes, which ranks need not know."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON_WORKER_FACTORY_")}
    env.setdefault("CELLSPAN_REMOTE_PYTHON", sys.executable)
    env.update(settings)
    if "gpu" in resources:  # Spark itself leaves that to the task
        env["CUDA_VISIBLE_DEVICES"] = ",".join(resources["gpu"].addresses)
    env.update(CELLSPAN_AGENT=str(number), CELLSPAN_SECRET=secret)
    return env


def follow(stream, said):
    """Copies the agent's lines to the executor's log, and keeps the last ones."""
    for line in stream:
        said.append(line.rstrip("\n"))
        del said[:-SAID_MAX]
        sys.stderr.write(line)
        sys.stderr.flush()


def fail(number, name, text):
    """One line that the engine finds in what Spark says about the job."""
    raise RuntimeError("cellspan: agent %d on %s: %s" % (number, name, " ".join(text.split())))


def run(rows, context, sent, arguments, settings, folder):
    """rows: the task's part of the job's data, which is its number and its agent's secret."""
    ((number, secret),) = rows
    name = name_of(number, [info.address for info in context.getTaskInfos()])
    if context.attemptNumber() > 0:
        fail(number, name, "Spark has started the task again, and a key is good for one agent")
    names, env = {}, environment(settings, context.resources(), number, secret)
    exec(sent[:sent.index(0)], names)
    try:
        try:
            agent = names["agent"](sent, env)
        except RuntimeError as error:
            fail(number, name, str(error))
        run_agent([agent, *arguments, "--node", name, "--stdin", "none"], env, folder, number, name)
    finally:
        names["release"]()
    return [(number, name)]


def run_agent(command, env, folder, number, name):
    """Until it has ended."""
    # This thread stays until the agent has ended, and the agent ends when this process does: Spark leaves a task's children behind.
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
        cwd=folder if os.access(folder, os.R_OK | os.X_OK) else None)
    said = []
    reader = threading.Thread(target=follow, args=(process.stdout, said), daemon=True)
    reader.start()
    try:
        status = process.wait()
    finally:
        process.terminate()
    reader.join(2)  # what ranks have left may hold the pipe
    if status:
        how = "was killed by signal %d" % -status if status < 0 else "ended with status %d" % status
        fail(number, name, "cellspan-agent %s%s" % (how, ": " + said[-1] if said else ""))
