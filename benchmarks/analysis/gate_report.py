"""The outcome of a comparison as Markdown, JSON and JUnit, for machines and for the people behind them."""

import json
import xml.etree.ElementTree as xml
from dataclasses import asdict, dataclass

from benchmarks.analysis.compare import Change, Matched
from benchmarks.analysis.gate import Outcome
from benchmarks.analysis.numbers import number
from benchmarks.analysis.rules import Verdict

MARKS = {"pass": "✅ pass", "fail": "❌ fail", "inconclusive": "❔ inconclusive"}
CONTROL = {code: " " for code in range(32) if code not in (9, 10, 13)}  # XML has no place for them


@dataclass(frozen=True)
class Report:
    """All that is known after a comparison; `outcome` is None where there was no gate."""

    base: str
    new: str
    matched: Matched
    changes: list[Change]
    verdicts: list[Verdict]
    outcome: Outcome | None
    notes: list[str]
    confidence: float


def difference_text(change: Change) -> str:
    """`-0.0200 [-0.0240, -0.0160]`, or in percent where it is relative."""
    if change.relative:
        interval = f" [{change.low:+.1%}, {change.high:+.1%}]" if change.low is not None else ""
        return f"{change.difference:+.1%}{interval}"
    interval = f" [{change.low:+.4f}, {change.high:+.4f}]" if change.low is not None else ""
    return f"{change.difference:+.4f}{interval}"


def p_text(value: float | None) -> str:
    """`<0.0001`, or four places."""
    if value is None:
        return ""
    return "<0.0001" if value < 1e-4 else f"{value:.4f}"


def explanation(confidence: float) -> str:
    """What the columns of the comparison are."""
    return (
        f"Differences are new minus base, paired on the queries, with {confidence:.0%} intervals; p after Holm over "
        "all rows; effect is the mean difference over its standard deviation; detectable is the smallest difference "
        "that this n shows with power 0.8. Speed is relative, its interval that of the stored repeats."
    )


def markdown(report: Report) -> str:
    """For a pull request or a job summary."""
    lines = [f"## {_cell(report.base)} → {_cell(report.new)}", ""]
    if report.outcome:
        lines += [f"**{MARKS[report.outcome]}**", "", "| rule | point | verdict | why |", "|---|---|---|---|"]
        lines += [
            f"| {_cell(item.rule)} | {_cell(item.point)} | {MARKS[item.outcome]} | {_cell(item.reason)} |"
            for item in report.verdicts
        ]
        lines.append("")
    lines += [
        "| point | metric | base | new | difference | p | effect | detectable | n |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for change in report.changes:
        unit = change.metric.definition.unit
        cells = [
            *(change.pair.name, change.metric.name, number(change.base, unit), number(change.new, unit)),
            *(difference_text(change), p_text(change.p_adjusted)),
            f"{change.effect:+.2f}" if change.effect is not None else "",
            *(number(change.detectable), f"{change.n:,}" if change.n else ""),
        ]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    lines += ["", explanation(report.confidence), ""]
    lines += [f"- {_cell(note)}" for note in report.notes]
    return "\n".join(lines).rstrip() + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def as_json(report: Report) -> str:
    """Everything, under the names that are documented where the values are declared."""
    content = {
        "base": report.base,
        "new": report.new,
        "confidence": report.confidence,
        "outcome": report.outcome,
        "verdicts": [asdict(item) for item in report.verdicts],
        "changes": [
            {
                "point": item.pair.name,
                "metric": item.metric.name,
                "unit": item.metric.definition.unit,
                "better": item.metric.definition.better,
                **{
                    name: getattr(item, name)
                    for name in ("base", "new", "difference", "low", "high", "n", "p", "p_adjusted", "effect")
                },
                "detectable": item.detectable,
                "relative": item.relative,
                "base_files": [str(result.path) for result in item.pair.base],
                "new_files": [str(result.path) for result in item.pair.new],
            }
            for item in report.changes
        ],
        "only_base": report.matched.only_base,
        "only_new": report.matched.only_new,
        "notes": report.notes,
    }
    return json.dumps(_finite(content), indent=1, ensure_ascii=False) + "\n"


def _finite(value):
    """JSON has no infinity; an effect without any spread is null."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and abs(value) == float("inf") else value


def junit(report: Report) -> str:
    """One test case for each rule and point; what is inconclusive is an error, since it is no pass."""
    verdicts = report.verdicts
    count = {outcome: sum(item.outcome == outcome for item in verdicts) for outcome in MARKS}
    totals = {"tests": len(verdicts), "failures": count["fail"], "errors": count["inconclusive"]}
    suites = xml.Element("testsuites", {name: str(value) for name, value in totals.items()})
    suite = xml.SubElement(suites, "testsuite", {"name": "gate", **suites.attrib})
    for item in verdicts:
        case = xml.SubElement(
            suite, "testcase", {"classname": item.point.translate(CONTROL), "name": item.rule.translate(CONTROL)}
        )
        if item.outcome != "pass":
            kind = "failure" if item.outcome == "fail" else "error"
            reason = item.reason.translate(CONTROL)
            xml.SubElement(case, kind, {"type": item.outcome, "message": reason}).text = reason
        else:
            xml.SubElement(case, "system-out").text = item.reason.translate(CONTROL)
    xml.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(suites, encoding="unicode") + "\n"
