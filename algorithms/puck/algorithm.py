import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.worker import Algorithm, unit_rows

try:
    from puck import py_puck_api  # where upstream's setup.py was used
except ModuleNotFoundError:
    import py_puck_api

BLOCK = 65536  # rows
NOTHING = np.uint32(0xFFFFFFFF)  # where Puck finds fewer than k it leaves the answer as it was


def set_flags(flags):
    """Puck is steered by global flags of text, which take effect at the next `init` or `build`."""
    for name, value in flags.items():
        py_puck_api.update_gflag(name, str(value).lower() if isinstance(value, bool) else str(value))


def largest_norm(base):
    blocks = (np.asarray(base[start : start + BLOCK], np.float64) for start in range(0, len(base), BLOCK))
    return max(float(np.sqrt(np.square(block).sum(axis=1).max())) for block in blocks)


class PuckIndex(Algorithm):
    """Puck knows L2 alone. Cosine is L2 over unit rows, which `whether_norm` makes of the queries.

    For inner product the rows are scaled to a norm of at most 1, and a further coordinate makes each of them 1 long;
    queries get a 0 there. They are scaled to length 1, which changes no order and keeps L2 in float32 exact enough.
    """

    def build(self, base, *, distance, threads, seed, learn=None, **build_params):
        self.distance, self.folder = distance, tempfile.TemporaryDirectory(prefix="puck-")
        dimension = base.shape[1] + (distance == "ip")
        self.flags = {
            "feature_dim": dimension,
            "whether_norm": distance == "cosine",
            "ip2cos": 0,
            "index_type": self.index_type,
            "train_points_count": 5_000_000,
            "pq_train_points_count": 5_000_000,
            **self.codes(dimension),
            **build_params,
        }
        index = Path(self.folder.name, "index")
        Path(self.folder.name, "mid-data").mkdir()
        index.mkdir()
        self.write_vectors(index / "all_data.feat.bin", base, dimension)
        self.use(index, threads)
        set_flags(self.flags)
        before = os.getcwd()
        os.chdir(self.folder.name)  # it writes into mid-data/ of the working directory
        try:
            code = py_puck_api.PySearcher().build(len(base))
        finally:
            os.chdir(before)
            shutil.rmtree(Path(self.folder.name, "mid-data"))
        if code:
            raise RuntimeError(f"Puck could not build, code {code}; it says why in the log")

    def write_vectors(self, path, base, dimension):
        """As fvecs: the dimension as int32 before each row of float32."""
        scale = 1 / (largest_norm(base) or 1) if self.distance == "ip" else 1
        with path.open("wb") as file:
            for start in range(0, len(base), BLOCK):
                block = base[start : start + BLOCK]
                rows = np.empty((len(block), 1 + dimension), np.float32)
                rows[:, :1].view(np.int32)[:] = dimension
                vectors = rows[:, 1 : 1 + block.shape[1]]
                vectors[:] = unit_rows(block) if self.distance == "cosine" else block
                if self.distance == "ip":
                    vectors *= scale
                    rows[:, -1] = np.sqrt(np.maximum(0, 1 - np.square(vectors, dtype=np.float64).sum(axis=1)))
                rows.tofile(file)

    def use(self, index, threads):
        self.index, self.searcher, self.settings = index, None, None
        self.flags |= {"index_path": str(index), "threads_count": threads, "context_initial_pool_size": threads}

    def save(self, directory):
        shutil.copytree(self.index, Path(directory, "index"))
        Path(directory, "flags.json").write_text(json.dumps([self.distance, self.flags]))

    def load(self, directory, *, threads):
        self.distance, self.flags = json.loads(Path(directory, "flags.json").read_text())
        self.use(Path(directory, "index").absolute(), threads)

    def search(self, queries, k, **search_params):
        if self.settings != {"topk": k, **search_params}:
            self.start({"topk": k, **search_params})
        if self.distance == "ip":
            queries = np.pad(unit_rows(queries), ((0, 0), (0, 1)))
        queries = np.ascontiguousarray(queries, np.float32)
        distances = np.empty((len(queries), k), np.float32)
        ids = np.full((len(queries), k), NOTHING)
        pointer = py_puck_api.swig_ptr
        self.searcher.search(len(queries), pointer(queries), k, pointer(distances), pointer(ids))
        return np.where(ids == NOTHING, -1, ids.astype(np.int64))

    def start(self, settings):
        """Load the index with these settings, which a change of any of them needs."""
        self.searcher = self.settings = None  # there may be no room for two
        set_flags({**self.flags, **settings})
        searcher = py_puck_api.PySearcher()
        code = searcher.init()
        if code:
            raise RuntimeError(f"Puck could not load its index, code {code}; it says why in the log")
        self.searcher, self.settings = searcher, settings


class Tinker(PuckIndex):
    index_type = 2

    def codes(self, dimension):
        return {}


class TwoLevel(PuckIndex):
    index_type = 1

    def codes(self, dimension):
        return {"filter_nsq": max(1, dimension // 4), "nsq": dimension}
