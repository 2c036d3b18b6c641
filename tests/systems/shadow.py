# SPDX-License-Identifier: MIT
"""Transparent checkpoints for the tools of an agent (system C), under the names it had."""

from __future__ import annotations

from typing import Any

from ckpt import Checkpoint, CheckpointManager, CkptError, NotARepository, project_root


class ShadowCheckpoints:
    def __init__(self, enabled: bool = True, session: str = "agent") -> None:
        self.enabled, self._session = enabled, session
        self._managers: dict[str, CheckpointManager] = {}

    def manager(self, folder: str) -> CheckpointManager:
        if folder not in self._managers:
            try:
                made = CheckpointManager(folder, session=self._session)
            except NotARepository:
                made = CheckpointManager(folder, session=self._session, store="user")
            self._managers[folder] = made
        return self._managers[folder]

    def new_turn(self) -> None:
        for manager in self._managers.values():
            manager.new_turn()

    def ensure_checkpoint(self, folder: str, reason: str) -> bool:
        try:
            return self.enabled and bool(self.manager(folder).ensure(reason))
        except CkptError:
            return False

    def list_checkpoints(self, folder: str) -> list[dict[str, Any]]:
        return [self._described(one) for one in self.manager(folder).list(kind="auto")]

    def _described(self, one: Checkpoint) -> dict[str, Any]:
        names = {"hash": one.id, "short_hash": one.id[-4:], "reason": one.description}
        changes = ("files_changed", "insertions", "deletions")
        counts = {name: getattr(one.stats, name) for name in changes}
        return {**names, "timestamp": one.timestamp.isoformat(), **counts}

    def diff(self, folder: str, which: str) -> dict[str, Any]:
        found = self.manager(folder).diff(which)
        return {"stat": found.stats, "diff": found.patch.decode("utf-8", "replace")}

    def restore(
        self, folder: str, which: str | int, file: str | None = None, safe: bool = False
    ) -> dict[str, Any]:
        word = f"latest~{which - 1}" if isinstance(which, int) else which
        paths = None if file is None else [f"{folder}/{file}"]
        try:
            done = self.manager(folder).rollback(word, paths, keep_edits=safe, yes=True)
        except CkptError as error:
            return {"success": False, "error": error.message}
        return {"success": True, "kept": [item.path for item in done.kept], "id": done.target.id}

    def working_dir(self, path: str) -> str | None:
        return project_root(path)
