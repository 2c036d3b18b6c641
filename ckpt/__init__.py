# SPDX-License-Identifier: MIT
"""Checkpoints of a Git repository's whole working state.

The public names; each is imported when it is first used, so that a hook which needs
none of them starts quickly.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ckpt.engine.prune import PruneResult
    from ckpt.errors import Busy, CkptError, NotFound, Refused, RollbackError, UsageError
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
    from ckpt.policy import Policy, Rules
    from ckpt.project import project_root
    from ckpt.settings import Settings
    from ckpt.store.repository import NotARepository

__version__ = "0.1.0"

_HOMES = {
    "Busy": "ckpt.errors",
    "Checkpoint": "ckpt.models",
    "CheckpointManager": "ckpt.manager",
    "CkptError": "ckpt.errors",
    "DiffResult": "ckpt.models",
    "FeatureState": "ckpt.models",
    "Kind": "ckpt.models",
    "NotARepository": "ckpt.store.repository",
    "NotFound": "ckpt.errors",
    "Outcome": "ckpt.models",
    "Policy": "ckpt.policy",
    "PruneResult": "ckpt.engine.prune",
    "Refused": "ckpt.errors",
    "RollbackError": "ckpt.errors",
    "RollbackResult": "ckpt.models",
    "Rules": "ckpt.policy",
    "SaveResult": "ckpt.models",
    "Scope": "ckpt.models",
    "Settings": "ckpt.settings",
    "Summary": "ckpt.models",
    "UsageError": "ckpt.errors",
    "project_root": "ckpt.project",
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
    # Not `importlib`, which takes 2 ms.
    return getattr(__import__(home, fromlist=[name]), name)
