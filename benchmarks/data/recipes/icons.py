"""Icons as vectors: what they look like, and what they are called, in one space.

Every icon is drawn in 32 x 32 pixels. Canonical correlation analysis, ridge-regularised and fitted on the base alone,
maps shape features of the drawing and word vectors of its name into one space, where inner product compares them. Whole
icon sets are held out of base and fit: their drawings are queries of the base's own kind, their names queries from
outside its distribution.
"""

import io
import json
import os
import re
import signal
import tarfile
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow.parquet
from threadpoolctl import threadpool_limits

from benchmarks.data.recipes.kitchen import Kitchen, needed, recipe

SIDE = 32  # pixels of a drawing
CELLS, DIRECTIONS = 4, 9  # of the histograms of edge directions
LARGEST_SET_HELD_OUT = 4000
RESTRICTED = re.compile("GPL|-NC|-SA")  # licences that are left out
CHUNK = 256  # icons that a process draws at a time
BLOCK = 2048  # rows

Features = Callable[[np.ndarray], np.ndarray]  # of icons, by number


@recipe
def icons(kitchen: Kitchen, wanted: str, seed: int, *, dimension: int, held_out: int, ridge: float) -> None:
    """Arrays `pixels`, `pixel-queries` (uint8, 256) and `base`, `images`, `texts` (float32, dimension).

    The same icons are rows of `pixels` and `base`; others are rows of all three kinds of queries, in one order.

    Args:
        kitchen: sources `icons` (npm package of SVG icon sets), `vectors` and `vocabulary` (of words).
        wanted: one of the arrays; those of its type are made with it.
        seed: of the choice of the sets that are held out.
        dimension: of the space of images and texts.
        held_out: at least so many icons; those whose words with a vector are none, or another's, are no queries.
        ridge: added to both covariances, as a share of their mean variance.
    """
    drawings, names = _drawn(kitchen)
    texts = [words_of(name) for name in names]
    vectors = _word_vectors(kitchen, {word for text in texts for word in text})
    is_query = _hold_out([name.split("/")[0] for name in names], held_out, seed)
    base, queries = np.flatnonzero(~is_query), _with_own_words(np.flatnonzero(is_query), texts, vectors)

    def pixels(rows):
        return shrink(drawings[rows]).reshape(len(rows), -1)

    def shapes(rows):
        return shape_features(drawings[rows])

    def meanings(rows):
        return text_features([texts[row] for row in rows], vectors)

    if wanted.startswith("pixel"):
        _write(kitchen, {"pixel-queries": (pixels, queries), "pixels": (pixels, base)}, "uint8")
        return
    with threadpool_limits(1):  # the sums of BLAS depend on the number of threads
        with kitchen.progress.task("fitting images to texts", len(base)) as task:
            of_image, of_text = fit(shapes, meanings, _blocks(base, task.advance), dimension, ridge)
        arrays = {
            "texts": (lambda rows: of_text(meanings(rows)), queries),
            "images": (lambda rows: of_image(shapes(rows)), queries),
            "base": (lambda rows: of_image(shapes(rows)), base),
        }
        _write(kitchen, arrays, "float32")


def _write(kitchen: Kitchen, arrays: dict[str, tuple[Features, np.ndarray]], dtype: str) -> None:
    for name, (features, rows) in arrays.items():
        width = features(rows[:1]).shape[1]
        with kitchen.progress.task(f"making {name}", len(rows)) as task:
            kitchen.write(name, map(features, _blocks(rows, task.advance)), (len(rows), width), dtype)


def _blocks(rows: np.ndarray, advance: Callable[[int], None]) -> Iterator[np.ndarray]:
    for start in range(0, len(rows), BLOCK):
        yield rows[start : start + BLOCK]
        advance(BLOCK)


# --- what is base, what are queries ---------------------------------------------------------------------------------


def _hold_out(sets: list[str], at_least: int, seed: int) -> np.ndarray:
    """Whole sets, none of them large, in seeded order until there are so many icons: a mask."""
    sizes = Counter(sets)
    small = sorted(name for name, size in sizes.items() if size < LARGEST_SET_HELD_OUT)
    chosen, count = set(), 0
    for place in np.random.default_rng(seed).permutation(len(small)):
        if count < at_least:
            chosen.add(small[place])
            count += sizes[small[place]]
    return np.array([name in chosen for name in sets])


def _with_own_words(rows: np.ndarray, texts: list[list[str]], known: Container[str]) -> np.ndarray:
    """Those whose name has words that are known, and not the same ones as an earlier name in whatever order."""
    first = {}
    for row in rows:
        words = frozenset(word for word in texts[row] if word in known)
        if words:
            first.setdefault(words, row)
    return np.array(list(first.values()))


# --- drawings -------------------------------------------------------------------------------------------------------


def _drawn(kitchen: Kitchen) -> tuple[np.ndarray, list[str]]:
    """Distinct drawings (icons, 32, 32) of ink, uint8, and `set/name` of each; made once for all arrays."""
    pixels, names = kitchen.path("drawings"), kitchen.folder / "names.txt"
    if not pixels.exists():
        needed("resvg_py")
        archive = kitchen.file("icons")
        sizes = _sets(archive)
        seen, kept, blocks = set(), [], []
        with kitchen.progress.task("drawing icons", sum(sizes.values())) as task:
            for block in _in_processes(_draw, _chunks(archive, sizes)):
                new = []
                for name, drawing in block:
                    digest = blake2b(drawing, digest_size=16).digest()
                    if digest not in seen and any(drawing):
                        seen.add(digest)
                        kept.append(name)
                        new.append(drawing)
                blocks.append(np.frombuffer(b"".join(new), np.uint8))
                task.advance(len(block))
        names.write_text("\n".join(kept) + "\n")
        kitchen.write("drawings", blocks, (len(kept), SIDE * SIDE), "uint8")
    return np.load(pixels, mmap_mode="r").reshape(-1, SIDE, SIDE), names.read_text().splitlines()


def _sets(archive: Path) -> dict[str, int]:
    """Icons of every set whose licence lets anyone use them."""
    with tarfile.open(archive) as content:
        collections = json.load(content.extractfile("package/collections.json"))
    return {name: item["total"] for name, item in collections.items() if not RESTRICTED.search(item["license"]["spdx"])}


def _chunks(archive: Path, sets: Iterable[str]) -> Iterator[list[tuple[str, str]]]:
    """(set/name, SVG) of all icons, some at a time, in the order of the archive."""
    with tarfile.open(archive) as content:
        for member in content:
            name = Path(member.name)
            if member.name != f"package/json/{name.name}" or name.stem not in sets:
                continue
            items = json.load(content.extractfile(member))
            drawn = [(f"{name.stem}/{icon}", svg_of(item, items)) for icon, item in items["icons"].items()]
            for start in range(0, len(drawn), CHUNK):
                yield drawn[start : start + CHUNK]


def svg_of(icon: dict, defaults: dict) -> str:
    """An SVG document of an icon; what it does not say of its box is said by its set, or is 0, 0, 16, 16."""
    otherwise = {"left": 0, "top": 0, "width": 16, "height": 16}
    box = " ".join(str(icon.get(side, defaults.get(side, value))) for side, value in otherwise.items())
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{SIDE}" height="{SIDE}" viewBox="{box}" color="#000">{icon["body"]}</svg>'
    )


def _draw(chunk: list[tuple[str, str]]) -> list[tuple[str, bytes]]:
    """Drawings in shades of ink on white, 32 x 32 bytes; blank where a document cannot be drawn."""
    from matplotlib.image import imread
    from resvg_py import svg_to_bytes

    drawings = []
    for name, svg in chunk:
        try:
            png = svg_to_bytes(svg_string=svg, width=SIDE, height=SIDE, skip_system_fonts=True)
        except ValueError:
            drawings.append((name, bytes(SIDE * SIDE)))
            continue
        red, green, blue, alpha = np.rint(imread(io.BytesIO(png), "png") * 255).astype(np.uint32).transpose(2, 0, 1)
        darkness = 255000 - 299 * red - 587 * green - 114 * blue
        drawings.append((name, (darkness * alpha // 255000).astype(np.uint8).tobytes()))
    return drawings


def _in_processes(function: Callable, items: Iterable) -> Iterator:
    """Like map, in a process for every CPU; the items are taken as they are needed."""
    processes = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(processes, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        running = deque()
        for item in items:
            running.append(pool.submit(function, item))
            if len(running) > 4 * processes:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


# --- features -------------------------------------------------------------------------------------------------------


def shrink(drawings: np.ndarray) -> np.ndarray:
    """uint8 (n, 32, 32) to (n, 16, 16): the mean of four pixels, rounded."""
    four = drawings.reshape(len(drawings), SIDE // 2, 2, SIDE // 2, 2)
    return ((four.sum(axis=(2, 4), dtype=np.uint16) + 2) // 4).astype(np.uint8)


def shape_features(drawings: np.ndarray) -> np.ndarray:
    """Histograms of edge directions in 4 x 4 cells, and the pixels at half size; each of length 1; float32 (n, 400)."""
    n, cell = len(drawings), SIDE // CELLS
    wide = np.pad(drawings.astype(np.int32), ((0, 0), (1, 1), (1, 1)))
    across = wide[:, 1:-1, 2:] - wide[:, 1:-1, :-2]
    down = wide[:, 2:, 1:-1] - wide[:, :-2, 1:-1]
    direction = _direction_table()[across + 255, down + 255]
    rows, columns = np.divmod(np.arange(SIDE * SIDE), SIDE)
    place = np.arange(n)[:, None] * CELLS**2 + rows // cell * CELLS + columns // cell
    strength = np.sqrt((across**2 + down**2).ravel())
    bins = place.ravel() * DIRECTIONS + direction.ravel()
    edges = np.bincount(bins, strength, n * CELLS**2 * DIRECTIONS).reshape(n, -1)
    pixels = shrink(drawings).reshape(n, -1)
    return np.hstack([_unit(edges.astype(np.float32)), _unit(pixels.astype(np.float32))])


@cache
def _direction_table() -> np.ndarray:
    """Number of the direction, either way round, of every gradient from (-255, -255) on; none is on a border."""
    gradient = np.arange(-255, 256)
    angle = np.arctan2(gradient[None, :], gradient[:, None])
    return np.floor(angle / np.pi * DIRECTIONS + 0.25).astype(np.int64) % DIRECTIONS


def words_of(name: str) -> list[str]:
    """`mdi/arrow-left-bold` → arrow, left, bold."""
    return [word for word in re.split("[^a-z0-9]+", name.split("/", 1)[1].lower()) if word]


def text_features(texts: list[list[str]], vectors: dict[str, np.ndarray]) -> np.ndarray:
    """Mean, largest and smallest of the words' vectors, each of length 1, or 0 where no word has one; float32."""
    width = len(next(iter(vectors.values())))
    features = np.zeros((len(texts), 3, width), np.float32)
    for row, text in enumerate(texts):
        known = np.array([vectors[word] for word in text if word in vectors])
        if len(known):
            features[row] = known.mean(axis=0), known.max(axis=0), known.min(axis=0)
    return _unit(features.reshape(-1, width)).reshape(len(texts), -1)


def _word_vectors(kitchen: Kitchen, wanted: set[str]) -> dict[str, np.ndarray]:
    """Of the words that have one; row i of the vectors is that of row i of the vocabulary."""
    values = np.load(kitchen.file("vectors"), mmap_mode="r")
    vocabulary = pyarrow.parquet.read_table(kitchen.file("vocabulary")).column(0).to_pylist()
    return {word: np.array(values[row]) for row, word in enumerate(vocabulary) if word in wanted}


def _unit(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1; those of length 0 stay."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows / np.where(lengths > 0, lengths, 1).astype(rows.dtype)


# --- canonical correlation ------------------------------------------------------------------------------------------


def fit(
    left: Features, right: Features, blocks: Iterable[np.ndarray], dimension: int, ridge: float
) -> tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]:
    """Two linear maps into one space, in which what belongs together lies as close as can be.

    Args:
        left, right: features of some rows, float32.
        blocks: the rows that are fitted.
        dimension: of the common space; at most the smaller number of features.
        ridge: added to both covariances, as a share of their mean variance.

    Returns:
        Functions from features to vectors of length 1, float32 (n, dimension).
    """
    count, total, product, width = 0, 0, 0, 0
    for rows in blocks:
        both = left(rows)
        width = both.shape[1]
        both = np.hstack([both, right(rows)])
        count += len(both)
        total = total + both.sum(axis=0, dtype=np.float64)
        product = product + (both.T @ both).astype(np.float64)
    mean = total / count
    covariance = product / count - np.outer(mean, mean)
    one, other = slice(None, width), slice(width, None)
    whiten = [_inverse_root(covariance[part, part], ridge) for part in (one, other)]
    u, correlations, v = np.linalg.svd(whiten[0] @ covariance[one, other] @ whiten[1], full_matrices=False)
    strongest = slice(None, dimension)
    return tuple(
        _map(mean[part], root @ (directions[:, strongest] * correlations[strongest]))
        for part, root, directions in ((one, whiten[0], u), (other, whiten[1], v.T))
    )


def _inverse_root(covariance: np.ndarray, ridge: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return vectors / np.sqrt(np.maximum(values, 0) + ridge * values.mean()) @ vectors.T


def _map(mean: np.ndarray, matrix: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda features: _unit((features - mean) @ matrix).astype(np.float32)
