# SPDX-License-Identifier: MIT
"""What `git ckpt doctor` found to be wrong, and what would mend it."""

from __future__ import annotations

from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


@value_class
class Flaw:
    """`mend` puts it right and returns what it did; None where that is for a person to do,
    as `by_hand` says."""

    subject: str
    is_wrong: bool
    detail: str
    mend: Callable[[], str] | None = None
    by_hand: str | None = None
