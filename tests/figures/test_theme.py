from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D

from benchmarks.figures.theme import FORMATS, MARKERS, PALETTE, save, sheet, styles


def test_style_depends_on_the_names_alone():
    names = ["hnswlib", "faiss-hnsw", "scann"]
    assert styles(names) == styles(reversed(names)) == styles(names * 2)


def test_seventy_algorithms_are_told_apart():
    looks = styles(f"index-{number:02}" for number in range(len(PALETTE) * len(MARKERS)))
    assert len({(look.colour, look.marker) for look in looks.values()}) == len(looks)


def test_colours_differ_in_grey_or_marker():
    for one in PALETTE:
        assert sum(to_rgb(one)) < 2.2, "too pale for a line on white"
    assert len(set(MARKERS)) == len(MARKERS)


def test_builds_share_colour_and_marker_but_not_dash():
    look = styles(["a"])["a"]
    first, second = look.line(0), look.line(1)
    assert first["color"] == second["color"] and first["marker"] == second["marker"]
    assert first["linestyle"] != second["linestyle"] and first["markerfacecolor"] != second["markerfacecolor"]


def a_sheet():
    handles = [Line2D([], [], label=f"algorithm {number} " + "with many words " * 12) for number in range(3)]
    figure, (panel, *_) = sheet(
        "data: a title " * 8,
        "K = 10 · " * 20,
        rows=1,
        columns=1,
        panel=(6, 3),
        legend=handles,
        failed=handles[:1],
        notes=["how to read this " * 20],
        alert="mixed: k",
    )
    panel.plot([0, 1], [0, 1])
    return figure, panel


def test_nothing_overlaps_and_nothing_is_cut_off():
    figure, panel = a_sheet()
    figure.draw_without_rendering()
    whole = figure.bbox
    boxes = [artist.get_window_extent() for artist in (*figure.legends, *figure.texts)] + [panel.get_tightbbox()]
    for index, box in enumerate(boxes):
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= whole.x1 and box.y1 <= whole.y1
        assert not any(box.overlaps(other) for other in boxes[:index])


def test_every_format_is_written_and_the_same_twice(tmp_path):
    for folder in ("first", "second"):
        figure, _ = a_sheet()
        save(figure, [tmp_path / folder / f"figure.{kind}" for kind in FORMATS])
    for kind in FORMATS:
        first, second = ((tmp_path / folder / f"figure.{kind}").read_bytes() for folder in ("first", "second"))
        assert len(first) > 1000 and first == second
