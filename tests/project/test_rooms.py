# SPDX-License-Identifier: MIT
"""docs/architecture.md lists every room, and no other."""

from __future__ import annotations

import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
WITHOUT_ROWS = ("ckpt/commands/",)  # one row for all modules in them


def test_the_list_of_rooms_is_that_of_the_tree() -> None:
    text = (TOP / "docs/architecture.md").read_text()
    listed = re.findall(r"^\| `(ckpt/[^`]+)` \|", text, flags=re.M)
    modules = {str(path.relative_to(TOP)) for path in (TOP / "ckpt").rglob("*.py")}
    rooms = {
        next((folder for folder in WITHOUT_ROWS if module.startswith(folder)), module)
        for module in modules
        if not module.endswith("__init__.py") and "_assets" not in module
    }

    assert sorted(listed) == sorted(rooms)
