# SPDX-License-Identifier: MIT
"""`status` tells how much of the disk checkpoints take, and what waits in the trash."""

from __future__ import annotations

from typing import Any

from helpers import ckpt_here


def space() -> dict[str, Any]:
    found: dict[str, Any] = ckpt_here("status", "--json", code=0).json["space"]
    return found
