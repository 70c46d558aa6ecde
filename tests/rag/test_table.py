import numpy as np
import pytest

from benchmarks.rag.table import Verdicts, read_verdicts, write_verdicts

HEAD = "query,point,correct\n"


@pytest.fixture
def read(results, tmp_path):
    def of(text, nq=40, encoding="utf-8", **options):
        path = tmp_path / "own.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return read_verdicts(path, {result.identity.hash(): result for result in results}, nq, **options)

    return of


def test_what_is_written_is_read(results, tmp_path):
    rng = np.random.default_rng(0)
    names = ["exact", "empty", *(result.identity.hash() for result in results)]
    given = Verdicts(40, {name: rng.choice([0, 1, np.nan], 40) for name in names})
    write_verdicts(tmp_path / "rag" / "a.csv", given)
    for known in ({result.identity.hash(): result for result in results}, None):
        found = read_verdicts(tmp_path / "rag" / "a.csv", known, 40)
        assert found.of.keys() == given.of.keys()
        assert all(np.array_equal(found.of[name], given.of[name], equal_nan=True) for name in names)


def test_a_point_by_hash_or_file_name_and_columns_in_any_order(read, results):
    result = results[2]
    text = f'note,correct,point,query\nx,1,{result.identity.hash()},0\ny,0,"{result.path.name}",1\n'
    text += f'z,1.0,"results/toy/{result.path.stem}",2\n\n'
    (name,) = (found := read("\ufeff" + text)).of
    assert name == result.identity.hash() and found.of[name][:3].tolist() == [1, 0, 1]
    assert np.isnan(found.of[name][3:]).all()


def test_questions_by_id_only_in_their_own_column(read):
    ids = [f"{39 - row}" for row in range(40)]  # numbers, as MS MARCO's are
    assert read("question,point,correct\n0,exact,1\n", question_ids=lambda: ids).of["exact"][39] == 1
    assert read(HEAD + "0,exact,1\n", question_ids=lambda: pytest.fail("not asked for")).of["exact"][0] == 1


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "no column 'query'"),
        ("query,point\n0,exact\n", 1, "no column 'correct'"),
        (HEAD + "0,exact,1\n0,exact\n", 3, "2 columns"),
        (HEAD + "0,M=8,ef=2-0123456789abcdef.hdf5,1\n", 2, "4 columns, the first line has 3; a name with commas"),
        (HEAD + "0,exact,yes\n", 2, "0 or 1, not 'yes'"),
        (HEAD + "0,exact,\n", 2, "0 or 1, not ''"),
        (HEAD + "40,exact,1\n", 2, "'40' is none of the 40 queries"),
        (HEAD + "-1,exact,1\n", 2, "query '-1'"),
        (HEAD + "0,exactly,1\n", 2, "point 'exactly' is none of the 7 results"),
        (HEAD + "0,exact,1\n1,exact,1\n0,exact,0\n", 4, "there twice"),
        (HEAD + '0,"exact,1\n', 2, "no CSV"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(read, refusal, tmp_path, text, line, says):
    message = refusal(read, text)
    assert message.startswith(f"{tmp_path / 'own.csv'}:{line}: ") and says in message


def test_files_without_rows_or_text(read, refusal):
    assert "has no rows" in refusal(read, HEAD)
    assert "no text in UTF-8" in refusal(read, HEAD.encode() + b"\xff\xfe0,exact,1\n")
