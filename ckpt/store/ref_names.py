# SPDX-License-Identifier: MIT
"""Names of refs: which git would have, and which belong to one worktree alone.

The rules are those of `git check-ref-format`. Names come from HEAD, from the files of an
operation in progress and from checkpoints that anybody may have written, so each is
judged before it becomes a path. Short names and their resolution are not known here.
"""

from __future__ import annotations

_FORBIDDEN = bytes(range(0x21)) + b"\x7f~^:?*[\\"
_OF_ONE_WORKTREE = (b"refs/bisect/", b"refs/worktree/", b"refs/rewritten/")


def is_ref_name(name: bytes) -> bool:
    """Whether git would have a ref of that full name."""
    if name.translate(None, _FORBIDDEN) != name or b".." in name or b"@{" in name:
        return False
    parts = name.split(b"/")
    return len(parts) > 1 and not name.endswith(b".") and all(map(_is_part, parts))


def _is_part(part: bytes) -> bool:
    return part != b"" and not part.startswith(b".") and not part.endswith(b".lock")


def is_branch(name: bytes) -> bool:
    """Whether `git branch` would make it: neither taken for HEAD nor for an option."""
    short = name.removeprefix(b"refs/heads/")
    if short == name or short == b"HEAD" or short.startswith(b"-"):
        return False
    return is_ref_name(name)


def is_safe(name: bytes) -> bool:
    """Whether a name may become a path: HEAD, or a ref below `refs/`."""
    return name == b"HEAD" or (name.startswith(b"refs/") and is_ref_name(name))


def is_shared(name: bytes) -> bool:
    """False for HEAD and the few refs that each worktree has for itself."""
    return name.startswith(b"refs/") and not name.startswith(_OF_ONE_WORKTREE)
