"""How much of a measurement's wall time is the harness and not the index: `python tests/performance/runner.py`.

One real index is built once; then real workers search it and the real host judges, in single and in batch mode and for
K = 10 and 100. Worker and host note when each part starts and ends: `perf_counter` is one clock for all processes of a
Linux machine. For one operating point, with the warm-up left out (it is shown, but it is no overhead):

    clocked      what the result reports: the sum of latencies (single), of the calls (batch), over all repeats
    in worker    from `point_started` to `point_done`; besides the clocked part: the loop, stacking and saving ids
    to result    from `point_started` until the result file is in place; also: notice, distances, hits, writing

    overhead     (time - clocked) / time in single mode, (time - clocked) / clocked in batch mode
"""

import argparse
import json
import os
import shutil
import stat
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
SPANS = "spans.json"
TARGETS = {
    ("single", 10, "result"): 0.05,
    ("single", 100, "result"): 0.12,
    ("batch", 10, "worker"): 0.01,
    ("batch", 100, "worker"): 0.01,
}
PARTS = (
    "loop",
    "stacking",
    "saving",
    "rest of worker",
    "notice",
    "loading",
    "cleaning",
    "distances",
    "hits",
    "writing",
    "rest of host",
)


class Spans:
    """Where time went, by name; several spans of one name add up."""

    def __init__(self):
        self.seconds, self.at = defaultdict(float), {}

    def timed(self, name, function):
        """`function`, with its time added to `name`."""

        def wrapper(*arguments, **options):
            start = perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds[name] += perf_counter() - start

        return wrapper

    def patch(self, owner, attribute, name):
        setattr(owner, attribute, self.timed(name, getattr(owner, attribute)))


def worker(job_file):
    """`benchmarks.worker` with its parts timed; runs in the index's environment."""
    from benchmarks.worker import __main__ as main
    from benchmarks.worker import timing

    spans, passes = Spans(), []

    def noted(one_pass):
        def wrapper(*arguments):
            start = perf_counter()
            answers, seconds, latencies = one_pass(*arguments)
            passes.append((perf_counter() - start, sum(latencies) if latencies else seconds))
            return answers, seconds, latencies

        return wrapper

    for name in ("_pass_single", "_pass_batch"):
        setattr(timing, name, noted(getattr(timing, name)))
    spans.patch(timing, "stack_ids", "stacking")
    spans.patch(main.np, "save", "saving")
    say = main.Events.say

    def stamped(self, event, **facts):
        spans.at[event] = perf_counter()
        say(self, event, **facts)

    main.Events.say = stamped
    try:
        main.main(job_file)
    finally:
        if "point_done" in spans.at:
            (warmup, _), *timed = passes
            content = {
                "at": spans.at,
                "warmup": warmup,
                "clocked": sum(clock for _, clock in timed),
                "loop": sum(whole - clock for whole, clock in timed),
                **spans.seconds,
            }
            Path(job_file).with_name(SPANS).write_text(json.dumps(content))


def host_spans():
    """Time the host's parts, where they are looked up."""
    from benchmarks.results.store import Store
    from benchmarks.runner import execute, judge

    spans = Spans()
    spans.patch(judge, "clean_neighbors", "cleaning")
    spans.patch(judge, "exact_distances", "distances")
    spans.patch(judge, "rank_in_truth", "hits")
    spans.patch(judge, "count_hits_tied", "hits")
    spans.patch(execute.np, "load", "loading")
    spans.patch(Store, "write", "writing")
    seal = execute.JobRun._seal

    def sealed(self, *arguments):
        spans.at["noticed"] = perf_counter()
        seal(self, *arguments)
        spans.at["sealed"] = perf_counter()

    execute.JobRun._seal = sealed
    return spans


class Harness:
    """The real host, with a worker that goes through this file."""

    def __init__(self, options, folder):
        from benchmarks.cards.algorithms import find_algorithms
        from benchmarks.cards.datasets import DatasetCard, Generator
        from benchmarks.data.prepare import prepare
        from benchmarks.progress import Progress
        from benchmarks.results.store import Store
        from benchmarks.runner.venv import VenvRunner

        card = DatasetCard(
            name="performance",
            directory=folder,
            title="clusters",
            distance="l2",
            dimension=options.dimension,
            generator=Generator(
                name="gaussian-clusters",
                rows=options.rows,
                queries=options.queries,
                parameters={"clusters": max(1, options.rows // 100), "centre_scale": 1.0},
            ),
        )
        self.options, self.folder = options, folder
        self.algorithm = find_algorithms()[options.algorithm]
        self.dataset = prepare(card, folder / "data", Progress())
        self.store, self.runner = Store(folder / "results"), VenvRunner()
        self.environment = self.wrapped(self.runner.prepare(self.algorithm))

    def wrapped(self, environment):
        """The environment with a `python` that starts this file's `worker`."""
        python = self.folder / "python"
        python.write_text(f'#!/bin/sh\nexec "{environment.python}" "{__file__}" --worker "$3"\n')
        python.chmod(python.stat().st_mode | stat.S_IXUSR)
        return type(environment)(environment.key, python)

    def job(self, mode, k):
        """A session and its only job, with one operating point."""
        from benchmarks.groundtruth.cache import ground_truth
        from benchmarks.hardware import allowed_cpus, available_memory_bytes, describe_machine, place_here
        from benchmarks.plan import BuildJob, DataFacts, Plan, Request
        from benchmarks.progress import Progress
        from benchmarks.results.schema import Identity
        from benchmarks.runner.execute import JobRun, Session
        from benchmarks.runner.supervise import Limits

        offer, data, threads = self.algorithm.offer, self.dataset, self.options.threads
        values = {
            stage: {name: item.default for name, item in offer.parameters.items() if item.stage == stage}
            for stage in ("build", "search")
        }
        beam = next(name for name, item in offer.parameters.items() if item.monotone)
        values["search"][beam] = max(self.options.ef, k)
        values["build"].update(
            {
                name: value
                for name, value in {"M": 16, "efConstruction": 80, "ef_construction": 80}.items()
                if name in values["build"]
            }
        )
        facts = DataFacts(
            name=data.name,
            distance=data.distance,
            dtype=data.base.dtype,
            n=data.n,
            nq=data.nq,
            dimension=data.dimension,
            base_sha256=data.base_check.sha256,
            queries_sha256=data.queries_check.sha256,
        )
        point = Identity(
            dataset=data.name,
            base_sha256=facts.base_sha256,
            queries_sha256=facts.queries_sha256,
            distance=data.distance,
            algorithm=self.algorithm.name,
            build_params=values["build"],
            search_params=values["search"],
            seed=0,
            k=k,
            mode=mode,
            threads=threads,
        )
        job = BuildJob(algorithm=self.algorithm, build_params=values["build"], seed=0, points=[point])
        plan = Plan(
            request=Request(
                data=facts, k=k, mode=mode, repeats=self.options.repeats, threads=threads, seeds=[0], algorithms=[]
            ),
            jobs=[job],
            skips=[],
            complete=[],
        )
        session = Session(
            plan=plan,
            dataset=data,
            truth=ground_truth(data, 100, self.folder / "data", len(allowed_cpus()), Progress()),
            store=self.store,
            runner=self.runner,
            placement=place_here("all", threads),
            limits=Limits(3600, available_memory_bytes()),
            command="performance",
            machine=describe_machine(),
            git=(None, None),
        )
        run = JobRun(session, job, self.folder / "work", lambda record: None)
        run.environment = self.environment
        run.index.mkdir(parents=True, exist_ok=True)
        run.log.parent.mkdir(parents=True, exist_ok=True)
        return run

    def measure(self, mode, k, spans):
        """One operating point from start to result file; the index is built if it is not there."""
        run = self.job(mode, k)
        pending = list(run.job.points)
        while pending:
            spans.seconds.clear()
            run._one_worker(pending)
            file = self.folder / "work" / "job" / SPANS
            if not file.exists() and not (run.index / "build.json").exists():
                sys.exit(f"the worker failed: {run.log.read_text()[-2000:]}")
        return times(json.loads(file.read_text()), spans)


def times(inside, spans):
    """Seconds of every part of one point; the warm-up is in none of them."""
    started, done = inside["at"]["point_started"], inside["at"]["point_done"]
    parts = {"loop": inside["loop"], "stacking": inside["stacking"], "saving": inside["saving"]}
    in_worker = done - started - inside["warmup"]
    parts["rest of worker"] = in_worker - inside["clocked"] - sum(parts.values())
    parts["notice"] = spans.at["noticed"] - done
    host = {name: spans.seconds[name] for name in ("loading", "cleaning", "distances", "hits", "writing")}
    parts |= host | {"rest of host": spans.at["sealed"] - spans.at["noticed"] - sum(host.values())}
    return {
        "parts": parts,
        "clocked": inside["clocked"],
        "warmup": inside["warmup"],
        "worker": in_worker,
        "result": spans.at["sealed"] - started - inside["warmup"],
    }


def report(mode, k, rounds):
    """One paragraph; medians over the rounds. Returns whether the target is met."""

    def middle(of):
        return statistics.median(map(of, rounds))

    def overhead(item, end):
        return (item[end] - item["clocked"]) / item["clocked" if mode == "batch" else end]

    of = "of the call" if mode == "batch" else "of the whole"
    print(
        f"\n{mode}, K = {k}: clocked {middle(lambda item: item['clocked']):.3f} s, in worker "
        f"{middle(lambda item: item['worker']):.3f} s, to result {middle(lambda item: item['result']):.3f} s "
        f"(warm-up, apart: {middle(lambda item: item['warmup']):.3f} s)"
    )
    met = True
    for end in ("worker", "result"):
        share, target = middle(lambda item, end=end: overhead(item, end)), TARGETS.get((mode, k, end))
        spread = [f"{100 * function(overhead(item, end) for item in rounds):.2f}" for function in (min, max)]
        verdict = "" if target is None else f"; target {100 * target:.0f} %: {'met' if share <= target else 'MISSED'}"
        met &= target is None or share <= target
        print(
            f"  overhead {'in worker' if end == 'worker' else 'to result':9}: {100 * share:5.2f} % {of} "
            f"({spread[0]} to {spread[1]}){verdict}"
        )
    for name in PARTS:
        seconds = middle(lambda item, name=name: item["parts"][name])
        share = middle(lambda item, name=name: item["parts"][name] / item["clocked"])
        print(f"    {name:15} {1e3 * seconds:8.1f} ms {100 * share:6.2f} % of clocked")
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--algorithm", default="faiss-hnsw", help="a graph index (default: faiss-hnsw)")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=96)
    parser.add_argument("--queries", type=int, default=5_000)
    parser.add_argument("--ef", type=int, default=64, help="search list length; at least K is taken")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3, help="of everything but the build; medians are shown")
    options = parser.parse_args()
    if options.worker:
        return worker(options.worker)
    folder = Path(tempfile.mkdtemp(prefix="performance-"))
    try:
        harness, spans = Harness(options, folder), host_spans()
        configurations = [(mode, k) for mode in ("single", "batch") for k in (10, 100)]
        rounds = defaultdict(list)
        for number in range(options.rounds):
            for mode, k in configurations:
                print(f"round {number + 1}: {mode}, K = {k}; load {os.getloadavg()[0]:.1f}", file=sys.stderr)
                rounds[mode, k].append(harness.measure(mode, k, spans))
        print(
            f"{options.algorithm}, {options.rows:,} × {options.dimension}, {options.queries:,} queries, ef {options.ef}"
            f" (at least K), {options.threads} thread, {options.repeats} repeats, medians over {options.rounds}"
        )
        met = [report(*configuration, rounds[configuration]) for configuration in configurations]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
