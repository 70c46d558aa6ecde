"""How fast and how small exact ground truth is, beside others: `python tests/performance/groundtruth.py [--quick]`.

In one run and on the same vectors (clusters on a decaying spectrum), each in a process of its own, taking turns:

    ours       benchmarks.groundtruth.exact, float64 proof included
    sgemm      the products alone: numpy on the tiles that the engine multiplies, threads over one-thread BLAS
    faiss      faiss.knn with its BLAS path forced (distance_compute_blas_threshold = 1)
    default    faiss.knn as it comes; it takes the BLAS path by itself where queries * dimension >= 128,000
    sklearn    NearestNeighbors(algorithm="brute"); it has no inner product, so its time for l2 stands in

A speed is 2 * n * queries * d operations over the time: CPU time with one thread, which neighbours disturb least, and
the clock's with several. Of each contender the best of the rounds counts. sgemm and sklearn are given 2,048 queries at
most, and faiss as it comes 128: their time is in proportion to them. 8-bit vectors are cast for the contenders that
need it, in their time; sgemm multiplies a tile that is float32 already. Memory is the peak of our process' anonymous
memory (RssAnon, looked at every 5 ms) above what it had before; the result is counted, the mapped vectors are not.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
K, FAISS_BLAS = 100, 128_000
MOST_QUERIES = {"sgemm": 2048, "sklearn": 2048, "default": 128}
CONTENDERS = {"ours": "ours", "sgemm": "ours", "faiss": "faiss", "default": "faiss", "sklearn": "sklearn"}  # processes
TARGETS = {"sgemm": 0.75, "faiss": 1.0, "sklearn": 2.0}  # least ratio of our speed to theirs
MEMORY_MIB = 64
SHAPES = [(1_000_000, 96), (200_000, 768)]
CASES = [
    (n, d, queries, distance, dtype, threads)
    for dtype in ("float32", "uint8")
    for n, d in (SHAPES if dtype == "float32" else SHAPES[:1])
    for queries in ((512, 10_000) if dtype == "float32" else (512,))
    for distance in ("l2", "ip")
    for threads in (1, 2)
]
FAISS_THRESHOLD = {}


def name_of(case):
    n, d, queries, distance, dtype, threads = case
    return f"{dtype}-{n // 1000}k-{d}-q{queries}-{distance}-{threads}t"


# --- a contender's process --------------------------------------------------------------------------------------------


def work(folder):
    """Run what standard input asks for, one JSON a line, and answer with seconds."""
    base, queries = (np.load(folder / f"{role}.npy", mmap_mode="r") for role in ("base", "queries"))
    for line in sys.stdin:
        ask = json.loads(line)
        some = queries[: ask["queries"]]
        action = globals()[f"do_{ask['what']}"](base[: ask["rows"]], some, ask["distance"], ask["threads"])
        wall, cpu = perf_counter(), process_time()
        action()
        print(json.dumps({"wall": perf_counter() - wall, "cpu": process_time() - cpu}), flush=True)


def do_ours(base, queries, distance, threads):
    from benchmarks.data.vectors import VectorFile
    from benchmarks.groundtruth.exact import exact_neighbors

    files = [
        VectorFile(path=x.filename, dtype=x.dtype.name, rows=len(x), dimension=x.shape[1], offset_bytes=x.offset)
        for x in (base, queries)
    ]
    return lambda: exact_neighbors(*files, distance, K, threads=threads)


def do_sgemm(base, queries, distance, threads):
    from threadpoolctl import threadpool_limits

    from benchmarks.groundtruth.search import BLOCK_QUERIES, TILE_ROWS

    vectors = queries.astype(np.float32)
    ready = None if base.dtype == np.float32 else base[:TILE_ROWS].astype(np.float32)

    def part(rows):
        buffer = np.empty((TILE_ROWS, BLOCK_QUERIES), np.float32)
        for first in rows:
            tile = base[first : first + TILE_ROWS] if ready is None else ready
            for start in range(0, len(vectors), BLOCK_QUERIES):
                some = vectors[start : start + BLOCK_QUERIES]
                np.matmul(tile, some.T, out=buffer[: len(tile), : len(some)])

    def action():
        starts = range(0, len(base), TILE_ROWS)
        workers = [threading.Thread(target=part, args=(starts[i::threads],)) for i in range(threads)]
        with threadpool_limits(1, user_api="blas"):
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()

    return action


def do_faiss(base, queries, distance, threads, threshold=1):
    import faiss

    FAISS_THRESHOLD.setdefault("as it comes", faiss.cvar.distance_compute_blas_threshold)
    faiss.omp_set_num_threads(threads)
    faiss.cvar.distance_compute_blas_threshold = threshold
    metric = faiss.METRIC_L2 if distance == "l2" else faiss.METRIC_INNER_PRODUCT
    return lambda: faiss.knn(queries.astype(np.float32, copy=False), base.astype(np.float32, copy=False), K, metric)


def do_default(base, queries, distance, threads):
    do_faiss(base, queries, distance, threads)  # notes how it came
    return do_faiss(base, queries, distance, threads, FAISS_THRESHOLD["as it comes"])


def do_sklearn(base, queries, distance, threads):
    from sklearn.neighbors import NearestNeighbors
    from threadpoolctl import threadpool_limits

    def action():
        with threadpool_limits(threads):
            model = NearestNeighbors(n_neighbors=K, algorithm="brute", metric="sqeuclidean")
            model.fit(base.astype(np.float32, copy=False)).kneighbors(queries.astype(np.float32, copy=False))

    return action


# --- the run ----------------------------------------------------------------------------------------------------------


class Process:
    """A contender that waits for what to do."""

    def __init__(self, python, folder, threads):
        limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        self.process = subprocess.Popen(
            [python, __file__, "--worker", folder],
            env=os.environ | limits,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, what, rows, queries, distance, threads):
        """Seconds, and the peak of anonymous memory above what there was, in MiB."""
        ask = {"what": what, "rows": rows, "queries": queries, "distance": distance, "threads": threads}
        before, peak, over = self.anonymous_mib(), [0.0], threading.Event()

        def look():
            while not over.wait(0.005):
                peak[0] = max(peak[0], self.anonymous_mib())

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            self.process.stdin.write(json.dumps(ask) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        finally:
            over.set()
            watcher.join()
        if not answer:
            sys.exit(f"the process of {what} ended")
        return {**json.loads(answer), "mib": peak[0] - before}

    def anonymous_mib(self):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) / 1024
        return 0.0

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def vectors(n, queries, d, dtype):
    """Clusters on a decaying spectrum; of 8 bits if asked for."""
    rng = np.random.default_rng(0)
    scale = (1 / np.sqrt(1 + np.arange(d) / 8)).astype(np.float32)
    centres = rng.standard_normal((1000, d), np.float32)
    found = []
    for rows in (n, queries):
        x = np.empty((rows, d), dtype)
        for start in range(0, rows, 50_000):
            part = x[start : start + 50_000]
            noise = rng.standard_normal(part.shape, np.float32)
            values = (centres[rng.integers(0, 1000, len(part))] + noise) * scale
            part[:] = np.clip(values * 40 + 128, 0, 255) if dtype == "uint8" else values
        found.append(x)
    return found


def measure(case, rounds, folder, pythons):
    """Best seconds of each contender, and our peak memory."""
    n, d, queries, distance, dtype, threads = case
    contenders = [who for who in CONTENDERS if who != "default" or queries * d < FAISS_BLAS]
    best, memory = {}, 0.0
    processes = {name: Process(python, folder, threads) for name, python in pythons.items()}
    try:
        for who in contenders:  # imports, compilation
            processes[CONTENDERS[who]].ask(who, 3000, 64, distance, threads)
        for number in range(rounds):
            for who in contenders[number % 2 :] + contenders[: number % 2]:
                count = min(queries, MOST_QUERIES.get(who, queries))
                found = processes[CONTENDERS[who]].ask(who, n, count, distance, threads)
                rate = 2e-9 * n * count * d / found["cpu" if threads == 1 else "wall"]
                best[who] = max(best.get(who, 0), rate)
                memory = max(memory, found["mib"]) if who == "ours" else memory
                print(f"  {name_of(case)} {who}: {rate:.1f} GFLOP/s; load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    finally:
        for process in processes.values():
            process.close()
    return best, memory


def report(case, best, memory):
    """One line; whether all targets are met."""
    n, d, queries, *_ = case
    missed = [f"{who} {TARGETS[who]:g}" for who in TARGETS if best["ours"] < TARGETS[who] * best[who]]
    missed += [f"{MEMORY_MIB} MiB"] * (memory > MEMORY_MIB)
    seconds = 2e-9 * n * queries * d / best["ours"]
    speeds = " ".join(f"{best[who]:7.1f}" if who in best else "   BLAS" for who in CONTENDERS)
    ratios = " ".join(
        f"{best['ours'] / best[who]:7.2f}" if who in best else "      ." for who in CONTENDERS if who != "ours"
    )
    verdict = f"MISSED: {', '.join(missed)}" if missed else "met"
    print(f"{name_of(case):30} {seconds:6.1f} s |{speeds} |{ratios} |{memory:5.0f} MiB  {verdict}", flush=True)
    return not missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="a tenth of the vectors and 512 queries (a minute)")
    parser.add_argument("--case", default="", metavar="TEXT", help="only cases whose name has it: float32-1000k, ip-2t")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.worker:
        return work(options.worker)
    from benchmarks.cards.algorithms import find_algorithms
    from benchmarks.runner.venv import VenvRunner

    cases = [case for case in CASES if not options.quick or case[2] == 512]
    if options.quick:
        cases = [(n // 10, *rest) for n, *rest in cases]
    cases = [case for case in cases if options.case in name_of(case)]
    if not cases:
        parser.error(f"--case {options.case}: there are {', '.join(map(name_of, CASES))}")
    faiss = VenvRunner().prepare(find_algorithms()["faiss-flat"]).python
    pythons = {"ours": sys.executable, "sklearn": sys.executable, "faiss": faiss}
    heads = list(CONTENDERS), [f"/{who}" for who in CONTENDERS if who != "ours"]
    print(
        f"{'GFLOP/s, and our speed over theirs':39} |"
        + " |".join(" ".join(f"{head:>7}" for head in part) for part in heads)
        + " | memory",
        flush=True,
    )
    met, made = [], None
    with tempfile.TemporaryDirectory(prefix="groundtruth-") as name:
        folder = Path(name)
        for case in cases:
            n, d, _, _, dtype, _ = case
            if made != (n, d, dtype):
                for role, x in zip(("base", "queries"), vectors(n, 10_000, d, dtype), strict=True):
                    np.save(folder / f"{role}.npy", x)
                made = (n, d, dtype)
            met.append(report(case, *measure(case, options.rounds, folder, pythons)))
    print(f"{sum(met)} of {len(met)} cases met every target; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
