# SPDX-License-Identifier: MIT
"""`git ckpt prune`: drop what no rule keeps, and say why each stays or goes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ckpt import documents
from ckpt.cli import Context
from ckpt.engine.prune import PruneResult, prune
from ckpt.errors import UsageError
from ckpt.models import Kind
from ckpt.render import Paint, quoted
from ckpt.settings.policy import FEATURES_STAY, RULES, Policy, Rules
from ckpt.settings.settings import Settings
from ckpt.settings.sources import BOOL, COUNT, DURATION, LIMIT, NO_LIMIT, Type, Unfit

_RULED = (Kind.AUTO, Kind.SESSION, Kind.HOOK, Kind.SAFETY)
_TYPED = [rule for rule in RULES if rule != "forever"]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument(
        "--now", action="store_true", help="empty the trash too, however new what is in it"
    )
    parser.add_argument(
        "--kind",
        action="append",
        default=[],
        choices=[kind.value for kind in Kind],
        help="look at checkpoints of this kind only; repeatable",
    )
    for rule in _TYPED:
        of, what = RULES[rule]
        option = f"--keep-{rule.replace('_', '-')}"
        if of is BOOL:
            parser.add_argument(option, action="store_const", const=True, help=what)
        else:
            metavar = "TIME" if of is DURATION else "N"
            parser.add_argument(option, type=_value(of), metavar=metavar, help=what)
    parser.add_argument(
        "--max-checkpoints",
        type=_value(COUNT),
        metavar="N",
        help="how many a worktree may have, or none",
    )
    parser.add_argument(
        "--max-bytes",
        type=_value(LIMIT),
        metavar="SIZE",
        help="how much they may hold together: 2GiB, none",
    )


def _value(of: Type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return of.of_text(text)
        except Unfit as unfit:
            raise argparse.ArgumentTypeError(f"expected {unfit.expected}, got '{text}'") from None

    return read


def run(
    context: Context,
    dry_run: bool,
    now: bool,
    kind: list[str],
    max_checkpoints: int | None,
    max_bytes: int | None,
    **keep: Any,
) -> int:
    kinds = [Kind(word) for word in kind]
    typed = {rule: keep[f"keep_{rule}"] for rule in _TYPED}
    rules = {rule: value for rule, value in typed.items() if value is not None}
    caps = {"max_checkpoints": max_checkpoints, "max_bytes": max_bytes}
    limits = {name: most for name, most in caps.items() if most is not None}
    with context.manager() as manager:
        context.warn(manager.settings.notes)
        policy = _policy(manager.settings, rules, kinds, limits)
        if not dry_run:
            manager.repository.check_writable()
        result = prune(
            manager.repository, policy, dry_run=dry_run, empties_trash=now, kinds=kinds or None
        )
        context.output.tell(result, documents.prune, _rows)
    return 0


def _policy(
    settings: Settings, typed: dict[str, Any], kinds: list[Kind], limits: dict[str, int]
) -> Policy:
    """That of the settings, or the rules that were typed for all kinds that rules let go."""
    caps: Any = {name: None if most == NO_LIMIT else most for name, most in limits.items()}
    policy = replace(settings.policy, **caps)
    if not typed:
        return policy
    rules = replace(Rules(), **typed)
    fault = rules.fault()
    if fault is not None:
        raise UsageError(f"these rules {fault}", hint="--keep-last 5")
    if Kind.FEATURE in kinds:
        raise UsageError(FEATURES_STAY, hint="git ckpt drop ID")
    named = kinds or _RULED
    return replace(policy, kinds={**policy.kinds, **dict.fromkeys(named, rules)})


def _rows(result: PruneResult, paint: Paint, width: int) -> Iterator[str]:
    """A line for each checkpoint, with what becomes of it and why; then what to type."""
    for one in result.decisions:
        word = paint("green", "keep") if one.keep else paint("red", "drop")
        reasons = ", ".join(one.reasons)
        found = one.checkpoint
        yield f"{word}  {paint('id', found.id)}  {found.kind:<7}  {quoted(reasons)}"
    drop, remove = ("Would drop", "Would remove") if result.dry_run else ("Dropped", "Removed")
    yield f"{drop} {len(result.dropped)} of {len(result.decisions)}"
    if result.emptied:
        yield f"{remove} {len(result.emptied)} from the trash, for good"
    in_trash = {one.checkpoint.id for one in result.dropped} - {*result.emptied}
    if in_trash and not result.dry_run:
        yield "bring one back with: git ckpt restore-dropped ID"
