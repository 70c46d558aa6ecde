"""The verb offline: controls in order, its files, the same analysis from a file of one's own, figures."""

import csv
import json

import pytest

from benchmarks.cli import plot as plot_verb
from benchmarks.cli import rag as rag_verb
from tests.harness import call, read_results
from tests.rag.conftest import measured, where, world  # noqa: F401 - fixtures


@pytest.fixture
def rag(where):  # noqa: F811
    return lambda *options: call(rag_verb.main, *where, *options)


def analysis(text: str) -> str:
    return text[text.index("by recall of the query") :]


def test_controls_are_in_order_and_the_files_are_there(rag, world):  # noqa: F811
    done = rag("--judge", "normalised,gold-document")
    assert done.code == 0, done.err
    shares = {line.split()[0]: float(line.split()[2]) for line in done.out.splitlines() if " documents " in line[:30]}
    assert shares["empty"] == 0 < shares["exact"] <= shares["gold"] == 1
    assert "judges normalised and gold-document agree" in done.out
    folder = world / "results" / "capitals" / "rag"
    facts = json.loads((folder / "extractive-normalised.json").read_text())
    assert facts["answerer"] == "extractive 1" and facts["questions"] == 40 and len(facts["points"]) == 7
    rows = list(csv.DictReader((folder / "extractive-normalised.csv").open()))
    assert len(rows) == 40 * 10 and {row["correct"] for row in rows} == {"0", "1"}
    first = (folder / "extractive-normalised.csv").read_bytes()
    assert rag().code == 0 and (folder / "extractive-normalised.csv").read_bytes() == first


def test_a_file_of_ones_own_gives_the_same_analysis(rag, world, tmp_path):  # noqa: F811
    done = rag()
    rows = list(csv.DictReader((world / "results" / "capitals" / "rag" / "extractive-normalised.csv").open()))
    own = tmp_path / "mine.csv"
    own.write_text(
        "question,point,note,correct\n"
        + "".join(f"q{row['query']},{row['point']},x,{row['correct']}\n" for row in reversed(rows))
    )
    mine = rag("--own", own)
    assert mine.code == 0, mine.err
    assert analysis(mine.out) == analysis(done.out) and "exact documents" in mine.out
    own.write_text(
        "query,point,correct\n" + "".join(f"{r['query']},{r['point']},1\n" for r in rows if len(r["point"]) > 5)
    )
    refused = rag("--own", own)
    assert refused.code == 2 and str(own) in refused.err and "add rows of point 'exact'" in refused.err


def test_what_is_asked_for_wrongly(rag, tmp_path):
    for options, says in (
        (("--judge", "taste"), "unknown judge 'taste'"),
        (("--own", tmp_path / "none.csv"), "no such file"),
        (("--delta", "2"), "--delta"),
        (("--price-in", "x"), "must be a number"),
    ):
        done = rag(*options)
        assert done.code == 2 and says in done.err and len(done.err.strip().splitlines()) == 1


def test_titles_and_fewer_questions(rag, world):  # noqa: F811
    assert rag("--answerer", "title", "--judge", "exact", "--limit", 10, "--seed", 1).code == 0
    rows = list(csv.DictReader((world / "results" / "capitals" / "rag" / "title-exact.csv").open()))
    assert len(rows) == 10 * 10 and len({row["query"] for row in rows}) == 10
    assert all(row["correct"] == "1" for row in rows if row["point"] == "gold")


def test_vectors_that_changed_are_refused(rag, world):  # noqa: F811
    path = world / "queries.fbin"
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    done = rag()
    assert done.code == 2 and "measured on other vectors" in done.err


def test_figures_and_the_tables_beside_them(rag, where, world, tmp_path):  # noqa: F811
    plot = [*where[:2], *where[4:], "--out", tmp_path / "figures/"]
    plot[-1] = f"{plot[-1]}/"
    missing = call(plot_verb.main, *plot, "--figure", "delta")
    assert missing.code == 2 and "run python -m benchmarks rag" in missing.err
    assert rag().code == 0
    for figure in ("12", "delta"):
        done = call(plot_verb.main, *plot, "--figure", figure)
        assert done.code == 0, done.err
    rows = list(csv.DictReader((tmp_path / "figures" / "capitals-figure-12.csv").open()))
    assert [row["line"] for row in rows if row["status"] == "control"] == [
        "empty documents",
        "exact documents",
        "gold documents",
    ]
    assert len(rows) == 2 * len(read_results(world / "results")) + 3
    whole = [row[name] for row in rows for name in ("seed", "k", "threads", "queries")]
    assert all(text.isdecimal() for text in whole if text) and whole.count("") == 3 * 3  # of the controls
    rows = list(csv.DictReader((tmp_path / "figures" / "capitals-figure-delta.csv").open()))
    assert sum(row["metric"].startswith("robustness") for row in rows) == 10
    assert rows[0]["pairs"].isdecimal()
    other = call(plot_verb.main, *plot, "--figure", "12", "--answers", "openai-x")
    assert other.code == 2 and "extractive-normalised" in other.err
