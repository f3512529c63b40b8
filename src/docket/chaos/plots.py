"""Plots of a drill as SVG: calls over time, one dot each, coloured by how they ended, with bands behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 720, 240, 56, 34, 40
COLOURS = ("#2a7f3f", "#c0392b", "#d68910", "#2e5fa3", "#7d3c98", "#5f6a6a")
BAND = "#f3d9d6"
LETTER = 7
"""Width of a letter of the legend, rather too wide than too narrow: names must not run into one another."""
MAX_POINTS = 5_000
"""Dots of one plot: more only make the file large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One call: seconds since the run started, its figure, and the kind that gives its colour."""

    x: float
    y: float
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A stretch of time with a name, such as *outage*."""

    start: float
    end: float
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Points over seconds; ``unit`` names the figure."""

    title: str
    unit: str
    points: Sequence[Point]
    bands: Sequence[Band] = ()


def svg(plot: Plot) -> str:
    """The plot as a standalone SVG document."""
    points = plot.points[:MAX_POINTS]
    right = max([p.x for p in points] + [band.end for band in plot.bands] + [0.001])
    top = max([p.y for p in points] + [0.001])
    kinds = sorted({p.kind for p in points})
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="11"><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="14" font-size="13">{escape(plot.title)}</text>',
    ]
    for band in plot.bands:
        x, end = _x(band.start, right), _x(band.end, right)
        parts.append(
            f'<rect x="{x:.1f}" y="{TOP}" width="{max(1.0, end - x):.1f}" height="{HEIGHT - TOP - BOTTOM}" '
            f'fill="{BAND}"/><text x="{x + 2:.1f}" y="{TOP + 11}" fill="#922">{escape(band.name)}</text>'
        )
    parts += _axes(right, top, plot.unit)
    for point in points:
        colour = COLOURS[kinds.index(point.kind) % len(COLOURS)]
        parts.append(f'<circle cx="{_x(point.x, right):.1f}" cy="{_y(point.y, top):.1f}" r="2.5" fill="{colour}"/>')
    x = LEFT
    for place, kind in enumerate(kinds):
        parts.append(f'<circle cx="{x + 4}" cy="24" r="3.5" fill="{COLOURS[place % len(COLOURS)]}"/>')
        parts.append(f'<text x="{x + 12}" y="28">{escape(kind)}</text>')
        x += 30 + LETTER * len(kind)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axes(right: float, top: float, unit: str) -> list[str]:
    base = HEIGHT - BOTTOM
    parts = [f'<path d="M{LEFT} {TOP}V{base}H{WIDTH - 12}" fill="none" stroke="#444"/>']
    for share in (0.0, 0.5, 1.0):
        x, y = _x(right * share, right), _y(top * share, top)
        parts.append(f'<text x="{x:.1f}" y="{base + 14}" text-anchor="middle">{right * share:.3g}</text>')
        parts.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{top * share:.3g}</text>')
    middle = (LEFT + WIDTH) // 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">seconds since the run started</text>')
    parts.append(f'<text x="4" y="{TOP - 6}">{escape(unit)}</text>')
    return parts


def _x(seconds: float, right: float) -> float:
    return LEFT + (WIDTH - LEFT - 12) * seconds / right


def _y(figure: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * figure / top
