"""Answers as HTML for light and dark pages: all colours come from the surrounding text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .results import Answer

#: Maximum number of people that are shown.
SHOWN = 20

_STYLE = """<style>
.ifonly table { border-collapse: collapse; margin: .2em 0 .8em 0; color: inherit; background: transparent; }
.ifonly th, .ifonly td { padding: .25em .8em; text-align: left; border: 0; background: transparent; color: inherit; }
.ifonly thead th { border-bottom: 1px solid currentColor; opacity: .75; font-weight: 600; }
.ifonly tbody td { border-bottom: 1px solid color-mix(in srgb, currentColor 18%, transparent); }
.ifonly .theirs { font-weight: 700; }
.ifonly .quiet { opacity: .65; }
.ifonly .bar { display: inline-block; height: .55em; background: currentColor; opacity: .45; border-radius: 2px; vertical-align: baseline; }
.ifonly p { margin: .2em 0; }
</style>"""


def answers(answers: Sequence[Answer]) -> str:
    """Returns the HTML of all answers, or of the first ones."""
    parts = [_answer(answer, len(answers) > 1) for answer in answers[:SHOWN]]
    if len(answers) > SHOWN:
        parts.append(f'<p class="quiet">… and {len(answers) - SHOWN} more people; to_dataframe() has them all.</p>')
    return f'{_STYLE}<div class="ifonly">{"".join(parts)}</div>'


def _answer(answer: Answer, named: bool) -> str:
    head = f"<p><b>{_text(answer.label)}</b></p>" if named else ""
    if not answer.found:
        wishes = f" under these wishes: {_text('; '.join(answer.wishes))}" if answer.wishes else ""
        return f"{head}<p>No row matches{wishes}.</p>"
    return head + "".join(_record(one, number, len(answer.counterfactuals)) for number, one in enumerate(answer.counterfactuals, 1))


def _record(one: Any, number: int, of: int) -> str:
    rank = f"Number {number}: cost" if of > 1 else "Cost"
    foot = f'<p class="quiet">{rank} {one.cost:.3g}</p>'
    if one.group:
        foot += f'<p class="quiet">Stands for {one.group["at_least"]} to {one.group["at_most"]} accepted people; nobody\'s own record.</p>'
    if not one.changes:
        same = "A record of accepted people has exactly these values." if one.group else "A row with exactly these values was accepted."
        return f"<p>{same}</p>{foot}"
    most = max((change.contribution or 0.0) for change in one.changes) or 1.0
    rows = "".join(_change(change, most) for change in one.changes)
    return (
        "<table><thead><tr><th>feature</th><th>yours</th><th></th><th>theirs</th><th>cost</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>{foot}"
    )


def _change(change: Any, most: float) -> str:
    cost = ""
    if change.contribution is not None and not change.same_level:
        width = 6 * change.contribution / most
        cost = f'<span class="bar" style="width:{width:.2f}em"></span> {change.contribution:.3g}'
    note = ' <span class="quiet">(same level)</span>' if change.same_level else ""
    return (
        f"<tr><td>{_text(change.feature)}</td><td>{_text(change.yours)}</td><td>→</td>"
        f'<td class="theirs">{_text(change.theirs)}{note}</td><td>{cost}</td></tr>'
    )


def _text(value: Any) -> str:
    """Escapes a value. Records are untrusted input and never contain markup."""
    return escape(str(value))
