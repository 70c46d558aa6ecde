from types import SimpleNamespace

import pytest

from benchmarks.hardware import limits
from benchmarks.hardware.limits import (
    CgroupLimits,
    available_memory_bytes,
    cgroup_folders,
    memory_limit_bytes,
    parse_size,
    read_limits,
)
from tests.hardware.trees import make_cgroup, paper, write_files

GB = 10**9
V1_NONE = 9223372036854771712


def test_nothing_is_limited(tmp_path):
    make_cgroup(tmp_path, "/", {"": {"cpu.max": "max 100000", "memory.max": "max", "memory.current": 5}})
    assert read_limits(tmp_path) == read_limits(tmp_path / "nowhere") == CgroupLimits()


def test_version_2_takes_the_tightest_of_nested_groups(tmp_path):
    make_cgroup(
        tmp_path,
        "/kube/pod/box",
        {
            "": {"cpuset.cpus.effective": "0-7", "cpuset.mems.effective": "0-1"},
            "kube": {"cpu.max": "800000 100000", "memory.max": 9 * GB, "memory.current": 5 * GB},
            "kube/pod": {
                "cpu.max": "150000 100000",
                "memory.max": "max",
                "cpuset.cpus.effective": "1-3",
                "cpuset.mems.effective": "1",
            },
            "kube/pod/box": {
                "cpu.max": "max 100000",
                "memory.max": 8 * GB,
                "memory.current": 3 * GB,
                "memory.stat": f"anon {2 * GB}\ninactive_file {GB // 2}\nactive_file {GB // 2}",
            },
        },
    )
    assert read_limits(tmp_path) == CgroupLimits(
        cpus=frozenset({1, 2, 3}),
        memory_nodes=frozenset({1}),
        quota=1.5,
        memory_bytes=8 * GB,
        free_bytes=4 * GB,  # of the outer group; the inner has 6 left
    )


def test_version_1(tmp_path):
    make_cgroup(tmp_path, "/a/b", {"a": quota(400_000), "a/b": quota(-1)}, controllers="cpu,cpuacct")
    make_cgroup(
        tmp_path,
        "/a/b",
        {
            "": {"memory.limit_in_bytes": V1_NONE, "memory.usage_in_bytes": 7},
            "a/b": {
                "memory.limit_in_bytes": 6 * GB,
                "memory.usage_in_bytes": 3 * GB,
                "memory.stat": f"inactive_file 0\ntotal_inactive_file {GB}\ntotal_active_file {GB}",
            },
        },
        controllers="memory",
    )
    make_cgroup(
        tmp_path, "/", {"": {"cpuset.effective_cpus": "2-4", "cpuset.effective_mems": "0"}}, controllers="cpuset"
    )
    assert read_limits(tmp_path) == CgroupLimits(frozenset({2, 3, 4}), frozenset({0}), 4.0, 6 * GB, 5 * GB)


def quota(microseconds):
    return {"cpu.cfs_quota_us": microseconds, "cpu.cfs_period_us": 100_000}


def test_a_container_that_sees_the_path_of_the_host(tmp_path):
    """Without a namespace of its own, /proc says where the group is on the host, and the mount begins there."""
    make_cgroup(
        tmp_path,
        "/docker/abc/inner",
        {"": {"memory.max": 4 * GB}, "inner": {"memory.max": 2 * GB}, "docker/abc": {"memory.max": 1}},
        mounted_from="/docker/abc",
    )
    assert read_limits(tmp_path).memory_bytes == 2 * GB
    assert cgroup_folders(tmp_path, "memory") == [tmp_path / "sys/fs/cgroup/inner", tmp_path / "sys/fs/cgroup"]


@pytest.mark.parametrize(("path", "mounted_from"), [("/../../other", "/"), ("/docker/abcdef", "/docker/abc")])
def test_a_group_outside_of_what_is_mounted(tmp_path, path, mounted_from):
    make_cgroup(tmp_path, path, {"": {"cpu.max": "50000 100000"}}, mounted_from=mounted_from)
    assert read_limits(tmp_path).quota == 0.5


@pytest.fixture
def free(monkeypatch):
    monkeypatch.setattr(limits.psutil, "virtual_memory", lambda: SimpleNamespace(available=200 * GB))


def test_available_memory_is_the_least_of_machine_group_and_nodes(free, tmp_path):
    root = paper(tmp_path, node_gb=128)
    assert available_memory_bytes(root=root) == 200 * GB
    of_one = (64 + 8 + 8 + 2) * 10**6 * 1024
    assert available_memory_bytes([0], root) == of_one and available_memory_bytes([0, 1], root) == 2 * of_one
    make_cgroup(root, "/", {"": {"memory.max": 30 * GB, "memory.current": 10 * GB}})
    assert available_memory_bytes([0], root) == 20 * GB
    write_files(root, {"sys/fs/cgroup/memory.current": 31 * GB})
    assert available_memory_bytes([0], root) == 0


def test_available_memory_without_a_tree(free, tmp_path):
    assert available_memory_bytes([0], tmp_path) == 200 * GB


@pytest.mark.parametrize(
    ("text", "size"), [("8GB", 8 * GB), ("400 MB", 400 * 10**6), ("1.5g", 1_500_000_000), ("7", 7), ("2kB", 2000)]
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "GB", "-1GB", "1.2.3", "8GiB", "0.1"])
def test_no_sizes(text):
    with pytest.raises(ValueError, match="must be a size such as 8GB"):
        parse_size(text)


def test_memory_limit(refusal):
    assert memory_limit_bytes(1000, None) == 900
    assert memory_limit_bytes(1000, 1000) == 1000
    assert "--memory-limit 1001" in refusal(memory_limit_bytes, 1000, 1001)
