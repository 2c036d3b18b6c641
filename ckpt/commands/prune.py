# SPDX-License-Identifier: MIT
"""`git ckpt prune`: drop what no rule keeps, and say why each stays or goes."""

from __future__ import annotations

from ckpt.errors import UsageError
from ckpt.models import Kind
from ckpt.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ckpt.cli import Context
    from ckpt.engine.retention import Policy

_COUNTS = {
    "last": "the newest N",
    "hourly": "the newest of each of the last N hours",
    "daily": "the newest of each of the last N days",
    "weekly": "the newest of each of the last N weeks",
    "monthly": "the newest of each of the last N months",
    "first": "the oldest N",
}
_BY_RULE = (Kind.AUTO, Kind.SESSION, Kind.HOOK, Kind.SAFETY)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument(
        "--now", action="store_true", help="empty the trash too, however new what is in it"
    )
    for name, what in _COUNTS.items():
        parser.add_argument(f"--keep-{name}", type=int, default=0, metavar="N", help=f"keep {what}")
    parser.add_argument(
        "--keep-within", metavar="TIME", help="keep what is no older than 36h, 7d, 6mo"
    )
    parser.add_argument("--keep-per-name", action="store_true", help="keep the newest of each name")


def run(
    context: Context,
    dry_run: bool,
    now: bool,
    keep_within: str | None,
    keep_per_name: bool,
    **counts: int,
) -> int:
    policy = _policy(counts, keep_within, keep_per_name)
    with context.manager() as manager:
        from ckpt.engine.prune import prune

        manager.repository.check_writable()
        result = prune(manager.repository, policy, dry_run=dry_run, empties_trash=now)
        context.output.pruned(result)
    return 0


def _policy(counts: dict[str, int], within: str | None, per_name: bool) -> Policy:
    """The usual one, or the rules that were typed for all kinds that rules let go."""
    from ckpt.engine.retention import DEFAULTS, Policy, Rules

    for name, count in counts.items():
        if count < 0:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} {count} is less than nothing", hint=f"{option} 5")
    named = {name.removeprefix("keep_"): count for name, count in counts.items()}
    typed = replace(Rules(within=_seconds(within), per_name=per_name), **named)
    if typed.are_empty:
        return Policy()
    return Policy({**DEFAULTS, **dict.fromkeys(_BY_RULE, typed)})


def _seconds(text: str | None) -> float:
    if text is None:
        return 0
    from ckpt.setting_types import Unfit, duration

    try:
        return duration(text)
    except Unfit as unfit:
        raise UsageError(
            f"--keep-within: expected {unfit.expected}, got '{text}'", hint="--keep-within 7d"
        ) from None
