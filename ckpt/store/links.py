# SPDX-License-Identifier: MIT
"""Links in a git dir by which what is written into it would end up elsewhere.

Git follows them, and some tools put them there: several worktrees then share one store. But a git
dir may have come with an archive, and whoever made that chose where they lead. Looked at is where
ckpt writes: the files at its top, objects, refs and reflogs.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


# At the top of a git dir, and never written to here.
_READ = {"annex", "branches", "config", "config.worktree", "description", "hooks", "info", "lfs"}


def link_out(git_dir: str, around: str) -> str | None:
    """The first link in a git dir that leads out of it and of the one around it, if any does."""
    inside = os.path.join(os.path.realpath(around), "")
    for link in _links(git_dir):
        if not os.path.join(os.path.realpath(link), "").startswith(inside):
            return link
    return None


def _links(git_dir: str) -> Iterator[str]:
    for entry in (*_entries(git_dir), *_entries(os.path.join(git_dir, "objects"))):
        if entry.is_symlink() and entry.name not in _READ:
            yield entry.path
    folders = [os.path.join(git_dir, name) for name in ("refs", "logs")]
    for folder in folders:  # which grow meanwhile
        entries = _entries(folder)
        yield from (entry.path for entry in entries if entry.is_symlink())
        folders += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # there is none, or a file, or a link that has been told of
        return []
