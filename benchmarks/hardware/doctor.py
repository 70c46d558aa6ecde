"""What makes timings unstable on a machine, why it matters, and what mends it. Decides over what was read."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.hardware.conditions import Conditions
from benchmarks.hardware.kernel import show_numbers

BUSY = 0.1  # share of the chosen CPUs that others use
STOLEN = 0.001
LOAD, LOAD_PER_CPU = 0.5, 0.05
SWAPPED_BYTES = 64 * 2**20
SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "xen")


@dataclass(frozen=True)
class Finding:
    """One thing that makes numbers unstable here."""

    name: str
    observed: str
    why: str
    mend: str  # a command where there is one

    @property
    def short(self) -> str:
        """As it is stored with each result."""
        return f"{self.name}: {self.observed}"


def examine(found: Conditions) -> list[Finding]:
    """All findings, in the order of what is worth mending first."""
    return [*_others(found), *_frequency(found), *_cores(found), *_memory(found), *_platform(found)]


def _others(found: Conditions) -> Iterator[Finding]:
    """Whoever else uses the CPUs."""
    if found.busy is not None and found.busy > BUSY:
        by = f" by {', '.join(found.busiest)}" if found.busiest else ""
        yield Finding(
            "busy CPUs",
            f"{found.busy:.0%} of CPU {show_numbers(found.cpus)} is in use{by}",
            "the index shares its CPUs, so every timing is of both",
            "end it, or keep to other CPUs: taskset -c LIST python run.py …",
        )
    if found.load is not None and found.load > max(LOAD, LOAD_PER_CPU * found.online):
        yield Finding(
            "load",
            f"{found.load:g} over the last minute",
            "other processes take caches, memory bandwidth and the thermal budget even of CPUs that they do not use",
            "top shows whose it is; after a run of your own wait a minute",
        )
    if found.steal is not None and found.steal > STOLEN:
        yield Finding(
            "steal",
            f"{found.steal:.1%} of the time since the start went to other tenants",
            "the hypervisor stops these CPUs at times that no clock in here explains",
            "take a machine with dedicated CPUs",
        )
    if found.quota is not None and found.quota < found.online:
        yield Finding(
            "CPU quota",
            f"the cgroup allows the time of {found.quota:g} CPUs",
            "once it is used up every thread stops for the rest of a tenth of a second",
            "start the container with --cpuset-cpus instead of --cpus",
        )
    if found.throttled:
        yield Finding(
            "throttling",
            f"the cgroup was stopped {found.throttled} times so far",
            "each stop is in some timing",
            "raise the quota, or pass fewer --threads",
        )


def _frequency(found: Conditions) -> Iterator[Finding]:
    """The clock rate."""
    slow = {name: cpus for name, cpus in found.governors.items() if name != "performance"}
    if slow:
        yield Finding(
            "governor",
            ", ".join(f"{name} on CPU {show_numbers(cpus)}" for name, cpus in slow.items()),
            "the clock rate follows the load, so the first queries are slower than the later ones",
            "sudo cpupower frequency-set -g performance",
        )
    elif not found.governors and not found.virtual:
        yield Finding(
            "governor",
            "cannot be read",
            "the clock rate may follow the load, and nothing here would tell",
            "modprobe the cpufreq driver of the processor, or switch frequency scaling off in the firmware",
        )
    if found.boost:
        intel = found.boost.endswith("no_turbo")
        yield Finding(
            "turbo",
            "on",
            "the clock rate rises with few busy cores and falls with heat, so a run is faster than its repeat",
            f"echo {int(intel)} | sudo tee /{found.boost}",
        )
    if found.hot:
        yield Finding(
            "heat",
            f"these CPUs were slowed down {found.hot} times since the start",
            "a hot processor lowers its clock in the middle of a run",
            "better cooling, or fewer --threads",
        )
    if found.on_battery:
        yield Finding(
            "battery", "the machine runs on it", "power saving lowers the clock rate as it likes", "plug it in"
        )


def _cores(found: Conditions) -> Iterator[Finding]:
    """Hardware threads that share a core."""
    if found.shared_cores:
        yield Finding(
            "SMT",
            f"two threads of the run share each of {found.shared_cores} cores",
            "the speed of a thread depends on what the other one of its core does",
            "--machine physical, unless the shared cores are what is to be measured",
        )
    if found.free_siblings:
        yield Finding(
            "siblings",
            f"CPU {show_numbers(found.free_siblings)} shares cores with the run and is open to others",
            "a process there halves the speed of that core",
            "echo off | sudo tee /sys/devices/system/cpu/smt/control",
        )


def _memory(found: Conditions) -> Iterator[Finding]:
    """Pages."""
    if found.huge_pages == "always":
        yield Finding(
            "huge pages",
            "transparent huge pages are always on",
            "memory comes in huge pages or not, as fragmented as it is; that alone moves the speed of an index",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        )
    if (found.swapped_bytes or 0) > SWAPPED_BYTES:
        yield Finding(
            "swap",
            f"{found.swapped_bytes / 1e9:.2f} GB are swapped out",
            "a page that comes back from the disk takes as long as thousands of queries",
            "sudo swapoff -a",
        )
    elif found.swap_bytes and (found.swappiness or 0) > 10:
        yield Finding(
            "swappiness",
            f"{found.swappiness}",
            "the kernel may swap out a part of the index that was not used for a while",
            "sudo sysctl vm.swappiness=1",
        )
    if found.numa_balancing and found.numa_nodes > 1:
        yield Finding(
            "NUMA balancing",
            "on",
            "the kernel unmaps pages to see who uses them, and moves them between nodes, in the middle of a search",
            "sudo sysctl kernel.numa_balancing=0",
        )
    if found.numa_nodes > 1 and not found.numactl:
        yield Finding(
            "numactl",
            "is not installed",
            "without it the runner venv cannot bind the memory of an index to the node of its CPUs",
            "apt install numactl, or --runner docker",
        )


def _platform(found: Conditions) -> Iterator[Finding]:
    """What the machine is."""
    if found.virtual:
        yield Finding(
            "virtual machine",
            "yes",
            "neighbours share its caches and memory bandwidth, and its clock rate cannot be seen",
            "publish speeds from bare metal; elsewhere raise --repeats and compare only what ran side by side",
        )
    if found.clock_source in SLOW_CLOCKS:
        yield Finding(
            "clock source",
            found.clock_source,
            "reading the time takes microseconds, which shows in the latency of single queries",
            "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
