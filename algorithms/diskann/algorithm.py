import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import diskannpy
import numpy as np

from benchmarks.worker import Algorithm
from benchmarks.worker.vamana import reachable

METRIC = {"l2": "l2", "ip": "mips", "cosine": "cosine"}


class Vamana(Algorithm):
    index = None

    def build(self, base, *, distance, threads, seed, learn=None, R, L, alpha):
        self.threads, self.built = threads, TemporaryDirectory()
        diskannpy.build_memory_index(
            base, METRIC[distance], self.built.name, complexity=L, graph_degree=R, num_threads=threads, alpha=alpha
        )
        Path(self.built.name, "ann_vectors.bin").unlink()  # a copy of the base

    def save(self, directory):
        shutil.copytree(self.built.name, directory, dirs_exist_ok=True)

    def load(self, directory, *, threads):
        self.threads = threads
        self.open(directory)

    def open(self, directory):
        self.index = diskannpy.StaticMemoryIndex(directory, num_threads=self.threads, initial_search_complexity=256)
        self.reachable = reachable(Path(directory, "ann"))

    def search(self, queries, k, *, Ls):
        if self.index is None:
            self.open(self.built.name)
        # Where it finds fewer than it is asked for, the library fills the row with what lies in memory.
        found = min(k, self.reachable)
        # Its search() for one query is no substitute: under numpy 2 it repeats the first id.
        ids = self.index.batch_search(queries, found, complexity=Ls, num_threads=self.threads).identifiers
        return ids if found == k else np.pad(ids.astype(np.int64), ((0, 0), (0, k - found)), constant_values=-1)
