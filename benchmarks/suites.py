"""Suites: whole studies, as lists of runs and the figures that are drawn from them."""

import shlex
from pathlib import Path

from pydantic import Field, field_validator

from benchmarks.errors import UserError, unknown_name
from benchmarks.paths import SUITES
from benchmarks.sweeps import Mode
from benchmarks.yamlfile import Strict, load_yaml


class Part(Strict):
    """One run; its fields are options of run.py."""

    about: str
    dataset: str
    algorithms: list[str] = Field([], description="instead of the scale's")
    set: list[str] = Field([], description="values of single parameters instead of the sweep's, as for --set")
    k: int | None = Field(None, gt=0)
    mode: Mode | None = None
    repeats: int | None = Field(None, gt=0)
    target: list[str] = Field([], description="recalls to find, as for --target; only the points that these need")
    tolerance: float | None = Field(None, ge=0, lt=1)


class Scale(Strict):
    """A suite as a machine of some size can do it."""

    about: str
    algorithms: list[str] = Field([], description="of every part that names none; empty: those of the sweep")
    machine: str | None = Field(None, description="profile of configs/machines")
    repeats: int | None = Field(None, gt=0)
    parts: list[Part] = Field(min_length=1)
    figures: list[str] = Field([], description="options of plot.py, a line for each figure")
    formats: str = "png"

    @field_validator("figures")
    @classmethod
    def _readable(cls, lines):
        for line in lines:
            shlex.split(line)
        return lines

    def run_arguments(self, part: Part) -> list[str]:
        """The options of run.py that do one part."""
        words = ["--dataset", part.dataset]
        words += [word for name in part.algorithms or self.algorithms for word in ("--algorithm", name)]
        words += [word for each in part.set for word in ("--set", each)]
        for name, value in (
            ("k", part.k),
            ("mode", part.mode),
            ("repeats", part.repeats or self.repeats),
            ("machine", self.machine),
            ("tolerance", part.tolerance),
        ):
            words += [f"--{name}", str(value)] if value is not None else []
        return words + [word for each in part.target for word in ("--target", each)]

    def plot_arguments(self, line: str) -> list[str]:
        """The options of plot.py that draw one figure."""
        words = shlex.split(line)
        return words if "--format" in words else [*words, "--format", self.formats]


class Suite(Strict):
    """`configs/suites/<name>.yml`."""

    title: str
    scales: dict[str, Scale] = Field(min_length=1)

    @field_validator("scales", mode="before")
    @classmethod
    def _names(cls, value):
        return {str(name): scale for name, scale in value.items()} if isinstance(value, dict) else value


def find_suites(folder: Path | None = None) -> dict[str, Path]:
    """Every suite below `folder` (default: configs/suites): name → file. `<suite>-claims.yml` is for `claims`."""
    paths = sorted((folder or SUITES).glob("*.yml"))
    return {path.stem: path for path in paths if not path.stem.endswith("-claims")}


def load_suite(name: str, scale: str | None) -> tuple[Suite, str]:
    """A suite, and the scale that was asked for or the only one there is.

    Raises:
        UserError: there is no such suite or scale; says what there is.
    """
    known = find_suites()
    if name not in known:
        raise unknown_name("suite", name, list(known), f"known: {', '.join(known) or 'none'}")
    suite = load_yaml(known[name], Suite)
    if scale is None and len(suite.scales) == 1:
        scale = next(iter(suite.scales))
    scales = "; ".join(f"{each} ({item.about})" for each, item in suite.scales.items())
    if scale is None:
        raise UserError(f"suite {name} has several scales; choose one with --scale: {scales}")
    if scale not in suite.scales:
        raise unknown_name("scale", scale, list(suite.scales), f"suite {name} has: {scales}")
    return suite, scale
