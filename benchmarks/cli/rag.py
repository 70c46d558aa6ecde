"""`python -m benchmarks rag`: what a low-recall query costs an application that answers questions."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.analysis.select import average_recall, require_alike, require_ok, varying
from benchmarks.cli.common import Parser, add_data_dir, folder, guarded, make_console, positive, warn
from benchmarks.cli.selection import add_selection, select
from benchmarks.data.corpus import load_corpus
from benchmarks.data.prepare import prepare, resolve_dataset
from benchmarks.errors import UserError
from benchmarks.files import write_whole
from benchmarks.metrics.quality import parse_delta, robustness_of
from benchmarks.progress import Progress
from benchmarks.rag.answerers import NAMES, Answerer, make_answerer
from benchmarks.rag.chat import ChatJudge
from benchmarks.rag.delta import FEWEST_POINTS, KEPT, MOST_EVEN, Analysis
from benchmarks.rag.judges import JUDGES, MODEL, agreement
from benchmarks.rag.memory import Memory
from benchmarks.rag.study import accuracy_of, analyse_points, by_recall, conduct, retrieved_of
from benchmarks.rag.table import CONTROLS, EXACT, FOLDER, Verdicts, read_verdicts, write_verdicts
from benchmarks.results.schema import label
from benchmarks.results.store import Result

ASK_ABOVE = 1000  # prompts to a server, beyond which --yes is needed
ANSWER_TOKENS = 20  # of one answer, about; for the estimate

EPILOG = f"""examples:
  python -m benchmarks rag --dataset wiki-trivia                            offline, deterministic
  python -m benchmarks rag --dataset reverse-dictionary --answerer title --judge same
  python -m benchmarks rag --dataset wiki-trivia --answerer openai --judge normalised,model --limit 500
  python -m benchmarks rag --dataset my-set --own answers.csv               your own application: query,point,correct

What it needs are measured operating points (python run.py --dataset wiki-trivia …) of a data set with documents and
questions. It writes results/<dataset>/{FOLDER}/<answerer>-<judge>.csv, which python plot.py --figure 12 and --figure
delta draw. What a server answered is kept in the data folder and not asked again. In a file of your own, `query` is the
row of the query from 0 (or `question` its id), `point` the hash at the end of a result's file name, or exact, gold or
empty.

judges:
""" + "\n".join(f"  {name:16}{' '.join(function.__doc__.split())}" for name, function in JUDGES.items())
EPILOG += f"\n  {MODEL:16}Asks the model of ROBUST_ANN_CHAT_MODEL whether the answer agrees with the right ones.\n"


def run(options) -> int:
    """Ask and judge, or read what the user brings; count, analyse, print."""
    results = [result for result in select(options) if result.ok]
    require_ok(results)
    require_alike(results, speed=False)
    console = make_console()
    if options.own:
        by_hash = {result.identity.hash(): result for result in results}
        own = read_verdicts(options.own, by_hash, results[0].record.nq, lambda: question_ids(options, results))
        verdicts = {options.own.stem: own}
    else:
        verdicts = study(options, results, console)
    for name, each in verdicts.items():
        print_accuracies(console, name, results, each, options.delta)
        try:
            print_analysis(console, analyse_points(results, each))
        except UserError as error:
            raise UserError(f"{options.own or name}: {error}") from None
    return 0


def question_ids(options, results: list[Result]) -> list[str]:
    """Ids of the questions, by row of the queries."""
    dataset = prepared(options, results)
    return list(load_corpus(dataset).question_ids)


def prepared(options, results: list[Result]):
    """The data set, of which the results must be."""
    card = resolve_dataset(options.dataset or results[0].identity.dataset)
    dataset = prepare(card, options.data_dir, Progress())
    require_same(results, dataset)
    return dataset


def study(options, results: list[Result], console: Console) -> dict[str, Verdicts]:
    """Ask, judge, and write a file for each judge."""
    answerer = make_answerer(options.answerer)
    model_judge = ChatJudge() if MODEL in options.judge else None
    corpus = load_corpus(prepared(options, results))
    questions = chosen_questions(len(corpus.questions), options.limit, options.seed)
    retrieved = retrieved_of(results, corpus, results[0].identity.k)

    def confirmed(asked: Answerer, prompts: int, tokens: int) -> None:
        confirm(asked, prompts, tokens, options, console)

    with Memory(options.data_dir) as memory:
        done = conduct(
            retrieved, corpus, questions, options.judge, answerer, model_judge, memory, Progress(), confirmed
        )
    if done.reasons:
        warn(
            f"{len(done.reasons)} prompts had no usable answer ({done.reasons[0]}); their questions are left out, and "
            "asked when you run it again"
        )
    for name, verdicts in done.verdicts.items():
        path = results[0].path.parent.parent / FOLDER / f"{answerer.name}-{name}.csv"
        write_verdicts(path, verdicts)
        facts = {
            "answerer": answerer.identity,
            "judge": model_judge.identity if name == MODEL else name,
            "truth": results[0].record.truth,
            "queries_sha256": results[0].identity.queries_sha256,
            "k": results[0].identity.k,
            "questions": len(questions),
            "without_answer": len(done.reasons),
            "points": sorted(result.identity.hash() for result in results),
            "gold": corpus.gold_kind,
        }
        write_whole(path.with_suffix(".json"), (json.dumps(facts, indent=1) + "\n").encode())
        print(path)
    if corpus.gold_kind == "containing":
        line = "gold documents are here those that contain an answer word for word, so an extract of one is right"
        console.print(line, highlight=False, soft_wrap=True)
    print_agreement(console, done.verdicts)
    return done.verdicts


def require_same(results: list[Result], dataset) -> None:
    """Raises UserError where the results are of other vectors than the data set here."""
    for result in results:
        if (result.identity.base_sha256, result.identity.queries_sha256) != (
            dataset.base_check.sha256,
            dataset.queries_check.sha256,
        ):
            raise UserError(f"{result.path}: was measured on other vectors than {dataset.name} has now; measure again")


def chosen_questions(count: int, limit: int | None, seed: int) -> np.ndarray:
    """Rows of the questions to ask, ascending; all of them without a limit."""
    if limit is None or limit >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, limit, replace=False))


def confirm(answerer: Answerer, prompts: int, tokens: int, options, console: Console) -> None:
    """Say what asking will take; more than a few prompts need --yes, or a yes at the terminal.

    Raises:
        UserError: that is not given.
    """
    cost = ""
    if options.price_in is not None or options.price_out is not None:
        most = (tokens * (options.price_in or 0) + prompts * ANSWER_TOKENS * (options.price_out or 0)) / 1e6
        cost = f", about {most:.2f} in the currency of the prices"
    text = (
        f"{answerer.name}: {prompts:,} new prompts, about {tokens:,} tokens and {prompts * ANSWER_TOKENS:,} of answers"
    )
    console.print(text + cost, highlight=False, soft_wrap=True, markup=False)
    if prompts <= ASK_ABOVE or options.yes:
        return
    if sys.stdin.isatty() and input("ask them? [y/N] ").strip().lower() in ("y", "yes"):
        return
    raise UserError(f"{prompts:,} prompts are many: say --yes to ask them, or --limit N to ask fewer questions")


def print_accuracies(console: Console, name: str, results: list[Result], verdicts: Verdicts, delta: str) -> None:
    """Controls first, then the points, each with its interval."""
    table = Table(title=f"right answers ({name})", title_justify="left", box=box.SIMPLE, pad_edge=False)
    for heading in ("point", "", "recall", f"robustness-{delta}", "accuracy", "of exact", "n"):
        table.add_column(heading, justify="left" if heading in ("point", "") else "right")
    exact = accuracy_of(verdicts.of[EXACT]).value if EXACT in verdicts.of else None

    def row(first: str, second: str, recall: str, robust: str, correct: np.ndarray) -> None:
        found = accuracy_of(correct)
        share = f"{found.value / exact:.1%}" if exact else ""
        text = f"{found.value:.4f} [{found.low:.4f}, {found.high:.4f}]"
        table.add_row(first, escape(second), recall, robust, text, share, f"{found.n:,}")

    for control in CONTROLS:
        if control in verdicts.of:
            row(f"{control} documents", "", "", "", verdicts.of[control])
    shown = {}  # names of parameters that tell the points of an algorithm apart
    for result in results:
        params = {**result.identity.build_params, **result.identity.search_params}
        shown.setdefault(result.identity.algorithm, []).append(params)
    shown = {name: varying(params) or list(params[0]) for name, params in shown.items()}
    for result in by_recall(results):
        identity = result.identity
        if identity.hash() in verdicts.of:
            robust = robustness_of(result.hits, parse_delta(delta), result.record.denominator).value
            params = {**identity.build_params, **identity.search_params}
            text = label({key: params[key] for key in shown[identity.algorithm] if key in params})
            correct = verdicts.of[identity.hash()]
            row(identity.algorithm, text, f"{float(average_recall(result)):.4f}", f"{robust:.4f}", correct)
    console.print(table)


def print_analysis(console: Console, found: Analysis) -> None:
    """Accuracy at each recall, δ, and what foretells accuracy."""

    def say(line: str) -> None:
        console.print(line, highlight=False, soft_wrap=True, markup=False)

    table = Table(
        title=f"by recall of the query, over {found.points} points",
        title_justify="left",
        box=box.SIMPLE,
        pad_edge=False,
    )
    for heading in ("recall", "accuracy", "with exact neighbours", "relative", "pairs", "queries"):
        table.add_column(heading, justify="right")
    for level in found.levels:
        relative = "-" if level.relative is None else f"{level.relative:.3f}"
        if level.low is not None:
            relative += f" [{level.low:.3f}, {level.high:.3f}]"
        table.add_row(
            f"{level.recall:g}",
            f"{level.accuracy:.4f}",
            f"{level.exact_accuracy:.4f}",
            relative,
            f"{level.pairs:,}",
            f"{level.queries:,}",
        )
    console.print(table)
    change = found.change
    if change is None:
        say("δ: cannot tell; too few queries of different recall are right with their exact neighbours")
    else:
        said = (
            f"accuracy breaks at recall {change.delta:g} [{change.low:g}, {change.high:g}]: {change.below:.3f} of that "
            f"with exact neighbours below, {change.above:.3f} from there on "
            f"(drop {change.drop:.3f} [{change.drop_low:.3f}, {change.drop_high:.3f}])"
        )
        if change.clear:
            say(f"δ = {change.delta:g}: {said}")
        elif change.even > MOST_EVEN:
            say(f"δ: no break; a straight line fits as well as a step; the best step: {said}")
        else:
            say(f"δ: no clear break at this n; {said}")
    if found.kept_from is not None:
        say(f"queries keep {KEPT:g} of their accuracy from recall {found.kept_from:g} on (in the paper from 0.2 on)")
    if not found.predictors:
        say("which metric foretells accuracy: cannot tell, there are fewer than 3 operating points")
        return
    table = Table(
        title="rank correlation with accuracy over the points", title_justify="left", box=box.SIMPLE, pad_edge=False
    )
    for heading in ("metric", "Spearman", "more than recall"):
        table.add_column(heading, justify="left" if heading == "metric" else "right")
    for item in found.predictors:
        table.add_row(
            item.name if item.delta is None else f"robustness-{item.delta:g}",
            _interval(item.correlation, item.low, item.high),
            _interval(item.gain, item.gain_low, item.gain_high),
        )
    console.print(table)
    better = [item for item in found.predictors if item.gain_low is not None and item.gain_low > 0]
    if not found.can_rank:
        say(f"with {found.points} points, fewer than {FEWEST_POINTS}, an order may be chance")
    elif better:
        best = max(better, key=lambda item: item.correlation)
        say(f"robustness-{best.delta:g} foretells accuracy better than average recall does")
    else:
        say("whether any robustness foretells accuracy better than average recall cannot be told at this n")


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:+.3f}" if low is None else f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"


def print_agreement(console: Console, verdicts: dict[str, Verdicts]) -> None:
    """Of every two judges, over all pairs that both judged."""
    names = list(verdicts)
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            pairs = [
                np.array([verdicts[name].of[point] for point in verdicts[first].of]).ravel() for name in (first, second)
            ]
            known = ~np.isnan(pairs).any(axis=0)
            if not known.any():
                continue
            same, kappa = agreement(*(each[known].astype(bool) for each in pairs))
            text = "" if kappa is None else f", Cohen's kappa {kappa:.3f}"
            line = f"judges {first} and {second} agree on {same:.1%} of {known.sum():,} answers{text}"
            console.print(line, highlight=False, soft_wrap=True, markup=False)


def judges(text: str) -> list[str]:
    """Names with commas."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in (*JUDGES, MODEL)]
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f"unknown judge '{''.join(unknown[:1])}'; known: {', '.join((*JUDGES, MODEL))}"
        )
    return names


def delta(text: str) -> str:
    """δ, as typed."""
    try:
        parse_delta(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def price(text: str) -> float:
    """A number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number, not '{text}'")
    return value


def main(argv: list[str] | None = None) -> None:
    """Entry point."""
    parser = Parser(
        prog="python -m benchmarks rag",
        description="Let an answerer see the documents that each measured operating point returned; say how often it\n"
        "is right, how that falls with the recall of the query, which δ follows, and which metric foretells it.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "--answerer",
        choices=NAMES,
        default="extractive",
        help="extractive: the best of the retrieved documents, offline; title: its title alone; openai: any server "
        "with OpenAI's protocol, by ROBUST_ANN_CHAT_URL, _MODEL and _KEY (default: extractive)",
    )
    parser.add_argument(
        "--judge", type=judges, default=["normalised"], metavar="LIST", help="with commas (default: normalised)"
    )
    parser.add_argument("--own", type=folder, metavar="FILE", help="verdicts of your own application; nothing is asked")
    parser.add_argument("--limit", type=positive, metavar="N", help="ask N questions only, drawn with --seed")
    parser.add_argument("--seed", type=int, default=0, help="of --limit (default: 0)")
    parser.add_argument("--delta", type=delta, default="0.2", metavar="δ", help="shown in the table (default: 0.2)")
    parser.add_argument("--yes", action="store_true", help=f"ask a server more than {ASK_ABOVE} new prompts")
    parser.add_argument("--price-in", type=price, metavar="X", help="of a million tokens of prompt, for an estimate")
    parser.add_argument("--price-out", type=price, metavar="X", help="of a million tokens of answers")
    add_selection(parser)
    add_data_dir(parser)
    options = parser.parse_args(argv)
    if options.own and not Path(options.own).is_file():
        parser.error(f"--own {options.own}: there is no such file")
    guarded(lambda: run(options))
