from pathlib import Path

import faiss
import numpy as np

from benchmarks.worker import Algorithm, unit_rows


class FaissIndex(Algorithm):
    """Common to graph and partition. Cosine is inner product over unit rows; a query's length changes no order."""

    def build(self, base, *, distance, threads, seed, learn=None, **build_params):
        faiss.omp_set_num_threads(threads)
        metric = faiss.METRIC_L2 if distance == "l2" else faiss.METRIC_INNER_PRODUCT
        vectors = unit_rows(base) if distance == "cosine" else np.ascontiguousarray(base, np.float32)
        self.index = self.create(vectors.shape[1], metric, seed, **build_params)
        self.index.train(vectors)
        self.index.add(vectors)

    def save(self, directory):
        faiss.write_index(self.index, str(Path(directory, "faiss.index")))

    def load(self, directory, *, threads):
        faiss.omp_set_num_threads(threads)
        self.index = faiss.read_index(str(Path(directory, "faiss.index")))

    def search(self, queries, k, **search_params):
        # Where fewer than k are found, faiss itself fills the row with id -1.
        parameters, self.asked = self.parameters(**search_params), len(queries)
        faiss.cvar.hnsw_stats.reset()
        faiss.cvar.indexIVF_stats.reset()
        self.told, ids = self.index.search(queries.astype(np.float32, copy=False), k, params=parameters)
        return ids

    def distances(self):
        return self.told


class Hnsw(FaissIndex):
    def create(self, dimension, metric, seed, *, M, efConstruction, keep_max_size_level0):
        index = faiss.IndexHNSWFlat(dimension, M, metric)
        index.hnsw.efConstruction = efConstruction
        index.hnsw.rng = faiss.RandomGenerator(seed)
        index.keep_max_size_level0 = keep_max_size_level0
        return index

    def parameters(self, *, efSearch):
        return faiss.SearchParametersHNSW(efSearch=efSearch)

    def stats(self):
        return {"distance_computations": faiss.cvar.hnsw_stats.ndis}


class IvfFlat(FaissIndex):
    def create(self, dimension, metric, seed, *, n_list):
        index = faiss.index_factory(dimension, f"IVF{n_list},Flat", metric)
        index.cp.seed = seed
        return index

    def parameters(self, *, n_probe):
        return faiss.SearchParametersIVF(nprobe=n_probe)

    def stats(self):
        # faiss counts those to the vectors of the lists; every query is compared with all centres before.
        return {"distance_computations": faiss.cvar.indexIVF_stats.ndis + self.asked * self.index.nlist}


class Imi(FaissIndex):
    """Inverted multi-index: k-means in each half of the dimensions, a cell for every pair of centres.

    faiss finds the cells of a query by l2 alone. For ip and cosine it is asked with a query as long as the vectors are
    on average, so that the cells do not depend on the query's own length, and compares what lies in them by product.
    """

    def build(self, base, *, distance, threads, seed, learn=None, n_bits):
        super().build(base, distance=distance, threads=threads, seed=seed, n_bits=n_bits)
        rows = range(0, len(base), 65536)
        norms = [np.linalg.norm(base[row : row + 65536].astype(np.float32), axis=1).sum() for row in rows]
        self.length = 1.0 if distance == "cosine" else float(sum(norms)) / len(base)

    def create(self, dimension, metric, seed, *, n_bits):
        quantizer = faiss.MultiIndexQuantizer(dimension, 2, n_bits)
        quantizer.pq.cp.seed = seed
        index = faiss.IndexIVFFlat(quantizer, dimension, 4**n_bits, metric)
        index.quantizer_trains_alone = 1
        return index

    def save(self, directory):
        super().save(directory)
        np.save(Path(directory, "length.npy"), self.length)

    def load(self, directory, *, threads):
        super().load(directory, threads=threads)
        self.length = float(np.load(Path(directory, "length.npy")))

    def search(self, queries, k, *, n_probe):
        queries = queries.astype(np.float32, copy=False)
        asked = queries
        if self.index.metric_type == faiss.METRIC_INNER_PRODUCT:
            asked = unit_rows(queries) * np.float32(self.length)
        self.index.nprobe = n_probe
        self.index.parallel_mode = 3  # by its default, faiss searches lists that it is given on one thread
        cells = self.index.quantizer.search(asked, n_probe)[::-1]
        self.told, ids = self.index.search_preassigned(queries, k, *cells)
        return ids


class Flat(Algorithm):
    """Exhaustive search, exact to the last id: float32 candidates from faiss, re-ranked in float64, ties by lower id.

    A query whose k-th distance is not clear of the last candidate by the rounding error of float32 asks for more
    candidates. It keeps the base for that, so there is nothing to save.
    """

    def build(self, base, *, distance, threads, seed, learn=None):
        faiss.omp_set_num_threads(threads)
        faiss.cvar.distance_compute_blas_threshold = 1  # its default scans memory where a block is small
        self.base, self.distance = base, distance
        self.centre = np.mean(base, axis=0, dtype=np.float64) if distance == "l2" else np.zeros(base.shape[1])
        self.index = faiss.IndexFlat(base.shape[1], faiss.METRIC_L2 if distance == "l2" else faiss.METRIC_INNER_PRODUCT)
        self.radius = 0.0
        for start in range(0, len(base), 65536):
            block = self.shift(base[start : start + 65536])
            self.index.add(block)
            self.radius = max(self.radius, float(np.sqrt(np.square(block, dtype=np.float64).sum(axis=1)).max()))

    def shift(self, vectors):
        return unit_rows(vectors) if self.distance == "cosine" else (vectors - self.centre).astype(np.float32)

    def search(self, queries, k):
        n = self.index.ntotal
        ids = np.full((len(queries), k), -1, np.int64)
        unsure, width = np.arange(len(queries)), min(n, k + 32)
        while len(unsure):
            still = []
            for start in range(0, len(unsure), max(1, 100_000 // width)):
                rows = unsure[start : start + max(1, 100_000 // width)]
                shifted = self.shift(queries[rows])
                scores, found = self.index.search(shifted, width)
                distances = self.exact(queries[rows], found)
                order = np.lexsort((found, distances))
                ids[rows, : min(k, n)] = np.take_along_axis(found, order, axis=1)[:, :k]
                length = np.sqrt(np.square(shifted, dtype=np.float64).sum(axis=1))
                reach = length + self.radius if self.distance == "l2" else np.sqrt(length * self.radius)
                margin = (shifted.shape[1] + 8) * 2.0**-22 * reach**2
                last = {"l2": scores, "ip": -scores, "cosine": 1 - scores}[self.distance][:, -1]
                kth = np.take_along_axis(distances, order, axis=1)[:, min(k, n) - 1]
                still.append(rows[~(kth + margin < last)])  # NaN is unsure
            if width == n:
                break
            unsure, width = np.concatenate(still), min(n, 8 * width)
        return ids

    def exact(self, queries, ids):
        base, queries = self.base[ids].astype(np.float64), queries[:, None].astype(np.float64)
        if self.distance == "l2":
            return np.square(base - queries).sum(axis=2)
        products = (base * queries).sum(axis=2)
        if self.distance == "ip":
            return -products
        squares = np.square(base).sum(axis=2) * np.square(queries).sum(axis=2)
        ratio = np.divide(products * products, squares, out=np.zeros_like(products), where=squares > 0)
        return 1 - np.copysign(np.sqrt(np.minimum(ratio, 1)), products)
