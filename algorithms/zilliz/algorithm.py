import shutil
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import diskannpy
import glass
import numpy as np

from benchmarks.worker import Algorithm, unit_rows
from benchmarks.worker.vamana import reachable


class VamanaSq8(Algorithm):
    searcher = None

    def build(self, base, *, distance, threads, seed, learn=None, R, L, alpha):
        self.threads, self.built = threads, TemporaryDirectory()
        Path(self.built.name, "metric").write_text("L2" if distance == "l2" else "IP")
        vectors = Path(self.built.name, "vectors.bin")
        diskannpy.vectors_to_file(vectors, np.asarray(unit_rows(base) if distance == "cosine" else base, np.float32))
        metric = "mips" if distance == "ip" else "l2"
        diskannpy.build_memory_index(
            str(vectors), metric, self.built.name, L, R, threads, alpha, vector_dtype=np.float32
        )
        vectors.unlink()  # ann.data holds them too

    def save(self, directory):
        shutil.copytree(self.built.name, directory, dirs_exist_ok=True)

    def load(self, directory, *, threads):
        self.threads = threads
        self.open(directory)

    def open(self, directory):
        glass.set_num_threads(self.threads)
        self.graph = str(Path(directory, "ann"))
        self.reachable = reachable(self.graph)
        n, dimension = np.fromfile(self.graph + ".data", np.int32, 2)
        self.vectors = np.memmap(self.graph + ".data", np.float32, "r", offset=8, shape=(n, dimension))
        self.largest = max(self.vectors.max(), -self.vectors.min())
        self.metric = Path(directory, "metric").read_text()
        self.searcher = self.create("SQ8U", "FP32")
        self.searcher.optimize(self.threads)  # times how far ahead to fetch; changes no answer

    def create(self, *codes):
        return glass.Searcher(glass.Graph(self.graph, "diskann"), self.vectors, self.metric, *codes)

    @cached_property
    def unrefined(self):
        return self.create("FP32")

    def search(self, queries, k, *, Ls):
        if self.searcher is None:
            self.open(self.built.name)
        queries = queries.astype(np.float32, copy=False)
        if self.metric == "IP":
            # Codes cut a query off at the largest coordinate of the base, and lose one that is far smaller.
            largest = np.abs(queries).max(axis=1, keepdims=True)
            queries = queries / np.where(largest > 0, largest, 1) * self.largest
        # It refines the best 1.5 k and fills up with old answers where it has not seen as many: they would push out
        # true ones. A graph of so few needs no codes.
        found = min(k, self.reachable)
        searcher = self.searcher if int(1.5 * found) <= self.reachable else self.unrefined
        searcher.set_ef(Ls)
        ids = np.reshape(searcher.batch_search(queries, found, self.threads)[0], (len(queries), found))
        return ids if found == k else np.pad(ids, ((0, 0), (0, k - found)), constant_values=-1)
