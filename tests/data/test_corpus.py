"""Documents, questions, answers and gold documents: from a user's files to rows that fit the vectors."""

import gzip
import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.cards.datasets import Retrieval, TextSource, load_dataset_card
from benchmarks.cli import prepare as prepare_verb
from benchmarks.cli import verify as verify_verb
from benchmarks.data.answers import contains_answer, find_containing, normalise, words_of
from benchmarks.data.corpus import BATCH, Corpus, load_corpus, write_corpus
from benchmarks.data.embedding import ENCODERS
from benchmarks.data.prepare import prepare
from benchmarks.data.texts import read_rows
from benchmarks.paths import DATASETS
from benchmarks.progress import Progress
from tests.harness import call, params, read_results, run, write_bin

DOCUMENTS = [
    {"id": "leave", "title": "Leave", "text": "Employees have thirty days of leave."},
    {"id": "canteen", "text": "The canteen opens at eleven."},
    {"id": "office", "text": "The office is in Paris; Paris is the capital of France."},
]
QUESTIONS = [
    {"id": "q1", "text": "Where is the office?", "answers": ["Paris", "the city of light"], "gold": ["office"]},
    {"id": "q2", "text": "When can I eat, and where?", "answers": ["eleven"], "gold": ["canteen"]},
    {"id": "q3", "text": "Who pays?", "answers": ["nobody"], "gold": []},
]
CARD = """title: Our handbook and what people ask
distance: ip
retrieval:
  corpus: {path: handbook.jsonl}
  questions: {path: questions.csv}
  encoder: {name: minilm-static}
"""


class Letters:
    """An encoder that needs no model: how often every letter occurs."""

    block = 2

    def __init__(self, card, data_dir, progress):
        self.identity = f"letters {card.max_tokens}"

    def load(self):
        pass

    def encode(self, texts, role):
        counts = np.array([[text.lower().count(chr(97 + place)) + 0.5 for place in range(26)] for text in texts], "f4")
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


@pytest.fixture
def letters(monkeypatch):
    monkeypatch.setitem(ENCODERS, "minilm-static", Letters)


def json_lines(rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def write(tmp_path):
    """Write texts and read them as a corpus."""

    def of(documents=DOCUMENTS, questions=QUESTIONS, **fields) -> Corpus:
        paths = {"corpus": tmp_path / "c.jsonl", "questions": tmp_path / "q.jsonl"}
        paths["corpus"].write_text(documents if isinstance(documents, str) else json_lines(documents))
        paths["questions"].write_text(questions if isinstance(questions, str) else json_lines(questions))
        if "judged" in fields:
            paths["judgments"] = tmp_path / "j.qrels"
            paths["judgments"].write_text(fields.pop("judged"))
            fields["judgments"] = {"path": "j.qrels"}
        given = {"corpus": {"path": "c.jsonl"}, "questions": {"path": "q.jsonl"}, **fields}
        return Corpus(write_corpus(Retrieval.model_validate(given), paths, tmp_path, Progress()))

    return of


# --- a user's own ---------------------------------------------------------------------------------------------------


@pytest.fixture
def handbook(tmp_path, letters):
    (tmp_path / "handbook.jsonl").write_text(json_lines(DOCUMENTS))
    lines = ["id,text,answers,gold"]
    for item in QUESTIONS:
        lines.append(f'{item["id"]},"{item["text"]}",{"|".join(item["answers"])},{"|".join(item["gold"])}')
    (tmp_path / "questions.csv").write_text("\ufeff" + "\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "own.yml").write_text(CARD)
    return tmp_path / "own.yml"


def test_a_card_of_six_lines_is_an_ordinary_data_set(handbook, tmp_path):
    dataset = prepare(load_dataset_card(handbook), tmp_path / "data", Progress())
    assert (dataset.n, dataset.nq, dataset.dimension, dataset.distance) == (3, 3, 26, "ip")
    corpus = load_corpus(dataset)
    assert list(corpus.document_ids) == ["leave", "canteen", "office"] and list(corpus.titles) == ["Leave", "", ""]
    assert corpus.documents[0] == "Leave: Employees have thirty days of leave."
    assert [corpus.documents[row] for row in range(3)] == list(corpus.documents) == corpus.documents[:]
    assert list(corpus.questions) == [item["text"] for item in QUESTIONS]
    assert list(corpus.question_ids) == ["q1", "q2", "q3"]
    assert list(corpus.answers) == [tuple(item["answers"]) for item in QUESTIONS]
    assert [gold.tolist() for gold in corpus.gold] == [[2], [1], []] and corpus.gold_kind == "stated"
    assert list(corpus.grades) == [{}, {}, {}]
    expected = Letters(load_dataset_card(handbook).retrieval.encoder, None, None)
    np.testing.assert_array_equal(dataset.base.open(), expected.encode(list(corpus.documents), "documents"))
    np.testing.assert_array_equal(dataset.queries.open(), expected.encode(list(corpus.questions), "questions"))


def test_it_is_run_like_any_other_and_its_answers_lead_to_documents(handbook, tmp_path):
    """The whole way: card, vectors, exact search, documents."""
    done = run(
        *("--dataset", handbook, "--data-dir", tmp_path / "data", "--results-dir", tmp_path / "results"),
        *("--algorithm", "toy", "--k", 2),
    )
    assert done.code == 0, done.err
    exact = next(result for result in read_results(tmp_path / "results") if params(result)["drop"] == 0)
    dataset = prepare(load_dataset_card(handbook), tmp_path / "data", Progress())
    corpus, scores = load_corpus(dataset), dataset.queries.open() @ dataset.base.open().T
    best = [corpus.documents[row] for row in scores.argmax(axis=1)]
    assert [corpus.documents[row] for row in exact.neighbors[:, 0]] == best
    assert not corpus.find_gold(exact.neighbors)[2].any()


def test_preparing_again_is_the_same_and_encodes_nothing(handbook, tmp_path, monkeypatch):
    card = load_dataset_card(handbook)
    one = prepare(card, tmp_path / "data", Progress())
    monkeypatch.setattr(Letters, "encode", lambda *arguments: pytest.fail("encoded again"))
    assert prepare(card, tmp_path / "data", Progress()) == one
    (tmp_path / "own.yml").write_text(CARD.replace("what people", "what they"))
    assert prepare(load_dataset_card(handbook), tmp_path / "data", Progress()).base_check == one.base_check


def test_a_text_that_changes_is_encoded_again(handbook, tmp_path):
    one = prepare(load_dataset_card(handbook), tmp_path / "data", Progress())
    (tmp_path / "handbook.jsonl").write_text(json_lines(DOCUMENTS[:2]) + '{"id": "office", "text": "Nowhere"}\n')
    other = prepare(load_dataset_card(handbook), tmp_path / "data", Progress())
    assert other.base_check != one.base_check and other.queries_check == one.queries_check
    assert load_corpus(other).documents[2] == "Nowhere"
    elsewhere = prepare(load_dataset_card(handbook), tmp_path / "elsewhere", Progress())
    assert elsewhere.base_check == other.base_check


def test_from_nothing_encodes_again(handbook, tmp_path, monkeypatch):
    card, calls = load_dataset_card(handbook), []
    one = prepare(card, tmp_path / "data", Progress())
    encode = Letters.encode
    monkeypatch.setattr(Letters, "encode", lambda self, texts, role: calls.append(role) or encode(self, texts, role))
    assert prepare(card, tmp_path / "data", Progress(), force=True).base_check == one.base_check
    assert calls == ["documents"] * 2 + ["questions"] * 2


def test_titles_are_encoded_unless_the_card_says_otherwise(handbook, tmp_path):
    handbook.write_text(CARD.replace("minilm-static}", "minilm-static, titles: false}"))
    dataset = prepare(load_dataset_card(handbook), tmp_path / "data", Progress())
    encoder = Letters(load_dataset_card(handbook).retrieval.encoder, None, None)
    np.testing.assert_array_equal(dataset.base.open(), encoder.encode([item["text"] for item in DOCUMENTS], ""))


def test_the_verbs_take_it(handbook, tmp_path):
    done = call(prepare_verb.main, "--dataset", handbook, "--data-dir", tmp_path / "data")
    assert done.code == 0 and "3 base vectors and 3 queries of 26 dimensions" in done.out
    assert "3 documents" in done.out and "2 questions have gold documents" in done.out
    assert call(verify_verb.main, "--dataset", handbook, "--data-dir", tmp_path / "data").code == 0
    (tmp_path / "questions.csv").write_text("text,gold\nwhat?,nothing\n")
    done = call(verify_verb.main, "--dataset", handbook, "--data-dir", tmp_path / "data")
    assert done.code == 1 and "gold document 'nothing' is not in the corpus" in done.out


def test_vectors_that_are_there_need_as_many_texts(handbook, tmp_path, refusal):
    write_bin(tmp_path / "base.fbin", np.ones((3, 4), "f4"))
    write_bin(tmp_path / "queries.fbin", np.ones((2, 4), "f4"))
    text = CARD.replace("  encoder: {name: minilm-static}\n", "")
    handbook.write_text(text + "base: {path: base.fbin}\nqueries: {path: queries.fbin}\n")
    message = refusal(prepare, load_dataset_card(handbook), tmp_path / "data", Progress())
    assert "queries.fbin: has 2 vectors, own has 3 questions" in message
    write_bin(tmp_path / "queries.fbin", np.ones((3, 4), "f4"))
    dataset = prepare(load_dataset_card(handbook), tmp_path / "data", Progress())
    assert load_corpus(dataset).questions[1] == "When can I eat, and where?" and dataset.corpus.encoder is None


def test_vectors_alone_have_no_corpus(make_dataset, refusal):
    vectors = np.eye(3, dtype="f4")
    assert "its card needs `retrieval:`" in refusal(load_corpus, make_dataset(vectors, vectors))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("encoder: {name: minilm-static}", "", "exactly one of base, generator and retrieval.encoder"),
        ("distance: ip", "distance: ip\nbase: {path: a.npy}\nqueries: {path: b.npy}", "exactly one of base"),
        ("distance: ip", "distance: ip\nqueries: {held_out: 3}", "leave queries and learn out"),
        ("minilm-static", "minilm-statik", "own.yml:6: retrieval.encoder.name"),
        ("minilm-static", "minilm, model: x", "takes neither model nor batch"),
        ("minilm-static", "sentence-transformers", "needs a model"),
        ("minilm-static", "openai, max_tokens: 9", "max_tokens goes with"),
        ("minilm-static", "minilm, url: 'http://x'", "url goes with openai"),
        ("{path: handbook.jsonl}", "{path: handbook.jsonl, array: x}", "array and crop_sha256"),
        ("{path: handbook.jsonl}", "{made: documents.parquet}", "recipe and made go together"),
        ("  encoder", "  answerable_rows: 3\n  encoder", "goes with only_answerable"),
        ("  encoder", "  gold: containing\n  judgments: {path: x.qrels}\n  encoder", "judgments say which"),
    ],
)
def test_a_card_that_makes_no_sense(handbook, refusal, old, new, words):
    handbook.write_text(CARD.replace(old, new))
    message = refusal(load_dataset_card, handbook)
    assert words in message and message.startswith(str(handbook))


# --- texts ----------------------------------------------------------------------------------------------------------


def test_every_format_gives_the_same_rows(tmp_path):
    rows = [{"id": "1", "text": 'said "so", she'}, {"id": "2", "text": "naïve"}]
    (tmp_path / "a.jsonl").write_text(json_lines(rows) + "\n")
    (tmp_path / "a.csv").write_text('id,text\r\n1,"said ""so"", she"\r\n2,naïve\r\n', encoding="utf-8")
    (tmp_path / "a.tsv").write_text('id\ttext\n1\tsaid "so", she\n2\tnaïve\n', encoding="utf-8")
    (tmp_path / "b.tsv").write_text('1\tsaid "so", she\n2\tnaïve\n', encoding="utf-8")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    (tmp_path / "c.jsonl").write_text(json_lines({"_id": row["id"], "body": row["text"]} for row in rows))
    for name, more in [
        *((name, {}) for name in ("a.jsonl", "a.csv", "a.tsv", "a.parquet", "a.csv.gz")),
        ("b.tsv", {"header": ["id", "text"]}),
        ("c.jsonl", {"columns": {"id": "_id", "text": "body"}}),
    ]:
        assert [row for _, row in read_rows(tmp_path / name, TextSource(path=name, **more))] == rows, name
        assert len(list(read_rows(tmp_path / name, TextSource(path=name, crop_rows=1, **more)))) == 1


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", b'{"text": "a"}\n{"text"\n', "a.jsonl:2: is no JSON object"),
        ("a.jsonl", b'["text"]\n', "a.jsonl:1: is no JSON object"),
        ("a.jsonl", b"[" * 100_000, "a.jsonl:1: is no JSON object"),
        ("a.jsonl", b'{"text": "\xff"}\n', "is not UTF-8"),
        ("a.csv", b"id,text\n1,a,b\n", "a.csv:2: has 3 columns, not 2"),
        ("a.csv", b'id,text\n1,"a"b\n', "a.csv:2: "),
        ("a.parquet", b"no", "is not a readable Parquet file"),
        ("a.jsonl.gz", b"no", "is not a whole .gz file"),
        ("a.txt", b"no", "unknown kind of file; texts are read from .jsonl"),
    ],
)
def test_files_that_are_not_texts(tmp_path, refusal, name, content, words):
    (tmp_path / name).write_bytes(content)
    assert words in refusal(lambda: list(read_rows(tmp_path / name, TextSource(path=name))))


@pytest.mark.parametrize(
    ("documents", "questions", "words"),
    [
        ([{"id": "a", "text": " "}], QUESTIONS, "c.jsonl:1: has no text"),
        ([{"id": "a", "body": "x"}], QUESTIONS, "it has id, body (see `columns:`)"),
        ([{"id": "a", "text": "x"}] * 2, QUESTIONS, "c.jsonl:2: id 'a' was there before"),
        ([{"id": ["a"], "text": "x"}], QUESTIONS, "id is no text but list"),
        ("", QUESTIONS, "c.jsonl: has no rows"),
        (DOCUMENTS, [{"text": "x", "gold": ["none"]}], "q.jsonl:1: gold document 'none' is not in the corpus"),
        (DOCUMENTS, [{"text": "x", "answers": [["a"]]}], "answers is no list of texts"),
        (DOCUMENTS, "", "q.jsonl: has no rows"),
    ],
)
def test_texts_that_do_not_fit(write, refusal, documents, questions, words):
    assert words in refusal(write, documents, questions)


def test_counts_are_those_of_the_card(write, refusal):
    assert "holds 3 rows of text, the card says 4" in refusal(write, corpus={"path": "c.jsonl", "rows": 4})
    encoder = {"only_answerable": True, "encoder": {"name": "minilm"}}
    assert "2 questions have a gold document, the card says 3" in refusal(write, answerable_rows=3, **encoder)
    assert list(write(answerable_rows=2, **encoder).question_ids) == ["q1", "q2"]


def test_of_fewer_documents_what_is_gold_may_be_missing(write):
    corpus = write(corpus={"path": "c.jsonl", "crop_rows": 2}, judged="q1 0 office 1\nq2 0 canteen 1\n")
    assert [gold.tolist() for gold in corpus.gold] == [[], [1], []] and len(corpus.documents) == 2


def test_human_judgments(write, refusal):
    judged = "q1 0 office 2\nq1 0 canteen 0\nq3 Q0 leave 1\nother 0 leave 1\n\n"
    corpus = write(questions=[{**item, "gold": []} for item in QUESTIONS], judged=judged)
    assert list(corpus.grades) == [{2: 2, 1: 0}, {}, {0: 1}]
    assert [gold.tolist() for gold in corpus.gold] == [[2], [], [0]]
    assert "document 'gone' is not in the corpus" in refusal(write, judged="q1 0 gone 1")
    assert "has 3 columns" in refusal(write, judged="q1 gone 1")
    assert "grade 'x' is no whole number" in refusal(write, judged="q1 0 leave x")
    assert "judges none of the questions" in refusal(write, judged="1 0 leave 1")


def test_many_documents_are_read_by_row(write):
    count = 2 * BATCH + 3
    corpus = write([{"text": f"document {row}"} for row in range(count)], QUESTIONS[2:])
    assert len(corpus.documents) == count and len(corpus.document_ids) == count
    for row in (0, BATCH - 1, BATCH, 2 * BATCH, count - 1):
        assert corpus.documents[row] == f"document {row}" and corpus.document_ids[np.int32(row)] == str(row)
    assert corpus.documents[BATCH - 1 : BATCH + 1] == [f"document {BATCH - 1}", f"document {BATCH}"]
    assert corpus.documents[-1] == f"document {count - 1}"
    with pytest.raises(IndexError):
        corpus.documents[count]


def test_which_of_the_retrieved_are_gold(write):
    corpus = write()
    found = corpus.find_gold(np.array([[2, 0, -1], [-1, -1, -1], [0, 1, 2]], np.int32))
    assert found.tolist() == [[True, False, False], [False] * 3, [False] * 3]
    with pytest.raises(ValueError, match="2 lists of neighbours for 3 questions"):
        corpus.find_gold(np.zeros((2, 3), int))


# --- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [("The Café!", "cafe"), ("U.S.A.", "u s a"), ("AC/DC", "ac dc"), ("straße", "STRASSE"), ("“It’s”", "it's")],
)
def test_what_does_not_count(one, other):
    assert normalise(one) == normalise(other) != ""


def test_an_answer_is_found_word_for_word(write):
    documents = ["She was born in New York City.", "A new city", "york", "Newyork", "NEW YORK"]
    assert find_containing(documents, [["New York", "york city"], ["new", "city"], ["ny"], []]) == [
        [0, 4],
        [0, 1, 4],
        [],
        [],
    ]
    assert contains_answer("the new-york times", ["New York"]) and not contains_answer("newyork", ["New York"])
    corpus = write(gold="containing")
    assert [gold.tolist() for gold in corpus.gold] == [[2], [1], []] and corpus.gold_kind == "containing"


WORDS = st.lists(st.sampled_from(["aaa", "bbb", "ccc", "the", "Bbb,"]), min_size=1, max_size=6).map(" ".join)


@given(st.lists(WORDS, max_size=6), st.lists(st.lists(WORDS, max_size=3), max_size=4))
def test_what_is_found_is_what_a_search_in_strings_finds(documents, answers):
    def stands_in(answer, document):
        words = normalise(answer)
        return bool(words) and f" {words} " in f" {normalise(document)} "

    expected = [
        [row for row, text in enumerate(documents) if any(stands_in(answer, text) for answer in group)]
        for group in answers
    ]
    assert find_containing(documents, answers) == expected


@given(st.text())
def test_normalising_twice_is_once(text):
    assert normalise(normalise(text)) == normalise(text) and normalise(text).split() == words_of(text)


# --- the cards ------------------------------------------------------------------------------------------------------

SETS = sorted(path.stem for path in DATASETS.glob("*.yml") if "\nretrieval:" in path.read_text())


def test_retrieval_sets_share_what_they_have_in_common():
    cards = {name: load_dataset_card(DATASETS / f"{name}.yml") for name in SETS}
    shared = [cards[name] for name in ("wiki-trivia", "wiki-triviaqa", "wiki-webquestions")]
    assert len({card.recipe.model_dump_json() for card in shared}) == 1
    assert len({card.retrieval.corpus.model_dump_json() for card in shared}) == 1
    assert len({card.retrieval.encoder.model_dump_json() for card in shared}) == 1
    assert all(None not in card.expected_rows() for card in cards.values())
