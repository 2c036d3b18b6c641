# SPDX-License-Identifier: MIT
"""What one folder of a worktree holds, and the stat data under which that is known.

Its files with their blobs, the folders inside with their trees, and all else that a scan
had to say of it. Knows nothing of objects but their ids, and nothing of rules: what a
folder shall hold is for a scan to say. Many of them are kept in `listings`.
"""

from __future__ import annotations

import os
import stat
from operator import attrgetter

from ckpt.values import NamedTuple
from ckpt.worktree.modes import IS_EXECUTABLE, IS_LISTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

Stat = tuple[int, int, int, int, int]
Owner = tuple[int, int, int]
Note = tuple[str, bytes, bytes]

UNSURE: Stat = (0, 0, 0, 0, 0)  # which no path has: it is looked at again


stat_of: Callable[[os.stat_result], Stat] = attrgetter(
    "st_mtime_ns", "st_ctime_ns", "st_ino", "st_size", "st_mode"
)
owner_of: Callable[[os.stat_result], Owner] = attrgetter("st_uid", "st_gid", "st_dev")

# What a path is to git; in upper case if it is not tracked.
REGULAR, EXECUTABLE, LINK, GITLINK = b"rxlm"
NEW = ord("a") - ord("A")


class FileStat(NamedTuple):
    """Stat data as `os.lstat` gives them, of a file that was looked at."""

    st_mtime_ns: int
    st_ctime_ns: int
    st_ino: int
    st_size: int
    st_mode: int
    st_uid: int
    st_gid: int
    st_dev: int


class Listing:
    """One folder: the files taken (`names`, with `codes` and `ids`), then those only watched,
    which decide on something. `stats` and `owners` are of both, one after the other; what
    is in `unsure`, by its place among them, is looked at again next time.

    `trees` are the folders inside, with their trees' ids, empty where no tree would be.
    `bits` are the folder's permissions; None if they are nobody's business. A folder that was
    not walked holds only files that someone named. `notes` tell all else: what, where, how.
    """

    __slots__ = (
        "bits",
        "codes",
        "folder",
        "ids",
        "is_walked",
        "names",
        "notes",
        "owners",
        "stats",
        "status",
        "tree",
        "trees",
        "unsure",
        "watched",
    )

    def __init__(self, folder: bytes) -> None:
        self.folder = folder
        self.status = UNSURE
        self.bits: int | None = None
        self.is_walked = False
        self.names: list[bytes] = []
        self.watched: list[bytes] = []
        self.stats: list[Stat] = []
        self.owners: list[Owner] = []
        self.unsure: set[int] = set()
        self.codes = bytearray()
        self.ids: list[bytes] = []
        self.trees: dict[bytes, bytes] = {}
        self.tree = b""
        self.notes: list[Note] = []

    @property
    def prefix(self) -> bytes:
        return self.folder + b"/" if self.folder else b""

    def paths(self) -> list[bytes]:
        """The folder, then all files of which there are stat data."""
        prefix = self.prefix
        return [self.folder, *map(prefix.__add__, self.names), *map(prefix.__add__, self.watched)]

    def file_stat(self, number: int) -> os.stat_result:
        """Stat data as `os.lstat` gave them, as far as anybody looks at them."""
        # The checker cannot know that this has all that is asked of one.
        return FileStat(*self.stats[number], *self.owners[number])  # type: ignore[return-value]

    def drop(self, number: int) -> None:
        """Take a file out of the folder, which has to be listed again next time."""
        for column in (self.names, self.codes, self.ids, self.stats, self.owners):
            del column[number]
        self.unsure = {other - (other > number) for other in self.unsure - {number}}
        self.status = UNSURE

    def new_sizes(self) -> list[int]:
        """The sizes of the files that git does not track."""
        return [self.stats[n][3] for n, code in enumerate(self.codes) if not code & NEW]

    def permissions(self, number: int) -> int | None:
        """The bits of a file, with what git makes of it; None for what has none."""
        mode, code = self.stats[number][4], self.codes[number] | NEW
        if not stat.S_ISREG(mode) or code == GITLINK:
            return None
        marks = IS_EXECUTABLE * (code == EXECUTABLE) | IS_LISTED * (code == LINK)
        return stat.S_IMODE(mode) & 0o777 | marks
