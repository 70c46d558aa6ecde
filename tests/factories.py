"""Result files that look like real ones, without an index."""

from hashlib import sha256

import numpy as np

from benchmarks.results.schema import Identity, Machine, Provenance, ResultRecord
from benchmarks.results.store import Result, Store


def make_result(
    store: Store,
    *,
    algorithm: str = "faiss-hnsw",
    build: dict | None = None,
    search: dict | None = None,
    hits=None,
    hits_tied=None,
    qps: float = 1000.0,
    status: str = "ok",
    reason: str | None = None,
    k: int = 10,
    mode: str = "batch",
    threads: int = 1,
    dataset: str = "toyset",
    nq: int = 200,
    n: int = 1000,
    seed: int | None = 0,
    repeats: int = 3,
    distance: str = "l2",
    base: str = "base",
    queries: str = "queries",
    truth: str | None = None,
    with_truth: bool = True,
    cpu: str = "Toy CPU",
    logical_cpus: int = 8,
    index_bytes: int | None = 100_000,
    build_seconds: float | None = 2.0,
    code: str = "0" * 64,
    measured_at: str = "2026-01-01T00:00:00+00:00",
    stats: dict | None = None,
    source: str | None = None,
) -> Result:
    """Write one result to the store and read it back.

    Args:
        hits: per query, at most min(k, n); default 9 of 10. Its length decides `nq`.
        qps: of the median repeat; the others are 5 % slower and faster.
        base, queries: content that is hashed for `base_sha256` and `queries_sha256`.
        source: hash of what it was imported from; then no seed is known, as a rule.
        truth: its key; by default made from base, queries, their number and distance.
        with_truth: whether the exact neighbours lie beside the result: 0, 1, 2, … at distances 1, 2, 3, … (negative for
            ip); the answers are the nearest of them, and -1.
    """
    denominator = min(k, n)
    hits = np.full(nq, max(1, denominator * 9 // 10)) if hits is None else np.asarray(hits)
    nq = len(hits)
    hashes = {
        f"{name}_sha256": sha256(text.encode()).hexdigest() for name, text in (("base", base), ("queries", queries))
    }
    identity = Identity(
        dataset=dataset,
        distance=distance,
        algorithm=algorithm,
        build_params=build or {},
        search_params=search or {},
        seed=seed,
        k=k,
        mode=mode,
        threads=threads,
        source=source,
        **hashes,
    )
    machine = Machine(cpu=cpu, logical_cpus=logical_cpus, memory_bytes=2**34, kernel="Linux 6.1")
    provenance = Provenance(
        measured_at=measured_at,
        command="python run.py",
        git_revision="0" * 40,
        git_dirty=False,
        runner="venv",
        code_sha256=code,
        environment="0" * 16,
        machine=machine,
    )
    ok = status == "ok"
    record = ResultRecord(
        identity=identity,
        status=status,
        reason=reason or (None if ok else f"the worker ended: {status}"),
        n=n,
        nq=nq,
        truth=truth or sha256(f"{base} {queries} {nq} {distance}".encode()).hexdigest()[:16],
        repeats=repeats,
        build_seconds=build_seconds,
        index_bytes=index_bytes,
        build_peak_bytes=2**28,
        search_peak_bytes=2**27,
        answers_vary=False if ok else None,
        stats=stats or {},
        provenance=provenance,
    )
    arrays = {}
    if ok:
        answers = np.where(np.arange(k) < hits[:, None], np.arange(k), -1).astype(np.int32)
        steps = np.arange(k) - float(k) if distance == "ip" else np.arange(k) + 1.0
        seconds = nq / qps * np.linspace(0.95, 1.05, repeats) if repeats > 1 else np.array([nq / qps])
        arrays = {
            "neighbors": answers,
            "distances": np.where(answers >= 0, steps, np.inf).astype(np.float32),
            "hits": hits.astype(np.uint16),
            "hits_tied": np.asarray(hits if hits_tied is None else hits_tied).astype(np.uint16),
            "search_seconds": seconds,
        }
        if mode == "single":
            spread = np.random.default_rng(seed).lognormal(0, 0.3, (repeats, nq))
            spread *= seconds[:, None] / spread.sum(axis=1, keepdims=True)
            arrays["latency"] = spread.astype(np.float32)
    if with_truth:
        exact = np.tile(np.arange(denominator, dtype=np.int32), (nq, 1))
        nearest = exact - float(k) if distance == "ip" else exact + 1.0
        store.keep_truth(identity, record.truth, exact, nearest)
    return store.read(store.write(record, arrays))


def graph_hits(recall: float, nq: int = 1000, k: int = 10, seed: int = 0) -> np.ndarray:
    """Hits as of a graph index: most queries find all, some find nothing."""
    rng = np.random.default_rng(seed)
    lost = rng.random(nq) < 0.55 * (1 - recall)
    near = 1 - 0.45 * (1 - recall) / (1 - 0.55 * (1 - recall))
    return np.where(lost, 0, rng.binomial(k, near, nq))


def partition_hits(recall: float, nq: int = 1000, k: int = 10, seed: int = 0) -> np.ndarray:
    """Hits as of a partition index: spread around the average, hardly ever none."""
    rng = np.random.default_rng(seed)
    return rng.binomial(k, rng.beta(6 * recall, 6 * (1 - recall), nq))


def make_two_families(store: Store, recalls, nq: int) -> None:
    """A graph and a partition index at each average recall; each next point is half as fast."""
    for index, recall in enumerate(recalls):
        make_result(
            store,
            algorithm="faiss-hnsw",
            build={"M": 8},
            search={"efSearch": 10 * 2**index},
            hits=graph_hits(recall, nq, seed=index),
            qps=9000 / 2**index,
        )
        make_result(
            store,
            algorithm="faiss-ivfflat",
            build={"n_list": 64},
            search={"n_probe": 2**index},
            hits=partition_hits(recall, nq, seed=index),
            qps=8000 / 2**index,
        )
