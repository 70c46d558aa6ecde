"""Sweeps: which operating points to measure, from YAML, a command line, or a card."""

from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, field_validator

from benchmarks.cards.algorithms import Algorithm, Grid
from benchmarks.errors import UserError, unknown_name
from benchmarks.paths import SWEEPS
from benchmarks.yamlfile import Strict, load_yaml

Mode = Literal["batch", "single"]


class Sweep(Strict):
    """`configs/sweeps/<dataset>.yml`. An algorithm maps to one grid or a list of grids."""

    k: int = Field(10, gt=0)
    mode: Mode = "batch"
    repeats: int = Field(3, gt=0)
    build_seeds: list[int] = Field([0], min_length=1)
    algorithms: dict[str, list[Grid]] = {}

    @field_validator("algorithms", mode="before")
    @classmethod
    def _lists(cls, value):
        if not isinstance(value, dict):
            raise ValueError("a mapping of algorithms to grids is expected")
        for name, item in value.items():
            if item == []:
                raise ValueError(f"{name} has no grid; leave it out, or write {name}: {{}} for its defaults")
        return {
            name: item if isinstance(item, list) else [{} if item is None else item] for name, item in value.items()
        }


def load_sweep(
    dataset: str, config: Path | None, algorithms: dict[str, Algorithm], chosen: list[str] | None = None
) -> tuple[Sweep, Path]:
    """The sweep of a data set: `--config`, else `configs/sweeps/<dataset>.yml`, else `default.yml`.

    A `--config` is held against the cards in full; of the project's own sweeps only what is `chosen`, so that a
    library's folder can be taken away.

    Raises:
        UserError: it names an algorithm or parameter that does not exist.
    """
    own = SWEEPS / f"{dataset}.yml"
    path = config or (own if own.is_file() else SWEEPS / "default.yml")
    sweep = load_yaml(path, Sweep)
    for name, grids in sweep.algorithms.items():
        if config is None and chosen and name not in chosen:
            continue
        if name not in algorithms:
            raise UserError(
                f"{path}: {unknown_name('algorithm', name, list(algorithms), 'see the folder algorithms/')}"
            )
        for grid in grids:
            try:
                algorithms[name].offer.check_grid(grid)
            except ValueError as error:
                raise UserError(f"{path}: {name}: {error}") from None
    return sweep, path


def grids_for(algorithm: Algorithm, sweep: Sweep) -> tuple[list[Grid], str]:
    """The grids of one algorithm and where they come from: the sweep, the default sweep, or the card's smoke sweep."""
    if algorithm.name in sweep.algorithms:
        return sweep.algorithms[algorithm.name], "sweep"
    default = load_yaml(SWEEPS / "default.yml", Sweep)
    if algorithm.name in default.algorithms:
        return default.algorithms[algorithm.name], "default sweep"
    return [algorithm.offer.smoke], "smoke sweep of its card"


def parse_override(text: str, option: str = "--set") -> tuple[str, str, list]:
    """`faiss-hnsw.efSearch=16,32` → (algorithm, parameter, values); values are read as YAML scalars.

    Raises:
        UserError: not of that form.
    """
    target, equals, values = text.partition("=")
    algorithm, dot, parameter = target.rpartition(".")
    if not (equals and dot and algorithm and parameter and values):
        raise UserError(
            f"{option} {text}: the form is algorithm.parameter=value,value such as faiss-hnsw.efSearch=16,32"
        )
    try:
        return algorithm, parameter, [yaml.safe_load(value) for value in values.split(",")]
    except (yaml.YAMLError, ValueError, LookupError, AttributeError):
        raise UserError(f"{option} {text}: the values cannot be read") from None


def apply_overrides(algorithm: Algorithm, grids: list[Grid], overrides: list[tuple[str, str, list]]) -> list[Grid]:
    """Grids with the values of `--set` in place of their own.

    Raises:
        UserError: the algorithm has no such parameter, or the value is not of its type.
    """
    for name, parameter, values in overrides:
        if name != algorithm.name:
            continue
        stage = algorithm.offer.parameters[parameter].stage if parameter in algorithm.offer.parameters else "search"
        try:
            changed = [
                Grid.model_validate({**grid.model_dump(), stage: {**getattr(grid, stage), parameter: values}})
                for grid in grids
            ]
            algorithm.offer.check_grid(changed[0])
        except ValueError as error:
            reason = error.errors()[0]["msg"].removeprefix("Value error, ") if hasattr(error, "errors") else error
            raise UserError(f"--set {name}.{parameter}: {reason}") from None
        grids = list({grid.model_dump_json(): grid for grid in changed}.values())
    return grids
