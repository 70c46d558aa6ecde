from benchmarks.cli import diagnose, headroom
from benchmarks.results.store import Store
from tests.factories import make_result, make_two_families
from tests.harness import call


def test_prices_and_a_figure(tmp_path):
    make_two_families(Store(tmp_path / "r"), [0.8, 0.9, 0.97], nq=1000)
    done = call(headroom.main, "--delta", "0.9", "--results-dir", tmp_path / "r", "--out", tmp_path / "figure.svg")
    assert done.code == 0, done.err
    assert "efSearch=40" in done.out and (tmp_path / "figure.svg").stat().st_size > 10_000


def test_refusals(tmp_path):
    make_result(Store(tmp_path))
    done = call(headroom.main, "--results-dir", tmp_path)
    assert done.code == 2 and "more than one effort" in done.err
    for options, words in [(["--delta", "2"], "at most 1"), (["--out", "x.txt"], "must end in .png")]:
        done = call(headroom.main, *options, "--results-dir", tmp_path)
        assert done.code == 2 and words in done.err and len(done.err.splitlines()) == 1


def test_diagnose_says_what_it_found(tmp_path):
    make_two_families(Store(tmp_path), [0.92], nq=1000)
    done = call(diagnose.main, "--results-dir", tmp_path)
    assert done.code == 1 and "hidden tail" in done.out and "2 series of 2 points: 1 findings" in done.out
