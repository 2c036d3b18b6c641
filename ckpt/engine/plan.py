# SPDX-License-Identifier: MIT
"""Plan a rollback: from two states to the paths to write, remove, keep and leave.

Decides and touches nothing, so that a dry run is the same code as the real one. Only what the
present holds may be replaced or removed. What the target left out (ignored, denied …) is kept;
what stands in the way and is not held is left and listed. Submodules and other repositories are
not touched, but for files in them that are tracked here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from ckpt.engine.apply import OPEN, look
from ckpt.engine.conversions import write_raw
from ckpt.engine.journal import Action, FileState, FolderChange
from ckpt.engine.nested import SUBMODULE
from ckpt.engine.present import Present
from ckpt.engine.recorded import Recorded, file_state
from ckpt.git.formats import ObjectID
from ckpt.git.objects import ObjectStore
from ckpt.git.trees import GITLINK, TreeEntry, diff_trees
from ckpt.models import SkipReason
from ckpt.paths import IN_GIT_DIR, folders_above, folders_of, is_within, to_bytes
from ckpt.worktree.write import Worktree

IN_THE_WAY = "in the way"
GIT_DIR = "inside a git dir"
_UNREADABLE = str(SkipReason.UNREADABLE)

_Change = tuple[bytes, TreeEntry | None, TreeEntry | None]


class Plan(NamedTuple):
    """`kept` differ from the target and stay; `blocked` could not be put in place, because of
    `obstacles` that nobody holds.

    `doomed` are the empty ones of `remove_folders`; the others are left empty by removals.
    `differing` are all paths that are not the same in both states, also where nothing is done.
    """

    actions: tuple[Action, ...] = ()
    kept: Mapping[bytes, str] = {}
    blocked: Mapping[bytes, str] = {}
    obstacles: frozenset[bytes] = frozenset()
    make_folders: tuple[bytes, ...] = ()
    remove_folders: tuple[bytes, ...] = ()
    doomed: frozenset[bytes] = frozenset()
    folders: tuple[FolderChange, ...] = ()
    differing: frozenset[bytes] = frozenset()

    @property
    def removals(self) -> list[Action]:
        return [action for action in self.actions if action.after is None]

    @property
    def writes(self) -> list[Action]:
        return [action for action in self.actions if action.after is not None]

    def keeping(self, reasons: Mapping[bytes, str]) -> Plan:
        return self._replace(kept={**self.kept, **reasons}) if reasons else self

    def leaving(self, reasons: Mapping[bytes, str]) -> Plan:
        """Do nothing at these paths, nor to what would have to make room for them."""
        if not reasons:
            return self
        blocked = {**self.blocked, **reasons}
        return self._replace(blocked=blocked, actions=tuple(_without(self.actions, reasons)))

    @property
    def changes_folders(self) -> bool:
        """Beyond those that come and go with the files in them."""
        bits = any(None not in (c.before, c.after) and c.before != c.after for c in self.folders)
        return bits or bool(self.make_folders) or not self.doomed.isdisjoint(self.remove_folders)

    @property
    def is_empty(self) -> bool:
        return not (self.actions or self.make_folders or self.remove_folders or self.folders)


def make_plan(
    present: Present,
    present_tree: ObjectID,
    target: Recorded,
    objects: ObjectStore,
    worktree: Worktree,
    limits: tuple[bytes, ...] = (),
    given_up: frozenset[bytes] = frozenset(),
    undone: frozenset[bytes] = frozenset(),
) -> Plan:
    """Compare the present with the target; `limits` are the only paths that may change.

    Files of `given_up` may go although the target says nothing about them. Those that are
    `undone` were changed by a rollback, and so may be again, wherever they are.
    """
    planner = _Planner(present, present_tree, target, objects, worktree, limits, given_up)
    planner.compare()
    planner.add_state_files()
    planner.leave_other_repositories(undone)
    planner.leave_blocked()
    planner.plan_folders()
    return planner.plan()


def _without(actions: Iterable[Action], places: Collection[bytes]) -> Iterator[Action]:
    """The actions that are neither at nor below one of these places."""
    for action in actions:
        if not any(place in places for place in (action.path, *folders_above(action.path))):
            yield action


class _Planner:
    """A plan in the making."""

    def __init__(
        self,
        present: Present,
        present_tree: ObjectID,
        target: Recorded,
        objects: ObjectStore,
        worktree: Worktree,
        limits: tuple[bytes, ...],
        given_up: frozenset[bytes],
    ) -> None:
        self._present = present
        self._present_tree = present_tree
        self._target = target
        self._objects = objects
        self._worktree = worktree
        self._limits = limits
        self._given_up = given_up
        self._now, self._then = present.modes, target.manifest.modes
        self._actions: list[Action] = []
        self._kept: dict[bytes, str] = {}
        self._blocked: dict[bytes, str] = {}
        self._obstacles: set[bytes] = set()
        self._differing: set[bytes] = set()
        self._hollow: set[bytes] = set()  # submodules of the target with nothing in them
        self._make_folders: list[bytes] = []
        self._remove_folders: list[bytes] = []
        self._doomed: set[bytes] = set()
        self._folders: tuple[FolderChange, ...] = ()

    def plan(self) -> Plan:
        return Plan(
            tuple(self._actions),
            self._kept,
            self._blocked,
            frozenset(self._obstacles),
            tuple(self._make_folders),
            tuple(self._remove_folders),
            frozenset(self._doomed),
            self._folders,
            frozenset(self._differing),
        )

    def _is_asked(self, path: bytes) -> bool:
        return not self._limits or is_within(path, self._limits)

    # -- files

    def compare(self) -> None:
        """What becomes of each path whose entry, bytes or permission bits differ."""
        present, target = self._present, self._target
        for path, before, after in self._differences():
            self._differing.add(path)
            if not self._is_asked(path):
                continue
            if GITLINK in (_mode(before), _mode(after)):
                self._kept[path] = SUBMODULE
                if before is None and path not in target.repositories:
                    self._hollow.add(path)
                continue
            is_given_up = path in self._given_up
            reason = target.left_out(path) if after is None and not is_given_up else None
            if reason is not None:
                self._kept[path] = f"{reason} at the checkpoint"
                continue
            here = file_state(path, before, self._now, present.converted.get(path))
            there = file_state(path, after, self._then, target.converted(path, after))
            if here != there:  # else they differ only in what git calls them
                self._actions.append(Action(path, here, there))

    def _differences(self) -> Iterator[_Change]:
        present, target = self._present, self._target
        seen = set()
        for path, before, after in self._tree_differences():
            seen.add(path)
            here = None if path in present.absent else before
            there = None if path in target.absent else after
            if here is not None or there is not None:
                yield path, here, there
        now, then = self._now, self._then
        usual = (then.plain, then.executable) == (now.plain, now.executable)
        others = then.others.keys() | now.others.keys() if usual else present.entries.keys()
        for path in others - seen - present.absent.keys():
            entry = present.entry(path)
            if file_state(path, entry, now) != file_state(path, entry, then):
                yield path, entry, entry

    def _tree_differences(self) -> Iterator[_Change]:
        """Where the trees differ; where only the bytes on disk do, converted in another way; and
        where a file is on disk in one state only, because a sparse checkout leaves it out."""
        present, target, objects = self._present, self._target, self._objects
        seen = set()
        for change in diff_trees(objects, self._present_tree, target.tree):
            seen.add(change[0])
            yield change
        raw = write_raw(objects, present.converted)
        others = {path for path, _, _ in diff_trees(objects, raw, target.raw_files.tree)}
        for path in sorted((others | present.absent.keys() ^ target.absent) - seen):
            entry = present.entry(path)
            yield path, entry, entry

    def add_state_files(self) -> None:
        """What becomes of state files that are not in the target's tree."""
        if self._target.state_files:
            from ckpt.engine.state import unfit_place

            for path, file in self._target.state_files.items():
                if self._is_asked(path) and self._target.entry_at(path) is None:
                    entry = file.entry
                    there = None if entry is None else FileState(entry, file.permissions)
                    self._add_state_file(path, there, unfit_place(self._target.repo, path))
        self._actions.sort(key=lambda action: action.path)

    def _add_state_file(self, path: bytes, there: FileState | None, unfit: str | None) -> None:
        entry = self._present.entry(path)
        if unfit is not None or _mode(entry) == GITLINK:
            self._kept[path] = unfit or SUBMODULE
            return
        here = file_state(path, entry, self._now, self._present.converted.get(path))
        self._kept.pop(path, None)
        self._actions = [action for action in self._actions if action.path != path]
        if here != there:
            self._actions.append(Action(path, here, there))
            self._differing.add(path)
        elif there is None and is_file(self._worktree, path):
            self._obstacles.add(path)
            self._blocked[path] = self._why_unheld(path)

    def _leave(self, reasons: Mapping[bytes, str]) -> None:
        if reasons:
            self._blocked |= reasons
            self._actions = [*_without(self._actions, reasons)]

    def leave_other_repositories(self, undone: Collection[bytes]) -> None:
        """But for files in them that are tracked here, or were at the checkpoint if the repository
        was there then."""
        target, shared = self._target, set[bytes]()
        if target.repositories and not target.is_foreign:
            tracked = (entry.path for entry in target.index.entries)
            around = target.repositories
            shared = {path for path in tracked if not around.isdisjoint(folders_above(path))}
        paths = [action.path for action in self._actions]
        self._leave(self._in_repositories(paths, shared.union(undone)))

    def _in_repositories(
        self, paths: Collection[bytes], ours: Collection[bytes] = ()
    ) -> dict[bytes, str]:
        """Those paths that lie in another repository, or its git dir, and in what. Of a nested
        one only files that are tracked here, or are `ours`, may change."""
        found = {folder: self._repository_at(folder) for folder in folders_of(paths)}
        inside = {
            path: around
            for path in paths
            if (around := next(filter(None, map(found.get, folders_above(path))), None)) is not None
        }
        tracked = {entry.path for entry in self._present.staged_at(inside.keys())}.union(ours)
        return {p: why for p, why in inside.items() if why == SUBMODULE or p not in tracked}

    def _repository_at(self, folder: bytes) -> str | None:
        """What a folder is, if it is a repository. It is looked at on disk, since no scan enters
        a folder that is ignored or denied."""
        present = self._present
        nested = (to_bytes(state.path) for state in present.nested)
        if _mode(present.entry(folder)) == GITLINK and folder in nested:
            return SUBMODULE
        is_skipped = present.skipped.get(folder) is SkipReason.NESTED
        is_nested = is_skipped or self._worktree.is_repository(folder)
        return str(SkipReason.NESTED) if is_nested else None

    # -- what is in the way

    def leave_blocked(self) -> None:
        """Take out the writes that something stands in the way of which nobody holds."""
        removed = {action.path for action in self._actions if action.after is None}
        folded = {path.lower(): path for path in removed}
        settled = set()
        for action in self._actions:
            if action.after is None:
                continue
            try:
                obstacles = self._obstacles_to(action, removed, folded)
                if obstacles == [action.path] and self._is_as_wanted(action):
                    settled.add(action.path)
                elif obstacles:
                    self._obstacles.update(obstacles)
                    self._blocked[action.path] = self._why_unheld(obstacles[0])
            except PermissionError:
                self._blocked[action.path] = _UNREADABLE
        done = self._blocked.keys() | settled

        def in_vain(path: bytes) -> bool:
            """Nothing is given up for a path that stays blocked all the same."""
            is_blocked = any(folder in self._blocked for folder in folders_above(path))
            return path in self._given_up and is_blocked

        self._actions = [a for a in self._actions if a.path not in done and not in_vain(a.path)]

    def _is_as_wanted(self, action: Action) -> bool:
        """True of a file that nobody holds and that need not change: ignored now, not then."""
        status = self._worktree.lstat(action.path)
        try:
            found = status and look(self._objects, self._worktree, action.path, status)
        except OSError:
            return False
        return found == action.after

    def _obstacles_to(
        self, action: Action, removed: set[bytes], folded: Mapping[bytes, bytes]
    ) -> list[bytes]:
        """What would be lost, or stops the write, if the path were written now."""
        worktree, path = self._worktree, action.path
        parent = worktree.in_the_way(path)
        if parent is not None:
            return [] if parent in removed else [parent]
        status = None if action.before is not None else worktree.lstat(path)
        if status is None:
            return []
        if stat.S_ISDIR(status.st_mode):
            return [*self._unheld_below(path, removed.union(self._present.empty_folders))]
        other = folded.get(path.lower())  # where case does not count, it may be the same file
        found = None if other is None else worktree.lstat(other)
        is_same = found is not None and os.path.samestat(status, found)
        return [] if is_same else [path]

    def _unheld_below(self, top: bytes, held: set[bytes]) -> Iterator[bytes]:
        """What a folder holds, itself included, that the plan cannot take away."""
        todo = [top]
        while todo:
            path = todo.pop()
            is_folder = self._worktree.folder_permissions(path) is not None
            names = self._worktree.names(path) if is_folder else []
            is_git_dir = IN_GIT_DIR.issubset(names) and path + b"/HEAD" not in held
            if is_git_dir or any(name.lower() == b".git" for name in names):
                yield path  # another repository, or what looks like one
            elif names:
                todo += (path + b"/" + name for name in sorted(names, reverse=True))
            elif path not in held:
                yield path

    def _why_unheld(self, obstacle: bytes) -> str:
        """Why the present says nothing about what is on disk."""
        if self._worktree.is_git_dir(obstacle):
            return GIT_DIR
        for path in (obstacle, *folders_above(obstacle)):
            if path in self._present.skipped:
                return str(self._present.skipped[path])
            if self._present.entry(path) is not None:
                return IN_THE_WAY
        return "ignored"

    # -- folders

    def plan_folders(self) -> None:
        """Empty folders to make, those that removals leave empty, and permission bits.

        A submodule that is not initialised is an empty folder, without which git takes it for
        deleted.
        """
        present, target = self._present, self._target
        writes = {action.path for action in self._actions if action.after is not None}
        removals = [action.path for action in self._actions if action.after is None]
        wanted = self._hollow.union(target.manifest.empty_folders)
        missing = sorted(filter(self._is_asked, wanted.difference(present.empty_folders)))
        closed = self._in_repositories(missing)
        for folder in missing:
            try:
                is_there = self._worktree.folder_permissions(folder) is not None
            except PermissionError:
                self._blocked[folder] = _UNREADABLE
                continue
            if not is_there and folder not in closed:
                self._make_folders.append(folder)
        needed = wanted | folders_of(wanted) | folders_of(writes)
        for folder in set(present.empty_folders) - needed:
            is_replaced = not writes.isdisjoint((folder, *folders_above(folder)))
            is_gone = is_replaced or target.left_out(folder, is_folder=True) is None
            if self._is_asked(folder) and is_gone:
                self._doomed.add(folder)
        emptied = self._doomed | folders_of(removals) | folders_of(self._doomed)
        self._remove_folders = sorted(emptied - needed, key=len, reverse=True)
        self._plan_bits(writes)

    def _plan_bits(self, writes: Collection[bytes]) -> None:
        """The bits of folders: of those that differ, of those that are made or removed, and of
        those that must be opened to their owner for as long as something in them changes."""
        present, then = self._present, self._then
        made, gone = self._make_folders, self._remove_folders
        after: dict[bytes, int | None] = {}
        changing = (*(action.path for action in self._actions), *made, *gone)
        for folder in {path.rpartition(b"/")[0] for path in changing}:
            bits = present.bits(folder)
            if bits is not None and bits & OPEN != OPEN:
                after[folder] = bits
        after |= dict.fromkeys(folder for folder in gone if present.bits(folder) is not None)
        for folder in folders_of(writes) | folders_of(made) | set(made):
            if present.bits(folder) is None and self._worktree.folder_permissions(folder) is None:
                after[folder] = then.of_folder(folder)
        differing = {*self._differing_folders()}
        unread = differing & self._unread_folders() if differing else set()
        after |= {folder: then.of_folder(folder) for folder in differing - unread}
        self._folders = tuple(
            FolderChange(folder, present.bits(folder), bits)
            for folder, bits in sorted(after.items())
        )
        self._blocked |= dict.fromkeys(unread, _UNREADABLE)

    def _differing_folders(self) -> Iterator[bytes]:
        """Folders that both states have, with different bits."""
        present, now, then = self._present, self._now, self._then
        if then.folder is None:
            return
        usual = now.folder == then.folder
        for folder in now.folders.keys() | then.folders.keys() if usual else present.folders:
            bits = present.bits(folder)
            if bits in (None, then.of_folder(folder)) or not self._target.has_folder(folder):
                continue
            skipped = (place in present.skipped for place in (folder, *folders_above(folder)))
            if self._is_asked(folder) and not any(skipped):
                yield folder

    def _unread_folders(self) -> set[bytes]:
        """Folders that hold something, none of which is in the present checkpoint: from that, no
        undo could tell that they were there."""
        present = self._present
        skipped = present.skipped.items()
        unread = folders_of(path for path, why in skipped if why is SkipReason.UNREADABLE)
        if unread:
            held = present.entries.keys() - present.absent.keys()
            unread -= folders_of((*held, *present.empty_folders))
        return unread


def _mode(entry: TreeEntry | None) -> int | None:
    return None if entry is None else entry.mode


def is_file(worktree: Worktree, path: bytes) -> bool:
    """Whether anything but a folder is at a path."""
    try:
        status = worktree.lstat(path)
    except PermissionError:
        return False
    return status is not None and not stat.S_ISDIR(status.st_mode)
