# SPDX-License-Identifier: MIT
"""Checkpoints of a Git repository's whole working state.

The public names; each is imported when it is first used, so that a hook which needs
none of them starts quickly.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which takes 5 ms to import
if TYPE_CHECKING:
    from typing import Any

    from ckpt.engine.prune import PruneResult
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
    from ckpt.settings.policy import Policy, Rules
    from ckpt.settings.settings import Settings

__version__ = "0.1.0"

_HOMES = {
    "Busy": "ckpt.errors",
    "Checkpoint": "ckpt.models",
    "CheckpointManager": "ckpt.manager",
    "CkptError": "ckpt.errors",
    "DiffResult": "ckpt.models",
    "FeatureState": "ckpt.models",
    "Kind": "ckpt.models",
    "NotARepository": "ckpt.git.repository",
    "NotFound": "ckpt.errors",
    "Outcome": "ckpt.models",
    "Policy": "ckpt.settings.policy",
    "PruneResult": "ckpt.engine.prune",
    "Refused": "ckpt.errors",
    "RollbackError": "ckpt.errors",
    "RollbackResult": "ckpt.models",
    "Rules": "ckpt.settings.policy",
    "SaveResult": "ckpt.models",
    "Scope": "ckpt.models",
    "Settings": "ckpt.settings.settings",
    "Summary": "ckpt.models",
    "UsageError": "ckpt.errors",
    "project_root": "ckpt.paths",
}

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
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ckpt' has no attribute '{name}'")
    return getattr(__import__(home, fromlist=[name]), name)
