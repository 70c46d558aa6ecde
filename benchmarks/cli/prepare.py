"""`python -m benchmarks prepare`: fetch, crop, check and hash a data set, so that runs start at once."""

import statistics

from benchmarks.cli.common import Parser, add_data_options, guarded, warn
from benchmarks.data.corpus import Corpus, CorpusFiles, load_corpus
from benchmarks.data.prepare import prepare, resolve_dataset
from benchmarks.progress import Progress


def run(options) -> int:
    """Prepare and say what was found."""
    card = resolve_dataset(options.dataset, options.distance, options.queries)
    dataset = prepare(card, options.data_dir, Progress(), force=options.force)
    print(
        f"{dataset.name}: {dataset.n:,} base vectors and {dataset.nq:,} queries of {dataset.dimension} dimensions, "
        f"{dataset.base.dtype}, {dataset.distance}"
    )
    for role, vectors, check in (
        ("base", dataset.base, dataset.base_check),
        ("queries", dataset.queries, dataset.queries_check),
    ):
        print(f"  {role}: {vectors.path} (sha256 {check.sha256[:16]}…)")
        if check.zero_vectors:
            meaning = "; under cosine they are at distance 1 from everything" if dataset.distance == "cosine" else ""
            warn(f"{check.zero_vectors} of the {role} vectors are zero{meaning}")
    if dataset.corpus:
        print(f"  texts: {summary(dataset.corpus, load_corpus(dataset))}")
    return 0


def summary(files: CorpusFiles, corpus: Corpus) -> str:
    """How many documents, questions and gold documents there are."""
    gold = [len(rows) for rows in corpus.gold if len(rows)]
    found = "that contain an answer, " if files.gold_kind == "containing" else ""
    middle = f", {found}{statistics.median_low(gold):,} in the middle" if gold else ""
    left_out = f"; {files.left_out:,} without any were left out" if files.left_out else ""
    encoder = f"; encoded by {files.encoder.split()[0]}" if files.encoder else ""
    return f"{files.document_rows:,} documents; {len(gold):,} questions have gold documents{middle}{left_out}{encoder}"


def main(argv: list[str] | None = None) -> None:
    """Entry point."""
    parser = Parser(prog="python -m benchmarks prepare", description="Fetch, check and hash a data set.")
    add_data_options(parser)
    parser.add_argument("--force", action="store_true", help="from nothing, downloads too")
    options = parser.parse_args(argv)
    guarded(lambda: run(options))
