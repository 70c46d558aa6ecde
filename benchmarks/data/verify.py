"""Everything that can be checked of a data set before it is believed: one finding for each check."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.cards.datasets import DatasetCard, HeldOut, Source
from benchmarks.data.fetch import fetch
from benchmarks.data.formats import SUFFIXES, hdf5_distance
from benchmarks.data.prepare import cache_folder, locate_source, prepare, require_fit
from benchmarks.data.supplied import check_supplied, read_supplied
from benchmarks.data.survey import BLOCK_BYTES, Survey, digest_rows, survey
from benchmarks.data.vectors import VectorFile
from benchmarks.errors import UserError
from benchmarks.progress import Progress

OK, WARNING, FAILURE = "ok", "warning", "FAILURE"
ROLES = ("base", "queries", "learn")
UNIT = 1e-3  # norms that differ from 1 by less are those of normalised vectors
HUGE = 1e18  # squares of larger norms leave the range of float32


class Finding(NamedTuple):
    """The outcome of one check."""

    level: str
    check: str
    text: str


def verify(card: DatasetCard, data_dir: Path, k: int, threads: int, progress: Progress) -> Iterator[Finding]:
    """Run all checks, each as soon as what it needs is known.

    Args:
        card: of the data set.
        data_dir: cache of prepared data.
        k: neighbours that supplied ground truth must have.
        threads: for the sample of it that is recomputed.
        progress: told of bytes and rows.
    """
    vectors: dict[str, VectorFile] = {}
    for role, found in _files(card, data_dir, progress):
        if isinstance(found, str):
            yield Finding(FAILURE, f"{role} file", found)
            continue
        vectors[role] = found
        yield Finding(
            OK,
            f"{role} file",
            f"{found.rows:,} rows of {found.dimension} {found.dtype}; header, size and card agree ({found.path})",
        )
        try:
            require_fit(card, role, found, vectors.get("base", found))
        except UserError as error:
            yield Finding(FAILURE, f"{role} type", str(error))
    if "base" in vectors:
        yield from _stated_distance(card, data_dir, progress)
    surveys, among = _surveys(vectors, data_dir, progress)
    for role, found in surveys.items():
        yield from _about(role, found, card.distance, vectors[role].dtype)
    if {"base", "queries"} <= set(vectors):
        yield _overlap(among, isinstance(card.queries, HeldOut))
    yield from _truth(card, vectors, surveys, data_dir, k, threads, progress)


def _files(card: DatasetCard, data_dir: Path, progress: Progress) -> Iterator[tuple[str, VectorFile | str]]:
    """(role, its rows or what is wrong with them)."""
    try:
        dataset = prepare(card, data_dir, progress)
    except UserError as error:
        if card.base is None or isinstance(card.queries, HeldOut):
            yield "base", str(error)
            return
    else:
        yield from ((role, getattr(dataset, role)) for role in ROLES if getattr(dataset, role))
        return
    folder = cache_folder(card, data_dir.resolve())  # something is wrong: each file on its own
    for role in ROLES:
        source: Source | None = getattr(card, role)
        if source is not None:
            try:
                yield role, locate_source(card, source, role, folder, progress)
            except UserError as error:
                yield role, str(error)


def _stated_distance(card: DatasetCard, data_dir: Path, progress: Progress) -> Iterator[Finding]:
    """Whether an HDF5 file that names a distance means the card's."""
    if card.base is None or card.base.made:
        return
    path = fetch(card.base, card.directory, data_dir.resolve(), progress)
    if (card.base.format or SUFFIXES.get(path.suffix.lower())) != "hdf5":
        return
    try:
        stated = hdf5_distance(path)
    except UserError as error:
        yield Finding(FAILURE, "distance", str(error))
        return
    if stated not in (None, card.distance):
        yield Finding(WARNING, "distance", f"the file means {stated}, here it is {card.distance}")
    else:
        yield Finding(OK, "distance", card.distance + (", as the file says" if stated else "; the file says nothing"))


def _surveys(
    vectors: dict[str, VectorFile], data_dir: Path, progress: Progress
) -> tuple[dict[str, Survey], np.ndarray | None]:
    found, among = {}, None
    digests = _digests(vectors["queries"]) if "queries" in vectors else None
    for role, file in vectors.items():
        with progress.task(f"reading {role}", file.rows) as task:
            found[role], places = survey(file, data_dir, task.advance, digests if role == "base" else None)
        among = places if role == "base" else among
    return found, among


def _digests(vectors: VectorFile) -> np.ndarray:
    return np.concatenate([digest_rows(block) for _, block in vectors.blocks(BLOCK_BYTES)])


def _about(role: str, found: Survey, distance: str, dtype: str) -> Iterator[Finding]:
    if found.not_finite:
        yield Finding(
            FAILURE,
            f"{role} finite",
            f"{found.not_finite:,} rows hold NaN or infinity, the first is row {found.first_not_finite}; take them out",
        )
    else:
        yield Finding(OK, f"{role} finite", "no NaN, no infinity")
    if found.looks_signed:
        yield Finding(
            WARNING,
            f"{role} type",
            f"{dtype} values cluster at 0 and at 255, as signed bytes do that are read as unsigned: is it int8?",
        )
    if found.zero:
        meaning = "; under cosine they are at distance 1 from everything" if distance == "cosine" else ""
        yield Finding(WARNING, f"{role} zero vectors", f"{found.zero:,} of {found.rows:,}{meaning}")
    else:
        yield Finding(OK, f"{role} zero vectors", "none")
    if found.copies:
        meaning = "; they tie, and recall counts the lower id, recall_tied any" if role == "base" else ""
        yield Finding(
            WARNING, f"{role} duplicates", f"{found.copies:,} of {found.rows:,} rows equal an earlier one{meaning}"
        )
    else:
        yield Finding(OK, f"{role} duplicates", "none")
    text = f"{found.least_norm:.4g} to {found.largest_norm:.4g}, mean {found.mean_norm:.4g}"
    if max(abs(found.least_norm - 1), abs(found.largest_norm - 1)) < UNIT:
        text += "; normalised"
    if found.largest_norm > HUGE:
        yield Finding(WARNING, f"{role} norms", f"{text}; squares of the largest leave the range of float32")
    else:
        yield Finding(OK, f"{role} norms", text)


def _overlap(among: np.ndarray, held_out: bool) -> Finding:
    count, total = int(among.sum()), len(among)
    text = f"{count:,} of {total:,} queries are base vectors"
    if held_out and count:
        text += " (queries are held out of the base, so these are copies)"
    if 2 * count >= total:
        return Finding(WARNING, "overlap", f"{text}: is the query set the corpus? Each finds itself first")
    return Finding(WARNING if count else OK, "overlap", text)


def _truth(card, vectors, surveys, data_dir, k, threads, progress) -> Iterator[Finding]:
    if card.truth is None:
        yield Finding(OK, "supplied truth", "none came with the data set; ours is computed when it is needed")
        return
    try:
        supplied = read_supplied(fetch(card.truth, card.directory, data_dir.resolve(), progress), card.truth)
    except UserError as error:
        yield Finding(FAILURE, "supplied truth", str(error))
        return
    sound = {"base", "queries"} <= set(vectors) and not any(surveys[role].not_finite for role in ("base", "queries"))
    if not sound or vectors["base"].dimension != vectors["queries"].dimension:
        yield Finding(WARNING, "supplied truth", "not checked, since base or queries failed")
        return
    base, queries = vectors["base"], vectors["queries"]
    problems = check_supplied(supplied, base, queries, card.distance, k, threads=threads, progress=progress)
    kind = "ids and distances" if supplied.distances is not None else "ids"
    text = f"{len(supplied.neighbors):,} × {supplied.width} {kind} ({supplied.path})"
    for problem in problems:
        yield Finding(FAILURE, "supplied truth", f"{text}: {problem}; it is not used, ours is computed")
    if not problems:
        yield Finding(
            OK,
            "supplied truth",
            f"{text}: ids, order, duplicates and {min(100, queries.rows)} recomputed rows are right",
        )
