import json

import pytest
from pydantic import ValidationError

from benchmarks.results.schema import SCHEMA_VERSION, Provenance, ResultRecord
from benchmarks.results.store import Store
from tests.factories import make_result


@pytest.fixture
def record(tmp_path):
    return make_result(Store(tmp_path), build={"M": 8, "alpha": 1.0, "keep": True}, search={"kind": "pq"}).record


@pytest.mark.parametrize(
    ("k", "n", "denominator"), [(10, 1000, 10), (10, 10, 10), (10, 7, 7), (1, 1, 1), (100, 99, 99)]
)
def test_denominator_is_k_or_the_whole_base(tmp_path, k, n, denominator):
    assert make_result(Store(tmp_path), k=k, n=n).record.denominator == denominator


def test_a_record_survives_json(record):
    read = ResultRecord.model_validate_json(record.model_dump_json())
    assert read == record and read.identity.hash() == record.identity.hash()
    assert [type(value) for value in read.identity.build_params.values()] == [int, float, bool]


def test_the_version_is_written(record):
    assert record.schema_version == SCHEMA_VERSION and '"schema_version":1' in record.model_dump_json()


@pytest.mark.parametrize(
    "update",
    [
        {"schema_version": 2},
        {"schema_version": 0},
        {"status": "fine"},
        {"unknown": 1},
        {"n": None},
        {"nq": "many"},
        {"build_seconds": float("nan")},
        {"stats": {"a": [1]}},
        {"provenance": {}},
    ],
)
def test_a_wrong_record_is_refused(record, update):
    with pytest.raises(ValidationError):
        ResultRecord.model_validate({**record.model_dump(), **update})


@pytest.mark.parametrize("model", [ResultRecord, Provenance])
def test_a_record_is_frozen(record, model):
    instance = record if model is ResultRecord else record.provenance
    with pytest.raises(ValidationError):
        setattr(instance, next(iter(model.model_fields)), 1)


def test_stats_keep_their_types(record):
    stats = {"comparisons": 10**12, "share": 0.5, "trained": True, "note": "x"}
    read = ResultRecord.model_validate_json(record.model_copy(update={"stats": stats}).model_dump_json())
    assert read.stats == stats and [type(value) for value in read.stats.values()] == [int, float, bool, str]


def test_a_record_from_before_machine_profiles_is_read(record):
    content = json.loads(record.model_dump_json())
    for name in ("deviations", "process_threads"):
        del content[name]
    for name in ("machine_profile", "memory_nodes", "findings", "memory_allowed", "memory_policy"):
        del content["provenance"][name]
    read = ResultRecord.model_validate_json(json.dumps(content))
    assert read == record and read.deviations == [] and read.provenance.machine_profile is None
