# SPDX-License-Identifier: MIT
"""What an install or uninstall tells people and programs: steps to lines, steps to JSON.

Pure: it gets the steps and the folder that paths are shown from, and prints nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from ckpt.install.target import KEPT, NOTE, TO_DO, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_VERBS = {"added": "Added", "changed": "Changed", "removed": "Removed", "note": "Note:"}


def done_lines(steps: Sequence[Step], start: str) -> Iterator[str]:
    """What was done, a line each; what was there already comes together in one."""
    for step in steps:
        if step.action in _VERBS:
            yield f"{_VERBS[step.action]} {step.what} ({shown(step.place, start)})"
            yield from (f"  {line}" for line in step.advice)
    kept = [step.what for step in steps if step.action == KEPT]
    if kept:
        yield f"Already there: {', '.join(kept)}"


def to_do(steps: Sequence[Step], start: str) -> Iterator[tuple[str, Sequence[str]]]:
    """What is missing for the user to do, each with the lines to type or to add."""
    for step in steps:
        if step.action == TO_DO:
            yield f"{step.what} ({shown(step.place, start)})", step.advice


def document(steps: Sequence[Step]) -> dict[str, Any]:
    return {"schema": 1, "steps": [_step(step) for step in steps]}


def shown(place: str, start: str) -> str:
    """A path as people type it here: from the current folder if it is below that."""
    here = os.path.join(os.path.realpath(start), "")
    return place[len(here) :] if place.startswith(here) else place


def is_news(steps: Sequence[Step]) -> bool:
    return any(step.action not in (KEPT, NOTE, TO_DO) for step in steps)


def _step(step: Step) -> dict[str, Any]:
    place = step.place.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {
        "action": step.action,
        "what": step.what,
        "place": place,
        "advice": list(step.advice),
    }
