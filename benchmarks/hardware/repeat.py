"""A short fixed piece of work, timed over and over on the chosen CPUs: do timings repeat here?"""

import os
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Barrier
from time import perf_counter

import numpy as np
from threadpoolctl import threadpool_limits

ROWS, DIMENSION, PASSES = 20_000, 128, 50  # 10 MB per thread: more than a cache of its own


def time_work(cpus: list[int], repeats: int) -> list[float]:
    """Seconds of each repeat; each is one pass of every CPU over vectors of its own, all at the same time."""
    waiting: SimpleQueue[int] = SimpleQueue()
    for cpu in cpus:
        waiting.put(cpu)

    def pin() -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {waiting.get()})  # of this thread alone

    def work(thread: int) -> None:
        if thread not in arrays:
            rng = np.random.default_rng(thread)
            arrays[thread] = rng.random((ROWS, DIMENSION), np.float32), rng.random(DIMENSION, np.float32)
        vectors, query = arrays[thread]
        together.wait()  # so that each thread of the pool takes one piece
        for _ in range(PASSES):
            np.argpartition(vectors @ query, 10)

    arrays: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    together, seconds = Barrier(len(cpus)), []
    with threadpool_limits(1), ThreadPoolExecutor(len(cpus), initializer=pin) as pool:
        for _ in range(repeats + 1):  # the first one warms up
            start = perf_counter()
            list(pool.map(work, range(len(cpus))))
            seconds.append(perf_counter() - start)
    return seconds[1:]
