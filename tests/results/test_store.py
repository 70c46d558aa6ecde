import json
import os
import random
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.errors import UserError
from benchmarks.files import write_whole
from benchmarks.paths import ROOT
from benchmarks.results.schema import Identity
from benchmarks.results.store import SHAPES, Result, Store
from tests.factories import make_result

IDENTITY = Identity(
    dataset="d",
    base_sha256="b",
    queries_sha256="q",
    distance="l2",
    algorithm="a",
    build_params={"M": 8},
    search_params={"ef": 10},
    seed=0,
    k=10,
    mode="batch",
    threads=1,
)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


# --- round trip ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["batch", "single"])
def test_what_is_written_is_read(store, mode):
    written = make_result(store, mode=mode, hits=[1, 2, 3], hits_tied=[3, 2, 10], k=10, repeats=2)
    read = store.read(written.path)
    assert read.record == written.record and read.ok and read.identity == written.identity
    assert read.hits.tolist() == [1, 2, 3] and read.hits_tied.tolist() == [3, 2, 10]
    assert read.hits.dtype == read.hits_tied.dtype == np.uint16 and read.search_seconds.dtype == np.float64
    assert read.array("neighbors").shape == read.array("distances").shape == (3, 10)
    assert (read.latency.shape == (2, 3)) if mode == "single" else (read.latency is None)


@pytest.mark.parametrize("status", ["failed", "timeout", "out-of-memory", "invalid"])
def test_a_failed_point_is_a_file_without_arrays(store, status):
    result = make_result(store, status=status, reason="one line")
    assert not result.ok and result.record.reason == "one line" and store.files() == [result.path]


def test_the_file_is_where_the_store_says(store):
    result = make_result(store, dataset="glove", build={"M": 8}, search={"ef": 10})
    assert result.path == store.path(result.identity)
    assert result.path.parent == store.folder / "glove" / "faiss-hnsw"
    assert result.path.name == f"M=8,ef=10-{result.identity.hash()}.hdf5"


def test_a_point_measured_again_replaces_its_file(store):
    make_result(store, hits=[1, 1], with_truth=False)
    again = make_result(store, hits=[5, 5], with_truth=False)
    assert files(store.folder) == [again.path] and store.read(again.path).hits.tolist() == [5, 5]


def test_files_and_results_of_one_data_set(store):
    one, other = make_result(store, dataset="one"), make_result(store, dataset="other")
    assert store.files() == [one.path, other.path]
    assert store.files("one") == [one.path] and [item.record for item in store.results("other")] == [other.record]
    assert store.files("none") == [] and list(Store(store.folder / "no").results()) == []


def test_arrays_are_read_from_the_file_while_it_is_open_and_after(store):
    for ef in (3, 7):
        make_result(store, search={"efSearch": ef}, hits=np.full(20, ef))
    during, kept = [], []
    for result in store.results():
        assert result.file
        during.append(result.neighbors)
        kept.append(result)
    assert not any(result.file for result in kept)
    for result, found in zip(kept, during, strict=True):
        np.testing.assert_array_equal(result.neighbors, found)
    assert [int((found >= 0).sum()) for found in during] == [20 * 3, 20 * 7]


def test_a_copy_of_a_result_does_not_count_twice(store):
    result, warnings = make_result(store), []
    copy = result.path.with_name("z-copy.hdf5")
    copy.write_bytes(result.path.read_bytes())
    assert [item.path for item in store.results("toyset", warnings.append)] == [result.path]
    assert len(warnings) == 1 and str(copy) in warnings[0] and str(result.path) in warnings[0]


def test_logs_and_hidden_files_are_no_results(store):
    result = make_result(store)
    log = store.log_path(result.identity, "0123456789abcdef")
    log.parent.mkdir()
    log.write_text("x")
    (result.path.parent / ".hidden.hdf5").write_text("x")
    (result.path.parent / f".{result.path.stem}.partial").write_text("x")
    assert store.files() == [result.path]


# --- damaged files -------------------------------------------------------------------------------------------------


def edit_record(path, change):
    with h5py.File(path, "r+") as file:
        record = json.loads(file.attrs["record"])
        change(record)
        file.attrs["record"] = json.dumps(record)


def edit(action):
    def of(path):
        with h5py.File(path, "r+") as file:
            action(file)

    return of


def swap(name, array):
    def action(file):
        del file[name]
        if array is not None:
            file[name] = array

    return edit(action)


DAMAGE = {
    **{f"no {name}": swap(name, None) for name in SHAPES},
    "few neighbors": swap("neighbors", np.zeros((4, 10), "i4")),
    "narrow neighbors": swap("neighbors", np.zeros((5, 9), "i4")),
    "long hits": swap("hits", np.zeros(6, "u2")),
    "hits of two dimensions": swap("hits", np.zeros((5, 1), "u2")),
    "one repeat": swap("search_seconds", np.ones(1)),
    "more hits than neighbours": swap("hits", np.full(5, 11, "u2")),
    "tied hits below none": swap("hits_tied", np.full(5, -1, "i4")),
    "hits that are no whole numbers": swap("hits", np.full(5, 1.0)),
    "hits that are text": swap("hits", np.full(5, b"1")),
    "ids that are no whole numbers": swap("neighbors", np.zeros((5, 10), "f4")),
    "passes in no time": swap("search_seconds", np.zeros(3)),
    "passes that ended before they began": swap("search_seconds", np.full(3, -1.0)),
    "passes of no number of seconds": swap("search_seconds", np.array([1.0, np.nan, 1.0])),
    "times that are text": swap("search_seconds", np.full(3, b"1")),
    "no vectors": lambda path: edit_record(path, lambda record: record.update(n=0)),
    "fewer vectors than none": lambda path: edit_record(path, lambda record: record.update(n=-5)),
    "a distance that is none of ours": lambda path: edit_record(
        path, lambda record: record["identity"].update(distance="hamming")
    ),
    "turned latency": swap("latency", np.zeros((5, 3), "f4")),
    "group for an array": edit(lambda file: (file.pop("hits"), file.create_group("hits"))),
    "type for an array": edit(lambda file: (file.pop("hits"), file.__setitem__("hits", np.dtype("u2")))),
    "broken link": edit(lambda file: (file.pop("hits"), file.__setitem__("hits", h5py.SoftLink("/no")))),
    "no record": edit(lambda file: file.attrs.__delitem__("record")),
    "record is no JSON": edit(lambda file: file.attrs.__setitem__("record", "{")),
    "record is a list": edit(lambda file: file.attrs.__setitem__("record", "[]")),
    "record is a number": edit(lambda file: file.attrs.__setitem__("record", 3)),
    "record is an array": edit(lambda file: file.attrs.__setitem__("record", ["a", "b"])),
    "newer version": lambda path: edit_record(path, lambda record: record.update(schema_version=2)),
    "extra key": lambda path: edit_record(path, lambda record: record.update(more=1)),
    "extra key within": lambda path: edit_record(path, lambda record: record["identity"].update(more=1)),
    "missing key": lambda path: edit_record(path, lambda record: record.pop("nq")),
    "unknown status": lambda path: edit_record(path, lambda record: record.update(status="fine")),
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("hello"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_named(store, refusal, damage):
    path = make_result(store, hits=[1, 2, 3, 4, 5], mode="single").path
    damage(path)
    assert refusal(store.read, path).startswith(f"{path}: ")


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_one_warning_and_not_the_end(store, damage):
    first, bad, last = (make_result(store, hits=[1, 2, 3, 4, 5], mode="single", search={"ef": ef}) for ef in (1, 2, 3))
    damage(bad.path)
    lines = []
    assert [item.path for item in store.results(warn=lines.append)] == [first.path, last.path]
    assert len(lines) == 1 and str(bad.path) in lines[0] and "\n" not in lines[0]


def test_every_truncation_is_refused(store, refusal):
    path = make_result(store, nq=20).path
    size = path.stat().st_size
    for length in sorted({0, 1, 7, 8, 95, 96, 97, size - 1, *range(100, size, 211)}, reverse=True):
        with path.open("r+b") as file:
            file.truncate(length)
        assert str(path) in refusal(store.read, path)


def test_whatever_byte_is_damaged_reading_is_refused_or_right(store, tmp_path):
    result = make_result(store, nq=20, mode="single")
    whole, path, chance, surprises = result.path.read_bytes(), tmp_path / "bad.hdf5", random.Random(0), {}
    for _ in range(400):
        place, bit = chance.randrange(len(whole)), 1 << chance.randrange(8)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        try:
            read = store.read(path)
            for name in SHAPES:
                read.array(name)
        except UserError as error:
            assert str(path) in str(error)
        except Exception as error:
            surprises.setdefault(type(error).__name__, f"byte {place}: {error}")
    assert surprises == {}


def test_a_file_that_has_gone(store, refusal):
    result = make_result(store)
    result.path.unlink()
    assert str(result.path) in refusal(lambda: result.neighbors)
    assert str(result.path) in refusal(store.read, result.path)


def test_an_array_that_there_is_not(store, refusal):
    assert "has no array 'latency'" in refusal(make_result(store).array, "latency")


# --- names ---------------------------------------------------------------------------------------------------------

ODD_NAMES = [
    "../x",
    "..",
    ".",
    "a b",
    "a/b",
    "/etc/x",
    "日本",
    "a\nb",
    "x" * 200,
    "~",
    "*",
    "[a]",
    "-rf",
    ".hidden",
    "a\\b",
]


@pytest.mark.parametrize("name", ODD_NAMES, ids=repr)
def test_an_odd_data_set_name_stays_below_the_folder(store, name):
    result = make_result(store, dataset=name)
    below = result.path.resolve().relative_to(store.folder.resolve())
    assert len(below.parts) == 3 and ".." not in result.path.parts
    assert store.files(name) == store.files() == [result.path]
    assert store.read(result.path).identity.dataset == name


@pytest.mark.parametrize(("one", "other"), [("a b", "a_b"), ("日本", "中国"), ("a/b", "a_b")])
def test_data_sets_of_alike_names_are_kept_apart(store, one, other):
    first, second = make_result(store, dataset=one), make_result(store, dataset=other)
    assert first.path != second.path
    assert [item.identity.dataset for item in store.results(one)] == [one]


@pytest.mark.parametrize(
    "params",
    [
        {f"parameter_{number}": number for number in range(60)},
        {"name": "x" * 500},
        {"path": "../../etc"},
        {"名": "日本"},
        {"a": 'b c"\n'},
        {"": ""},
    ],
    ids=["many", "long", "path", "unicode", "quotes", "empty"],
)
def test_odd_parameters_make_a_file_name(store, params):
    result = make_result(store, build=params)
    assert result.path.parent == store.folder / "toyset" / "faiss-hnsw" and len(result.path.name) < 140
    assert store.read(result.path).identity.build_params == params
    log = store.log_path(result.identity, "0123456789abcdef")
    assert log.parent == result.path.parent / "logs" and log.name.endswith("-01234567.log") and len(log.name) < 140


VALUES = st.one_of(
    st.integers(-3, 3), st.sampled_from([0.0, 1.0, 1.5, True, False, "", "1", "a b", "a_b", "x" * 200, "日"])
)
PARAMS = st.dictionaries(st.sampled_from(["M", "ef", "a b", "a_b"]), VALUES, max_size=3)
IDENTITIES = st.builds(
    Identity,
    dataset=st.just("d"),
    base_sha256=st.sampled_from("ab"),
    queries_sha256=st.sampled_from("ab"),
    distance=st.sampled_from(["l2", "ip"]),
    algorithm=st.sampled_from("ab"),
    build_params=PARAMS,
    search_params=PARAMS,
    seed=st.integers(0, 1),
    k=st.integers(1, 2),
    mode=st.sampled_from(["batch", "single"]),
    threads=st.integers(1, 2),
)


@given(IDENTITIES, IDENTITIES)
def test_two_identities_never_share_a_path(one, other):
    store = Store(Path("results"))
    same = json.dumps(one.model_dump(), sort_keys=True) == json.dumps(other.model_dump(), sort_keys=True)
    assert (store.path(one) == store.path(other)) == same


@pytest.mark.parametrize(
    "update", [{"seed": 1}, {"threads": 2}, {"mode": "single"}, {"base_sha256": "c"}, {"k": 11}], ids=str
)
def test_what_the_label_does_not_tell_is_in_the_hash(store, update):
    assert store.path(IDENTITY.model_copy(update=update)) != store.path(IDENTITY)


# --- writing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_failed_write_leaves_nothing(store, monkeypatch, failure):
    create, made = h5py.Group.create_dataset, []

    def fail_midway(self, name, *arguments, **options):
        made.append(name)
        if len(made) == 3:
            raise failure
        return create(self, name, *arguments, **options)

    monkeypatch.setattr(h5py.Group, "create_dataset", fail_midway)
    with pytest.raises(type(failure)):
        make_result(store, with_truth=False)
    assert len(made) == 3 and files(store.folder) == []


def test_a_failed_write_keeps_the_file_before_it(store, monkeypatch):
    before = make_result(store, hits=[1, 1], with_truth=False)
    content = before.path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda number: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        make_result(store, hits=[2, 2], with_truth=False)
    assert files(store.folder) == [before.path] and before.path.read_bytes() == content


def test_a_failed_write_names_the_file_and_not_its_temporary_name(tmp_path):
    path = tmp_path / "file" / "x.json"
    path.parent.write_text("no folder")
    with pytest.raises(OSError) as failure:
        write_whole(path, b"x")
    assert failure.value.filename == str(path) and failure.value.filename2 is None


def test_a_file_appears_whole(store, monkeypatch):
    seen = []
    monkeypatch.setattr(os, "fsync", lambda number: seen.extend(store.files()))
    make_result(store)
    assert seen == [] and len(store.files()) == 1


def test_sweep_removes_only_what_is_half_written(store):
    result = make_result(store, with_truth=False)
    log = store.log_path(result.identity, "0" * 16)
    log.parent.mkdir()
    log.write_text("log")
    partial = result.path.parent / f".{result.path.stem}.partial"
    partial.write_bytes(b"half")
    store.sweep()
    assert files(store.folder) == sorted([result.path, log])


def test_require_writable_makes_the_folder_and_leaves_no_trace(store):
    store.require_writable()
    assert store.folder.is_dir() and files(store.folder) == []


@pytest.mark.parametrize("below", [".", "below", "further/below"])
def test_a_folder_below_a_file_cannot_be_written(tmp_path, refusal, below):
    (tmp_path / "file").write_text("x")
    message = refusal(Store(tmp_path / "file" / below).require_writable)
    assert "--results-dir" in message and (tmp_path / "file").read_text() == "x"


def test_a_read_only_folder_cannot_be_written(tmp_path, refusal, monkeypatch):
    monkeypatch.setattr(
        Path, "touch", lambda self, **options: (_ for _ in ()).throw(PermissionError(13, "Permission denied"))
    )
    assert "(Permission denied)" in refusal(Store(tmp_path).require_writable)


# --- lock ----------------------------------------------------------------------------------------------------------

OTHER = """
import sys
from pathlib import Path
from benchmarks.errors import UserError
from benchmarks.results.store import Store
try:
    lock = Store(Path(sys.argv[1])).lock()
except UserError as error:
    sys.exit(f"refused: {error}")
print("held", flush=True)
sys.stdin.readline()
"""


def other_process(store):
    return subprocess.Popen(
        [sys.executable, "-c", OTHER, str(store.folder)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_second_process_is_kept_out_until_the_first_is_done(store):
    store.require_writable()
    lock = store.lock()
    try:
        _, err = other_process(store).communicate(timeout=60)
        assert err.startswith(f"refused: {store.folder}: another run is writing results there")
    finally:
        lock.release()
    out, err = other_process(store).communicate("\n", timeout=60)
    assert out == "held\n" and err == ""


def test_a_killed_process_leaves_no_lock(store, refusal):
    store.require_writable()
    with other_process(store) as process:
        assert process.stdout.readline() == "held\n"
        refusal(store.lock)
        process.kill()
    store.lock().release()


def test_the_lock_can_be_taken_again(store):
    store.require_writable()
    for _ in range(2):
        store.lock().release()


def test_folders_are_locked_each_for_itself(tmp_path):
    locks = []
    for name in ("one", "other"):
        store = Store(tmp_path / name)
        store.require_writable()
        locks.append(store.lock())
    for lock in locks:
        lock.release()


def test_a_result_reads_its_arrays_once(store, monkeypatch):
    result = make_result(store)
    reads, array = [], Result.array
    monkeypatch.setattr(Result, "array", lambda self, name: reads.append(name) or array(self, name))
    assert result.hits is result.hits and reads == ["hits"]
