"""Where a run goes: which CPUs, one per thread, and which memory. A pure decision over what was read."""

from dataclasses import dataclass, field

from benchmarks.errors import UserError
from benchmarks.hardware.kernel import show_numbers
from benchmarks.hardware.limits import CgroupLimits, parse_size
from benchmarks.hardware.profiles import Profile
from benchmarks.hardware.topology import Cpu, Topology


@dataclass(frozen=True)
class Placement:
    """The CPUs of a run, one per thread, in the order in which they are taken."""

    profile: str
    cpus: list[int]
    memory_nodes: list[int] = field(default_factory=list)  # NUMA nodes to bind to; empty: memory from anywhere
    sockets: list[int] = field(default_factory=list)  # empty where the system does not tell
    cores: int = 0  # how many cores the CPUs belong to
    memory_limit_bytes: int | None = None  # of a worker, as the profile says
    notes: list[str] = field(default_factory=list)  # what a person should know, a line each

    @property
    def threads(self) -> int:
        return len(self.cpus)

    def describe(self) -> str:
        """One line: `machine auto: CPUs 0-31 of socket 0, 32 cores, memory of node 0`."""
        cpus = f"CPU{'s' * (self.threads > 1)} {show_numbers(self.cpus)}"
        sockets = f" of socket{'s' * (len(self.sockets) > 1)} {show_numbers(self.sockets)}" if self.sockets else ""
        cores = f", {self.cores} core{'s' * (self.cores > 1)}"
        nodes = f"memory of node{'s' * (len(self.memory_nodes) > 1)} {show_numbers(self.memory_nodes)}"
        return f"machine {self.profile}: {cpus}{sockets}{cores}, {nodes if self.memory_nodes else 'any memory'}"


def place(
    topology: Topology,
    allowed: set[int],
    profile: Profile,
    threads: int | None = None,
    limits: CgroupLimits | None = None,
) -> Placement:
    """Choose the CPUs.

    Args:
        topology: of the machine; CPUs that it does not know stand for themselves.
        allowed: affinity mask of this process.
        profile: what is wanted.
        threads: as asked for on the command line; the first so many CPUs of the profile's placement.
        limits: of the control groups.

    Raises:
        UserError: this machine, or what this process may use of it, is smaller than what is wanted; the message names
            the flag to pass.
    """
    limits, notes = limits or CgroupLimits(), []
    known = {cpu.number: cpu for cpu in topology.cpus}
    usable = (allowed & limits.cpus if limits.cpus else set()) or allowed
    cpus = [known.get(number, Cpu(number)) for number in sorted(usable)]
    chosen, sockets = _sockets(cpus, topology, profile, notes)
    order = _ordered(chosen, profile)
    count = _count(order, len(cpus), profile, threads, limits.quota, notes)
    taken = order[:count]
    if len(cpus) > len(chosen) and not threads and not profile.threads:
        others = len(cpus) - len(chosen)
        notes.append(f"left out: {others} CPU{'s' * (others > 1)} of other sockets; --machine all takes every one")
    if profile.smt == "together" and profile.threads and len({cpu.first_sibling for cpu in taken}) == count > 1:
        notes.append(f"machine {profile.name} means 2 threads on each core; here each of the {count} has its own core")
    return Placement(
        profile=profile.name,
        cpus=[cpu.number for cpu in taken],
        memory_nodes=_memory_nodes(chosen, topology, profile, limits, notes),
        sockets=sockets,
        cores=len({cpu.first_sibling for cpu in taken}),
        memory_limit_bytes=parse_size(profile.memory_limit) if profile.memory_limit else None,
        notes=notes,
    )


def _sockets(cpus: list[Cpu], topology: Topology, profile: Profile, notes: list[str]) -> tuple[list[Cpu], list[int]]:
    """The CPUs of the sockets to use, the best filled ones first, and the numbers of these sockets."""
    if any(cpu.socket is None for cpu in cpus):
        notes.append("this system does not tell which socket a CPU belongs to: every CPU counts as of one")
        return cpus, []
    everywhere = {cpu.socket for cpu in topology.cpus}
    if 1 < len(everywhere) == len({cpu.first_sibling for cpu in topology.cpus}) and len(topology.memory_nodes) < 2:
        notes.append("each core claims a socket of its own, as in some virtual machines: they count as one socket")
        return cpus, []
    groups = {number: [cpu for cpu in cpus if cpu.socket == number] for number in sorted({cpu.socket for cpu in cpus})}
    fullest = sorted(groups, key=lambda number: -len(_ordered(groups[number], profile)))
    if profile.sockets is not None and profile.sockets > len(groups):
        raise UserError(
            f"machine profile {profile.name} needs {profile.sockets} sockets, and this process may use CPUs of "
            f"{len(groups)}; pass --machine socket"
        )
    sockets = sorted(fullest[: profile.sockets])
    return [cpu for number in sockets for cpu in groups[number]], sockets


def _ordered(cpus: list[Cpu], profile: Profile) -> list[Cpu]:
    """The CPUs that the profile can take, in the order in which it takes them."""
    rank: dict[int, int] = {}  # of a CPU among those of its core
    seen: dict[int, int] = {}
    for cpu in cpus:
        rank[cpu.number] = seen[cpu.first_sibling] = seen.get(cpu.first_sibling, -1) + 1

    def key(cpu: Cpu) -> tuple:
        late = rank[cpu.number] if profile.smt == "last" else 0
        return cpu.kind == "efficiency", late, cpu.socket or 0, cpu.node or 0, cpu.first_sibling, rank[cpu.number]

    return sorted((cpu for cpu in cpus if profile.smt != "never" or rank[cpu.number] == 0), key=key)


def _count(
    order: list[Cpu], allowed: int, profile: Profile, threads: int | None, quota: float | None, notes: list[str]
) -> int:
    """How many of the CPUs are taken."""
    large = sum(cpu.kind == "performance" for cpu in order) if not profile.efficiency_cores else len(order)
    if threads and profile.threads and threads > profile.threads:
        raise UserError(
            f"--threads {threads}: machine profile {profile.name} is made for {profile.threads}; "
            f"pass another --machine, or --threads {profile.threads}{' or fewer' * (profile.threads > 1)}"
        )
    wanted = threads or profile.threads
    if wanted and wanted > len(order):
        raise UserError(_too_small(wanted, len(order), allowed, profile, threads))
    if wanted and not threads and quota and wanted > quota:
        raise UserError(
            f"machine profile {profile.name} needs {wanted} CPUs, and the cgroup allows the time of {quota:g}; "
            f"pass --machine socket, or --threads {max(1, int(quota))}"
        )
    if wanted:
        if 0 < large < wanted:
            notes.append(f"{wanted - large} of the {wanted} threads run on efficiency cores: timings are of a mixture")
        if quota and wanted > quota:
            notes.append(f"the cgroup allows the time of {quota:g} CPUs: {wanted} threads will be held back by it")
        return wanted
    count = min(large or len(order), profile.most_threads or len(order))
    if quota and count > quota:
        count = max(1, int(quota))
        notes.append(f"the cgroup allows the time of {quota:g} CPUs: {count} thread{'s' * (count > 1)} used")
        if count > quota:
            notes.append("the one thread will be held back by it")
    elif count < large:
        notes.append(f"{count} of {large} CPUs are used; --threads N takes more")
    elif large < len(order) and large:
        notes.append(f"left out: {len(order) - large} efficiency cores; --threads {len(order)} takes them too")
    return count


def _too_small(wanted: int, there: int, allowed: int, profile: Profile, threads: int | None) -> str:
    """Why the machine does not do, and which flag helps."""
    where = "" if profile.sockets is None else f" of {profile.sockets} socket{'s' * (profile.sockets > 1)}"
    per_core = ", one per core" if profile.smt == "never" else ""
    have = f"this process may use {there} CPU{'s' * (there > 1)}{where}{per_core}"
    fewer = f"--threads {there}{' or fewer' * (there > 1)}"
    if threads:
        larger = ", or --machine all" if allowed >= wanted else ""
        return f"--threads {threads}: {have}; pass {fewer}{larger}"
    return (
        f"machine profile {profile.name} needs {wanted} threads and {have}; pass --machine socket, or --threads {there}"
    )


def _memory_nodes(
    chosen: list[Cpu], topology: Topology, profile: Profile, limits: CgroupLimits, notes: list[str]
) -> list[int]:
    """Nodes to take memory from: those of the sockets used, as far as they have any and the cgroup allows it."""
    near = sorted({cpu.node for cpu in chosen if cpu.node is not None})
    if not profile.bind_memory or not near:
        return []
    nodes = [node for node in near if node in topology.memory_nodes]
    if limits.memory_nodes is not None:
        nodes = [node for node in nodes if node in limits.memory_nodes]
    if not nodes:
        notes.append(
            f"no memory of node {show_numbers(near)}, where the CPUs are, may be used: it comes from elsewhere"
        )
    return nodes
