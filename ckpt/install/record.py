# SPDX-License-Identifier: MIT
"""What was installed in one place, so that it can be taken out again to the byte.

One small private JSON file, an object for each part that asks. It is written before the
part acts, so that what was begun and not finished can be undone as well. Without the file,
uninstall still finds what is ckpt's by its marks; lost is then only what those cannot
tell, such as whether a file ended without a newline. What it says is what gets cut out of
other people's files, so it is believed only under its checksum.
"""

from __future__ import annotations

import os

from ckpt import disk, hashing, jsontext, private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


_MADE = "made"  # the folders that the record itself needed


class Record:
    """The notes of the parts, by their names; a damaged file counts as none."""

    def __init__(self, path: str, *, is_users: bool = False) -> None:
        self.path = path
        self._is_users = is_users

    def get(self, name: str) -> dict[str, Any]:
        """What the part of that name noted; empty if nothing."""
        notes = self._read().get(name)
        return notes if isinstance(notes, dict) else {}

    def put(self, name: str, notes: Mapping[str, Any]) -> None:
        """Note something in place of what was noted; empty notes go."""
        kept = self._read()
        if kept.get(name, {}) == dict(notes):
            return
        kept.pop(name, None)
        if notes:
            kept[name] = dict(notes)
        made = kept.setdefault(_MADE, missing_folders(os.path.dirname(self.path)))
        if kept.keys() == {_MADE}:
            private.remove(self.path)
            remove_folders(made)
        else:
            document = {"format": 1, "parts": kept, "sum": _checksum(kept)}
            if self._is_users:
                private.ensure_user_dir(os.path.dirname(self.path))
            private.replace(self.path, jsontext.dump(document))

    def drop(self, name: str) -> None:
        self.put(name, {})

    def _read(self) -> dict[str, Any]:
        try:
            document = jsontext.load(private.read(self.path))
            parts: dict[str, Any] = document["parts"]
            is_whole = document["format"] == 1 and document["sum"] == _checksum(parts)
            return parts if is_whole else {}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return {}


def _checksum(parts: dict[str, Any]) -> str:
    return hashing.new("sha256", jsontext.dump(parts)).hexdigest()


def missing_folders(path: str) -> list[str]:
    """The folder and those above it that are not there, the outermost first."""
    missing: list[str] = []
    while not os.path.isdir(path):
        missing.insert(0, path)
        path = os.path.dirname(path)
    return missing


def remove_folders(made: list[str]) -> None:
    """Take folders away that were made before, as far as nobody else has put anything there."""
    for folder in reversed(made):
        try:
            disk.rmdir(folder)
        except OSError:
            return
