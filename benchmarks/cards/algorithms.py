"""The card of an index library, `algorithms/<library>/algorithm.yml`: its algorithms and their typed parameters."""

import difflib
import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import Field, StringConstraints, field_validator, model_validator

from benchmarks.analysis.target import Target
from benchmarks.cards.values import Distance, Dtype, Value
from benchmarks.constraints import check_constraint
from benchmarks.errors import UserError
from benchmarks.paths import ALGORITHMS
from benchmarks.yamlfile import Strict, load_yaml


class Parameter(Strict):
    """One typed parameter of an algorithm, under the library's own name."""

    stage: Literal["build", "search"]
    type: Literal["int", "float", "bool", "str"]
    default: Value
    min: float | None = None
    max: float | None = None
    choices: list[Value] | None = None
    monotone: bool = Field(False, description="a larger value searches more, so recall does not fall")
    description: str = ""

    @model_validator(mode="after")
    def _default_fits(self):
        if self.type in ("bool", "str") and (self.min is not None or self.max is not None):
            raise ValueError("min and max go with numbers")
        self.check("default", self.default)
        return self

    def check(self, name: str, value: Any) -> Value:
        """The value in the parameter's type.

        Raises:
            ValueError: wrong type, out of range, or not one of the choices.
        """
        if self.type == "float" and isinstance(value, str):
            try:
                value = float(value)  # YAML reads 1e-3 as a text
            except ValueError:
                pass
        kinds = {"int": int, "float": (int, float), "bool": bool, "str": str}[self.type]
        if not isinstance(value, kinds) or (isinstance(value, bool) and self.type != "bool"):
            raise ValueError(f"{name} must be {self.type}, not {value!r}")
        if self.type == "float":
            value = float(value)
            if not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number, not {value!r}")
        if self.min is not None and value < self.min:
            raise ValueError(f"{name} must be at least {self.min:g}, not {value!r}")
        if self.max is not None and value > self.max:
            raise ValueError(f"{name} must be at most {self.max:g}, not {value!r}")
        if self.choices is not None and value not in self.choices:
            raise ValueError(f"{name} must be one of {', '.join(map(str, self.choices))}, not {value!r}")
        return value


class Grid(Strict):
    """Build and search values: every build combination is built once, every search combination run on it."""

    build: dict[str, list[Value]] = {}
    search: dict[str, list[Value]] = {}
    target: list[Target] = Field([], description="recalls to find, along the monotone parameter, on every build")

    @field_validator("target", mode="before")
    @classmethod
    def _targets(cls, value):
        return [value] if isinstance(value, dict) else value

    @field_validator("build", "search", mode="before")
    @classmethod
    def _lists(cls, value):
        if not isinstance(value, dict):
            raise ValueError("a mapping of parameters to values is expected")
        grid = {name: item if isinstance(item, list) else [item] for name, item in value.items()}
        for name, items in grid.items():
            if not items:
                raise ValueError(f"{name} has no values")
            if len(set(map(repr, items))) < len(items):
                raise ValueError(f"{name} names a value twice")
        return grid


class AlgorithmOffer(Strict):
    """One algorithm that a library folder offers."""

    class_name: str = Field(alias="class")
    family: Literal["graph", "partition", "exact", "database", "test"]
    description: str = ""
    distances: list[Distance]
    dtypes: list[Dtype]
    converts: list[Dtype] = Field([], description="those of them that the adapter hands to the library as float32")
    reproducible: bool = Field(True, description="one thread and one seed give the same answers again")
    parameters: dict[str, Parameter] = {}
    constraints: list[str] = Field([], description="such as `efSearch >= k`; a point that breaks one is skipped")
    smoke: Grid = Field(description="a two-point sweep for tests and for sweeps that do not name the algorithm")

    @model_validator(mode="after")
    def _consistent(self):
        known = {*self.parameters, "k", "n", "dimension", "distance", "dtype"}
        for constraint in self.constraints:
            check_constraint(constraint, known)
        self.check_grid(self.smoke)
        if self.smoke.target:
            raise ValueError("smoke is a sweep of points; a target goes into configs/sweeps")
        if set(self.converts) - set(self.dtypes):
            raise ValueError("converts may name only what dtypes names")
        return self

    @property
    def monotone(self) -> str | None:
        """Name of the search parameter that searches more as it grows; None where there is none."""
        names = (name for name, item in self.parameters.items() if item.monotone and item.stage == "search")
        return next(names, None)

    def check_grid(self, grid: Grid) -> None:
        """Raises ValueError where a grid names an unknown parameter, the wrong stage or a wrong value."""
        for stage in ("build", "search"):
            for name, values in getattr(grid, stage).items():
                parameter = self.parameters.get(name)
                if parameter is None:
                    close = difflib.get_close_matches(name, self.parameters, n=1)
                    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(self.parameters) or 'none'}"
                    raise ValueError(f"unknown parameter {name}; {hint}")
                if parameter.stage != stage:
                    raise ValueError(f"{name} is a {parameter.stage} parameter, not a {stage} parameter")
                for value in values:
                    parameter.check(name, value)


class Supplied(Strict):
    """What no registry has and the user must bring: a wheel, or a folder whose content goes beside the packages."""

    variable: str = Field(pattern="^[A-Z][A-Z0-9_]*$", description="environment variable that holds its path")
    what: str = Field(description="such as `the built module py_puck_api`")
    page: str = Field(description="upstream's page on how to build it")


class Service(Strict):
    """A server that the library speaks to; its worker has the network, which others have not."""

    variables: list[str] = Field(min_length=1, description="environment variables that must be set")
    optional: list[str] = Field([], description="those that may be; handed on too, and never recorded")
    what: str = Field(description="such as `a Milvus server`")
    page: str


class LibraryCard(Strict):
    """`algorithms/<library>/algorithm.yml`: one library, one environment, one or more algorithms."""

    directory: Path
    library: str
    upstream: str
    version: str
    licence: str
    citation: str | None = None
    python: str | None = Field(None, description="versions that it has packages for, such as `>=3.9,<3.12`")
    supplied: Supplied | None = None
    service: Service | None = None
    algorithms: dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")], AlgorithmOffer]

    @field_validator("python")
    @classmethod
    def _specifier(cls, value):
        if value is not None:
            try:
                SpecifierSet(value)
            except InvalidSpecifier:
                raise ValueError(f"'{value}' is no version specifier such as >=3.9,<3.12") from None
        return value

    def unavailable(self, variables: Mapping[str, str]) -> str | None:
        """What the user has to bring before this library can run, and where to find it; None if nothing is missing."""
        if self.supplied and not variables.get(self.supplied.variable):
            supplied = self.supplied
            return f"needs {supplied.what}: set {supplied.variable} to its path; to build it see {supplied.page}"
        if self.service:
            for name in self.service.variables:
                if not variables.get(name):
                    return f"needs {self.service.what}: set {name}; see {self.service.page}"
        return None


class Algorithm(Strict):
    """One algorithm together with the library folder it comes from."""

    name: str
    library: LibraryCard
    offer: AlgorithmOffer
    supplied_sha256: str | None = Field(None, description="of what the user supplied, as the runner of a run has it")

    @property
    def directory(self) -> Path:
        return self.library.directory

    def code_hash(self) -> str:
        """Hash of adapter, pins and what the user supplied: a result of other code is stale and is measured again."""
        content = hashlib.sha256()
        for name in ("algorithm.py", "requirements.txt"):
            content.update((self.directory / name).read_bytes())
        content.update((self.supplied_sha256 or "").encode())
        return content.hexdigest()


def find_algorithms(folder: Path = ALGORITHMS) -> dict[str, Algorithm]:
    """Every algorithm below `folder`, by name.

    Raises:
        UserError: a card is wrong, a file is missing, or two folders offer one name.
    """
    found: dict[str, Algorithm] = {}
    for path in sorted(folder.glob("*/algorithm.yml")):
        card = load_yaml(path, LibraryCard, {"directory": path.parent})
        for file in ("algorithm.py", "requirements.txt"):
            if not (path.parent / file).is_file():
                raise UserError(f"{path.parent / file}: missing; every library folder holds one")
        for name, offer in card.algorithms.items():
            if name in found:
                raise UserError(f"{path}: algorithm {name} is offered by {found[name].directory} too")
            found[name] = Algorithm(name=name, library=card, offer=offer)
    return found
