import pytest

from benchmarks import suites
from benchmarks.cards.algorithms import find_algorithms
from benchmarks.cards.datasets import find_datasets
from benchmarks.cli import plot, run
from benchmarks.cli.choice import resolve
from benchmarks.cli.suite import build_key, counts, options_given, prepare_part
from benchmarks.figures.presets import FIGURES
from benchmarks.paths import SUITES
from benchmarks.suites import Suite, find_suites, load_suite
from benchmarks.yamlfile import load_yaml

SCALES = [(name, scale) for name, path in find_suites().items() for scale in load_yaml(path, Suite).scales]
MINIMAL = "title: Test\nscales:\n  small:\n    about: here\n    parts: [{about: one, dataset: crossover-20k}]\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of suites in place of configs/suites."""
    monkeypatch.setattr(suites, "SUITES", tmp_path)
    (tmp_path / "mine.yml").write_text(MINIMAL)
    return tmp_path


def parsed(scale, part):
    return run.build_parser().parse_args(scale.run_arguments(part))


# --- suites of this project ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "scale_name"), SCALES)
def test_every_part_of_every_suite_can_be_planned(name, scale_name):
    suite, _ = load_suite(name, scale_name)
    scale = suite.scales[scale_name]
    for part in scale.parts:
        options = parsed(scale, part)
        assert options.dataset in find_datasets()
        options.machine = "all"  # the suite's may need more than this machine has
        plan = run.dry_plan(resolve(options))
        assert plan.points and not [each for each in plan.skips if "breaks" not in each.reason]
        assert {job.algorithm.name for job in plan.jobs} == set(part.algorithms or scale.algorithms)
        assert bool(part.target) == bool(plan.seeks)


@pytest.mark.parametrize(("name", "scale_name"), SCALES)
def test_every_figure_is_one_that_plot_knows_of_data_that_is_measured(name, scale_name):
    scale = load_suite(name, scale_name)[0].scales[scale_name]
    for line in scale.figures:
        options = plot.parser().parse_args(scale.plot_arguments(line))
        assert options.figure in FIGURES and options.format == scale.formats
        assert options.dataset in [part.dataset for part in scale.parts]


@pytest.mark.parametrize("scale_name", ["10M", "small"])
def test_the_paper_is_whole(scale_name):
    scale = load_suite("paper", scale_name)[0].scales[scale_name]
    figures = [plot.parser().parse_args(scale.plot_arguments(line)).figure for line in scale.figures]
    assert set(figures) == {"1", "3", "6", "7", "8", "9", "10", "11", "13", "14"}
    paper = {"faiss-hnsw", "diskann", "zilliz", "faiss-ivfflat", "scann", "puck"}
    assert paper < set(scale.algorithms) <= set(find_algorithms())
    asked = {(target, parsed(scale, part).dataset) for part in scale.parts for target in part.target}
    main = scale.parts[0].dataset
    assert asked == {("recall@10=0.9", main), ("recall@100=0.9", main)}  # figure 9


def test_builds_are_shared_between_parts():
    """Text and image queries have one base; K and targets need no new index; another M does."""
    scale = load_suite("paper", "small")[0].scales["small"]
    given = run.build_parser().parse_args(["--suite", "paper", "--threads", "1"])
    parts = [prepare_part(part, scale, given, {"threads"}) for part in scale.parts]
    by_name = {part.part.about: part.builds for part in parts}
    first, at_10, at_100, by_m, by_probes, control, *others = by_name.values()
    assert len(first) == 8 and first == at_10 == at_100 == control and by_probes < first
    assert len(by_m) == 4 and len(by_m & first) == 1
    assert not any(each & first for each in others)
    everything = set().union(*by_name.values())
    assert len(everything) == 8 + 3 + 8 + 8 and f"on {len(everything)} builds" in counts(parts, scale)
    assert all(part.options.threads == 1 and not part.ending for part in parts)


def test_what_makes_another_build():
    def key(*options):
        choice = resolve(
            run.build_parser().parse_args(["--dataset", "glove-50-6b", "--algorithm", "hnswlib", *options])
        )
        (job,) = run.dry_plan(choice).jobs
        return build_key(choice, job)

    same = key("--threads", "1")
    assert key("--threads", "1", "--k", "100", "--mode", "single") == same
    assert key("--threads", "1", "--target", "recall=0.9") == same
    assert key("--threads", "1", "--set", "hnswlib.M=17") != same


# --- models --------------------------------------------------------------------------------------------------------


def test_a_part_is_a_command_line(folder):
    text = MINIMAL.replace(
        "dataset: crossover-20k",
        "dataset: crossover-20k, algorithms: [toy], set: ['toy.drop=0.0,0.5'], k: 5, mode: single, repeats: 2, "
        "target: [recall@5=0.5], tolerance: 0.1",
    )
    (folder / "mine.yml").write_text(text)
    suite, scale = load_suite("mine", None)
    options = parsed(suite.scales[scale], suite.scales[scale].parts[0])
    assert (options.dataset, options.algorithm, options.set) == ("crossover-20k", ["toy"], ["toy.drop=0.0,0.5"])
    assert (options.k, options.mode, options.repeats) == (5, "single", 2)
    assert (options.target, options.tolerance) == ([(0.5, 5)], 0.1)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("parts: [{about: one, dataset: crossover-20k}]", "parts: []", "scales.small.parts"),
        ("dataset:", "datasat:", "did you mean 'dataset'?"),
        ("    about: here\n", "", "scales.small.about: Field required"),
        ("    about: here\n", "    about: here\n    figures: ['--figure \"6']\n", "scales.small.figures"),
        ("title: Test\n", "title: Test\nalgorithms: [toy]\n", "unknown key 'algorithms'"),
        (MINIMAL.partition("\n")[2], "scales: 3\n", "scales: "),
    ],
)
def test_a_wrong_suite_is_refused(folder, refusal, old, new, words):
    (folder / "mine.yml").write_text(MINIMAL.replace(old, new))
    message = refusal(load_suite, "mine", None)
    assert message.startswith(f"{folder / 'mine.yml'}:") and words in message


def test_names_that_are_not_there(folder, refusal):
    assert "did you mean mine? known: mine" in refusal(load_suite, "mein", None)
    assert "unknown scale 'smal'; did you mean small?" in refusal(load_suite, "mine", "smal")
    (folder / "mine.yml").write_text(MINIMAL + MINIMAL.partition("scales:\n")[2].replace("small", "large"))
    assert "choose one with --scale: small (here); large (here)" in refusal(load_suite, "mine", None)
    (folder / "mine-claims.yml").write_text("claims: []\n")
    assert list(find_suites(folder)) == ["mine"]
    assert SUITES != suites.SUITES


def test_options_that_are_on_the_command_line():
    given = options_given(["--suite", "paper", "--machine", "auto", "--force", "--timeout", "7200"])
    assert given == {"suite", "machine", "force", "timeout"}  # though these are the defaults
