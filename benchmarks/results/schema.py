"""What a result file says, field by field. One file is one operating point of one build."""

import hashlib
import json
from collections.abc import Collection
from typing import Literal

from pydantic import Field

from benchmarks.cards.values import Distance, Value
from benchmarks.yamlfile import Strict

SCHEMA_VERSION = 1
Status = Literal["ok", "failed", "timeout", "out-of-memory", "invalid"]


class Identity(Strict):
    """All that decides what is measured. Its hash names the point; a label is for people and never parsed."""

    dataset: str
    base_sha256: str
    queries_sha256: str
    distance: Distance
    algorithm: str
    build_params: dict[str, Value]
    search_params: dict[str, Value]
    seed: int | None = Field(description="None where another harness measured: it does not say")
    k: int = Field(ge=1)
    mode: Literal["batch", "single"]
    threads: int | None = Field(description="None where another harness measured: it does not say")
    source: str | None = Field(None, description="hash of what was imported; None for what was measured here")

    def hash(self) -> str:
        """16 hexadecimal digits over the canonical JSON; the data set's name does not count, its content does."""
        content = self.model_dump(exclude={"dataset"} if self.source else {"dataset", "source"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def label(self) -> str:
        """Build and search parameters as `M=8,efConstruction=40,efSearch=14`."""
        return label({**self.build_params, **self.search_params})


def label(params: dict[str, Value], hidden: Collection[str] = ()) -> str:
    """Parameters for people, as `name=value,…`, without those in `hidden`; `default` where there are none.

    A flag is its name alone where it is on, and nothing where it is off.
    """
    shown = {name: value for name, value in params.items() if name not in hidden and value is not False}
    return ",".join(name if value is True else f"{name}={value}" for name, value in shown.items()) or "default"


class Machine(Strict):
    """The host, as far as it bears on speed."""

    cpu: str
    logical_cpus: int = Field(description="of the whole machine, whatever this process may use")
    memory_bytes: int
    kernel: str


class Imported(Strict):
    """What another harness says of a point that was measured by it. Nothing here was checked by us."""

    harness: str = Field(description="such as ann-benchmarks")
    file: str = Field(description="the file, relative to what was imported")
    part: str | None = Field(None, description="the point inside the file, where a file holds several")
    sha256: str = Field(description="of the file")
    recounted: bool = Field(
        description="whether hits were counted by us from its ids; else they are the counts of the other harness, "
        "by its own rule and ground truth"
    )
    attributes: dict[str, Value] = Field({}, description="its own, as it names them; lists as JSON text")
    notes: list[str] = Field([], description="what cannot be known of it, and what is odd about it")


class Provenance(Strict):
    """Where the numbers come from."""

    measured_at: str = Field(description="UTC, ISO 8601, when the point was sealed; of an imported one, here")
    command: str
    git_revision: str | None
    git_dirty: bool | None
    runner: str = Field(description="docker, venv, or imported")
    code_sha256: str = Field(description="of the adapter and its pins; a result of other code is measured again")
    environment: str = Field(description="hash that names the environment of the library")
    machine_profile: str | None = Field(None, description="how the CPUs were chosen; None in results of older versions")
    memory_nodes: list[int] = Field([], description="NUMA nodes that memory was to come from; empty for any")
    findings: list[str] = Field([], description="what made timings unstable on the machine before the run")
    python: str | None = Field(None, description="inside the worker, as all that follows but the machine")
    versions: dict[str, str] = {}
    affinity: list[int] | None = None
    memory_allowed: list[int] | None = Field(None, description="NUMA nodes")
    memory_policy: str | None = Field(None, description="of the kernel: default, or such as bind:0")
    thread_variables: dict[str, str] = {}
    machine: Machine | None = Field(description="None where another harness measured: it does not say")
    imported: Imported | None = Field(None, description="only of a point that another harness measured")


class ResultRecord(Strict):
    """The JSON attribute of a result file."""

    schema_version: Literal[1] = SCHEMA_VERSION
    identity: Identity
    status: Status
    reason: str | None = Field(None, description="one line, where the status is not ok")
    log: str | None = Field(None, description="the worker's output, relative to the results folder")
    n: int = Field(ge=1, description="base vectors")
    nq: int = Field(ge=1, description="queries")
    truth: str = Field(description="key of the ground truth that hits were counted against")
    repeats: int = Field(description="passes over all queries whose times are kept")
    best_search_seconds: float | None = Field(
        None, gt=0, description="the fastest pass, where an imported result knows it and it is not among the repeats"
    )
    index_dtype: str | None = Field(None, description="of the vectors as the library got them; the data may be another")
    build_seconds: float | None = Field(None, ge=0)
    load_seconds: float | None = Field(None, description="time to load the saved index; None if it was built in place")
    index_bytes: int | None = Field(None, ge=0, description="size of the saved index; None if the adapter cannot save")
    build_peak_bytes: int | None = Field(None, description="peak resident memory of the building process")
    search_peak_bytes: int | None = Field(None, description="peak resident memory while this point was searched")
    answers_vary: bool | None = Field(None, description="whether a repeat returned other ids than the first")
    repeated_ids: int = Field(0, description="ids that came twice in one answer; counted once")
    missing_ids: int = Field(0, description="places of answers that the library left empty")
    stats: dict[str, Value] = Field({}, description="what the adapter tells of itself")
    search_cpu_seconds: float | None = Field(None, description="CPU time of all timed passes, on all threads")
    caller_cpu_seconds: float | None = Field(None, description="of it, what the calling thread spent itself")
    reported_distance_error: float | None = Field(
        None, description="of the library's own distances against the exact ones; 0 agrees up to scale and offset"
    )
    process_threads: int | None = Field(None, description="of the worker after the search, idle ones too")
    deviations: list[str] = Field(
        [], description="what the worker was given otherwise than asked; makes speed doubtful"
    )
    provenance: Provenance

    @property
    def denominator(self) -> int:
        """What hits are divided by: K, or n where the base has fewer vectors."""
        return min(self.identity.k, self.n)
