import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.cli.plot import main, parser, selection
from benchmarks.errors import UserError
from benchmarks.figures import presets
from benchmarks.figures.files import formats_of, paths_of
from benchmarks.figures.theme import RC
from benchmarks.metrics.registry import parse_metric
from benchmarks.results.store import Store
from tests.factories import graph_hits, make_result, make_two_families, partition_hits

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Few dots, so that the tests are quick."""
    monkeypatch.setitem(RC, "savefig.dpi", 50)


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "results")
    make_two_families(store, (0.8, 0.9, 0.95), 200)
    make_result(store, algorithm="faiss-hnsw", build={"M": 8}, search={"efSearch": 64}, status="out-of-memory")
    return store


@pytest.fixture
def plot(store, tmp_path, capsys):
    """Run the verb; its exit code, output and errors."""

    def run(*options, out="figure.png"):
        where = [] if out is None else ["--out", str(tmp_path / out)]
        with pytest.raises(SystemExit) as stop:
            main(["--results-dir", str(store.folder), *where, *options])
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return run


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--metric", "robustness-0.1"),
        ("--metric", "robustness-0.1@10", "--metric", "recall", "--versus", "qps"),
        ("--metric", "qps", "--scale", "tail"),
        ("--metric", "index-bytes", "--versus", "robustness-0.9"),
        ("--curve",),
        ("--distribution", "--recall", "0.8"),
        ("--algorithm", "faiss-hnsw", "--k", "10", "--mode", "batch", "--threads", "1"),
    ],
)
def test_figures_are_written_and_their_table_printed(plot, tmp_path, options):
    code, out, err = plot(*options)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].endswith("figure.png") and (tmp_path / "figure.png").stat().st_size > 5000
    assert "faiss-hnsw" in out and "efSearch=64" in out and "out-of-memory" in out


def test_table_holds_values_and_intervals(plot, store):
    out = plot("--metric", "robustness-0.5")[1]
    assert "Robustness-0.5" in out and "[0." in out
    assert len([line for line in out.splitlines() if line.startswith(" faiss")]) == 7


def test_results_are_only_read(plot, store):
    before = {path: path.stat().st_mtime_ns for path in store.folder.rglob("*")}
    plot()
    plot("--curve")
    assert {path: path.stat().st_mtime_ns for path in store.folder.rglob("*")} == before


def test_every_format(plot, tmp_path):
    code, out, _ = plot("--format", "png,svg,pdf", out="some/folder/prefix")
    assert code == 0
    for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        assert (tmp_path / "some" / "folder" / f"prefix.{kind}").read_bytes().startswith(start)
        assert f"prefix.{kind}" in out


def test_default_name_tells_data_set_and_figure(plot, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.figures.files.PLOTS", tmp_path / "plots")
    plot(out=None)
    plot("--metric", "robustness-0.1@10", "--metric", "qps", out=None)
    plot("--curve", "--k", "10", out=None)
    plot("--distribution", out=None)
    assert sorted(path.name for path in (tmp_path / "plots").glob("*.png")) == [
        "toyset-curve-k10.png",
        "toyset-distribution.png",
        "toyset-robustness-0.1@10+qps-vs-recall.png",
        "toyset-robustness-vs-recall.png",
    ]


def refused(plot, *options, **where):
    code, out, err = plot(*options, **where)
    assert code == 2 and out == "" and err.startswith("error: ") and err.count("\n") == 1, err
    return err


def test_unknown_names_are_one_line(plot):
    assert "unknown metric 'robustnes-0.1'" in refused(plot, "--metric", "robustnes-0.1")
    assert "unknown metric 'speed'" in refused(plot, "--versus", "speed")
    assert "did you mean faiss-hnsw?" in refused(plot, "--algorithm", "faiss-hsnw")
    assert "unknown format 'jpg'" in refused(plot, "--format", "png,jpg")
    assert "unknown format 'jpeg'" in refused(plot, out="figure.jpeg")
    assert "toyset (7)" in refused(plot, "--dataset", "other")
    assert "k 10 (7)" in refused(plot, "--k", "100")
    assert "above 0 and at most 1" in refused(plot, "--curve", "--recall", "90")


def test_options_that_do_not_go_together(plot):
    assert "--metric does not go with --curve" in refused(plot, "--curve", "--metric", "recall")
    assert "--recall goes with" in refused(plot, "--recall", "0.9")
    assert "--k is 10" in refused(plot, "--k", "10", "--metric", "robustness-0.1@100")
    assert "contradict" in refused(plot, "--format", "svg")


def test_out_that_cannot_be_written(plot, tmp_path):
    (tmp_path / "file").touch()
    assert "file" in refused(plot, out="file/figure.png")


def test_no_results(tmp_path, capsys):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(SystemExit) as stop:
            main(["--results-dir", str(folder)])
        assert stop.value.code == 2 and "no results there" in capsys.readouterr().err


def test_unlike_results_need_mix(plot, store):
    make_result(store, k=100)
    assert "k 10 (7 points), 100 (1 points); choose with --k" in refused(plot)
    assert plot("--mix")[0] == plot("--k", "100")[0] == plot("--metric", "robustness-0.1@10")[0] == 0
    assert plot("--curve", "--mix")[0] == plot("--distribution", "--mix")[0] == 0


def test_threads_are_not_mixed(plot, store):
    make_result(store, threads=4)
    assert "--threads" in refused(plot)
    assert plot("--threads", "1")[0] == 0


def test_points_of_older_code_are_left_out_aloud(plot, store):
    make_result(store, build={"M": 8}, search={"efSearch": 99}, code="new", measured_at="2027-01-01T00:00:00+00:00")
    code, out, err = plot()
    assert code == 0 and "points of faiss-hnsw were measured with older code" in err and "efSearch=16" not in out
    assert "efSearch=99" not in plot("--quiet")[1]


def test_points_of_older_code_that_are_mixed_are_named_in_the_figure(store):
    make_result(store, build={"M": 8}, search={"efSearch": 99}, code="new", measured_at="2027-01-01T00:00:00+00:00")
    results = list(store.results())
    args = parser().parse_args(["--mix", "--algorithm", "faiss-hnsw"])
    shown, note = selection(args, presets.PLAIN, "toyset", results, [])
    old = sum(each.identity.algorithm == "faiss-hnsw" for each in results) - 1
    assert len(shown) == old + 1
    assert note == f"mixed: newer code, and {old} points of faiss-hnsw measured with older code"


def test_several_data_sets_need_a_name(plot, store):
    make_result(store, dataset="other-set")
    make_result(store, dataset="with space")
    assert "other-set (1), toyset (7), with_space-" in refused(plot)
    for name in ("other-set", "cards/other-set.yml", "with space", "cards/with space.yml"):
        assert plot("--dataset", name)[0] == 0


def test_a_damaged_file_is_a_warning(plot, store):
    (store.folder / "toyset" / "faiss-hnsw" / "broken.hdf5").write_bytes(b"\x89HDF")
    code, _, err = plot()
    assert code == 0 and err.startswith("warning: ") and "broken.hdf5" in err


def test_long_tables_are_cut(plot, store):
    for ef in range(100, 150):
        make_result(store, build={"M": 8}, search={"efSearch": ef})
    out = plot()[1]
    assert "… and 17 more points" in out and len(out.splitlines()) < 50


def test_formats_and_paths(tmp_path):
    assert formats_of(None, None) == formats_of("glove.6B", None) == ["png"]
    assert formats_of("x.SVG", None) == ["svg"] and formats_of("x.pdf", "pdf") == ["pdf"]
    assert formats_of(None, "pdf, png,pdf") == ["pdf", "png"]
    with pytest.raises(UserError, match="unknown format ''"):
        formats_of(None, "png,")
    assert paths_of(str(tmp_path), "a b", ["png"]) == [tmp_path / "a_b.png"]
    assert paths_of(str(tmp_path / "glove.6B"), "x", ["png", "svg"]) == [
        tmp_path / "glove.6B.png",
        tmp_path / "glove.6B.svg",
    ]


def test_the_script(store, tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "plot.py",
            "--metric",
            "robustness-0.1",
            "--results-dir",
            store.folder,
            "--out",
            tmp_path / "x.svg",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.svg").exists()


def test_help_names_options_and_metrics(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    out = capsys.readouterr().out
    assert stop.value.code == 0
    for part in ("--curve", "--distribution", "--mix", "robustness-<delta>", "examples:"):
        assert part in out


@pytest.fixture
def study(tmp_path):
    """Three indexes around recall 0.9, K = 10 and 100, several M, and points that failed."""
    store = Store(tmp_path / "results")
    for place, recall in enumerate((0.8, 0.9, 0.95)):
        for k in (10, 100):
            make_result(
                store,
                algorithm="faiss-ivfflat",
                search={"n_probe": 2**place},
                k=k,
                qps=8000 / 2**place,
                hits=partition_hits(recall, 200, k, place),
            )
            for links in (8, 16):
                make_result(
                    store,
                    algorithm="faiss-hnsw",
                    build={"M": links},
                    search={"efSearch": 10 * 2**place},
                    k=k,
                    hits=graph_hits(recall, 200, k, place),
                    qps=links * 900 / 2**place,
                )
    make_result(store, algorithm="faiss-flat", hits=np.full(200, 10))
    make_result(store, algorithm="faiss-hnsw", build={"M": 8}, search={"efSearch": 99}, status="timeout")
    return store


def drawn_by(study, tmp_path, capsys, *options):
    """Exit code, output, errors and table of a figure."""
    out = tmp_path / "out" / "figure.png"
    with pytest.raises(SystemExit) as stop:
        main(["--results-dir", str(study.folder), "--out", str(out), *options])
    captured = capsys.readouterr()
    table = pd.read_csv(out.with_suffix(".csv")) if out.with_suffix(".csv").exists() else None
    return stop.value.code, captured.out, captured.err, table


@pytest.mark.parametrize(
    "figure, options, panels",
    [("1", (), 0), ("3", (), 0), ("6", (), 5), ("7", (), 5), ("8", (), 5), ("9", (), 0), ("10", (), 6), ("11", (), 3)]
    + [("13", (), 0), ("14", ("--at-least", "recall=0.7"), 0), ("6", ("--delta", "0.2", "--delta", "0.85"), 2)],
)
def test_figures_of_the_paper(study, tmp_path, capsys, figure, options, panels):
    options += () if figure == "9" else ("--k", "10")
    options += ("--tolerance", "0.02") if figure in ("1", "3", "9") else ()
    code, out, err, table = drawn_by(study, tmp_path, capsys, "--figure", figure, *options)
    assert (code, err) == (0, ""), err
    assert out.splitlines()[0].endswith("figure.png") and out.splitlines()[1].endswith("figure.csv")
    assert len(set(table[table.status == "ok"].get("panel", pd.Series(dtype=str)).dropna())) == panels
    assert ("timeout" in set(table.status)) == (figure != "14") and "timeout" in out or figure == "14"
    assert "faiss-flat" not in set(table.algorithm) or figure in ("6", "7", "8", "10", "11")


def test_the_table_holds_the_metrics_values(study, tmp_path, capsys):
    table = drawn_by(study, tmp_path, capsys, "--figure", "10", "--k", "10", "--quiet")[3]
    row = table[(table.panel == "f") & (table.algorithm == "faiss-ivfflat") & (table.search == '{"n_probe": 2}')]
    result = next(
        each for each in study.results() if each.identity.search_params == {"n_probe": 2} and each.identity.k == 10
    )
    measured = parse_metric("robustness-0.9").compute(result)
    assert row[["x", "x_low", "x_high"]].iloc[0].tolist() == [measured.value, measured.low, measured.high]
    assert (row.x_metric.iloc[0], row.y_metric.iloc[0]) == ("robustness-0.9", "qps")
    assert row.y.iloc[0] == parse_metric("qps").compute(result).value


def test_no_csv_and_every_format_share_a_stem(study, tmp_path, capsys):
    assert drawn_by(study, tmp_path, capsys, "--figure", "6", "--k", "10", "--no-csv")[3] is None
    with pytest.raises(SystemExit):
        main(
            ["--results-dir", str(study.folder), "--figure", "6", "--k", "10", "--format", "pdf,svg", "--quiet"]
            + ["--out", f"{tmp_path}/b/"]
        )
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == [
        f"toyset-figure-6-k10.{kind}" for kind in ("csv", "pdf", "svg")
    ]


def refused_by(study, tmp_path, capsys, *options):
    code, out, err, table = drawn_by(study, tmp_path, capsys, *options)
    assert code == 2 and out == "" and table is None and err.startswith("error: ") and err.count("\n") == 1, err
    return err


def test_what_a_figure_lacks_is_one_line_that_says_what_to_run(study, tmp_path, capsys):
    def refused_figure(*options):
        return refused_by(study, tmp_path, capsys, "--figure", *options)

    assert "there is no figure '4'" in refused_figure("4")
    assert "shows K = 7 and K = 7 was not measured" in refused_figure("6", "--k", "7")
    assert "K = 7 was not measured; run: python run.py --dataset toyset --k 7 --algorithm faiss-flat" in refused_figure(
        "9", "--k", "10", "--k", "7"
    )
    assert "run.py --dataset toyset --k 7 --algorithm faiss-flat --threads 1;" in refused_figure(
        "6", "--k", "7", "--algorithm", "faiss-flat"
    )
    one = refused_figure("3", "--k", "10", "--algorithm", "faiss-flat")
    assert "2 indexes are needed at average recall 0.9" in one and "run.py --set" in one
    assert "no threshold of 'qps'" in refused_figure("6", "--k", "10", "--at-least", "qps=10")
    assert "the best has" in refused_figure("14", "--k", "10", "--at-least", "recall=0.999")
    for options, words in (
        (("11", "--at-least", "recall=2"), "--at-least recall=2: there is no such value, recall is from 0 to 1"),
        (("11", "--at-least", "recall=0.8,-1"), "recall=-1: there is no such value"),
        (("11", "--at-least", "qps=-1"), "qps=-1: there is no such value, qps is never negative"),
        (("11", "--at-least", "qps=10,1e6"), "no point has QPS ≥ 1M; the best has 14400: lower the threshold"),
        (("13", "--at-least", "recall=0.999"), "no point has Recall@10 ≥ 0.999; the best has 0.9"),
    ):
        assert words in refused_figure(*options, "--k", "10")
    for path in study.files():
        if "M=16" in path.name or "ivfflat" in str(path):
            path.unlink()
    assert "values of M, and there is one: 8; measure more: python run.py --dataset toyset --algorithm faiss-hnsw" in (
        refused_figure("13", "--k", "10")
    )
    assert "shows faiss-ivfflat; measured: faiss-flat, faiss-hnsw" in refused_figure("14", "--k", "10")


def test_options_that_do_not_go_with_a_figure(study, tmp_path, capsys):
    def refused_options(*options):
        return refused_by(study, tmp_path, capsys, *options)

    assert "--metric does not go with --figure 6" in refused_options("--figure", "6", "--metric", "recall")
    assert "--recall does not go with --figure 10" in refused_options("--figure", "10", "--recall", "0.9")
    assert "--delta does not go with --figure 1" in refused_options("--figure", "1", "--delta", "0.9")
    assert "--delta does not go with --metric" in refused_options("--delta", "0.9", "--metric", "recall")
    assert "not allowed with" in refused_options("--figure", "1", "--curve")
    assert "METRIC=VALUE" in refused_options("--at-least", "recall")
    assert "METRIC=VALUE" in refused_options("--at-least", "recall=nan")
    assert "METRIC=VALUE" in refused_options("--at-least", "recall=0.1,0.2,0.3")
    assert "unknown metric 'speed'" in refused_options("--at-least", "speed=3")
    assert "δ must be above 0" in refused_options("--figure", "6", "--delta", "7")


def test_the_papers_data_set_is_taken_where_it_was_measured(study, tmp_path, capsys):
    make_result(study, dataset="deep-10M", hits=np.full(200, 9))
    assert "choose one with --dataset" in refused_by(study, tmp_path, capsys, "--figure", "6")
    table = drawn_by(study, tmp_path, capsys, "--figure", "8")[3]
    assert set(table.dataset) == {"deep-10M"}


def test_only_some_values_of_a_parameter(plot, store, tmp_path):
    make_result(store, algorithm="faiss-hnsw", build={"M": 16}, search={"efSearch": 10}, hits=graph_hits(0.9, 200))
    code, _, err = plot("--metric", "robustness-0.1", "--only", "faiss-hnsw.M=16")
    assert code == 0, err
    table = pd.read_csv(tmp_path / "figure.csv")
    assert (table["algorithm"] == "faiss-hnsw").sum() == 1 and (table["algorithm"] == "faiss-ivfflat").sum() == 3
    assert plot("--only", "faiss-hnsw.M=99")[::2] == (
        2,
        "error: no results of faiss-hnsw have M = 99; there are: 16, 8\n",
    )
    assert plot("--only", "M=8")[2].startswith("error: --only M=8: the form is algorithm.parameter=value")
