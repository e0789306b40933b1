# SPDX-License-Identifier: BSD-3-Clause
"""find() of cellspan._link, with which ranks ask home about the notebook's code, and home's thread that answers."""

from test_link import run


FIND = """
import json, threading
def questions(n):
    return [_link.decode(agent.recv(1 << 16)[1:]) for _ in range(n)]
def answer(m, content, **more):
    tell("FOUND", 0, dict(m[6], content=content, **more))
def ask(question, got, *seconds):
    def call():
        try:
            got.append(_link.find("tree", question, *seconds))
        except BaseException as error:
            got.append(type(error).__name__)
    thread = threading.Thread(target=call)
    thread.start()
    return thread
def heard():  # all that was told before has been read now
    tell("PACK")
    assert _link.wait(150) and _link.recv()[0] == "PACK"
def waits(n, name, got, more, seconds):  # n threads ask, and the word comes before their limit is over, which then passes
    for limit in (0.1, 0.5, 2.5, 12, 60):
        question = '{"%s":%g}' % (name, limit)
        began = time.monotonic()
        threads = [ask(question, got, limit, seconds) for _ in range(n)]
        m = questions(n)[0]
        tell("FOUND", 0, {"more": more})
        heard()
        if time.monotonic() - began < limit:
            time.sleep(limit)
            assert not got, got
            return threads, m
        answer(m, "{}")  # this process stood still, and perhaps the word came too late
        for thread in threads:
            thread.join()
        got.clear()
"""


def test_any_thread_may_ask_about_code_and_equal_questions_share_an_answer():
    assert run(FIND + """
got = []
threads = [ask('{"name":"a"}', got), ask('{"name":"a"}', got), ask('{"name":"b"}', got)]
all = questions(3)
a, b = (next(m for m in all if m[6]["question"] == '{"name":"%s"}' % name) for name in "ab")
assert a[0] == "FIND" and a[6]["what"] == "tree"
answer((0,) * 6 + ({"what": "tree", "question": "another"},), "nobody has asked this")
answer(a, '{"digest":"é"}')
for thread in threads[:2]:
    thread.join()
assert got == [('{"digest":"é"}', None)] * 2, got
answer(b, "{}")
threads[2].join()
assert got[2] == ("{}", None), got
print("all")
""") == "all\n"


def test_the_answer_about_code_can_have_a_blob():
    assert run(FIND + """
import array, fcntl
def memfd(data):
    fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    fcntl.fcntl(fd, 1033, 0x0001 | 0x0002 | 0x0004 | 0x0008)
    return fd
got = []
threads, m = waits(2, "blob", got, 1, 600)
before = len(os.listdir("/proc/self/fd"))
data = b"\\0" + _link.encode("FOUND", 0, dict(m[6], content="[3]"), blob=9, size=3)
fd = memfd(b"abc")
agent.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
os.close(fd)
for thread in threads:
    thread.join()
assert [content for content, _ in got] == ["[3]"] * 2 and all(bytes(memory) == b"abc" for _, memory in got), got
got.clear()
while len(os.listdir("/proc/self/fd")) > before:
    time.sleep(0.01)
print("all")
""") == "all\n"


def test_a_question_about_code_does_not_wait_for_ever():
    assert run(FIND + """
got = []
try:
    _link.find("tree", "{}", 0.1)
except TimeoutError as error:
    print("home" in str(error))
m = questions(1)[0]
answer(m, "late")
heard()
(thread,), _ = waits(1, "begun", got, 1, 3)
thread.join()
print(got.pop())
(thread,), _ = waits(1, "comes", got, 2, 0.1)
answer(m, "what that was about")
thread.join()
print(got.pop())
thread = ask("{}", got, 150)
answer(questions(1)[0], "new")
thread.join()
print(got)
signal.signal(signal.SIGALRM, lambda *_: 1 / 0)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    _link.find("tree", "{}", 150)
except ZeroDivisionError:
    print("ended by a signal")
if os.fork() == 0:
    _link.after_fork_child()
    try:
        _link.find("tree", "{}")
    except _link.LinkDead:
        os._exit(3)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
""") == "True\nTimeoutError\nTimeoutError\n[('new', None)]\nended by a signal\n3\n"


def test_home_answers_questions_beside_its_main_thread():
    assert run(FIND + """
import fcntl
from cellspan._code import code_home
from cellspan._worker import code_answers
class Broken:
    def __iter__(self):
        raise RuntimeError("while it is read")
def answer(what, question):
    if what == "files":
        return {"files": [], "modules": 2}, [b"ab", memoryview(b"c")]
    if question == {"long": 1}:
        return {"left": [os.urandom(13 << 20).hex()]}, None
    if question == {"raise": 1}:
        raise ValueError("of no use")
    if question == {"fails": 1}:
        return {}, Broken()
    return {what: question}, None
code_home.answer = answer
def asks(what, question):
    tell("FIND", 0, {"what": what, "question": question}, blob=7)
code_answers.WORD_S = 600
asks("tree", "{}")
code_answers.begin()
code_answers.begin()
asks("tree", '{"raise": 1}')
asks("tree", "no JSON")
asks("tree", '{"long": 1}')
asks("tree", '{"fails": 1}')
asks("files", "{}")
def received():
    data, fds, _, _ = socket.recv_fds(agent, 1 << 16, 4)
    return _link.decode(data[1:]), fds
def found():
    begun, _ = received()
    m, fds = received()
    assert begun[6] == dict(begun[6], more=1, content="", question=m[6]["question"]) and not m[6]["more"]
    return m, fds
for _ in range(5):
    m, fds = found()
    print(m[0], m[6]["question"], m[6]["content"][:22], m[3], m[5])
m, fds = found()
print(m[6]["what"], m[6]["content"], m[6]["modules"], m[3], m[5], len(fds))
""") == """FOUND {} {"tree": {}} 0 0
FOUND {"raise": 1} {"error": "ValueError: 0 0
FOUND no JSON {"error": "JSONDecodeE 0 0
FOUND {"long": 1} {"error": "ValueError: 0 0
FOUND {"fails": 1} {"error": "RuntimeErro 0 0
files {"files": []} 2 7 3 1
"""


def test_home_says_again_that_it_is_at_work():
    assert run(FIND + """
from cellspan._code import code_home
from cellspan._worker import code_answers
goes_on = threading.Event()
def answer(what, question):
    goes_on.wait()
    return {}, None
code_home.answer = answer
code_answers.WORD_S = 0.01
code_answers.begin()
tell("FIND", 0, {"what": "tree", "question": "{}"}, blob=7)
def received():
    return _link.decode(agent.recv(1 << 16)[1:])[6]
words = [received(), received(), received()]  # the first word without the question may come before the one with it
while "{}" not in [word["question"] for word in words]:
    words.append(received())
print({word["question"] for word in words} == {"{}", ""}, {word["more"] for word in words})
goes_on.set()
while received()["more"]:
    pass
print("answered")
""") == "True {1}\nanswered\n"
