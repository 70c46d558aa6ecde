"""Counting what a search can reach in a graph file."""

import numpy as np

from benchmarks.worker.vamana import reachable


def write_graph(path, neighbours, entry, frozen=0):
    lists = [item for row in neighbours for item in (len(row), *row)]
    header = np.array([24 + 4 * len(lists), frozen], "<u8")
    degree_and_entry = np.array([max(map(len, neighbours)), entry], "<u4")
    path.write_bytes(header[:1].tobytes() + degree_and_entry.tobytes() + header[1:].tobytes())
    with path.open("ab") as file:
        file.write(np.array(lists, "<u4").tobytes())
    return path


def test_only_what_the_entry_point_leads_to_is_counted(tmp_path):
    neighbours = [[1, 2], [0], [2, 1], [0], []]
    assert reachable(write_graph(tmp_path / "graph", neighbours, entry=0)) == 3
    assert reachable(write_graph(tmp_path / "graph", neighbours, entry=3)) == 4
    assert reachable(write_graph(tmp_path / "graph", neighbours, entry=4)) == 1


def test_a_frozen_point_is_no_vector(tmp_path):
    assert reachable(write_graph(tmp_path / "graph", [[1], [0, 2], [0]], entry=2, frozen=1)) == 2


def test_counting_ends_at_the_limit(tmp_path):
    chain = [[row + 1] for row in range(999)] + [[]]
    assert reachable(write_graph(tmp_path / "graph", chain, entry=0)) == 1000
    assert 100 <= reachable(write_graph(tmp_path / "graph", chain, entry=0), limit=100) < 1000
