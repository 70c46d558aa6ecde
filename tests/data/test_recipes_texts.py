"""Recipes of retrieval sets, on fragments written for the tests; the real packages in the slow ones."""

import gzip
import io
import json
import shutil
import tarfile
import zipfile

import numpy as np
import pyarrow.parquet
import pytest
import yaml

from benchmarks.cards.datasets import Source, load_dataset_card
from benchmarks.data.corpus import load_corpus
from benchmarks.data.fetch import fetch
from benchmarks.data.prepare import prepare
from benchmarks.data.recipes import dictionaries, trivia
from benchmarks.data.recipes.dictionaries import Sense, number_of, senses, synsets
from benchmarks.data.recipes.trivia import json_lines, questions_of, sentences, tab_separated
from benchmarks.errors import UserError
from benchmarks.paths import DATASETS
from benchmarks.progress import Progress
from tests.data.test_recipes import Larder

# --- Wikipedia and questions ----------------------------------------------------------------------------------------

ARTICLES = {
    "Ada": {"extract": "Ada wrote programs for an engine. She was born in 1815 in London. Mr. B. knew her."},
    "Mia": {"extract": " Is this one sentence, e.g. a question? It is another one, I think! "},
}


def test_sentences_have_the_title_of_their_article():
    assert [(item["id"], item["title"], item["text"]) for item in sentences(ARTICLES)] == [
        ("wikipedia/Ada/0", "Ada", "Ada wrote programs for an engine."),
        ("wikipedia/Ada/1", "Ada", "She was born in 1815 in London."),
        ("wikipedia/Mia/0", "Mia", "Is this one sentence, e.g. a question?"),
        ("wikipedia/Mia/1", "Mia", "It is another one, I think!"),
    ]


def test_questions_of_a_quiz():
    items = ["AUTHOR: somebody", "CONFIG: {x: [1]}", "'How many? ': [12, twelve]", "So?: [yes]", "When?: [2001-01-01]"]
    assert questions_of("\n".join(items).encode()) == {
        "How many?": ["12", "twelve"],
        "So?": ["yes"],
        "When?": ["2001-01-01"],
    }


def test_a_quoted_table_is_not_split_at_its_quotes():
    content = 'who?\t[\'Ann\']\r\nwhere?\t"[""it\'s here"", \'there\']"\r\n'
    assert list(tab_separated(content)) == [
        {"id": "0", "text": "who?", "answers": ["Ann"]},
        {"id": "1", "text": "where?", "answers": ["it's here", "there"]},
    ]


def test_questions_that_are_objects():
    assert list(json_lines('{"question": "who?", "answer": ["Ann"]}\n')) == [
        {"id": "0", "text": "who?", "answers": ["Ann"]}
    ]


@pytest.fixture
def sources(tmp_path):
    """Files in the form of the packages."""
    with zipfile.ZipFile(tmp_path / "wiki.whl", "w") as wheel:
        wheel.writestr(trivia.SUMMARIES, json.dumps(ARTICLES))
    with zipfile.ZipFile(tmp_path / "quiz.whl", "w") as wheel:
        for name in trivia.GENERAL:
            wheel.writestr(f"{trivia.LISTS}/{name}.yaml", yaml.safe_dump({"AUTHOR": "x", f"Who is {name}?": ["Ada"]}))
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("topics-and-qrels/topics.dpr.trivia.test.txt", "who?\t['Ada', 'Lovelace']\r\n")
        archive.writestr("topics-and-qrels/topics.dpr.wq.test.txt", '{"question": "what?", "answer": ["engine"]}\n')
    with zipfile.ZipFile(tmp_path / "questions.whl", "w") as wheel:
        wheel.writestr("pyserini/resources/jars/anserini-0-fatjar.jar", inner.getvalue())
    return {
        "summaries": tmp_path / "wiki.whl",
        "trivia": tmp_path / "quiz.whl",
        "questions": tmp_path / "questions.whl",
        "wordnet": UserError("no apt-get"),
        "wordnet-upstream": archive_of(tmp_path / "WNdb.tar.gz", DATA_FILES, "dict/data."),
    }


def table(larder, name):
    return pyarrow.parquet.read_table(larder.path(name)).to_pylist()


def test_the_tables_of_trivia(tmp_path, sources):
    larder = Larder(tmp_path, **sources)
    for name in ("documents", "trivia", "triviaqa", "webquestions"):
        trivia.trivia(larder, f"{name}.parquet", 0, glosses=True)
    documents = table(larder, "documents.parquet")
    assert [item["id"] for item in documents][-2:] == ["wordnet/adj/00000003", "wordnet/adv/00000004"]
    assert len(documents) == 4 + 4 and documents[4]["title"] == "gold plate, gilding"
    assert len(table(larder, "trivia.parquet")) == len(trivia.GENERAL) == 11
    assert table(larder, "triviaqa.parquet") == [{"id": "0", "text": "who?", "answers": ["Ada", "Lovelace"]}]
    assert table(larder, "webquestions.parquet") == [{"id": "0", "text": "what?", "answers": ["engine"]}]
    trivia.trivia(larder, "documents.parquet", 0, glosses=False)
    assert len(table(larder, "documents.parquet")) == 4


# --- dictionaries ---------------------------------------------------------------------------------------------------

DATA_FILES = {
    "noun": "  1 This software and database is being provided\n"
    '00000001 06 n 02 gold_plate 0 gilding 0 001 @ 1 n 0000 | a thin plating; "he said; so" - A. B.; and more  \n',
    "verb": "00000002 30 v 01 cry 0 000 01 + 08 00 | shed tears  \n",
    "adj": '00000003 00 s 01 galore(ip) 0 000 | in great numbers; "daffodils galore"  \n',
    "adv": "00000004 02 r 0a " + " ".join(f"w{place} 0" for place in range(10)) + ' 000 | "only an example"  \n',
}

ENTRIES = [
    # A headword with an origin over two lines, numbered senses, fields, a quotation and who said it.
    """Coal \\Coal\\ (k[=o]l), n. [AS. col; akin to D. kool, OHG.
   chol. Cf. {Kiln}.]
   1. (Min.) A black, solid, combustible
      substance.  --Dana.
      [1913 Webster]

            Charcoal of roots.
                                                  --Bacon.
      [1913 Webster]

   2. See {Cinder}.
      [1913 Webster]

   Note: This word is often used.
         [1913 Webster]

   {Coal bed} (Geol.), a layer or stratum of mineral coal.
      [1913 Webster]
""",
    """coalbin \\coalbin\\ n.
   a bin for holding coal.

   Syn: coalhole.
        [WordNet 1.5]
""",
    """Amish \\Am"ish\\, n. sing. & pl. [Written also {Omish}.] (Eccl.
   Hist.)
   The Amish Mennonites.
   [Webster 1913 Suppl.]
""",
    "00-database-info\nGCIDE\n",
]
SENSES = [
    Sense("Coal", "A black, solid, combustible substance."),
    Sense("Coal bed", "a layer or stratum of mineral coal."),
    Sense("Amish", "The Amish Mennonites."),
]


def digits_of(number: int) -> str:
    text = dictionaries.DIGITS[number % 64]
    return digits_of(number // 64) + text if number >= 64 else text


def dictionary() -> tuple[str, bytes]:
    content, lines = b"", []
    for word, entry in zip(["coal", "coalbin", "amish", "00-database-info"], ENTRIES, strict=True):
        lines.append(f"{word}\t{digits_of(len(content))}\t{digits_of(len(entry.encode()))}")
        content += entry.encode()
    return "\n".join([*lines, lines[0].replace("coal", "coals")]) + "\n", content


def archive_of(path, files, prefix):
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            content = text if isinstance(text, bytes) else text.encode()
            entry = tarfile.TarInfo(f"{prefix}{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def test_synsets():
    found = list(synsets(DATA_FILES.items()))
    assert [(item.id, item.words) for item in found[:3]] == [
        ("noun/00000001", ["gold plate", "gilding"]),
        ("verb/00000002", ["cry"]),
        ("adj/00000003", ["galore"]),
    ]
    assert len(found[3].words) == 10
    glosses = ["a thin plating; and more", "shed tears", "in great numbers", '"only an example"']
    assert [item.gloss for item in found] == glosses


def test_numbers_of_dictd():
    assert [number_of(text) for text in ("A", "B", "/", "BA", "BNy")] == [0, 1, 63, 64, 64 * 64 + 13 * 64 + 50]
    assert all(number_of(digits_of(number)) == number for number in (0, 63, 64, 4095, 4096, 10**9))


def test_senses_but_for_those_of_wordnet():
    assert list(senses(*dictionary())) == SENSES


def test_the_tables_of_the_reverse_dictionary(tmp_path, sources, monkeypatch):
    index, content = dictionary()
    files = {"gcide.index": index.encode(), "gcide.dict.dz": gzip.compress(content)}
    monkeypatch.setattr(
        dictionaries, "debian_files", lambda path, folder: files if "dictd" in folder else pytest.fail("not needed")
    )
    noun = "00000001 06 n 02 coal_bed 0 vein 0 000 | where coal lies  \n00000002 06 n 01 tree 0 000 | a plant  \n"
    sources["wordnet-upstream"] = archive_of(tmp_path / "w.tar.gz", {**DATA_FILES, "noun": noun}, "dict/data.")
    larder = Larder(tmp_path, dictionary=tmp_path / "gcide.deb", **sources)
    dictionaries.reverse_dictionary(larder, "questions.parquet", 0)
    found = [Sense(row["title"], row["text"]) for row in table(larder, "documents.parquet")]
    assert found == SENSES
    assert table(larder, "questions.parquet") == [
        {"id": "noun/00000001", "text": "where coal lies", "answers": ["coal bed", "vein"], "gold": ["1"]}
    ]


def test_wordnet_that_is_nowhere_or_damaged(tmp_path, sources, refusal):
    larder = Larder(tmp_path, **{**sources, "wordnet-upstream": UserError("no network")})
    assert refusal(lambda: list(dictionaries.wordnet(larder))) == "no apt-get; no network"
    whole = archive_of(tmp_path / "z", DATA_FILES, "dict/data.").read_bytes()
    for content in (b"no archive", whole[:200]):
        (tmp_path / "x").write_bytes(content)
        larder.files["wordnet-upstream"] = tmp_path / "x"
        assert "x: is damaged" in refusal(lambda: list(dictionaries.wordnet(larder)))
    larder.files["wordnet-upstream"] = archive_of(tmp_path / "y", {"noun": ""}, "dict/data.")
    assert "holds no data.verb" in refusal(lambda: list(dictionaries.wordnet(larder)))


# --- archives -------------------------------------------------------------------------------------------------------


def test_a_member_of_a_tar_archive_at_an_address(tmp_path, server, refusal):
    whole = archive_of(tmp_path / "x.tar.gz", {"collection.tsv": "1\tone\n"}, "").read_bytes()

    def get(content, member="collection.tsv"):
        source = Source(url=server.put("/x.tar.gz", content), member=member, sha256=None)
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        return fetch(source, tmp_path, tmp_path / "cache", Progress())

    assert get(whole).read_text() == "1\tone\n"
    assert "holds no file other.tsv" in refusal(get, whole, "other.tsv")
    for content in (whole[:-20], b"no archive"):
        assert "is not a whole" in refusal(get, content)


# --- the real thing -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="WordNet comes as a Debian package")
def test_wiki_trivia(tmp_path):
    """Everything from nothing: packages, 153,973 passages, encoder; exact search finds what it found before."""
    dataset = prepare(load_dataset_card(DATASETS / "wiki-trivia.yml"), tmp_path, Progress())
    corpus = load_corpus(dataset)
    scores = dataset.queries.open()[:500] @ dataset.base.open().T
    nearest = np.argpartition(-scores, 10, axis=1)[:, :10]
    hits = [np.isin(rows, gold).any() for rows, gold in zip(nearest, corpus.gold[:500], strict=True)]
    assert 0.25 < np.mean(hits) < 0.45
    assert any("Thornton Wilder" in answers for answers in corpus.answers)
