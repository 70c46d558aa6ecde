import json

import numpy as np
import pytest

from benchmarks.cli import advise as verb
from benchmarks.results.store import Store
from tests.factories import make_result, make_two_families
from tests.harness import call


@pytest.fixture
def folder(tmp_path):
    make_two_families(Store(tmp_path), [0.8, 0.9, 0.97], nq=1000)
    return tmp_path


def test_a_choice_with_its_reasons(folder):
    done = call(verb.main, "--min", "recall=0.85", "--results-dir", folder)
    assert done.code == 0, done.err
    assert "best qps" in done.out and "not faiss-" in done.out and "more recall" in done.out


def test_nothing_qualifies(folder):
    done = call(verb.main, "--min", "recall=0.99", "--min", "qps=8500", "--results-dir", folder)
    assert done.code == 1
    assert "None of the 6 points" in done.out and "instead: faiss-" in done.out


def test_json(folder):
    done = call(
        verb.main, "--min", "robustness-0.9=0.1", "--minimize", "index-bytes", "--json", "--results-dir", folder
    )
    answer = json.loads(done.out)
    assert answer["chosen"]["algorithm"] in ("faiss-hnsw", "faiss-ivfflat") and answer["considered"] == 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "nothing is asked for"),
        (["--min", "latency-p99=3"], "no point has 'latency-p99'"),
        (["--min", "recall=0.5", "--maximize", "index-bytes"], "say --minimize index_bytes"),
        (["--min", "recall=0.5", "--minimize", "qps"], "say --maximize qps"),
        (["--min", "recall=0.5", "--dataset", "nothing"], "no results of data set 'nothing'"),
    ],
)
def test_refusals(folder, options, words):
    done = call(verb.main, *options, "--results-dir", folder)
    assert done.code == 2 and words in done.err and len(done.err.splitlines()) == 1


def test_unlike_results_are_not_chosen_between(folder):
    make_result(Store(folder), algorithm="scann", hits=np.full(1000, 9), cpu="Another CPU", qps=1e6)
    done = call(verb.main, "--min", "recall=0.5", "--results-dir", folder)
    assert done.code == 2 and "differ in machine" in done.err


def test_names_are_no_markup_and_the_best_of_one_is_not_flattered(tmp_path):
    make_result(Store(tmp_path), algorithm="[red]x@there", hits=np.full(1000, 9))
    done = call(verb.main, "--min", "recall=0.5", "--results-dir", tmp_path)
    assert done.code == 0 and "[red]x@there" in done.out and "looks a little better" not in done.out
