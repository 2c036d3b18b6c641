# SPDX-License-Identifier: MIT
"""Does git convert file contents in this worktree?

Line endings, encodings, `ident` and filter drivers make the bytes of a file differ
from the bytes of its blob. Where any of them may be at work, git's index says nothing
about the bytes on disk, and each file must be read: what a checkpoint keeps is what
the user had. This module only answers yes or no; it converts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

_CONVERTING = (b"text", b"eol", b"crlf", b"filter", b"ident", b"working-tree-encoding")


def converts(autocrlf: str | None, attribute_files: Iterable[bytes]) -> bool:
    """True if configuration or an attributes file asks for a conversion."""
    if autocrlf is not None and autocrlf.lower() not in ("false", "no", "off", "0"):
        return True
    return any(map(_asks_for_conversion, attribute_files))


def _asks_for_conversion(text: bytes) -> bool:
    for line in text.splitlines():
        words = [] if line.lstrip().startswith(b"#") else line.split()[1:]
        if any(word.split(b"=")[0] in _CONVERTING for word in words):
            return True
    return False
