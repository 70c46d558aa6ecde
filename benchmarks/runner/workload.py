"""What a runner is told of one worker: its job, and all that it may touch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cards.algorithms import LibraryCard


@dataclass(frozen=True)
class Workload:
    """One worker. Every path is absolute and the same inside a container."""

    library: LibraryCard
    job_file: Path
    output: Path  # written by the worker; holds the job file, and `temporary`
    index: Path
    index_exists: bool  # it is loaded, and need not be written
    inputs: Sequence[Path]  # files that the worker reads
    log: Path
    cpus: Sequence[int]
    memory_nodes: Sequence[int]  # NUMA nodes that memory may come from; empty where it does not matter
    memory_bytes: int

    @property
    def threads(self) -> int:
        return len(self.cpus)

    @property
    def temporary(self) -> Path:
        """The worker's TMPDIR: on disk, where large files may go, and gone with the job."""
        return self.output / "tmp"
