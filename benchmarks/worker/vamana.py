"""The graph file of a Vamana index, as DiskANN writes it."""

from __future__ import annotations

from array import array

import numpy as np


def reachable(path, limit=100_000):
    """How many vectors a search can come to from the entry point; counting ends at `limit` or soon after.

    A search whose list has room for more returns these and no others, whatever the query, and libraries leave the
    rest of a row to chance: ask for no more than this number. The file is a header (uint64 size, uint32 largest
    degree, uint32 entry point, uint64 frozen points), then uint32 degree and uint32 neighbours of each vector. A frozen
    point is an entry point that is no vector, so it does not count.
    """
    words = memoryview(np.memmap(path, np.uint32, "r"))
    places, place = array("Q"), 6
    while place < len(words):
        places.append(place)
        place += 1 + words[place]
    seen, waiting = {words[3]}, [words[3]]
    while waiting and len(seen) < limit:
        place = places[waiting.pop()]
        fresh = set(words[place + 1 : place + 1 + words[place]]) - seen
        seen |= fresh
        waiting.extend(fresh)
    return len(seen) - words[4]
