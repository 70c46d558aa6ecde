"""Names beside points, where they cover neither points nor each other."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox

from benchmarks.figures.theme import GREY, SMALL

AWAY = 6.5  # points from the middle of a marker to its name
SIDES = (
    ((0, AWAY), "center", "bottom"),
    ((0, -AWAY), "center", "top"),
    ((AWAY, 0), "left", "center"),
    ((-AWAY, 0), "right", "center"),
    ((AWAY * 0.75, AWAY * 0.75), "left", "bottom"),
    ((-AWAY * 0.75, -AWAY * 0.75), "right", "top"),
    ((AWAY * 0.75, -AWAY * 0.75), "left", "top"),
    ((-AWAY * 0.75, AWAY * 0.75), "right", "bottom"),
)
RADIUS = 4.5  # of a marker, in points


def name_points(axis: Axes, names: Mapping[tuple[float, float], str]) -> None:
    """Write each name beside its place (x, y) where there is room; one that has none stays away.

    The figure must have been laid out, since room is measured in its pixels.
    """
    scale = axis.figure.dpi / 72
    whole = axis.figure.bbox
    spots = {place: axis.transData.transform(place) for place in names}
    taken = [
        Bbox.from_bounds(x - RADIUS * scale, y - RADIUS * scale, *[2 * RADIUS * scale] * 2) for x, y in spots.values()
    ]
    for place, name in names.items():
        for offset, across, up in SIDES:
            text = axis.annotate(
                name,
                place,
                xytext=offset,
                textcoords="offset points",
                ha=across,
                va=up,
                fontsize=SMALL - 1,
                color=GREY,
                zorder=5,
                path_effects=[withStroke(linewidth=1.8, foreground="white")],
                annotation_clip=False,
            )
            box = text.get_window_extent()
            inside = whole.contains(box.x0, box.y0) and whole.contains(box.x1, box.y1)
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()
