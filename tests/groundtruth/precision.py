"""Vectors on which float32 distances go wrong, and a float64 brute force: for the tests, and to show what others do.

`python tests/groundtruth/precision.py` shows how many queries exact search and `faiss.knn` get wrong on each.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
ROWS, QUERIES, DIMENSION, K = 6000, 60, 64, 100


def _normal(seed, rows):
    return np.random.default_rng(seed).standard_normal((rows, DIMENSION))


def _offset(offset):
    return _normal(0, ROWS) + offset, _normal(1, QUERIES) + offset


def _near_duplicates():
    """Each row stands there 30 times, moved by about a rounding error of float32 in half of its components."""
    rows = np.repeat(_normal(2, ROWS // 30), 30, axis=0)
    rng = np.random.default_rng(3)
    rows *= 1 + 1e-7 * rng.standard_normal(rows.shape) * (rng.random(rows.shape) < 0.5)
    return rng.permutation(rows), rows[:: ROWS // QUERIES] + 0.1 * _normal(4, QUERIES)


def _norms():
    rng = np.random.default_rng(5)
    scales = [10 ** rng.uniform(-3, 3, (count, 1)) for count in (ROWS, QUERIES)]
    units = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (_normal(6, ROWS), _normal(7, QUERIES))]
    return units[0] * scales[0], units[1] * scales[1]


CASES = {
    "offset 1e3": lambda: _offset(1e3),
    "offset 1e4": lambda: _offset(1e4),
    "near-duplicates": _near_duplicates,
    "norms 1e-3 to 1e3": _norms,
}


def vectors(name):
    """Base and queries of the case, float32."""
    base, queries = CASES[name]()
    return base.astype(np.float32), queries.astype(np.float32)


def brute_force(base, queries, distance, k):
    """Ids (q, k) and distances in float64 as their definitions say; ties by the lower id."""
    rows, ids, near = base.astype(np.float64), [], []
    norms = np.sqrt((rows * rows).sum(1))
    for query in queries.astype(np.float64):
        if distance == "l2":
            every = ((rows - query) ** 2).sum(1)
        elif distance == "ip":
            every = -(rows * query).sum(1)
        else:
            every = 1 - (rows * query).sum(1) / (norms * np.sqrt((query * query).sum()))
        ids.append(np.argsort(every, kind="stable")[:k])
        near.append(every[ids[-1]])
    return np.array(ids), np.array(near)


def wrong(ids, base, queries, distance):
    """Which queries (bool, q) have a neighbour that is farther than the true K-th, in float64; ties are no error."""
    order, near = brute_force(base, queries, distance, len(base))
    by_id = np.empty_like(near)
    np.put_along_axis(by_id, order, near, axis=1)
    return (np.take_along_axis(by_id, ids, 1) > near[:, [ids.shape[1] - 1]]).any(axis=1)


FAISS = """
import sys
import faiss, numpy as np
faiss.omp_set_num_threads(1)
faiss.cvar.distance_compute_blas_threshold = int(sys.argv[2])
with np.load(sys.argv[1]) as file:
    base, queries, distance = file["base"], file["queries"], str(file["distance"])
if distance == "cosine":
    faiss.normalize_L2(base), faiss.normalize_L2(queries)
metric = faiss.METRIC_L2 if distance == "l2" else faiss.METRIC_INNER_PRODUCT
np.save(sys.argv[1] + ".ids.npy", faiss.knn(queries, base, int(sys.argv[3]), metric)[1])
"""


def main():
    from benchmarks.cards.algorithms import find_algorithms
    from benchmarks.groundtruth.distances import DISTANCES
    from benchmarks.groundtruth.exact import exact_neighbors
    from benchmarks.runner.venv import VenvRunner

    python = VenvRunner().prepare(find_algorithms()["faiss-flat"]).python
    print(f"Queries of {QUERIES} with a wrong neighbour among {K}; in brackets, with another list than float64's")
    print(f"{'':26} {'ours':>10} {'faiss, BLAS':>12} {'faiss, loops':>12}")
    ours = 0
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "x.npz"))
        for name in CASES:
            base, queries = vectors(name)
            for distance in DISTANCES:
                np.savez(path, base=base, queries=queries, distance=distance)
                found = [exact_neighbors(base, queries, distance, K).neighbors]
                for threshold in (1, 2**31 - 1):
                    subprocess.run([python, "-c", FAISS, path, str(threshold), str(K)], check=True)
                    found.append(np.load(path + ".ids.npy"))
                exact, _ = brute_force(base, queries, distance, K)
                others = [(ids != exact).any(axis=1).sum() for ids in found]
                farther = [wrong(ids, base, queries, distance).sum() for ids in found]
                ours += others[0]
                shown = [f"{far} ({other})" for far, other in zip(farther, others, strict=True)]
                print(f"{name:18} {distance:7} {shown[0]:>10} {shown[1]:>12} {shown[2]:>12}", flush=True)
    return 1 if ours else 0


if __name__ == "__main__":
    sys.exit(main())
