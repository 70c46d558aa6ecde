"""Carries out a plan: environments, workers, judging, result files. Every point ends as a file with a status."""

import errno
import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from benchmarks.cards.values import Value
from benchmarks.data.prepare import Dataset
from benchmarks.files import write_whole
from benchmarks.groundtruth.cache import GroundTruth
from benchmarks.hardware import Placement, allowed_cpus
from benchmarks.hardware.deviations import Asked, deviations, read_pins
from benchmarks.plan import BuildJob, Plan
from benchmarks.results.schema import Identity, Machine, Provenance, ResultRecord
from benchmarks.results.store import Store
from benchmarks.runner.environment import Environment, EnvironmentFailure
from benchmarks.runner.judge import distance_error, judge
from benchmarks.runner.supervise import Ending, Limits, watch
from benchmarks.runner.venv import end_orphans
from benchmarks.runner.workload import Workload
from benchmarks.worker.protocol import BUILD_FILE, EVENTS_FILE, JUDGED_FILE

WORK, INDEXES = ".work", ".indexes"
LINGER_SECONDS = 5  # for a worker that is done: what lets threads or helpers run on does not hold up the rest
KEEP_INDEX_SECONDS = 7 * 24 * 3600


class Observer:
    """Told of everything that happens; the command line's table derives from it."""

    def cleared(self, line: str) -> None: ...

    def job_started(self, job: BuildJob) -> None: ...

    def environment_failed(self, job: BuildJob, reason: str) -> None: ...

    def doing(self, job: BuildJob, what: str, params: dict[str, Value] | None = None) -> None: ...

    def point_ended(self, job: BuildJob, record: ResultRecord, found: str) -> None: ...

    def points_added(self, job: BuildJob, count: int) -> None: ...


@dataclass(frozen=True)
class Session:
    """Everything that is the same for all points of one run."""

    plan: Plan
    dataset: Dataset
    truth: GroundTruth
    store: Store
    runner: object
    placement: Placement
    limits: Limits
    command: str
    machine: Machine
    git: tuple[str | None, bool | None]
    findings: list[str] = field(default_factory=list)  # what makes timings unstable here
    skip_missing: bool = False
    observer: Observer = field(default_factory=Observer)
    further: Callable[[ResultRecord], list[Identity]] = lambda record: []  # points of the same build, to measure next
    keep_index: Callable[[BuildJob], bool] = lambda job: False  # for a run that follows

    @property
    def threads(self) -> int:
        return self.placement.threads


@dataclass
class BuildFacts:
    """What is known of a built index; filled as the worker tells."""

    build_seconds: float | None = None
    build_peak_bytes: int | None = None
    index_bytes: int | None = None
    load_seconds: float | None = None
    observed: dict = field(default_factory=dict)


def execute(session: Session) -> list[ResultRecord]:
    """Run every job of the plan; a failure of one is no end of the others.

    Returns:
        the records of all points that were run, in order. Points of a library whose environment cannot be built are
        failed, or left out if `skip_missing`.
    """
    for line in [*end_orphans(), *session.runner.clear()]:
        session.observer.cleared(line)
    clear_work(session.store)
    keep_truth(session)
    records: list[ResultRecord] = []
    work = session.store.folder / WORK / str(os.getpid())
    missing: dict[Path, str] = {}
    try:
        for job in session.plan.jobs:
            session.observer.job_started(job)
            run = JobRun(session, job, work, records.append)
            library = job.algorithm.directory
            if library not in missing:
                try:
                    environment = session.runner.prepare(
                        job.algorithm, lambda job=job: session.observer.doing(job, "building the environment")
                    )
                except EnvironmentFailure as failure:
                    missing[library] = f"the environment of {job.algorithm.name} cannot be built: {failure}"
                    session.observer.environment_failed(job, missing[library])
            if library not in missing:
                run.all_points(environment)
            elif not session.skip_missing:
                run.fail(list(job.points), "failed", missing[library])
    finally:
        session.runner.close()
        shutil.rmtree(work, ignore_errors=True)
        clear_indexes(session.store)
    return records


def keep_truth(session: Session) -> None:
    """Put what answers are judged by beside the results; also of a plan that is complete already."""
    plan, truth = session.plan, session.truth
    for identity in [*(job.points[0] for job in plan.jobs), *plan.complete][:1]:
        session.store.keep_truth(identity, truth.key, truth.neighbors, truth.distances)


def clear_work(store: Store) -> None:
    """Remove what a killed run left behind; the caller holds the folder's lock, so nothing there is in use."""
    shutil.rmtree(store.folder / WORK, ignore_errors=True)
    clear_indexes(store)
    store.sweep()


def clear_indexes(store: Store) -> None:
    """Remove indexes that were not saved whole; a whole one waits a week for the run that goes on."""
    for index in (store.folder / INDEXES).glob("*"):
        saved = index / BUILD_FILE
        if not saved.exists() or time.time() - saved.stat().st_mtime > KEEP_INDEX_SECONDS:
            shutil.rmtree(index, ignore_errors=True)


def _let_go(process) -> None:
    """Wait a little for a worker that has said all it will say."""
    end = time.monotonic() + LINGER_SECONDS
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)


def _ending_of(raised: dict) -> Ending:
    """What an exception in the worker means for the point."""
    reason = f"{raised['type']}: {raised['message'] or 'no message'}"
    if raised["errno"] in (errno.ENOSPC, errno.EDQUOT):
        reason = f"the disk is full ({reason}); free some space, or pass another --results-dir"
    return Ending("out-of-memory" if raised["memory"] else "failed", reason)


def _told(points: list[Identity]) -> list[dict]:
    """Points as a worker is told of them."""
    return [{"id": point.hash(), "search_params": point.search_params} for point in points]


class JobRun:
    """One build job: as many workers, one after the other, as it takes to bring every point to an end."""

    def __init__(self, session: Session, job: BuildJob, work: Path, ended: Callable[[ResultRecord], None]):
        self.session, self.job, self.work, self.ended = session, job, work, ended
        self.index = session.store.folder / INDEXES / job.hash()
        self.code = job.algorithm.code_hash()  # of what will run; the file may be edited meanwhile
        self.log = session.store.log_path(job.points[0], job.hash())
        self.asked = Asked(
            session.placement.cpus,
            session.placement.memory_nodes,
            read_pins(job.algorithm.directory / "requirements.txt"),
        )
        self.facts = BuildFacts()
        self.environment: Environment | None = None
        self.count_ended = 0
        self.further: list[Identity] = []

    def all_points(self, environment: Environment) -> None:
        """Build once, then search; a worker that dies at one point is followed by another for the rest."""
        self.environment = environment
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.unlink(missing_ok=True)
        if not (self.index / BUILD_FILE).exists():
            shutil.rmtree(self.index, ignore_errors=True)
        self.index.mkdir(parents=True, exist_ok=True)
        pending = list(self.job.points)
        while pending:
            before = self.count_ended, (self.index / BUILD_FILE).exists()
            self._one_worker(pending)
            if (self.count_ended, (self.index / BUILD_FILE).exists()) == before:
                self.fail(pending, "failed", "the worker ended without a result")
            pending += self._take_further()
        if not (self.session.keep_index(self.job) and (self.index / BUILD_FILE).exists()):
            shutil.rmtree(self.index, ignore_errors=True)

    def _take_further(self) -> list[Identity]:
        """The points that were asked for since it was called last."""
        taken, self.further = self.further, []
        if taken:
            self.session.observer.points_added(self.job, len(taken))
        return taken

    def _one_worker(self, pending: list[Identity]) -> None:
        """Run one worker on all that is pending; points that end are taken out of `pending`."""
        session, output = self.session, self.work / "job"
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        job_file = output / "job.json"
        job_file.write_text(json.dumps(self._job(pending, output)))
        saved = self.index / BUILD_FILE
        if saved.exists():
            self._remember(json.loads(saved.read_text()))
        current: Identity | None = None
        raised: dict | None = None
        try:
            process = session.runner.start(self.environment, self._workload(job_file, output, saved.exists()))
        except EnvironmentFailure as failure:
            self.fail(pending, "failed", str(failure))
            return
        with closing(watch(process, output / EVENTS_FILE, session.limits)) as events:
            for event in events:
                if isinstance(event, Ending):
                    if event.status is None:
                        event = Ending("failed", "the worker ended by itself, with exit code 0, before it was done")
                    if raised:
                        event = _ending_of(raised)
                    shutil.rmtree(output / "tmp", ignore_errors=True)  # it may be what filled the disk
                    if current:
                        pending.remove(current)
                        self.fail([current], event.status, f"while searching: {event.reason}")
                    else:
                        self.fail(
                            pending,
                            event.status,
                            f"while {'loading' if saved.exists() else 'building'}: {event.reason}",
                        )
                elif event["event"] == "started":
                    self.facts.observed = event
                    if self.job.algorithm.code_hash() != self.code:
                        self.fail(
                            pending, "failed", f"{self.job.algorithm.directory} changed during the run; run again"
                        )
                        return
                elif event["event"] == "building":
                    session.observer.doing(self.job, "building", self.job.build_params)
                elif event["event"] in ("built", "loaded"):
                    self._remember(event)
                    if event["event"] == "built" and saved.exists():
                        _let_go(process)
                        return
                elif event["event"] == "finished":
                    _let_go(process)
                    return
                elif event["event"] == "point_started":
                    current = next(point for point in pending if point.hash() == event["point"])
                    session.observer.doing(self.job, "searching", current.search_params)
                elif event["event"] == "point_done":
                    self._seal(current, event, output / event["point"])
                    pending.remove(current)
                    more = self._take_further()
                    pending += more
                    said = output / event["point"] / JUDGED_FILE
                    write_whole(said, json.dumps(_told(more)).encode()) if more else said.touch()
                    current = None
                elif event["event"] == "raised":
                    raised = event
                    _let_go(process)
                    process.kill()

    def _job(self, pending: list[Identity], output: Path) -> dict:
        """The whole of what a worker is told."""
        session, request = self.session, self.session.plan.request
        vectors = {role: getattr(session.dataset, role) for role in ("base", "queries", "learn")}
        return {
            "host_pid": os.getpid() if session.runner.workers_are_children else None,
            "cpus": session.placement.cpus,
            "threads": session.threads,
            "adapter": str(self.job.algorithm.directory / "algorithm.py"),
            "class_name": self.job.algorithm.offer.class_name,
            **{role: item and item.model_dump(mode="json") for role, item in vectors.items()},
            "distance": request.data.distance,
            "k": request.k,
            "mode": request.mode,
            "repeats": request.repeats,
            "seed": self.job.seed,
            "build_params": self.job.build_params,
            "index_directory": str(self.index),
            "output": str(output),
            "points": _told(pending),
        }

    def _workload(self, job_file: Path, output: Path, index_exists: bool) -> Workload:
        session = self.session
        vectors = (session.dataset.base, session.dataset.queries, session.dataset.learn)
        return Workload(
            library=self.job.algorithm.library,
            job_file=job_file,
            output=output,
            index=self.index,
            index_exists=index_exists,
            inputs=[item.path for item in vectors if item],
            log=self.log,
            cpus=session.placement.cpus,
            memory_nodes=session.placement.memory_nodes,
            memory_bytes=session.limits.memory_bytes,
        )

    def _remember(self, told: dict) -> None:
        for name in ("build_seconds", "build_peak_bytes", "index_bytes", "load_seconds"):
            if name in told:
                setattr(self.facts, name, told[name])

    def _seal(self, point: Identity, event: dict, folder: Path) -> None:
        session = self.session
        session.observer.doing(self.job, "judging", point.search_params)
        session.dataset.require_unchanged()
        arrays = {path.stem: np.load(path) for path in folder.glob("*.npy")}
        told = arrays.pop("told", None)
        try:
            judged = judge(arrays.pop("neighbors"), session.dataset, session.truth, point.k, len(allowed_cpus()))
        except ValueError as error:
            self.fail([point], "invalid", str(error))
            return
        record = self._record(
            point,
            "ok",
            None,
            answers_vary=event["answers_vary"],
            stats=event["stats"],
            search_peak_bytes=event["search_peak_bytes"],
            search_cpu_seconds=event["search_cpu_seconds"],
            caller_cpu_seconds=event["caller_cpu_seconds"],
            reported_distance_error=distance_error(told, judged.arrays["distances"], judged.arrays["neighbors"]),
            process_threads=event["process_threads"],
            deviations=deviations(self.asked, {**self.facts.observed, **event}),
            repeated_ids=judged.repeated,
            missing_ids=judged.missing,
        )
        session.store.write(record, {**arrays, **judged.arrays})
        recall = judged.arrays["hits"].sum() / (len(judged.arrays["hits"]) * record.denominator)
        self._end(record, f"recall {recall:.4f}, {record.nq / np.median(arrays['search_seconds']):,.0f} QPS")

    def fail(self, points: list[Identity], status: str, reason: str) -> None:
        """Write each of the points as failed, and empty the list.

        A good result of the same code is not given up for it, nor is any where nothing could be run.
        """
        for point in points:
            record, good = self._record(point, status, " ".join(reason.split())), self.session.store.good(point)
            stale = good is not None and good.record.provenance.code_sha256 != self.code
            if good is None or (stale and self.environment is not None):
                self.session.store.write(record, {})
            self._end(record)
        points.clear()

    def _end(self, record: ResultRecord, found: str = "") -> None:
        self.count_ended += 1
        self.ended(record)
        self.session.observer.point_ended(self.job, record, found)
        self.further += self.session.further(record)

    def _index_dtype(self) -> str:
        dtype = self.session.dataset.base.dtype
        return "float32" if dtype in self.job.algorithm.offer.converts else dtype

    def _record(self, point: Identity, status: str, reason: str | None, **more) -> ResultRecord:
        session, facts = self.session, self.facts
        observed = {
            name: facts.observed[name]
            for name in ("python", "versions", "affinity", "memory_allowed", "memory_policy", "thread_variables")
            if name in facts.observed
        }
        provenance = Provenance(
            measured_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            command=session.command,
            git_revision=session.git[0],
            git_dirty=session.git[1],
            runner=session.runner.name,
            code_sha256=self.code,
            environment=self.environment.key if self.environment else "none",
            machine=session.machine,
            machine_profile=session.placement.profile,
            memory_nodes=session.placement.memory_nodes,
            findings=session.findings,
            **observed,
        )
        log = os.path.relpath(self.log, session.store.folder) if self.log.exists() else None
        return ResultRecord(
            identity=point,
            status=status,
            reason=reason,
            log=log,
            n=session.dataset.n,
            nq=session.dataset.nq,
            truth=session.truth.key,
            repeats=session.plan.request.repeats,
            index_dtype=self._index_dtype(),
            build_seconds=facts.build_seconds,
            load_seconds=facts.load_seconds,
            index_bytes=facts.index_bytes,
            build_peak_bytes=facts.build_peak_bytes,
            provenance=provenance,
            **more,
        )
