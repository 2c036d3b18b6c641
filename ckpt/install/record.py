# SPDX-License-Identifier: MIT
"""What was installed in one place, so that it can be taken out again to the byte.

One small private JSON file, an object for each part that asks. It is written before the
part acts, so that what was begun and not finished can be undone as well. Without the file,
uninstall still finds what is ckpt's by its marks; lost is then only what those cannot
tell, such as whether a file ended without a newline.
"""

from __future__ import annotations

import os

from ckpt import disk, jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Record:
    """The notes of the parts, by their names; a damaged file counts as none."""

    def __init__(self, path: str) -> None:
        self.path = path

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
        if kept:
            disk.replace_private_file(self.path, jsontext.dump({"format": 1, "parts": kept}))
        else:
            disk.remove_private_file(self.path)

    def drop(self, name: str) -> None:
        self.put(name, {})

    @property
    def is_there(self) -> bool:
        return os.path.lexists(self.path)

    def _read(self) -> dict[str, Any]:
        try:
            document = jsontext.load(disk.read_private_file(self.path))
            parts = document["parts"]
            return dict(parts) if document["format"] == 1 else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}
