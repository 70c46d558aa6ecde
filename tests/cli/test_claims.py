import json

import pytest

from benchmarks.cli.claims import main
from benchmarks.results.store import Store
from tests.factories import graph_hits, make_result, make_two_families
from tests.harness import call, finish, start

CLAIMS = """
title: Claims of a toy
paper: arXiv 0000.00000
scales:
  small:
    datasets: {toys: toyset, others: null}
    indexes: {Graph: faiss-hnsw, Lists: faiss-ivfflat, Third: hnswlib}
  large:
    datasets: {toys: elsewhere, others: null}
    indexes: {Graph: faiss-hnsw, Lists: faiss-ivfflat, Third: hnswlib}
    run: python run.py --suite toy
claims:
- id: tail
  where: §1, Figure 1
  says: The lists leave fewer queries with nothing.
  figures: 0.994 and 0.951
  check: {kind: order, dataset: toys, metric: robustness-0.1, recall: 0.9, higher: [Lists], lower: [Graph]}
- id: head
  where: §2
  says: And have more complete answers.
  figures: 0.77 and 0.84
  check: {kind: order, dataset: toys, metric: robustness-1, recall: 0.9, higher: [Lists], lower: [Graph]}
- id: third
  where: §3
  says: A third index is like the first.
  figures: none
  check: {kind: level, dataset: toys, metric: recall, recall: 0.9, indexes: [Third], at_least: 0.5}
"""

TREND = """
- id: rises
  where: §4
  says: More effort, more answers.
  figures: none
  check: {kind: trend, dataset: toys, rises: robustness-0.9, indexes: [Third]}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "claims.yml"
    path.write_text(CLAIMS)
    return path


@pytest.fixture
def claims(file, tmp_path):
    """Run the verb on two families of indexes."""
    store = Store(tmp_path / "results")
    make_two_families(store, (0.8, 0.89, 0.91, 0.95), 2000)

    def run(*options):
        return call(main, "--suite-file", file, "--results-dir", store.folder, *options)

    return run


def test_text(claims):
    done = claims()
    assert (done.code, done.err) == (0, "")
    assert "REPRODUCED  tail  §1, Figure 1" in done.out and "NOT REPRODUCED  head" in done.out
    assert "paper: 0.994 and 0.951" in done.out and "n = 2,000 queries of toyset" in done.out
    assert "between efSearch=20 and efSearch=40" in done.out
    assert "3 claims: 1 reproduced, 1 not reproduced, 0 undecided at this n, 1 not measured" in done.out
    assert (
        "run: python run.py --dataset toyset --algorithm hnswlib --k 10 --threads 1 --target recall@10=0.9" in done.out
    )


def test_formats_and_out(claims, tmp_path):
    data = json.loads(claims("--format", "json").out)
    assert [item["verdict"] for item in data["claims"]] == ["reproduced", "not reproduced", "not measured"]
    done = claims("--out", tmp_path / "table.md")
    assert done.code == 0 and "table.md" in done.out
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert lines[0].startswith("| claim |") and lines[1] == "|---|---|---|---|---|" and "**reproduced**" in lines[2]
    claims("--out", tmp_path / "table.json")
    assert json.loads((tmp_path / "table.json").read_text()) == data


def test_another_index_data_set_and_one_claim(claims):
    assert "1 claims: 0 reproduced" in claims("--claim", "tail", "--scale", "large").out
    assert "1 claims: 1 reproduced" in claims("--claim", "tail", "--scale", "large", "--dataset", "toys=toyset").out
    assert "1 claims: 1 reproduced" in claims("--claim", "third", "--index", "Third=faiss-hnsw").out
    assert "to measure all of it: python run.py --suite toy" in claims("--scale", "large").out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--scale", "smal"), "unknown scale 'smal'; did you mean small?"),
        (("--claim", "tial"), "there is no claim 'tial'; there are: tail, head, third"),
        (("--dataset", "toys"), "the form is the paper's name=ours"),
        (("--dataset", "tois=toyset"), "unknown name in --dataset 'tois'; did you mean toys?"),
        (("--index", "Graph=faiss-hsnw"), "unknown algorithm 'faiss-hsnw'; did you mean faiss-hnsw?"),
        (("--suite-file", "nowhere.yml"), "nowhere.yml: cannot be read"),
        (("--format", "html"), "--format"),
    ],
)
def test_bad_input_is_one_line(claims, options, words):
    done = claims(*options)
    assert done.code == 2 and done.out == "" and words in done.err
    assert len(done.err.splitlines()) == 1 and done.err.startswith("error: ")


def test_a_bad_file_is_one_line_with_its_place(claims, file):
    file.write_text(CLAIMS.replace("higher: [Lists]", "highr: [Lists]", 1))
    done = claims()
    line = next(number for number, text in enumerate(CLAIMS.splitlines(), 1) if "higher" in text)
    assert done.code == 2 and done.err.startswith(f"error: {file}:{line}: ") and len(done.err.splitlines()) == 1


def test_results_are_only_read(claims, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*")}
    claims()
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*")} == before


def test_points_of_another_harness_stand_for_an_index(claims, file, tmp_path):
    file.write_text(CLAIMS + TREND)
    name, options = "hnsw@ann-benchmarks", ("--index", "Third=hnsw@ann-benchmarks")
    refused = claims(*options)
    assert refused.code == 2 and f"unknown algorithm '{name}'" in refused.err and "imported: none" in refused.err
    store = Store(tmp_path / "results")
    for links in (8, 16):
        for step, recall in enumerate((0.85, 0.95)):
            hits = graph_hits(recall, 2000, seed=step)
            more = {"seed": None, "source": f"{links} {step}", "build": {"M": links}}
            make_result(store, algorithm=name, search={"ef": 10 * 2**step}, hits=hits, **more)
    done = claims(*options)
    assert done.code == 0 and "REPRODUCED  third" in done.out and "REPRODUCED  rises" in done.out, done.err + done.out
    assert "between ef=10 and ef=20" in done.out
    assert done.err.startswith(f"warning: Third is {name}, of no card here") and len(done.err.splitlines()) == 1
    file.write_text(CLAIMS.replace("metric: recall, recall: 0.9", "metric: recall, recall: 0.99"))
    done = claims(*options)
    assert "not measured: Third (hnsw@ann-benchmarks)" in done.out and "run.py" not in done.out


def test_a_folder_without_results_is_an_error(tmp_path):
    done = finish(
        start("claims", "--results-dir", tmp_path / "empty", script=("-m", "benchmarks")),
    )
    assert done.code == 2 and done.out == "" and len(done.err.splitlines()) == 1
    assert "empty: no results there; measure with python run.py --suite paper --scale small, or" in done.err
