"""The class that every index adapter derives from."""

from __future__ import annotations

import numpy as np


class Algorithm:
    """One index. Keyword arguments carry the names that the library's card declares.

    `base` and `queries` are C-contiguous float32, uint8 or int8 arrays of shape (n, d) and (nq, d); `base` may be
    a read-only memory map, so an adapter copies only what its library cannot take as it is.
    """

    def build(self, base, *, distance, threads, seed, learn=None, **build_params):
        """Index `base` under `distance` (l2 | ip | cosine); ids are row numbers. This call is `build_seconds`."""
        raise NotImplementedError

    def save(self, directory):
        """Optional, with `load`: write everything that `load` needs below `directory`, which exists."""
        raise NotImplementedError

    def load(self, directory, *, threads):
        """Restore what `save` wrote, in another process; `directory` stays until the last search, perhaps read-only."""
        raise NotImplementedError

    def search(self, queries, k, **search_params):
        """Ids (nq, k) of the nearest found, nearest first; -1 where the library found fewer. This call is timed."""
        raise NotImplementedError

    def distances(self):
        """Optional: the library's own distances of the last answer, float (nq, k) in whatever scale it has; or None."""
        return None

    def stats(self):
        """Optional facts of the last search: {"distance_computations": 123}, of all its queries, is a metric."""
        return {}


def unit_rows(vectors, block=65536):
    """Rows of `vectors` (n, d) scaled to length 1, as float32; a zero row stays zero.

    Norms are taken in float64, block by block, so nothing larger than the result is allocated.
    """
    result = np.empty(vectors.shape, np.float32)
    for start in range(0, len(vectors), block):
        rows = np.asarray(vectors[start : start + block], np.float64)
        norms = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        norms[norms == 0] = 1
        result[start : start + block] = rows / norms
    return result
