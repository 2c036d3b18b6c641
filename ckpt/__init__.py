# SPDX-License-Identifier: MIT
"""Save and restore the working state of a Git repository.

Public names are imported on first use, which keeps hooks fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ckpt.engine.trash import PruneResult
    from ckpt.errors import Busy, CkptError, NotFound, Refused, RollbackError, UsageError
    from ckpt.git.repository import NotARepository
    from ckpt.manager import CheckpointManager
    from ckpt.models import (
        Checkpoint,
        DiffResult,
        FeatureState,
        Kind,
        Outcome,
        RollbackResult,
        SaveResult,
        Scope,
        Summary,
    )
    from ckpt.paths import project_root
    from ckpt.settings.settings import Policy, Rules, Settings

__version__ = "0.1.0"

# The modules that define the public names, dependencies first.
_HOMES = (
    *("errors", "models", "paths", "git.repository"),
    *("manager", "settings.settings", "engine.trash"),
)

__all__ = [
    "Busy",
    "Checkpoint",
    "CheckpointManager",
    "CkptError",
    "DiffResult",
    "FeatureState",
    "Kind",
    "NotARepository",
    "NotFound",
    "Outcome",
    "Policy",
    "PruneResult",
    "Refused",
    "RollbackError",
    "RollbackResult",
    "Rules",
    "SaveResult",
    "Scope",
    "Settings",
    "Summary",
    "UsageError",
    "__version__",
    "project_root",
]


def __getattr__(name: str) -> Any:
    for home in _HOMES if name in __all__ else ():
        module = __import__(f"ckpt.{home}", fromlist=[name])
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module 'ckpt' has no attribute '{name}'")
