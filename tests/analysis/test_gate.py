import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from benchmarks.analysis.gate import (
    Gate,
    Loss,
    Margin,
    decide,
    decide_exact,
    fresh_loss,
    overall,
    parse_margin,
    parse_rule,
    screen,
    sure_confidence,
    suspicious,
)
from benchmarks.errors import UserError
from benchmarks.yamlfile import load_yaml


@pytest.mark.parametrize(
    "text, expected", [("0.002", Margin(0.002, False)), ("10%", Margin(0.1, True)), (0.5, Margin(0.5, False))]
)
def test_margins(text, expected):
    assert parse_margin(text) == expected


@pytest.mark.parametrize("text", ["", "-1", "x", "100%", "nan", "inf", "1/0", "10 %%"])
def test_what_is_no_margin(text):
    with pytest.raises(ValueError, match="a drop is a number"):
        parse_margin(text)


def test_a_relative_margin_is_a_part_of_the_base():
    assert Margin(0.1, True).of(200) == 20 and Margin(0.1, False).of(200) == 0.1
    assert (str(Margin(0.1, True)), str(Margin(0.002, False))) == ("10%", "0.002")


@pytest.mark.parametrize(
    "loss, outcome",
    [
        (Loss(0.0, -0.001, 0.001, -0.002, 5000), "pass"),
        (Loss(-0.05, -0.06, -0.04, -0.07, 5000), "pass"),
        (Loss(0.02, 0.016, 0.024, 0.015, 5000), "fail"),
        (Loss(0.0, -0.04, 0.04, -0.05, 100), "inconclusive"),
        (Loss(0.003, 0.0021, 0.004, 0.0019, 5000), "inconclusive"),  # sure of itself, but not among so many points
        (Loss(0.0015, 0.001, 0.002, 0.001, 5000), "pass"),
    ],
)
def test_three_verdicts(loss, outcome):
    decision = decide(loss, 0.002)
    assert decision.outcome == outcome and "0.002" in decision.reason and f"n = {loss.n:,}" in decision.reason


def test_an_inconclusive_verdict_says_how_many_queries_it_takes():
    assert "takes 2,000 queries or more" in decide(Loss(0.0, -0.04, 0.04, -0.05, 100), 0.002).reason
    assert "on neither side" in decide(Loss(0.01, -0.04, 0.04, -0.05, 100), 0.002).reason
    for rounding in (-1e-17, -2.3e-309):
        assert "on neither side" in decide(Loss(rounding, -0.04, 0.04, -0.05, 100), 0.0).reason


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.5))
def test_a_wider_interval_never_turns_pass_into_fail_or_back(value, half, more, margin):
    narrow = decide(Loss(value, value - half, value + half, value - half, 10), margin).outcome
    wide = decide(Loss(value, value - half - more, value + half + more, value - half - more, 10), margin).outcome
    assert wide in (narrow, "inconclusive")


def test_what_has_no_interval():
    assert decide_exact(0.0, 0.0).outcome == "pass" and decide_exact(0.06, 0.05).outcome == "fail"


def test_the_screen_clears_but_never_condemns():
    assert screen(0.04, 0.1).outcome == "pass" and screen(-0.5, 0.1).outcome == "pass"
    assert screen(0.06, 0.1).outcome == "inconclusive" and screen(0.9, 0.1).outcome == "inconclusive"
    assert "--confirm" in screen(0.9, 0.1).reason
    assert suspicious(0.06, 0.1) and not suspicious(0.05, 0.1)


def test_fresh_rounds_are_a_t_interval_of_the_logarithms():
    ratios = [0.85, 0.9, 0.88, 0.86]
    losses = [math.log(1 / ratio) for ratio in ratios]
    loss = fresh_loss(losses, 0.95, 1)
    mean, error = np.mean(losses), np.std(losses, ddof=1) / 2
    low, high = student.interval(0.95, 3, mean, error)
    assert (loss.value, loss.low, loss.high) == pytest.approx(tuple(1 - np.exp(-end) for end in (mean, low, high)))
    assert loss.sure == pytest.approx(loss.low) and loss.n == 4
    assert fresh_loss(losses, 0.95, 5).sure < loss.low
    rise = fresh_loss([math.log(1.2)] * 3, 0.95, 1, "lower")
    assert (rise.value, rise.low, rise.high) == pytest.approx((0.2, 0.2, 0.2))
    with pytest.raises(ValueError):
        fresh_loss([0.1, 0.1], 0.95, 1)


def test_bonferroni_and_the_worst_verdict():
    assert sure_confidence(0.95, 5) == pytest.approx(0.99) and sure_confidence(0.95, 0) == pytest.approx(0.95)
    assert overall(["pass", "inconclusive", "fail"]) == "fail"
    assert overall(["pass", "inconclusive"]) == "inconclusive"
    assert overall(["pass"]) == overall([]) == "pass"


def test_rules_of_the_command_line(refusal):
    rule = parse_rule("robustness-0.1@10=0.002")
    assert (rule.metric, rule.margin, str(rule)) == (
        "robustness-0.1@10",
        Margin(0.002, False),
        "robustness-0.1@10=0.002",
    )
    assert "the form is metric=drop" in refusal(parse_rule, "recall")
    assert "unknown metric 'recal'" in refusal(parse_rule, "recal=0.1")
    assert "--max-drop recall=much" in refusal(parse_rule, "recall=much")


GOOD = "confidence: 0.9\nrules:\n  - {metric: recall@10, max_drop: 0.005}\n  - {metric: qps, max_drop: 10%}\n"


def test_a_gate_file(tmp_path):
    path = tmp_path / "gate.yml"
    path.write_text(GOOD)
    gate = load_yaml(path, Gate)
    assert gate.confidence == 0.9 and [str(rule) for rule in gate.rules] == ["recall@10=0.005", "qps=10%"]


@pytest.mark.parametrize(
    "change, line, part",
    [
        (("max_drop: 0.005", "maxdrop: 0.005"), 3, "did you mean 'max_drop'"),
        (("recall@10", "recal@10"), 3, "unknown metric 'recal@10'"),
        (("10%", "100%"), 4, "a drop is a number"),
        (("10%", "yes"), 4, "a number or a percentage"),
        (("confidence: 0.9", "confidence: 95"), 1, "less than 1"),
        (("rules:", "rule:"), 2, "unknown key 'rule'"),
    ],
)
def test_mistakes_in_a_gate_file_have_a_line(tmp_path, change, line, part):
    path = tmp_path / "gate.yml"
    path.write_text(GOOD.replace(*change))
    with pytest.raises(UserError) as error:
        load_yaml(path, Gate)
    assert part in str(error.value) and str(error.value).startswith(f"{path}:{line}: ")


@pytest.mark.parametrize("change", [("10%", "nan"), ("10%", ".nan"), ("metric: qps", "metric: robustness-nan")])
def test_a_mistake_is_named_once(tmp_path, refusal, change):
    path = tmp_path / "gate.yml"
    path.write_text(GOOD.replace(*change))
    message = refusal(load_yaml, path, Gate)
    assert message.count(", not ") == 1 and message.endswith(", not 'nan'")
