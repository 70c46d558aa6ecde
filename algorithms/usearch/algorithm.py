from pathlib import Path

import numpy as np
from usearch.index import Index

from benchmarks.worker import Algorithm


class Usearch(Algorithm):
    def build(self, base, *, distance, threads, seed, learn=None, connectivity, expansion_add):
        self.threads = threads
        metric = {"l2": "l2sq", "ip": "ip", "cosine": "cos"}[distance]
        # Without a dtype the index would keep bfloat16.
        self.index = Index(
            ndim=base.shape[1], metric=metric, dtype="f32", connectivity=connectivity, expansion_add=expansion_add
        )
        self.index.add(np.arange(len(base)), np.asarray(base, np.float32), threads=threads)

    def save(self, directory):
        self.index.save(str(Path(directory, "usearch.index")))

    def load(self, directory, *, threads):
        self.threads = threads
        self.index = Index.restore(str(Path(directory, "usearch.index")))

    def search(self, queries, k, *, expansion_search):
        self.index.expansion_search = expansion_search  # not saved with the index
        found = self.index.search(queries.astype(np.float32, copy=False), k, threads=self.threads)
        if len(queries) == 1:  # answered by one row, as long as what was found
            return np.pad(found.keys.astype(np.int64), (0, k - len(found)), constant_values=-1)[None]
        return np.where(np.arange(k) < found.counts[:, None], found.keys.astype(np.int64), -1)
