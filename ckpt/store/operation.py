# SPDX-License-Identifier: MIT
"""Is an operation in progress: a merge, rebase, cherry-pick, revert, am or bisect?

A rollback needs to know whether the operation now is the one at the checkpoint, since
files of one state and a MERGE_HEAD of another make a commit that drops a side. An
operation is known by its name and by a digest of the files that say what it is about.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

# In git's own order of telling them apart: name, the file that shows it, what identifies it.
_OPERATIONS = (
    (
        "rebase",
        "rebase-merge",
        ("rebase-merge/onto", "rebase-merge/orig-head", "rebase-merge/done"),
    ),
    ("am", "rebase-apply/applying", ("rebase-apply/abort-safety", "rebase-apply/next")),
    (
        "rebase",
        "rebase-apply",
        ("rebase-apply/onto", "rebase-apply/orig-head", "rebase-apply/next"),
    ),
    ("merge", "MERGE_HEAD", ("MERGE_HEAD",)),
    ("cherry-pick", "CHERRY_PICK_HEAD", ("CHERRY_PICK_HEAD",)),
    ("revert", "REVERT_HEAD", ("REVERT_HEAD",)),
    ("sequencer", "sequencer", ("sequencer/head", "sequencer/todo")),
    ("bisect", "BISECT_LOG", ("BISECT_START", "BISECT_LOG")),
)


@dataclass(frozen=True, slots=True)
class Operation:
    """`name` joins several with a plus: a merge may stop inside a bisect."""

    name: str
    fingerprint: str


def in_progress(git_dir: str) -> Operation | None:
    """The operation under way in a worktree, by its git dir."""
    names: list[str] = []
    signs: set[str] = set()
    digest = hashlib.sha256()
    for name, sign, identity in _OPERATIONS:
        top = sign.partition("/")[0]  # of an am and of a rebase, `rebase-apply` shows one
        if name in names or top in signs:
            continue
        if os.path.lexists(os.path.join(git_dir, sign)):
            names.append(name)
            signs.add(top)
            for part in identity:
                digest.update(name.encode() + b"\0" + _read(os.path.join(git_dir, part)) + b"\0")
    return Operation("+".join(names), digest.hexdigest()) if names else None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
