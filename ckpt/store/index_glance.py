# SPDX-License-Identifier: MIT
"""A glance at an index in which only stat data are new.

Git writes its index anew whenever it has looked at files, and as a rule nothing else in it
has changed. Whoever knows the paths knows where each entry lies, so that one can be had
without the others; that the rest is as it was, git's own cache tree tells.

Only a plain index of version 2 is looked at in this way: no conflicts, no flags, nothing
split, shared or sparse. Any other has to be read.
"""

from __future__ import annotations

from binascii import hexlify
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate

from ckpt.store.index import HEADER, IndexEntry, read_extensions, read_header
from ckpt.values import value_class

_STAT = 40
_SIZE = slice(36, 40)
_LONGEST = 0xFFF  # from here on the length of a path is not in its entry
_FLAGS = 0xF0  # of the first byte of an entry's flags; the rest is that length
# Of these extensions only the first tells anything about what is staged.
_TREE = b"TREE"
_EXTENSIONS = {_TREE, b"UNTR", b"FSMN", b"EOIE", b"IEOT"}


@value_class
class IndexGlance:
    """The file as it was read, with the paths in it and the places of their entries."""

    data: bytes
    mtime_ns: int
    paths: list[bytes]
    places: list[int]
    hash_len: int

    def at(self, paths: Iterable[bytes]) -> Iterator[IndexEntry]:
        """The entries of these paths, as far as there are any."""
        for path in paths:
            number = bisect_left(self.paths, path)
            if self.paths[number : number + 1] == [path]:
                place = self.places[number]
                stat, end = self.data[place : place + _STAT], place + _STAT + self.hash_len
                yield IndexEntry(path, hexlify(self.data[place + _STAT : end]), 0, stat)

    def sizes(self) -> Iterator[tuple[bytes, int]]:
        """The size of each file, by its entry."""
        start, end, data = _SIZE.start, _SIZE.stop, self.data
        sizes = (int.from_bytes(data[place + start : place + end], "big") for place in self.places)
        return zip(self.paths, sizes, strict=True)


def glance(
    data: bytes, mtime_ns: int, paths: list[bytes], tree: bytes, hash_len: int
) -> IndexGlance | None:
    """A glance at an index file, if it has just these paths, which are sorted, and stands for
    this tree. Its checksum is not computed; nor does git, but for `git fsck`."""
    end = len(data) - hash_len
    version, count = read_header(data, end)
    if version != 2 or not count or count != len(paths):
        return None
    places = _places(data, end, paths, _STAT + hash_len)
    if places is None:
        return None
    extensions = read_extensions(data, places.pop(), end)
    is_known = extensions.keys() <= _EXTENSIONS
    if not is_known or not _is_top(extensions.get(_TREE, b""), count, tree, hash_len):
        return None
    return IndexGlance(data, mtime_ns, paths, places, hash_len)


def _places(data: bytes, end: int, paths: list[bytes], flags: int) -> list[int] | None:
    """Where each entry begins, and where the last ends; None if these are not its paths."""
    start = flags + 2
    lengths = [*map(len, paths)]
    sizes = [start + length + 8 & -8 for length in lengths]
    places = [*accumulate(sizes, initial=HEADER.size)]
    if max(lengths) >= _LONGEST or places[-1] > end:
        return None
    where = zip(places, lengths, strict=False)
    if [data[at + start : at + start + length] for at, length in where] != paths:
        return None
    marks = [data[at + flags] for at in places[:-1]]
    if max(marks) & _FLAGS:
        return None
    return places


def _is_top(cache_tree: bytes, count: int, tree: bytes, hash_len: int) -> bool:
    """Whether a cache tree begins with this one, made of that many entries."""
    name, _, rest = cache_tree.partition(b"\0")
    numbers, _, rest = rest.partition(b"\n")
    is_whole = not name and numbers.split(b" ")[0] == b"%d" % count
    return is_whole and hexlify(rest[:hash_len]) == tree
