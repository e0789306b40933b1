# SPDX-License-Identifier: BSD-3-Clause
"""Digests that are computed on the device of a tensor, and what is compared with them. Other devices than the CPU are played."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
torch = pytest.importorskip("torch")
from cellspan._capture import device_copies, device_digest, fingerprints, origins, tensors, vars_bundle  # noqa: E402
from cellspan._capture.capture import Capture  # noqa: E402

ROW_BYTES = device_digest.ROW * 8


def some_bytes(size, seed=0):
    return torch.randint(0, 256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def on_gpu(monkeypatch):
    """All storages are said to be on a GPU."""
    monkeypatch.setattr(tensors.Storage, "device", "cuda")
    monkeypatch.setattr(tensors, "gpu_used", lambda: True)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 4096, ROW_BYTES - 8, ROW_BYTES, ROW_BYTES + 8, 3 * ROW_BYTES + 5])
def test_a_digest_is_that_of_the_bytes(size):
    data = some_bytes(size)
    first = device_digest.digest(data)
    assert device_digest.digest(data.clone()) == first
    for at in {0, size // 2, size - 1} if size else ():
        data[at] ^= 1
        assert device_digest.digest(data) != first, at
        data[at] ^= 1
    assert device_digest.digest(data) == first


def test_it_does_not_depend_on_how_many_words_are_mixed_at_once(monkeypatch):
    data = some_bytes(5 * ROW_BYTES + 123)
    first = device_digest.digest(data)
    monkeypatch.setattr(device_digest, "AT_ONCE", ROW_BYTES)
    assert device_digest.digest(data) == first


def negated(values):
    values.neg_()


def swapped(values):
    values[[0, 2]] = values[[2, 0]]


def two_negated(values):
    values[[1, 3]] = -values[[1, 3]]


def moved(values):
    values.copy_(values.roll(2))


def rows_swapped(values):
    half = ROW_BYTES // values.element_size()
    values[: 2 * half] = values[: 2 * half].view(2, -1).flip(0).flatten()


@pytest.mark.parametrize("change", [negated, swapped, two_negated, moved, rows_swapped])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_changes_with_a_pattern_are_found(change, dtype):
    values = torch.arange(3 * ROW_BYTES // torch.empty(0, dtype=dtype).element_size(), dtype=torch.float64).to(dtype)
    first = device_digest.digest(values.view(torch.uint8))
    change(values)
    assert device_digest.digest(values.view(torch.uint8)) != first


def test_bytes_at_an_odd_address_have_the_same_digest():
    data = some_bytes(ROW_BYTES + 21)
    shifted = torch.empty(data.numel() + 4, dtype=torch.uint8)[4:]
    shifted.copy_(data)
    assert shifted.data_ptr() % 8 and device_digest.digest(shifted) == device_digest.digest(data)


def test_without_numpy_it_is_the_same(monkeypatch):
    data = some_bytes(ROW_BYTES + 21)
    first = device_digest.digest(data)
    monkeypatch.setattr(torch.Tensor, "numpy", lambda self, **_: pytest.fail("NumPy was used"))
    assert device_digest.digest(data) == first


def test_constant_words_differ_by_their_number_and_place():
    digests = {device_digest.digest(torch.full((n,), k, dtype=torch.int64).view(torch.uint8)) for n in (1, 2, 3, 70_000) for k in (0, 1, -1)}
    assert len(digests) == 12


def test_where_the_device_has_no_memory_to_work_in_it_is_the_same(monkeypatch):
    data, real, calls = some_bytes(2 * ROW_BYTES), device_digest._mixed_sums, []
    first = device_digest.digest(data)

    def full(data):
        calls.append(data)
        if len(calls) % 2:
            raise RuntimeError("CUDA out of memory")
        return real(data)

    monkeypatch.setattr(device_digest, "_mixed_sums", full)
    assert device_digest.digest(data) == first and len(calls) == 2


# ---- copies


@pytest.mark.parametrize("size", [1, 100, 4096, 4097, 3 * 4096, 5 * 4096 + 7])
@pytest.mark.parametrize("pinned", [True, False])
def test_a_copy_comes_piece_by_piece(monkeypatch, size, pinned):
    """The GPU's copies are made when the event is waited for: a buffer that is read too soon, or filled too soon, has other bytes."""
    data, real, late = some_bytes(size), torch.Tensor.copy_, []

    class Event:
        def record(self, stream):
            self.copies, late[:] = list(late), []

        def synchronize(self):
            for to, source in self.copies:
                real(to, source)

    monkeypatch.setattr(device_copies, "AT_ONCE", 4096)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.Tensor, "copy_", lambda self, source, non_blocking: late.append((self, source)))
    count = 2 if size > 4096 else 1
    made = [torch.full((min(4096, size),), 255, dtype=torch.uint8) for _ in range(count)] if pinned else None
    monkeypatch.setattr(device_copies, "_buffers", lambda torch, size: made)
    assert b"".join(bytes(view) for view in device_copies.pieces(data)) == bytes(data.tolist())


# ---- at home


def versions(capture, code):
    return {row[0]: row[1] for row in capture.names(code)[0]}


def send(capture, names):
    fd, _, _ = capture.pack(names)
    os.close(fd)


def test_home_compares_what_is_on_a_gpu_there(on_gpu, monkeypatch):
    ns = {"x": torch.ones(100_000)}
    capture = Capture(ns, limit=1 << 30)
    before = versions(capture, "x")
    send(capture, "x")
    monkeypatch.setattr(tensors.Storage, "_raw", lambda self: pytest.fail("its bytes were copied to the host"))
    assert versions(capture, "x") == before
    ns["x"][7] = 2
    assert versions(capture, "x") != before


def test_moving_between_devices_changes_nothing(monkeypatch):
    ns = {"x": torch.ones(100_000)}
    capture = Capture(ns, limit=1 << 30)
    before = versions(capture, "x")
    send(capture, "x")
    for device in ("cuda", "cpu", "cuda"):
        monkeypatch.setattr(tensors.Storage, "device", device)
        capture.began()
        assert versions(capture, "x") == before, device
    assert capture._known["x"].large[0][3] == fingerprints.ON_DEVICE
    ns["x"][7] = 2
    assert versions(capture, "x") != before


def test_a_gpu_that_can_not_be_used_is_the_reason_why_a_name_is_not_sent(on_gpu, monkeypatch):
    def broken(data):
        raise RuntimeError("CUDA error: device-side assert triggered")

    capture = Capture({"x": torch.ones(100_000), "y": 1}, limit=1 << 30)
    monkeypatch.setattr(device_digest, "digest", broken)
    rows, warnings = capture.names("x, y")
    assert [row[0] for row in rows] == ["y"] and warnings == ["x was not sent: CUDA error: device-side assert triggered"]


# ---- on a rank


def came(ns, by_bundle=True):
    """The Origins of a rank to which these variables came."""
    of = origins.Origins(ns)
    arrived = of.arrivals(ns)
    fd, size = vars_bundle.pack(dict(ns), ns)
    of.came(list(ns), *((fd, size) if by_bundle else ()), arrived=arrived)
    os.close(fd)
    return of


@pytest.mark.parametrize("by_bundle", [True, False], ids=["as bytes", "from GPU to GPU"])
def test_a_rank_knows_what_it_changed_on_its_gpu(on_gpu, monkeypatch, by_bundle):
    model = torch.nn.Linear(300, 300)
    ns = {"model": model, "x": torch.ones(100_000), "small": torch.ones(3)}
    of = came(ns, by_bundle)
    monkeypatch.setattr(origins.Kept, "unpack", lambda *_: pytest.fail("the bundle was read"))
    assert of.changed(list(ns)) == dict.fromkeys(ns, "same")
    with torch.no_grad():
        model.weight[299, 299] += 1
    ns["small"][0] = 5
    assert of.changed(list(ns)) == {"model": "changed", "x": "same", "small": "changed"}
    ns["x"] = torch.ones(100_000)
    assert of.changed(["x"]) == {"x": "same"}, "equal"
    ns["x"] = ns["x"].double()
    assert of.changed(["x"]) == {"x": "changed"}


def test_of_a_value_on_both_sides_what_is_in_host_memory_is_compared_with_the_bundle(monkeypatch):
    numpy = pytest.importorskip("numpy")
    ns = {"both": {"on": torch.ones(100_000), "host": numpy.ones(100_000)}}
    monkeypatch.setattr(tensors.Storage, "device", "cuda")
    monkeypatch.setattr(tensors, "gpu_used", lambda: True)
    of = came(ns)
    assert of.changed(["both"]) == {"both": "same"}
    ns["both"]["host"][5] = 2
    assert of.changed(["both"]) == {"both": "changed"}
    ns["both"]["host"][5] = 1
    assert of.changed(["both"]) == {"both": "same"}
    ns["both"]["on"][5] = 2
    assert of.changed(["both"]) == {"both": "changed"}
    assert came(ns, by_bundle=False).changed(["both"]) == {"both": "it came from GPU to GPU"}


def test_what_changes_while_it_is_packed_counts_as_changed(on_gpu):
    ns = {"x": torch.ones(100_000)}
    of = origins.Origins(ns)
    arrived = of.arrivals(ns)
    fd, size = vars_bundle.pack(dict(ns), ns)
    ns["x"][5] = 2
    of.came(["x"], fd, size, arrived=arrived)
    os.close(fd)
    assert of.changed(["x"]) == {"x": "changed"}


def test_a_bundle_that_nothing_is_compared_with_is_not_kept(on_gpu):
    numpy = pytest.importorskip("numpy")
    of = came({"x": torch.ones(100_000)})
    assert of._of["x"].kept is None
    of = came({"x": torch.ones(100_000), "host": numpy.ones(100_000)})
    assert of._of["x"].kept is None and of._of["host"].kept.is_large


def test_what_takes_long_or_fails_when_it_comes_is_compared_with_the_bundle(on_gpu, monkeypatch):
    class Odd:
        def __reduce__(self):
            if armed:
                raise SystemExit
            return Odd, ()

    armed, ns = False, {"odd": [Odd(), torch.ones(100_000)], "x": torch.ones(100_000)}
    fd, size = vars_bundle.pack({"x": ns["x"]}, ns)
    armed = True
    of = origins.Origins(ns)
    assert list(of.arrivals(ns)) == ["x"]

    def takes_long(pickled):  # without a link to an agent nothing ends it; test_time_limit.py has a link
        raise origins.TooSlow

    monkeypatch.setattr(origins, "Arrived", takes_long)
    of.came(["x"], fd, size, arrived=of.arrivals(ns))
    os.close(fd)
    assert of.changed(["x"]) == {"x": "same"}


def test_a_value_in_host_memory_is_not_fingerprinted_when_it_comes(monkeypatch):
    monkeypatch.setattr(origins, "Arrived", lambda _: pytest.fail("read for nothing"))
    assert came({"x": torch.ones(100_000)}).changed(["x"]) == {"x": "same"}
