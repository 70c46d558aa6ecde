"""What this machine is like just now, as far as it makes timings unstable. Only reads; `doctor` decides."""

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.hardware.kernel import read_fields, read_int, read_text
from benchmarks.hardware.limits import cgroup_folders, read_limits
from benchmarks.hardware.topology import read_topology

BOOST_FILES = {  # of a switch → what it holds where the clock may rise above its nominal rate
    "sys/devices/system/cpu/intel_pstate/no_turbo": 0,
    "sys/devices/system/cpu/cpufreq/boost": 1,
}


@dataclass(frozen=True)
class Conditions:
    """Facts; None where the system does not tell."""

    cpus: list[int]  # those of the run
    online: int = 1  # CPUs of the machine
    governors: dict[str, list[int]] = field(default_factory=dict)  # → CPUs of the run
    boost: str | None = None  # the file that switches it off, where it is on
    shared_cores: int = 0  # cores with two CPUs of the run
    free_siblings: list[int] = field(default_factory=list)  # CPUs on cores of the run that are not part of it
    huge_pages: str | None = None  # always, madvise or never
    load: float | None = None  # of the last minute
    busy: float | None = None  # share of the time of these CPUs that was used while nothing was measured
    busiest: list[str] = field(default_factory=list)  # names of the processes that used it
    steal: float | None = None  # share that the hypervisor gave to others, since the machine started
    quota: float | None = None  # CPUs' worth of time that the cgroup allows
    throttled: int | None = None  # how often the cgroup was made to wait
    swap_bytes: int | None = None
    swapped_bytes: int | None = None
    swappiness: int | None = None
    numa_nodes: int = 0
    numa_balancing: bool | None = None
    numactl: bool = True
    virtual: bool = False
    hot: int | None = None  # how often these CPUs were slowed down by heat
    clock_source: str | None = None
    on_battery: bool = False


def read_conditions(
    cpus: list[int], seconds: float, root: Path = Path("/"), sleep: Callable[[float], None] = time.sleep
) -> Conditions:
    """Look at the machine for so many seconds, in which nothing of ours should run.

    Args:
        cpus: those that a run would take.
        seconds: between two readings of what is busy.
        root: folder of `sys` and `proc`.
        sleep: what waits.
    """
    topology, limits = read_topology(root), read_limits(root)
    chosen = [cpu for cpu in topology.cpus if cpu.number in cpus]
    cores = Counter(cpu.first_sibling for cpu in chosen)
    online = {cpu.number for cpu in topology.cpus}
    swap = read_fields(root / "proc/meminfo", ":")
    total, free = (_kilobytes(swap.get(name)) for name in ("SwapTotal", "SwapFree"))
    folder = root / "sys/devices/system/cpu"
    governors: dict[str, list[int]] = {}
    for number in cpus:
        governor = read_text(folder / f"cpu{number}/cpufreq/scaling_governor")
        if governor:
            governors.setdefault(governor, []).append(number)
    heat = [read_int(folder / f"cpu{number}/thermal_throttle/core_throttle_count") for number in cpus]
    busy, busiest = _busy(root, set(cpus), seconds, sleep)
    balancing = read_int(root / "proc/sys/kernel/numa_balancing")
    return Conditions(
        cpus=cpus,
        online=len(online) or 1,
        governors=governors,
        boost=next((name for name, on in BOOST_FILES.items() if read_int(root / name) == on), None),
        shared_cores=sum(count > 1 for count in cores.values()),
        free_siblings=sorted({other for cpu in chosen for other in cpu.siblings if other in online} - set(cpus)),
        huge_pages=_bracketed(read_text(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        load=_number((read_text(root / "proc/loadavg") or "").split(" ")[0]),
        busy=busy,
        busiest=busiest,
        steal=_steal(root, cpus),
        quota=limits.quota,
        throttled=_throttled(root),
        swap_bytes=total,
        swapped_bytes=None if total is None or free is None else total - free,
        swappiness=read_int(root / "proc/sys/vm/swappiness"),
        numa_nodes=len(topology.memory_nodes),
        numa_balancing=None if balancing is None else balancing > 0,
        numactl=shutil.which("numactl") is not None,
        virtual=" hypervisor" in (read_text(root / "proc/cpuinfo") or ""),
        hot=sum(count for count in heat if count) if any(count is not None for count in heat) else None,
        clock_source=read_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        on_battery=_on_battery(root / "sys/class/power_supply"),
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _kilobytes(text: str | None) -> int | None:
    return int(text.split()[0]) * 1024 if text else None


def _bracketed(text: str | None) -> str | None:
    """The choice that is on: `always [madvise] never`."""
    return text.partition("[")[2].partition("]")[0] or None if text else None


def _on_battery(folder: Path) -> bool:
    """Whether the machine has a plug, and it is out."""
    plugs = [read_int(item / "online") for item in folder.glob("*") if read_text(item / "type") == "Mains"]
    return bool(plugs) and not any(plugs)


def _throttled(root: Path) -> int | None:
    counts = [
        int(count)
        for folder in cgroup_folders(root, "cpu")
        if (count := read_fields(folder / "cpu.stat").get("nr_throttled")) is not None
    ]
    return max(counts, default=None)


def _cpu_times(root: Path) -> dict[int, list[int]]:
    """Ticks of each CPU since start: user, nice, system, idle, iowait, irq, softirq, steal, …"""
    fields = read_fields(root / "proc/stat")
    return {
        int(name[3:]): [int(tick) for tick in value.split()] for name, value in fields.items() if name[3:].isdecimal()
    }


def _steal(root: Path, cpus: list[int]) -> float | None:
    times = [ticks for number, ticks in _cpu_times(root).items() if number in cpus and len(ticks) > 7]
    total = sum(sum(ticks[:8]) for ticks in times)
    return sum(ticks[7] for ticks in times) / total if total else None


def _process_times(root: Path, cpus: set[int]) -> dict[tuple[str, str], int]:
    """(pid, name) of the processes that were last on these CPUs → ticks that they have used."""
    used = {}
    for path in (root / "proc").glob("[0-9]*/stat"):
        text = read_text(path) or ""
        name, fields = text[text.find("(") + 1 : text.rfind(")")], text[text.rfind(")") + 2 :].split()
        if len(fields) > 36 and int(fields[36]) in cpus:
            used[path.parent.name, name] = int(fields[11]) + int(fields[12])
    return used


def _busy(root: Path, cpus: set[int], seconds: float, sleep: Callable[[float], None]) -> tuple[float | None, list[str]]:
    """Share of these CPUs that was busy or stolen in the next seconds, and the processes that used most of it."""
    processes, before = _process_times(root, cpus), _cpu_times(root)
    sleep(seconds)
    after, later = _cpu_times(root), _process_times(root, cpus)
    spent = [
        [end - start for start, end in zip(before[number], after[number], strict=False)]
        for number in cpus
        if number in before and number in after
    ]
    total = sum(sum(ticks[:8]) for ticks in spent)
    if not total:
        return None, []
    idle = sum(sum(ticks[3:5]) for ticks in spent)
    used: Counter[str] = Counter()
    for (pid, name), ticks in later.items():
        used[name] += ticks - processes.get((pid, name), ticks)
    return 1 - idle / total, [name for name, ticks in used.most_common(3) if ticks > total * 0.02]
