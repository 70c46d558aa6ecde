"""A small retrieval set whose questions are answered by one document each, and its measured operating points."""

import json
from pathlib import Path

import numpy as np

from tests.harness import read_results, run, write_bin

ROWS, ASKED = 300, 40
CARD = """title: Capitals
distance: l2
base: {path: base.fbin}
queries: {path: queries.fbin}
retrieval:
  corpus: {path: documents.jsonl}
  questions: {path: questions.jsonl}
"""


def write_world(folder: Path) -> Path:
    """The card of a set of capitals; question i lies nearest to document i."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(ROWS, 8)).astype(np.float32)
    write_bin(folder / "base.fbin", base)
    write_bin(folder / "queries.fbin", base[:ASKED] + rng.normal(0, 0.02, (ASKED, 8)).astype(np.float32))
    documents = [{"id": f"d{row}", "title": f"City{row}", "text": f"the capital of land{row}"} for row in range(ROWS)]
    questions = [
        {"id": f"q{row}", "text": f"What is the capital of land{row}?", "answers": [f"City{row}"], "gold": [f"d{row}"]}
        for row in range(ASKED)
    ]
    for name, rows in (("documents", documents), ("questions", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "capitals.yml").write_text(CARD)
    return folder / "capitals.yml"


def measure_world(folder: Path, drops=(0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)) -> list[str]:
    """Measure points that miss these shares of the neighbours; the options that name card, data and results."""
    where = ["--dataset", str(write_world(folder)), "--data-dir", str(folder / "data")]
    where += ["--results-dir", str(folder / "results")]
    done = run(*where, "--algorithm", "toy", "--set", f"toy.drop={','.join(map(str, drops))}", "--repeats", 1)
    assert done.code == 0, done.err
    assert len(read_results(folder / "results")) == len(drops)
    return where
