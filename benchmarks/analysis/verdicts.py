"""Judged claims as text, as a Markdown table, and as plain data for JSON."""

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.analysis.checks.registry import Comparison, Finding
from benchmarks.analysis.claims import VERDICTS, ClaimSuite, Judgement, commands, open_after_all
from benchmarks.analysis.contrast import Estimate
from benchmarks.analysis.measured import Scale

WIDTH = 110
SHOWN = 3  # comparisons in a cell of the Markdown table

RULE = (
    "A comparison holds where its 95 % interval leaves out 0 and its p, after Holm over the comparisons of the claim, "
    "is below 0.05; a claim is reproduced where all hold, and not where the opposite of one does. Equal recall: two "
    "points of one build are mixed so that the average recall is the wanted one; intervals are widened by what that "
    "may be off. Intervals are over the queries, not over builds; those of speeds are the repeats, and one is faster "
    "where its slowest repeat beats the other's fastest by a tenth."
)


def counts_line(judgements: Sequence[Judgement]) -> str:
    """`12 reproduced, 3 not reproduced, …`."""
    counts = Counter(item.verdict for item in judgements)
    in_part = Counter(item.verdict for item in judgements if item.partial)
    parts = [f"{counts[name]} {name}" + (f" ({in_part[name]} in part)" if in_part[name] else "") for name in VERDICTS]
    return f"{len(judgements)} claims: {', '.join(parts)}"


def stand_ins(scale: Scale) -> str:
    """What stands for what: `Puck is faiss-imi; text2image-10M is icons-t2i-128`."""
    named = [*scale.indexes.items(), *((paper, ours or "not here") for paper, ours in scale.datasets.items())]
    return "here " + "; ".join(f"{paper} is {ours}" for paper, ours in named)


def verdict_text(item: Judgement) -> str:
    """The verdict, and whether it is of a part of the claim only."""
    return f"{item.verdict}{' (of what was measured)' if item.partial else ''}"


def number(value: float, unit: str = "1", sign: bool = False) -> str:
    """A share by four digits, more where it is within 0.001 of 0 or 1; a speed by whole numbers."""
    if unit != "1":
        return f"{value:{'+' if sign else ''},.0f}"
    close = not sign and 0 < min(abs(value), abs(1 - value)) < 0.001
    return f"{value:{'+' if sign else ''}.{5 if close else 4}f}"


def estimate_text(estimate: Estimate, unit: str = "1", adjusted: float | None = None) -> str:
    """`+0.0183 [+0.0151, +0.0216], p < 0.0001`."""
    ends = f"[{number(estimate.low, unit, True)}, {number(estimate.high, unit, True)}]"
    p = "" if adjusted is None else ", p < 0.0001" if adjusted < 1e-4 else f", p = {adjusted:.2g}"
    return f"{number(estimate.value, unit, True)} {ends}{p}"


def datasets_of(finding: Finding) -> list[str]:
    """Our data sets that its numbers come from, as named in them."""
    labels = [*(label for item in finding.comparisons for label in item.shown), *finding.stations]
    names = [label.split(" on ", 1)[1] for label in labels if " on " in label]
    return list(dict.fromkeys(name.split(":")[0].split(" ")[0] for name in names))


def as_text(suite: ClaimSuite, judgements: Sequence[Judgement], scale: Scale, results_dir: Path | None) -> str:
    """Every claim as a paragraph, then the counts."""
    blocks = [_paragraph(item, results_dir) for item in judgements]
    end = [counts_line(judgements)]
    still_open = open_after_all(judgements)
    if any(item.p_all is not None for item in judgements):
        names = ", ".join(item.claim.id for item in still_open) or "none"
        end.append(f"decided alone, but not after Holm over all decided claims: {names}")
    if any(item.finding.lacks for item in judgements) and scale.run:
        end.append(f"to measure all of it: {scale.run}")
    end.append(RULE)
    head = f"{suite.title} ({suite.paper})\n{_wrapped(stand_ins(scale), '  ')}"
    return "\n\n".join([head, *blocks, "\n".join(_wrapped(line, "") for line in end)]) + "\n"


def _paragraph(item: Judgement, results_dir: Path | None) -> str:
    claim, finding = item.claim, item.finding
    lines = [f"{verdict_text(item).upper()}  {claim.id}  {claim.where}", _wrapped(claim.says, "  ")]
    lines.append(_wrapped(claim.figures, "  paper: "))
    only = datasets_of(finding)
    for comparison in finding.comparisons:
        lines.append(_wrapped(_short(_comparison(comparison), only), f"  {_mark(comparison)} "))
    sizes = sorted({c.estimate.n for c in finding.comparisons if c.estimate.p is not None})
    if sizes:
        lines.append(f"  n = {' and '.join(f'{n:,}' for n in sizes)} queries of {', '.join(only) or 'our data'}")
    lines += [_wrapped(f"{_short(name, only)}: {place}", "  at ") for name, place in finding.stations.items()]
    lines += [_wrapped(note, "  note: ") for note in finding.notes]
    lines += [_wrapped(claim.note, "  check: ")] if claim.note else []
    lines += [_wrapped(lack.what, "  not measured: ") for lack in finding.lacks]
    lines += [f"  run: {command}" for command in commands(finding.lacks, results_dir)]
    return "\n".join(lines)


def _comparison(item: Comparison) -> str:
    text = f"{estimate_text(item.estimate, item.unit, item.adjusted)}: {_sentence(item)}"
    if item.holds is None and item.estimate.detectable:
        text += f"; this n shows differences of {number(item.estimate.detectable, item.unit)} and more"
    if item.estimate.error:
        text += f"; interpolation may be {item.estimate.error:.2g} off"
    return text


def _sentence(item: Comparison) -> str:
    """`IVFFlat above HNSW; robustness-0.1@10 at recall 0.9: IVFFlat 0.9996, HNSW 0.9452`; what is common, once.

    Where nothing is common the sentence names all, and the numbers follow in its order.
    """
    common = {label.partition(": ")[2] for label in item.shown}
    values = [number(value, item.unit) for value in item.shown.values()]
    if len(common) > 1:
        return f"{item.what} ({', '.join(values)})"
    what = common.pop() if common else ""
    names = [label.removesuffix(f": {what}") for label in item.shown]
    numbers = ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))
    return f"{item.what.replace(f': {what}', '')}; {what}: {numbers}" if what else f"{item.what} ({numbers})"


def _mark(item: Comparison) -> str:
    return {True: "+", False: "-", None: "?"}[item.holds]


def _short(text: str, datasets: Sequence[str]) -> str:
    """Without the data set's name where all numbers are of one."""
    return text.replace(f" on {datasets[0]}", "") if len(datasets) == 1 else text


def _wrapped(text: str, start: str) -> str:
    indent = " " * (len(start) - len(start.lstrip()) + 2) if start else ""
    return textwrap.fill(
        " ".join(text.split()), WIDTH, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False
    )


def as_markdown(suite: ClaimSuite, judgements: Sequence[Judgement], scale: Scale) -> str:
    """A table of one row per claim, with the rule that made the verdicts beneath it."""
    lines = [
        "| claim | paper | ours: difference that the claim says is above 0 | n | verdict |",
        "|---|---|---|---|---|",
    ]
    for item in judgements:
        claim, finding = item.claim, item.finding
        only = datasets_of(finding)
        cells = [_short(_brief(comparison), only) for comparison in finding.comparisons[:SHOWN]]
        more = len(finding.comparisons) - SHOWN
        cells += [f"and {more} more"] if more > 0 else []
        cells += [f"not measured: {lack.what}" for lack in finding.lacks[:2]]
        cells += [f"and {len(finding.lacks) - 2} more not measured"] if len(finding.lacks) > 2 else []
        n = ", ".join(f"{n:,}" for n in sorted({c.estimate.n for c in finding.comparisons}))
        row = (
            f"**{claim.id}** {claim.says} ({claim.where})",
            claim.figures,
            "<br>".join([*([", ".join(only) + ":"] if only else []), *cells]),
            n,
            f"**{item.verdict}**{' (of what was measured)' if item.partial else ''}",
        )
        lines.append("| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in row) + " |")
    return "\n".join([*lines, "", f"{counts_line(judgements)}. In this table {stand_ins(scale)}. {RULE}"]) + "\n"


def _brief(item: Comparison) -> str:
    return f"{_mark(item)} {_sentence(item)}; {estimate_text(item.estimate, item.unit, item.adjusted)}"


def as_data(suite: ClaimSuite, judgements: Sequence[Judgement], scale: Scale, results_dir: Path | None) -> dict:
    """All of it, for JSON."""
    return {
        "title": suite.title,
        "paper": suite.paper,
        "datasets": scale.datasets,
        "indexes": scale.indexes,
        "rule": RULE,
        "claims": [
            {
                "id": item.claim.id,
                "where": item.claim.where,
                "says": " ".join(item.claim.says.split()),
                "figures": " ".join(item.claim.figures.split()),
                "check": item.claim.check.model_dump(mode="json", by_alias=True, exclude_none=True),
                "verdict": item.verdict,
                "partial": item.partial,
                "p": item.p,
                "p_over_all_claims": item.p_all,
                "comparisons": [asdict(comparison) for comparison in item.finding.comparisons],
                "places": item.finding.stations,
                "notes": list(item.finding.notes),
                "missing": [lack.what for lack in item.finding.lacks],
                "run": commands(item.finding.lacks, results_dir),
            }
            for item in judgements
        ],
    }
