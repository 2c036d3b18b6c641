# SPDX-License-Identifier: MIT
"""What a scan found: plain data, apart from the walk that makes it and the rules it needs.

Where little has changed, nothing is walked, and neither is read.
"""

from __future__ import annotations

import os

from ckpt.models import SkipReason
from ckpt.values import field, value_class


@value_class(frozen=False)
class Scan:
    """What was found: files and links by path, with the stat data they were found with.

    `folders` are those that were walked or hold what was taken, with their permission bits;
    not the top, which is no part of what it holds. `ignore_files` are the `.gitignore` files
    that were read, with their texts. `untracked` are the files that nobody forced in and
    git does not track.

    The rest is for whoever wants to know next time what has changed. `walked` are the folders
    that were listed, with stat data from before, and the folders in each that are to be looked
    into. A folder of `unsure` has to be listed again even if its stat data are the same.
    `watched` are files that decided on something, taken or not: their stat data.
    `attribute_files` are the `.gitattributes` that the walk came by. `is_cut` if the time was
    up before everything was looked at. `vanished` is what a folder named and was gone a moment
    later: removed, or moved to where nobody may have looked.
    """

    files: dict[bytes, os.stat_result] = field(default_factory=dict)
    untracked: set[bytes] = field(default_factory=set)
    folders: dict[bytes, int] = field(default_factory=dict)
    gitlinks: list[bytes] = field(default_factory=list)
    empty_folders: list[bytes] = field(default_factory=list)
    skipped: dict[bytes, SkipReason] = field(default_factory=dict)
    ignore_files: dict[bytes, bytes] = field(default_factory=dict)
    walked: dict[bytes, tuple[os.stat_result, list[bytes]]] = field(default_factory=dict)
    unsure: set[bytes] = field(default_factory=set)
    attribute_files: set[bytes] = field(default_factory=set)
    watched: dict[bytes, os.stat_result] = field(default_factory=dict)
    is_cut: bool = False
    vanished: set[bytes] = field(default_factory=set)

    def miss(self, path: bytes) -> None:
        """Note what vanished. It may come back with all times of its folder as they were, if it
        was one further up that was moved."""
        folder = path.rpartition(b"/")[0]
        self.vanished.add(path)
        self.unsure.add(folder)

    def leave_for_later(self, path: bytes) -> None:
        """List a path, a file or all of a folder, that there was no time for."""
        self.skipped[path] = SkipReason.BUDGET
        self.unsure.add(path.rpartition(b"/")[0])
        self.is_cut = True
