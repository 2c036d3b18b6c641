# SPDX-License-Identifier: MIT
"""Git bundles: some refs, the commits that the reader must have, and a pack of the rest.

Versions 2 and 3 as git reads and writes them. Ours have no deltas; git's may, against objects
in the bundle or, in a thin one, in the repository. Every object that is read is named anew by
its content, so that a bundle can add objects but never pass one off as another. What they
say is for others to judge.
"""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from tempfile import TemporaryFile

from ckpt import disk
from ckpt.errors import Refused, UsageError
from ckpt.git.formats import SHA1, ObjectID
from ckpt.git.loose import LARGEST_WHOLE, DamagedObject
from ckpt.git.objects import MissingObject, ObjectStore
from ckpt.git.pack_writer import entry_header
from ckpt.git.packs import BOTH_SIZES, KINDS, announced, apply_delta, parse_entry
from ckpt.git.streams import LARGE, level_of, patched_pieces

_SIGNATURES = {b"# v2 git bundle": 2, b"# v3 git bundle": 3}
_LONGEST_HEADER = 1 << 24
_LARGEST_WITH_DELTA = 1 << 29  # git makes none for larger ones
_SOME = 1 << 24  # bytes that any delta may make, and otherwise so many times what it is made of
_MOST_GROWTH = 64
_ALWAYS_ENOUGH = 8 << 30  # bytes of all objects together, once they are inflated
_MOST_TIMES = 256  # the size of a bundle that has more
_CHUNK = 1 << 16
_NUMBERS = {kind: number for number, kind in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Header:
    """`refs` are commits by the name of their ref; `size` is where the pack begins."""

    needed: tuple[ObjectID, ...]
    refs: dict[bytes, ObjectID]
    size: int = 0


# -- writing -------------------------------------------------------------------


def write(objects: ObjectStore, fd: int, header: Header, contents: Collection[ObjectID]) -> None:
    """Write a bundle of these objects to an open file."""
    lines = [b"# v2 git bundle"]
    if objects.object_format is not SHA1:
        lines = [b"# v3 git bundle", b"@object-format=" + objects.object_format.name.encode()]
    lines += [b"-%s commit of HEAD" % commit for commit in header.needed]
    lines += [b"%s %s" % (commit, ref) for ref, commit in sorted(header.refs.items())]
    disk.write(fd, b"\n".join(lines) + b"\n\n")
    digest = objects.object_format.new_hash()
    for piece in _pack(objects, contents):
        digest.update(piece)
        disk.write(fd, piece)
    disk.write(fd, digest.digest())


def _pack(objects: ObjectStore, contents: Collection[ObjectID]) -> Iterator[bytes]:
    yield b"PACK\0\0\0\2" + len(contents).to_bytes(4, "big")
    for object_id in contents:
        kind, size = objects.kind(object_id), objects.size(object_id)
        if kind is None or size is None:
            raise MissingObject(object_id, "missing object")
        yield entry_header(_NUMBERS[kind], size)
        packer = zlib.compressobj(level_of(size))
        for piece in objects.pieces(object_id, kind):
            yield packer.compress(piece)
        yield packer.flush()


# -- reading -------------------------------------------------------------------


def read_header(fd: int, objects: ObjectStore) -> Header:
    """What a bundle says of itself; UsageError if it is none, or of another repository's kind."""
    data = os.pread(fd, _LONGEST_HEADER, 0)
    head, end, _ = data.partition(b"\n\n")
    signature, *lines = head.split(b"\n")
    if signature not in _SIGNATURES or not end:
        raise UsageError("this is no git bundle", hint="pass what export() has written")
    _check_format([line[1:] for line in lines if line.startswith(b"@")], objects)
    needed, refs = [], {}
    for line in lines:
        if line.startswith(b"@"):
            continue
        if line.startswith(b"-"):
            needed.append(_object_id(objects, line[1:].partition(b" ")[0]))
        else:
            commit, _, ref = line.partition(b" ")
            refs[ref] = _object_id(objects, commit)
    return Header(tuple(needed), refs, len(head) + len(end))


def _check_format(asked: list[bytes], objects: ObjectStore) -> None:
    found = SHA1.name
    for line in asked:
        key, _, value = line.decode("utf-8", "replace").partition("=")
        if key != "object-format":
            raise _unknown(f"it asks for '{key}'")
        found = value
    if found != objects.object_format.name:
        raise _unknown(f"its objects are named by {found}, those here by another hash")


def _object_id(objects: ObjectStore, text: bytes) -> ObjectID:
    if len(text) != objects.object_format.hex_length or text.strip(b"0123456789abcdef"):
        raise _unknown("a name of an object in it is none")
    return ObjectID(text)


def _unknown(reason: str, hint: str = "make one with export()") -> Refused:
    return Refused(f"cannot read this bundle: {reason}", hint=hint)


def _too_much(reason: str) -> Refused:
    hint = "git fetch BUNDLE 'refs/checkpoints/*:refs/checkpoints/*' takes it as it is"
    return _unknown(reason, hint)


def read_pack(fd: int, start: int, objects: ObjectStore) -> None:
    """Add the objects of a bundle's pack to the repository; they are in use once refs are."""
    try:
        with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
            _PackStream(data, start, objects).read()
    except (DamagedObject, ValueError, IndexError, zlib.error) as error:
        raise _unknown(f"its pack is damaged ({error})") from None


@dataclass(frozen=True, slots=True)
class _Delta:
    """An entry that is made of another one; `begin` is where its stream of `size` bytes is, which
    says that it makes `made` bytes of a `base` of so many."""

    place: int
    begin: int
    size: int
    base: int
    made: int


class _PackStream:
    """A pack that is read from its first entry to its last, whatever an index would say.

    Of deltas only the places are kept, for they may be many and each may inflate to a thousand
    times what it takes here; each is read again when its base is known.
    """

    def __init__(self, data: mmap.mmap, start: int, objects: ObjectStore) -> None:
        self._data = data
        self._start = start
        self._end = len(data) - objects.object_format.oid_length
        self._objects = objects
        self._known: dict[int, tuple[bytes, ObjectID]] = {}
        self._waiting: dict[int | ObjectID, list[_Delta]] = {}  # by the place or id of the base
        self._most = max(_ALWAYS_ENOUGH, _MOST_TIMES * len(data))
        self._left = self._most

    def read(self) -> None:
        self._check_sum()
        header = self._data[self._start : self._start + 12]
        if header[:4] != b"PACK" or header[4:8] not in (b"\0\0\0\2", b"\0\0\0\3"):
            raise DamagedObject("no pack")
        at = self._start + 12
        for _ in range(int.from_bytes(header[8:], "big")):
            place = at - self._start
            number, size, begin, base = parse_entry(
                self._data[at : at + 64], at, self._objects.object_format.oid_length
            )
            self._spend(size)
            if base is None:
                self._known[place], at = self._take(KINDS[number], begin, size)
                continue
            delta, at = self._pass_over(place, begin, size)
            key = base - self._start if isinstance(base, int) else ObjectID(base.hex().encode())
            self._waiting.setdefault(key, []).append(delta)
        if at != self._end:
            raise DamagedObject("something follows its last entry")
        self._resolve()

    def _check_sum(self) -> None:
        digest = self._objects.object_format.new_hash()
        for at in range(self._start, self._end, 1 << 20):
            digest.update(self._data[at : min(at + (1 << 20), self._end)])
        if digest.digest() != self._data[max(self._end, self._start) :]:
            raise DamagedObject("its checksum is wrong")

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _too_much(f"its {len(self._data):,} bytes would become more than {self._most:,}")

    def _take(self, kind: bytes, begin: int, size: int) -> tuple[tuple[bytes, ObjectID], int]:
        if kind != b"blob" and size > LARGEST_WHOLE:
            raise DamagedObject(f"a {kind.decode()} of {size} bytes")
        if kind != b"blob" or size <= LARGE:
            content, end = self._inflated(begin, size)
            return (kind, self._objects.add(kind, content)), end
        with TemporaryFile() as file:
            end = begin
            for piece, end in self._pieces(begin, size):  # noqa: B007 - the last end counts
                file.write(piece)
            file.flush()
            file.seek(0)
            return (kind, self._objects.add_file(file.fileno(), size)), end

    def _pass_over(self, place: int, begin: int, size: int) -> tuple[_Delta, int]:
        """A delta, and where the entry after it begins; looks only at what it announces."""
        head, end = b"", begin
        for piece, end in self._pieces(begin, size):  # noqa: B007 - the last end counts
            if len(head) < BOTH_SIZES:
                head += piece[:BOTH_SIZES]
        base, made = announced(head)
        self._spend(made)
        if max(made, size) > _LARGEST_WITH_DELTA:
            raise DamagedObject("a delta that is too large")
        if size > made + BOTH_SIZES:
            raise DamagedObject("a delta that is larger than what it makes")
        if made > max(_SOME, _MOST_GROWTH * (base + size)):
            raise _too_much(f"a delta of {size:,} bytes makes {made:,} of {base:,}")
        return _Delta(place, begin, size, base, made), end

    def _inflated(self, begin: int, size: int) -> tuple[bytes, int]:
        parts, end = [], begin
        for piece, end in self._pieces(begin, size):  # noqa: B007 - the last end counts
            parts.append(piece)
        return b"".join(parts), end

    def _pieces(self, begin: int, size: int) -> Iterator[tuple[bytes, int]]:
        """What a zlib stream holds, piece by piece, and where the next entry begins."""
        unpacker, at, left = zlib.decompressobj(), begin, size
        while not unpacker.eof:
            chunk = unpacker.unconsumed_tail
            if not chunk:
                chunk = self._data[at : min(at + _CHUNK, self._end)]
                at += len(chunk)
                if not chunk:
                    raise DamagedObject("an entry that was cut off")
            piece = unpacker.decompress(chunk, _CHUNK)
            left -= len(piece)
            if left < 0:
                raise DamagedObject("an entry that is larger than it says")
            yield piece, at - len(unpacker.unused_data)
        if left:
            raise DamagedObject("an entry that is smaller than it says")

    def _resolve(self) -> None:
        """Make of the deltas what they make of their bases; one may be the base of another."""
        known: list[tuple[int | ObjectID, bytes, ObjectID]] = []
        for base in self._waiting:
            if isinstance(base, int):
                if base in self._known:
                    known.append((base, *self._known[base]))
            elif (kind := self._objects.kind(base)) is not None:
                known.append((base, kind, base))
        while known:
            base, kind, name = known.pop()
            deltas = self._waiting.pop(base, ())
            content = self._content(kind, name) if deltas else None
            for delta in deltas:
                if content is not None and (kind != b"blob" or delta.made <= LARGE):
                    instructions = self._inflated(delta.begin, delta.size)[0]
                    made = apply_delta(content, instructions, LARGEST_WHOLE)
                    made_name = self._objects.add(kind, made)
                else:
                    made_name = self._add_large(name, delta)
                known += [(delta.place, kind, made_name), (made_name, kind, made_name)]
        if self._waiting:
            raise DamagedObject("a delta without its base")

    def _content(self, kind: bytes, name: ObjectID) -> bytes | None:
        """The content of a base, unless it is a large blob."""
        size = self._objects.size(name) or 0
        if size > _LARGEST_WITH_DELTA:
            raise DamagedObject("a delta for what is too large")
        is_large = kind == b"blob" and size > LARGE
        return None if is_large else self._objects.read(name, kind)

    def _add_large(self, base: ObjectID, delta: _Delta) -> ObjectID:
        """Make a blob in pieces: in the bundle it may be next to nothing, and so may its base."""
        if self._objects.size(base) != delta.base:
            raise DamagedObject("a delta for another base")
        instructions = (piece for piece, _ in self._pieces(delta.begin, delta.size) if piece)
        pieces = patched_pieces(self._objects.pieces(base), [instructions], self._objects.path)
        with TemporaryFile() as file:
            for piece in pieces:
                file.write(piece)
                if file.tell() > delta.made:
                    break
            if file.tell() != delta.made:
                raise DamagedObject("a delta that makes more than it says, or less")
            file.flush()
            return self._objects.add_file(file.fileno(), delta.made)
