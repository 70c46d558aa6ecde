"""Machine profiles: how a run is placed on a machine. `configs/machines/*.yml` are found, none is listed."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from benchmarks.errors import unknown_name
from benchmarks.hardware.limits import parse_size
from benchmarks.paths import MACHINES
from benchmarks.yamlfile import Strict, load_yaml


class Profile(Strict):
    """One machine profile."""

    name: str = Field(description="file name without .yml")
    title: str
    threads: int | None = Field(None, gt=0, description="needed, no fewer; all that there are if not given")
    most_threads: int | None = Field(None, gt=0, description="taken where --threads names no number")
    sockets: int | None = Field(1, gt=0, description="sockets to take CPUs from; null for every one")
    smt: Literal["never", "last", "together"] = Field(
        "last",
        description="second hardware thread of a core: not used, used once every core is, or right after the first",
    )
    efficiency_cores: bool = Field(False, description="take the small cores of a hybrid machine too")
    bind_memory: bool = Field(True, description="memory from the NUMA nodes of those sockets alone")
    memory_limit: str | None = Field(None, description="of a worker, such as 200GB; --memory-limit goes first")

    @field_validator("memory_limit")
    @classmethod
    def _size(cls, value):
        if value is not None:
            parse_size(value)
        return value

    @model_validator(mode="after")
    def _one_number(self):
        if self.threads and self.most_threads:
            raise ValueError("either threads or most_threads is given, not both")
        return self


def find_profiles(folder: Path = MACHINES) -> dict[str, Path]:
    """Every profile below `folder`: name → file. Files are not read."""
    return {path.stem: path for path in sorted(folder.glob("*.yml"))}


def load_profile(name: str, folder: Path = MACHINES) -> Profile:
    """A profile by its name or by its path.

    Raises:
        UserError: there is none, or it is wrong; the message names file and line.
    """
    known = find_profiles(folder)
    path = known.get(name)
    if path is None:
        path = Path(name)
        if path.suffix not in (".yml", ".yaml"):
            raise unknown_name("machine profile", name, list(known), f"known: {', '.join(known)}; or a path to a .yml")
    return load_yaml(path, Profile, {"name": path.stem})
