# SPDX-License-Identifier: MIT
"""`git ckpt doctor`: try the triggers out, say what is wrong and what mends it; or mend it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ckpt import documents
from ckpt.cli import Context
from ckpt.diagnosis import DOUBTFUL, FIXED, WELL, WRONG, Diagnosis, diagnose, flaw
from ckpt.engine import status
from ckpt.engine.health import Flaw, find_flaws, find_unasked
from ckpt.errors import CkptError, DiskError
from ckpt.install import parts, trial
from ckpt.install.record import Target
from ckpt.models import Finding
from ckpt.render import Paint, columns, printable

_STYLES = {WRONG: "red", DOUBTFUL: "id", FIXED: "green", WELL: "green"}
_MARK = 9
_LABEL = "fix: "


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fix",
        action="store_true",
        help="remove stale locks, unfinished files, broken refs of ours and a damaged cache",
    )


def run(context: Context, fix: bool) -> int:
    with context.quiet_manager() as manager:
        repo = manager.repository
        target = Target(repo, context.env, sys.executable)
        found = [*find_flaws(repo), *_left_over(target), *find_unasked(repo)]
        flaws = [_mended(each) if fix else flaw(each) for each in found]
        findings, unknown = _installed(target)
        stands = status.look(repo, findings)
        if any(each.subject == "journal" for each in found):  # which no rollback can go on with
            stands = replace(stands, rollback_interrupted=False)
        tried = trial.try_out(target, findings)
        has_triggers = context.store == "repo"  # in any other folder there is no git to call them
        others = diagnose(
            stands, tried, manager.forgiving_settings, knows_all=has_triggers and not unknown
        )
        flawed = {each.subject for each in flaws if each.state != FIXED}
        flaws += map(flaw, unknown)
        diagnoses = [*flaws, *(o for o in others if o.state != WELL or o.subject not in flawed)]
        context.output.tell(diagnoses, documents.doctor, doctor)
    return 1 if any(one.state == WRONG for one in diagnoses) else 0


def _left_over(target: Target) -> list[Flaw]:
    """What an install that was killed has left, also where it stops git in every repository."""
    try:
        left = parts.left_over(target)
    except (CkptError, OSError):  # of which is told below
        return []
    if not left:
        return []
    count = f"{len(left)} file{'' if len(left) == 1 else 's'}"
    told = f"{count} of an 'install' or 'uninstall' that was killed: '{left[0]}'"

    def clear() -> str:
        parts.clear_left_over(target)
        return "removed"

    return [Flaw("leftovers", False, told, clear)]


def _installed(target: Target) -> tuple[list[Finding], list[Flaw]]:
    """What is installed, or why nobody can tell, which keeps nobody from looking at the rest."""
    try:
        return parts.inspect(target), []
    except (CkptError, OSError) as error:
        found = error if isinstance(error, CkptError) else DiskError(error)
        told = f"cannot tell which are installed: {found.message}"
        return [], [Flaw("triggers", True, told, by_hand=found.hint)]


def _mended(found: Flaw) -> Diagnosis:
    """What became of a flaw; one that cannot be fixed does not stop the others."""
    if found.mend is None:
        return flaw(found)
    try:
        return Diagnosis(found.subject, FIXED, found.detail, done=found.mend())
    except CkptError as error:
        return replace(flaw(found), mend=error.hint, done=f"could not be mended: {error.message}")
    except OSError as error:
        return replace(flaw(found), mend=None, done=f"could not be mended: {error.strerror}")


def doctor(diagnoses: Sequence[Diagnosis], paint: Paint, width: int) -> Iterator[str]:
    """A line each, and below it the command that fixes it; at last how many there are."""
    name = max((columns(one.subject) for one in diagnoses), default=0) + 2
    indent = " " * (_MARK + name)
    for state in (WRONG, DOUBTFUL, FIXED, WELL):
        for one in diagnoses:
            if one.state != state:
                continue
            mark = paint(_STYLES[state], state) + " " * (_MARK - len(state))
            yield (mark + one.subject.ljust(name) + printable(one.detail)).rstrip()
            if one.done is not None:
                yield indent + printable(one.done)
            for step in () if one.mend is None else printable(one.mend).split("; "):
                yield f"{indent}{_LABEL}{step}"
    yield ""
    yield _sum(diagnoses)


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
