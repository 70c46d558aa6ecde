"""`python -m benchmarks truth`: exact nearest neighbours, cached and written where asked."""

from benchmarks.cli.common import Parser, add_data_options, folder, guarded, positive
from benchmarks.cli.groundtruth import add_truth_option, find_truth, require_truth
from benchmarks.data.prepare import prepare, resolve_dataset
from benchmarks.errors import UserError
from benchmarks.groundtruth.cache import ground_truths, query_difficulty, write_truth
from benchmarks.groundtruth.distances import DISTANCES
from benchmarks.hardware import place_here
from benchmarks.progress import Progress


def run(options) -> int:
    """Compute, or read from the cache, and write the first K columns."""
    if options.threads and options.scheduler:
        raise UserError("--threads: with --scheduler the threads are those of the cluster's workers; leave it out")
    threads = place_here("all" if options.threads else "auto", options.threads).threads
    card = resolve_dataset(options.dataset, options.distance, options.queries)
    require_truth(options.supplied_truth, card)
    dataset = prepare(card, options.data_dir, Progress())
    where = options.data_dir, threads, Progress(), options.scheduler
    k = max(options.k)
    found = {}
    if options.also or len(options.k) > 1:
        found = ground_truths(dataset, list(dict.fromkeys([dataset.distance, *options.also])), options.k, *where)
    truth = find_truth(options.supplied_truth, card, dataset, k, *where)
    width = min(k, dataset.n)
    facts = {
        "dataset": dataset.name,
        "distance": dataset.distance,
        "k": width,
        "base_sha256": dataset.base_check.sha256,
        "queries_sha256": dataset.queries_check.sha256,
    }
    if options.out:
        write_truth(options.out, truth.neighbors[:, :width], truth.distances[:, :width], facts)
    print(
        f"{dataset.name}: exact top {width} of {dataset.nq:,} queries among {dataset.n:,} vectors: "
        f"{options.out or truth.path}"
    )
    for (distance, other), more in found.items():
        if more.path != truth.path:
            print(f"{dataset.name}: {distance}, exact top {min(other, dataset.n)}: {more.path}")
    print(query_difficulty(dataset, truth, threads).describe())
    return 0


def main(argv: list[str] | None = None) -> None:
    """Entry point."""
    parser = Parser(
        prog="python -m benchmarks truth",
        description="Exact nearest neighbours as HDF5: data sets `neighbors` (int32) and `distances` (float64), both\n"
        "(queries, K), nearest first, ties by the lower id. Where the base has fewer than K vectors there are\n"
        "that many columns. Distances: l2 squared, ip the negative product, cosine 1 - cosine.",
    )
    add_data_options(parser)
    add_truth_option(parser)
    parser.add_argument(
        "--k",
        type=positive,
        nargs="+",
        default=[100],
        help="neighbours per query (default: 100); of several the largest is written to --out, and all are cached",
    )
    parser.add_argument(
        "--also",
        nargs="+",
        choices=DISTANCES,
        default=[],
        metavar="DISTANCE",
        help=f"cache the ground truth of other distances too, from the same pass over the base: {', '.join(DISTANCES)}",
    )
    parser.add_argument("--out", type=folder, metavar="FILE", help="where to write (default: only the cache)")
    parser.add_argument("--threads", type=positive, help="threads (default: all, at most 64)")
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="let the workers of the Dask scheduler at tcp://HOST:PORT compute it, to the same bits; they need this "
        "program, and a file system where they see the files of --data-dir, and yours, under the same paths",
    )
    options = parser.parse_args(argv)
    guarded(lambda: run(options))
