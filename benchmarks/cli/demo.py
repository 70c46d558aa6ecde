"""`make demo`: the whole way once, from nothing to figures, on real vectors and without Docker."""

import shlex
import subprocess
import sys
import time

from benchmarks.analysis.numbers import measured_text
from benchmarks.cli.common import POINTS_FAILED, guarded
from benchmarks.metrics.registry import parse_metric
from benchmarks.paths import PLOTS, RESULTS, ROOT
from benchmarks.results.store import Result, Store

ALGORITHMS = ("faiss-hnsw", "faiss-ivfflat", "hnswlib")
DATASETS = (
    ("glove-50-6b", "390,000 real word vectors, cosine", ()),
    ("crossover-20k", "20,000 clustered vectors, l2: the effect at its clearest", ("--threads", "1")),
)
TARGET_RECALL = 0.92
FIGURES = (
    (),
    ("--metric", "recall", "--metric", "robustness-0.5", "--versus", "qps"),
    ("--curve", "--recall", str(TARGET_RECALL)),
    ("--distribution", "--recall", str(TARGET_RECALL)),
)
HOW_TO_READ = """
Read a line from left to right. The average recalls are about the same, so by the usual yardstick there is nothing to
choose. Robustness-0.1 is the share of queries that got at least one of their ten true neighbours, robustness-0.9 the
share that got nine or more: who leads at one end may trail at the other. What lies between the brackets is the 95 %
interval over the queries: where two of them do not overlap the indexes differ, where they do it takes a paired test.

Figures in {plots}:
  *-robustness-vs-recall.png   at equal recall (a vertical line), the higher curve leaves fewer queries behind
  *-curve.png                  robustness for every δ; the curves cross where the indexes change places
  *-distribution.png           recall of single queries; in red, the queries that got nothing
  *-vs-qps.png                 what it costs
Results in {results}: python -m benchmarks export
Your own vectors: python run.py --dataset my-vectors.npy --distance cosine"""


def run() -> int:
    """Two data sets, three indexes, the figures, and what to look at; the worst exit code is the demo's."""
    start, codes = time.monotonic(), []
    chosen = [word for name in ALGORITHMS for word in ("--algorithm", name)]
    for number, (dataset, what, options) in enumerate(DATASETS):
        print(f"\n── {number + 1} of {len(DATASETS)}: {dataset} ({what})", flush=True)
        codes.append(_command("run.py", "--dataset", dataset, *chosen, *options, "--skip-missing"))
        if codes[-1] > POINTS_FAILED:
            return codes[-1]
        for arguments in FIGURES:
            codes.append(_command("plot.py", "--quiet", "--dataset", dataset, *options, *arguments))
    print(f"\n── What to look at (made in {time.monotonic() - start:.0f} s)")
    for dataset, _, _ in DATASETS:
        print("\n".join(["", *what_to_look_at(dataset, list(Store(RESULTS).results(dataset)))]))
    print(HOW_TO_READ.format(plots=PLOTS, results=RESULTS))
    return max(codes)


def what_to_look_at(dataset: str, results: list[Result]) -> list[str]:
    """One line per algorithm: the point nearest to the target recall, and its robustness at both ends."""
    names = ["recall", "robustness-0.1", "robustness-0.5", "robustness-0.9"]
    lines = [f"{dataset}: at average recall near {TARGET_RECALL}"]
    for algorithm in ALGORITHMS:
        points = [result for result in results if result.ok and result.identity.algorithm == algorithm]
        if not points:
            lines.append(f"  {algorithm}: not measured")
            continue
        nearest = min(points, key=lambda result: abs(parse_metric("recall").compute(result).value - TARGET_RECALL))
        shown = [f"{name} {measured_text(parse_metric(name).compute(nearest))}" for name in names]
        point = ",".join(f"{name}={value}" for name, value in nearest.identity.search_params.items())
        lines.append(f"  {algorithm:14} {point:14} " + "   ".join(shown))
    return lines


def _command(script: str, *arguments: str) -> int:
    print(f"\n$ python {shlex.join([script, *arguments])}", flush=True)
    return subprocess.run([sys.executable, str(ROOT / script), *arguments], cwd=ROOT).returncode


if __name__ == "__main__":
    guarded(run)
