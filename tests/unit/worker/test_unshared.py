# SPDX-License-Identifier: BSD-3-Clause
"""_link.unshared(): pickles that do not depend on which equal texts are one object."""

from __future__ import annotations

import pickle
import random

import pytest

from cellspan import _link


def other(text):
    """An equal text that is another object."""
    return (text + "x")[:-1]


class Node:
    def __init__(self, name):
        self.name = name


def made(copy):
    name, raw = "a name", b"some bytes"
    return {
        "names": [name, copy(name), (copy(name), name)],
        "raw": [raw, raw[:4] + raw[4:] if copy is other else raw],
        "node": Node(copy(name)),
        "nested": {copy(name): [1, 2.5, None, True, 1 << 70, {name}, frozenset([copy(name)]), bytearray(b"x" * 300), "y" * 300]},
        copy("é" * 40): -1,
    }


def test_the_same_values_are_the_same_bytes_whichever_texts_are_one_object():
    shared, apart = pickle.dumps(made(lambda text: text), protocol=5), pickle.dumps(made(other), protocol=5)
    assert shared != apart and _link.unshared(shared) == _link.unshared(apart)


def test_other_values_are_other_bytes():
    one, two = [1], [1]
    for a, b in (("ab", "ac"), ([one, one], [one, two]), (["x", "y"], ["x", "x"]), ({"a": 1}, {"a": 2}), ("x" * 300, "x" * 299 + "y")):
        assert _link.unshared(pickle.dumps(a, protocol=5)) != _link.unshared(pickle.dumps(b, protocol=5))


@pytest.mark.parametrize("size", [3, 200, 10_000])
def test_a_text_is_there_once(size):
    text = "t" * size
    apart, one = [other(text) for _ in range(5000)], [text] * 5000
    assert _link.unshared(pickle.dumps(apart, protocol=5)) == _link.unshared(pickle.dumps(one, protocol=5))
    assert len(_link.unshared(pickle.dumps(one, protocol=5))) < 5 * 5000 + size + 200


def test_objects_that_are_one_stay_one():
    many = [[k] for k in range(300)]
    value = many + many + [str(k) for k in range(300)] * 2
    assert _link.unshared(pickle.dumps(value, protocol=5)) != _link.unshared(pickle.dumps(many + [list(one) for one in many] + value[600:], protocol=5))


def test_what_is_no_such_pickle_is_returned():
    good = pickle.dumps(made(other), protocol=5)
    for data in (b"", good[:50], pickle.dumps([1], protocol=0), b"\x80\x05h\x05.", b"\x80\x05\x8d\xff\xff\xff\xff\xff\xff\xff\xff", b"\xff"):
        assert _link.unshared(data) == data
    with pytest.raises(TypeError):
        _link.unshared("text")


def test_no_bytes_are_read_beyond_the_end():
    chance, good = random.Random(7), pickle.dumps(made(other), protocol=5)
    for _ in range(3000):
        data = bytearray(good[: chance.randrange(len(good))])
        for _ in range(chance.randrange(4)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        _link.unshared(bytes(data))
