import numpy as np
import pytest

from benchmarks.data import survey as module
from benchmarks.data.survey import digest_rows, survey
from tests.harness import gaussian, vector_file


@pytest.fixture
def look(tmp_path):
    """The survey of some rows, and which of the queries are among them."""

    def of(rows, queries=None):
        digests = None if queries is None else digest_rows(queries)
        return survey(vector_file(tmp_path / "a.bin", rows), tmp_path / "work", lambda count: None, digests)

    return of


@pytest.fixture(params=[None, 100], ids=["one block", "blocks and buckets"])
def blocks(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(module, "BLOCK_BYTES", 7 * 64)
        monkeypatch.setattr(module, "BUCKET_BYTES", request.param)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
def test_norms_and_zero_vectors(look, blocks, dtype):
    rows = gaussian(100, dtype=dtype)
    rows[[3, 50, 99]] = 0
    found, _ = look(rows)
    norms = np.linalg.norm(rows.astype("f8"), axis=1)
    assert (found.rows, found.zero, found.copies, found.not_finite) == (100, 3, 2, 0)
    assert (found.least_norm, found.largest_norm) == (0, norms.max()) and np.isclose(found.mean_norm, norms.mean())


def test_rows_that_are_not_finite_are_counted_and_left_out(look, blocks):
    rows = gaussian(100)
    rows[40, 3], rows[70, 0], rows[71] = np.nan, np.inf, np.nan
    found, _ = look(rows)
    assert (found.not_finite, found.first_not_finite) == (3, 40)
    assert found.largest_norm == np.linalg.norm(np.delete(rows, [40, 70, 71], 0).astype("f8"), axis=1).max()


def test_nothing_but_nan(look):
    found, _ = look(np.full((5, 2), np.nan, "f4"))
    assert (found.not_finite, found.mean_norm, found.least_norm) == (5, 0, 0)


def test_copies_are_counted(look, blocks):
    rows = gaussian(100)
    rows[60:70] = rows[5]
    rows[90] = rows[7]
    assert look(rows)[0].copies == 11


def test_signs_that_nearly_cancel_are_no_copies(look):
    rows = np.random.default_rng(0).choice([-1, 1], (3000, 64)).astype("f4")
    assert look(rows)[0].copies == 3000 - len(np.unique(rows, axis=0))


def test_negative_zero_equals_zero():
    assert digest_rows(np.array([[0.0, 1]], "f4")) == digest_rows(np.array([[-0.0, 1]], "f4"))


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
def test_queries_among_the_rows(look, blocks, dtype):
    rows, queries = gaussian(100, dtype=dtype), gaussian(8, dtype=dtype, seed=1)
    queries[[2, 5]], queries[6] = rows[[0, 99]], queries[2]
    _, among = look(rows, queries)
    assert np.flatnonzero(among).tolist() == [2, 5, 6]


def test_signed_bytes_read_as_unsigned_are_suspected(look):
    signed = np.clip(np.random.default_rng(0).normal(0, 20, (1000, 16)), -128, 127).astype("i1")
    assert look(signed.view("u1"))[0].looks_signed
    assert not look(gaussian(1000, dtype="uint8"))[0].looks_signed
    assert not look(np.random.default_rng(0).exponential(40, (1000, 16)).clip(0, 255).astype("u1"))[0].looks_signed
    assert not look(np.random.default_rng(0).choice([0, 255], (1000, 16)).astype("u1"))[0].looks_signed


def test_nothing_is_left_behind(look, tmp_path):
    look(gaussian(100))
    assert list((tmp_path / "work").iterdir()) == []
