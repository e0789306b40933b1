# SPDX-License-Identifier: BSD-3-Clause
"""A time limit for what a thread does. Each test has a process of its own, since a process can have only one link."""

from test_link import run

BEGIN = "from cellspan._base.time_limit import TimeLimit, TooSlow\nimport threading, _thread\nbefore = threading.active_count()\n"


def test_what_takes_too_long_is_ended():
    assert run(BEGIN + """
with TimeLimit() as limit:
    try:
        limit.run(0.1, time.sleep, 600)
    except TooSlow:
        print('ended', limit.noted)
    print(limit.run(600, max, 1, 2, key=lambda x: -x))
""") == "ended False\n1\n"


def test_a_time_that_is_over_already_or_endless():
    assert run(BEGIN + """
with TimeLimit() as limit:
    for seconds in (0, -1, -1e300, float('-inf'), float('nan')):
        try:
            limit.run(seconds, time.sleep, 600)
        except TooSlow:
            print('ended')
    print(limit.run(1e300, max, 1, 2), limit.run(float('inf'), max, 1, 2))
""") == "ended\n" * 5 + "2 2\n"


def test_code_that_catches_everything_is_ended_at_last():
    assert run(BEGIN + """
left = [3]
def stubborn():
    while True:
        try:
            time.sleep(600)
        except BaseException:
            left[0] -= 1
            if not left[0]:
                raise
with TimeLimit() as limit:
    try:
        limit.run(0.1, stubborn)
    except TooSlow:
        print(left)
""") == "[0]\n"


def test_an_inner_limit_ends_before_the_outer_one():
    assert run(BEGIN + """
ended = []
def inner():
    try:
        limit.run(0.1, time.sleep, 600)
    except TooSlow:
        ended.append('inner')
    time.sleep(600)
with TimeLimit() as limit:
    while not ended:  # where this process stood still for a second, both are over at once
        try:
            limit.run(1, inner)
        except TooSlow:
            print('outer')
print(ended)
""").endswith("outer\n['inner']\n")


def test_an_interrupt_is_noted_and_raises_nothing():
    assert run(BEGIN + """
with TimeLimit() as limit:
    limit.run(600, os.kill, os.getpid(), signal.SIGINT)
    print(limit.noted)
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(600)
except KeyboardInterrupt:
    print('as before')
""") == "True\nas before\n"


def test_nothing_is_raised_after_the_call():
    """The time is over just when the call returns."""
    assert run(BEGIN + """
def spin(until):
    while time.monotonic() < until:
        pass
late = 0
for i in range(300):
    with TimeLimit() as limit:
        try:
            limit.run(0.002, spin, time.monotonic() + 0.002 + i * 1e-6)
        except TooSlow:
            late += 1
    assert not limit.noted
time.sleep(0.3)
print(late >= 0)
""") == "True\n"


def test_it_starts_no_thread():
    assert run(BEGIN + """
def none(*args, **kwargs):
    raise RuntimeError("can't start new thread")
_thread.start_new_thread = none
tasks = len(os.listdir('/proc/self/task'))
with TimeLimit() as limit:
    print(limit.run(5, lambda: len(os.listdir('/proc/self/task'))) == tasks)
""") == "True\n"


THREAD = """
def in_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    while thread.is_alive():
        thread.join(0.01)
def spin():
    while True:
        time.sleep(0.001)
def stubborn(left):
    while left[0]:
        try:
            spin()
        except BaseException:
            left[0] -= 1
    spin()
"""


def test_another_thread_has_a_limit_too():
    assert run(BEGIN + THREAD + """
def other():
    with TimeLimit() as limit:
        for call, *rest in ((spin,), (stubborn, [3])):
            try:
                limit.run(0.1, call, *rest)
            except TooSlow:
                print('ended', rest, limit.noted)
        print(limit.run(600, max, 1, 2, key=lambda x: -x))
in_thread(other)
""") == "ended [] False\nended [[0]] False\n1\n"


def test_a_limit_in_a_thread_starts_none():
    assert run(BEGIN + THREAD + """
def none(*args, **kwargs):
    raise RuntimeError("can't start new thread")
def other():
    _thread.start_new_thread = none
    tasks = len(os.listdir('/proc/self/task'))
    try:
        TimeLimit.run(0.1, spin)
    except TooSlow:
        print('ended', len(os.listdir('/proc/self/task')) == tasks)
in_thread(other)
""") == "ended True\n"


def test_nothing_is_raised_in_a_thread_after_the_call():
    """The time is over just when the call returns."""
    assert run(BEGIN + THREAD + """
def until(at):
    while time.monotonic() < at:
        pass
def other():
    for i in range(60):
        try:
            TimeLimit.run(0.02, until, time.monotonic() + 0.02 + i * 1e-3)
        except TooSlow:
            pass
    until(time.monotonic() + 0.5)
    print('through')
in_thread(other)
""") == "through\n"


def test_an_interrupt_of_a_thread_is_noted_and_comes_afterwards():
    assert run(BEGIN + THREAD + """
def other():
    here = threading.get_ident()
    try:
        with TimeLimit() as limit:
            with TimeLimit() as inner:
                inner.run(600, cellspan._link.raise_in, here, KeyboardInterrupt)
            print(inner.noted, limit.noted)
            inner.interrupt()
        print(limit.noted)
        limit.interrupt()
        spin()
    except KeyboardInterrupt:
        print('raised')
    try:
        TimeLimit.run(600, cellspan._link.raise_in, here, KeyboardInterrupt)
        spin()
    except KeyboardInterrupt:
        print('raised')
import cellspan
in_thread(other)
""") == "True False\nTrue\nraised\nraised\n"


def test_threads_have_limits_of_their_own_and_more_than_can_be_kept_have_none():
    assert run(BEGIN + THREAD + """
ended = []
def other(seconds):
    try:
        TimeLimit.run(seconds, spin)
    except TooSlow:
        ended.append(seconds)
threads = [threading.Thread(target=other, args=(seconds,)) for seconds in (0.4, 0.1, 0.7)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
def many():
    limits = [TimeLimit().__enter__() for _ in range(100)]
    print(TimeLimit.run(0.01, max, 1, 2))
    for limit in reversed(limits):
        limit.__exit__()
    other(0.2)
in_thread(many)
print(sorted(ended))
""") == "2\n[0.1, 0.2, 0.4, 0.7]\n"
