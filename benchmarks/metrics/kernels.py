"""Loops over every answer of every query, compiled."""

import numpy as np

from benchmarks.groundtruth.kernels import compiled

GOLDEN = 2654435769  # 2^32 over the golden ratio: spreads neighbouring ids over the table


@compiled()
def _slot(number, shift):
    return ((np.int64(number) * GOLDEN) & 0xFFFFFFFF) >> shift


@compiled()
def rank_answers(neighbors, truth, ranks):
    """Write to ranks (nq, k) the place from 1 on of each answer among the row's exact ids, 0 where it is not.

    An id is found once, where it comes first; a negative one never is. One small hash table serves every query.
    """
    bits = 2
    while (1 << bits) < 2 * truth.shape[1]:
        bits += 1
    shift, last = 32 - bits, (1 << bits) - 1
    keys, places = np.empty(1 << bits, np.int32), np.empty(1 << bits, ranks.dtype)
    for i in range(len(neighbors)):
        keys[:] = -1
        row, exact, out = neighbors[i], truth[i], ranks[i]
        for j in range(len(exact)):
            if exact[j] >= 0:
                at = _slot(exact[j], shift)
                while keys[at] >= 0 and keys[at] != exact[j]:
                    at = (at + 1) & last
                if keys[at] < 0:
                    keys[at], places[at] = exact[j], j + 1
        for j in range(len(row)):
            out[j] = 0
            if row[j] >= 0:
                at = _slot(row[j], shift)
                while keys[at] >= 0 and keys[at] != row[j]:
                    at = (at + 1) & last
                if keys[at] >= 0:
                    out[j], places[at] = places[at], 0


@compiled()
def score_ranks(ranks, discounts, precision, gain, gain_by_answer, reciprocal):
    """Write sums over the hits of each row of ranks (nq, k), each (nq,) in float64.

    precision: hits so far / place in the answer. gain: discount of the place in the truth. gain_by_answer: discount of
    the place in the answer. reciprocal: 1 / place of the first hit in the answer.
    """
    for i in range(len(ranks)):
        row, hits, total, by_truth, by_answer, first = ranks[i], 0, 0.0, 0.0, 0.0, 0.0
        for j in range(len(row)):
            if row[j] > 0:
                hits += 1
                total += hits / (j + 1)
                by_truth += discounts[row[j] - 1]
                by_answer += discounts[j]
                if hits == 1:
                    first = 1 / (j + 1)
        precision[i], gain[i], gain_by_answer[i], reciprocal[i] = total, by_truth, by_answer, first


@compiled()
def invert_ratios(ranks, distances, exact, lengths, inverses):
    """Write K / the sum over the places of (the answer's distance / the exact one's), float64 (nq,).

    Answers are taken in the order of their distances; one that is in the truth has the distance that the truth says. No
    answer nearer than the exact one counts as nearer; both 0 is a ratio of 1. A place without an answer makes it 0.
    `exact` (nq, K) and the distances (nq, k) are lengths, or negative products, of which the exact ones are below 0.
    """
    k, top = ranks.shape[1], exact.shape[1]
    row = np.empty(k)
    for i in range(len(ranks)):
        for j in range(k):
            place = ranks[i, j]
            value = exact[i, place - 1] if place > 0 else np.float64(distances[i, j])
            at = j
            while at > 0 and row[at - 1] > value:
                row[at] = row[at - 1]
                at -= 1
            row[at] = value
        total = 0.0
        for j in range(top):
            near, found = exact[i, j], (row[j] if j < k else np.inf)
            if lengths:
                ratio = found / near if near > 0 else (1.0 if found <= 0 else np.inf)
            else:
                ratio = near / found if found < 0 else np.inf
            total += max(ratio, 1.0)
        inverses[i] = top / total
