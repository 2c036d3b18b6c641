# SPDX-License-Identifier: MIT
"""Read patches as `git diff --binary` writes them, and apply them exactly.

There is no fuzz: a hunk fits at its line or the patch is refused, as is whatever git would not
write. dulwich's parser takes such patches too, so it is not used; its deltas are. Left out:
comparing the ids that a patch names, and combined diffs.
"""

from __future__ import annotations

import re
import zlib
from base64 import b85decode
from typing import NamedTuple

LARGEST = 1 << 28  # bytes of a file or patch; a few bytes of either can stand for any number

_MODES = {b"100644": 0o100644, b"100755": 0o100755, b"120000": 0o120000, b"160000": 0o160000}
_IDS = re.compile(rb"([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: ([0-7]{6}))?")
_RANGES = re.compile(rb"@@ -(\d{1,10})(?:,(\d{1,10}))? \+\d{1,10}(?:,(\d{1,10}))? @@")
_BINARY = re.compile(rb"(literal|delta) (\d{1,10})")
_QUOTED = re.compile(rb'"((?:[^"\\\n]|\\(?:[abfnrtv"\\]|[0-3][0-7]{2}))*)"')
_ESCAPES = dict(zip(b'\a\b\t\n\v\f\r"\\', b'abtnvfr"\\', strict=True))
_MEANINGS = {b"%c" % letter: b"%c" % byte for byte, letter in _ESCAPES.items()}
_LENGTHS = {code: n for n, code in enumerate(range(ord("A"), ord("Z") + 1), start=1)}
_LENGTHS |= {code: n for n, code in enumerate(range(ord("a"), ord("z") + 1), start=27)}
_START = b"diff --git "
_OTHER_CONTENT = "it was made for another content"
# The lines between the names and the contents, and what each is about.
_HEADERS = {
    b"old mode ": "old",
    b"new mode ": "new",
    b"deleted file mode ": "deleted",
    b"new file mode ": "created",
    b"rename from ": "from",
    b"rename to ": "to",
    b"copy from ": "from",
    b"copy to ": "to",
    b"index ": "ids",
    b"similarity index ": "",
    b"dissimilarity index ": "",
}


class BadPatch(Exception):
    """A patch that git has not written, or not for this content; the message says why, of `it`."""


class Hunk(NamedTuple):
    """From this line on, counted from 0, `before` is replaced by `after`."""

    line: int
    lines: int
    before: bytes
    after: bytes


class Binary(NamedTuple):
    """The new content, or a delta to it: of `size` bytes, deflated, in lines of base 85."""

    is_delta: bool
    size: int
    text: bytes


class FilePatch(NamedTuple):
    """What becomes of one file.

    A path is None where there is no file, a mode where nothing is said about it. Ids may be
    abbreviated, and are empty if the content stays. A file that gets another path goes from its
    old one, unless it `is_copy`.
    """

    old_path: bytes | None
    new_path: bytes | None
    old_mode: int | None
    new_mode: int | None
    old_id: bytes
    new_id: bytes
    is_copy: bool
    content: Binary | tuple[Hunk, ...]

    def apply(self, content: bytes) -> bytes:
        """Return what the file holds afterwards; BadPatch if it was made for another content."""
        if isinstance(self.content, Binary):
            data = _inflated(_decoded(self.content.text), self.content.size)
            return _by_delta(data, content) if self.content.is_delta else data
        return _replaced(self.content, content)


def parse(data: bytes) -> list[FilePatch]:
    """Return the files of a patch, in its order."""
    lines = _Lines(data)
    patches = []
    while not lines.at_end:
        patches.append(_file(lines))
    return patches


class _Lines:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._data)

    def starts_with(self, *starts: bytes) -> bool:
        return self._data.startswith(starts, self._at)

    def take(self, end: bytes = b"\n") -> bytes:
        """Take all up to `end`, and `end` itself."""
        start, found = self._at, self._data.find(end, self._at)
        if found < 0:
            raise BadPatch("it is cut off")
        self._at = found + len(end)
        return self._data[start:found]


def _file(lines: _Lines) -> FilePatch:
    line = lines.take()
    if not line.startswith(_START):
        raise BadPatch("it has lines that belong to no file")
    told: dict[str, bytes] = {}
    is_copy = False
    while start := next(filter(lines.starts_with, _HEADERS), None):
        told[_HEADERS[start]] = lines.take()[len(start) :]
        is_copy = is_copy or start.startswith(b"copy")
    ids = _IDS.fullmatch(told.get("ids", b"0000..0000"))
    if ids is None:
        raise BadPatch("it does not say which content is meant")
    if ids[3]:
        told["old"] = told["new"] = ids[3]
    old_path, new_path = _paths(line[len(_START) :], told.get("from"), told.get("to"))
    return FilePatch(
        None if "created" in told else old_path,
        None if "deleted" in told else new_path,
        _mode(told.get("deleted", told.get("old"))),
        _mode(told.get("created", told.get("new"))),
        *((ids[1], ids[2]) if "ids" in told else (b"", b"")),
        is_copy=is_copy,
        content=_content(lines, "ids" in told),
    )


def _mode(text: bytes | None) -> int | None:
    if text is not None and text not in _MODES:
        raise BadPatch("it has a mode that git does not know")
    return None if text is None else _MODES[text]


def _paths(names: bytes, source: bytes | None, target: bytes | None) -> tuple[bytes, bytes]:
    if source is None and target is None:
        path = _checked(_only_name(names))
        return path, path
    if source is None or target is None:
        raise BadPatch("it names only one side of a renamed file")
    return _checked(_unquoted(source)), _checked(_unquoted(target))


def _only_name(names: bytes) -> bytes:
    """The path in `a/path b/path`; it may hold blanks, unless it is quoted."""
    if names.startswith(b'"'):
        first = _QUOTED.match(names)
        middle = first.end() if first else 0
    else:
        middle = len(names) // 2
    old, new = _unquoted(names[:middle]), _unquoted(names[middle + 1 :])
    if not old.startswith(b"a/") or not new.startswith(b"b/") or old[2:] != new[2:]:
        raise BadPatch("it names two files where there is one")
    return old[2:]


def _checked(path: bytes) -> bytes:
    if b"\0" in path or any(
        part in (b"", b".", b"..") or part.lower() == b".git" for part in path.split(b"/")
    ):
        raise BadPatch("it names a path that no worktree has")
    return path


def quote_path(path: bytes) -> bytes:
    """Return the path as git prints it: in quotes, with C's escapes, if it has unusual bytes."""

    def escape(found: re.Match[bytes]) -> bytes:
        byte = found[0][0]
        return b"\\%c" % _ESCAPES[byte] if byte in _ESCAPES else b"\\%03o" % byte

    escaped = re.sub(rb'[\x00-\x1f"\\\x7f-\xff]', escape, path)
    return path if escaped == path else b'"' + escaped + b'"'


def _unquoted(name: bytes) -> bytes:
    def meaning(found: re.Match[bytes]) -> bytes:
        return _MEANINGS.get(found[1]) or bytes((int(found[1], 8),))

    quoted = _QUOTED.fullmatch(name)
    return name if quoted is None else re.sub(rb"\\([0-7]{3}|.)", meaning, quoted[1])


# Text


def _content(lines: _Lines, has_ids: bool) -> Binary | tuple[Hunk, ...]:
    if lines.at_end or lines.starts_with(_START):
        return ()
    if not has_ids:
        raise BadPatch("it does not say which content is meant")
    if lines.starts_with(b"GIT binary patch\n"):
        lines.take()
        found = _BINARY.fullmatch(lines.take())
        if found is None:
            raise BadPatch("it has a binary file of a kind that git does not know")
        text = lines.take(b"\n\n")
        if lines.starts_with(b"literal ", b"delta "):  # the way back
            lines.take(b"\n\n")
        return Binary(found[1] == b"delta", _limited(int(found[2])), text)
    if not lines.take().startswith(b"--- ") or not lines.take().startswith(b"+++ "):
        raise BadPatch("it has lines that belong to no content")
    hunks = []
    while lines.starts_with(b"@@ "):
        hunks.append(_hunk(lines))
    return tuple(hunks)


def _hunk(lines: _Lines) -> Hunk:
    found = _RANGES.match(lines.take())
    if found is None:
        raise BadPatch("it has a hunk without line numbers")
    start, old, new = (1 if number is None else int(number) for number in found.groups())
    before: list[bytes] = []
    after: list[bytes] = []
    while len(before) < old or len(after) < new:
        line = lines.take() or b" "  # diff.suppressBlankEmpty
        if line[:1] not in b" -+":
            raise BadPatch("it has a hunk with fewer lines than it says")
        if lines.starts_with(b"\\ "):  # No newline at end of file
            lines.take()
            text = line[1:]
        else:
            text = line[1:] + b"\n"
        if line[:1] in b" -":
            before.append(text)
        if line[:1] in b" +":
            after.append(text)
    if len(before) != old or len(after) != new:
        raise BadPatch("it has a hunk with more lines than it says")
    return Hunk(start - 1 if old else start, old, b"".join(before), b"".join(after))


def _replaced(hunks: tuple[Hunk, ...], content: bytes) -> bytes:
    pieces = []
    at = line = 0
    for hunk in hunks:
        start = at
        if hunk.line < line:
            raise BadPatch("it has hunks that overlap")
        for _ in range(hunk.line - line):
            start = content.find(b"\n", start) + 1
            if not start:
                raise BadPatch(_OTHER_CONTENT)
        if not content.startswith(hunk.before, start):
            raise BadPatch(_OTHER_CONTENT)
        pieces += [content[at:start], hunk.after]
        at, line = start + len(hunk.before), hunk.line + hunk.lines
        if hunk.before and not hunk.before.endswith(b"\n") and at < len(content):
            raise BadPatch(_OTHER_CONTENT)
    return b"".join([*pieces, content[at:]])


# Binary files


def _limited(size: int) -> int:
    if size > LARGEST:
        raise BadPatch(f"it has a file of over {LARGEST >> 20} MiB")
    return size


def _decoded(text: bytes) -> bytes:
    """Decode lines of base 85, each after the number of its bytes."""
    pieces = []
    for line in text.splitlines():
        length = _LENGTHS.get(line[0], 0) if line else 0
        if not length or len(line) - 1 != -(-length // 4) * 5:
            raise BadPatch("it has a line of binary data that is damaged")
        try:
            pieces.append(b85decode(line[1:])[:length])
        except ValueError:
            raise BadPatch("it has a line of binary data that is damaged") from None
    return b"".join(pieces)


def _inflated(data: bytes, size: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(data, size + 1)
    except zlib.error:
        raise BadPatch("it has binary data that cannot be inflated") from None
    if len(found) != size or not inflater.eof or inflater.unused_data:
        raise BadPatch("it has binary data of another size than it says")
    return found


def _by_delta(delta: bytes, content: bytes) -> bytes:
    from dulwich.errors import ApplyDeltaError
    from dulwich.pack import apply_delta

    sizes = re.match(rb"[\x80-\xff]{0,8}[\0-\x7f]([\x80-\xff]{0,8}[\0-\x7f])", delta)
    if sizes is None:
        raise BadPatch("it has a delta that is damaged")
    _limited(sum((byte & 0x7F) << 7 * n for n, byte in enumerate(sizes[1])))
    try:
        return b"".join(apply_delta(content, delta))
    except (ApplyDeltaError, ValueError) as error:
        raise BadPatch(f"it has a delta that does not fit ({error})") from None
