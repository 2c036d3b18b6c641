# SPDX-License-Identifier: MIT
"""Checkpoints: save, inspect, restore and prune them. Submodules are imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ckpt.engine import diff, nested, prepare, recovery, rollback, sessions, snapshot, trash

__all__ = ["diff", "nested", "prepare", "recovery", "rollback", "sessions", "snapshot", "trash"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"ckpt.engine.{name}")
    raise AttributeError(f"module 'ckpt.engine' has no attribute '{name}'")
