import re

import numpy as np
import pytest

from benchmarks.metrics import registry
from benchmarks.metrics.registry import Measured, definitions, metric, parse_metric
from benchmarks.metrics.table import DEFAULT_METRICS
from benchmarks.rag.table import Verdicts, write_verdicts
from benchmarks.results.relevance import write_relevance
from benchmarks.results.store import Store
from tests.factories import make_result

EXAMPLES = {"delta": "0.3", "percentile": "99.9", "nearest": "3", "epsilon": "0.1", "percent": "95"}
EXAMPLES |= {"answers": "extractive-normalised"}
DEFINITIONS = definitions()


def example(definition) -> str:
    return definition.template.format(**{argument: EXAMPLES[argument] for argument in definition.arguments})


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
        definition.unit
        and definition.better in ("higher", "lower")
        and definition.kind in ("quality", "relevance", "speed", "cost")
    )
    assert len(definition.meaning) > 20 and definition.meaning.endswith(".")
    for text in (definition.template, definition.title):
        assert set(re.findall(r"\{(\w+)\}", text)) == set(definition.arguments)


def test_every_template_parses_an_example(definition):
    name = example(definition)
    parsed = parse_metric(name)
    assert parsed.definition is definition and parsed.name == name and parsed.k is None
    assert len(parsed.values) == len(definition.arguments)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A result of which everything is known."""
    store = Store(tmp_path_factory.mktemp("full"))
    stats = {"distance_computations": 4000}
    result = make_result(store, hits=[0, 3, 7, 10, 9, 9], hits_tied=[1, 3, 8, 10, 9, 9], stats=stats)
    queries = np.repeat(np.arange(6), 3)
    write_relevance(result.path.parent.parent, result.identity.queries_sha256, queries, [0, 2, 50] * 6, [1, 2, 1] * 6)
    right = np.array([0, 1, 1, 0, 0, 1])
    write_verdicts(
        result.path.parent.parent / "rag" / "extractive-normalised.csv", Verdicts(6, {result.identity.hash(): right})
    )
    return {"batch": result, "single": make_result(store, mode="single", search={"ef": 1}, hits=[0, 3, 7, 10, 9, 9])}


def test_every_metric_computes(definition, full):
    metric = parse_metric(example(definition))
    result = full["single" if definition.template.startswith("latency") else "batch"]
    measured = metric.compute(result)
    assert isinstance(measured, Measured) and np.isfinite(measured.value) and measured.n
    assert (measured.low is not None) == (measured.high is not None) == definition.interval
    if definition.interval:
        assert measured.low <= measured.value <= measured.high
    if definition.kind in ("quality", "relevance"):
        assert definition.unit == "1" and 0 <= measured.value <= 1 and measured.n == 6 and definition.interval


def test_the_mean_over_the_queries_is_the_value(definition, full):
    metric, result = parse_metric(example(definition)), full["batch"]
    values = metric.per_query(result)
    if definition.per_query is None:
        assert values is None and not definition.share
        return
    assert values.dtype == np.float64 and values.shape == (6,)
    assert values.mean() == pytest.approx(metric.compute(result).value, abs=1e-12)
    if definition.share:
        assert set(values) <= {0.0, 1.0}


@pytest.mark.parametrize("status", ["failed", "timeout", "out-of-memory", "invalid"])
def test_no_metric_of_the_answers_of_a_failed_point(definition, status, tmp_path):
    metric, result = parse_metric(example(definition)), make_result(Store(tmp_path), status=status)
    assert metric.compute(result) is None and metric.per_query(result) is None


def test_every_definition_is_in_the_table_of_all():
    assert {parse_metric(name).definition.template for name in DEFAULT_METRICS} == {
        item.template for item in DEFINITIONS
    }


@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("recall-1@10", "recall-{nearest}"),
        ("recall-p95@10", "recall-p{percent}"),
        ("recall_p99.9", "recall-p{percent}"),
        ("recall-min", "recall-min"),
        ("recall_tied", "recall_tied"),
        ("recall-eps-0.01", "recall-eps-{epsilon}"),
        ("recall_eps_0.1@5", "recall-eps-{epsilon}"),
        ("worst-5", "worst-{percent}"),
        ("ndcg-by-answer", "ndcg_by_answer"),
        ("ndcg", "ndcg"),
    ],
)
def test_no_template_takes_the_name_of_another(name, template):
    assert parse_metric(name).definition.template == template


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("recall-0", "number of nearest neighbours"),
        ("recall-1.5", "number of nearest neighbours"),
        ("recall-mni", "number of nearest neighbours"),
        ("recall-p0", "between 0 and 100"),
        ("recall-p100", "between 0 and 100"),
        ("recall-pmin", "between 0 and 100"),
        ("recall-eps--1", "ε must be a decimal"),
        ("recall-eps-nan", "ε must be a decimal"),
        ("worst-0", "between 0 and 100"),
        ("within-x", "ε must be a decimal"),
    ],
)
def test_wrong_arguments(refusal, name, words):
    assert words in refusal(parse_metric, name)


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
