import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import diskannpy
import numpy as np

from benchmarks.worker import Algorithm
from benchmarks.worker.vamana import reachable

METRIC = {"l2": "l2", "ip": "innerproduct", "cosine": "cosine"}


class Vamana(Algorithm):
    index = None

    def build(self, base, *, distance, threads, seed, learn=None, R, L, alpha):
        self.threads, self.built = threads, TemporaryDirectory()
        diskannpy.build_async_index(
            base,
            METRIC[distance],
            self.built.name,
            complexity=L,
            graph_degree=R,
            alpha=alpha,
            num_threads=threads,
            num_tasks=threads,
            pq_seed=seed,  # it makes a table of codes in any case, which nothing uses
            num_start_pts=1,
            graph_slack_factor=1.3,
            max_fp_vecs_per_prune=0,
            insert_minibatch_size=1,
        )
        Path(self.built.name, "ann_vectors.bin").unlink()  # a copy of the base

    def save(self, directory):
        shutil.copytree(self.built.name, directory, ignore=shutil.ignore_patterns("*_pq_*"), dirs_exist_ok=True)

    def load(self, directory, *, threads):
        self.threads = threads
        self.open(directory)

    def open(self, directory):
        self.index = diskannpy.AsyncDiskIndex(directory, num_threads=self.threads)
        self.reachable = reachable(Path(directory, "ann"))

    def search(self, queries, k, *, Ls):
        if self.index is None:
            self.open(self.built.name)
        # Where it finds fewer than it is asked for, the library fills the row with id 0.
        found = min(k, self.reachable)
        ids = self.index.batch_search(queries, found, Ls, self.threads).identifiers
        return ids if found == k else np.pad(ids.astype(np.int64), ((0, 0), (0, k - found)), constant_values=-1)
