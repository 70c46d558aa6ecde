import numpy as np
from google.protobuf import text_format
from scann import scann_ops_pybind
from scann.proto import scann_pb2

from benchmarks.worker import Algorithm, unit_rows


class Scann(Algorithm):
    """Cosine is inner product over unit rows; a query's length changes no order."""

    def build(
        self,
        base,
        *,
        distance,
        threads,
        seed,
        learn=None,
        num_leaves,
        training_sample_size,
        min_partition_size,
        soar_lambda,
        overretrieve_factor,
        score,
        dimensions_per_block,
        anisotropic_quantization_threshold,
    ):
        vectors = unit_rows(base) if distance == "cosine" else np.ascontiguousarray(base, np.float32)
        measure = "squared_l2" if distance == "l2" else "dot_product"
        soar = {"soar_lambda": soar_lambda, "overretrieve_factor": overretrieve_factor} if soar_lambda else {}
        # The 10, the 1 and the 100 are defaults of a search; every search here names its own.
        builder = scann_ops_pybind.builder(vectors, 10, measure).tree(
            num_leaves, 1, training_sample_size, min_partition_size, **soar
        )
        if score == "ah":
            threshold = anisotropic_quantization_threshold or float("nan")
            builder.score_ah(dimensions_per_block, anisotropic_quantization_threshold=threshold).reorder(100)
        else:
            builder.score_brute_force()
        # The builder has no seed, the configuration that it writes has.
        config = text_format.Parse(builder.create_config(), scann_pb2.ScannConfig())
        config.partitioning.clustering_seed = seed
        if score == "ah":
            config.hash.asymmetric_hash.clustering_seed = config.hash.asymmetric_hash.sampling_seed = seed
        self.searcher = scann_ops_pybind.create_searcher(vectors, text_format.MessageToString(config), threads)
        self.use_threads(threads)

    def save(self, directory):
        self.searcher.serialize(str(directory), relative_path=True)

    def load(self, directory, *, threads):
        self.searcher = scann_ops_pybind.load_searcher(str(directory))
        self.use_threads(threads)

    def use_threads(self, threads):
        self.threads = threads
        if threads > 1:
            self.searcher.set_num_threads(threads - 1)  # the calling thread searches too

    def search(self, queries, k, *, num_leaves_to_search, reorder):
        arguments = [queries.astype(np.float32, copy=False), k, reorder or None, num_leaves_to_search]
        if self.threads == 1:
            ids, distances = self.searcher.search_batched(*arguments)
        else:
            share = -(-len(queries) // self.threads)
            ids, distances = self.searcher.search_batched_parallel(*arguments, batch_size=share)
        return np.where(np.isnan(distances), -1, ids.astype(np.int64))  # short rows end in id 0 at distance NaN
