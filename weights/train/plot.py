"""The curves of a run's log as an SVG file, drawn here: a figure needs no plotting library."""

from pathlib import Path

from .files import write_atomically
from .log import read

WIDTH, HEIGHT, MARGIN = 420, 260, 44
COLOURS = ("#1f77b4", "#2ca02c", "#d62728", "#9467bd")

Curve = tuple[str, list[tuple[float, float]]]  # name, points


def _panel(title: str, curves: list[Curve], left: int, top: float) -> list[str]:
    """SVG elements of one panel; the y axis goes from 0 to `top`."""
    last = max((x for _, points in curves for x, _ in points), default=1) or 1
    bottom, right = HEIGHT - MARGIN, left + WIDTH - 20

    def place(x: float, y: float) -> tuple[float, float]:
        share = min(y / top, 1)
        return left + MARGIN + (right - left - MARGIN) * x / last, bottom - (bottom - 30) * share

    parts = [f'<text x="{left + MARGIN}" y="18" font-weight="bold">{title}</text>']
    for i in range(5):
        (x0, y), (x1, _) = place(0, top * i / 4), place(last, 0)
        parts.append(f'<path d="M{x0:.1f} {y:.1f}H{x1:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x0 - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{top * i / 4:.3g}</text>')
        x, _ = place(last * i / 4, 0)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{last * i / 4:.3g}</text>')
    parts.append(f'<text x="{right}" y="{bottom + 32}" text-anchor="end">minutes of training</text>')
    for i, (name, points) in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(f'<text x="{right - 90}" y="{44 + 14 * i}" fill="{colour}">{name}</text>')
    return parts


def _curves(lines: list[dict], names: tuple[str, ...]) -> list[Curve]:
    return [(n, [(line["minutes"], line[n]) for line in lines if n in line]) for n in names]


def plot(log: Path, target: Path) -> None:
    """Held-out AUC, held-out depth error, losses, each against minutes."""
    lines = [line for line in read(log) if "minutes" in line]
    sizes = [line["evaluated"] for line in lines if "evaluated" in line]
    held_out = [line for line in lines if sizes and line.get("evaluated") == sizes[0]]
    steps = [line for line in lines if "evaluated" not in line]
    panels = [
        ("held-out AUC", _curves(held_out, ("auc30", "auc15", "auc5")), 1.0),
        ("held-out AbsRel", _curves(held_out, ("absrel",)), 0.2),
        ("training", _curves(steps, ("match_hits", "depth", "translation", "auxiliary")), 1.0),
    ]
    size = f'width="{WIDTH * len(panels)}" height="{HEIGHT}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">']
    parts.append('<rect width="100%" height="100%" fill="white"/>')
    for i, (title, curves, top) in enumerate(panels):
        parts += _panel(title, curves, i * WIDTH, top)
    write_atomically(target, lambda path: path.write_text("\n".join([*parts, "</svg>\n"])))
