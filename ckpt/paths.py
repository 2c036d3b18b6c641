# SPDX-License-Identifier: MIT
"""Repository paths, file system paths and JSON, converted in one place.

Inside the repository a path is `bytes` with slashes, relative to the top of the
worktree. Outside it is `str` as Python has it on this file system. In JSON it is text,
and where the bytes are not UTF-8 the exact ones stand beside it in base 64.
"""

from __future__ import annotations

import os
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Iterator

from ckpt.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FEW = 8
_last_limits: tuple[tuple[bytes, ...], frozenset[bytes]] = (), frozenset()


def to_str(path: bytes) -> str:
    return os.fsdecode(path)


def to_bytes(path: str) -> bytes:
    return os.fsencode(path)


def to_json(path: str | bytes) -> dict[str, str]:
    """`{"path": …}`, with `path_b64` when the name is not UTF-8."""
    raw = os.fsencode(path)
    try:
        return {"path": raw.decode("utf-8")}
    except UnicodeDecodeError:
        encoded = b2a_base64(raw, newline=False).decode("ascii")
        return {"path": raw.decode("utf-8", "replace"), "path_b64": encoded}


def from_json(document: dict[str, Any]) -> bytes:
    """The exact bytes that `to_json` was given."""
    try:
        if "path_b64" in document:
            return a2b_base64(document["path_b64"])
        return str(document["path"]).encode("utf-8", "surrogateescape")
    except (Base64Error, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a path: {document!r}") from error


def relative_to_top(path: str, worktree: str, start: str) -> bytes:
    """The repository path of what a user typed in folder `start`; `b""` is the top.

    Links in the folders above are resolved, as git does, but never the last part: a
    symbolic link names itself.
    """
    if not path:
        raise UsageError("empty string is not a valid path", hint="use . for the whole worktree")
    absolute = os.path.normpath(os.path.join(start, path))
    parent = os.path.realpath(os.path.dirname(absolute))
    resolved = os.path.normpath(os.path.join(parent, os.path.basename(absolute)))
    top = os.path.join(worktree, "")
    if not resolved.startswith(top):
        if os.path.realpath(resolved) == worktree:
            return b""
        raise UsageError(
            f"'{path}' is outside the worktree at '{worktree}'",
            hint="name a path inside it, relative to this folder",
        )
    if absolute.startswith(top) and absolute != resolved:
        raise UsageError(
            f"'{path}' is beyond a symbolic link", hint="name the path without the link"
        )
    relative = os.fsencode(resolved[len(top) :])
    if b".git" in (part.lower() for part in relative.split(b"/")):
        raise UsageError(f"'{path}' is inside a git dir", hint="name a path of the worktree")
    return relative


def folders_above(path: bytes) -> Iterator[bytes]:
    """The folders that a path lies in, the nearest first; the top is not named."""
    folder = path.rpartition(b"/")[0]
    while folder:
        yield folder
        folder = folder.rpartition(b"/")[0]


def folders_of(paths: Iterable[bytes]) -> set[bytes]:
    """Every folder that any of the paths lies in."""
    found: set[bytes] = set()
    for path in paths:
        for folder in folders_above(path):
            if folder in found:
                break
            found.add(folder)
    return found


def is_within(path: bytes, limits: tuple[bytes, ...]) -> bool:
    """True if a path is one of `limits` or below one; an empty limit holds everything."""
    if len(limits) > _FEW:
        return _is_within_many(path, limits)
    return any(not limit or path == limit or path.startswith(limit + b"/") for limit in limits)


def _is_within_many(path: bytes, limits: tuple[bytes, ...]) -> bool:
    """The same where each limit cannot be tried for each of many paths."""
    global _last_limits
    known, found = _last_limits
    if known is not limits:
        found = frozenset(limits)
        _last_limits = limits, found
    return b"" in found or path in found or any(folder in found for folder in folders_above(path))
