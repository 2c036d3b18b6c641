# SPDX-License-Identifier: MIT
"""Names that some file system takes for one of git's own, as git itself sees it."""

from __future__ import annotations

from ckpt.patterns import lazy_pattern

_IGNORED_BY_HFS = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)
# The short names that NTFS gives are of eight letters; from the fifth on of a kind, hashed ones.
_HASHED = "|".join(rf"{'gi7eba'[:n]}~[1-9][0-9]{{{6 - n}}}" for n in range(7))
_MODULES_OF_NTFS = lazy_pattern(rf"(?s)(?:\.gitmodules|gitmod~[1-4]|{_HASHED})[. ]*(?::.*)?")


def is_gitmodules(name: bytes) -> bool:
    """Whether some file system would take the name for `.gitmodules`, where git accepts no link:
    it would read about submodules what is none of the project's."""
    text = folded(name)
    return text == ".gitmodules" or any(map(_MODULES_OF_NTFS.fullmatch, text.split("\\")))


def folded(name: bytes) -> str:
    """A name without what HFS+ does not tell apart."""
    return name.decode("utf-8", "replace").translate(_IGNORED_BY_HFS).lower()


def is_like_dot_git(name: bytes) -> bool:
    """A name that git keeps out of every tree, since some file system takes it for `.git`."""
    plain = name.lower().split(b":")[0].rstrip(b". ")
    return plain in (b".git", b"git~1")
