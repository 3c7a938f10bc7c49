"""Changes as arrows on each feature's scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .results import Answer


def arrows(answer: Answer, ax: Axes | None = None) -> Axes:
    """Draws each feature's scale as a line with arrows from the user's value to each record's."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib; install it with: pip install 'ifonly[plot]'") from error
    features: list[str] = []
    for one in answer.counterfactuals:
        features += [line["feature"] for line in one.scales if line["feature"] not in features]
    if ax is None:
        _, made = plt.subplots(figsize=(7, 0.9 + (0.5 + 0.15 * len(answer.counterfactuals)) * max(len(features), 1)), layout="constrained")
        ax = made
    count = len(answer.counterfactuals)
    for number, one in enumerate(answer.counterfactuals):
        # Draw the records of one person below each other.
        shift = 0.0 if count == 1 else 0.44 * (number / (count - 1) - 0.5)
        values = {change.feature: change for change in one.changes}
        for line in one.scales:
            _arrow(ax, features.index(line["feature"]) + shift, line, values[line["feature"]], f"C{number}")
    for place, feature in enumerate(features):
        first = next((one, line) for one in answer.counterfactuals for line in one.scales if line["feature"] == feature)
        line = first[1]
        ax.plot([0, 1], [place, place], color="0.6", linewidth=1, zorder=0)
        ax.text(0, place + 0.36, line["low"], ha="left", va="center", fontsize=7, color="0.5")
        ax.text(1, place + 0.36, line["high"], ha="right", va="center", fontsize=7, color="0.5")
        if line["yours"] is not None:
            yours = next(change.yours for change in first[0].changes if change.feature == feature)
            ax.text(line["yours"], place - 0.36, str(yours), ha="center", va="center", fontsize=8, color="0.5")
    units = {line["feature"]: line["unit"] for one in answer.counterfactuals for line in one.scales}
    ax.set_yticks(range(len(features)), [f"{name} ({units[name]})" if units[name] else name for name in features])
    ax.set_ylim(len(features) - 0.45, -0.6)
    ax.set_xlim(-0.03, 1.08)
    ax.set_xticks([])
    ax.tick_params(length=0)
    for side in ("top", "right", "bottom", "left"):
        ax.spines[side].set_visible(False)
    ax.set_title("no row matches" if not answer.found else "from yours to theirs", fontsize=10, loc="left")
    return ax


def _arrow(ax: Axes, y: float, line: dict[str, Any], change: Any, color: str) -> None:
    yours, theirs = line["yours"], line["theirs"]
    if yours is None or theirs is None:
        ax.text(0.5, y, f"{change.yours} → {change.theirs}", ha="center", fontsize=8, color=color)
        return
    ax.plot([yours], [y], "o", color=color, markerfacecolor="none", markersize=5)
    up = theirs >= yours
    if abs(theirs - yours) > 1e-3:
        style = {"arrowstyle": "-|>", "color": color, "linewidth": 1.6, "shrinkA": 3, "shrinkB": 0}
        ax.annotate("", xy=(theirs, y), xytext=(yours, y), arrowprops=style)
    end = theirs + (0.012 if up else -0.012)
    ax.text(end, y, str(change.theirs), ha="left" if up else "right", va="bottom" if y == int(y) else "center", fontsize=8, color=color, fontweight="bold")
