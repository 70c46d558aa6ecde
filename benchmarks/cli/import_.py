"""`python -m benchmarks import`: result files of other harnesses, judged by our ground truth."""

import shlex
import sys
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from benchmarks.cards.datasets import DatasetCard
from benchmarks.cli.common import (
    OK,
    POINTS_FAILED,
    Parser,
    add_data_options,
    add_results_dir,
    folder,
    guarded,
    positive,
    warn,
)
from benchmarks.cli.groundtruth import add_truth_option, find_truth, require_truth
from benchmarks.cli.run import git_state
from benchmarks.data.prepare import Dataset, prepare, resolve_dataset
from benchmarks.errors import UserError
from benchmarks.groundtruth.cache import GroundTruth
from benchmarks.hardware import allowed_cpus
from benchmarks.progress import Progress, Task
from benchmarks.results.foreign import Part
from benchmarks.results.importers import Options, files_below, find_formats, format_of_file, require_readable
from benchmarks.results.importing import CHANCE, MOST_K, Outcome, SourceFile, Target, hash_file, import_point
from benchmarks.results.store import Store, folder_name

DESCRIPTION = """\
Read what other harnesses measured, so that its robustness is known without measuring again.

Hits are counted anew from the ids, against our own exact ground truth; the counts that a file holds were made by
another rule and are not used. -1 is no neighbour, an id that comes twice counts once, an id that is no row of the base
makes the point invalid, fewer than K ids miss the rest. Where a file holds distances they must be those of the data
set's vectors, else the file is not imported. What is not known stays unknown: seed, threads, machine, library versions;
and so does memory, which others measure otherwise. Algorithms are called <name>@<harness>. Every number that the other
harness wrote is kept beside, as an attribute. Their speed is of another machine: plot.py refuses to show it together
with ours, unless told --mix.

QPS and latencies are of the run that the ids are of, where the file says so: of ann-benchmarks and VIBE that is the
last run, of big-ann the median of all. `qps-best` is what the other harness reports.

Without ids (vibe-parquet, qdrant) the hits of each query are those that the other harness counted, by its own rule and
ground truth: such points are never shown with others unless told --mix, and have no tied recall. Files of averages
alone are refused: no robustness follows from an average.

A file that cannot be imported is one warning, and exit code 1 at the end. What was imported before is not imported
again."""


@dataclass
class Tally:
    """What became of everything, for the last lines."""

    imported: Counter = field(default_factory=Counter)  # by harness
    there: int = 0
    invalid: int = 0
    refused: int = 0  # files and parts of files
    near_chance: int = 0
    other_sets: Counter = field(default_factory=Counter)  # points of other data sets, by their names
    no_results: int = 0  # files that hold no operating points


@dataclass(frozen=True)
class Job:
    """One point to import."""

    module: ModuleType
    path: Path
    part: Part


def run(options) -> int:
    """Look at all files, then import what is of the data set."""
    card = resolve_dataset(options.dataset, options.distance, options.queries)
    require_truth(options.supplied_truth, card)
    formats = [find_formats()[options.harness]] if options.harness else list(find_formats().values())
    suffixes = {suffix for module in formats for suffix in module.SUFFIXES}
    files = {file: start for start in options.paths for file in files_below(start, suffixes)}
    progress, tally = Progress(), Tally()
    jobs = look(files, formats if options.harness else None, {card.name, *options.their_name}, tally, progress)
    if not jobs:
        raise nothing_to_import(card, options.paths, tally)
    store = Store(options.results_dir)
    store.require_writable()
    lock = store.lock()
    try:
        dataset = prepare(card, options.data_dir, progress)
        target = Target(
            dataset=dataset,
            store=store,
            truth_for=Truths(options, card, dataset, progress),
            threads=len(allowed_cpus()),
            command=shlex.join(["python", *sys.argv]).encode("utf-8", "backslashreplace").decode(),
            git=git_state(),
        )
        import_all(jobs, files, target, Options(dataset.nq, options.k), tally, progress)
    except KeyboardInterrupt:
        print("stopped; what is imported is kept, and the same command goes on from there", file=sys.stderr)
        raise
    finally:
        lock.release()
    report(tally, dataset, store)
    return POINTS_FAILED if tally.refused or tally.invalid else OK


def look(
    files: dict[Path, Path],
    formats: Sequence[ModuleType] | None,
    names: set[str],
    tally: Tally,
    progress: Progress,
) -> list[Job]:
    """The points of the data set in all files; what is none is counted, what cannot be read is a warning.

    Args:
        files: each with the path that was given.
        formats: the one that was asked for; None to find out.
        names: what the data set is called.
        tally: is added to.
        progress: shows it.
    """
    jobs = []
    with progress.task(f"looking at {len(files):,} files", len(files)) as task:
        for path in files:
            try:
                require_readable(path)
                module = format_of_file(path)
                if formats and module is not None and not formats[0].recognise(path):
                    raise UserError(f"is a file of {module.NAME}, whose times mean something else; leave --from out")
                module = formats[0] if formats else module
                if module is None and path.suffix.lower() in (".json", ".parquet") and len(files) > 1:
                    tally.no_results += 1  # much else ends so
                    continue
                if module is None:
                    raise UserError(f"is no result file of {', '.join(find_formats())}; if it is, say so with --from")
                parts = module.parts(path)
            except (UserError, OSError) as error:
                refuse(path, "", error, tally)
                continue
            finally:
                task.advance(1)
            tally.no_results += not parts
            for part in parts:
                if part.dataset is None or part.dataset in names:
                    jobs.append(Job(module, path, part))
                else:
                    tally.other_sets[part.dataset] += 1
    return jobs


def import_all(
    jobs: list[Job],
    files: dict[Path, Path],
    target: Target,
    options: Options,
    tally: Tally,
    progress: Progress,
) -> None:
    """Import every point; one that cannot be is a warning. The truth of a new K is found between two bars."""
    todo, hashes, total = deque(jobs), {}, len(jobs)
    while todo:
        title = f"importing {total:,} operating points of {target.dataset.name}"
        with progress.task(title, total, done=total - len(todo)) as task:
            k = import_some(todo, files, hashes, target, options, tally, task)
        if k is not None:
            target.truth_for(k)


def import_some(
    todo: deque[Job],
    files: dict[Path, Path],
    hashes: dict[Path, str],
    target: Target,
    options: Options,
    tally: Tally,
    task: Task,
) -> int | None:
    """Import from the left of `todo` until it is empty, or a K comes whose truth is not at hand: it is returned."""
    while todo:
        job = todo[0]
        try:
            point = job.module.read(job.path, job.part.name, options)
            if job.path not in hashes:
                hashes[job.path] = hash_file(job.path)
        except (UserError, OSError) as error:
            refuse(job.path, job.part.name, error, tally)
        else:
            if point.neighbors is not None and point.k <= MOST_K and not target.truth_for.knows(point.k):
                return point.k
            start = files[job.path]
            name = job.path.name if job.path == start else str(job.path.relative_to(start))
            try:
                outcome = import_point(point, SourceFile(name, hashes[job.path], job.part.name), target)
            except UserError as error:
                refuse(job.path, job.part.name, error, tally)
            else:
                count(job, outcome, tally)
        todo.popleft()
        task.advance(1)
    return None


def count(job: Job, outcome: Outcome, tally: Tally) -> None:
    """Add one point to the tally."""
    if outcome.record.status == "invalid":
        tally.invalid += 1
        warn(f"{where(job.path, job.part.name)}: is imported as invalid: {outcome.record.reason}")
    elif not outcome.new:
        tally.there += 1
    else:
        tally.imported[job.module.NAME] += 1
        tally.near_chance += outcome.average_recall < CHANCE


def where(path: Path, part: str) -> str:
    """The file, and what in it."""
    return f"{path} [{part}]" if part else str(path)


def refuse(path: Path, part: str, error: Exception, tally: Tally) -> None:
    """One line for one file, or a part of it."""
    tally.refused += 1
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    warn(f"{where(path, part)}: {reason.removeprefix(f'{path}: ')}; not imported")


class Truths:
    """The ground truth for each K, found once."""

    def __init__(self, options, card: DatasetCard, dataset: Dataset, progress: Progress):
        where = options.data_dir, len(allowed_cpus()), progress
        self._find = lambda k: find_truth(options.supplied_truth, card, dataset, k, *where)
        self._found: dict[int, GroundTruth] = {}

    def knows(self, k: int) -> bool:
        return k in self._found

    def __call__(self, k: int) -> GroundTruth:
        if k not in self._found:
            self._found[k] = self._find(k)
        return self._found[k]


def nothing_to_import(card: DatasetCard, paths: list[Path], tally: Tally) -> UserError:
    """What to say where no file has a point of the data set."""
    given = ", ".join(map(str, paths))
    if tally.other_sets:
        names = ", ".join(f"{name} ({number})" for name, number in sorted(tally.other_sets.items()))
        return UserError(
            f"{given}: holds no results of {card.name}; there are: {names}; if one of them is the same data set by "
            "another name, say so with --their-name"
        )
    return UserError(f"{given}: holds no results that can be imported")


def report(tally: Tally, dataset: Dataset, store: Store) -> None:
    """The last lines."""
    total = tally.imported.total()
    by_harness = ", ".join(f"{number} of {name}" for name, number in sorted(tally.imported.items()))
    parts = [f"{total} operating points imported" + (f" ({by_harness})" if total else "")]
    parts += [f"{tally.there} were there already"] if tally.there else []
    parts += [f"{tally.invalid} invalid"] if tally.invalid else []
    parts += [f"{tally.refused} files or parts of files not imported, see the warnings"] if tally.refused else []
    print(f"{dataset.name}: {'; '.join(parts)}: {store.folder / folder_name(dataset.name)}")
    if tally.other_sets:
        names = ", ".join(f"{name} ({number})" for name, number in sorted(tally.other_sets.items()))
        print(f"left out, of other data sets: {names}")
    if tally.no_results:
        print(f"left out, {tally.no_results} files without results")
    if tally.near_chance:
        warn(
            f"{tally.near_chance} points have an average recall below {CHANCE}: are their ids row numbers of "
            f"{dataset.name}?"
        )


def main(argv: list[str] | None = None) -> None:
    """Entry point."""
    formats = find_formats()
    known = "\n".join(f"  {name:16}{module.MEANING}" for name, module in formats.items())
    parser = Parser(prog="python -m benchmarks import", description=DESCRIPTION, epilog=f"formats:\n{known}")
    parser.add_argument("paths", nargs="+", type=folder, metavar="PATH", help="result files, or folders of them")
    parser.add_argument(
        "--from",
        dest="harness",
        choices=list(formats),
        help="what wrote them (default: found out from each file)",
    )
    add_data_options(parser)
    parser.add_argument(
        "--their-name",
        action="append",
        default=[],
        metavar="NAME",
        help="what the data set is called in the files, where that is not its name here; may be repeated",
    )
    parser.add_argument("--k", type=positive, help="neighbours asked for, where a file does not say (qdrant)")
    add_truth_option(parser)
    add_results_dir(parser)
    options = parser.parse_args(argv)
    guarded(lambda: run(options))
