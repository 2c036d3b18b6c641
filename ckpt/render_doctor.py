# SPDX-License-Identifier: MIT
"""How the answer of `git ckpt doctor` looks as text: what is wrong first, then what is well.

Pure, as `render`.
"""

from __future__ import annotations

from ckpt.diagnosis import DOUBTFUL, FIXED, WELL, WRONG
from ckpt.render import columns, printable
from ckpt.render_status import wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ckpt.diagnosis import Diagnosis

_STYLES = {WRONG: "red", DOUBTFUL: "id", FIXED: "green", WELL: "green"}
_MARK = 9
_LABEL, _LEFT = "mend: ", 2


def doctor(
    diagnoses: Sequence[Diagnosis], paint: Callable[[str, str], str], width: int
) -> Iterator[str]:
    """A line each, and below it the command that mends it; at last how many there are."""
    indent = _MARK + max((columns(one.subject) for one in diagnoses), default=0) + 2
    for state in (WRONG, DOUBTFUL, FIXED, WELL):
        for one in diagnoses:
            if one.state != state:
                continue
            mark = paint(_STYLES[state], state) + " " * (_MARK - len(state))
            first = mark + one.subject.ljust(indent - _MARK)
            for line in wrapped(printable(one.detail), width - indent):
                yield (first + line).rstrip()
                first = " " * indent
            if one.done is not None:
                for line in wrapped(printable(one.done), width - indent):
                    yield " " * indent + line
            if one.mend is not None:
                yield from _mend(printable(one.mend).split("; "), indent, width)
    yield ""
    yield _sum(diagnoses)


def _mend(steps: Sequence[str], indent: int, width: int) -> Iterator[str]:
    """A line each, not broken, so that it can be copied; further left if it would not fit."""
    longest = len(_LABEL) + max(map(columns, steps))
    indent = indent if indent + longest <= width else _LEFT
    for number, step in enumerate(steps):
        yield " " * indent + (_LABEL if number == 0 else " " * len(_LABEL)) + step


def _sum(diagnoses: Sequence[Diagnosis]) -> str:
    wrong, doubtful, fixed = (
        sum(one.state == state for one in diagnoses) for state in (WRONG, DOUBTFUL, FIXED)
    )
    mended = f", {fixed} fixed" if fixed else ""
    if not wrong and not doubtful:
        return "Nothing is wrong" + (f" any more{mended}." if fixed else ".")
    counted = [(wrong, "problem"), (doubtful, "warning")]
    words = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in counted if count]
    return " and ".join(words) + mended
