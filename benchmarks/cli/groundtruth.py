"""Which ground truth a verb counts against: computed, or the one that came with the data set."""

import argparse
from pathlib import Path

from benchmarks.cards.datasets import DatasetCard
from benchmarks.cli.common import warn
from benchmarks.data.prepare import Dataset
from benchmarks.data.supplied import supplied_truth
from benchmarks.errors import UserError
from benchmarks.groundtruth.cache import GroundTruth, depth_for, ground_truth, truth_key
from benchmarks.progress import Progress


def add_truth_option(parser: argparse.ArgumentParser) -> None:
    """The option that lets a data set's own ground truth be used."""
    parser.add_argument(
        "--supplied-truth",
        action="store_true",
        help="where ours is not computed yet, use the ground truth that comes with the data set, if it passes every "
        "check of `verify`; results made with it are not mixed with others",
    )


def require_truth(supplied: bool, card: DatasetCard) -> None:
    """Raises UserError where a data set's own ground truth is asked for and there is none."""
    if supplied and card.truth is None:
        raise UserError(f"--supplied-truth: data set {card.name} comes without ground truth; leave the option out")


def find_truth(
    supplied: bool,
    card: DatasetCard,
    dataset: Dataset,
    k: int,
    data_dir: Path,
    threads: int,
    progress: Progress,
    scheduler: str | None = None,
) -> GroundTruth:
    """Ground truth for K = k: the supplied one if that is asked for, passes, and ours is not here already."""
    ours = data_dir / "truth" / f"{truth_key(dataset, depth_for(k, dataset.n))}.hdf5"
    if supplied and not ours.is_file():
        truth = supplied_truth(card, dataset, k, data_dir, threads, progress)
        if not isinstance(truth, str):
            return truth
        warn(f"the ground truth that comes with {card.name} is not used: {truth}; it is computed instead")
    return ground_truth(dataset, k, data_dir, threads, progress, scheduler)
