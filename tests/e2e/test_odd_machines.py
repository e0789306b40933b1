# SPDX-License-Identifier: BSD-3-Clause
"""Machines with faults, such as a full /dev/shm, or a clock that is a day off. What does no harm works, with a message."""

from __future__ import annotations

import ast
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from client import by_rank
from engines import HOST_TOOLS, Hosts, bring_up, missing
from jupyter_client.kernelspec import KernelSpecManager

CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
#define DAY 86400
int clock_gettime(clockid_t clock, struct timespec *t)
{
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    const int rc = real(clock, t);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        t->tv_sec += DAY;
    return rc;
}
int gettimeofday(struct timeval *t, void *zone)
{
    int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
    const int rc = real(t, zone);
    if (rc == 0)
        t->tv_sec += DAY;
    return rc;
}
time_t time(time_t *at)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (at)
        *at = t.tv_sec;
    return t.tv_sec;
}
"""


@pytest.fixture
def tomorrow(tmp_path):
    """Two hosts, on the second of which it is the same time tomorrow for agent and ranks; what a notebook needs to reach them."""
    cc = (os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or "").split()  # CC may have options
    if not cc:
        pytest.skip("no C compiler")
    (tmp_path / "clock.c").write_text(CLOCK)
    subprocess.run([*cc, "-shared", "-fPIC", "-o", str(tmp_path / "clock.so"), str(tmp_path / "clock.c"), "-ldl"], check=True)
    agent = pathlib.Path(shutil.which("cellspan")).resolve().parents[1] / "libexec" / "cellspan" / "cellspan-agent"
    wrapper = tmp_path / "prefix" / "libexec" / "cellspan" / "cellspan-agent"
    wrapper.parent.mkdir(parents=True)
    for hosts in bring_up(lambda: Hosts(2), HOST_TOOLS):
        wrapper.write_text("#!/bin/sh\nip -4 addr | grep -q '%s/' && export LD_PRELOAD=%s\nexec %s \"$@\"\n"
                           % (hosts.address("h2"), tmp_path / "clock.so", agent))
        wrapper.chmod(0o755)
        yield dict(hosts.variables(), CELLSPAN_REMOTE_PREFIX=str(tmp_path / "prefix"))
        assert hosts.left() == []


@pytest.mark.limit(240)
def test_a_clock_that_is_a_day_off_does_no_harm_and_is_told(tomorrow, fresh):
    nb = fresh(env=tomorrow)
    nb.ok("import numpy, time\nbig = numpy.arange(1_000_000.0)\nhere = time.time()")
    cell = nb.ok("%%distribute -n 2 --on ssh:h1,h2 --gather\nimport time\nprint('at work')\nround((time.time() - here) / 86400), float(big[-1])", limit=120)
    assert ast.literal_eval(cell.value) == [(0, 999_999.0), (1, 999_999.0)], cell.shown
    assert by_rank(cell.stdout) == {0: ["at work"], 1: ["at work"]} and cell.stderr == "", cell.shown
    checked = nb.ok("%ranks check", limit=120).shown
    assert "the clock of h2 is 24.0 hours ahead of the kernel's" in checked and "the clock of h1" not in checked, checked
    (off,) = re.findall(r"^h2 .*\+(\d+\.\d) s", checked, re.M)
    assert abs(float(off) - 86400) < 60, checked  # what is known of it is as good as the answer was quick
    nb.run("%%distribute\n1 / 0").assert_error("ZeroDivisionError")
    nb.ok("%ranks stop")


@pytest.fixture
def full_shm(tmp_path, monkeypatch):
    """The name of a kernel that finds a /dev/shm of its own, in which there is no byte left."""
    if missing(("unshare", "mount")):
        pytest.skip(missing(("unshare", "mount")))
    spec = KernelSpecManager().get_kernel_spec("cellspan").to_dict()
    fill = "mount -t tmpfs -o size=64k tmpfs /dev/shm; dd if=/dev/zero of=/dev/shm/full bs=4k 2>/dev/null; exec \"$@\""
    spec["argv"] = ["unshare", "-m", "--propagation", "private", "sh", "-c", fill, "sh"] + spec["argv"]
    folder = tmp_path / "jupyter" / "kernels" / "full-shm"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", "%s:%s" % (tmp_path / "jupyter", os.environ.get("JUPYTER_PATH", "")))
    return "full-shm"


def test_a_full_dev_shm_here_does_no_harm_and_is_told(full_shm, fresh):
    nb = fresh(kernel=full_shm)
    nb.ok("import numpy, os\nbig = numpy.arange(2_500_000.0)\nassert os.statvfs('/dev/shm').f_bavail == 0")
    cell = nb.ok("%%distribute -n 2 --gather\nimport os\nbig[0] = 5\nfloat(big[0] + big[-1]), os.statvfs('/dev/shm').f_bavail")
    assert ast.literal_eval(cell.value) == [(2_500_004.0, 0)] * 2 and cell.stderr == "", cell.shown
    nb.ok("%pull big --into every")
    assert nb.ok("[float(b[0]) for b in every]").value == "[5.0, 5.0]"
    checked = nb.ok("%ranks check", limit=120).shown
    assert re.search(r"/dev/shm of \S+ has 0.0 MiB left: NCCL and torch's DataLoader need it", checked), checked


# -- one host with IPv4 and IPv6, one with IPv6 alone


@pytest.fixture
def six(tmp_path):
    """(Hosts, what a notebook needs to reach them): h1 has both, h2 has lost its IPv4."""
    for hosts in bring_up(lambda: Hosts(2), HOST_TOOLS):
        network = "fd00:%x" % (os.getpid() & 0xFFFF)
        bridge = "%s-br" % hosts.prefix
        subprocess.run(["sysctl", "-q", "-w", "net.ipv6.conf.%s.disable_ipv6=0" % bridge], check=False)
        subprocess.run(["ip", "-6", "addr", "add", "%s::fe/64" % network, "dev", bridge, "nodad"], check=True)
        for number in (1, 2):
            hosts.exec("h%d" % number, "sysctl", "-q", "-w", "net.ipv6.conf.eth0.disable_ipv6=0", check=False)
            hosts.exec("h%d" % number, "ip", "-6", "addr", "add", "%s::%d/64" % (network, number), "dev", "eth0", "nodad")
        daemon = shutil.which("sshd", path="/usr/sbin:" + os.environ["PATH"])
        hosts.exec("h2", daemon, "-f", os.path.join(hosts.folder, "hosts", "sshd_config"), "-o", "ListenAddress=%s::2" % network,
                   "-o", "PidFile=%s" % (tmp_path / "sshd"))
        hosts.exec("h2", "ip", "-4", "addr", "flush", "dev", "eth0")
        config = "Host h2\n  HostName %s::2\n  HostKeyAlias h2\n" % network
        (tmp_path / "config").write_text(config + pathlib.Path(hosts.ssh_config).read_text())
        yield hosts, {"CELLSPAN_SSH": "ssh -F %s" % (tmp_path / "config")}, network
        hosts.exec("h2", "kill", (tmp_path / "sshd").read_text().strip(), check=False)


@pytest.mark.limit(400)
def test_a_world_meets_where_all_of_its_machines_can(six, fresh, torch):
    hosts, env, network = six
    for order, master in ((("h1", "h2"), "%s::1"), (("h2", "h1"), "%s::2")):
        nb = fresh(env=env)
        cell = nb.ok("%%%%distribute -n 2 --on ssh:%s,%s --init gloo --gather\nimport os, torch, torch.distributed as dist\n"
                     "t = torch.ones(1)\ndist.all_reduce(t)\nos.uname().nodename, os.environ['MASTER_ADDR'], int(t)" % order, limit=200)
        assert ast.literal_eval(cell.value) == [(host, master % network, 2) for host in order], cell.shown
        checked = nb.ok("%ranks check", limit=120).displays
        assert "dead" not in checked[1]["text/plain"] and "all_reduce" in checked[2]["text/plain"], checked
        nb.ok("%%distribute --init\ndist.all_reduce(t)")
        nb.close()
        assert nb.left == []
