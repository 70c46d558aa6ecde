import h5py
import numpy as np
import pytest

from benchmarks.cards.datasets import DatasetCard
from benchmarks.data.prepare import resolve_dataset
from benchmarks.data.verify import FAILURE, OK, WARNING, verify
from benchmarks.groundtruth.exact import exact_neighbors
from benchmarks.progress import Progress
from tests.harness import gaussian, write_bin

BASE, QUERIES = gaussian(500), gaussian(40, seed=1)


@pytest.fixture
def findings(tmp_path):
    """Findings by check, of files with the rows that are given; other fields go into the card."""

    def of(base_rows=BASE, query_rows=QUERIES, k=10, **fields):
        suffix = {"f": "fbin", "u": "u8bin", "i": "i8bin"}[base_rows.dtype.kind]
        write_bin(tmp_path / f"base.{suffix}", base_rows)
        write_bin(tmp_path / f"queries.{suffix}", query_rows)
        fields = {
            "name": "tiny",
            "directory": tmp_path,
            "title": "x",
            "distance": "l2",
            "base": {"path": f"base.{suffix}"},
            "queries": {"path": f"queries.{suffix}"},
            **fields,
        }
        return list_of(DatasetCard(**fields), tmp_path, k)

    return of


def list_of(card, folder, k=10):
    found = {finding.check: finding for finding in verify(card, folder / "cache", k, 1, Progress())}
    assert all(len(finding.text.splitlines()) == 1 for finding in found.values())
    return found


def levels(found):
    return {check: finding.level for check, finding in found.items() if finding.level != OK}


def test_a_good_data_set(findings):
    found = findings()
    assert levels(found) == {}
    assert list(found) == [
        "base file",
        "queries file",
        *(
            f"{role} {check}"
            for role in ("base", "queries")
            for check in ("finite", "zero vectors", "duplicates", "norms")
        ),
        "overlap",
        "supplied truth",
    ]
    assert "500 rows of 16 float32" in found["base file"].text


def test_a_false_header(findings, tmp_path):
    write_bin(tmp_path / "short.fbin", BASE, (501, 16))
    found = findings(learn={"path": "short.fbin"})
    assert levels(found) == {"learn file": FAILURE} and "truncated" in found["learn file"].text
    assert found["base norms"].level == OK  # the others are checked all the same


def test_a_card_that_is_not_true(findings):
    assert levels(findings(dimension=15)) == {"base type": FAILURE, "queries type": FAILURE}
    assert "float32, the card of tiny says uint8" in findings(dtype="uint8")["base type"].text
    found = findings(queries={"path": "queries.fbin", "rows": 41})
    assert levels(found) == {"queries file": FAILURE}


def test_a_missing_file(findings):
    found = findings(queries={"path": "no.fbin"})
    assert levels(found) == {"queries file": FAILURE} and "overlap" not in found


def test_queries_of_another_dimension(findings):
    assert levels(findings(query_rows=gaussian(40, 8))) == {"queries type": FAILURE}


def test_nan(findings):
    base = BASE.copy()
    base[[7, 9], 3] = np.nan
    found = findings(base_rows=base)
    assert levels(found) == {"base finite": FAILURE}
    assert found["base finite"].text.startswith("2 rows hold NaN or infinity, the first is row 7")


def test_zero_vectors(findings):
    base = BASE.copy()
    base[7] = 0
    found = findings(base_rows=base, distance="cosine")
    assert levels(found) == {"base zero vectors": WARNING} and "at distance 1" in found["base zero vectors"].text


def test_duplicates(findings):
    base = BASE.copy()
    base[100:110] = base[5]
    found = findings(base_rows=base)
    assert levels(found) == {"base duplicates": WARNING} and "10 of 500 rows equal" in found["base duplicates"].text


def test_norms(findings):
    assert "normalised" in findings(base_rows=BASE / np.linalg.norm(BASE, axis=1)[:, None])["base norms"].text
    assert levels(findings(base_rows=BASE * np.float32(1e19))) == {"base norms": WARNING}


@pytest.mark.parametrize(("copied", "corpus"), [(3, False), (40, True)])
def test_queries_that_are_base_vectors(findings, copied, corpus):
    queries = QUERIES.copy()
    queries[:copied] = BASE[100 : 100 + copied]
    found = findings(query_rows=queries)
    assert levels(found) == {"overlap": WARNING} and f"{copied} of 40 queries" in found["overlap"].text
    assert ("is the query set the corpus?" in found["overlap"].text) == corpus


def test_signed_bytes_under_the_wrong_suffix(findings):
    found = findings(
        base_rows=gaussian(500, dtype="int8").view("u1"), query_rows=gaussian(40, dtype="int8", seed=1).view("u1")
    )
    assert "is it int8?" in found["base type"].text


def test_supplied_truth(findings, tmp_path):
    exact = exact_neighbors(BASE, QUERIES, "l2", 30)
    head, ids = np.array([40, 30], "<u4").tobytes(), exact.neighbors.astype("<i4")
    (tmp_path / "gt.ibin").write_bytes(head + ids.tobytes() + exact.distances.astype("<f4").tobytes())
    truth = {"path": "gt.ibin"}
    found = findings(truth=truth)
    assert levels(found) == {} and "40 × 30 ids and distances" in found["supplied truth"].text
    found = findings(truth=truth, k=31)
    assert levels(found) == {"supplied truth": FAILURE} and "31 are needed" in found["supplied truth"].text
    (tmp_path / "gt.ibin").write_bytes(head + (ids[:, ::-1] ^ 1).tobytes())
    found = findings(truth=truth)
    assert levels(found) == {"supplied truth": FAILURE} and "ours is computed" in found["supplied truth"].text
    (tmp_path / "gt.ibin").write_bytes(head)
    assert levels(findings(truth=truth)) == {"supplied truth": FAILURE}


def test_supplied_truth_is_not_checked_against_nan(findings, tmp_path):
    (tmp_path / "gt.ibin").write_bytes(np.array([40, 1], "<u4").tobytes() + bytes(160))
    base = BASE.copy()
    base[7] = np.inf
    found = findings(base_rows=base, truth={"path": "gt.ibin"})
    assert levels(found) == {"base finite": FAILURE, "supplied truth": WARNING}


@pytest.mark.parametrize("shift", [0, 1])
def test_an_hdf5_file_with_its_own_truth(tmp_path, shift):
    exact = exact_neighbors(BASE, QUERIES, "cosine", 30)
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["train"], file["test"], file["learn"] = BASE, QUERIES, QUERIES[:9]
        file["neighbors"], file["distances"] = (exact.neighbors + shift) % 500, exact.distances
        file.attrs["distance"] = "angular"
    found = list_of(resolve_dataset(str(tmp_path / "a.hdf5")), tmp_path)
    assert levels(found) == ({"supplied truth": FAILURE} if shift else {}) and "learn file" in found
    assert found["distance"].text == "cosine, as the file says"
    found = list_of(resolve_dataset(str(tmp_path / "a.hdf5"), "ip"), tmp_path)
    assert levels(found) == {"distance": WARNING, "supplied truth": FAILURE}


@pytest.mark.parametrize("rows", [BASE, np.full((500, 16), np.nan, "f4")], ids=["good", "NaN"])
def test_a_file_of_which_queries_are_held_out(tmp_path, rows):
    np.save(tmp_path / "own.npy", rows)
    found = list_of(resolve_dataset(str(tmp_path / "own.npy")), tmp_path)
    if rows is BASE:
        assert levels(found) == {} and "450 rows" in found["base file"].text
    else:
        assert levels(found) == {"base file": FAILURE} and "row 0 holds nan" in found["base file"].text


def test_copies_among_held_out_queries(tmp_path):
    np.save(tmp_path / "own.npy", np.concatenate([BASE, BASE]))
    found = list_of(resolve_dataset(str(tmp_path / "own.npy")), tmp_path)
    assert "so these are copies" in found["overlap"].text and found["base duplicates"].level == WARNING


def test_a_generated_data_set(tmp_path):
    assert levels(list_of(resolve_dataset("crossover-20k"), tmp_path)) == {}
