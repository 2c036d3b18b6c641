# SPDX-License-Identifier: MIT
"""What conversions gave, so that unchanged files are neither read nor filtered again.

Only files whose blob is the one in git's index are remembered: these are the many, and the
index keeps their blobs alive. What is remembered counts while the file's stat data, the rule
that applies to it and the index entry are still the same; and a file that was written only a
moment before it was read is not remembered at all, since its next change might not show.

The memory is a private file of the worktree. Damaged or not ours, it is thrown away.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress

from ckpt import private
from ckpt.hashing import sha256
from ckpt.store.objects import ObjectID
from ckpt.values import value_class
from ckpt.worktree.identity import identity

_NAME = "conversions"
_HEADER = b"ckpt conversions 2 "
_TICK = 100_000_000
_COARSE_TICK = 2_000_000_000
_SECOND = 1_000_000_000


@value_class
class Conversion:
    """From a file's stat data, by a rule, to its blob, the id of its bytes, and a recipe."""

    identity: tuple[int, ...]
    rule: str
    blob: ObjectID
    raw: ObjectID
    recipe: str


class Memory:
    """The conversions of one worktree: those read from its file, and those made since."""

    def __init__(self, private_dir: str, worktree: str) -> None:
        self._path = os.path.join(private_dir, _NAME)
        self._worktree = worktree
        self._before = dict(_load(self._path, worktree))
        self._now: dict[bytes, Conversion] = {}

    def find(
        self, path: bytes, status: os.stat_result, rule: str, staged: bytes | None
    ) -> Conversion | None:
        """What is known of a file that is still as it was."""
        known = self._before.get(path)
        if known is None or known.blob != staged or known.rule != rule:
            return None
        if known.identity != identity(status):
            return None
        self._now[path] = known
        return known

    def add(self, path: bytes, status: os.stat_result, conversion: Conversion) -> None:
        """Remember a file that has just been read."""
        if _is_settled(status, time.time_ns()):
            self._now[path] = conversion

    def save(self) -> None:
        """Nobody depends on this file: that it cannot be written is no error."""
        if self._now != self._before:
            with suppress(OSError):
                private.replace(self._path, _dump(self._now, self._worktree))
                self._before = dict(self._now)


def _is_settled(status: os.stat_result, now: int) -> bool:
    """True if a change made after this moment will show in the stat data."""
    latest = max(status.st_mtime_ns, status.st_ctime_ns)
    tick = _TICK if status.st_ctime_ns % _SECOND else _COARSE_TICK
    return latest + tick < now


def _dump(conversions: dict[bytes, Conversion], worktree: str) -> bytes:
    rules = list({found.rule: None for found in conversions.values()})
    numbers = {rule: number for number, rule in enumerate(rules)}
    files = [
        [
            path.decode("latin-1"),
            found.identity,
            numbers[found.rule],
            found.blob.decode(),
            found.raw.decode(),
            found.recipe,
        ]
        for path, found in conversions.items()
    ]
    document = {"worktree": worktree, "rules": rules, "files": files}
    data = json.dumps(document, separators=(",", ":")).encode("ascii")
    return _HEADER + _checksum(data) + b"\n" + data


def _load(path: str, worktree: str) -> Iterator[tuple[bytes, Conversion]]:
    try:
        data = private.read(path)
        header, _, body = data.partition(b"\n")
        if header != _HEADER + _checksum(body):
            return
        document = json.loads(body)
        if document["worktree"] != worktree:
            return
        rules = document["rules"]
        for name, identity, rule, blob, raw, recipe in document["files"]:
            yield (
                name.encode("latin-1"),
                Conversion(
                    tuple(identity),
                    rules[rule],
                    ObjectID(blob.encode()),
                    ObjectID(raw.encode()),
                    recipe,
                ),
            )
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return


def _checksum(data: bytes) -> bytes:
    return sha256(data).hexdigest().encode()
