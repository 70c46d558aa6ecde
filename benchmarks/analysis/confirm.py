"""Fresh runs of two sides that alternate, for a speed gate: what the machine does meanwhile hits both alike."""

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from benchmarks.analysis.compare import Pair, describe
from benchmarks.cards.algorithms import find_algorithms
from benchmarks.errors import UserError
from benchmarks.metrics.registry import Metric
from benchmarks.paths import ROOT
from benchmarks.results.schema import Identity
from benchmarks.results.store import Result, Store

OUT = "{out}"


@dataclass(frozen=True)
class Commands:
    """Shell commands that measure each side; `{out}` stands for the folder of results. None: run.py, see `run_py`."""

    base: str | None
    new: str | None


def check_commands(commands: Commands) -> None:
    """Raises UserError unless both are given or none, with a place for the results."""
    if (commands.base is None) != (commands.new is None):
        raise UserError("--base-command and --new-command go together: each measures its own side")
    for name, command in (("--base-command", commands.base), ("--new-command", commands.new)):
        if command is not None and OUT not in command:
            raise UserError(
                f"{name} must say where results go: put {OUT} where the folder belongs, --results-dir {OUT}"
            )


def alternate(
    wanted: Sequence[tuple[Pair, Metric]],
    rounds: int,
    commands: Commands,
    run: Callable[[str], None],
    tell: Callable[[str], None] = lambda line: None,
) -> list[list[tuple[float, float]]]:
    """Measure both sides `rounds` times, each round in the other order.

    Args:
        wanted: points and the metric that is in doubt.
        rounds: how often.
        commands: what measures each side.
        run: runs a shell command.
        tell: told of every step.

    Returns:
        for each of `wanted` its (base, new) values of every round.

    Raises:
        UserError: a point cannot be measured again from here, or a run did not measure it.
    """
    found: list[list[tuple[float, float]]] = [[] for _ in wanted]
    with tempfile.TemporaryDirectory(prefix="confirm-") as folder:
        sides = [
            [command] if command else run_py([getattr(pair, name)[0] for pair, _ in wanted], Path(folder) / name)
            for name, command in (("base", commands.base), ("new", commands.new))
        ]
        for number in range(rounds):
            values: dict[int, list[float]] = {}
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                name = ("base", "new")[side]
                tell(f"round {number + 1} of {rounds}: {name}")
                out = Path(folder) / f"{name}-{number}"
                for command in sides[side]:
                    run(command.replace(OUT, shlex.quote(str(out))))
                fresh = list(Store(out).results())
                values[side] = [_value(getattr(pair, name)[0], metric, fresh) for pair, metric in wanted]
            for item, base, new in zip(found, values[0], values[1], strict=True):
                item.append((base, new))
            ratios = [np.median([new / base for base, new in item]) for item in found]
            tell(f"round {number + 1} of {rounds}: new / base so far {', '.join(f'{ratio:.3f}' for ratio in ratios)}")
    return found


def run_py(points: Sequence[Result], folder: Path) -> list[str]:
    """Commands that measure these points anew with run.py of this checkout, one for each kind of run.

    Raises:
        UserError: the adapter here is not the one that measured them, so that this would measure something else.
    """
    known, sweeps = find_algorithms(), {}
    for point in points:
        identity, made = point.identity, point.record.provenance
        algorithm = known.get(identity.algorithm)
        if algorithm is None or algorithm.code_hash() != made.code_sha256:
            raise UserError(
                f"{describe(point)}: was measured by another adapter than the one here, so it cannot be measured anew "
                "from here; say how each side is measured with --base-command and --new-command"
            )
        key = (identity.dataset, identity.k, identity.mode, identity.threads, identity.seed, made.runner)
        sweeps.setdefault((*key, made.machine_profile), []).append(point)
    folder.mkdir(parents=True, exist_ok=True)
    commands = []
    for number, ((dataset, k, mode, threads, seed, runner, profile), group) in enumerate(sweeps.items()):
        grids: dict[str, dict[str, dict]] = {}
        for point in group:
            identity = point.identity
            grid = {stage: _lists(getattr(identity, f"{stage}_params")) for stage in ("build", "search")}
            grids.setdefault(identity.algorithm, {})[identity.hash()] = grid
        content = {
            **{"k": k, "mode": mode, "build_seeds": [seed], "repeats": max(point.record.repeats for point in group)},
            "algorithms": {name: list(each.values()) for name, each in grids.items()},
        }
        path = folder / f"{number}.yml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        arguments = [sys.executable, str(ROOT / "run.py"), "--dataset", dataset, "--config", str(path)]
        arguments += ["--threads", str(threads), "--runner", runner]
        arguments += ["--machine", profile] if profile else []
        commands.append(f"{shlex.join(arguments)} --results-dir {OUT}")
    return commands


def _lists(params: dict) -> dict[str, list]:
    return {name: [value] for name, value in params.items()}


def _same(one: Identity, other: Identity) -> bool:
    """The same point, whatever the folder calls the data set."""
    names = ("algorithm", "build_params", "search_params", "k", "mode", "threads", "base_sha256", "queries_sha256")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _value(point: Result, metric: Metric, fresh: Sequence[Result]) -> float:
    """What the fresh run measured of a point; the median where it has several seeds."""
    own = [result for result in fresh if result.ok and _same(result.identity, point.identity)]
    measured = [item.value for result in own if (item := metric.compute(result))]
    if not measured:
        raise UserError(f"the run that was to confirm it did not measure {metric.name} of {describe(point)}")
    return float(np.median(measured))


def shell(command: str) -> None:
    """Run a command without its output; what it said last is told if it fails.

    Raises:
        UserError: it ended with another code than 0.
    """
    done = subprocess.run(
        command, shell=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        raise UserError(f"`{command}` ended with code {done.returncode}: {said}")
