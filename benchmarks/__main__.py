"""`python -m benchmarks <verb>`: every verb is one module of `benchmarks.cli` with a `main(argv)`."""

import keyword
import sys

from benchmarks.bootstrap import start

VERBS = {
    "list": "data sets, algorithms and results",
    "prepare": "fetch, check and hash a data set",
    "verify": "check a data set and the ground truth that came with it",
    "install": "build the environments of index libraries",
    "truth": "write the exact nearest neighbours of a data set",
    "export": "results as CSV, JSON, Parquet, or files as ann-benchmarks writes them",
    "import": "result files of other harnesses, judged by our ground truth",
    "compare": "two sets of results on the same queries, and a gate over them",
    "advise": "which operating point to take, and what more robustness costs",
    "headroom": "what a perfect choice of search effort for each query would bring",
    "diagnose": "known bad shapes in results, with their causes",
    "claims": "what the paper found, held against our results",
    "rag": "what low-recall queries cost an application that answers questions, and which δ follows",
    "doctor": "what makes timings unstable on this machine, and what mends it",
    "run": "measure; the same as run.py",
    "plot": "draw; the same as plot.py",
}


def module_of(verb: str) -> str:
    """Name of the module that does it; `import_` for what Python does not let be a name."""
    return f"benchmarks.cli.{verb}{'_' * keyword.iskeyword(verb)}"


def main() -> None:
    """Hand the arguments to the verb."""
    verb = sys.argv[1] if len(sys.argv) > 1 else None
    if verb in ("-h", "--help", None):
        print("usage: python -m benchmarks VERB [--help]\n")
        for name, meaning in VERBS.items():
            print(f"  {name:10} {meaning}")
        sys.exit(0 if verb else 2)
    if verb not in VERBS:
        print(f"error: unknown verb '{verb}'; known: {', '.join(VERBS)}", file=sys.stderr)
        sys.exit(2)
    start(module_of(verb), sys.argv[2:])


if __name__ == "__main__":
    main()
