import re

import pytest

from benchmarks.metrics import registry
from benchmarks.metrics.registry import Measured, definitions, metric, parse_metric
from benchmarks.results.store import Store
from tests.factories import make_result

EXAMPLES = {"delta": "0.3", "percentile": "99.9", "nearest": "3", "epsilon": "0.1", "percent": "95"}
DEFINITIONS = definitions()


@pytest.fixture(params=DEFINITIONS, ids=lambda definition: definition.template)
def definition(request):
    return request.param


def test_the_metrics_that_users_read_about_are_there():
    assert {
        "recall",
        "recall_tied",
        "robustness-{delta}",
        "qps",
        "qps-best",
        "latency-p{percentile}",
        "build_seconds",
        "index_bytes",
        "peak_memory_bytes",
    } <= {item.template for item in DEFINITIONS}


def test_a_metric_says_what_it_is(definition):
    assert (
        definition.unit and definition.better in ("higher", "lower") and definition.kind in ("quality", "speed", "cost")
    )
    assert len(definition.meaning) > 20 and definition.meaning.endswith(".")
    for text in (definition.template, definition.title):
        assert set(re.findall(r"\{(\w+)\}", text)) == set(definition.arguments)


def test_every_template_parses_an_example(definition):
    name = definition.template.format(**{argument: EXAMPLES[argument] for argument in definition.arguments})
    parsed = parse_metric(name)
    assert parsed.definition is definition and parsed.name == name and parsed.k is None
    assert len(parsed.values) == len(definition.arguments)


def test_every_metric_computes(definition, tmp_path):
    name = definition.template.format(**{argument: EXAMPLES[argument] for argument in definition.arguments})
    measured = parse_metric(name).compute(make_result(Store(tmp_path), mode="single"))
    assert isinstance(measured, Measured) and measured.value == measured.value and measured.n
    assert (measured.low is not None) == (measured.high is not None) == definition.interval


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("latency_p50", "latency-p50"),
        ("qps_best", "qps-best"),
        ("recall-tied", "recall_tied"),
        (" recall ", "recall"),
        ("index-bytes", "index_bytes"),
        ("robustness-0.30", "robustness-0.30"),
        ("recall@10", "recall@10"),
        ("robustness-0.1@100", "robustness-0.1@100"),
        ("robustness_0.1", "robustness-0.1"),
    ],
)
def test_spellings(name, canonical):
    assert parse_metric(name).name == canonical


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("recal", "did you mean recall?"),
        ("robustnes-0.1", "did you mean robustness-<delta>?"),
        ("qpss", "did you mean qps?"),
        ("zzzzzz", "known: "),
        ("", "known: "),
        ("robustness", "did you mean robustness-<delta>?"),
        ("recallx", "did you mean recall?"),
        ("robustness-0", "δ must be above 0"),
        ("robustness-x", "δ must be a decimal"),
        ("latency-p100", "between 0 and 100"),
    ],
)
def test_unknown_names(refusal, name, words):
    message = refusal(parse_metric, name)
    assert f"metric '{name}'" in message and words in message


@pytest.mark.parametrize(
    "name", ["recall@", "recall@0", "recall@-1", "recall@x", "recall@1.5", "recall@10@10", "recall@²"]
)
def test_what_is_no_k(refusal, name):
    assert "after @ comes K" in refusal(parse_metric, name)


@pytest.mark.parametrize(
    ("name", "k", "measured"),
    [
        ("recall@10", 10, True),
        ("recall@10", 100, False),
        ("recall", 100, True),
        ("robustness-0.5@10", 10, True),
        ("qps@10", 20, False),
    ],
)
def test_at_k_keeps_only_results_of_that_k(tmp_path, name, k, measured):
    assert (parse_metric(name).compute(make_result(Store(tmp_path), k=k)) is not None) is measured


@pytest.mark.parametrize(
    ("name", "k", "title"),
    [
        ("recall", None, "Recall"),
        ("recall", 10, "Recall@10"),
        ("recall@5", 10, "Recall@5"),
        ("robustness-0.3", 10, "Robustness-0.3@10"),
        ("robustness-0.3@5", None, "Robustness-0.3@5"),
        ("latency_p99.9", 10, "Latency, p99.9 [ms]"),
        ("qps", 10, "QPS [1/s]"),
        ("qps@5", 10, "QPS [1/s]"),
    ],
)
def test_titles(name, k, title):
    assert parse_metric(name).title(k) == title


def test_a_new_metric_is_one_decorated_function(tmp_path, monkeypatch, refusal):
    monkeypatch.setattr(registry, "_DEFINITIONS", dict(registry._DEFINITIONS))

    @metric("found-{count}", title="Found {count}", unit="1", better="higher", kind="quality", count=int)
    def found(result, count):
        """Share of queries that found at least so many."""
        return Measured(float((result.hits >= count).mean()))

    assert parse_metric("found-5").compute(make_result(Store(tmp_path), hits=[4, 5, 6, 0])).value == 0.5
    assert parse_metric("found-5").title(10) == "Found 5@10"
    assert parse_metric("found-5").definition.meaning == "Share of queries that found at least so many."
    refusal(parse_metric, "found-x")
