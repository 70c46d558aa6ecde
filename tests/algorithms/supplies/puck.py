"""A stand-in for Puck's compiled Python module, for tests alone.

It has the module's signatures and its traps, and answers by brute force over candidates that grow in number with
`tinker_search_range` and `filter_topk`. Nothing that is measured with it says anything of Puck.
"""

from contextlib import contextmanager
from pathlib import Path

STAND_IN = '''\
"""NOT Puck: a stand-in that tests/algorithms/supplies/puck.py wrote, with the signatures of its Python module."""

import ctypes
import json
import os

import numpy as np

TINKER, PUCK = "2", "1"
_flags = {
    "index_path": "puck_index", "feature_dim": "256", "whether_norm": "true", "ip2cos": "0", "index_type": PUCK,
    "coarse_cluster_count": "2000", "fine_cluster_count": "2000", "kmeans_iterations_count": "10",
    "threads_count": "64", "context_initial_pool_size": "64", "train_points_count": "5000000",
    "pq_train_points_count": "1000000", "whether_pq": "true", "nsq": "256", "filter_nsq": "64",
    "tinker_neighborhood": "16", "tinker_construction": "600", "search_coarse_count": "200", "topk": "100",
    "filter_topk": "1100", "radius_rate": "1.0", "tinker_search_range": "500",
}


def update_gflag(name, value):
    """One set for the whole process; a name that is unknown is ignored without a word."""
    if type(name) is not str or type(value) is not str:
        raise TypeError("in method 'update_gflag', argument of type 'char const *'")
    if name in _flags:
        _flags[name] = value


class _Pointer:
    def __init__(self, array):
        self.address, self.dtype = array.ctypes.data, array.dtype


def swig_ptr(array):
    if not isinstance(array, np.ndarray):
        raise ValueError("input not a numpy array")
    if not array.flags.c_contiguous:
        raise ValueError("array is not C-contiguous")
    return _Pointer(array)


def _memory(pointer, kind, shape):
    if not isinstance(pointer, _Pointer) or pointer.dtype != np.dtype(kind):
        raise TypeError("in method 'PySearcher_search', a pointer of another type")
    count = int(np.prod(shape))
    return np.ctypeslib.as_array((kind * count).from_address(pointer.address)).reshape(shape)


def _vectors(dimension):
    rows = np.fromfile(os.path.join(_flags["index_path"], "all_data.feat.bin"), np.int32)
    rows = rows.reshape(-1, dimension + 1)
    return rows[:, 1:].view(np.float32) if (rows[:, 0] == dimension).all() else None


class PySearcher:
    def show(self):
        print("1")

    def build(self, total):
        dimension, coarse = int(_flags["feature_dim"]), int(_flags["coarse_cluster_count"])
        vectors = _vectors(dimension)
        if vectors is None or len(vectors) != total or coarse >= total or int(_flags["fine_cluster_count"]) >= total:
            return -1
        if _flags["index_type"] not in (TINKER, PUCK) or not os.path.isdir("mid-data"):
            return -1
        vectors.tofile(os.path.join("mid-data", "train_clusters.dat"))
        if int(_flags["train_points_count"]) > total:
            _flags["train_points_count"] = str(total)
        kept = ("index_type", "feature_dim", "whether_norm", "ip2cos", "coarse_cluster_count", "whether_pq")
        with open(os.path.join(_flags["index_path"], "index.dat"), "w") as file:
            json.dump({name: _flags[name] for name in kept}, file)
        return 0

    def init(self):
        try:
            with open(os.path.join(_flags["index_path"], "index.dat")) as file:
                self._kept = json.load(file)
            self._base = _vectors(int(self._kept["feature_dim"]))
        except OSError:
            return -1
        self._topk = int(_flags["topk"])
        tinker = self._kept["index_type"] == TINKER
        self._range = int(_flags["tinker_search_range" if tinker else "filter_topk"])
        return -1 if not tinker and self._range < self._topk else 0

    def search(self, count, queries, k, distances, labels):
        queries = _memory(queries, ctypes.c_float, (count, self._base.shape[1]))
        distances, labels = _memory(distances, ctypes.c_float, (count, k)), _memory(labels, ctypes.c_uint32, (count, k))
        if k > self._topk:
            return
        half = max(1, self._base.shape[1] // 2)
        for query, distance, label in zip(queries, distances, labels):
            if self._kept["whether_norm"] == "true":
                norm = np.linalg.norm(query)
                if norm < 1e-6:
                    continue
                query = query / norm
            near = np.square(self._base[:, :half] - query[:half]).sum(axis=1)
            candidates = np.argsort(near, kind="stable")[: 6 * max(self._range, k)]
            exact = np.square(self._base[candidates] - query).sum(axis=1)
            order = np.argsort(exact, kind="stable")[:k]
            distance[: len(order)], label[: len(order)] = exact[order], candidates[order]
'''


@contextmanager
def provide(folder: Path):
    """Write the stand-in below `folder`; the value are the variables that name it."""
    (folder / "py_puck_api.py").write_text(STAND_IN)
    yield {"PY_PUCK_API": str(folder)}
