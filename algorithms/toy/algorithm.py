import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.worker import Algorithm, unit_rows


def fail(how):
    """End, or never end, in the way named."""
    if how == "raise":
        raise RuntimeError("the toy was asked to raise")
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "exit":
        os._exit(7)
    if how == "hang":
        while True:
            time.sleep(1)
    if how == "eat-memory":
        eaten = []
        while True:
            eaten.append(np.ones(4_000_000))
            time.sleep(0.005)
    if how == "fill-disk":
        with tempfile.TemporaryFile() as file:
            for _ in range(500):
                file.write(bytes(1_000_000))
        raise RuntimeError("there was room for 500 MB")


class Toy(Algorithm):
    def build(self, base, *, distance, threads, seed, learn=None, build_failure):
        fail(build_failure)
        self.distance = distance
        self.base = unit_rows(base) if distance == "cosine" else np.asarray(base, np.float32)

    def save(self, directory):
        np.savez(Path(directory, "toy.npz"), base=self.base, distance=self.distance)

    def load(self, directory, *, threads):
        content = np.load(Path(directory, "toy.npz"))
        self.base, self.distance = content["base"], str(content["distance"])

    def search(self, queries, k, *, drop, empty, failure):
        fail(failure)
        order = np.concatenate([self.nearest(queries[i : i + 256], 2 * k) for i in range(0, len(queries), 256)])
        ids = order[:, :k].copy()
        # Whatever drops out is replaced by the neighbours that come after the k-th.
        misses = min(round(drop * k), order.shape[1] - k)
        if misses > 0:
            ids[:, k - misses :] = order[:, k : k + misses]
        nothing = round(empty * len(queries))
        if nothing and order.shape[1] == 2 * k:
            ids[:nothing] = order[:nothing, k:]
        if failure == "repeat":
            ids[:, 1:] = ids[:, :1]
        if failure == "short":
            return ids[:, : k // 2]
        if failure == "minus-one":
            ids[:, k // 2 :] = -1
        if failure == "out-of-range":
            ids[0, 0] = len(self.base)
        if failure == "negative":
            ids[0, 0] = -7
        if failure == "wrong-shape":
            return ids[:-1]
        if failure == "floats":
            return ids.astype(np.float64)
        return ids

    def nearest(self, queries, count):
        """Ids of the `count` nearest, or of all where there are fewer; float32, so ties may fall either way."""
        scores = queries.astype(np.float32) @ self.base.T
        if self.distance == "l2":
            scores -= np.square(self.base).sum(axis=1) / 2
        if count >= scores.shape[1]:
            return np.argsort(-scores, axis=1, kind="stable")
        best = np.argpartition(-scores, count, axis=1)[:, :count]
        return np.take_along_axis(best, np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1), axis=1)
