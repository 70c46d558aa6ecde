"""What a paper found, as checkable statements in YAML, and what our results say of each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from pydantic import BeforeValidator, Discriminator, Field, Tag, create_model, model_validator

from benchmarks.analysis.checks.registry import Finding, Lack, Missing, kinds
from benchmarks.analysis.measured import Measured, Scale
from benchmarks.analysis.stations import TOLERANCE
from benchmarks.errors import UserError
from benchmarks.paths import ROOT
from benchmarks.statistics.intervals import CONFIDENCE
from benchmarks.statistics.paired import holm
from benchmarks.yamlfile import Strict, load_yaml

SUITE = ROOT / "configs" / "suites" / "paper-claims.yml"
Verdict = Literal["reproduced", "not reproduced", "undecided at this n", "not measured"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "not reproduced", "undecided at this n", "not measured")


class Claim(Strict):
    """One statement of the paper."""

    id: str = Field(pattern="^[a-z0-9][a-z0-9.-]*$")
    where: str = Field(description="section and figure")
    says: str = Field(description="the statement, in our words")
    figures: str = Field(description="the paper's own numbers")
    note: str | None = Field(None, description="what our check decides that the paper leaves open")
    check: Any


class ClaimSuite(Strict):
    """A file of claims and what stands for the paper's data sets and indexes."""

    title: str
    paper: str
    tolerance: float = Field(TOLERANCE, gt=0, lt=0.1, description="of average recall, where a curve only ends near it")
    scales: dict[str, Scale]
    claims: list[Claim]

    @model_validator(mode="after")
    def _unique(self):
        ids = [claim.id for claim in self.claims]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise ValueError(f"two claims have the id {twice[0]}")
        return self


def load_claims(path: Path = SUITE) -> ClaimSuite:
    """Read a file of claims; each check is held against the model of its kind.

    Raises:
        UserError: the file does not fit; the message starts with file:line.
    """
    known = kinds()

    def known_kind(value):
        if not isinstance(value, dict) or "kind" not in value:
            raise ValueError(f"a mapping with a kind is expected, one of {', '.join(known)}")
        if not isinstance(value["kind"], str) or value["kind"] not in known:
            raise ValueError(f"unknown kind '{value['kind']}'; known: {', '.join(known)}")
        return value

    # Tags in parentheses do not show in error messages (benchmarks.yamlfile).
    models = tuple(Annotated[kind.model, Tag(f"({name})")] for name, kind in known.items())
    union = Annotated[
        Union[models],  # noqa: UP007 - of a tuple that is made here
        Discriminator(lambda value: f"({value['kind'] if isinstance(value, dict) else value.kind})"),
    ]
    claim = create_model("CheckedClaim", __base__=Claim, check=(Annotated[union, BeforeValidator(known_kind)], ...))
    return load_yaml(path, create_model("CheckedSuite", __base__=ClaimSuite, claims=(list[claim], ...)))


@dataclass(frozen=True)
class Judgement:
    """A claim with what our results say of it.

    `p` is the largest adjusted p of its comparisons where it was reproduced, the smallest of those that contradict it
    where it was not; `p_all` after Holm over all claims that were decided.
    """

    claim: Claim
    verdict: Verdict
    finding: Finding
    p: float | None = None
    p_all: float | None = None

    @property
    def partial(self) -> bool:
        """Whether a part of what the claim speaks of was not measured."""
        return bool(self.finding.lacks) and self.verdict != "not measured"


def verdict_of(finding: Finding) -> Verdict:
    """The one rule: contradicted by any comparison, else carried by all, else open."""
    held = [comparison.holds for comparison in finding.comparisons]
    if not held:
        return "not measured"
    if False in held:
        return "not reproduced"
    return "reproduced" if all(held) else "undecided at this n"


def judge(suite: ClaimSuite, measured: Measured, ids: Sequence[str] = ()) -> list[Judgement]:
    """Every claim, or those that are named, against the results.

    Raises:
        UserError: a claim is named that does not exist, or one names an index or a data set that the scale lacks.
    """
    known = {claim.id: claim for claim in suite.claims}
    for name in ids:
        if name not in known:
            raise UserError(f"there is no claim '{name}'; there are: {', '.join(known)}")
    judgements = []
    for claim in suite.claims:
        if ids and claim.id not in ids:
            continue
        try:
            finding = find(claim, measured)
        except UserError as error:
            raise UserError(f"claim {claim.id}: {error}") from None
        verdict = verdict_of(finding)
        judgements.append(Judgement(claim, verdict, finding, _p(finding, verdict)))
    tested = [number for number, item in enumerate(judgements) if item.p is not None]
    for number, p in zip(tested, holm([judgements[number].p for number in tested]), strict=True):
        judgements[number] = replace(judgements[number], p_all=p)
    return judgements


def find(claim: Claim, measured: Measured) -> Finding:
    """What the check of one claim finds."""
    try:
        return kinds()[claim.check.kind].judge(claim.check, measured)
    except Missing as missing:
        return Finding(lacks=missing.lacks)


def _p(finding: Finding, verdict: Verdict) -> float | None:
    tested = [item for item in finding.comparisons if item.adjusted is not None]
    if verdict == "reproduced":
        return max((item.adjusted for item in tested), default=None)
    if verdict == "not reproduced":
        return min((item.adjusted for item in tested if item.holds is False), default=None)
    return None


def open_after_all(judgements: Sequence[Judgement], alpha: float = 1 - CONFIDENCE) -> list[Judgement]:
    """Those that were decided by themselves, and are not once all claims are counted as tests of one family."""
    return [item for item in judgements if item.p_all is not None and item.p_all >= alpha]


def commands(lacks: Sequence[Lack], results_dir: Path | None = None) -> list[str]:
    """What to run for what is missing: one command for each data set, K, recall and set of values."""
    wanted: dict[tuple, list[str]] = {}
    for lack in lacks:
        if lack.dataset and lack.algorithm:
            key = (lack.dataset, lack.k, lack.recall, lack.settings, lack.like)
            wanted.setdefault(key, [])
            if lack.algorithm not in wanted[key]:
                wanted[key].append(lack.algorithm)
    lines = []
    for (dataset, k, recall, settings, like), algorithms in wanted.items():
        parts = ["python run.py --dataset", dataset, *(f"--algorithm {name}" for name in algorithms), f"--k {k}{like}"]
        parts += [f"--set {name}.{parameter}={value}" for name in algorithms for parameter, value in settings]
        parts += [f"--target recall@{k}={recall:g}"] if recall is not None else []
        parts += [f"--results-dir {results_dir}"] if results_dir else []
        lines.append(" ".join(parts))
    return lines
