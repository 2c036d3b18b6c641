# SPDX-License-Identifier: MIT
"""Patches as `git diff --binary` writes them: read, and applied to the letter.

Takes what git itself has written a moment ago. So there is no fuzz and no searching: a hunk
fits at its line or the patch is refused, as is whatever git would not write. Which content
a patch is for, and whether the right one came out, tell the ids that it names; to compare
them is up to the caller. Nothing takes more memory than patch and contents do together.

Left out: files and trees, conversions, and the combined diffs of merges.
"""

from __future__ import annotations

from ckpt.engine.binary_patch import BadPatch, BinaryHunk
from ckpt.patterns import lazy_pattern
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_MODES = {b"100644": 0o100644, b"100755": 0o100755, b"120000": 0o120000, b"160000": 0o160000}
_IDS = lazy_pattern(rb"([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: ([0-7]{6}))?")
_RANGES = lazy_pattern(rb"@@ -(\d{1,10})(?:,(\d{1,10}))? \+\d{1,10}(?:,(\d{1,10}))? @@")
_QUOTED = lazy_pattern(rb'"((?:[^"\\\n]|\\(?:[abfnrtv"\\]|[0-3][0-7]{2}))*)"')
_ESCAPE = lazy_pattern(rb"\\([0-7]{3}|.)")
_ESCAPED = dict(zip(b"abfnrtv", (b"%c" % code for code in b"\a\b\f\n\r\t\v"), strict=True))
_START = b"diff --git "
_NO_NEWLINE = b"\\ "


@value_class
class Hunk:
    """From this line on, counted from 0, stands `before`, and is to stand `after`."""

    line: int
    lines: int
    before: bytes
    after: bytes


@value_class
class FilePatch:
    """What becomes of one file. A path is None where there is no file, a mode where nothing is
    said about it; ids may be abbreviated, and empty if the content stays. A file that gets
    another path goes from its old one, unless it `is_copy`."""

    old_path: bytes | None
    new_path: bytes | None
    old_mode: int | None = None
    new_mode: int | None = None
    old_id: bytes = b""
    new_id: bytes = b""
    hunks: tuple[Hunk, ...] = ()
    binary: BinaryHunk | None = None
    is_copy: bool = False

    def apply(self, content: bytes) -> bytes:
        """What the file holds afterwards; BadPatch if it was made for another content."""
        if self.binary is not None:
            return self.binary.apply(content)
        return _replaced(self.hunks, content)


def parse(data: bytes) -> list[FilePatch]:
    """The files of a patch, in its order; BadPatch if git has not written it so."""
    lines = _Lines(data)
    patches = []
    while not lines.are_over:
        patches.append(_FileReader(lines).read())
    return patches


class _Lines:
    """The lines of a patch, one after the other, without their ends."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def are_over(self) -> bool:
        return self._at >= len(self._data)

    def starts_with(self, *starts: bytes) -> bool:
        """Whether the next line begins so."""
        return self._data.startswith(starts, self._at)

    def take(self) -> bytes:
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise BadPatch("it is cut off")
        line = self._data[self._at : end]
        self._at = end + 1
        return line

    def until_blank(self) -> bytes:
        """Everything up to the next empty line, which is taken too."""
        end = self._data.find(b"\n\n", self._at)
        if end < 0:
            raise BadPatch("it is cut off")
        block = self._data[self._at : end + 1]
        self._at = end + 2
        return block


class _FileReader:
    def __init__(self, lines: _Lines) -> None:
        self._lines = lines
        self._paths: dict[bytes, bytes] = {}
        self._modes: dict[bytes, int] = {}
        self._ids = (b"", b"")
        self._is_copy = False

    def read(self) -> FilePatch:
        line = self._lines.take()
        if not line.startswith(_START):
            raise BadPatch("it has lines that belong to no file")
        names = line[len(_START) :]
        while not self._lines.are_over and self._take_header():
            pass
        old_path, new_path = self._named(names)
        old_mode, new_mode = (self._modes.get(side) for side in (b"old", b"new"))
        return FilePatch(
            None if b"created" in self._modes else old_path,
            None if b"deleted" in self._modes else new_path,
            self._modes.get(b"deleted", old_mode),
            self._modes.get(b"created", new_mode),
            *self._ids,
            is_copy=self._is_copy,
            **self._contents(),
        )

    def _take_header(self) -> bool:
        """Take one of the lines between the names and the contents, if it is one."""
        for start, side in _HEADERS.items():
            if not self._lines.starts_with(start):
                continue
            rest = self._lines.take()[len(start) :]
            if side in (b"from", b"to"):
                self._paths[side] = _checked(_unquoted(rest))
                self._is_copy = start.startswith(b"copy")
            elif side == b"ids":
                self._take_ids(rest)
            elif side:
                self._modes[side] = _mode(rest)
            return True
        return False

    def _take_ids(self, rest: bytes) -> None:
        found = _IDS.fullmatch(rest)
        if found is None:
            raise BadPatch("it does not say which content is meant")
        self._ids = found[1], found[2]
        if found[3]:
            self._modes[b"old"] = self._modes[b"new"] = _mode(found[3])

    def _named(self, names: bytes) -> tuple[bytes, bytes]:
        if self._paths:
            if self._paths.keys() != {b"from", b"to"}:
                raise BadPatch("it names only one side of a renamed file")
            return self._paths[b"from"], self._paths[b"to"]
        path = _checked(_only_name(names))
        return path, path

    def _contents(self) -> dict[str, Any]:
        lines = self._lines
        if lines.are_over or lines.starts_with(_START):
            return {}
        if not all(self._ids):
            raise BadPatch("it does not say which content is meant")
        if lines.starts_with(b"GIT binary patch\n"):
            lines.take()
            binary = BinaryHunk.parse(lines.take(), lines.until_blank())
            if lines.starts_with(b"literal ", b"delta "):  # the way back, which nobody asked for
                lines.until_blank()
            return {"binary": binary}
        if not lines.take().startswith(b"--- ") or not lines.take().startswith(b"+++ "):
            raise BadPatch("it has lines that belong to no content")
        hunks = []
        while lines.starts_with(b"@@ "):
            hunks.append(_hunk(lines))
        return {"hunks": tuple(hunks)}


# What may stand between the names and the contents, and what it is about.
_HEADERS = {
    b"old mode ": b"old",
    b"new mode ": b"new",
    b"deleted file mode ": b"deleted",
    b"new file mode ": b"created",
    b"rename from ": b"from",
    b"rename to ": b"to",
    b"copy from ": b"from",
    b"copy to ": b"to",
    b"index ": b"ids",
    b"similarity index ": b"",
    b"dissimilarity index ": b"",
}


def _mode(text: bytes) -> int:
    if text not in _MODES:
        raise BadPatch("it has a mode that git does not know")
    return _MODES[text]


def _only_name(names: bytes) -> bytes:
    """The path that both `a/path` and `b/path` name; it may hold blanks, unless it is quoted."""
    if names.startswith(b'"'):
        first = _QUOTED.match(names)
        second = first and _QUOTED.fullmatch(names, first.end() + 1)
        old, new = (_unescaped(part[1]) if part else b"" for part in (first, second))
    else:
        old, new = names[: len(names) // 2], names[len(names) // 2 + 1 :]
    if not old.startswith(b"a/") or not new.startswith(b"b/") or old[2:] != new[2:]:
        raise BadPatch("it names two files where there is one")
    return old[2:]


def _unquoted(name: bytes) -> bytes:
    found = _QUOTED.fullmatch(name)
    return name if found is None else _unescaped(found[1])


def _unescaped(text: bytes) -> bytes:
    def meaning(code: bytes) -> bytes:
        return bytes((int(code, 8),)) if len(code) == 3 else _ESCAPED.get(code[0], code)

    return _ESCAPE.sub(lambda found: meaning(found[1]), text)


def _checked(path: bytes) -> bytes:
    parts = path.split(b"/")
    if b"\0" in path or any(
        part in (b"", b".", b"..") or part.lower() == b".git" for part in parts
    ):
        raise BadPatch("it names a path that no worktree has")
    return path


def _hunk(lines: _Lines) -> Hunk:
    found = _RANGES.match(lines.take())
    if found is None:
        raise BadPatch("it has a hunk without line numbers")
    start, old, new = (1 if number is None else int(number) for number in found.groups())
    before: list[bytes] = []
    after: list[bytes] = []
    while len(before) < old or len(after) < new:
        line = lines.take() or b" "  # diff.suppressBlankEmpty
        sides = _SIDES.get(line[:1])
        if sides is None:
            raise BadPatch("it has a hunk with fewer lines than it says")
        text = line[1:] if lines.starts_with(_NO_NEWLINE) else line[1:] + b"\n"
        if lines.starts_with(_NO_NEWLINE):
            lines.take()
        for side in sides:
            (before if side == "before" else after).append(text)
    if len(before) != old or len(after) != new:
        raise BadPatch("it has a hunk with more lines than it says")
    return Hunk(start - 1 if old else start, old, b"".join(before), b"".join(after))


_SIDES = {b" ": ("before", "after"), b"-": ("before",), b"+": ("after",)}


def _replaced(hunks: Iterable[Hunk], content: bytes) -> bytes:
    pieces = []
    at = line = 0
    for hunk in hunks:
        start = _forward(content, at, hunk.line - line)
        if not content.startswith(hunk.before, start):
            raise BadPatch("it was made for another content")
        pieces += [content[at:start], hunk.after]
        at, line = start + len(hunk.before), hunk.line + hunk.lines
        if hunk.before and not hunk.before.endswith(b"\n") and at < len(content):
            raise BadPatch("it was made for another content")
    return b"".join([*pieces, content[at:]])


def _forward(content: bytes, at: int, lines: int) -> int:
    """Where it is, so many lines further on."""
    if lines < 0:
        raise BadPatch("it has hunks that overlap")
    for _ in range(lines):
        at = content.find(b"\n", at) + 1
        if not at:
            raise BadPatch("it was made for another content")
    return at
