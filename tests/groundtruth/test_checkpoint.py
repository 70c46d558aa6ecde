"""A search that was killed goes on where it was, and ends in the file that it would have ended in."""

import errno
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from benchmarks.groundtruth import cache, search
from benchmarks.groundtruth import checkpoint as module
from benchmarks.groundtruth.cache import ground_truth, ground_truths
from benchmarks.groundtruth.checkpoint import ARRAYS, Checkpoint
from benchmarks.groundtruth.exact import exact_truths
from benchmarks.groundtruth.search import State
from benchmarks.paths import ROOT
from benchmarks.progress import Progress

RANDOM = np.random.default_rng(0)
BASE, QUERIES = RANDOM.normal(size=(5000, 8)).astype("f4"), RANDOM.normal(size=(30, 8)).astype("f4")
BASE[::7] = BASE[0]  # some queries need the float64 pass
QUERIES[:4] = BASE[0]
SMALL = {"PART_WORK": 1, "LEAST_ROWS": 500, "TILE_ROWS": 500}  # ten parts a distance
PARTS = 10

CHILD = """
import os, signal, sys
from pathlib import Path
from time import sleep
from benchmarks.data.prepare import Dataset
from benchmarks.groundtruth import cache, exact, search
from benchmarks.progress import Progress

folder, parts, *distances = sys.argv[1:]
for name, value in SMALL.items():
    setattr(search, name, value)
original = search.Search.do

def do(self, part):
    while self.state.done.sum() >= int(parts):
        sleep(0.01)
    original(self, part)

def exact_truths(*arguments, save, **options):
    def last(state):
        save(state)
        if state.done.sum() == int(parts):
            os.kill(os.getpid(), signal.SIGKILL)
    return exact.exact_truths(*arguments, save=last, save_seconds=0, **options)

search.Search.do, cache.exact_truths = do, exact_truths
dataset = Dataset.model_validate_json(Path(folder, "dataset.json").read_text())
cache.ground_truths(dataset, distances, [10], Path(folder), 1, Progress())
""".replace("SMALL", repr(SMALL))


@pytest.fixture(scope="module")
def dataset(make_dataset):
    return make_dataset(BASE, QUERIES)


@pytest.fixture
def parts(monkeypatch):
    """Cut the work into parts, and list those that are done."""
    done, original = [], search.Search.do

    def do(self, part):
        if len(self.base) == len(BASE):  # not a sample
            done.append(part.at)
        original(self, part)
        time.sleep(0.03)  # so that there is time to save

    for name, value in SMALL.items():
        monkeypatch.setattr(search, name, value)
    monkeypatch.setattr(search.Search, "do", do)
    return done


def killed(dataset, folder, parts, distances):
    """Let a process be killed after so many parts; the checkpoint that it leaves."""
    (folder / "dataset.json").write_text(dataset.model_dump_json())
    command = [sys.executable, "-c", CHILD, folder, str(parts), *distances]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=300)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    (left,) = (folder / "truth").iterdir()
    assert left.suffix == ".checkpoint"
    return left


@pytest.mark.parametrize(("before", "distances"), [(1, ["l2"]), (6, ["l2"]), (7, ["l2", "ip", "cosine"])])
def test_a_killed_run_goes_on_and_writes_the_identical_file(dataset, tmp_path, parts, before, distances, capfd):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    resumed.mkdir()
    left = killed(dataset, resumed, before, distances)
    again = ground_truths(dataset, distances, [10], resumed, 2, Progress())
    assert len(parts) == PARTS * len(distances) - before
    assert "is done already" in "".join(capfd.readouterr())
    assert not left.exists()
    first = ground_truths(dataset, distances, [10], whole, 2, Progress())
    assert len(parts) == 2 * PARTS * len(distances) - before
    for key, truth in first.items():
        assert truth.path.read_bytes() == again[key].path.read_bytes()


def test_ctrl_c_saves_what_is_done(dataset, tmp_path, parts):
    def interrupted(done, total):
        if done >= len(QUERIES) * len(BASE) // PARTS:
            raise KeyboardInterrupt

    states = []
    with pytest.raises(KeyboardInterrupt):
        exact_truths(dataset.base, dataset.queries, ["l2"], 10, progress=interrupted, save=states.append)
    assert len(states) == 1 and states[0].done.any()


def test_changed_vectors_do_not_go_on_from_it(make_dataset, dataset, tmp_path, parts):
    stale = killed(dataset, tmp_path, 3, ["l2"])
    for other in (
        make_dataset(BASE[::-1], QUERIES),
        make_dataset(BASE, QUERIES + 1),
        make_dataset(BASE, QUERIES, "ip"),
    ):
        expected = exact_truths(other.base, other.queries, [other.distance], 100)[other.distance]
        mine = cache._checkpoint([other], 100, tmp_path).path
        assert mine != stale
        mine.write_bytes(stale.read_bytes())  # even if it had the right name
        parts.clear()
        found = ground_truth(other, 10, tmp_path, 1, Progress())
        assert len(parts) == PARTS
        np.testing.assert_array_equal(found.neighbors, expected.neighbors)
        np.testing.assert_array_equal(found.distances, expected.distances)


def test_a_base_that_changes_meanwhile_is_not_saved(make_dataset, tmp_path, refusal, monkeypatch):
    data = make_dataset(BASE, QUERIES)

    def exact(*arguments, save, **options):
        os.utime(data.base.path, ns=(1, 1))
        return exact_truths(*arguments, save=save, save_seconds=0, **options)

    for name, value in SMALL.items():
        monkeypatch.setattr(search, name, value)
    monkeypatch.setattr(cache, "exact_truths", exact)
    assert "was changed while it was in use" in refusal(ground_truth, data, 10, tmp_path, 1, Progress())
    assert not [item for item in tmp_path.rglob("*") if item.is_file()]


def state_of(seed=0, steps=(10, 4)):
    state, rng = State(range(5, 40), (2, 9, 6), steps), np.random.default_rng(seed)
    for name in ARRAYS:
        array = getattr(state, name)
        array[...] = rng.integers(0, 2, array.shape) if array.dtype == bool else rng.normal(size=array.shape) * 100
    return state


def same(one, other):
    return one.steps == other.steps and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ARRAYS)


def test_what_was_saved_is_loaded_whatever_the_steps(tmp_path):
    checkpoint, state, other = Checkpoint(tmp_path / "new" / "x", "key"), state_of(), state_of(1, (35, 9))
    checkpoint.save(state)
    assert checkpoint.load(other) and same(state, other)
    assert [part.at for part in other.parts()] == [tuple(at) for at in np.argwhere(~state.done).tolist()]
    checkpoint.save(state_of(2))
    assert checkpoint.load(other) and same(state_of(2), other)
    checkpoint.remove()
    checkpoint.remove()
    assert not checkpoint.load(other) and same(state_of(2), other)
    assert list((tmp_path / "new").iterdir()) == []


def test_another_search_or_version_does_not_load_it(tmp_path, monkeypatch):
    Checkpoint(tmp_path / "x", "key").save(state_of())
    others = [
        ("other", state_of(1)),
        ("key", State(range(5, 41), (2, 9, 6), (10, 4))),
        ("key", State(range(6, 41), (2, 9, 6), (10, 4))),
        ("key", State(range(5, 40), (2, 9, 7), (10, 4))),
        ("key", State(range(5, 40), (1, 9, 6), (10, 4))),
    ]
    for key, state in others:
        assert not Checkpoint(tmp_path / "x", key).load(state)
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    assert not Checkpoint(tmp_path / "x", "key").load(state_of(1))


def test_a_damaged_one_is_as_good_as_none(tmp_path):
    checkpoint = Checkpoint(tmp_path / "x", "key")
    checkpoint.save(state_of())
    whole, rng = checkpoint.path.read_bytes(), np.random.default_rng(0)
    damaged = [whole[:size] for size in rng.integers(0, len(whole), 60)] + [whole + b"0", b"{}\n", b"[]\n", b"\xff\n"]
    for at in [*range(whole.index(b"\n") + 1), *rng.integers(0, len(whole), 200)]:
        damaged.append(whole[:at] + bytes([whole[at] ^ 1 << rng.integers(8)]) + whole[at + 1 :])
    for content in damaged:
        checkpoint.path.write_bytes(content)
        state = state_of(1)
        assert not checkpoint.load(state) and same(state, state_of(1))


def test_a_full_disk_keeps_the_one_before_and_the_search_goes_on(dataset, tmp_path, monkeypatch, parts):
    checkpoint = Checkpoint(tmp_path / "x", "key")
    checkpoint.save(state_of())

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError):
            checkpoint.save(state_of(1))
    state = state_of(2)
    assert checkpoint.load(state) and same(state, state_of()) and list(tmp_path.iterdir()) == [checkpoint.path]

    tries = []
    monkeypatch.setattr(Checkpoint, "save", lambda self, state: tries.append(1) or full(0))
    monkeypatch.setattr(cache, "exact_truths", lambda *a, **options: exact_truths(*a, save_seconds=0, **options))
    truth = ground_truth(dataset, 10, tmp_path / "data", 1, Progress())
    assert tries
    np.testing.assert_array_equal(truth.neighbors, exact_truths(BASE, QUERIES, ["l2"], 100)["l2"].neighbors)
