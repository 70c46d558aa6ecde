"""What control groups, NUMA nodes and the user leave of the machine: CPUs, CPU time and memory."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import psutil

from benchmarks.errors import UserError
from benchmarks.hardware.kernel import read_fields, read_int, read_numbers, read_text

ROOT = Path("/")
NO_LIMIT = 2**60  # cgroup v1 says "none" by a number of this order


@dataclass(frozen=True)
class CgroupLimits:
    """The tightest limits of all the nested groups that this process is in; None is no limit."""

    cpus: frozenset[int] | None = None
    memory_nodes: frozenset[int] | None = None
    quota: float | None = None  # CPUs' worth of time
    memory_bytes: int | None = None
    free_bytes: int | None = None  # of the memory limit; what is only cached counts as free


def read_limits(root: Path = ROOT) -> CgroupLimits:
    """The limits of this process, from `root`/proc/self and the cgroup file systems (v1, v2 or both)."""
    cpus, nodes, quotas, limits, free = [], [], [], [], []
    for folder in cgroup_folders(root, "cpuset"):
        for name, found in (("cpus", cpus), ("mems", nodes)):
            numbers = read_numbers(folder / f"cpuset.{name}.effective") or read_numbers(
                folder / f"cpuset.effective_{name}"
            )
            if numbers:
                found.append(frozenset(numbers))
    for folder in cgroup_folders(root, "cpu"):
        amount, _, period = (read_text(folder / "cpu.max") or "").partition(" ")
        quota = int(amount) if amount.isdecimal() else read_int(folder / "cpu.cfs_quota_us")
        period = int(period) if period.isdecimal() else read_int(folder / "cpu.cfs_period_us")
        if quota and period and quota > 0:
            quotas.append(quota / period)
    for folder in cgroup_folders(root, "memory"):
        limit, used = read_int(folder / "memory.max"), read_int(folder / "memory.current")
        prefix = ""
        if limit is None:
            limit, used = read_int(folder / "memory.limit_in_bytes"), read_int(folder / "memory.usage_in_bytes")
            prefix = "total_"  # in v1 the plain name leaves the groups below out
        if limit is None or limit >= NO_LIMIT:
            continue
        stat = read_fields(folder / "memory.stat")
        cached = sum(int(stat.get(f"{prefix}{name}_file", 0)) for name in ("inactive", "active"))
        limits.append(limit)
        free.append(max(0, limit - max(0, (used or 0) - cached)))
    return CgroupLimits(
        cpus=reduce(frozenset.__and__, cpus) if cpus else None,
        memory_nodes=reduce(frozenset.__and__, nodes) if nodes else None,
        quota=min(quotas, default=None),
        memory_bytes=min(limits, default=None),
        free_bytes=min(free, default=None),
    )


def cgroup_folders(root: Path, controller: str) -> list[Path]:
    """Folders of the groups that this process is in for one controller, from its own up to the top that is mounted."""
    mounts = []  # (type and options, root of the mount, mount point)
    for line in (read_text(root / "proc/self/mountinfo") or "").splitlines():
        place, _, kind = line.partition(" - ")
        if kind.startswith("cgroup") and len(place.split()) > 4:
            mounts.append((kind.split(), *place.split()[3:5]))
    folders = []
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        for kind, top, point in mounts:
            fits = kind[0] == "cgroup2" if not controllers else controller in kind[-1].split(",")
            if not fits or (controllers and controller not in controllers.split(",")):
                continue
            mounted = root / point.lstrip("/")
            # In a container without a namespace of its own the path is the host's, and starts with the mount's root.
            inside = (
                f"{path}/".removeprefix(f"{top.rstrip('/')}/") if f"{path}/".startswith(f"{top.rstrip('/')}/") else ""
            )
            inner = mounted if ".." in inside.split("/") else mounted / inside.strip("/")
            for folder in (inner, *inner.parents):
                if folder.is_dir() and folder not in folders:
                    folders.append(folder)
                if folder == mounted:
                    break
    return folders


def available_memory_bytes(nodes: Iterable[int] = (), root: Path = ROOT) -> int:
    """Memory that is free, or only cached: of the machine, of the cgroup, of the NUMA nodes; the least of them."""
    bounds = [psutil.virtual_memory().available]
    limits = read_limits(root)
    if limits.free_bytes is not None:
        bounds.append(limits.free_bytes)
    of_nodes = [_node_free_bytes(root / f"sys/devices/system/node/node{node}/meminfo") for node in nodes]
    if any(of_nodes):
        bounds.append(sum(of_nodes))
    return min(bounds)


def _node_free_bytes(meminfo: Path) -> int:
    names = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
    fields = {name.split()[-1]: value for name, value in read_fields(meminfo, ":").items()}  # `Node 0 MemFree: 1 kB`
    return sum(int(fields.get(name, "0").split()[0]) * 1024 for name in names)


def parse_size(text: str) -> int:
    """Bytes: a number with an optional kB, MB, GB or TB (powers of ten).

    Raises:
        ValueError: it is no such size.
    """
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kMGT]?)B?\s*", text, re.IGNORECASE)
    try:
        value = int(float(match[1]) * 1000 ** " kmgt".index(match[2].lower() or " "))
    except (TypeError, ValueError):
        value = 0
    if value <= 0:
        raise ValueError(f"must be a size such as 8GB, not '{text}'")
    return value


def memory_limit_bytes(available: int, asked: int | None) -> int:
    """Memory that a worker may use before it is stopped: as asked, else nine tenths of what is available.

    Raises:
        UserError: more was asked for than there is.
    """
    if asked is None:
        return available * 9 // 10
    if asked > available:
        raise UserError(f"--memory-limit {asked}: {available} bytes are available; ask for less with --memory-limit")
    return asked
