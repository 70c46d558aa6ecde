import pytest

from benchmarks.hardware.kernel import parse_numbers, show_numbers
from benchmarks.hardware.topology import Cpu, Topology, read_topology
from tests.hardware.trees import epyc, hybrid, make_machine, paper, write_files


@pytest.mark.parametrize(
    ("text", "numbers"), [("0-3,8", [0, 1, 2, 3, 8]), ("5", [5]), ("", []), ("0,2-2,1", [0, 1, 2]), ("x,1", [1])]
)
def test_lists_of_numbers(text, numbers):
    assert parse_numbers(text) == numbers and parse_numbers(show_numbers(numbers)) == numbers


def test_the_papers_machine(tmp_path):
    topology = read_topology(paper(tmp_path))
    assert len(topology.cpus) == 128 and topology.memory_nodes == (0, 1)
    assert topology.cpus[33] == Cpu(number=33, socket=1, core=1, node=1, siblings=(33, 97))
    assert topology.cpus[97] == Cpu(number=97, socket=1, core=1, node=1, siblings=(33, 97))
    assert topology.cpus[97].first_sibling == 33


def test_one_socket_of_four_nodes(tmp_path):
    topology = read_topology(epyc(tmp_path))
    assert {cpu.socket for cpu in topology.cpus} == {0} and topology.memory_nodes == (0, 1, 2, 3)
    assert [topology.cpus[number].node for number in (0, 15, 16, 63, 64, 127)] == [0, 0, 1, 3, 0, 3]


def test_no_numa_folder(tmp_path):
    topology = read_topology(make_machine(tmp_path, cores=4, nodes=None))
    assert [cpu.node for cpu in topology.cpus] == [None] * 4 and topology.memory_nodes == ()


def test_offline_cpus_are_not_there(tmp_path):
    topology = read_topology(paper(tmp_path, offline=range(64, 128)))
    assert [cpu.number for cpu in topology.cpus] == list(range(64))
    assert topology.cpus[40].siblings == (40,)


def test_a_node_without_memory(tmp_path):
    assert read_topology(paper(tmp_path, memory_nodes=[0])).memory_nodes == (0,)


def test_hybrid_on_intel(tmp_path):
    kinds = [cpu.kind for cpu in read_topology(hybrid(tmp_path)).cpus]
    assert kinds == ["performance"] * 16 + ["efficiency"] * 8


def test_hybrid_on_arm(tmp_path):
    root = make_machine(tmp_path, cores=8)
    for cpu, capacity in enumerate([350] * 4 + [870] * 3 + [1024]):
        write_files(root, {f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity": capacity})
    assert [cpu.kind for cpu in read_topology(root).cpus] == ["efficiency"] * 4 + ["performance"] * 4


def test_no_tree_at_all(tmp_path):
    assert read_topology(tmp_path) == Topology()


def test_a_tree_that_says_little(tmp_path):
    """Some ARM machines give -1 as socket, and old kernels no list of what is online."""
    for cpu in range(2):
        write_files(tmp_path, {f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id": -1})
    assert read_topology(tmp_path).cpus == (Cpu(0, siblings=(0,)), Cpu(1, siblings=(1,)))
