# SPDX-License-Identifier: MIT
"""Edits that pre-commit took off the disk, if it never put them back.

While its hooks run, unstaged edits are in a patch in its own folder, and if it is killed they
stay there. Patches of all repositories lie together and are never deleted. One is of this
repository if that has every content that it was made from, and lost if one that it makes is
neither in the repository nor in its file.
"""

from __future__ import annotations

import os
import stat

from ckpt.engine import overlay
from ckpt.engine.overlay import Edited
from ckpt.git import patch
from ckpt.git.patch import LARGEST, BadPatch
from ckpt.paths import to_str
from ckpt.patterns import lazy_pattern
from ckpt.store.history import seconds
from ckpt.store.index import Index, IndexEntry
from ckpt.store.objects import ObjectID
from ckpt.store.repository import Repository
from ckpt.store.trees import REGULAR
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

_PATCH = lazy_pattern(r"patch([0-9]{1,12})-[1-9][0-9]{0,9}")
_MOST_PATCHES = 200  # the newest, of all repositories


@value_class
class LostPatch:
    """A patch with lost edits in it; `paths` are the files that it changes."""

    name: str
    time: int
    paths: tuple[str, ...]


def lost_patches(repo: Repository, folders: Iterable[str]) -> dict[str, LostPatch]:
    """Those of this repository, by where they are."""
    found: dict[str, LostPatch] = {}
    for time, path in sorted(_files(folders), reverse=True)[:_MOST_PATCHES]:
        edits = edits_in(repo, path)
        if edits is not None and any(_is_lost(repo, *edit) for edit in edits.items()):
            found[path] = LostPatch(os.path.basename(path), time, tuple(map(to_str, edits)))
    return found


def _files(folders: Iterable[str]) -> Iterator[tuple[int, str]]:
    for folder in folders:
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            match = _PATCH.fullmatch(name)
            if match is not None:
                yield seconds(match[1]), os.path.join(folder, name)


def edits_in(repo: Repository, path: str) -> dict[bytes, Edited | None] | None:
    """What a patch makes of files of this repository; None if it is not of it."""
    try:
        patches = patch.parse(_read(path))
        entries = [
            IndexEntry.of(patch.old_path, _base(repo, patch.old_id), patch.old_mode or REGULAR)
            for patch in patches
            if patch.old_path is not None
        ]
        if not entries:  # it could be anybody's
            return None
        index = Index(2, entries, {}, repo.object_format.oid_length)
        return overlay.edits(repo, patches, index)
    except (BadPatch, OSError):
        return None


def _base(repo: Repository, shortened: bytes) -> ObjectID:
    if len(shortened) == repo.object_format.hex_length and repo.objects.has(ObjectID(shortened)):
        return ObjectID(shortened)
    found = repo.objects.beginning_with(shortened) if len(shortened) >= 4 else set()
    if len(found) != 1:
        raise BadPatch("it was made for another repository")
    return found.pop()


def _read(path: str) -> bytes:
    with _opened(path) as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid():
            raise BadPatch("it is no file of ours")
        if status.st_size > LARGEST:
            raise BadPatch("it is too large")
        return file.read(LARGEST)


def _opened(path: str | bytes) -> BinaryIO:
    """A file that is one: a pipe would have us wait for whoever writes into it."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return open(fd, "rb")
    os.close(fd)
    raise BadPatch("it is no file")


def _is_lost(repo: Repository, path: bytes, edited: Edited | None) -> bool:
    """Whether a content is neither in the repository nor on the disk."""
    if edited is None or repo.objects.has(repo.objects.hash(b"blob", edited.content)):
        return False
    try:
        with _opened(os.path.join(os.fsencode(repo.worktree), path)) as file:
            return file.read(len(edited.content) + 1) != edited.content
    except (BadPatch, OSError):
        return True
