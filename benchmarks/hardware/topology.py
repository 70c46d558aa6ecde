"""The CPUs of a machine: which socket, core and NUMA node each belongs to. Read from a /sys tree, decides nothing."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.hardware.kernel import read_int, read_numbers

SMALL_CORE = 2 / 3  # of the largest capacity: below it a core is an efficiency core


@dataclass(frozen=True)
class Cpu:
    """One hardware thread; None where the system does not tell."""

    number: int
    socket: int | None = None
    core: int | None = None  # as the kernel numbers it within its socket
    node: int | None = None
    siblings: tuple[int, ...] = ()  # hardware threads of the same core, this one included
    kind: Literal["performance", "efficiency"] = "performance"

    @property
    def first_sibling(self) -> int:
        """Names the core within the machine, which the kernel's core number does not."""
        return min(self.siblings, default=self.number)


@dataclass(frozen=True)
class Topology:
    """What is online: CPUs in rising order, and the NUMA nodes that have memory."""

    cpus: tuple[Cpu, ...] = ()
    memory_nodes: tuple[int, ...] = ()


def read_topology(root: Path = Path("/")) -> Topology:
    """The topology below `root`/sys; empty where there is no such tree, as on macOS."""
    system = root / "sys/devices/system"
    node_of, nodes = {}, []
    for folder in (system / "node").glob("node[0-9]*"):
        nodes.append(int(folder.name.removeprefix("node")))
        node_of.update(dict.fromkeys(read_numbers(folder / "cpulist") or (), nodes[-1]))
    with_memory = read_numbers(system / "node/has_memory")
    small = _efficiency_cpus(root)
    cpus = []
    for number in _online(system / "cpu"):
        about = system / f"cpu/cpu{number}/topology"
        socket, siblings = read_int(about / "physical_package_id"), read_numbers(about / "thread_siblings_list")
        cpus.append(
            Cpu(
                number=number,
                socket=None if socket is None or socket < 0 else socket,
                core=read_int(about / "core_id"),
                node=node_of.get(number),
                siblings=tuple(siblings or (number,)),
                kind="efficiency" if number in small else "performance",
            )
        )
    return Topology(tuple(cpus), tuple(sorted(nodes if with_memory is None else with_memory)))


def _online(folder: Path) -> list[int]:
    online = read_numbers(folder / "online")
    if online is None:
        numbers = [item.name.removeprefix("cpu") for item in folder.glob("cpu[0-9]*")]
        online = sorted(int(number) for number in numbers if number.isdecimal())
    return online


def _efficiency_cpus(root: Path) -> set[int]:
    """The small cores of a hybrid machine: by name on Intel, by capacity on ARM."""
    devices = root / "sys/devices"
    if (devices / "cpu_core/cpus").exists():
        small = [read_numbers(devices / name / "cpus") or [] for name in ("cpu_atom", "cpu_lowpower")]
        return {number for numbers in small for number in numbers}
    capacity = {
        number: value
        for number in _online(devices / "system/cpu")
        if (value := read_int(devices / f"system/cpu/cpu{number}/cpu_capacity")) is not None
    }
    largest = max(capacity.values(), default=0)
    return {number for number, value in capacity.items() if value < SMALL_CORE * largest}
