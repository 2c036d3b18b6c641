# SPDX-License-Identifier: MIT
"""What must not be taken though git does not ignore it: secrets, folders of dependencies.

Of secrets there is more than their names: `.ENV` is one on any file system, and an editor leaves
copies beside a file, `.env~` or `.id_rsa.swp`, with all that was in it. So secrets are matched
without case, and what looks like a copy, or a copy of one, is denied if that is denied which it is
a copy of.
"""

from __future__ import annotations

from ckpt.patterns import lazy_pattern
from ckpt.worktree.ignore import IgnoreStack, Rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_ENDINGS = (b"~", b".bak", b".old", b".orig", b".save", b"#")
_LONGEST_ENDING = 5
_LAST_BYTES = frozenset(byte for each in _ENDINGS for byte in (each[-1:], each[-1:].upper()))
_SWAPPED = (b".s", b".S")
_MOST_TIMES = 8  # that a copy may have been copied
_BACKUP = lazy_pattern(rb"(?is)(.+?)(?:\.~[0-9]+~|~|\.bak|\.old|\.orig|\.save)")
_AUTOSAVED = lazy_pattern(rb"(?s)#(.+)#")
# Vim's, which counts down from `.swp`, or has what can be undone. The name of a file gets a dot
# before it, but for that of a swap file if there is one already.
_OF_VIM = lazy_pattern(rb"(?is)(\.(.+))\.(?:s[a-w][a-z]|un~)")


class Denials(IgnoreStack):
    """`others` count more than `secrets`, which are read without case: they may take back some."""

    __slots__ = ("_others", "_others_of_files", "_secrets")

    def __init__(self, secrets: Rules, others: Rules) -> None:
        super().__init__((others, secrets))
        self._secrets = secrets
        self._others = others
        # Mostly there are none, and a walk asks for every file that is new.
        self._others_of_files = any(not pattern.dir_only for pattern in others.patterns)

    def ignored(self, path: bytes, is_dir: bool) -> bool:
        decision = self._decide(path, is_dir)
        if decision is None and _may_be_copy(path):
            decision = self._decide_copy(path, is_dir)
        return decision is True

    def _decide(self, path: bytes, is_dir: bool) -> bool | None:
        decision = None
        if is_dir or self._others_of_files:
            decision = self._others.decide(path, is_dir)
        return self._decide_secret(path, is_dir) if decision is None else decision

    def _decide_secret(self, path: bytes, is_dir: bool) -> bool | None:
        lowered = path.lower()
        return self._secrets.decide_below(lowered, lowered.rpartition(b"/")[2], is_dir)

    def _decide_copy(self, path: bytes, is_dir: bool) -> bool | None:
        """As for the first original that anything is said of. That a tool can fill a folder again
        is not said of what somebody has copied."""
        for original in _originals(path):
            decision = self._decide(original, is_dir)
            if is_dir and decision:
                decision = self._decide_secret(original, is_dir)
            if decision is not None:
                return decision
        return None


def _may_be_copy(path: bytes) -> bool:
    """Quickly, as it is asked of every file that is new."""
    if path[-4:-2] in _SWAPPED:
        return True
    return path[-1:] in _LAST_BYTES and path[-_LONGEST_ENDING:].lower().endswith(_ENDINGS)


def _originals(path: bytes) -> Iterator[bytes]:
    """What a path may be a copy of, by its name, or a copy of a copy of."""
    folder, slash, name = path.rpartition(b"/")
    names = [name]
    for _ in range(_MOST_TIMES):
        names = list(dict.fromkeys(found for each in names for found in _copied(each)))
        yield from (folder + slash + each for each in names)


def _copied(name: bytes) -> Iterator[bytes]:
    if found := _OF_VIM.fullmatch(name):
        yield found[2]
        yield found[1]
    if found := _AUTOSAVED.fullmatch(name) or _BACKUP.fullmatch(name):
        yield found[1]
