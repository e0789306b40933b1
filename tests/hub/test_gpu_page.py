# SPDX-License-Identifier: BSD-3-Clause
"""The page of who holds which GPU: examples/jupyterhub/one_machine/gpu_page.py, on a machine with doubles of GPUs."""

from __future__ import annotations

import html
import os
import re
import shutil
import socket
import subprocess
import time

import pytest
import requests
from hub import TOP, USERS, Hub, free_port, free_port_of_root, until

ANN, BOB = USERS
CAT = "cs-cat"  # has no account on the machine
PAGE = "/services/cellspan/"
SECRET = "the_text_of_the_cell"
# The name of a notebook is its path. Linux takes 128 KiB of it.
ODD = "/x/<script>document.title='owned'</script>\"'&amp;\n\u202egnp.\u2066\x1b[2J\u200b</table><img src=x onerror=alert(1)>"
LONG = ["/long/" + "n" * 60_000 + "<b>end", "/long/" + "m" * 120_000]
# The values that an admin changes, and what another machine has in another place.
CHANGED = {'PREFIX = "/usr/local"': "PREFIX = {prefix!r}", "SEE_ALL = []": "SEE_ALL = [{bob!r}]", "127.0.0.1:883": "127.0.0.1:{port}", "# c.Jupy": "c.Jupy", "#      ": "",
           'open("/etc/jupyterhub/prometheus.token").read().strip()': "{token!r}"}
SETS = """
load_subconfig({path!r})
c.JupyterHub.services[-2]["environment"] = {environment!r}
c.JupyterHub.services[-2]["command"] += ["--every", "0.5", "--limit", "20", "--cellspan", {command!r}]
"""
# Runs cellspan, unless a file is there.
HANGS = """#!/bin/sh
[ ! -e "%s" ] || exec sleep 600
exec "%s" "$@"
"""


class Machine(Hub):
    """With four GPUs of tests/doubles."""

    def __init__(self):
        self.metrics_token = "prometheus-" + os.urandom(8).hex()
        super().__init__("one_machine")

    def etc(self, example):
        super().etc(example)
        cc = shutil.which("cc") or shutil.which("gcc")
        for name, sources in {"libnvidia-ml.so": ("nvml.c", "control.c"), "libnccl.so": ("nccl_double.c", "nccl_cuda.c")}.items():
            subprocess.run([cc, "-I" + TOP, "-D_GNU_SOURCE", "-std=gnu11", "-O1", "-fPIC", "-shared", "-pthread", "-o", os.path.join(self.folder, name),
                            *(os.path.join(TOP, "tests", "doubles", source) for source in sources)], check=True)
        os.mkdir(os.path.join(self.folder, "leases"))
        os.chmod(os.path.join(self.folder, "leases"), 0o1777)
        at = {name: os.path.join(self.folder, file) for name, file in {"CELLSPAN_NVML_LIBRARY": "libnvidia-ml.so", "CELLSPAN_CUDA_LIBRARY": "libnccl.so",
              "CELLSPAN_NCCL_LIBRARY": "libnccl.so", "CELLSPAN_DOUBLE_GPUS": "gpus", "CELLSPAN_GPU_LEASES": "leases"}.items()}
        with open(at["CELLSPAN_DOUBLE_GPUS"], "w", encoding="ascii") as file:
            file.write("count 4\nuse 0 87\nmemory 0 40960\n")
        self.variables = at
        with open(os.path.join(example, "gpu_page.py"), encoding="utf-8") as file:
            text = file.read()
        for old, new in CHANGED.items():
            assert old in text, old
            text = text.replace(old, new.format(prefix=os.path.dirname(os.path.dirname(os.environ["HUB_CELLSPAN"])), bob=BOB, port=free_port_of_root(), token=self.metrics_token))
        path = os.path.join(self.folder, "gpu_page.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.hangs, command = os.path.join(self.folder, "hangs"), os.path.join(self.folder, "cellspan")
        with open(command, "w", encoding="utf-8") as file:
            file.write(HANGS % (self.hangs, os.environ["HUB_CELLSPAN"]))
        os.chmod(command, 0o755)
        self.instead = Hub.instead + SETS.format(path=path, environment=at, command=command)

    def token_of(self, user, **more):
        self.ask("POST", "/hub/api/users/" + user, ok=False)
        return self.ask("POST", "/hub/api/users/%s/tokens" % user, json=more).json()["token"]

    def page(self, token, what="", **more):
        return requests.get(self.url + PAGE + what, headers={"Authorization": "token " + token} if token else {}, allow_redirects=False, timeout=60, **more)

    def service(self):
        """{whose: pid} of the service's processes."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as command, open("/proc/%s/status" % pid) as status:
                    words, told = command.read().split(b"\0"), dict(line.split(":\t", 1) for line in status.read().splitlines() if ":\t" in line)
            except OSError:
                continue
            if any(word.endswith(b"/hub_service") for word in words) and self.folder in os.readlink("/proc/%s/root" % pid) + str(words) + open("/proc/%s/mountinfo" % pid).read():
                found[int(told["Uid"].split()[0])] = (int(pid), told)
        return found


@pytest.fixture(scope="module")
def hub():
    hub = Machine()
    yield hub
    assert hub.close() is True
    assert until(lambda: not hub.service(), 15)


@pytest.fixture(scope="module")
def tokens(hub):
    return {user: hub.token_of(user) for user in (ANN, BOB, CAT)}


def test_users_see_their_own_rows_and_those_with_the_scope_all(hub, tokens):
    ann = hub.server(ANN)
    ann.begin("%%%%distribute -n 2\nprint('it is ' + 'there', flush=True)\nimport time\n%s = time.sleep(600)" % SECRET, "it is there")
    assert until(lambda: any(row["running"] for row in hub.page(tokens[ANN], "api").json()["notebooks"]), 60)
    hers, his, cats = (hub.page(tokens[user], "api").json() for user in (ANN, BOB, CAT))
    (own,), (other,) = hers["notebooks"], [row for row in his["notebooks"] if row["user"] == ANN]
    assert (own["user"], own["own"], own["state"], own["ranks"], own["busy"], own["gpus"]) == (ANN, True, "ranks", 2, 2, 2) and own["cell"] > 0
    assert (other["user"], other["own"], other["state"], other["cell"]) == (ANN, False, "ranks", None) and other["running"] > 0
    assert his["all_users"] and not hers["all_users"] and not cats["all_users"] and cats["notebooks"] == []
    for seen, by in ((hers, [ANN]), (his, [ANN]), (cats, [])):
        held = seen["gpus"][0]
        assert held["held"] and held["use"] == 87 and abs(time.time() - held["since"]) < 300 and [one["user"] for one in held["by"]] == by
        assert [card["held"] for card in seen["gpus"]] == [True, True, False, False]
    for user in tokens:
        for what in ("", "api", "metrics"):
            assert SECRET not in hub.page(tokens[user], what).text
    assert "somebody else" in hub.page(tokens[CAT]).text and ANN not in hub.page(tokens[CAT]).text
    hub.ask("POST", ann.at + "api/kernels/%s/interrupt" % ann.kernel)


def test_prometheus_reads_metrics_and_nothing_else(hub, tokens):
    answer = hub.page(hub.metrics_token, "metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    sample = re.compile(r'(cellspan_\w+)(\{\w+="[^"\n]*"(,\w+="[^"\n]*")*\})? -?\d+(\.\d+)?(e[+-]\d+)?')
    lines = answer.text.splitlines()
    assert all(sample.fullmatch(line) for line in lines if not line.startswith("#")), answer.text
    assert any(re.match(r'cellspan_gpu_held\{user="%s",gpu="0",uuid="GPU-\S+"\} 1$' % ANN, line) for line in lines), answer.text
    assert any(re.match(r'cellspan_gpu_use_ratio\{gpu="0",uuid="GPU-\S+"\} 0.87$', line) for line in lines) and "cellspan_listing_up 1" in lines
    assert 'cellspan_notebooks{user="%s"} 1' % ANN in lines and "ipynb" not in answer.text
    assert hub.page(hub.metrics_token, "api").json()["notebooks"] == []
    assert hub.page(tokens[ANN], "metrics").status_code == 403 and hub.page(tokens[BOB], "metrics").text.startswith("# HELP")


def test_what_users_can_name_stays_a_name(hub, tokens):
    fake = shutil.copy(shutil.which("bash"), os.path.join(hub.folder, "cellspan-kernel"))
    names = [ODD, *LONG, "\udcff\udcfe.ipynb"]
    hub.server(ANN).run("import os, subprocess\nfakes = [subprocess.Popen([%r, '-c', 'read word', '-f', '/nowhere'], stdin=subprocess.PIPE, env={'JPY_SESSION_NAME': name}) for name in %r]"
                        % (fake, names))
    shown = until(lambda: [row for row in hub.page(tokens[BOB], "api").json()["notebooks"] if row["user"] == ANN and row["state"] == "no answer"][3:] and hub.page(tokens[BOB], "api").json(), 60)
    told = {row["notebook"] for row in shown["notebooks"] if row["user"] == ANN}
    assert {ODD, LONG[0][-1024:], "m" * 1024} < told and all(len(name) <= 1024 for name in told), told
    text = hub.page(tokens[BOB]).text
    assert not re.search("<script|<img|<b>|[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text) and "n" * 300 not in text
    assert html.escape("<script>document.title='owned'</script>\"'&amp;?") in text and text.count("</table>") == 2
    headers = hub.page(tokens[BOB]).headers
    assert "default-src 'none'" in headers["Content-Security-Policy"] and "script-src" not in headers["Content-Security-Policy"] and "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"


@pytest.fixture
def browser():
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,700"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.mark.parametrize("user", [BOB, ANN])
def test_in_a_browser_light_and_dark(hub, browser, user):
    from selenium.webdriver.common.by import By

    browser.get(hub.url + PAGE)
    browser.find_element(By.NAME, "username").send_keys(user)
    browser.find_element(By.NAME, "password").send_keys("any")
    browser.find_element(By.ID, "login_submit").click()
    assert until(lambda: browser.title == "cellspan: GPUs and notebooks", 60), browser.page_source
    backs = []
    for scheme in ("light", "dark"):
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        backs.append(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
        if os.environ.get("HUB_SCREENSHOTS"):
            browser.save_screenshot(os.path.join(os.environ["HUB_SCREENSHOTS"], "%s-%s.png" % (user, scheme)))
    assert backs == ["rgb(255, 255, 255)", "rgb(20, 24, 31)"], "its style is not refused"
    assert ("all users" in browser.page_source) == (user == BOB) and len(browser.find_elements(By.TAG_NAME, "table")) == 2
    assert not browser.find_elements(By.CSS_SELECTOR, "script, img, link, iframe") and browser.title != "owned"
    assert browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name).filter(n => !n.endsWith('favicon.ico'))") == []
    assert not [entry for entry in browser.get_log("browser") if "Content Security Policy" in entry["message"] and PAGE in entry["message"] and "favicon" not in entry["message"]]


def test_who_has_no_valid_token_is_refused(hub):
    for token in (None, "nonsense", "x" * 8000):
        for what in ("api", "metrics"):
            answer = hub.page(token, what)
            assert answer.status_code == 403 and "Content-Security-Policy" in answer.headers, (token, what, answer.text)
    assert hub.page(None).status_code == 302 and "/hub/api/oauth2/authorize" in hub.page(None).headers["Location"]
    assert hub.page(None, "nothing").status_code == 404 and hub.session.post(hub.url + PAGE).status_code in (403, 405)
    brief = hub.token_of(BOB, expires_in=3)
    assert hub.page(brief, "api").ok and until(lambda: hub.page(brief, "api").status_code == 403, 60)
    narrow = hub.token_of(BOB, scopes=["access:services!service=cellspan"])
    assert not hub.page(narrow, "api").json()["all_users"], "the token counts, not only its user"
    assert hub.page(hub.token_of(BOB, scopes=["read:users:name!user=" + BOB]), "api").status_code == 403


def test_what_answers_requests_has_no_rights(hub):
    service = hub.service()
    assert sorted(service) == [0, 65534]
    told = service[65534][1]
    assert set(told["Uid"].split()) == set(told["Gid"].split()) == {"65534"} and not told["Groups"].split() and told["NoNewPrivs"] == "1" and int(told["CapEff"], 16) == 0
    assert not any(name.startswith(b"JUPYTERHUB_") for pid in lists(service[0][0]) for name in open("/proc/%d/environ" % pid, "rb").read().split(b"\0"))


def lists(lister):
    """The processes that the one with root's rights has started, but the one that answers."""
    with open("/proc/%d/task/%d/children" % (lister, lister)) as file:
        pids = [int(pid) for pid in file.read().split()]
    return [pid for pid in pids if os.stat("/proc/%d" % pid).st_uid == 0]


def test_a_list_that_hangs_is_given_up(hub, tokens):
    assert hub.page(tokens[ANN], "api").ok
    open(hub.hangs, "w").close()
    try:
        assert until(lambda: hub.page(tokens[ANN], "api").json()["age"] > 4, 60), "meanwhile there is the older one"
        assert until(lambda: hub.page(tokens[BOB], "api").json()["error"], 90)
        his, hers = hub.page(tokens[BOB], "api"), hub.page(tokens[ANN], "api").json()
        assert his.status_code == 200 and his.json()["error"] == "cellspan ps has not ended within 20 s" and "admins can see why" in hers["error"]
        assert his.json()["notebooks"] and hers["age"] > 20, "the older one stays, with its age"
        assert "There is no newer list" in hub.page(tokens[ANN]).text and "<h2>GPUs</h2>" in hub.page(tokens[ANN]).text
        text = hub.page(hub.metrics_token, "metrics").text
        assert "\ncellspan_listing_up 0\n" in text and float(re.search("^cellspan_listing_age_seconds (.*)$", text, re.M)[1]) > 20
    finally:
        os.unlink(hub.hangs)
    assert until(lambda: not hub.page(tokens[BOB], "api").json()["error"], 90)
    assert hub.page(tokens[BOB], "api").json()["age"] < 20 and "\ncellspan_listing_up 1\n" in hub.page(hub.metrics_token, "metrics").text


def starts(hub, **more):
    """What the service's command says that does not start."""
    environment = dict(os.environ, JUPYTERHUB_API_TOKEN="t", JUPYTERHUB_API_URL="http://127.0.0.1:1/hub/api", JUPYTERHUB_CLIENT_ID="service-cellspan", **more)
    folder = os.path.join(os.path.dirname(os.path.dirname(os.environ["HUB_CELLSPAN"])), "lib", "cellspan", "hub_service")
    return lambda *words: subprocess.run(hub.within(os.path.join(os.environ["HUB_VENV"], "bin", "python"), "-I", folder, *words), env=environment, capture_output=True, text=True, timeout=100)


def test_what_keeps_the_service_from_starting_is_named(hub):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = "http://127.0.0.1:%d" % taken.getsockname()[1]
        free = "http://127.0.0.1:%d" % free_port()
        for at, words, said in ((url, (), url + ": Address already in use: another program has that port"), (free, ("--user", "root"), "must not be root"),
                                (free, ("--user", "no-such-user"), "there is no such user"),
                                (free, ("--cellspan", "/nowhere/cellspan"), "there is no such program")):
            done = starts(hub, JUPYTERHUB_SERVICE_URL=at)(*words)
            assert done.returncode == 1 and said in done.stderr and len(done.stderr.splitlines()) == 1, done


def test_the_service_is_back_with_the_hub(hub, tokens):
    before = hub.service()
    os.kill(hub.process.pid, 9)
    assert until(lambda: not hub.service(), 20), "another one wants the port"
    hub.kill()
    hub.up()
    assert until(lambda: hub.page(tokens[BOB], "api").status_code == 200, 60), hub.log()
    assert hub.service()[65534][0] != before[65534][0]
    os.kill(hub.service()[65534][0], 9)
    assert until(lambda: sorted(hub.service()) == [0, 65534], 60), hub.log()
    assert until(lambda: hub.page(tokens[BOB], "api").status_code == 200, 60), hub.log()
