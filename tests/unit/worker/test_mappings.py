# SPDX-License-Identifier: BSD-3-Clause
"""Finds values that are unchanged since a bundle brought them, without reading their memory."""

import sys

import pytest

from cellspan._capture import mappings, vars_bundle
from cellspan._capture.fingerprints import Sent

numpy = pytest.importorskip("numpy")


@pytest.fixture
def sent():
    fd, size = vars_bundle.pack({"a": numpy.arange(1 << 20), "b": numpy.zeros(1 << 20)}, {})
    return Sent(fd, size)


def views(values):
    return [memoryview(values[name]).cast("B") for name in ("a", "b")]


def test_an_array_of_a_bundle_knows_its_place(sent):
    a, b = views(vars_bundle.unpack(sent.fd, sent.size, {}))
    (file, at), (other, later) = mappings.place_of(a), mappings.place_of(b)
    assert file == other == sent.file and later == at + a.nbytes
    assert mappings.place_of(a[4096:]) == (file, at + 4096)
    assert mappings.place_of(memoryview(bytearray(100))) is None
    again, _ = views(vars_bundle.unpack(sent.fd, sent.size, {}))
    assert mappings.place_of(again) == (file, at)
    del a, b
    assert mappings.place_of(again) == (file, at)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which pages were written")
def test_only_what_was_written_is_read(sent):
    a, b = views(vars_bundle.unpack(sent.fd, sent.size, {}))
    file, at = mappings.place_of(a)
    assert mappings.may_differ(a, file, at) == []
    assert mappings.may_differ(a, file, at + 64) == mappings.may_differ(a, (0, 0), at) == [(0, a.nbytes)]
    assert sent.equals(at, a) and not sent.equals(at, b)
    a[1 << 20] ^= 1
    ((start, length),) = mappings.may_differ(a, file, at)
    assert start <= 1 << 20 < start + length < start + (1 << 17)
    assert not sent.equals(at, a)
    again, other = views(vars_bundle.unpack(sent.fd, sent.size, {}))
    assert mappings.may_differ_between(a, again) == mappings.may_differ_between(again, a) == [(start, length)]
    assert mappings.may_differ_between(a, other) == [(0, a.nbytes)]
    a[1 << 20] ^= 1
    assert sent.equals(at, a)


def test_pieces_are_no_longer_than_a_step():
    assert list(mappings.pieces([(3, 5), (10, 2)], 4)) == [slice(3, 7), slice(7, 8), slice(10, 12)]
