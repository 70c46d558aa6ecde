"""Each finding on a tree that has it, and none of it on a tree that has not."""

import pytest

from benchmarks.hardware import allowed_cpus, conditions
from benchmarks.hardware.conditions import Conditions, read_conditions
from benchmarks.hardware.doctor import examine
from benchmarks.hardware.repeat import time_work
from tests.hardware.trees import make_cgroup, make_machine, paper, write_files

CPU = "sys/devices/system/cpu"


def quiet(root, cpus=4):
    """A machine that is as it should be: nothing to find."""
    return write_files(
        make_machine(root, cores=cpus),
        {
            **{f"{CPU}/cpu{number}/cpufreq/scaling_governor": "performance" for number in range(cpus)},
            **{f"{CPU}/cpu{number}/thermal_throttle/core_throttle_count": 0 for number in range(cpus)},
            f"{CPU}/intel_pstate/no_turbo": 1,
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
            "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
            "proc/loadavg": "0.05 0.20 0.30 1/200 4242",
            "proc/stat": stat([[100, 0, 50, 9000, 10, 0, 5, 0, 0, 0]] * cpus),
            "proc/meminfo": "MemTotal: 1000 kB\nSwapTotal:        0 kB\nSwapFree:         0 kB",
            "proc/sys/vm/swappiness": 60,
            "proc/sys/kernel/numa_balancing": 0,
            "proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vme avx2",
        },
    )


def stat(ticks):
    """/proc/stat: one row of ticks per CPU."""
    lines = [f"cpu{number} {' '.join(map(str, row))}" for number, row in enumerate(ticks)]
    total = " ".join(map(str, map(sum, zip(*ticks, strict=True))))
    return "\n".join([f"cpu  {total}", *lines, "ctxt 1234567", "intr 99 1 2 3"])


def found(root, cpus=(0, 1), between=lambda: None):
    return examine(read_conditions(list(cpus), 0.5, root, sleep=lambda seconds: between()))


def test_a_quiet_machine(tmp_path):
    assert found(quiet(tmp_path)) == []


def test_no_tree_at_all(tmp_path):
    findings = found(tmp_path)
    assert [finding.name for finding in findings] == ["governor"] and findings[0].observed == "cannot be read"


FINDINGS = {
    "governor": ({f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave"}, "powersave on CPU 1", "cpupower"),
    "turbo": ({f"{CPU}/intel_pstate/no_turbo": 0}, "on", "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_t"),
    "heat": ({f"{CPU}/cpu0/thermal_throttle/core_throttle_count": 7}, "slowed down 7 times", "cooling"),
    "battery": (
        {"sys/class/power_supply/AC/type": "Mains", "sys/class/power_supply/AC/online": 0},
        "runs on it",
        "plug",
    ),
    "load": ({"proc/loadavg": "1.54 0.20 0.30 1/200 4242"}, "1.54 over the last minute", "top"),
    "steal": ({"proc/stat": stat([[100, 0, 50, 800, 0, 0, 0, 50, 0, 0]] * 4)}, "5.0% of the time", "dedicated"),
    "huge pages": (
        {"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never"},
        "always on",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    ),
    "swap": ({"proc/meminfo": "SwapTotal: 2000000 kB\nSwapFree: 1500000 kB"}, "0.51 GB", "swapoff"),
    "swappiness": ({"proc/meminfo": "SwapTotal: 2000000 kB\nSwapFree: 2000000 kB"}, "60", "vm.swappiness=1"),
    "virtual machine": ({"proc/cpuinfo": "flags\t\t: fpu hypervisor avx2"}, "yes", "--repeats"),
    "clock source": (
        {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"},
        "hpet",
        "echo tsc | sudo tee",
    ),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_each_finding(tmp_path, name):
    files, observed, mend = FINDINGS[name]
    findings = found(write_files(quiet(tmp_path), files))
    assert [finding.name for finding in findings] == [name]
    assert observed in findings[0].observed and mend in findings[0].mend and findings[0].why
    assert findings[0].short == f"{name}: {findings[0].observed}" and "\n" not in findings[0].short


def test_boost_of_amd(tmp_path):
    root = quiet(tmp_path)
    (root / CPU / "intel_pstate/no_turbo").unlink()
    (finding,) = found(write_files(root, {f"{CPU}/cpufreq/boost": 1}))
    assert finding.mend == "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"


def test_other_cpus_do_not_matter(tmp_path):
    root = write_files(
        quiet(tmp_path),
        {
            f"{CPU}/cpu3/cpufreq/scaling_governor": "powersave",
            f"{CPU}/cpu3/thermal_throttle/core_throttle_count": 9,
            "proc/stat": stat([[100, 0, 50, 800, 0, 0, 0, 0]] * 3 + [[0, 0, 0, 0, 0, 0, 0, 900]]),
        },
    )
    assert found(root, [0, 1]) == []


def process(name, used, cpu):
    """/proc/<pid>/stat; names may hold anything."""
    return f"77 ({name}) R 1 77 77 0 -1 0 1 2 3 4 {used} 0 0 0 20 0 1 0 500 1 1 {' '.join(['0'] * 14)} {cpu} 0 0"


def test_processes_that_use_the_cpus(tmp_path):
    root = write_files(
        quiet(tmp_path),
        {"proc/77/stat": process("a (b) c", 1000, 1), "proc/78/stat": process("idle", 5, 0), "proc/79/stat": "gone"},
    )

    def half_a_second_later():
        busy = [[100 + used, 0, 50, 9050 - used, 10, 0, 5, 0, 0, 0] for used in (0, 40, 0, 0)]
        write_files(root, {"proc/stat": stat(busy), "proc/77/stat": process("a (b) c", 1040, 1)})

    (finding,) = found(root, between=half_a_second_later)
    assert finding.short == "busy CPUs: 40% of CPU 0-1 is in use by a (b) c"
    write_files(root, {"proc/stat": stat([[100, 0, 50, 9000, 10, 0, 5, 0, 0, 0]] * 4)})
    assert found(root, [2, 3], half_a_second_later) == []


def test_quota_and_throttling(tmp_path):
    root = make_cgroup(
        quiet(tmp_path), "/box", {"box": {"cpu.max": "150000 100000", "cpu.stat": "nr_periods 900\nnr_throttled 12"}}
    )
    assert [finding.name for finding in found(root)] == ["CPU quota", "throttling"]
    assert "1.5 CPUs" in found(root)[0].short and "12 times" in found(root)[1].short


def test_threads_that_share_cores(tmp_path):
    root = paper(quiet(tmp_path, 128))
    findings = found(root, [0, 64, 1])
    assert [finding.name for finding in findings] == ["SMT", "siblings"]
    assert "each of 1 cores" in findings[0].short and "CPU 65 shares" in findings[1].short
    assert "--machine physical" in findings[0].mend


def test_several_nodes(tmp_path, monkeypatch):
    root = write_files(paper(quiet(tmp_path, 128)), {"proc/sys/kernel/numa_balancing": 1})
    monkeypatch.setattr(conditions.shutil, "which", lambda name: None)
    assert [finding.name for finding in found(root, [0, 64])] == ["SMT", "NUMA balancing", "numactl"]
    monkeypatch.setattr(conditions.shutil, "which", lambda name: "/usr/bin/numactl")
    assert [finding.name for finding in found(root, [0, 64])] == ["SMT", "NUMA balancing"]


def test_this_machine_can_be_read():
    facts = read_conditions([0], 0.01)
    assert isinstance(facts, Conditions)
    assert all(len(finding.short) < 200 for finding in examine(facts))


def test_work_is_timed(monkeypatch):
    monkeypatch.setattr("benchmarks.hardware.repeat.ROWS", 1000)
    seconds = time_work(sorted(allowed_cpus())[:2], 3)
    assert len(seconds) == 3 and all(0 < item < 10 for item in seconds)
