"""Whatever is wrong with what the user gives: exit code 2 and one line that names it."""

import h5py
import numpy as np
import pytest

from benchmarks.cli import plot, prepare, truth
from tests.harness import call, export, finish, gaussian, run, start, write_bin

GOOD = "title: test\ndistance: l2\nbase: {path: base.fbin}\nqueries: {path: queries.fbin}\n"


def files(folder, base=None, queries=None):
    """base.fbin and queries.fbin, and options that keep a run inside the folder."""
    base = gaussian(100) if base is None else base
    write_bin(folder / "base.fbin", base)
    write_bin(folder / "queries.fbin", gaussian(10, base.shape[1], seed=1) if queries is None else queries)
    return ["--data-dir", folder / "data", "--algorithm", "toy"]


def vectors(folder, **more):
    return ["--dataset", folder / "base.fbin", "--queries", folder / "queries.fbin", *files(folder, **more)]


def card(folder, text=GOOD, **more):
    (folder / "card.yml").write_text(text)
    return ["--dataset", folder / "card.yml", *files(folder, **more)]


def sweep(folder, text):
    (folder / "sweep.yml").write_text(text)
    return [*vectors(folder), "--config", folder / "sweep.yml"]


def with_value(value):
    base = gaussian(100)
    base[42, 3] = value
    return base


def split_file(folder, row):
    """More rows than are held out, so that the base is not the file."""
    vectors = gaussian(2000)
    vectors[row, 3] = np.nan
    np.save(folder / "own.npy", vectors)
    return ["--dataset", folder / "own.npy"]


def truncated(folder):
    options = vectors(folder)
    (folder / "base.fbin").write_bytes((folder / "base.fbin").read_bytes()[:-5])
    return options


def false_header(folder, rows, dimension):
    options = vectors(folder)
    write_bin(folder / "base.fbin", gaussian(100), (rows, dimension))
    return options


def hdf5(folder, distance="euclidean", **arrays):
    with h5py.File(folder / "data.hdf5", "w") as file:
        file.attrs["distance"] = distance
        for name, array in arrays.items():
            file[name] = array
    return ["--dataset", folder / "data.hdf5", "--data-dir", folder / "data", "--algorithm", "toy"]


def npy(folder, array):
    np.save(folder / "base.npy", array)
    return ["--dataset", folder / "base.npy", "--data-dir", folder / "data", "--algorithm", "toy"]


def below_a_file(folder):
    (folder / "file").touch()
    return [*vectors(folder), "--results-dir", folder / "file" / "results"]


def bytes_file(folder, name, content):
    (folder / name).write_bytes(content)
    return ["--dataset", folder / name, "--data-dir", folder / "data", "--algorithm", "toy"]


RUN = {
    "truncated": (truncated, ["base.fbin", "6408", "6403", "truncated"]),
    "header of 0 bytes": (lambda f: bytes_file(f, "base.fbin", b""), ["base.fbin", "truncated"]),
    "header says more rows": (lambda f: false_header(f, 101, 16), ["base.fbin", "101 rows"]),
    "header says fewer rows": (lambda f: false_header(f, 99, 16), ["base.fbin", "99 rows", "header"]),
    "header says huge": (lambda f: false_header(f, 2**32 - 1, 2**32 - 1), ["base.fbin", "4294967295"]),
    "header says no rows": (lambda f: false_header(f, 0, 16), ["base.fbin", "0 rows"]),
    "dimension unlike the card's": (lambda f: card(f, GOOD + "dimension: 32\n"), ["base.fbin", "16", "32"]),
    "rows unlike the card's": (
        lambda f: card(f, GOOD.replace("base.fbin}", "base.fbin, rows: 7}")),
        ["base.fbin", "100", "7"],
    ),
    "dtype unlike the card's": (lambda f: card(f, GOOD + "dtype: uint8\n"), ["base.fbin", "float32", "uint8"]),
    "queries of another dimension": (lambda f: vectors(f, queries=gaussian(10, 8)), ["queries.fbin", "8", "16"]),
    "queries that do not exist": (lambda f: [*vectors(f)[:3], f / "no.fbin", *vectors(f)[4:]], ["no.fbin"]),
    "NaN": (lambda f: vectors(f, base=with_value(np.nan)), ["base.fbin", "row 42", "nan"]),
    "infinity": (lambda f: vectors(f, base=with_value(-np.inf)), ["base.fbin", "row 42", "inf"]),
    "NaN in a file that is split": (lambda f: split_file(f, row=1500), ["own.npy", "row 1500", "nan"]),
    "NaN in a query": (lambda f: vectors(f, queries=with_value(np.nan)), ["queries.fbin", "row 42", "nan"]),
    "unknown key in a card": (lambda f: card(f, GOOD + "licens: none\n"), ["card.yml:5", "licens", "licence"]),
    "unknown key deep in a card": (
        lambda f: card(f, GOOD.replace("base.fbin}", "base.fbin, row: 7}")),
        ["card.yml:3", "row"],
    ),
    "unknown distance in a card": (lambda f: card(f, GOOD.replace("l2", "l1")), ["card.yml:2", "distance", "l1"]),
    "card that is no YAML": (lambda f: card(f, "title: [\n"), ["card.yml:", "expected"]),
    "card without base": (lambda f: card(f, "title: x\ndistance: l2\n"), ["card.yml", "exactly one of base"]),
    "unknown key in a sweep": (lambda f: sweep(f, "k: 10\nrepeat: 3\n"), ["sweep.yml:2", "repeat", "repeats"]),
    "unknown key in a grid": (
        lambda f: sweep(f, "algorithms:\n  toy:\n    serch: {drop: [0.5]}\n"),
        ["sweep.yml:3", "serch"],
    ),
    "unknown algorithm in a sweep": (
        lambda f: sweep(f, "algorithms:\n  faiss-hnws: {}\n"),
        ["sweep.yml", "faiss-hnws", "faiss-hnsw"],
    ),
    "unknown parameter in a sweep": (
        lambda f: sweep(f, "algorithms:\n  toy: {search: {dorp: 1}}\n"),
        ["sweep.yml", "dorp", "drop"],
    ),
    "no such sweep": (lambda f: [*vectors(f), "--config", f / "missing.yml"], ["missing.yml"]),
    "unknown algorithm": (
        lambda f: [*vectors(f), "--algorithm", "faiss-hnws"],
        ["faiss-hnws", "did you mean faiss-hnsw"],
    ),
    "k of 0": (lambda f: [*vectors(f), "--k", 0], ["--k", "0"]),
    "k that is no number": (lambda f: [*vectors(f), "--k", "ten"], ["--k", "ten"]),
    "k beyond what is counted": (lambda f: [*vectors(f), "--k", 70000], ["70000", "65535"]),
    "repeats of -1": (lambda f: [*vectors(f), "--repeats", -1], ["--repeats", "-1"]),
    "9999 threads": (lambda f: [*vectors(f), "--threads", 9999], ["--threads 9999"]),
    "results below a file": (below_a_file, ["file/results"]),
    "results in /proc": (lambda f: [*vectors(f), "--results-dir", "/proc/x"], ["/proc/x"]),
    "data below a file": (
        lambda f: [
            *below_a_file(f)[:4],
            "--algorithm",
            "toy",
            "--results-dir",
            f / "r",
            "--data-dir",
            f / "file" / "data",
        ],
        ["file"],
    ),
    "data set file that does not exist": (lambda f: ["--dataset", f / "no.fbin"], ["no.fbin"]),
    "card that does not exist": (lambda f: ["--dataset", f / "no.yml"], ["no.yml"]),
    "data set that is a folder": (lambda f: ["--dataset", f], ["test_"]),
    "data set of unknown kind": (lambda f: bytes_file(f, "base.txt", b"1 2 3"), ["base.txt", ".fbin"]),
    "unknown data set": (lambda f: ["--dataset", "crosover-20k"], ["crosover-20k", "did you mean crossover-20k"]),
    "distance for a card": (lambda f: [*card(f), "--distance", "ip"], ["--distance", "card.yml"]),
    "unknown distance": (lambda f: [*vectors(f), "--distance", "l1"], ["--distance", "l1"]),
    "unknown mode": (lambda f: [*vectors(f), "--mode", "triple"], ["--mode", "triple"]),
    "unknown option": (lambda f: [*vectors(f), "--kay", 3], ["--kay"]),
    "no data set": (lambda f: [], ["--dataset"]),
    "set of an unknown parameter": (lambda f: [*vectors(f), "--set", "toy.dorp=1"], ["toy.dorp", "drop"]),
    "set of a wrong type": (lambda f: [*vectors(f), "--set", "toy.drop=much"], ["toy.drop", "float", "much"]),
    "set that is no number": (lambda f: [*vectors(f), "--set", "toy.drop=.nan"], ["toy.drop"]),
    "set out of range": (lambda f: [*vectors(f), "--set", "toy.drop=1.5"], ["toy.drop", "1.5"]),
    "set twice the same value": (lambda f: [*vectors(f), "--set", "toy.drop=1,1"], ["toy.drop", "twice"]),
    "set without a value": (lambda f: [*vectors(f), "--set", "toy.drop"], ["--set toy.drop", "="]),
    "set without an algorithm": (lambda f: [*vectors(f), "--set", "drop=1"], ["--set drop=1"]),
    "set that is half YAML": (lambda f: [*vectors(f), "--set", "toy.drop=[1"], ["--set toy.drop=[1"]),
    "set of nothing": (lambda f: [*vectors(f), "--set", "toy.drop=0.1,,"], ["toy.drop"]),
    "set of a mapping": (lambda f: [*vectors(f), "--set", "toy.drop={a: 1}"], ["toy.drop"]),
    "set of an algorithm that is not run": (lambda f: [*vectors(f), "--set", "hnswlib.ef=9"], ["hnswlib.ef"]),
    "memory limit of words": (lambda f: [*vectors(f), "--memory-limit", "lots"], ["--memory-limit", "lots"]),
    "memory limit of 0": (lambda f: [*vectors(f), "--memory-limit", "0GB"], ["--memory-limit", "0GB"]),
    "memory limit beyond the machine": (lambda f: [*vectors(f), "--memory-limit", "9000TB"], ["--memory-limit"]),
    "timeout of 0": (lambda f: [*vectors(f), "--timeout", 0], ["--timeout", "0"]),
    "HDF5 of another distance": (
        lambda f: hdf5(f, "jaccard", train=gaussian(9), test=gaussian(3)),
        ["data.hdf5", "jaccard", "euclidean"],
    ),
    "HDF5 without test": (lambda f: hdf5(f, train=gaussian(9)), ["data.hdf5", "test", "train"]),
    "HDF5 that is none": (lambda f: bytes_file(f, "x.hdf5", b"nonsense" * 100), ["x.hdf5"]),
    "HDF5 of text": (lambda f: hdf5(f, train=np.array([[b"a"]]), test=gaussian(3)), ["data.hdf5"]),
    "npy of no rows": (lambda f: npy(f, np.zeros((0, 16), np.float32)), ["base.npy", "(0, 16)"]),
    "npy of one row": (lambda f: npy(f, gaussian(1)), ["1"]),
    "npy of one axis": (lambda f: npy(f, np.zeros(16, np.float32)), ["base.npy", "(16,)"]),
    "npy of no axis": (lambda f: npy(f, np.float32(1)), ["base.npy"]),
    "npy of int64": (lambda f: npy(f, np.zeros((9, 16), np.int64)), ["base.npy", "int64"]),
    "npy of objects": (lambda f: npy(f, np.full((9, 2), None)), ["base.npy"]),
    "npy that is none": (lambda f: bytes_file(f, "x.npy", b"nonsense"), ["x.npy"]),
    "npy of nothing": (lambda f: bytes_file(f, "x.npy", b""), ["x.npy"]),
}


def assert_one_line(finished, names):
    assert finished.code == 2, finished
    assert finished.err.startswith("error: ") and finished.err.endswith("\n"), finished.err
    assert len(finished.err.splitlines()) == 1, finished.err
    for name in names:
        assert name in finished.err, finished.err
    assert "Traceback" not in finished.out


def without_progress(finished):
    """Standard error less the lines that say what is being done: `checking base`."""
    lines = [
        line
        for line in finished.err.splitlines(keepends=True)
        if not line.startswith(("checking ", "splitting ", "fetching "))
    ]
    return type(finished)(finished.code, finished.out, "".join(lines))


@pytest.mark.parametrize("case", RUN)
def test_run(tmp_path, case):
    options, names = RUN[case]
    arguments = options(tmp_path)
    if "--results-dir" not in arguments:
        arguments = [*arguments, "--results-dir", tmp_path / "results"]
    finished = run(*arguments)
    assert_one_line(without_progress(finished), names)
    assert not list(tmp_path.rglob("*.partial")) and not (tmp_path / "results" / "base").exists()


@pytest.mark.parametrize("case", ["truncated", "unknown algorithm", "NaN", "results in /proc"])
def test_run_as_a_process(tmp_path, case):
    options, names = RUN[case]
    process = start("--results-dir", tmp_path / "results", *options(tmp_path))  # a later --results-dir wins
    assert_one_line(without_progress(finish(process)), names)


@pytest.mark.parametrize("verb", [prepare, truth], ids=["prepare", "truth"])
@pytest.mark.parametrize(
    "case", ["truncated", "NaN", "queries of another dimension", "unknown data set", "data below a file"]
)
def test_prepare_and_truth(tmp_path, verb, case):
    options, names = RUN[case]
    arguments = options(tmp_path)
    for name in ("--algorithm", "--results-dir"):
        while name in arguments:
            at = arguments.index(name)
            arguments = arguments[:at] + arguments[at + 2 :]
    assert_one_line(without_progress(call(verb.main, *arguments)), names)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--metric", "robustnes-0.1"], ["robustnes-0.1", "robustness"]),
        (["--metric", "robustness-0"], ["robustness-0", "above 0"]),
        (["--metric", "robustness-2"], ["robustness-2"]),
        (["--metric", "robustness-nan"], ["robustness-nan"]),
        (["--metric", "latency-p100"], ["latency-p100"]),
        (["--metric", "recall@0"], ["recall@0"]),
        (["--format", "xml"], ["xml"]),
        (["--format", "parquet"], ["parquet", "--out"]),
        (["--dataset", "nothing"], ["nothing"]),
        (["--results-dir", "/nowhere"], ["/nowhere"]),
    ],
)
def test_export(tmp_path, arguments, names):
    assert_one_line(export("--results-dir", tmp_path, *arguments), names)


def test_export_into_a_folder_that_does_not_exist(tmp_path):
    options = vectors(tmp_path)
    assert run(*options, "--results-dir", tmp_path / "results", "--threads", 1, "--set", "toy.drop=0.5").code == 0
    for kind in ("csv", "json", "parquet"):
        finished = export("--results-dir", tmp_path / "results", "--format", kind, "--out", tmp_path / "no" / "file")
        assert_one_line(finished, [str(tmp_path / "no")])


@pytest.mark.parametrize("verb", ["", "measure"])
def test_unknown_verb(verb):
    finished = finish(start(*verb.split(), script=("-m", "benchmarks")))
    assert finished.code == 2 and "Traceback" not in finished.err
    if verb:
        assert_one_line(finished, ["measure", "list"])


def test_plot_without_results(tmp_path):
    assert_one_line(call(plot.main, "--dataset", "nothing", "--results-dir", tmp_path), [str(tmp_path)])
