# SPDX-License-Identifier: MIT
"""`git ckpt prune`: drop checkpoints that no rule keeps, and report the reasons."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

from ckpt.cli import Context
from ckpt.engine.trash import PruneResult, prune
from ckpt.models import Kind
from ckpt.render import Paint
from ckpt.settings.settings import Policy, Rules
from ckpt.settings.sources import BOOL, DURATION, RULES, Type

_RULED = (Kind.AUTO, Kind.SESSION, Kind.HOOK, Kind.SAFETY)


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--dry-run", action="store_true", help="only say what would be done")
    add("--now", action="store_true", help="empty the trash too, however new what is in it")
    for rule, (of, what) in RULES.items():
        option = f"--keep-{rule.replace('_', '-')}"
        if rule != "forever" and of is BOOL:
            add(option, action="store_const", const=True, help=what)
        elif rule != "forever":
            add(option, type=_value(of), metavar="TIME" if of is DURATION else "N", help=what)


def _value(of: Type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = of.read(text)
        if value is None:
            raise argparse.ArgumentTypeError(f"expected {of.expected}, got '{text}'")
        return value

    return read


def run(context: Context, dry_run: bool = False, now: bool = False, **keep: Any) -> None:
    manager = context.manager
    context.warn(manager.settings.notes)
    policy = _policy(manager.settings.policy, keep)
    repo = manager.repository
    result = prune(repo, policy, dry_run=dry_run, empties_trash=now)
    context.output.tell(result, None, _rows)


def _policy(policy: Policy, keep: dict[str, Any]) -> Policy:
    """Return the policy of the settings, with the rules given as options."""
    if not keep:
        return policy
    rules = Rules(**{word.removeprefix("keep_"): value for word, value in keep.items()})
    return policy._replace(kinds={**policy.kinds, **dict.fromkeys(_RULED, rules)})


def _rows(result: PruneResult, paint: Paint, width: int) -> Iterator[str]:
    """List each checkpoint with its decision and reasons, then the totals."""
    for one in result.decisions:
        word = paint("green", "keep") if one.keep else paint("red", "drop")
        reasons = ", ".join(one.reasons)
        found = one.checkpoint
        yield f"{word}  {paint('id', found.id)}  {found.kind:<7}  {reasons}"
    drop, remove = ("Would drop", "Would remove") if result.dry_run else ("Dropped", "Removed")
    yield f"{drop} {len(result.dropped)} of {len(result.decisions)}"
    if result.emptied:
        yield f"{remove} {len(result.emptied)} from the trash, for good"
    in_trash = {one.checkpoint.id for one in result.dropped} - {*result.emptied}
    if in_trash and not result.dry_run:
        yield "bring one back with: git ckpt restore-dropped ID"
