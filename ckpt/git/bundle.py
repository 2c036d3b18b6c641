# SPDX-License-Identifier: MIT
"""Git bundles: some refs, the commits that the reader must have, and a pack of the rest.

Versions 2 and 3 as git reads and writes them. Ours have no deltas; those of git are resolved by
dulwich. Every object that is read is named anew by its content, so that a bundle can add objects
but never pass one off as another. What they say is for others to judge.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from tempfile import TemporaryFile
from typing import IO, NamedTuple

from ckpt import disk
from ckpt.errors import Refused, UsageError
from ckpt.git.formats import SHA1, ObjectID
from ckpt.git.objects import MissingObject, ObjectStore
from ckpt.git.streams import DamagedObject

_SIGNATURES = (b"# v2 git bundle", b"# v3 git bundle")
_LONGEST_HEADER = 1 << 24
_CHUNK = 1 << 20
# What a pack may inflate to, so that a small file cannot fill the memory or the disk.
_ALWAYS_ENOUGH = 8 << 30
_MOST_TIMES = 256


class Header(NamedTuple):
    """`refs` are commits by the name of their ref; `size` is where the pack begins."""

    needed: tuple[ObjectID, ...]
    refs: dict[bytes, ObjectID]
    size: int = 0


# Writing


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
    from ckpt.git.packs import pack_entry, pack_start

    yield pack_start(len(contents))
    for object_id in contents:
        kind, size = objects.kind(object_id), objects.size(object_id)
        if kind is None or size is None:
            raise MissingObject(object_id, "missing object")
        yield from pack_entry(kind, size, objects.pieces(object_id, kind), objects.object_format)


# Reading


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


def read_pack(fd: int, start: int, objects: ObjectStore) -> None:
    """Add the objects of a bundle's pack to the repository; they are in use once refs are."""
    from ckpt.git.packs import unpacked

    with TemporaryFile() as file:
        size = _copy(fd, start, file)
        most = max(_ALWAYS_ENOUGH, _MOST_TIMES * size)
        try:
            for kind, data in unpacked(file, objects, most):
                objects.add(kind, data)
        except DamagedObject as error:
            raise _unknown(f"its pack is damaged ({error})") from None


def _copy(fd: int, start: int, file: IO[bytes]) -> int:
    """The pack in a file of its own."""
    at = start
    while piece := os.pread(fd, _CHUNK, at):
        file.write(piece)
        at += len(piece)
    file.flush()
    return at - start
