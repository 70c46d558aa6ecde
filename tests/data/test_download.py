"""Against a server on a real socket: every case ends in the file that was wanted, or in none and one line."""

import hashlib
import json
import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cards.datasets import Source
from benchmarks.data import download as module
from benchmarks.data.download import Kept, download
from benchmarks.data.fetch import discard, fetch
from benchmarks.paths import ROOT
from benchmarks.progress import Progress
from tests.data.server import Served, first_rows, of_bytes, of_rows
from tests.harness import wait_for

CONTENT = np.random.default_rng(0).bytes(1_500_000)
ROWS, DIMENSION = 12_000, 32  # 1.5 MB of a billion rows
CROP = first_rows(ROWS, DIMENSION)
BILLION = 1_000_000_000


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(module, "PART_BYTES", 200_000)


@pytest.fixture
def bring(tmp_path):
    """Download into tmp_path/partial; the answer is the content."""

    def of(url, **options) -> bytes:
        return download(url, tmp_path / "partial", Progress(), **options).read_bytes()

    return of


@pytest.fixture
def crop(tmp_path):
    """The first rows of a large file, as a card asks for them; the answer is the content."""

    def of(url, take=ROWS, dimension=None, **source) -> bytes:
        source = Source(url=url, crop_rows=take, **source)
        return fetch(source, tmp_path, tmp_path / "cache", Progress(), dimension).read_bytes()

    return of


@pytest.fixture
def no_crop(crop, refusal, tmp_path):
    """The one line; nothing may stand under a final name."""

    def of(url, **source) -> str:
        message = refusal(crop, url, **source)
        assert finished(tmp_path) == []
        return message

    return of


def finished(folder: Path) -> list[Path]:
    """Files that look complete: neither locks nor parts."""
    files = [path for path in (folder / "cache").rglob("*") if path.is_file()]
    return [path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def broken_off(served: Served) -> Served:
    """The same, on a server that hangs up wherever more than the first 400,000 bytes are asked for."""
    read = served.read

    def short(first, count):
        if first + count > 400_000:
            raise OSError("there is no more")
        return read(first, count)

    served.read = short
    return served


def flipped(content: bytes) -> bytes:
    return content.translate(bytes(range(255, -1, -1)))


# --- what arrives ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 200_000, 200_001, 1_500_000])
def test_a_whole_file(server, bring, small_parts, size, ranges):
    assert bring(server.put("/a", CONTENT[:size], ranges=ranges)) == CONTENT[:size]


def test_several_ranges_at_a_time(server, bring, small_parts):
    assert bring(server.put("/a", CONTENT)) == CONTENT
    spans = [span for _, span in server.asked]
    assert spans[0] == "bytes=0-4095" and len(spans) == 9 and "bytes=1400000-1499999" in spans


def test_the_first_rows_of_a_billion(server, crop, small_parts):
    assert crop(server.put("/b.fbin", of_rows(BILLION, DIMENSION))) == CROP
    assert server.sent < len(CROP) + 10_000


@pytest.mark.parametrize(("suffix", "itemsize"), [("fbin", 4), ("u8bin", 1), ("i8bin", 1)])
def test_every_type_of_a_billion_rows(server, crop, suffix, itemsize):
    url = server.put(f"/b.{suffix}", of_rows(BILLION, 100, itemsize))
    assert crop(url, take=7) == first_rows(7, 100, itemsize)


@pytest.mark.parametrize(("suffix", "dtype"), [("fvecs", "<f4"), ("bvecs", "u1")])
def test_the_first_rows_of_a_texmex_file(server, crop, suffix, dtype):
    rows = np.zeros(50, [("dimension", "<i4"), ("row", dtype, 30)])
    rows["dimension"], rows["row"] = 30, np.arange(1500).reshape(50, 30) % 256
    assert crop(server.put(f"/b.{suffix}", rows.tobytes()), take=20) == rows[:20].tobytes()


def test_all_rows_are_a_crop_too(server, crop):
    assert crop(server.put("/b.fbin", of_rows(50, 4)), take=50) == first_rows(50, 4)


def test_a_server_without_ranges_is_read_no_further_than_needed(server, crop):
    assert crop(server.put("/b.fbin", of_rows(BILLION, DIMENSION, ranges=False))) == CROP
    assert server.sent < 8 * len(CROP)  # the rest was on its way when the connection was closed


def test_a_server_that_refuses_ranges(server, bring):
    assert bring(server.put("/a", CONTENT, refuses=True)) == CONTENT


def test_a_length_that_is_not_stated(server, bring):
    assert bring(server.put("/a", CONTENT, ranges=False, claimed=None)) == CONTENT
    assert bring(server.put("/b", CONTENT, start="bytes 0-4095/*")) == CONTENT


def test_answers_shorter_than_asked_for(server, bring, small_parts):
    """Each answer ends early, and the next goes on from there."""
    assert bring(server.put("/a", CONTENT, ends_after=70_000)) == CONTENT


def test_a_crop_by_any_other_function(server, bring):
    assert bring(server.put("/a", CONTENT), choose=lambda head, total: Kept(9000, b"new")) == b"new" + CONTENT[3:9000]


# --- what does not --------------------------------------------------------------------------------------------------

PAGE = b"<!DOCTYPE html><html><body>Sorry, come back later</body></html>" * 100
WRONG = {
    "404": (of_rows(BILLION, DIMENSION, status=404), "404"),
    "403": (of_rows(BILLION, DIMENSION, status=403), "403"),
    "500": (of_rows(BILLION, DIMENSION, status=500), "500"),
    "a page": (of_bytes(PAGE, headers={"Content-Type": "text/html; charset=utf-8"}), "web page"),
    "a page that does not say so": (of_bytes(PAGE, headers={}), "web page"),
    "a page without ranges": (of_bytes(PAGE, headers={}, ranges=False), "web page"),
    "an XML error": (of_bytes(b'<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>'), "web page"),
    "an empty file": (of_bytes(b""), "truncated"),
    "an empty file without ranges": (of_bytes(b"", ranges=False), "truncated"),
    "half a header": (of_bytes(CONTENT[:7]), "truncated"),
    "fewer rows than wanted": (of_rows(ROWS - 1, DIMENSION), f"holds {ROWS - 1} rows"),
    "packed": (of_rows(BILLION, DIMENSION, headers={"Content-Encoding": "gzip"}), "packed"),
    "another part than asked for": (of_rows(BILLION, DIMENSION, start="bytes 5-9/32"), "from byte 5"),
    "a part without its place": (of_rows(BILLION, DIMENSION, status=206, ranges=False), "which part"),
    "nonsense for its place": (of_rows(BILLION, DIMENSION, start="bytes */*"), "which part"),
}


@pytest.mark.parametrize(("served", "words"), WRONG.values(), ids=WRONG)
def test_no_file(server, no_crop, served, words):
    message = no_crop(server.put("/b.fbin", served))
    assert "/b.fbin" in message and words in message


def test_a_header_of_a_billion_rows_over_a_short_file(server, no_crop):
    header = np.array([BILLION, DIMENSION], "<u4").tobytes()
    message = no_crop(server.put("/b.fbin", header + CONTENT))
    assert "1000000000 rows" in message and "truncated" in message and str(8 + len(CONTENT)) in message


@pytest.mark.parametrize("ranges", [True, False])
def test_a_header_of_a_billion_rows_over_a_short_body(server, no_crop, ranges):
    """The server says how large the file should be, and breaks off where it really ends."""
    message = no_crop(server.put("/b.fbin", broken_off(of_rows(BILLION, DIMENSION, ranges=ranges))))
    assert "/b.fbin" in message and "ended early" in message and (not ranges or "at byte" in message)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_connection_that_stalls(server, no_crop, ranges):
    begin = time.monotonic()
    message = no_crop(server.put("/b.fbin", of_rows(BILLION, DIMENSION, ranges=ranges, silent_after=10_000)))
    assert "nothing came for 0.5 s" in message and time.monotonic() - begin < 20


def test_a_server_that_says_nothing_at_all(server, no_crop):
    assert "nothing came" in no_crop(server.put("/b.fbin", of_rows(BILLION, DIMENSION, silent_after=0)))


@pytest.mark.parametrize(
    ("card", "words"),
    [
        ({"rows": BILLION + 1}, f"holds {BILLION} rows, the card says {BILLION + 1}"),
        ({"size_bytes": 10}, "has 128000000008 bytes, the card says 10"),
        ({"dimension": 200}, "has 32 dimensions, the card says 200"),
    ],
)
def test_a_file_unlike_the_card_is_not_begun(server, no_crop, card, words):
    assert words in no_crop(server.put("/b.fbin", of_rows(BILLION, DIMENSION)), **card)
    assert len(server.asked) == 1


def test_a_card_that_is_true(server, crop):
    url = server.put("/b.fbin", of_rows(BILLION, DIMENSION))
    right = {"rows": BILLION, "size_bytes": 8 + BILLION * DIMENSION * 4, "dimension": DIMENSION}
    assert crop(url, crop_sha256=hashlib.sha256(CROP).hexdigest(), **right) == CROP


def test_a_crop_of_another_hash(server, crop, refusal):
    message = refusal(crop, server.put("/b.fbin", of_rows(BILLION, DIMENSION)), crop_sha256="0" * 64)
    assert hashlib.sha256(CROP).hexdigest() in message


@pytest.mark.parametrize("ranges", [True, False])
def test_a_disk_that_is_too_small(server, no_crop, monkeypatch, ranges):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: shutil._ntuple_diskusage(10**9, 10**9, len(CROP) - 1))
    url = server.put("/b.fbin", of_rows(BILLION, DIMENSION, ranges=ranges))
    assert "free some space" in no_crop(url)
    assert server.sent < 32 << 20  # of 128 GB: what the sockets hold before the connection is closed


# --- changes and interruptions ----------------------------------------------------------------------------------------


@pytest.fixture
def half(server, bring, refusal, monkeypatch):
    """The address of a file of which a part is here."""
    monkeypatch.setattr(module, "PART_BYTES", 200_000)
    url = server.put("/a", CONTENT)
    server.stop_after(700_000)
    refusal(bring, url)
    server.stop_after(None)
    return url


def test_what_is_here_is_not_fetched_again(server, bring, half):
    assert bring(half) == CONTENT
    assert server.sent < 1_100_000


@pytest.mark.parametrize(
    "change",
    [
        {"headers": {"ETag": '"two"'}},
        {"headers": {}},
        {"headers": {"ETag": '"one"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}},
        {"content": CONTENT[:-1]},
        {"content": CONTENT + b"1"},
    ],
    ids=["ETag", "no ETag", "Last-Modified", "shorter", "longer"],
)
def test_a_file_that_changes_between_two_runs(server, bring, half, refusal, tmp_path, change):
    content = change.pop("content", CONTENT[::-1])
    server.put("/a", content, **change)
    assert "replaced on the server" in refusal(bring, half)
    assert not (tmp_path / "partial").exists()
    assert bring(half) == content


@pytest.mark.parametrize("change", ["etag", "size", "nothing left"])
def test_a_file_that_changes_while_it_is_fetched(server, bring, refusal, small_parts, tmp_path, change):
    url = server.put("/a", CONTENT)
    server.stop_after(300_000)

    def replace():
        server.reached.wait()
        if change == "etag":
            server.put("/a", CONTENT[::-1], headers={"ETag": '"two"'})
        else:
            server.put("/a", CONTENT[:-1] if change == "size" else b"")
        server.stop_after(None)

    thread = threading.Thread(target=replace)
    thread.start()
    assert "replaced on the server" in refusal(bring, url)
    thread.join()
    assert not (tmp_path / "partial").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "state.json").write_text(""),
        lambda folder: (folder / "state.json").write_text('{"remote": {}, "end": 1, "done": []}'),
        lambda folder: (folder / "state.json").write_text("[1, 2]"),
        lambda folder: (folder / "state.json").unlink(),
        lambda folder: (folder / "data").unlink(),
        lambda folder: (folder / "data").write_bytes(b"short"),
        lambda folder: rewrite(folder, done=[200_001] * 8),
        lambda folder: rewrite(folder, done=[-1] * 8),
        lambda folder: rewrite(folder, done=["x"] * 8),
        lambda folder: rewrite(folder, done=[200_000] * 7),
    ],
)
def test_a_state_that_cannot_be_trusted_is_not(bring, half, tmp_path, damage):
    damage(tmp_path / "partial")
    assert bring(half) == CONTENT


def rewrite(folder: Path, **changes) -> None:
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, **changes}))


def test_ctrl_c_keeps_what_is_here(server, bring, small_parts, monkeypatch):
    url = server.put("/a", CONTENT)
    server.stop_after(700_000)

    def interrupted(task, done, total=None):
        if server.reached.is_set():
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module.Task, "update", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bring(url)
    server.stop_after(None)
    assert bring(url) == CONTENT and server.sent < 1_100_000


SCRIPT = """
import sys
from pathlib import Path
from benchmarks.cards.datasets import Source
from benchmarks.data import download, fetch
from benchmarks.progress import Progress
download.PART_BYTES, download.SAVE_SECONDS, download.BLOCK = 200_000, 0.0, 8192
{patch}
fetch.fetch(Source(url=sys.argv[1], crop_rows={rows}), Path("/"), Path(sys.argv[2]), Progress())
"""


def start(url, folder, patch="") -> subprocess.Popen:
    """A download in a process of its own."""
    command = [sys.executable, "-c", SCRIPT.format(patch=patch, rows=ROWS), url, str(folder / "cache")]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)


def kill_at(server, url, folder, sent: int, saved: bool) -> None:
    """SIGKILL, once so many bytes are on their way; or once the process has also noted what it has."""
    server.stop_after(sent)
    process = start(url, folder)
    assert server.reached.wait(30)
    if saved:
        wait_for(lambda: noted(folder) >= sent - 4096 - 4 * 8192)
    process.kill()
    process.wait()
    assert finished(folder) == []


def noted(folder: Path) -> int:
    return sum(sum(json.loads(path.read_text())["done"]) for path in folder.glob("cache/source/*/.*/state.json"))


@pytest.mark.parametrize("attempt", range(10))
def test_killed_at_any_byte_and_resumed(server, crop, tmp_path, small_parts, attempt):
    chance = random.Random(attempt)
    url = server.put("/b.fbin", of_rows(BILLION, DIMENSION))
    sent, saved = chance.randrange(4096, len(CROP)), chance.random() < 0.5
    kill_at(server, url, tmp_path, sent, saved)
    server.stop_after(None)
    assert crop(url) == CROP and len(finished(tmp_path)) == 1
    if saved:
        assert server.sent <= 4096 + len(CROP) - (sent - 4096 - 4 * 8192)  # what was noted was not fetched again


def test_killed_again_and_again(server, crop, tmp_path, small_parts):
    chance = random.Random(1)
    url = server.put("/b.fbin", of_rows(BILLION, DIMENSION))
    for _ in range(4):
        kill_at(server, url, tmp_path, chance.randrange(4097, 300_000), saved=chance.random() < 0.5)
    server.stop_after(None)
    assert crop(url) == CROP


def test_killed_between_any_two_writes(server, crop, tmp_path, small_parts):
    """The process dies at its 1st, 2nd, … sync or rename, and the next one goes on from what that left."""
    url = server.put("/b.fbin", of_rows(BILLION, DIMENSION))
    patch = """
import os
left, sync, rename = int(sys.argv[3]), os.fsync, os.replace
def counted(action):
    def call(*arguments):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        return action(*arguments)
    return call
os.fsync = counted(os.fsync)
Path.replace = counted(Path.replace)
"""
    for step in range(40):
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        command = [sys.executable, "-c", SCRIPT.format(patch=patch, rows=ROWS), url, str(tmp_path / "cache"), str(step)]
        code = subprocess.run(command, cwd=ROOT, stderr=subprocess.DEVNULL).returncode
        if code == 0:
            break
        assert code == 9 and finished(tmp_path) == []
        assert crop(url) == CROP
    assert code == 0 and step > 4


# --- mirrors and what is here already -----------------------------------------------------------------------------


def test_mirrors_are_tried_in_order(server, crop):
    dead = server.put("/1/b.fbin", of_rows(BILLION, DIMENSION, status=404))
    page = server.put("/2/b.fbin", PAGE)
    good = server.put("/3/b.fbin", of_rows(BILLION, DIMENSION))
    never = server.put("/4/b.fbin", of_rows(BILLION, DIMENSION))
    assert crop(dead, mirrors=[page, good, never]) == CROP
    assert [path[1] for path, _ in server.asked[:3]] == ["1", "2", "3"] and "/4/b.fbin" not in dict(server.asked)


def test_when_every_mirror_fails_each_is_named(server, no_crop):
    dead = server.put("/1/b.fbin", of_rows(BILLION, DIMENSION, status=404))
    stalled = server.put("/2/b.fbin", of_rows(BILLION, DIMENSION, silent_after=5000))
    message = no_crop(dead, mirrors=[stalled])
    assert f"{dead}: the server answered 404" in message and f"{stalled}: " in message and "nothing came" in message


def test_a_mirror_of_another_content_is_passed_over(server, tmp_path):
    wrong, right = server.put("/1/a.npy", CONTENT[::-1]), server.put("/2/a.npy", CONTENT)
    source = Source(url=wrong, mirrors=[right], sha256=hashlib.sha256(CONTENT).hexdigest())
    assert fetch(source, tmp_path, tmp_path / "cache", Progress()).read_bytes() == CONTENT


def test_parts_of_different_mirrors_are_not_mixed(server, crop, small_parts, tmp_path):
    """The first one breaks half-way; the file is then the second's alone."""
    broken = server.put("/1/b.fbin", broken_off(of_rows(BILLION, DIMENSION)))
    other = of_rows(BILLION, DIMENSION)
    read = other.read

    def negative(first, count):
        header = max(0, 8 - first)
        return read(first, count)[:header] + flipped(read(first, count)[header:])

    other.read = negative
    server.put("/2/b.fbin", other)
    content = np.frombuffer(crop(broken, mirrors=[broken.replace("/1/", "/2/")]), np.uint8)
    np.testing.assert_array_equal(content[8:], 255 - np.frombuffer(CROP, np.uint8)[8:])


def test_a_full_file_serves_its_crop(server, tmp_path):
    url = server.put("/b.fbin", of_rows(500, 4))
    whole = fetch(Source(url=url), tmp_path, tmp_path / "cache", Progress())
    asked = len(server.asked)
    assert fetch(Source(url=url, crop_rows=20), tmp_path, tmp_path / "cache", Progress()) == whole
    assert len(server.asked) == asked


def test_a_larger_crop_serves_a_smaller_one(server, crop, tmp_path):
    url = server.put("/b.fbin", of_rows(BILLION, 4))
    crop(url, take=300)
    crop(url, take=900)
    asked, content = len(server.asked), first_rows(300, 4)
    assert crop(url, take=200) == content and len(server.asked) == asked
    assert crop(url, take=200, crop_sha256=hashlib.sha256(first_rows(200, 4)).hexdigest()) == content
    assert crop(url, take=1000) == first_rows(1000, 4)


def test_a_file_put_there_by_hand(server, tmp_path, refusal):
    url = server.put("/b.fbin", of_rows(BILLION, 4, status=403))
    source = Source(url=url, crop_rows=20)
    message = refusal(fetch, source, tmp_path, tmp_path / "cache", Progress())
    place = Path(message.rsplit(" ", 1)[1])
    place.write_bytes(first_rows(100, 4))
    assert fetch(source, tmp_path, tmp_path / "cache", Progress()) == place


def test_a_crop_of_another_kind_of_file_is_taken_of_the_whole(server, tmp_path):
    url = server.put("/a.npy", CONTENT)
    assert fetch(Source(url=url, crop_rows=2), tmp_path, tmp_path / "cache", Progress()).read_bytes() == CONTENT


def test_what_is_discarded_is_fetched_again(server, crop, tmp_path):
    url = server.put("/b.fbin", of_rows(BILLION, DIMENSION))
    crop(url)
    asked = len(server.asked)
    discard(Source(url=url, crop_rows=ROWS), tmp_path / "cache")
    assert finished(tmp_path) == [] and crop(url) == CROP and len(server.asked) > asked
