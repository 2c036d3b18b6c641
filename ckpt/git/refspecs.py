# SPDX-License-Identifier: MIT
"""Refspecs as git reads them from `remote.NAME.push` and `remote.NAME.fetch`.

Only what it takes to tell which refs go where: force does not count. A pattern has one `*`,
which stands for any text, slashes too. A refspec that begins with `^` takes refs out again,
wherever in the list it stands; both when fetching and when pushing by the name on the other
side. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refspec:
    """`text` is how it is written."""

    text: str
    source: str
    target: str
    is_negative: bool = False

    @property
    def is_matching(self) -> bool:
        """Of `:`, which stands for all branches that both sides have."""
        return not (self.source or self.target)


def parse(text: str) -> Refspec:
    if text.startswith("^"):
        return Refspec(text, text[1:], "", is_negative=True)
    source, colon, target = text.removeprefix("+").rpartition(":")
    return Refspec(text, source, target) if colon else Refspec(text, target, target)


def star(pattern: str, name: str) -> str | None:
    """What `*` stands for if a ref is to match a pattern; None if it does not."""
    before, wild, after = pattern.partition("*")
    if not wild:
        return "" if pattern == name else None
    is_long_enough = len(name) >= len(before) + len(after)
    if not (is_long_enough and name.startswith(before) and name.endswith(after)):
        return None
    return name[len(before) : len(name) - len(after)]


def is_left_out(name: str, refspecs: Iterable[Refspec]) -> bool:
    return any(one.is_negative and star(one.source, name) is not None for one in refspecs)


def target_of(one: Refspec, name: str, *, is_mirror: bool) -> str | None:
    """As which ref a push by one refspec sends a ref to the other side; None if it does not."""
    if one.is_negative or one.is_matching:
        return name if one.is_matching and is_mirror else None
    if "*" not in one.source:
        is_meant = name in (one.source, f"refs/{one.source}")
        return (name if one.target == one.source else one.target) if is_meant else None
    found = star(one.source, name)
    return None if found is None else one.target.replace("*", found)


def origin_of(one: Refspec, name: str) -> str | None:
    """Which ref of the other side a fetch by one refspec puts in a place here; None if none."""
    if one.is_negative or not one.target:
        return None
    found = star(one.target, name)
    return None if found is None else one.source.replace("*", found)
