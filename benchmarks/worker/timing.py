"""The timed part: nothing but the adapter's own call lies between two readings of the clock."""

from __future__ import annotations

import gc
from time import perf_counter, process_time, thread_time

import numpy as np

WARMUP_BATCH = 1000
WARMUP_SINGLE = 100


def measure(algorithm, queries, k, mode, repeats, search_params):
    """Search all queries `repeats` times, after a warm-up on the first of them.

    Returns:
        dict with neighbors int64 (nq, k) of the first repeat; search_seconds float64 (repeats), wall time of a whole
        pass; latency float32 (repeats, nq) in seconds in single mode, else None; answers_vary, whether a later
        repeat returned other ids; search_cpu_seconds, CPU time of all passes on all threads, and caller_cpu_seconds,
        the calling thread's own part of it.
    """
    run = {"batch": _pass_batch, "single": _pass_single}[mode]
    warmup = {"batch": WARMUP_BATCH, "single": WARMUP_SINGLE}[mode]
    run(algorithm, queries[:warmup], k, search_params)
    neighbors, answers_vary = None, False
    seconds, latency, cpu = np.empty(repeats), [], np.zeros(2)
    for repeat in range(repeats):
        collecting = gc.isenabled()
        gc.disable()
        cpu -= process_time(), thread_time()
        try:
            answers, seconds[repeat], latencies = run(algorithm, queries, k, search_params)
        finally:
            cpu += process_time(), thread_time()
            if collecting:
                gc.enable()
        latency.append(latencies)
        ids = stack_ids(answers, len(queries), k)
        if neighbors is None:
            neighbors = ids
        elif not answers_vary:
            answers_vary = not np.array_equal(neighbors, ids)
    return {
        "neighbors": neighbors,
        "search_seconds": seconds,
        "latency": np.asarray(latency, np.float32) if mode == "single" else None,
        "answers_vary": answers_vary,
        "search_cpu_seconds": float(cpu[0]),
        "caller_cpu_seconds": float(cpu[1]),
    }


def _pass_batch(algorithm, queries, k, search_params):
    start = perf_counter()
    answer = algorithm.search(queries, k, **search_params)
    return [answer], perf_counter() - start, None


def _pass_single(algorithm, queries, k, search_params):
    rows = [queries[i : i + 1] for i in range(len(queries))]
    search, answers, stamps = algorithm.search, [], []
    begin, copying = perf_counter(), 0.0
    for row in rows:
        start = perf_counter()
        answer = search(row, k, **search_params)
        end = perf_counter()
        stamps.append(end - start)
        answers.append(np.array(answer))  # the next call may overwrite what this one returned
        copying += perf_counter() - end
    return answers, perf_counter() - begin - copying, stamps


def stack_ids(answers, nq, k):
    """Answers of one pass as int64 (nq, k): short rows padded with -1, columns beyond k dropped.

    Raises:
        ValueError: an answer is not a matrix of integers with one row per query.
    """
    arrays = [np.asarray(answer) for answer in answers]
    for array in arrays:
        if array.ndim != 2 or array.dtype.kind not in "iu":
            raise ValueError(f"search must return an integer array (queries, k), not {array.dtype} {array.shape}")
    if any(len(array) * len(arrays) != nq for array in arrays):
        raise ValueError(f"search returned {sum(len(array) for array in arrays)} rows for {nq} queries")
    if len({array.shape[1] for array in arrays}) == 1:
        found = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        if found.shape[1] == k:
            return found.astype(np.int64)
    ids = np.full((nq, k), -1, np.int64)
    row = 0
    for array in arrays:
        width = min(k, array.shape[1])
        ids[row : row + len(array), :width] = array[:, :width]
        row += len(array)
    return ids
