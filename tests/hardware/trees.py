"""/sys and /proc trees of machines that are not here, from a compact description; files are as the kernel has them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.hardware.kernel import show_numbers


def write_files(root: Path, files: Mapping[str, object]) -> Path:
    """Files below `root`, each with a line end."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return root


def make_machine(
    root: Path,
    *,
    sockets: int = 1,
    cores: int = 4,
    smt: int = 1,
    nodes: int | None = 1,
    small: int = 0,
    offline: Iterable[int] = (),
    memory_nodes: Iterable[int] | None = None,
    node_gb: int = 128,
) -> Path:
    """A machine, numbered as Linux does: the first thread of every core, socket by socket, then the second ones.

    Args:
        sockets, cores, smt: so many sockets of so many cores with so many hardware threads each.
        nodes: NUMA nodes per socket, each with an equal share of its cores; None for a kernel without NUMA.
        small: efficiency cores behind all others, on the last socket, one thread each.
        offline: CPUs that are switched off; they keep their folder, but not the topology in it.
        memory_nodes: nodes that have memory (default: all).
    """
    offline = set(offline)
    places = [  # (CPU, socket, core, node)
        (
            thread * sockets * cores + socket * cores + core,
            socket,
            core,
            nodes and socket * nodes + core * nodes // cores,
        )
        for thread in range(smt)
        for socket in range(sockets)
        for core in range(cores)
    ]
    large = len(places)
    places += [(large + number, sockets - 1, cores + number, nodes and sockets * nodes - 1) for number in range(small)]
    online = [place for place in places if place[0] not in offline]
    files: dict[str, object] = {
        "sys/devices/system/cpu/online": show_numbers(cpu for cpu, *_ in online),
        "sys/devices/system/cpu/offline": show_numbers(offline),
        "sys/devices/system/cpu/present": show_numbers(cpu for cpu, *_ in places),
        "sys/devices/system/cpu/possible": show_numbers(cpu for cpu, *_ in places),
    }
    for cpu, socket, core, _ in places:
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        if cpu or offline:
            files[f"{folder}/online"] = int(cpu not in offline)
        if cpu in offline:
            continue
        siblings = show_numbers(other for other, *at, _ in online if at == [socket, core])
        files |= {
            f"{folder}/topology/physical_package_id": socket,
            f"{folder}/topology/die_id": 0,
            f"{folder}/topology/core_id": core,
            f"{folder}/topology/thread_siblings_list": siblings,
            f"{folder}/topology/core_cpus_list": siblings,
        }
    if small:
        files["sys/devices/cpu_core/cpus"] = show_numbers(range(large))
        files["sys/devices/cpu_atom/cpus"] = show_numbers(range(large, large + small))
    if nodes:
        numbers = range(sockets * nodes)
        filled = list(numbers if memory_nodes is None else memory_nodes)
        files["sys/devices/system/node/online"] = show_numbers(numbers)
        files["sys/devices/system/node/has_memory"] = show_numbers(filled)
        for node in numbers:
            folder, size = f"sys/devices/system/node/node{node}", (node in filled) * node_gb * 10**6
            files[f"{folder}/cpulist"] = show_numbers(cpu for cpu, *_, of in online if of == node)
            files[f"{folder}/meminfo"] = "\n".join(
                f"Node {node} {name + ':':16}{value:>12} kB"
                for name, value in {
                    "MemTotal": size,
                    "MemFree": size // 2,
                    "Active(file)": size // 16,
                    "Inactive(file)": size // 16,
                    "Active(anon)": size // 4,
                    "SReclaimable": size // 64,
                }.items()
            )
    return write_files(root, files)


def make_cgroup(
    root: Path,
    path: str,
    files: Mapping[str, Mapping[str, object]],
    *,
    controllers: str = "",
    mounted_from: str = "/",
) -> Path:
    """This process is in the group `path`.

    Args:
        path: as /proc/self/cgroup names it.
        files: folder relative to the mount point → files in it.
        controllers: of version 1, such as `cpu,cpuacct`; empty for version 2.
        mounted_from: the group that the mount point shows; another than / in a container without a namespace.
    """
    point = f"sys/fs/cgroup/{controllers}" if controllers else "sys/fs/cgroup"
    kind = f"cgroup cgroup rw,{controllers}" if controllers else "cgroup2 cgroup2 rw,nsdelegate"
    for folder, content in files.items():
        (root / point / folder).mkdir(parents=True, exist_ok=True)
        write_files(root / point / folder, content)
    tables = root / "proc/self"
    tables.mkdir(parents=True, exist_ok=True)
    with (tables / "mountinfo").open("a") as file:
        file.write(f"33 24 0:30 {mounted_from} /{point} rw,nosuid,nodev,noexec,relatime shared:9 - {kind}\n")
    with (tables / "cgroup").open("a") as file:
        file.write(f"{4 if controllers else 0}:{controllers}:{path}\n")
    return root


def paper(root: Path, **more) -> Path:
    """Two Xeon Gold 6338: CPUs 0-31 on socket 0, 32-63 on socket 1, 64-127 their siblings; a node each."""
    return make_machine(root, sockets=2, cores=32, smt=2, **more)


def epyc(root: Path, **more) -> Path:
    """One EPYC of 64 cores in NPS4: four NUMA nodes on one socket."""
    return make_machine(root, cores=64, smt=2, nodes=4, **more)


def hybrid(root: Path) -> Path:
    """A desktop of 8 performance cores with two threads and 8 efficiency cores with one."""
    return make_machine(root, cores=8, smt=2, small=8)
