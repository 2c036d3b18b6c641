# SPDX-License-Identifier: MIT
"""How much space the checkpoints of a repository take, for those who cannot wait for it.

In a small repository it is measured at once. In a large one that takes a second or two, and what
is told is what `list --size` or `gc` found last, with the moment when they did; it is as good as
new while no checkpoint, commit or pack came or went. Without such a record nothing is told. The
record is a private file, and can be deleted.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from ckpt import hashing, jsontext, private
from ckpt.engine.space import Space, TooMuch, measure
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.store.repository import Repository

_QUICK_READS = 2_000
_QUICK_INDEX = 1 << 18  # bytes: some 2,500 files


@value_class
class Held:
    """Bytes that checkpoints hold, and that only dropped ones do; `at` is None if as of now."""

    total: int
    trash: int
    at: float | None = None


def held(repo: Repository) -> Held | None:
    """What is known, or can be found out without much ado."""
    refs = _fingerprint(repo)
    known = _read(repo)
    if known is not None and known[0] == refs:
        return Held(known[1].total, known[1].trash)
    if _size(repo.index_path) <= _QUICK_INDEX:
        with suppress(TooMuch):
            found = measure(repo, _QUICK_READS)
            return Held(found.total, found.trash)
    return None if known is None else known[1]


def measured(repo: Repository) -> Space:
    """Measure it all, and write down what was found."""
    refs, at = _fingerprint(repo), time.time()
    found = measure(repo)
    record = {"refs": refs, "total": found.total, "trash": found.trash, "at": at}
    with suppress(OSError):  # a repository that is not ours to write to
        private.replace(_path(repo), jsontext.dump(record))
    return found


def _read(repo: Repository) -> tuple[str, Held] | None:
    try:
        record = jsontext.load(private.read(_path(repo)))
        found = Held(int(record["total"]), int(record["trash"]), float(record["at"]))
        return str(record["refs"]), found
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


def _path(repo: Repository) -> str:
    return os.path.join(repo.common_dir, "ckpt", "space")


def _fingerprint(repo: Repository) -> str:
    """Of what our refs and HEAD hold, and of the packs: most of what changes what is held."""
    refs = {**repo.refs.checkpoints(), **repo.refs.trash()}
    lines = [f"{name} {refs[name].decode()}\n" for name in sorted(refs)]
    lines += [f"{repo.refs.head().commit!r} {_packs_changed(repo)}"]
    return hashing.new("sha256", "".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _packs_changed(repo: Repository) -> int:
    try:
        return os.stat(os.path.join(repo.objects.path, "pack")).st_mtime_ns
    except OSError:
        return 0


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
