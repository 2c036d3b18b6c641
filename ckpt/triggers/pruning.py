# SPDX-License-Identifier: MIT
"""The hook `ckpt-prune` of pre-commit: retention after a commit, by the rules of the settings.

Like a trigger that saves, it never stops git: what goes wrong is told and noted, and there is
another commit soon.
"""

from __future__ import annotations

from ckpt.triggers.fire import Fired, fire_other

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ckpt.store.repository import Repository


def run(start: str, env: Mapping[str, str], event: str, words: Sequence[str]) -> Fired | None:
    return fire_other(start, env, event, _prune)


def _prune(repo: Repository) -> None:
    from ckpt.configure import load_forgiving
    from ckpt.engine.prune import prune

    repo.check_writable()
    settings = load_forgiving(repo)
    prune(repo, settings.policy, patience=settings.hook_budget)
