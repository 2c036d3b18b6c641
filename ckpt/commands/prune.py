# SPDX-License-Identifier: MIT
"""`git ckpt prune`: drop what no rule keeps, and say why each stays or goes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ckpt import documents
from ckpt.cli import Context
from ckpt.engine.prune import PruneResult, prune
from ckpt.errors import UsageError
from ckpt.models import Kind
from ckpt.render import Paint, quoted
from ckpt.settings.policy import FEATURES_STAY, Policy, Rules
from ckpt.settings.settings import Settings
from ckpt.settings.sources import COUNT, DURATION, LIMIT, NO_LIMIT, NUMBER, Type, Unfit

_COUNTS = {
    "last": "the newest N",
    "hourly": "the newest of each of the last N hours",
    "daily": "the newest of each of the last N days",
    "weekly": "the newest of each of the last N weeks",
    "monthly": "the newest of each of the last N months",
    "first": "the oldest N",
}
_RULED = (Kind.AUTO, Kind.SESSION, Kind.HOOK, Kind.SAFETY)


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
    for name, what in _COUNTS.items():
        parser.add_argument(f"--keep-{name}", metavar="N", help=f"keep {what}")
    parser.add_argument(
        "--keep-within", metavar="TIME", help="keep what is no older than 36h, 7d, 6mo"
    )
    parser.add_argument(
        "--keep-latest-per-name", action="store_true", help="keep the newest of each name"
    )
    parser.add_argument(
        "--max-checkpoints", metavar="N", help="how many a worktree may have, or none"
    )
    parser.add_argument(
        "--max-bytes", metavar="SIZE", help="how much they may hold together: 2GiB, none"
    )


def run(
    context: Context,
    dry_run: bool,
    now: bool,
    kind: list[str],
    keep_latest_per_name: bool,
    max_checkpoints: str | None,
    max_bytes: str | None,
    **keep: str | None,
) -> int:
    kinds = [Kind(word) for word in kind]
    rules = _rules(keep, keep_latest_per_name)
    caps = _caps(max_checkpoints, max_bytes)
    with context.manager() as manager:
        context.warn(manager.settings.notes)
        policy = _policy(manager.settings, rules, kinds, caps)
        if not dry_run:
            manager.repository.check_writable()
        result = prune(
            manager.repository, policy, dry_run=dry_run, empties_trash=now, kinds=kinds or None
        )
        context.output.tell(result, documents.prune, _rows)
    return 0


def _policy(
    settings: Settings, rules: Rules | None, kinds: list[Kind], caps: dict[str, Any]
) -> Policy:
    """That of the settings, or the rules that were typed for all kinds that rules let go."""
    policy = replace(settings.policy, **caps)
    if rules is None:
        return policy
    if Kind.FEATURE in kinds:
        raise UsageError(FEATURES_STAY, hint="git ckpt drop ID")
    named = kinds or _RULED
    policy = replace(policy, kinds={**policy.kinds, **dict.fromkeys(named, rules)})
    for kind in named:
        fault = policy.contradiction(kind)
        if fault is not None:
            raise UsageError(f"the rules for kind '{kind}' {fault}", hint="--max-checkpoints N")
    return policy


def _rules(keep: dict[str, str | None], latest_per_name: bool) -> Rules | None:
    """The rules that were typed, if any were."""
    typed: dict[str, Any] = {"latest_per_name": True} if latest_per_name else {}
    for name, text in keep.items():
        if text is not None:
            option, rule = "--" + name.replace("_", "-"), name.removeprefix("keep_")
            typed[rule] = _read(option, text, DURATION if rule == "within" else NUMBER)
    if not typed:
        return None
    rules = replace(Rules(), **typed)
    fault = rules.fault()
    if fault is not None:
        raise UsageError(f"these rules {fault}", hint="--keep-last 5")
    return rules


def _caps(checkpoints: str | None, size: str | None) -> dict[str, int | None]:
    caps = {}
    if checkpoints is not None:
        caps["max_checkpoints"] = _read("--max-checkpoints", checkpoints, COUNT)
    if size is not None:
        caps["max_bytes"] = _read("--max-bytes", size, LIMIT)
    return {name: None if most == NO_LIMIT else most for name, most in caps.items()}


def _read(option: str, text: str, of: Type) -> Any:
    try:
        return of.of_text(text)
    except Unfit as unfit:
        raise UsageError(
            f"{option}: expected {unfit.expected}, got '{text}'", hint="git ckpt help prune"
        ) from None


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
