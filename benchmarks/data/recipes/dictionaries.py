"""WordNet and Webster's dictionary: words and what they mean, and one looked up by the other."""

import gzip
import io
import re
import shutil
import subprocess
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.data.answers import normalise
from benchmarks.data.recipes.kitchen import Kitchen, recipe
from benchmarks.errors import UserError

PARTS = ("noun", "verb", "adj", "adv")
EXAMPLE = re.compile(r';?\s*"[^"]*"?[^;]*')  # what is quoted in a gloss, and who said it
MARKER = re.compile(r"\([a-z]+\)$")  # at the end of an adjective: where it stands
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
SOURCE = re.compile(r"\[([^\[\]]*(?:Webster|WordNet \d|PJC|Century|RP|AS)[^\[\]]*)\]")  # where the text before is from
BRACKETS = re.compile(r"\[[^\[\]]*\]")  # inflexions, origin, usage
QUOTED = re.compile(r"\n* {8}")  # what somebody wrote with the word, by its indentation
PHRASE = re.compile(r"\{([^{}]+)\}[ ,.]*")  # explained under its main word
REMARKS = ("Note:", "Usage:", "Syn:", "Example:")
NUMBER = re.compile(r"^(\d+\.|\([a-z]\)|\((?:[A-Z][\w&.,]* ?)+\))\s*")  # of a sense, or its field: (Zool.)
UNOPENED = re.compile(r"^[^()]{,30}\)\s*")  # the end of a field that began in the line of the headword
CITED = re.compile(r"\s*--\s*[A-Z][\w.,&' ()]*$")
REFERENCE = re.compile(r"^(See|Same as|Cf\.|Vide|Also)\b.{,40}$")


class Synset(NamedTuple):
    """Words of one meaning, and what they mean."""

    id: str
    words: list[str]
    gloss: str


class Sense(NamedTuple):
    """One meaning of a headword of a dictionary."""

    word: str
    text: str


@recipe
def reverse_dictionary(kitchen: Kitchen, wanted: str, seed: int) -> None:
    """Tables `documents.parquet` (senses of a dictionary) and `questions.parquet` (glosses of another).

    The question is what a word means, the answer is the word, gold documents are what the other dictionary says of it.
    Senses that the dictionary has from WordNet are left out: they would be the question itself.

    Args:
        kitchen: sources `dictionary` (Debian), `wordnet` (Debian) and `wordnet-upstream`.
        wanted: both are made.
        seed: is not needed.
    """
    package = kitchen.file("dictionary")
    files = debian_files(package, "./usr/share/dictd/")
    try:
        index, content = files["gcide.index"], gzip.decompress(files["gcide.dict.dz"])
    except KeyError as error:
        raise UserError(f"{package}: holds no {error.args[0]}") from None
    documents = list(_numbered(senses(index.decode(), content)))
    by_word = defaultdict(list)
    for document in documents:
        by_word[normalise(document["title"])].append(document["id"])
    kitchen.write_table("questions.parquet", _lookups(synsets(wordnet(kitchen)), by_word))
    kitchen.write_table("documents.parquet", documents)


def _numbered(found: Iterable[Sense]) -> Iterator[dict]:
    for number, sense in enumerate(found):
        yield {"id": str(number), "title": sense.word, "text": sense.text}


def _lookups(found: Iterable[Synset], by_word: dict[str, list[str]]) -> Iterator[dict]:
    """Glosses whose words the other dictionary has."""
    for synset in found:
        known = {word: by_word[normalise(word)] for word in synset.words if by_word.get(normalise(word))}
        if known and synset.gloss:
            gold = sorted({item for items in known.values() for item in items}, key=int)
            yield {"id": synset.id, "text": synset.gloss, "answers": synset.words, "gold": gold}


# --- WordNet --------------------------------------------------------------------------------------------------------


def wordnet(kitchen: Kitchen) -> Iterator[tuple[str, str]]:
    """(part of speech, text of its data file) of WordNet 3.0, as Debian has it or as its authors do."""
    try:
        files = debian_files(kitchen.file("wordnet"), "./usr/share/wordnet/")
    except UserError as no_package:
        try:
            archive = kitchen.file("wordnet-upstream")
            files = _tar_files(archive.read_bytes(), "dict/", archive)
        except UserError as no_file:
            raise UserError(f"{no_package}; {no_file}") from None
    for part in PARTS:
        if f"data.{part}" not in files:
            raise UserError(f"the package of WordNet holds no data.{part}")
        yield part, files[f"data.{part}"].decode()


def synsets(parts: Iterable[tuple[str, str]]) -> Iterator[Synset]:
    """Every synset of some data files, in their order; examples are cut off the glosses."""
    for part, content in parts:
        for line in content.splitlines():
            if line.startswith("  "):  # of the licence
                continue
            fields, _, gloss = line.partition(" | ")
            fields = fields.split(" ")
            words = [MARKER.sub("", word).replace("_", " ") for word in fields[4::2][: int(fields[3], 16)]]
            yield Synset(f"{part}/{fields[0]}", words, EXAMPLE.sub("", gloss).strip(" ;") or gloss.strip())


# --- dictionaries of dictd ------------------------------------------------------------------------------------------


def senses(index: str, content: bytes) -> Iterator[Sense]:
    """Meanings of every headword, in the order of the index, but for those that come from WordNet.

    Args:
        index: lines `headword TAB start TAB length`; several headwords may share an entry.
        content: the unpacked text.
    """
    seen = set()
    for line in index.splitlines():
        _, start, length = line.split("\t")[:3]
        start, length = number_of(start), number_of(length)
        if line.startswith("00-") or start in seen:
            continue
        seen.add(start)
        yield from _senses_of(content[start : start + length].decode("utf-8", "replace"))


def number_of(digits: str) -> int:
    """A number as dictd writes it, in 64 digits."""
    number = 0
    for digit in digits:
        number = number * 64 + DIGITS.index(digit)
    return number


def _senses_of(entry: str) -> Iterator[Sense]:
    """Meanings of one entry: of its headword, and of phrases with it."""
    word, slash, _ = entry.partition(" \\")
    if not slash or "\n" in word:
        return
    pieces = SOURCE.split(entry)  # text, source, text, source, …, text
    first = True
    for text, source in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        while BRACKETS.search(text):
            text = BRACKETS.sub("", text)
        if first:
            text, first = text.partition("\n")[2], False  # the line of the headword
        if "WordNet" not in source:
            for paragraph in re.split(r"\n\s*\n|\n(?=   \d+\. )", text):
                if not QUOTED.match(paragraph):
                    yield from _meaning(word, " ".join(paragraph.split()))


def _meaning(word: str, text: str) -> Iterator[Sense]:
    if text.startswith(REMARKS):
        return
    phrase = PHRASE.match(text)
    if phrase:
        word, text = phrase[1], text[phrase.end() :]
    text = text.replace("{", "").replace("}", "")
    text = UNOPENED.sub("", text)
    while NUMBER.match(text):
        text = NUMBER.sub("", text)
    text = CITED.sub("", text).strip(" ,;-")
    if len(text) > 2 and not REFERENCE.match(text):
        yield Sense(word, text)


# --- packages -------------------------------------------------------------------------------------------------------


def debian_files(package: Path, folder: str) -> dict[str, bytes]:
    """Files of one folder of a Debian package, by name."""
    if shutil.which("dpkg-deb") is None:
        raise UserError(f"{package}: dpkg-deb is not installed, which unpacks it")
    done = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], capture_output=True)
    if done.returncode:
        raise UserError(f"{package}: is no Debian package; remove it to fetch it anew")
    return _tar_files(done.stdout, folder, package)


def _tar_files(content: bytes, folder: str, path: Path) -> dict[str, bytes]:
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            members = [member for member in archive if member.isfile() and member.name.startswith(folder)]
            return {member.name.removeprefix(folder): archive.extractfile(member).read() for member in members}
    except (tarfile.TarError, EOFError, zlib.error, OSError):
        raise UserError(f"{path}: is damaged; remove it to fetch it anew") from None
