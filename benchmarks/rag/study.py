"""What an application makes of what was retrieved: every operating point's answers, asked, judged, and counted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.analysis.select import average_recall
from benchmarks.data.corpus import Corpus
from benchmarks.errors import UserError
from benchmarks.progress import Progress
from benchmarks.rag.answerers import Answerer
from benchmarks.rag.delta import Analysis, analyse
from benchmarks.rag.judges import JUDGES, MODEL, Case
from benchmarks.rag.memory import Memory, Prompt, answer_all
from benchmarks.rag.table import EMPTY, EXACT, GOLD, Verdicts
from benchmarks.results.store import Result
from benchmarks.statistics.intervals import wilson

RETRIEVAL_JUDGES = ("gold-document",)  # judge what was retrieved; no answer is needed


@dataclass(frozen=True)
class Accuracy:
    """Share of the questions that were answered right, with its Wilson interval."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Study:
    """Verdicts of each judge, and the questions that were asked."""

    verdicts: dict[str, Verdicts]  # by judge
    questions: np.ndarray  # rows of the queries
    failed: dict[Prompt, str]  # prompts that had no usable answer; their questions are in no count


def retrieved_of(results: Sequence[Result], corpus: Corpus, k: int) -> dict[str, np.ndarray]:
    """Base rows that the answerer sees, integers (nq, k), -1 for none: of every point, and of the three controls.

    Raises:
        UserError: the exact neighbours of the points are not known.
    """
    truth = results[0].truth
    if truth is None:
        raise UserError(f"{results[0].path}: its exact neighbours are not beside it; measure the point again")
    nq = len(corpus.questions)
    gold = np.full((nq, k), -1, np.int64)
    for row, rows in enumerate(corpus.gold):
        gold[row, : min(k, len(rows))] = rows[:k]
    controls = {EMPTY: np.full((nq, k), -1, np.int64), EXACT: truth.ids, GOLD: gold}
    return controls | {result.identity.hash(): result.array("neighbors") for result in results}


def conduct(
    retrieved: dict[str, np.ndarray],
    corpus: Corpus,
    questions: np.ndarray,
    judges: Sequence[str],
    answerer: Answerer,
    model_judge: Answerer | None,
    memory: Memory | None,
    progress: Progress,
    confirm: Callable[[list[Prompt]], None] = lambda new: None,
) -> Study:
    """Ask and judge.

    Args:
        retrieved: of `retrieved_of`.
        corpus: texts and right answers.
        questions: rows of the queries to ask.
        judges: names.
        answerer: whom to ask; not asked where the judges look at what was retrieved alone.
        model_judge: for the judge `model`.
        memory: where answers are kept, or None.
        progress: shown.
        confirm: told of the new prompts of the answerer before any is asked.
    """
    texts: dict[int, str] = {}  # of documents that were retrieved; most are retrieved by many points
    answers_of, gold_of = list(corpus.answers), list(corpus.gold)
    asked: dict[tuple[str, int], tuple[Prompt, tuple[int, ...]]] = {}
    needs_answers = any(name not in RETRIEVAL_JUDGES for name in judges)
    with progress.task("reading what was retrieved", len(retrieved)) as task:
        for done, (name, ids) in enumerate(retrieved.items(), 1):
            for row in questions:
                seen = tuple(int(item) for item in ids[row] if item >= 0)
                if needs_answers:
                    texts |= {item: corpus.documents[item] for item in seen if item not in texts}
                shown = tuple(texts[item] for item in seen) if needs_answers else ()
                asked[name, int(row)] = (corpus.questions[row], shown), seen
            task.update(done)
    answers, failed = {}, {}
    if needs_answers:
        prompts = [prompt for prompt, _ in asked.values()]
        answers, failed = answer_all(prompts, answerer, memory, progress, confirm)
    verdicts = {name: Verdicts(len(corpus.questions)) for name in judges}
    lost = {row for (_, row), (prompt, _) in asked.items() if prompt in failed}
    cases = {
        place: Case(answers.get(prompt, ""), answers_of[place[1]], seen, gold_of[place[1]])
        for place, (prompt, seen) in asked.items()
        if place[1] not in lost
    }
    for judge in judges:
        if judge == MODEL:
            right, more = _ask_judge(cases, corpus, model_judge, memory, progress)
            failed |= more
        else:
            right = {place: JUDGES[judge](case) for place, case in cases.items()}
        for (name, row), value in right.items():
            column = verdicts[judge].of.setdefault(name, np.full(len(corpus.questions), np.nan))
            column[row] = value
    return Study(verdicts, questions, failed)


def _ask_judge(
    cases: dict[tuple[str, int], Case], corpus: Corpus, judge: Answerer, memory: Memory | None, progress: Progress
) -> tuple[dict[tuple[str, int], bool], dict[Prompt, str]]:
    """Verdicts of the model; an empty answer is wrong and not asked about."""
    prompts = {
        place: (corpus.questions[place[1]], (case.answer, *case.right)) for place, case in cases.items() if case.answer
    }
    said, failed = answer_all(list(prompts.values()), judge, memory, progress, what="judging")
    lost = {place[1] for place, prompt in prompts.items() if prompt in failed}
    right = {place: place in prompts and said[prompts[place]] == "yes" for place in cases if place[1] not in lost}
    return right, failed


def accuracy_of(correct: np.ndarray) -> Accuracy:
    """Of one point or control; NaN is not counted."""
    known = correct[~np.isnan(correct)]
    low, high = wilson(int(known.sum()), len(known))
    return Accuracy(float(known.mean()), low, high, len(known))


def analyse_points(results: Sequence[Result], verdicts: Verdicts) -> Analysis:
    """δ over the points that have verdicts, on the queries that all of them and the exact neighbours have.

    Raises:
        UserError: the exact neighbours have no verdicts, no point has, or they have no query in common.
    """
    points = [result for result in results if result.identity.hash() in verdicts.of]
    if EXACT not in verdicts.of:
        raise UserError(
            "there are no verdicts of the exact neighbours, which accuracy is held against; add rows of point 'exact'"
        )
    if not points:
        raise UserError("there are no verdicts of any operating point")
    names = [EXACT, *(result.identity.hash() for result in points)]
    known = verdicts.complete(names)
    if not known.any():
        raise UserError("no query has a verdict of every point and of the exact neighbours")
    hits = np.array([result.hits[known] for result in points])
    correct = np.array([verdicts.of[name][known] for name in names[1:]], bool)
    return analyse(hits, correct, verdicts.of[EXACT][known].astype(bool), points[0].record.denominator)


def by_recall(results: Sequence[Result]) -> list[Result]:
    """By algorithm, then by average recall."""
    return sorted(results, key=lambda result: (result.identity.algorithm, average_recall(result)))
