import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.errors import UserError
from benchmarks.hardware.limits import CgroupLimits
from benchmarks.hardware.placement import place
from benchmarks.hardware.profiles import Profile, find_profiles, load_profile
from benchmarks.hardware.topology import Cpu, Topology, read_topology
from tests.hardware.trees import epyc, hybrid, make_machine, paper

PROFILES = {name: load_profile(name) for name in find_profiles()}


def placed(root, profile, threads=None, allowed=None, **limits):
    topology = read_topology(root)
    allowed = {cpu.number for cpu in topology.cpus} if allowed is None else set(allowed)
    return place(topology, allowed, PROFILES[profile], threads, CgroupLimits(**limits))


def test_profiles_that_come_with_it():
    assert {"auto", "socket64", "socket", "physical", "single", "all"} <= set(PROFILES)


# -- the paper's machine


def test_the_papers_profile_on_the_papers_machine(tmp_path):
    placement = placed(paper(tmp_path), "socket64")
    assert sorted(placement.cpus) == [*range(32), *range(64, 96)]
    assert placement.cpus[:4] == [0, 64, 1, 65]
    assert (placement.memory_nodes, placement.sockets, placement.cores, placement.notes) == ([0], [0], 32, [])
    assert placement.describe() == "machine socket64: CPUs 0-31,64-95 of socket 0, 32 cores, memory of node 0"


@pytest.mark.parametrize(
    ("profile", "threads", "cpus"),
    [
        ("auto", None, [*range(32), *range(64, 96)]),
        ("auto", 8, list(range(8))),
        ("auto", 33, [*range(32), 64]),
        ("socket", None, [*range(32), *range(64, 96)]),
        ("physical", None, list(range(32))),
        ("physical", 3, [0, 1, 2]),
        ("single", None, [0]),
        ("socket64", 4, [0, 64, 1, 65]),
        ("all", None, list(range(128))),
        ("all", 65, list(range(65))),
    ],
)
def test_order_of_cpus(tmp_path, profile, threads, cpus):
    assert placed(paper(tmp_path), profile, threads).cpus == cpus


def test_the_socket_with_more_to_offer_is_taken(tmp_path):
    placement = placed(paper(tmp_path), "socket", allowed=[0, 1, *range(40, 50)])
    assert placement.cpus == list(range(40, 50)) and placement.memory_nodes == [1] and placement.sockets == [1]
    assert placement.notes == ["left out: 2 CPUs of other sockets; --machine all takes every one"]


@pytest.mark.parametrize(
    ("profile", "threads", "told"),
    [
        ("physical", 33, "--threads 33: this process may use 32 CPUs of 1 socket, one per core; pass --threads 32 or"),
        ("auto", 100, "pass --threads 64 or fewer, or --machine all"),
        ("all", 129, "--threads 129: this process may use 128 CPUs; pass --threads 128 or fewer"),
        ("single", 2, "--threads 2: machine profile single is made for 1; pass another --machine, or --threads 1"),
    ],
)
def test_too_many_threads(tmp_path, refusal, profile, threads, told):
    assert told in refusal(placed, paper(tmp_path), profile, threads)


# -- other machines


def test_a_smaller_host_names_the_flags(tmp_path, refusal):
    message = refusal(placed, make_machine(tmp_path, cores=8, smt=2), "socket64")
    assert message == (
        "machine profile socket64 needs 64 threads and this process may use 16 CPUs of 1 socket; "
        "pass --machine socket, or --threads 16"
    )
    assert placed(tmp_path, "socket64", 16).threads == 16


def test_four_nodes_on_one_socket(tmp_path):
    """Threads fill one node after the other; memory is that of the socket, where the nearest comes first."""
    root = epyc(tmp_path)
    assert placed(root, "physical", 16).cpus == list(range(16))
    assert placed(root, "auto").cpus == list(range(64)) and placed(root, "socket").threads == 128
    assert placed(root, "auto").notes == ["64 of 128 CPUs are used; --threads N takes more"]
    assert placed(root, "auto", 16).memory_nodes == [0, 1, 2, 3]
    half = placed(root, "socket64")
    assert sorted(half.cpus) == [*range(32), *range(64, 96)] and half.cores == 32


def test_vm_without_a_numa_folder(tmp_path):
    placement = placed(make_machine(tmp_path, cores=4, nodes=None), "auto")
    assert placement.cpus == [0, 1, 2, 3] and placement.memory_nodes == [] and placement.notes == []
    assert placement.describe() == "machine auto: CPUs 0-3 of socket 0, 4 cores, any memory"


def test_vm_where_each_cpu_claims_a_socket(tmp_path):
    placement = placed(make_machine(tmp_path, sockets=8, cores=1, nodes=None), "auto")
    assert placement.cpus == list(range(8)) and "count as one socket" in placement.notes[0]


def test_container_with_three_cpus(tmp_path):
    """The mask that the kernel gives is narrowed already; a sandbox that does not narrow it has the cpuset alone."""
    root = paper(tmp_path)
    for allowed in ({3, 4, 68}, set(range(128))):
        placement = placed(root, "auto", allowed=allowed, cpus=frozenset({3, 4, 68}))
        assert placement.cpus == [3, 4, 68] and placement.cores == 2
    assert placed(root, "physical", allowed={3, 4, 68}).cpus == [3, 4]
    assert placed(root, "physical", allowed={68}).cpus == [68]


def test_hybrid(tmp_path):
    root = hybrid(tmp_path)
    auto = placed(root, "auto")
    assert auto.cpus == list(range(16)) and auto.cores == 8
    assert auto.notes == ["left out: 8 efficiency cores; --threads 24 takes them too"]
    assert placed(root, "physical").cpus == list(range(8))
    more = placed(root, "auto", 18)
    assert more.cpus == list(range(18))
    assert more.notes == ["2 of the 18 threads run on efficiency cores: timings are of a mixture"]
    assert placed(root, "all").threads == 24
    assert placed(root, "auto", allowed=range(16, 24)).cpus == list(range(16, 24))


def test_offline_cpus(tmp_path):
    root = paper(tmp_path, offline=range(64, 128))
    assert placed(root, "socket").cpus == list(range(32))
    assert "pass --machine socket, or --threads 32" in str(refused(root, "socket64"))


def refused(*arguments, **options):
    with pytest.raises(UserError) as caught:
        placed(*arguments, **options)
    return caught.value


def test_smt_that_is_switched_off_is_told(tmp_path):
    placement = placed(make_machine(tmp_path, cores=96), "socket64")
    assert placement.threads == placement.cores == 64 and "has its own core" in placement.notes[0]


def test_no_tree_at_all(tmp_path):
    placement = placed(tmp_path, "auto", allowed=range(10))
    assert placement.cpus == list(range(10)) and placement.memory_nodes == [] and placement.sockets == []
    assert placement.notes == ["this system does not tell which socket a CPU belongs to: every CPU counts as of one"]
    assert placed(tmp_path, "auto", allowed=range(100)).threads == 64
    assert placed(tmp_path, "auto", 80, allowed=range(100)).threads == 80


def test_two_sockets(tmp_path, refusal):
    both = Profile(name="both", title="Two", sockets=2)
    topology = read_topology(paper(tmp_path))
    assert place(topology, set(range(128)), both).memory_nodes == [0, 1]
    assert "needs 2 sockets" in refusal(place, topology, set(range(32)), both)


# -- limits


@pytest.mark.parametrize(
    ("quota", "threads", "taken", "notes"),
    [
        (1.5, None, 1, ["the cgroup allows the time of 1.5 CPUs: 1 thread used"]),
        (
            0.5,
            None,
            1,
            ["the cgroup allows the time of 0.5 CPUs: 1 thread used", "the one thread will be held back by it"],
        ),
        (3.0, None, 3, ["the cgroup allows the time of 3 CPUs: 3 threads used"]),
        (1.5, 2, 2, ["the cgroup allows the time of 1.5 CPUs: 2 threads will be held back by it"]),
        (2.0, 2, 2, []),
        (8.0, None, 4, []),
    ],
)
def test_quota(tmp_path, quota, threads, taken, notes):
    placement = placed(make_machine(tmp_path, cores=4), "auto", threads, quota=quota)
    assert placement.threads == taken and placement.notes == notes


def test_quota_below_the_profile(tmp_path):
    message = str(refused(paper(tmp_path), "socket64", quota=8.5))
    assert "the cgroup allows the time of 8.5; pass --machine socket, or --threads 8" in message


@pytest.mark.parametrize(
    ("memory", "nodes"), [({0, 1}, [0]), ({1}, []), ({0}, [0])], ids=["both", "the other", "its own"]
)
def test_memory_that_the_cgroup_allows(tmp_path, memory, nodes):
    placement = placed(paper(tmp_path), "socket64", memory_nodes=frozenset(memory))
    assert placement.memory_nodes == nodes
    assert placement.notes == (
        [] if nodes else ["no memory of node 0, where the CPUs are, may be used: it comes from elsewhere"]
    )


def test_memory_of_a_node_that_has_none(tmp_path):
    assert placed(paper(tmp_path, memory_nodes=[1]), "socket").memory_nodes == []


# -- laws


@st.composite
def machines(draw):
    """A topology, and what of it a process may use."""
    sockets, cores, smt = draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(st.integers(1, 2))
    nodes, small = draw(st.sampled_from([None, 1, 2])), draw(st.integers(0, 3))
    cpus = [
        Cpu(
            number=thread * sockets * cores + socket * cores + core,
            socket=socket,
            core=core,
            node=nodes and socket * nodes + core % nodes,
            siblings=tuple(other * sockets * cores + socket * cores + core for other in range(smt)),
        )
        for thread in range(smt)
        for socket in range(sockets)
        for core in range(cores)
    ]
    cpus += [
        Cpu(len(cpus) + number, 0, cores + number, nodes and 0, (len(cpus) + number,), "efficiency")
        for number in range(small)
    ]
    allowed = draw(st.sets(st.sampled_from(range(len(cpus))), min_size=1))
    return Topology(tuple(cpus), tuple(range(sockets * (nodes or 0)))), allowed


@given(machines(), st.sampled_from(sorted(PROFILES)), st.none() | st.integers(1, 12), st.none() | st.floats(0.1, 20))
def test_laws(machine, name, threads, quota):
    topology, allowed = machine
    profile, cpus = PROFILES[name], {cpu.number: cpu for cpu in topology.cpus}
    try:
        placement = place(topology, allowed, profile, threads, CgroupLimits(quota=quota))
    except UserError as error:
        assert "--machine" in str(error) or "--threads" in str(error)
        assert threads or profile.threads
        return
    taken = [cpus[number] for number in placement.cpus]
    assert taken and set(placement.cpus) <= allowed and len(set(placement.cpus)) == len(taken)
    assert len(taken) == (threads or profile.threads or len(taken))
    cores = [cpu.first_sibling for cpu in taken]
    assert len(set(cores)) == placement.cores
    if profile.smt == "never":
        assert placement.cores == len(taken)
    if profile.smt == "last" and not any(cpu.kind == "efficiency" for cpu in taken):
        of_sockets = [cpu for cpu in topology.cpus if cpu.number in allowed and cpu.socket in placement.sockets]
        idle = {cpu.first_sibling for cpu in of_sockets if cpu.kind == "performance"} - set(cores)
        assert not idle or placement.cores == len(taken), "a core is shared while another is idle"
    if profile.sockets == 1 and placement.sockets:
        assert {cpu.socket for cpu in taken} == set(placement.sockets) and len(placement.sockets) == 1
    assert set(placement.memory_nodes) <= {cpu.node for cpu in topology.cpus}
    if threads and threads > 1:
        fewer = place(topology, allowed, profile, threads - 1, CgroupLimits(quota=quota))
        assert fewer.cpus == placement.cpus[:-1], "fewer threads take the first of the same CPUs"


# -- profiles


def test_profile_by_path(tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text("title: Mine\nthreads: 2\nsmt: never\nmemory_limit: 20GB\n")
    profile = load_profile(str(path))
    assert (profile.name, profile.threads, profile.memory_limit) == ("mine", 2, "20GB")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("title: A\nthread: 2\n", "a.yml:2: unknown key 'thread'; did you mean 'threads'?"),
        ("title: A\nsmt: sometimes\n", "a.yml:2: smt: "),
        ("title: A\nmemory_limit: much\n", "a.yml:2: memory_limit: must be a size such as 8GB"),
        ("title: A\nthreads: 1\nmost_threads: 2\n", "either threads or most_threads"),
        ("threads: 1\n", "title"),
    ],
)
def test_profiles_that_are_wrong(tmp_path, refusal, content, told):
    path = tmp_path / "a.yml"
    path.write_text(content)
    assert told in refusal(load_profile, str(path))


def test_unknown_profiles(refusal):
    assert "unknown machine profile 'soket'; did you mean socket?" in refusal(load_profile, "soket")
    assert "cannot be read" in refusal(load_profile, "/nowhere/mine.yml")
