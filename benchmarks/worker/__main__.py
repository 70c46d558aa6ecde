"""Entry point: `python -m benchmarks.worker job.json`.

The worker builds the index, or loads it where an earlier worker saved it, then measures the points one after the
other. Everything it says goes as JSON lines into `events.jsonl` of the output folder; ids and times go into .npy
files. After each point it waits until the host has judged it (a file named `judged` appears), so that the host never
computes while something is being timed. What that file holds are further points, for a search that goes on where the
last answer leads. A point that raises ends the process: the host starts a fresh one for the rest.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
import traceback
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks.worker import process
from benchmarks.worker.algorithm import Algorithm
from benchmarks.worker.protocol import BUILD_FILE, EVENTS_FILE, JUDGED_FILE
from benchmarks.worker.timing import measure
from benchmarks.worker.vectors import map_vectors


class Events:
    """Appends one JSON line per event; the line is in the file before `say` returns."""

    def __init__(self, path):
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115
        self._pid = os.getpid()

    def end_copies(self):
        """End this process if it is a fork that an adapter let return: there is one worker."""
        if os.getpid() != self._pid:
            os._exit(1)

    def say(self, event, **facts):
        self.end_copies()
        self._file.write(json.dumps({"event": event, **facts}) + "\n")
        self._file.flush()


def load_adapter(path, class_name):
    """An instance of `class_name` from the adapter file at `path`."""
    spec = importlib.util.spec_from_file_location("algorithm_under_test", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, class_name)()


def can_save(algorithm):
    """Whether the adapter defines the optional pair `save` and `load`."""
    return type(algorithm).save is not Algorithm.save and type(algorithm).load is not Algorithm.load


def prepare_index(algorithm, job, events):
    """Load the index that the job's folder holds, or build and save it. Returns True if it was saved just now."""
    directory = Path(job["index_directory"])
    if (directory / BUILD_FILE).exists():
        start = perf_counter()
        algorithm.load(str(directory / "index"), threads=job["threads"])
        events.say("loaded", load_seconds=perf_counter() - start)
        return False
    base = map_vectors(job["base"])
    learn = map_vectors(job["learn"]) if job["learn"] else None
    events.say("building")
    start = perf_counter()
    algorithm.build(
        base, distance=job["distance"], threads=job["threads"], seed=job["seed"], learn=learn, **job["build_params"]
    )
    facts = {
        "build_seconds": perf_counter() - start,
        "build_peak_bytes": process.peak_memory_bytes(),
        "index_bytes": None,
    }
    if can_save(algorithm):
        index = directory / "index"
        index.mkdir(parents=True, exist_ok=True)
        algorithm.save(str(index))
        facts["index_bytes"] = sum(file.stat().st_size for file in index.rglob("*") if file.is_file())
        partial = directory / (BUILD_FILE + ".partial")
        partial.write_text(json.dumps(facts))
        os.replace(partial, directory / BUILD_FILE)
    events.say("built", **facts)
    return can_save(algorithm)


def writable(text):
    """Text that any file can hold: half a surrogate pair is spelt out."""
    return text.encode("utf-8", "backslashreplace").decode()


def plain(stats):
    """What an adapter tells of itself, as JSON can hold it."""
    facts = {}
    for name, value in dict(stats or {}).items():
        value = value.item() if isinstance(value, np.generic) else value
        if not isinstance(value, (bool, int, float, str)) or value != value or value in (float("inf"), -float("inf")):
            raise TypeError(f"stats: {name} must be a finite number, a boolean or a text, not {value!r}")
        facts[writable(str(name))] = writable(value) if isinstance(value, str) else value
    return facts


def run_point(algorithm, point, queries, job, events):
    """Measure one point, write its arrays, wait for the host. Returns the points that it asks for now, mostly none."""
    output = Path(job["output"]) / point["id"]
    output.mkdir()
    events.say("point_started", point=point["id"])
    process.reset_peak_memory()
    measured = measure(algorithm, queries, job["k"], job["mode"], job["repeats"], dict(point["search_params"]))
    events.end_copies()
    for name in ("neighbors", "search_seconds", "latency"):
        if measured[name] is not None:
            np.save(output / (name + ".npy"), measured[name])
    told = algorithm.distances() if job["mode"] == "batch" and not measured["answers_vary"] else None
    if told is not None:
        np.save(output / "told.npy", np.asarray(told, np.float64))
    events.say(
        "point_done",
        point=point["id"],
        answers_vary=bool(measured["answers_vary"]),
        search_peak_bytes=process.peak_memory_bytes(),
        search_cpu_seconds=measured["search_cpu_seconds"],
        caller_cpu_seconds=measured["caller_cpu_seconds"],
        stats=plain(algorithm.stats()),
        **process.observe_threads(),
    )
    while not (output / JUDGED_FILE).exists():
        time.sleep(0.002)
    return json.loads((output / JUDGED_FILE).read_text() or "[]")


def run(job, events):
    """Do the whole job; returns the exit code."""
    stage, point = "import", None
    try:
        algorithm = load_adapter(job["adapter"], job["class_name"])
        events.say("started", pid=os.getpid(), **process.observe())
        stage = "build"
        if prepare_index(algorithm, job, events):
            return 0
        stage = "search"
        queries = np.ascontiguousarray(map_vectors(job["queries"]))
        points = list(job["points"])
        while points:
            point = points.pop(0)
            points += run_point(algorithm, point, queries, job, events)
        events.say("finished")
        return 0
    except BaseException as error:
        traceback.print_exc()
        events.say(
            "raised",
            stage=stage,
            point=point and point["id"],
            type=type(error).__name__,
            message=writable(str(error).strip()[:500]),
            memory=isinstance(error, MemoryError),
            errno=getattr(error, "errno", None),
        )
        return 1


def main(job_path):
    """Pin, bind to the host's life, do the job, exit."""
    job = json.loads(Path(job_path).read_text())
    process.die_with(job["host_pid"])
    process.pin(job["cpus"])
    process.prefer_as_oom_victim()
    sys.exit(run(job, Events(Path(job["output"]) / EVENTS_FILE)))


if __name__ == "__main__":
    main(sys.argv[1])
