"""A suite end to end: parts, a part that fails, figures, and going on from there."""

import pytest

from benchmarks import suites
from benchmarks.cli import suite as suite_verb
from tests.harness import gaussian, leftovers, read_results, result_files, run, write_bin

SUITE = """
title: A small study
scales:
  tiny:
    about: here
    algorithms: [toy]
    repeats: 1
    formats: svg
    parts:
      - {{about: a sweep, dataset: {data}, set: ["toy.drop=0.0,0.2,0.4"]}}
      - {{about: what is not there, dataset: nothing.yml}}
      - {{about: one point more, dataset: {data}, set: ["toy.drop=0.4,0.6", "toy.failure={failure}"]}}
    figures:
      - --metric robustness-0.5 --dataset {data} --algorithm toy
      - --figure 13 --dataset {data}
"""


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Run the suite in this process, with `toy.failure` of its last part."""
    monkeypatch.setattr(suites, "SUITES", tmp_path)
    monkeypatch.setattr(suite_verb, "PLOTS", tmp_path / "plots")
    write_bin(tmp_path / "tiny.fbin", gaussian(300))
    write_bin(tmp_path / "tiny-queries.fbin", gaussian(20, seed=1))
    card = tmp_path / "tiny.yml"
    card.write_text(
        "title: Tiny\ndistance: l2\nbase: {path: tiny.fbin}\nqueries: {path: tiny-queries.fbin}\n", encoding="utf-8"
    )
    folder = tmp_path / "suites"
    folder.mkdir()
    monkeypatch.setattr(suites, "SUITES", folder)

    def start(*options, failure="none"):
        (folder / "study.yml").write_text(SUITE.format(data=card, failure=failure))
        common = ["--data-dir", tmp_path / "data", "--results-dir", tmp_path / "results", "--threads", "1"]
        return run("--suite", "study", *common, *options)

    return start


def test_a_suite_from_plan_to_figures(study, tmp_path):
    planned = study("--dry-run")
    assert "3 parts, about 5 points (5 of sweeps" in planned.out and "on 1 builds, 2 figures" in planned.out
    assert "part 2 of 3: what is not there" in planned.out and "nothing.yml" in planned.err
    assert planned.code == 1 and not (tmp_path / "results").exists()

    done = study()
    assert done.code == 1 and "Traceback" not in done.out + done.err, done.err
    assert len(result_files(tmp_path / "results")) == 4 and leftovers(tmp_path / "results") == []
    assert "2 of 3 parts are complete" in done.out and "part 2, what is not there: " in done.out
    assert "toy: 1 operating point on 1 build, 1 complete already" in done.out
    figures = [path for path in (tmp_path / "plots" / "study-tiny").glob("*.svg")]
    assert len(figures) == 1 and figures[0].name in done.out.split("parts are complete")[1]
    assert "not drawn: plot.py --figure 13" in done.out

    again = study()
    assert again.code == 1 and again.out.count("0 operating points on 0 builds") == 2


def test_an_index_is_built_once_for_all_parts(study, tmp_path):
    study()
    results = read_results(tmp_path / "results")
    assert len(results) == 4 and len({result.record.build_seconds for result in results}) == 1
    assert list((tmp_path / "results").glob(".indexes/*")) == [], "removed when the suite is done"


def test_a_point_that_fails_is_told_at_the_end_and_the_rest_is_done(study, tmp_path):
    done = study(failure="raise")
    assert done.code == 1 and "part 3, one point more: some points failed, see above" in done.out
    assert len(result_files(tmp_path / "results")) == 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scale", "tyni"], "unknown scale 'tyni'; did you mean tiny?"),
        (["--k", "5"], "--k does not go with --suite"),
        (["--dataset", "crossover-20k"], "--dataset does not go with --suite"),
        (["--tolerance", "0.1"], "--tolerance does not go with --suite"),
    ],
)
def test_what_does_not_go_with_a_suite(study, options, words):
    refused = study(*options)
    assert refused.code == 2 and words in refused.err and len(refused.err.splitlines()) == 1


def test_neither_suite_nor_data_set():
    assert run("--scale", "small").err == "error: --scale goes with --suite; see run.py --help\n"
    assert "--dataset, or --suite" in run().err
