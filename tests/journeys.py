# SPDX-License-Identifier: MIT
"""Save, destroy, roll back, undo, redo: one journey that every kind of state must survive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers import Ran, ckpt_here, fsck, git
from scenes import state


def save(top: Path, *words: str) -> str:
    return str(ckpt_here("save", "--json", *words, cwd=top, code=0).json["checkpoint"]["id"])


def there_and_back(
    top: Path,
    destroy: Callable[[Path], object],
    look: Callable[[Path], Any] = state,
    ckpt: Callable[..., Ran] = ckpt_here,
) -> tuple[Any, Any]:
    """Fails unless each step gives back what `look` sees; returns before and destroyed."""
    before = look(top)
    saved = save(top)
    assert look(top) == before
    destroy(top)
    destroyed = look(top)
    assert destroyed != before

    ckpt("rollback", saved, "--yes", cwd=top, code=0)
    assert look(top) == before
    assert fsck(top) == []
    ckpt("undo", cwd=top, code=0)
    assert look(top) == destroyed
    ckpt("undo", cwd=top, code=0)
    assert look(top) == before
    assert fsck(top) == []
    return before, destroyed


def reset(top: Path) -> None:
    """The accident that takes all work away; what git does not know stays."""
    git("reset", "-q", "--hard", cwd=top)


def reset_and_clean(top: Path) -> None:
    reset(top)
    git("clean", "-q", "-f", "-d", cwd=top)
