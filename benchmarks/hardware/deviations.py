"""What a worker was asked to be against what it found itself to be. A difference marks the result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from benchmarks.hardware.kernel import parse_numbers, show_numbers
from benchmarks.hardware.machine import thread_environment

# A process may hold some pools of as many threads as it was given (numpy's BLAS, OpenMP, the library's own BLAS),
# which sleep while another one works; those known here hold two. More is a library that counts the CPUs by itself.
MOST_POOLS, MORE_THREADS = 3, 4


@dataclass(frozen=True)
class Asked:
    """What a worker should have been given."""

    cpus: list[int]  # one per thread
    memory_nodes: list[int] = field(default_factory=list)  # empty: any
    pins: Mapping[str, SpecifierSet] = field(default_factory=dict)  # package → the version that it is pinned to


def deviations(asked: Asked, observed: Mapping[str, Any]) -> list[str]:
    """A line for each thing that was not as asked; what the worker could not tell is not held against it.

    Args:
        asked: by the host.
        observed: the worker's words, of its start and after the search, together.
    """
    return [
        *_cpus(asked, observed),
        *_threads(asked, observed),
        *_memory(asked, observed),
        *_versions(asked, observed),
    ]


def _cpus(asked: Asked, observed: Mapping[str, Any]) -> list[str]:
    wanted, start, later = sorted(asked.cpus), observed.get("affinity"), observed.get("affinity_of_threads")
    if start is not None and sorted(start) != wanted:
        return [f"CPUs {show_numbers(wanted)} were asked for, the worker had {show_numbers(start)}"]
    if later is not None and not set(later) <= set(wanted):
        return [f"CPUs {show_numbers(wanted)} were asked for, threads of the library may use {show_numbers(later)}"]
    return []


def _threads(asked: Asked, observed: Mapping[str, Any]) -> list[str]:
    lines, threads, found = [], len(asked.cpus), observed.get("process_threads")
    variables = observed.get("thread_variables")
    if variables is not None:
        for name, value in thread_environment(threads).items():
            if variables.get(name) != value:
                lines.append(f"{name} should be {value}, and was {variables.get(name, 'not set')}")
    if found is not None and found > MOST_POOLS * threads + MORE_THREADS:
        lines.append(f"the process had {found} threads after the search; {threads} were asked for")
    return lines


def _memory(asked: Asked, observed: Mapping[str, Any]) -> list[str]:
    allowed, (policy, _, bound) = observed.get("memory_allowed"), (observed.get("memory_policy") or "").partition(":")
    if not asked.memory_nodes or allowed is None:
        return []
    nodes = set(parse_numbers(bound)) if policy.startswith("bind") else set(allowed)
    if nodes <= set(asked.memory_nodes):
        return []
    return [
        f"memory of node {show_numbers(asked.memory_nodes)} was asked for, the worker could use {show_numbers(nodes)}"
    ]


def _versions(asked: Asked, observed: Mapping[str, Any]) -> list[str]:
    found = {canonicalize_name(name): version for name, version in (observed.get("versions") or {}).items()}
    return [
        f"{name}{pin} is pinned, and {found.get(name, 'none')} was there"
        for name, pin in asked.pins.items()
        if found and (name not in found or not pin.contains(found[name], prereleases=True))
    ]


def read_pins(requirements: Path) -> dict[str, SpecifierSet]:
    """The packages that a requirements.txt pins wherever it is installed; lines with conditions or options are not."""
    pins = {}
    for line in requirements.read_text().splitlines():
        try:
            requirement = Requirement(line.split(" #")[0].strip())
        except InvalidRequirement:
            continue
        if not requirement.marker and not requirement.url and requirement.specifier:
            pins[canonicalize_name(requirement.name)] = requirement.specifier
    return pins
