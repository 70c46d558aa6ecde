"""From a card, or a file, to vectors that can be mapped: fetch, locate, split, check, hash; cached."""

import shutil
from pathlib import Path

import numpy as np
from filelock import FileLock

from benchmarks.cards.datasets import DatasetCard, HeldOut, Source, find_datasets, load_dataset_card
from benchmarks.data.check import Checked, check_vectors, require_finite
from benchmarks.data.corpus import Corpus, CorpusFiles, write_corpus
from benchmarks.data.embedding import embed, make_encoder, names_other_model
from benchmarks.data.fetch import discard, fetch, is_cropped
from benchmarks.data.formats import format_of, hdf5_distance, hdf5_matrices, locate, rows_of, write_npy
from benchmarks.data.generators import generate
from benchmarks.data.recipes import discard_recipe, make
from benchmarks.data.vectors import VectorFile
from benchmarks.errors import UserError, unknown_name
from benchmarks.files import resolved
from benchmarks.progress import Progress
from benchmarks.yamlfile import Strict

DEFAULT_HELD_OUT = 1000
RECORD = "prepared.json"


class Dataset(Strict):
    """A data set that is ready to be measured on."""

    name: str
    distance: str
    base: VectorFile
    queries: VectorFile
    learn: VectorFile | None = None
    corpus: CorpusFiles | None = None
    base_check: Checked
    queries_check: Checked
    card_digest: str
    stamps: dict[str, tuple[int, int, int]]

    @property
    def n(self) -> int:
        return self.base.rows

    @property
    def nq(self) -> int:
        return self.queries.rows

    @property
    def dimension(self) -> int:
        return self.base.dimension

    def require_unchanged(self) -> None:
        """Raises UserError if a file that is mapped is not the one it was: what was read of it is worth nothing."""
        for vectors in (self.base, self.queries, self.learn):
            if vectors is not None and _stamp(vectors.path) != self.stamps[str(vectors.path)]:
                raise UserError(f"{vectors.path}: was changed while it was in use; run again when it stays as it is")


def resolve_dataset(name: str, distance: str | None = None, queries: str | None = None) -> DatasetCard:
    """The card that a name, a card's path or a vector file's path means.

    Args:
        name: `glove-50-6b`, `path/to/card.yml`, or a file of vectors.
        distance: only with a file of vectors; taken from an HDF5 file that states it, else l2.
        queries: only with a file of vectors: a file of queries. Without it an HDF5 file's `test` is taken, and else
            up to 1,000 base vectors are held out as queries.

    Raises:
        UserError: there is no such data set or file.
    """
    known = find_datasets()
    path = Path(name)
    if name not in known:
        resolved(name)  # says what is wrong with it
        path = path.expanduser()
    if name in known or path.suffix in (".yml", ".yaml"):
        if distance or queries:
            raise UserError(f"--distance and --queries go with a file of vectors; {name} is a card and states both")
        if name not in known and not path.is_file():
            raise UserError(f"{path}: no such file")
        return load_dataset_card(known.get(name, path))
    if not path.suffix and not path.exists() and "/" not in name:
        raise unknown_name("data set", name, list(known), "see `python -m benchmarks list`, or give a file")
    if not path.is_file():
        raise UserError(f"{path}: no such file") if path.suffix or "/" in name else UserError(f"{path}: is not a file")
    return _card_of_file(path.resolve(), distance, queries)


def _card_of_file(path: Path, distance: str | None, queries: str | None) -> DatasetCard:
    format = format_of(path)
    base = Source(path=str(path), array="train" if format == "hdf5" else None)
    if queries:
        file = resolved(queries)
        query_source = Source(path=str(file), array="test" if format_of(file) == "hdf5" else None)
    elif format == "hdf5":
        query_source = Source(path=str(path), array="test")
    else:
        rows = rows_of(path, format)
        query_source = HeldOut(held_out=max(1, min(DEFAULT_HELD_OUT, rows // 10)))
    stated = hdf5_distance(path) if format == "hdf5" else None
    more = hdf5_matrices(path) if format == "hdf5" and not queries else ()
    return DatasetCard(
        name=path.stem,
        directory=path.parent,
        title=f"Vectors of {path.name}",
        distance=distance or stated or "l2",
        base=base,
        queries=query_source,
        learn=Source(path=str(path), array="learn") if "learn" in more else None,
        truth=Source(path=str(path), array="neighbors") if "neighbors" in more else None,
    )


def cache_folder(card: DatasetCard, data_dir: Path) -> Path:
    """Where the data set's files are cached; two cards of one name in different folders do not share it."""
    own = find_datasets().get(card.name)
    if own is not None and own.resolve().parent == card.directory:
        return data_dir / card.name
    return data_dir / f"{card.name}-{card.digest()[:8]}"


def prepare(card: DatasetCard, data_dir: Path, progress: Progress, force: bool = False) -> Dataset:
    """Make a data set ready, or find that it is.

    A prepared data set is made again when the card changes or when a file it maps is not the one it was (size or
    times).

    Raises:
        UserError: anything wrong with card, network, file or vectors.
    """
    folder = cache_folder(card, data_dir.resolve())
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{folder.name}.lock"):  # another run may be preparing it too
        dataset = None if force else _prepared(card, folder)
        if dataset is None:
            if force:
                shutil.rmtree(folder, ignore_errors=True)
                for source in (*card.sources(), *([card.truth] if card.truth else [])):
                    discard(source, folder.parent)
                if card.recipe:
                    discard_recipe(card.recipe, folder.parent)
            dataset = _prepare(card, folder, progress, force)
    return dataset


def _prepared(card: DatasetCard, folder: Path) -> Dataset | None:
    """What was prepared before, if card and files are still the same."""
    try:
        dataset = Dataset.model_validate_json((folder / RECORD).read_text())
        if dataset.corpus and names_other_model(card.retrieval.encoder, dataset.corpus.encoder):
            return None
        if dataset.card_digest == card.digest() and dataset.stamps == _stamps(
            card, (dataset.base, dataset.queries, dataset.learn), dataset.corpus
        ):
            return dataset.model_copy(update={"distance": card.distance})
    except (ValueError, OSError):
        pass  # never prepared, of an older version, or its files are gone
    return None


def _prepare(card: DatasetCard, folder: Path, progress: Progress, force: bool) -> Dataset:
    folder.mkdir(parents=True, exist_ok=True)
    corpus = _texts(card, folder, progress)
    if corpus and card.retrieval.encoder:
        base, queries, corpus = _encoded(card, corpus, folder, progress, force)
        learn = None
    else:
        base, queries, learn = _vectors(card, folder, progress)
    if corpus:
        require_texts(card, base, queries, corpus)
    for role, vectors in (("base", base), ("queries", queries), ("learn", learn)):
        if vectors is not None:
            require_fit(card, role, vectors, base)
    before = _stamps(card, (base, queries, learn), corpus)
    with progress.task(f"checking {card.name}", base.rows + queries.rows) as task:
        checks = {
            "base_check": check_vectors(base, "base", task.advance, _shown_path(card, card.base, base)),
            "queries_check": check_vectors(queries, "queries", task.advance, _shown_path(card, card.queries, queries)),
        }
    if learn is not None:
        check_vectors(learn, "learn")
    dataset = Dataset(
        name=card.name,
        distance=card.distance,
        base=base,
        queries=queries,
        learn=learn,
        corpus=corpus,
        card_digest=card.digest(),
        stamps=before,
        **checks,
    )
    dataset.require_unchanged()
    partial = folder / f".{RECORD}.partial"
    partial.write_text(dataset.model_dump_json(indent=1))
    partial.replace(folder / RECORD)
    return dataset


def _vectors(card: DatasetCard, folder: Path, progress: Progress):
    """Base, queries and learn vectors as files that can be mapped."""
    if card.generator:
        if card.dimension is None:
            raise UserError(f"data set {card.name}: a generator needs the dimension")
        with progress.task(f"generating {card.name}", None):
            arrays = generate(card.generator, card.dimension)
        base, queries = (
            write_npy(folder / f"{role}.npy", [array], array.shape, array.dtype.name)
            for role, array in zip(("base", "queries"), arrays, strict=True)
        )
        return base, queries, None
    base = locate_source(card, card.base, "base", folder, progress)
    if isinstance(card.queries, HeldOut):
        base, queries = _split(card, base, card.queries, folder, progress)
    else:
        queries = locate_source(card, card.queries, "queries", folder, progress)
    learn = locate_source(card, card.learn, "learn", folder, progress) if card.learn else None
    return base, queries, learn


def _texts(card: DatasetCard, folder: Path, progress: Progress) -> CorpusFiles | None:
    """Documents and questions of a retrieval set, checked and written where they can be mapped."""
    if card.retrieval is None:
        return None
    paths = {}
    for name in ("corpus", "questions", "judgments"):
        source = getattr(card.retrieval, name)
        if source is not None:
            paths[name] = _file_of(card, source, folder, progress)
    return write_corpus(card.retrieval, paths, folder, progress)


def _encoded(card: DatasetCard, files: CorpusFiles, folder: Path, progress: Progress, force: bool):
    """Base and queries as the card's encoder makes them of the texts, and who made them."""
    corpus, chosen = Corpus(files), card.retrieval.encoder
    encoder = make_encoder(chosen, folder.parent, progress)
    documents = corpus.documents if chosen.titles else corpus.texts
    base = embed(documents, encoder, "documents", folder.parent, progress, force)
    queries = embed(corpus.questions, encoder, "questions", folder.parent, progress, force)
    return base, queries, files.model_copy(update={"encoder": encoder.identity})


def require_texts(card: DatasetCard, base: VectorFile, queries: VectorFile, corpus: CorpusFiles) -> None:
    """Raises UserError where there are not as many texts as vectors."""
    for role, vectors, texts in (
        ("documents", base, corpus.document_rows),
        ("questions", queries, corpus.question_rows),
    ):
        if vectors.rows != texts:
            raise UserError(f"{vectors.path}: has {vectors.rows} vectors, {card.name} has {texts} {role}")


def _file_of(card: DatasetCard, source: Source, folder: Path, progress: Progress) -> Path:
    """The file of one source, made or fetched if need be."""
    if source.made:
        return make(card.recipe, source, folder.parent, progress)
    return fetch(source, card.directory, folder.parent, progress, card.dimension)


def locate_source(card: DatasetCard, source: Source, role: str, folder: Path, progress: Progress) -> VectorFile:
    """The rows of one source, fetched and converted into `folder` if need be.

    Raises:
        UserError: they cannot be had, or are fewer or more than the card says.
    """
    path = _file_of(card, source, folder, progress)
    format = source.format or format_of(path)
    vectors = locate(path, format, source.array, folder / f"{role}-converted.npy", progress)
    if source.rows and vectors.rows != source.rows and not is_cropped(source):
        raise UserError(f"{path}: holds {vectors.rows} rows, the card of {card.name} says {source.rows}")
    if source.crop_rows and vectors.rows < source.crop_rows:
        raise UserError(
            f"{path}: holds {vectors.rows} rows, the card of {card.name} takes the first {source.crop_rows}"
        )
    return vectors.crop(source.crop_rows) if source.crop_rows else vectors


def _split(card: DatasetCard, vectors: VectorFile, held_out: HeldOut, folder: Path, progress: Progress):
    """Take `held_out` random rows out as queries; base and queries keep the order of the file."""
    if held_out.held_out >= vectors.rows:
        raise UserError(f"data set {card.name}: {held_out.held_out} queries cannot be held out of {vectors.rows} rows")
    rows, shown = vectors.open(), _shown_path(card, card.base, vectors)
    is_query = np.zeros(vectors.rows, bool)
    is_query[np.random.default_rng(held_out.seed).permutation(vectors.rows)[: held_out.held_out]] = True
    step = 65536

    def blocks(chosen, task):
        for start in range(0, vectors.rows, step):
            block = rows[start : start + step]
            require_finite(block, start, "base", shown)  # here the rows still have the numbers that the user knows
            yield block[chosen[start : start + step]]
            task.advance(step)

    with progress.task(f"splitting {card.name}", 2 * vectors.rows) as task:
        return tuple(
            write_npy(
                folder / f"{role}.npy", blocks(chosen, task), (int(chosen.sum()), vectors.dimension), vectors.dtype
            )
            for role, chosen in (("base", ~is_query), ("queries", is_query))
        )


def _shown_path(card: DatasetCard, source: Source | HeldOut | None, vectors: VectorFile) -> Path:
    """The user's own file, where the vectors were copied out of one."""
    given = isinstance(source, Source) and source.path
    return resolved(source.path, card.directory) if given else vectors.path


def require_fit(card: DatasetCard, role: str, vectors: VectorFile, base: VectorFile) -> None:
    """Raises UserError where type or dimension are not those of the card and of the base."""
    if card.dimension and vectors.dimension != card.dimension:
        raise UserError(
            f"{vectors.path}: {role} has {vectors.dimension} dimensions, the card of {card.name} says {card.dimension}"
        )
    if card.dtype and vectors.dtype != card.dtype:
        raise UserError(f"{vectors.path}: {role} is {vectors.dtype}, the card of {card.name} says {card.dtype}")
    if vectors.dimension != base.dimension:
        raise UserError(f"{vectors.path}: {role} has {vectors.dimension} dimensions, the base has {base.dimension}")
    if vectors.dtype != base.dtype:
        raise UserError(f"{vectors.path}: {role} is {vectors.dtype}, the base is {base.dtype}")


def _stamp(path: Path) -> tuple[int, int, int]:
    """Size, time of modification and time of change (ns); the last is what nobody can set back."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _stamps(card: DatasetCard, mapped, corpus: CorpusFiles | None) -> dict[str, tuple[int, int, int]]:
    """Stamp of every file that the data set maps or was made from."""
    files = {vectors.path for vectors in mapped if vectors}
    files |= {corpus.documents, corpus.questions} if corpus else set()
    files |= {resolved(item.path, card.directory) for item in card.sources() if item.path}
    return {str(path): _stamp(path) for path in sorted(files)}
