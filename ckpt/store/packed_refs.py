# SPDX-License-Identifier: MIT
"""The file `packed-refs`, in which git keeps what is not a file of its own.

Kept as bytes, for most questions are about one name among thousands: a search
in them is quicker than any parsing. A name that is not found makes sure that the file
is whole, since a ref taken for absent may be made anew. Who may replace the file, and
under which lock, is the business of refs.py.
"""

from __future__ import annotations

from itertools import pairwise

from ckpt.errors import CkptError
from ckpt.store.objects import ObjectID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"
_HEX = b"0123456789abcdef"


class PackedRefs:
    def __init__(self, data: bytes, hex_length: int) -> None:
        self._data = data
        self._hex_length = hex_length

    def get(self, ref: bytes) -> ObjectID | None:
        """What a ref names; an error rather than None if the file is damaged."""
        end = self._data.find(b" " + ref + b"\n")
        start = end - self._hex_length
        if start >= 0 and (start == 0 or self._data[start - 1 : start] == b"\n"):
            value = object_id(self._data[start:end], self._hex_length)
            if value is not None:
                return value
        self._check()
        return None

    def below(self, prefix: str) -> dict[str, ObjectID]:
        """Name, without the prefix, to object; damaged lines are passed over."""
        marker = b" " + prefix.encode()
        first, last = self._data.find(marker), self._data.rfind(marker)
        if first < 0:
            return {}
        width, found = self._hex_length, {}
        block = self._data[max(0, first - width) : self._data.find(b"\n", last) + 1 or None]
        skipped = width + len(marker)
        for line in block.split(b"\n"):
            if line.startswith(marker, width):
                value = object_id(line[:width], width)
                if value is not None:
                    found[line[skipped:].decode("utf-8", "surrogateescape")] = value
        return found

    def obstacle_to(self, ref: bytes) -> bytes | None:
        """A ref whose name makes this one impossible: it would be a file and a folder."""
        at = self._data.find(b" " + ref + b"/")
        if at >= 0:
            return self._data[at + 1 : self._data.find(b"\n", at)]
        above = _above(ref)
        return next((name for name in above if b" " + name + b"\n" in self._data), None)

    def clash(self, refs: Iterable[bytes]) -> tuple[bytes, bytes] | None:
        """The first of many refs that is impossible here, and the one that makes it so."""
        names = {name for name, _ in self._records()[1]}
        folders = {folder: name for name in names for folder in _above(name)}
        for ref in refs:
            obstacle = next((name for name in _above(ref) if name in names), folders.get(ref))
            if obstacle is not None:
                return ref, obstacle
        return None

    def has_any(self, refs: Iterable[bytes]) -> bool:
        return any(b" " + ref + b"\n" in self._data for ref in refs)

    def without(self, ref: bytes) -> bytes:
        """The file but for one ref, and for the line that says what it peels to."""
        kept: list[bytes] = []
        dropping = False
        for line in self._data.splitlines(keepends=True):
            dropping = line.rstrip(b"\n").endswith(b" " + ref) or (dropping and line[:1] == b"^")
            if not dropping:
                kept.append(line)
        return b"".join(kept)

    def with_refs(
        self, refs: Mapping[bytes, ObjectID], without: Collection[bytes] = ()
    ) -> bytes | None:
        """The file with these refs besides, each to a commit, without some others, and every other
        line as it is; None if it is not sorted as it says."""
        self._check()
        header, records = self._records()
        gone = {*refs, *without}
        kept = [record for record in records if record[0] not in gone]
        added = [(ref, value + b" " + ref + b"\n") for ref, value in refs.items()]
        if header is None and not records:
            header = _HEADER
        if header is None or b" sorted " not in header:  # nobody relies on the order then
            merged = kept + sorted(added)
        elif any(left[0] >= right[0] for left, right in pairwise(records)):
            return None
        else:
            merged = sorted(kept + added)
        return (header or b"") + b"".join([lines for _, lines in merged])

    def _records(self) -> tuple[bytes | None, list[tuple[bytes, bytes]]]:
        """The header, if there is one, and each ref with its lines."""
        header: bytes | None = None
        records: list[tuple[bytes, bytes]] = []
        for line in self._lines():
            if line[:1] == b"#":
                header = (header or b"") + line
            elif line[:1] == b"^":
                if not records:
                    raise _damaged()
                records[-1] = (records[-1][0], records[-1][1] + line)
            else:
                records.append((line[self._hex_length + 1 :].rstrip(b"\n"), line))
        return header, records

    def _lines(self) -> list[bytes]:
        return [line + b"\n" for line in self._data.split(b"\n")[:-1]]

    def check(self) -> None:
        """An error if git could not read a line, which stops all of its commands."""
        self._check()
        for number, line in enumerate(self._data.split(b"\n")[:-1]):
            is_ref = line[self._hex_length : self._hex_length + 1] == b" "
            value = line[: self._hex_length] if is_ref else line.removeprefix(b"^")
            is_header = number == 0 and line[:1] == b"#"
            if not is_header and object_id(value, self._hex_length) is None:
                raise _damaged()

    def _check(self) -> None:
        """Every line is the header, a ref or what the ref before it peels to."""
        data = b"\n" + self._data
        lines = data.count(b"\n") - 1
        known = data.count(b"\n#") + data.count(b" refs/") + data.count(b"\n^")
        if lines != known or not data.endswith(b"\n") or b"\0" in data or data[1:2] == b"^":
            raise _damaged()


def _damaged() -> CkptError:
    return CkptError(
        "cannot read 'packed-refs': it is damaged",
        hint="'git for-each-ref' tells which line is wrong",
    )


def _above(ref: bytes) -> list[bytes]:
    """The names that would have to be a folder for this one."""
    parts = ref.split(b"/")
    return [b"/".join(parts[:number]) for number in range(2, len(parts))]


def object_id(value: bytes, hex_length: int) -> ObjectID | None:
    """The object that a ref's contents name, if they do: as in git, in capitals too."""
    value = value[: hex_length + 1].rstrip()
    if value.strip(_HEX):
        value = value.lower()
    if len(value) != hex_length or value.strip(_HEX):
        return None
    return ObjectID(value)
