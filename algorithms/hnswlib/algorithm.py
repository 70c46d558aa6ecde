import json
from pathlib import Path

import hnswlib
import numpy as np

from benchmarks.worker import Algorithm


class Hnswlib(Algorithm):
    def build(self, base, *, distance, threads, seed, learn=None, M, ef_construction):
        self.threads, self.shape = threads, {"space": distance, "dim": base.shape[1]}
        self.index = hnswlib.Index(**self.shape)
        self.index.init_index(max_elements=len(base), M=M, ef_construction=ef_construction, random_seed=seed)
        self.index.add_items(base, np.arange(len(base)), num_threads=threads)

    def save(self, directory):
        self.index.save_index(str(Path(directory, "hnswlib.index")))
        Path(directory, "shape.json").write_text(json.dumps(self.shape))

    def load(self, directory, *, threads):
        self.threads, self.shape = threads, json.loads(Path(directory, "shape.json").read_text())
        self.index = hnswlib.Index(**self.shape)
        self.index.load_index(str(Path(directory, "hnswlib.index")))

    def search(self, queries, k, *, ef):
        self.index.set_ef(ef)  # not saved with the index
        try:
            ids, self.told = self.index.knn_query(queries, k=k, num_threads=self.threads)
            return ids
        except RuntimeError as error:
            if "contiguous 2D array" not in str(error):
                raise
            self.told = None
            return np.concatenate([self.short_row(row, k) for row in queries[:, None]])

    def distances(self):
        return self.told

    def short_row(self, query, k):
        """One query for which the graph holds fewer than k reachable vectors: as many as there are, then -1."""
        for found in range(k, 0, -1):
            try:
                ids = self.index.knn_query(query, k=found, num_threads=1)[0].astype(np.int64)
                return np.pad(ids, ((0, 0), (0, k - found)), constant_values=-1)
            except RuntimeError:
                continue
        return np.full((1, k), -1, np.int64)
