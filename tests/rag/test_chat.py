"""The chat answerer against a server that misbehaves: nothing is lost, nothing is asked twice, no key gets anywhere."""

import os
import re
import signal
import sqlite3
import threading
from collections import Counter

import numpy as np
import pytest

from benchmarks import endpoint as endpoint_module
from benchmarks.cli import rag as rag_verb
from benchmarks.errors import UserError
from benchmarks.rag.chat import ChatAnswerer, ChatJudge
from tests.endpoint_server import Reply, serving
from tests.harness import call, finish, start, wait_for

KEY = "secret-key-4711"


def reply(text, **more) -> Reply:
    return Reply({"choices": [{"message": {"role": "assistant", "content": text}, **more}]})


def read_documents(path, content) -> Reply:
    """What a model would say that does as it is told."""
    system, user = (message["content"] for message in content["messages"])
    if system.startswith("You compare"):
        given, references = user.rpartition("Answer: ")[2], re.findall(r"^- (.*)$", user, re.MULTILINE)
        return reply("Yes." if given.lower() in map(str.lower, references) else "No.")
    land = re.search(r"land\d+", user.rpartition("Question: ")[2]).group()
    found = re.search(rf"^\[\d+\] (City\d+): the capital of {land}$", user, re.MULTILINE)
    return reply(found.group(1).upper() if found else "Unknown.")


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(endpoint_module, "PAUSE_SECONDS", 0.001)
    with serving(read_documents) as running:
        for name, value in (("URL", running.url), ("MODEL", "tiny/model:1"), ("KEY", KEY)):
            monkeypatch.setenv(f"ROBUST_ANN_CHAT_{name}", value)
        yield running


@pytest.fixture
def ask(server, where, world):
    """The verb with the chat answerer; checks that the key is in nothing that it says or writes."""

    def of(*options, judge="same"):
        done = call(rag_verb.main, *where, "--answerer", "openai", "--judge", judge, *options)
        written = b"".join(path.read_bytes() for path in world.rglob("*") if path.is_file())
        assert KEY.encode() not in written and KEY not in done.out + done.err
        assert all(headers["Authorization"] == f"Bearer {KEY}" for _, _, headers in server.asked)
        return done

    return of


def prompts(server) -> Counter:
    return Counter(content["messages"][1]["content"] for _, content, _ in server.asked)


def verdict_file(world, judge="same"):
    return world / "results" / "capitals" / "rag" / f"openai-tiny_model_1-{judge}.csv"


def test_a_study_with_a_server(ask, server, world):
    done = ask()
    assert done.code == 0, done.err
    assert re.search(r"openai-tiny_model_1: (\d+) new prompts, about [\d,]+ tokens", done.out)
    assert re.search(r"empty documents +0\.0000", done.out) and re.search(r"gold documents +1\.0000", done.out)
    assert verdict_file(world).is_file() and max(prompts(server).values()) == 1
    assert server.asked[0][0] == "/v1/chat/completions" and 1 < server.most <= 8
    asked = len(server.asked)
    again = ask()
    assert again.code == 0 and len(server.asked) == asked and "new prompts" not in again.out
    assert again.out == "\n".join(line for line in done.out.split("\n") if "new prompts" not in line)


@pytest.mark.parametrize(
    "troubles",
    [
        [Reply({"error": "slow"}, 429, {"Retry-After": "0"})] * 5,
        [Reply({}, 500), Reply({}, 503), Reply(b"<html>", 502)],
        [Reply(b'{"choices": [{'), Reply([]), Reply({"choices": []}), Reply({"choices": [{"message": None}]})],
        [Reply(None, None)] * 3,  # hangs up
        [Reply({"choices": ["no"]}), reply(None), reply(7)],
    ],
    ids=["rate limit", "server errors", "malformed", "hangs up", "no text"],
)
def test_what_passes_is_asked_again_and_changes_nothing(ask, server, world, troubles):
    assert ask("--limit", 8).code == 0
    expected, asked = verdict_file(world).read_bytes(), len(server.asked)
    (world / "data" / "answers.sqlite").unlink()
    server.next.extend(troubles)
    again = ask("--limit", 8)
    assert again.code == 0 and not again.err.count("warning") and verdict_file(world).read_bytes() == expected
    assert len(server.asked) == 2 * asked + len(troubles)


def test_a_server_that_does_not_answer_in_time(ask, server, monkeypatch):
    monkeypatch.setattr(endpoint_module, "TIMEOUT_SECONDS", 0.3)
    wait = threading.Event()
    server.next.extend([Reply({}, wait=wait)] * 2)
    done = ask("--limit", 3)
    wait.set()
    assert done.code == 0 and "warning" not in done.err


def test_one_bad_question_does_not_end_the_others_and_is_asked_again(ask, server, world):
    def moody(path, content):
        if "land3?" in content["messages"][1]["content"]:
            return Reply({"error": f"not this one, {KEY}"}, 400)
        return read_documents(path, content)

    server.answer = moody
    done = ask()
    assert done.code == 0 and "their questions are left out" in done.err and "400" in done.err
    lines = verdict_file(world).read_text().splitlines()[1:]
    assert {line.split(",")[0] for line in lines} == {str(row) for row in range(40) if row != 3}
    server.answer, asked = read_documents, len(server.asked)
    assert ask().code == 0
    assert all("land3?" in content["messages"][1]["content"] for _, content, _ in server.asked[asked:])
    assert len(verdict_file(world).read_text().splitlines()) == 1 + 40 * 10


def test_ten_in_a_row_end_it_and_what_was_answered_is_kept(ask, server, world):
    count, answered = iter(range(10**6)), set()

    def expires(path, content):
        if next(count) >= 20:
            return Reply({"error": f"bad key {KEY}"}, 401)
        answered.add(content["messages"][1]["content"])
        return read_documents(path, content)

    server.answer = expires
    done = ask()
    assert done.code == 2 and "401" in done.err and "10 questions in a row" in done.err
    assert len(done.err.strip().splitlines()[-1].splitlines()) == 1 and not verdict_file(world).exists()
    server.answer, before = read_documents, len(server.asked)
    assert ask().code == 0
    assert len(answered) == 20 and not answered & {
        content["messages"][1]["content"] for _, content, _ in server.asked[before:]
    }


def test_where_no_question_is_answered_it_says_why(ask, server):
    server.answer = lambda path, content: Reply({"error": "no"}, 401)
    done = ask("--limit", 1)
    assert done.code == 2 and "401" in done.err


def test_a_server_that_repeats_the_key(ask, server, world):
    server.answer = lambda path, content: reply(f"City0 by {KEY}")
    assert ask("--limit", 5, judge="normalised,model").code == 0


def test_many_prompts_need_a_yes(ask, server, monkeypatch):
    monkeypatch.setattr(rag_verb, "ASK_ABOVE", 3)
    done = ask("--price-in", "1000", "--price-out", "1000")
    assert done.code == 2 and "say --yes" in done.err and "in the currency of the prices" in done.out
    assert not server.asked
    assert ask("--yes").code == 0 and server.asked


def test_a_model_judges_and_judges_are_compared(ask, server):
    done = ask(judge="same,exact,model")
    assert done.code == 0, done.err
    # The model answers in capitals: the same but for case, never letter for letter.
    assert "judges same and model agree on 100.0%" in done.out and "kappa 1.000" in done.out
    assert "judges same and exact agree on" in done.out and done.out.count("new prompts") == 2
    assert max(prompts(server).values()) == 1


def test_a_killed_run_loses_nothing(server, where, world):
    """The process is killed while it waits; the next asks only what had no answer."""
    wait, count, answered = threading.Event(), iter(range(10**6)), set()

    def slow(path, content):
        if next(count) >= 30:
            wait.wait()
        else:
            answered.add(content["messages"][1]["content"])
        return read_documents(path, content)

    server.answer = slow
    process = start("rag", *where, "--answerer", "openai", "--judge", "same", script=("-m", "benchmarks"), **os.environ)
    wait_for(lambda: len(server.asked) >= 38)  # eight wait, thirty are answered
    wait_for(lambda: known(world) == 30)
    process.send_signal(signal.SIGKILL)
    finish(process)
    wait.set()
    server.answer, before = read_documents, len(server.asked)
    done = call(rag_verb.main, *where, "--answerer", "openai", "--judge", "same")
    assert done.code == 0, done.err
    later = {content["messages"][1]["content"] for _, content, _ in server.asked[before:]}
    assert len(answered) == 30 and not answered & later


def known(world) -> int:
    with sqlite3.connect(world / "data" / "answers.sqlite") as file:
        return file.execute("SELECT count(*) FROM answers").fetchone()[0]


def test_other_prompts_models_and_servers_are_other_answers(server, monkeypatch):
    one, judge = ChatAnswerer(), ChatJudge()
    monkeypatch.setenv("ROBUST_ANN_CHAT_MODEL", "other")
    assert len({one.identity, judge.identity, ChatAnswerer().identity}) == 3
    assert KEY not in repr(vars(one)) + one.identity


def test_answers_as_they_are_said(server):
    answerer = ChatAnswerer()
    for said, expected in (("unknown", ""), ("Unknown.", ""), (" City1 \n", "City1"), ("unknown city", "unknown city")):
        server.next.append(reply(said))
        assert answerer.answer("q", ("a", "b")) == expected
    content = server.asked[-1][1]
    assert "[1] a\n[2] b" in content["messages"][1]["content"] and content["temperature"] == 0
    answerer.answer("land1", ())
    assert "(none)" in server.asked[-1][1]["messages"][1]["content"]
    judge = ChatJudge()
    for said, expected in (("Yes", "yes"), ("**yes**, it does", "yes"), ("No.", "no"), ("yesterday", "no"), ("", "no")):
        server.next.append(reply(said))
        assert judge.answer("q", ("a", "b")) == expected


def test_a_model_that_thinks_too_long_is_told_of_at_once(server):
    server.next.append(reply("", finish_reason="length"))
    with pytest.raises(UserError, match="used up its"):
        ChatAnswerer().answer("q", ())
    assert len(server.asked) == 1


@pytest.mark.parametrize(("name", "says"), [("MODEL", "no model is named"), ("URL", "no endpoint is known")])
def test_what_is_not_set_is_named(where, server, monkeypatch, name, says):
    monkeypatch.delenv(f"ROBUST_ANN_CHAT_{name}")
    done = call(rag_verb.main, *where, "--answerer", "openai")
    assert done.code == 2 and says in done.err and f"ROBUST_ANN_CHAT_{name}" in done.err


def test_tokens_are_about_a_quarter_of_the_letters(server):
    documents = ["x" * 4000] * 3
    assert 3000 < ChatAnswerer().count_tokens("q", documents) < np.ceil(3200)
