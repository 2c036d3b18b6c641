# SPDX-License-Identifier: MIT
"""Ignore rules among the edits that are laid over the present.

The worktree was scanned by the rules on disk. Where edited ones hide more, the files that
they hide are none of the checkpoint's business, and may be large or secret: they are taken
out. Where they let more in, that has not been scanned, and is not found by looking at what
was: then the checkpoint lacks something, and its maker is told.
"""

from __future__ import annotations

from ckpt.engine.present import Present
from ckpt.engine.rules import Included, ignore_stack
from ckpt.paths import is_within, to_str
from ckpt.store.repository import Repository
from ckpt.store.trees import SYMLINK
from ckpt.worktree.ignore import IgnoreTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ckpt.engine.overlay import Edited

_NAME = b".gitignore"


def reconsider(
    repo: Repository, present: Present, changes: Mapping[bytes, Edited | None]
) -> list[bytes]:
    """Take out what edited rules hide; returns those that may let more in than the old ones."""
    edited = [path for path in changes if path.rpartition(b"/")[2] == _NAME]
    if not edited:
        return []
    ignore_case = repo.config.get_bool("core.ignorecase", False)

    def read(folder: bytes) -> bytes | None:
        path = folder + b"/" + _NAME if folder else _NAME
        entry = present.entries.get(path)
        if entry is None or entry.mode == SYMLINK:
            return present.excludes.get(to_str(path))
        return repo.objects.read(entry.id, b"blob")

    ignore = IgnoreTree(ignore_stack(present.excludes, ignore_case), read, ignore_case=ignore_case)
    included = Included(present.include, ignore_case)
    within = tuple(path.rpartition(b"/")[0] for path in edited)
    tracked = {*present.index.paths(), *present.index.gitlinks}
    for path in [path for path in present.entries if path not in tracked]:
        is_hidden = is_within(path, within) and ignore.ignored(path, False)
        if is_hidden and not included.takes(path, False, ignore):
            present.drop(path)
    return [path for path in edited if _lets_more_in(repo, changes[path])]


def _lets_more_in(repo: Repository, edited: Edited | None) -> bool:
    """Whether a rule is gone, or one has come that takes others back."""
    if edited is None:
        return True
    before = set() if edited.base is None else _rules(repo.objects.read(edited.base, b"blob"))
    now = _rules(edited.content)
    return bool(before - now) or any(rule.startswith(b"!") for rule in now - before)


def _rules(text: bytes) -> set[bytes]:
    return {line for line in text.split(b"\n") if line.strip() and not line.startswith(b"#")}
