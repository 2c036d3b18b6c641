# SPDX-License-Identifier: MIT
"""Plan a rollback: decide which paths to write, remove and keep.

The plan depends only on the present and the checkpoint; `prepare` checks the disk. Submodules and
paths that the checkpoint left out (ignored, denied …) are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ckpt.engine.checkpoint import Recorded, file_now
from ckpt.engine.conversions import write_raw
from ckpt.engine.journal import Action, FolderChange
from ckpt.engine.nested import SUBMODULE
from ckpt.engine.working_state import Present
from ckpt.git.objects import ObjectStore
from ckpt.git.trees import GITLINK, diff_trees
from ckpt.paths import folders_above, folders_of, is_within

# The permissions needed to change the names in a directory.
OPEN = 0o700
_BITS = 0o755  # default permissions of a new directory


class Plan(NamedTuple):
    """`kept` paths differ from the target and stay; `blocked` ones cannot be restored because of
    `obstacles` that no checkpoint holds."""

    actions: tuple[Action, ...] = ()
    kept: Mapping[bytes, str] = {}
    blocked: Mapping[bytes, str] = {}
    obstacles: frozenset[bytes] = frozenset()
    folders: tuple[FolderChange, ...] = ()

    @property
    def removals(self) -> list[Action]:
        return [action for action in self.actions if action.after is None]

    @property
    def writes(self) -> list[Action]:
        return [action for action in self.actions if action.after is not None]

    def keeping(self, reasons: Mapping[bytes, str]) -> Plan:
        return self._replace(kept={**self.kept, **reasons})

    def leaving(self, reasons: Mapping[bytes, str]) -> Plan:
        """Return the plan without these paths, and without removals that make room for them."""
        if not reasons:
            return self
        actions = (
            action
            for action in self.actions
            if action.path not in reasons and reasons.keys().isdisjoint(folders_above(action.path))
        )
        return self._replace(blocked={**self.blocked, **reasons}, actions=tuple(actions))


def plan_files(
    present: Present,
    target: Recorded,
    objects: ObjectStore,
    limits: tuple[bytes, ...] = (),
    given_up: Collection[bytes] = frozenset(),
) -> Plan:
    """Plan the paths whose entry, content or permissions differ, and all state files.

    Only paths within `limits` change. Files in `given_up` are removed even if the target left them
    out.
    """
    actions = []
    kept: dict[bytes, str] = {}
    for path in sorted(_candidates(present, target, objects)):
        here, there = file_now(present, path), target.file_at(path)
        is_state = path in target.state_files
        if (here == there and not is_state) or not is_within(path, limits or (b"",)):
            continue
        reason = None
        if there is None and path not in given_up and not is_state:
            reason = target.left_out(path)
        if any(state is not None and state.entry.mode == GITLINK for state in (here, there)):
            kept[path] = SUBMODULE
        elif reason is not None:
            kept[path] = f"{reason} at the checkpoint"
        else:
            actions.append(Action(path, here, there))
    return Plan(tuple(actions), kept)


def _candidates(present: Present, target: Recorded, objects: ObjectStore) -> set[bytes]:
    """Return the paths that may differ on disk: in the trees, by conversion, by sparse checkout,
    in permissions, and state files."""
    raw = write_raw(objects, present.converted)
    paths = {path for path, _, _ in diff_trees(objects, present.tree, target.tree)}
    paths.update(path for path, _, _ in diff_trees(objects, raw, target.raw_tree))
    paths |= present.absent.keys() ^ target.absent
    now, then = present.modes, target.manifest.modes
    usual = (then.plain, then.executable) == (now.plain, now.executable)
    paths.update(then.others, now.others, () if usual else present.entries)
    return paths.union(target.state_files)


def plan_folders(
    plan: Plan, present: Present, target: Recorded, limits: tuple[bytes, ...] = ()
) -> Plan:
    """Plan the directories to create and to remove, and their permissions.

    Directories in which something changes are made writable meanwhile. A submodule that is not
    initialized needs its empty directory, or git reports it as deleted.
    """
    limits = limits or (b"",)
    bits, now, then = present.folders, present.modes, target.manifest.modes
    writes = {action.path for action in plan.writes}
    hollow = {p for p in plan.kept if present.entry(p) is None and target.has_submodule(p)}
    wanted = (hollow - target.repositories).union(target.manifest.empty_folders)
    needed = wanted | folders_of(wanted) | folders_of(writes)
    doomed = set()
    for folder in set(present.empty_folders) - needed:
        is_replaced = not writes.isdisjoint((folder, *folders_above(folder)))
        is_gone = is_replaced or target.left_out(folder, is_folder=True) is None
        if is_within(folder, limits) and is_gone:
            doomed.add(folder)
    emptied = doomed | folders_of(action.path for action in plan.removals) | folders_of(doomed)
    after: dict[bytes, int | None] = dict.fromkeys(emptied - needed)
    made = {f for f in wanted.difference(present.empty_folders) if is_within(f, limits)}
    for folder in made | folders_of(made) | folders_of(writes):
        if folder not in bits:
            after[folder] = then.of_folder(folder) or now.of_folder(folder) or _BITS
    if then.folder is not None:
        for folder in bits:
            skipped = (place in present.skipped for place in (folder, *folders_above(folder)))
            if (
                bits[folder] != then.of_folder(folder)
                and is_within(folder, limits)
                and target.has_folder(folder)
                and not any(skipped)
            ):
                after[folder] = then.of_folder(folder)
    changing = (*(action.path for action in plan.actions), *after)
    for folder in {path.rpartition(b"/")[0] for path in changing}:
        if bits.get(folder, OPEN) & OPEN != OPEN:
            after.setdefault(folder, bits[folder])
    changes = []
    for path, end in sorted(after.items()):
        before = bits.get(path, None if end else _BITS)
        changes.append(FolderChange(path, before, end))
    return plan._replace(folders=tuple(changes))
