# SPDX-License-Identifier: MIT
"""What retention is told: rules for each kind of checkpoint, and caps on all of them.

Values only: what follows from them for given checkpoints is decided in `engine.retention`, and
who may say them from where is in `setting_retention`. A policy that would keep nothing of a kind,
or whose parts contradict each other, is refused: somebody meant something else.
"""

from __future__ import annotations

from ckpt.errors import UsageError
from ckpt.models import BY_HAND, Kind
from ckpt.values import field, value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_WEEK = 7 * 86400
_UNITS = (("d", 86400), ("h", 3600), ("m", 60))


@value_class
class Rules:
    """What to keep of a group; what any of them keeps stays.

    `within` is in seconds. Of the hours, days, weeks and months that have a checkpoint, the newest
    of each of the last so many stays. `latest_per_name` keeps the newest of each name among those
    that no other rule keeps.
    """

    forever: bool = False
    last: int = 0
    within: float = 0
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    first: int = 0
    latest_per_name: bool = False

    @property
    def are_empty(self) -> bool:
        return self == Rules()

    def fault(self) -> str | None:
        """What is wrong with them, if anything: the rules …"""
        for name in COUNTED:
            count = getattr(self, name)
            if not isinstance(count, int) or count < 0:
                return f"have '{name}' {count!r}, which is not a number of checkpoints"
        if not isinstance(self.within, int | float) or not 0 <= self.within < float("inf"):
            return f"have 'within' {self.within!r}, which is not a number of seconds"
        if self.are_empty:
            return "keep nothing"
        if self.forever and self != Rules(forever=True):
            return "keep everything ('forever'), so that the others mean nothing"
        return None

    def words(self) -> str:
        """What they keep, for whoever asks why something was not."""
        counted = [f"{name} {getattr(self, name)}" for name in COUNTED if getattr(self, name)]
        told = [f"within {span(self.within)}"] if self.within else []
        return ", ".join(counted + told + ["newest of each name"] * self.latest_per_name)


COUNTED = ("last", "hourly", "daily", "weekly", "monthly", "first")
DEFAULTS: Mapping[Kind, Rules] = {
    Kind.MANUAL: Rules(forever=True),
    Kind.FEATURE: Rules(forever=True),
    Kind.AUTO: Rules(last=5),
    Kind.SESSION: Rules(last=3),
    Kind.HOOK: Rules(last=50, within=_WEEK),
    Kind.SAFETY: Rules(last=20, within=_WEEK),
}
MAX_CHECKPOINTS = 500


@value_class
class Policy:
    """Rules for each kind, the usual ones for those that are left out; then the caps.

    `max_checkpoints` is how many a worktree may have, `max_bytes` how much all checkpoints of a
    repository may hold that nothing else does; None is no limit.
    """

    kinds: Mapping[Kind, Rules] = field(default_factory=lambda: DEFAULTS)
    max_checkpoints: int | None = MAX_CHECKPOINTS
    max_bytes: int | None = None

    def rules(self, kind: Kind) -> Rules:
        return self.kinds.get(kind, DEFAULTS[kind])

    def check(self) -> None:
        """Refuse what cannot be meant."""
        from collections.abc import Mapping

        if not isinstance(self.kinds, Mapping) or not all(
            isinstance(rules, Rules) for rules in self.kinds.values()
        ):
            raise UsageError(
                "expected a dictionary of kinds, each with its Rules",
                hint="for example Policy({Kind.HOOK: Rules(last=5)})",
            )
        for kind, rules in self.kinds.items():
            if not isinstance(kind, Kind):
                raise UsageError(
                    f"expected a kind such as Kind.HOOK, got {kind!r}", hint="from ckpt import Kind"
                )
            fault = rules.fault()
            if fault is not None:
                raise UsageError(
                    f"the rules for kind '{kind}' {fault}", hint="for example Rules(last=5)"
                )
        for name in ("max_checkpoints", "max_bytes"):
            most = getattr(self, name)
            if most is not None and (not isinstance(most, int) or most < 1):
                raise UsageError(f"{name} must be at least 1", hint="leave it out for no limit")

    def contradiction(self, kind: Kind) -> str | None:
        """What the rules for a kind keep and the number of checkpoints forbids, if anything."""
        if self.max_checkpoints is None or kind in BY_HAND:
            return None
        for name in COUNTED:
            count = getattr(self.rules(kind), name)
            if count > self.max_checkpoints:
                most = f"max_checkpoints is {self.max_checkpoints}"
                return f"have '{name}' {count}, but {most}"
        return None


FEATURES_STAY = "checkpoints of kind 'feature' are kept until they are dropped by hand"


def size(count: int) -> str:
    """A number of bytes, likewise."""
    amount, unit = float(count), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.4g} {unit}"


def span(seconds: float) -> str:
    """A time as people write it."""
    for name, length in _UNITS:
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g}{name}"
    return f"{seconds:g}s"
