"""Loops over every answer of every query, compiled."""

import numpy as np

from benchmarks.groundtruth.kernels import compiled


@compiled()
def _seek(exact, number):
    """Place of the number from 1 on, 0 where it is not. Without an early end, so that it is done by vectors."""
    place = 0
    for j in range(len(exact)):
        place = j + 1 if exact[j] == number else place
    return place


@compiled()
def rank_answers(neighbors, truth, ranks):
    """Write to ranks (nq, k) the place from 1 on of each answer among the row's exact ids, 0 where it is not.

    An id is found once, where it comes first; a negative one never is. Both rows are mostly in the same order, so an
    answer is looked for behind the last that was found, and then everywhere; a hash table was slower up to K = 100.
    """
    top = truth.shape[1]
    taken = np.empty(top + 1, np.bool_)
    for i in range(len(neighbors)):
        row, exact, out, cursor = neighbors[i], truth[i], ranks[i], 0
        taken[:] = False
        for j in range(len(row)):
            out[j] = 0
            if row[j] < 0:
                continue
            if cursor < top and exact[cursor] == row[j]:
                place = cursor + 1
            elif cursor + 1 < top and exact[cursor + 1] == row[j]:
                place = cursor + 2
            else:
                place = _seek(exact, row[j])
            if place > 0 and not taken[place]:
                taken[place] = True
                out[j] = cursor = place


@compiled()
def count_near(ranks, distances, limits, counts):
    """Write to counts (nq,) how many of each row are in the truth, or finite and no farther than the row's limit."""
    for i in range(len(ranks)):
        row, found, limit, count = ranks[i], distances[i], limits[i], 0
        for j in range(len(row)):
            count += (row[j] > 0) | ((found[j] <= limit) & (found[j] < np.inf))
        counts[i] = count


@compiled()
def count_nearest(ranks, nearest, counts):
    """Write to counts (nq,) how many of the nearest each row has."""
    for i in range(len(ranks)):
        row, count = ranks[i], 0
        for j in range(len(row)):
            count += (row[j] > 0) & (row[j] <= nearest)
        counts[i] = count


@compiled()
def score_ranks(ranks, discounts, most, ideal, precision, gain, gain_by_answer, reciprocal):
    """Write sums over the hits of each row of ranks (nq, k), each (nq,) in float64, as shares of what they can be.

    precision: hits so far / place in the answer, of `most`. gain: discount of the place in the truth, and
    gain_by_answer: of the place in the answer, of `ideal`. reciprocal: 1 / place of the first hit in the answer. None
    is above 1: sums in another order differ in the last digit.
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
        precision[i], reciprocal[i] = min(total / most, 1.0), first
        gain[i], gain_by_answer[i] = min(by_truth / ideal, 1.0), min(by_answer / ideal, 1.0)


@compiled()
def invert_ratios(ranks, distances, exact, squared, lengths, inverses):
    """Write K / the sum over the places of (the answer's distance / the exact one's), float64 (nq,).

    Answers are taken in the order of their distances; one that is in the truth has the distance that the truth says. No
    answer nearer than the exact one counts as nearer; both 0 is a ratio of 1. A place without an answer makes it 0.
    `exact` (nq, K) and the distances (nq, k), these maybe squared, are lengths, or negative products, of which the
    exact ones are below 0.
    """
    k, top = ranks.shape[1], exact.shape[1]
    row = np.empty(k)
    for i in range(len(ranks)):
        for j in range(k):
            place = ranks[i, j]
            if place > 0:
                value = exact[i, place - 1]
            else:
                value = np.float64(np.sqrt(distances[i, j]) if squared else distances[i, j])
            at = j
            while at > 0 and row[at - 1] > value:
                row[at] = row[at - 1]
                at -= 1
            row[at] = value
        total = 0.0
        for j in range(top):
            near, found = exact[i, j], (row[j] if j < k else np.inf)
            if found <= near:
                total += 1.0
            elif lengths:
                total += found / near if near > 0 else np.inf
            else:
                total += near / found if found < 0 else np.inf
        inverses[i] = top / total
