"""What an application makes of what was retrieved: every operating point's answers, asked, judged, and counted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.analysis.select import average_recall
from benchmarks.data.corpus import Corpus
from benchmarks.errors import UserError
from benchmarks.progress import Progress
from benchmarks.rag.answerers import Answerer
from benchmarks.rag.delta import Analysis, analyse
from benchmarks.rag.judges import JUDGES, MODEL, NEEDS_NO_ANSWER, Case
from benchmarks.rag.memory import Memory, Prompt, answer_all
from benchmarks.rag.table import EMPTY, EXACT, GOLD, Verdicts
from benchmarks.results.store import Result
from benchmarks.statistics.intervals import wilson

MOST_REFERENCES = 10  # gold documents that a model is shown as references


@dataclass(frozen=True)
class Accuracy:
    """Share of the questions that were answered right, with its Wilson interval."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Study:
    """Verdicts of each judge, and why some questions have none."""

    verdicts: dict[str, Verdicts]  # by judge
    reasons: list[str]  # one for each prompt without a usable answer; its question is in no count


def retrieved_of(results: Sequence[Result], corpus: Corpus, k: int) -> dict[str, np.ndarray]:
    """Base rows that the answerer sees, int64 (nq, k), -1 for none: of every point, and of the three controls.

    Raises:
        UserError: the exact neighbours of the points are not known.
    """
    truth = results[0].truth
    if truth is None:
        raise UserError(f"{results[0].path}: its exact neighbours are not beside it; measure the point again")
    nothing = np.full((len(corpus.questions), k), -1, np.int64)
    gold, exact = nothing.copy(), nothing.copy()
    for row, rows in enumerate(corpus.gold):
        gold[row, : min(k, len(rows))] = rows[:k]
    exact[:, : truth.ids.shape[1]] = truth.ids
    controls = {EMPTY: nothing, EXACT: exact, GOLD: gold}
    return controls | {result.identity.hash(): result.neighbors.astype(np.int64) for result in results}


class Cases(Sequence):
    """The distinct lists of documents of every question, one question after the other; as a sequence, their prompts.

    Most lists are retrieved by several points, and are asked about once. Texts are read where they are needed: there
    may be a million cases.
    """

    def __init__(self, retrieved: Mapping[str, np.ndarray], questions: np.ndarray, corpus: Corpus):
        self.corpus, self.questions = corpus, questions
        rows, lists, places, count = [], [], [], 0
        together = np.stack(list(retrieved.values()), axis=1)
        for row in questions:
            distinct, place = np.unique(together[row], axis=0, return_inverse=True)
            rows += [int(row)] * len(distinct)
            lists.append(distinct)
            places.append(count + place.ravel())
            count += len(distinct)
        self.rows, self._lists = np.array(rows), np.concatenate(lists)
        self.of = dict(zip(retrieved, np.array(places).T, strict=True))  # case of each question, for each point
        self._answers, self._gold = list(corpus.answers), list(corpus.gold)

    def __len__(self) -> int:
        return len(self.rows)

    def seen(self, case: int) -> list[int]:
        """Base rows of the documents, best first."""
        return [int(row) for row in self._lists[case] if row >= 0]

    def __getitem__(self, case: int) -> Prompt:
        documents = tuple(self.corpus.documents[row] for row in self.seen(case))
        return self.corpus.questions[self.rows[case]], documents

    def case(self, case: int, answer: str) -> Case:
        """What a judge sees."""
        row = self.rows[case]
        return Case(answer, self._answers[row], tuple(self.seen(case)), self._gold[row])

    def verdicts(self, right: np.ndarray) -> Verdicts:
        """What was said of each case, float64 (cases), as verdicts of the points."""
        found = Verdicts(len(self.corpus.questions))
        for name, cases in self.of.items():
            column = np.full(found.nq, np.nan)
            column[self.questions] = right[cases]
            found.of[name] = column
        return found


def conduct(
    retrieved: Mapping[str, np.ndarray],
    corpus: Corpus,
    questions: np.ndarray,
    judges: Sequence[str],
    answerer: Answerer,
    model_judge: Answerer | None,
    memory: Memory | None,
    progress: Progress,
    confirm: Callable[[Answerer, int, int], None] = lambda answerer, prompts, tokens: None,
) -> Study:
    """Ask and judge.

    Args:
        retrieved: of `retrieved_of`.
        corpus: texts and right answers.
        questions: rows of the queries to ask.
        judges: names.
        answerer: whom to ask; not asked where the judges look at what was retrieved alone.
        model_judge: for the judge `model`.
        memory: where answers of a server are kept.
        progress: shown.
        confirm: of `answer_all`; for the answerer, then for the model that judges.

    Raises:
        UserError: a judge has nothing to judge by, no question was answered, or a server is out of order.
    """
    cases, answers, reasons = Cases(retrieved, questions, corpus), None, []
    if any(name not in NEEDS_NO_ANSWER for name in judges):
        kept = memory if answerer.remote else None
        answers, failed = answer_all(cases, answerer, kept, progress, confirm)
        reasons += failed.values()
    answered = _whole(cases, [True] * len(cases) if answers is None else [answer is not None for answer in answers])
    if not answered.any():
        raise UserError(f"no question was answered: {reasons[0]}")
    verdicts = {}
    for name in judges:
        if name == MODEL:
            right, failed = _ask_judge(cases, answers, answered, model_judge, memory, progress, confirm)
            reasons += failed.values()
        else:
            right = _judge(JUDGES[name], cases, answers, answered, progress)
        if np.isnan(right).all():
            reason = "of no question is known what judge '{}' needs: {}".format(
                name, "gold documents" if name in NEEDS_NO_ANSWER else "right answers"
            )
            raise UserError(reason if not reasons else f"nothing was judged: {reasons[-1]}")
        verdicts[name] = cases.verdicts(right)
    return Study(verdicts, reasons)


def _whole(cases: Cases, known: Sequence[bool]) -> np.ndarray:
    """bool (cases): those of questions of which every case is known, so that all points have the same questions."""
    lost = np.unique(cases.rows[~np.asarray(known, bool)])
    return ~np.isin(cases.rows, lost)


def _judge(judge: Callable, cases: Cases, answers: list | None, answered: np.ndarray, progress: Progress) -> np.ndarray:
    """float64 (cases): 1 right, 0 wrong, NaN not judged."""
    right = np.full(len(cases), np.nan)
    with progress.task("judging", len(cases)) as task:
        for case in np.flatnonzero(answered):
            said = judge(cases.case(case, answers[case] if answers else ""))
            right[case] = np.nan if said is None else said
            task.update(int(case) + 1)
    return right


def _ask_judge(
    cases: Cases, answers: list, answered: np.ndarray, judge: Answerer, memory: Memory | None, progress, confirm
) -> tuple[np.ndarray, dict[int, str]]:
    """The same by a model, which sees the right answers, or where none are known the gold documents.

    An empty answer is wrong, and not asked about.
    """
    prompts: dict[Prompt, list[int]] = {}
    right = np.full(len(cases), np.nan)
    for place in np.flatnonzero(answered):
        case = cases.case(place, answers[place])
        references = case.right or tuple(cases.corpus.documents[row] for row in case.gold[:MOST_REFERENCES])
        if references and not case.answer:
            right[place] = 0
        elif references:
            prompts.setdefault((cases.corpus.questions[cases.rows[place]], (case.answer, *references)), []).append(
                place
            )
    said, failed = answer_all(list(prompts), judge, memory, progress, confirm, "asking the judge")
    known = answered.copy()
    for answer, places in zip(said, prompts.values(), strict=True):
        right[places] = np.nan if answer is None else answer == "yes"
        known[places] = answer is not None
    right[~_whole(cases, known)] = np.nan
    return right, failed


def accuracy_of(correct: np.ndarray) -> Accuracy:
    """Of one point or control; NaN is not counted, and one at least is known."""
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
        raise UserError("there are no verdicts of any operating point that is selected")
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
