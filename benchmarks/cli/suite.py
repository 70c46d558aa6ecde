"""`python run.py --suite NAME`: the runs of a suite, one after the other, and then its figures."""

import argparse
import contextlib
import io
import json
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from benchmarks.cards.datasets import DatasetCard, HeldOut
from benchmarks.cli import plot, run
from benchmarks.cli.choice import Choice, resolve
from benchmarks.cli.common import INTERRUPTED, OK, POINTS_FAILED, make_console
from benchmarks.errors import UserError
from benchmarks.paths import PLOTS
from benchmarks.plan import BuildJob, Plan
from benchmarks.results.store import Store
from benchmarks.runner.execute import INDEXES
from benchmarks.suites import Part, Scale, load_suite

# What goes with --suite; all else is said by the suite.
PASSED_ON = (
    *("results_dir", "data_dir", "runner", "timeout", "memory_limit", "machine", "threads"),
    *("force", "dry_run", "skip_missing", "supplied_truth"),
)
POINTS_OF_A_SEARCH = 4  # usually, for one target on one build


@dataclass
class Progress:
    """One part of a suite: what it is, what it will do, how it ended."""

    part: Part
    arguments: list[str]
    options: argparse.Namespace
    choice: Choice | None = None
    plan: Plan | None = None
    ending: str = ""

    @property
    def builds(self) -> set[str]:
        """Names of the indexes that it builds, or finds built."""
        if self.plan is None:
            return set()
        return {build_key(self.choice, job) for job in self.plan.jobs}


def run_suite(options: argparse.Namespace, argv: Sequence[str]) -> int:
    """All parts, whatever becomes of the others, then all figures.

    Returns:
        0, or 1 if a point, a part or a figure failed.

    Raises:
        UserError: there is no such suite, or an option does not go with one.
    """
    given = options_given(argv)
    for name in sorted(given - {*PASSED_ON, "suite", "scale"}):
        raise UserError(f"--{name.replace('_', '-')} does not go with --suite: the suite says it")
    suite, scale_name = load_suite(options.suite, options.scale)
    scale, console = suite.scales[scale_name], make_console()
    parts = [prepare_part(part, scale, options, given) for part in scale.parts]
    say(console, f"[bold]{suite.title}[/], {scale.about}: {counts(parts, scale)}")
    start = time.monotonic()
    for number, part in enumerate(parts):
        took = "" if options.dry_run or number == 0 else f", {minutes(start)} so far"
        say(console, f"\n── part {number + 1} of {len(parts)}{took}: {part.part.about}", markup=False)
        say(console, f"$ {shlex.join(['python', 'run.py', *part.arguments])}", markup=False)
        if part.choice is None:
            complain(part.ending)
        elif options.dry_run:
            run.print_dry_run(console, part.choice, part.plan)
        else:
            later = set().union(*(each.builds for each in parts[number + 1 :]))
            measure_part(part, later)
    if options.dry_run:
        say(console, f"\n── then {len(scale.figures)} figures")
        for line in scale.figures:
            say(console, f"$ {shlex.join(['python', 'plot.py', *scale.plot_arguments(line)])}", markup=False)
        return POINTS_FAILED if any(part.choice is None for part in parts) else OK
    drop_indexes(Store(options.results_dir))
    drawn = draw_figures(console, scale, f"{options.suite}-{scale_name}", options)
    print_endings(console, parts, drawn, minutes(start))
    return POINTS_FAILED if any(part.ending for part in parts) or None in drawn.values() else OK


def options_given(argv: Sequence[str]) -> set[str]:
    """Names of the options that the command line holds, whatever their values."""
    parser = run.build_parser()
    blank = argparse.Namespace(**{action.dest: None for action in parser._actions if action.dest != "help"})
    for action in parser._actions:
        if isinstance(action.default, list):
            setattr(blank, action.dest, [])
    return {name for name, value in vars(parser.parse_args(argv, blank)).items() if value not in (None, [])}


def prepare_part(part: Part, scale: Scale, given: argparse.Namespace, names: set[str]) -> Progress:
    """One part with its options; what is wrong with it is its ending, and no end of the others."""
    arguments = scale.run_arguments(part)
    try:
        options = run.build_parser().parse_args(arguments)
    except SystemExit:  # the parser has said why
        raise UserError(f"suite {given.suite}: the part '{part.about}' is not what run.py understands") from None
    for name in names & set(PASSED_ON):
        setattr(options, name, getattr(given, name))
    made = Progress(part, arguments, options)
    try:
        made.choice = resolve(options)
        made.plan = run.dry_plan(made.choice)
    except UserError as error:
        made.choice, made.ending = None, str(error)
    return made


def build_key(choice: Choice, job: BuildJob) -> str:
    """Names a built index before the data is there: all that it is made of, and nothing of the queries."""
    return json.dumps(
        [base_of(choice.card), job.algorithm.name, job.build_params, job.seed, choice.placement.threads],
        sort_keys=True,
    )


def base_of(card: DatasetCard) -> list:
    """What decides the base vectors of a data set; two sets may share them."""
    origin = card.model_dump(mode="json", include={"distance", "generator", "recipe", "base", "retrieval"})
    held_out = card.queries.model_dump() if isinstance(card.queries, HeldOut) else None
    return [origin, held_out]


def measure_part(part: Progress, later: set[str]) -> None:
    """Measure one part; indexes that a later one needs are kept."""
    try:
        code = run.measure(part.options, part.choice, lambda job: build_key(part.choice, job) in later)
        part.ending = "" if code == OK else "some points failed, see above"
    except UserError as error:
        part.ending = str(error)
    except OSError as error:
        part.ending = f"{error.filename or ''}: {error.strerror or error}".removeprefix(": ")
    except MemoryError as error:
        part.ending = f"not enough memory ({error})"
    if part.ending:
        complain(part.ending)


def drop_indexes(store: Store) -> None:
    """Remove the indexes that were kept from part to part."""
    with contextlib.suppress(UserError):  # where another run has begun, it removes them when their time has come
        lock = store.lock()
        shutil.rmtree(store.folder / INDEXES, ignore_errors=True)
        lock.release()


def draw_figures(
    console: Console, scale: Scale, folder: str, options: argparse.Namespace
) -> dict[str, list[str] | None]:
    """Draw every figure: its files, or None where it failed, by its options."""
    drawn: dict[str, list[str] | None] = {}
    for number, line in enumerate(scale.figures):
        words = scale.plot_arguments(line)
        say(console, f"\n── figure {number + 1} of {len(scale.figures)}", markup=False)
        say(console, f"$ {shlex.join(['python', 'plot.py', *words])}", markup=False)
        more = ["--quiet", "--results-dir", str(options.results_dir)]
        more += [] if "--out" in words else ["--out", f"{PLOTS / folder}/"]
        code, printed = OK, io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                plot.main([*words, *more])
        except SystemExit as end:
            code = end.code or OK
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        sys.stdout.write(printed.getvalue())
        drawn[line] = printed.getvalue().split("\n")[:-1] if code == OK else None
    return drawn


def counts(parts: Sequence[Progress], scale: Scale) -> str:
    """`8 parts, about 400 points on 40 builds, 12 figures`; before it is known which points are complete."""
    points = searches = 0
    for part in parts:
        if part.plan:
            sought = {
                point.hash()
                for seek in part.plan.seeks
                for job in part.plan.jobs
                for point in job.points
                if seek.owns(point)
            }
            points += part.plan.points - len(sought)
            searches += sum(len(seek.targets) for seek in part.plan.seeks)
    builds = len(set().union(*(part.builds for part in parts)))
    about = points + POINTS_OF_A_SEARCH * searches
    return (
        f"{len(parts)} parts, about {about} points ({points} of sweeps, some {POINTS_OF_A_SEARCH} for each of "
        f"{searches} searches for a target recall) on {builds} builds, {len(scale.figures)} figures"
    )


def print_endings(console: Console, parts: Sequence[Progress], drawn: dict[str, list[str] | None], took: str) -> None:
    """What became of every part, and the files of the figures."""
    failed = [part for part in parts if part.ending]
    say(console, f"\n── {len(parts) - len(failed)} of {len(parts)} parts are complete, in {took}", markup=False)
    for number, part in enumerate(parts):
        if part.ending:
            say(console, f"part {number + 1}, {part.part.about}: {part.ending}", markup=False, style="red")
    for line, files in drawn.items():
        if files is None:
            say(console, f"not drawn: plot.py {line}", markup=False, style="red")
        for file in files or []:
            say(console, file, markup=False)


def minutes(start: float) -> str:
    return f"{(time.monotonic() - start) / 60:.1f} min"


def complain(message: str) -> None:
    print("error: " + " ".join(message.split()), file=sys.stderr)


def say(console: Console, text: str, **how) -> None:
    console.print(text, highlight=False, soft_wrap=True, **how)
