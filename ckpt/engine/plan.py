# SPDX-License-Identifier: MIT
"""Plan a rollback: from two states to the paths to write, remove, keep and leave.

Decides and touches nothing, so that a dry run is the same code as the real one. The
rules that keep people's files are all here:

- only what the present checkpoint holds may be replaced or removed;
- a file that the target does not hold because it was ignored or left out then is kept;
- what stands in the way and is held nowhere (ignored, denied, oversize, unreadable,
  nested) is left and listed;
- submodules are never touched, except for the folder of one in which there is nothing, nor is
  anything in other repositories and their git dirs, wherever they lie, but files that are tracked
  here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ckpt.engine.apply import look
from ckpt.engine.capture import Present
from ckpt.engine.changes import Action, FolderChange
from ckpt.engine.conversions import write_raw
from ckpt.engine.folders import folders_needed, plan_permissions, unread_folders
from ckpt.engine.nested import SUBMODULE
from ckpt.engine.recorded import Recorded, file_state
from ckpt.engine.sessions import NO_FILE, Content, SessionState, Write
from ckpt.errors import UsageError
from ckpt.git.formats import ObjectID
from ckpt.git.objects import ObjectStore
from ckpt.git.trees import GITLINK, TreeEntry, diff_trees
from ckpt.models import Checkpoint, SkipReason
from ckpt.paths import IN_GIT_DIR, folders_above, folders_of, is_within, to_bytes
from ckpt.worktree.modes import Modes
from ckpt.worktree.write import Worktree

NOT_WRITTEN = "not written by the agent"
EDITED = "edited since the agent wrote it"
REMOVED = "removed since the agent wrote it"
MADE_BEFORE = "made by somebody else before the agent wrote it"
UNREADABLE = "unreadable"
IN_ITS_PLACE = "what is in its place is kept"

# A limit that no path is within: where all is kept, nothing may change.
NOWHERE = (b"/",)


@dataclass(frozen=True, slots=True)
class Decision:
    """The paths that go back, and why the others stay as they are."""

    back: frozenset[bytes]
    kept: dict[bytes, str]

    @property
    def limits(self) -> tuple[bytes, ...]:
        return tuple(sorted(self.back)) or NOWHERE


def session_of(target: Checkpoint, named: str | None, usual: str | None = None) -> str:
    """Whose writes count: those of a session that is named, of the checkpoint's, or the usual."""
    session = named or target.session or usual
    if session is None:
        raise UsageError(
            f"checkpoint '{target.id}' belongs to no session, so nobody knows what an agent wrote",
            hint="name the session with --session, or roll back without --keep-edits",
        )
    return session


def ledger_of(
    private_dir: str, target: Checkpoint, named: str | None, usual: str | None = None
) -> Mapping[bytes, Write]:
    return SessionState(private_dir, session_of(target, named, usual)).writes()


def decide(
    changing: Collection[bytes],
    ledger: Mapping[bytes, Write],
    look: Callable[[bytes], Content],
    always: Iterable[bytes] = (),
    going: Collection[bytes] = (),
) -> Decision:
    """`changing` are the paths that a rollback would touch, `going` those of them that it would
    remove; `look` tells what is there now.

    Paths of `always` go back whoever changed them. A path that does not change may go back
    all the same: it can be staged otherwise.
    """
    back, kept = set(always), {}
    for path in {*changing, *ledger.keys()} - back:
        write = ledger.get(path)
        reason = NOT_WRITTEN if write is None else _reason(write, path, look)
        if reason is None and write is not None and write.created is False and path in going:
            reason = MADE_BEFORE
        if reason is None:
            back.add(path)
        elif path in changing:
            kept[path] = reason
    for path in [*kept]:
        for folder in back.intersection(folders_above(path)):  # a file was there, or is to be
            back.remove(folder)
            if folder in changing:
                kept[folder] = IN_ITS_PLACE
    return Decision(frozenset(back), kept)


def _reason(write: Write, path: bytes, look: Callable[[bytes], Content]) -> str | None:
    """Why a path stays that the agent has written; None if it goes back."""
    try:
        now = look(path)
    except OSError:
        return UNREADABLE
    if now == write.content:
        return None
    return REMOVED if now == NO_FILE else EDITED


# -- Plan a rollback: from two states to the paths to write, remove, keep and leave

IN_THE_WAY = "in the way"
GIT_DIR = "inside a git dir"


@dataclass(slots=True)
class Plan:
    """`kept` differ from the target and stay; `blocked` could not be put in place.

    `doomed` are the empty ones of `remove_folders`; the others are left empty by removals.
    `differing` are all paths that are not the same in both states, also where nothing is done.
    `hollow` are submodules of the target with nothing in them, which are not there now.
    """

    actions: list[Action] = field(default_factory=list)
    kept: dict[bytes, str] = field(default_factory=dict)
    blocked: dict[bytes, str] = field(default_factory=dict)
    obstacles: set[bytes] = field(default_factory=set)
    make_folders: list[bytes] = field(default_factory=list)
    remove_folders: list[bytes] = field(default_factory=list)
    doomed: set[bytes] = field(default_factory=set)
    folders: tuple[FolderChange, ...] = ()
    differing: set[bytes] = field(default_factory=set)
    hollow: set[bytes] = field(default_factory=set)

    @property
    def removals(self) -> list[Action]:
        return [action for action in self.actions if action.after is None]

    @property
    def writes(self) -> list[Action]:
        return [action for action in self.actions if action.after is not None]

    def leave(self, reasons: Mapping[bytes, str]) -> None:
        """Do nothing at these paths, nor to what would have to make room for them."""
        if not reasons:
            return
        self.blocked |= reasons

        def is_left(path: bytes) -> bool:
            return any(place in reasons for place in (path, *folders_above(path)))

        self.actions = [action for action in self.actions if not is_left(action.path)]

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
    plan = Plan()
    now, then = present.modes, target.manifest.modes
    for path, before, after in _differences(present, present_tree, target, objects, now):
        plan.differing.add(path)
        if limits and not is_within(path, limits):
            continue
        if GITLINK in (_mode(before), _mode(after)):
            plan.kept[path] = SUBMODULE
            if before is None and path not in target.repositories:
                plan.hollow.add(path)
            continue
        reason = target.left_out(path) if after is None and path not in given_up else None
        if reason is not None:
            plan.kept[path] = f"{reason} at the checkpoint"
            continue
        here = file_state(path, before, now, present.converted.get(path))
        there = file_state(path, after, then, target.converted(path, after))
        if here != there:  # else they differ only in what git calls them
            plan.actions.append(Action(path, here, there))
    if target.state_files:
        from ckpt.engine import state as state_files

        state_files.extend(plan, present, target, worktree, limits)
    plan.actions.sort(key=lambda action: action.path)
    in_others = in_repositories(
        [action.path for action in plan.actions], present, worktree, undone | _shared(target)
    )
    plan.leave(in_others)
    _block(plan, present, objects, worktree, given_up)
    _plan_folders(plan, present, target, worktree, limits)
    plan.folders = plan_permissions(
        present,
        now,
        target,
        worktree,
        limits,
        changing=[*(a.path for a in plan.actions), *plan.make_folders, *plan.remove_folders],
        needed=folders_needed((action.path for action in plan.writes), plan.make_folders),
        doomed=plan.remove_folders,
    )
    unread = unread_folders(present, now, target, limits)
    plan.blocked |= dict.fromkeys(unread, str(SkipReason.UNREADABLE))
    return plan


def _mode(entry: TreeEntry | None) -> int | None:
    return None if entry is None else entry.mode


def _differences(
    present: Present, present_tree: ObjectID, target: Recorded, objects: ObjectStore, now: Modes
) -> Iterator[tuple[bytes, TreeEntry | None, TreeEntry | None]]:
    """Paths whose entry differs, then those where only permission bits do."""
    seen = set()
    then = target.manifest.modes
    for path, before, after in _tree_differences(present, present_tree, target, objects):
        seen.add(path)
        here = None if path in present.absent else before
        there = None if path in target.absent else after
        if here is not None or there is not None:
            yield path, here, there
    seen |= present.absent.keys()
    for path in _candidates_for_bits(present, now, then):
        entry = present.entry(path)
        if path not in seen and file_state(path, entry, now) != file_state(path, entry, then):
            yield path, entry, entry


def _tree_differences(
    present: Present, present_tree: ObjectID, target: Recorded, objects: ObjectStore
) -> Iterator[tuple[bytes, TreeEntry | None, TreeEntry | None]]:
    """Where the trees differ; where only the bytes on disk do, converted in another way; and
    where a file is on disk in one state only, because a sparse checkout leaves it out."""
    seen = set()
    for change in diff_trees(objects, present_tree, target.tree, present.trees):
        seen.add(change[0])
        yield change
    others = present.absent.keys() ^ target.absent
    raw = write_raw(objects, present.converted)
    others |= {path for path, _, _ in diff_trees(objects, raw, target.raw_files.tree)}
    for path in sorted(others - seen):
        entry = present.entry(path)
        yield path, entry, entry


def _candidates_for_bits(present: Present, now: Modes, then: Modes) -> Iterable[bytes]:
    if (then.plain, then.executable) == (now.plain, now.executable):
        return then.others.keys() | now.others.keys()
    return present.entries


def _block(
    plan: Plan,
    present: Present,
    objects: ObjectStore,
    worktree: Worktree,
    given_up: frozenset[bytes],
) -> None:
    """Take out the writes that something stands in the way of which nobody holds."""
    removed = _Removed(action.path for action in plan.removals)
    settled = set()
    for action in plan.writes:
        try:
            obstacles = _obstacles(action, removed, present, worktree)
        except PermissionError:
            plan.blocked[action.path] = str(SkipReason.UNREADABLE)
            continue
        if obstacles == [action.path] and _is_as_wanted(action, objects, worktree):
            settled.add(action.path)
        elif obstacles:
            plan.obstacles.update(obstacles)
            plan.blocked[action.path] = why_unheld(obstacles[0], present, worktree)

    def in_vain(action: Action) -> bool:
        """Nothing is given up for a path that stays blocked all the same."""
        above = folders_above(action.path)
        return action.path in given_up and any(folder in plan.blocked for folder in above)

    done = plan.blocked.keys() | settled
    plan.actions = [a for a in plan.actions if a.path not in done and not in_vain(a)]


def _is_as_wanted(action: Action, objects: ObjectStore, worktree: Worktree) -> bool:
    """True of a file that nobody holds and that need not change: ignored now, but not then."""
    status = worktree.lstat(action.path)
    try:
        return status is not None and look(objects, worktree, action.path, status) == action.after
    except OSError:
        return False


def in_repositories(
    paths: Collection[bytes],
    present: Present,
    worktree: Worktree,
    ours: Collection[bytes] = (),
) -> dict[bytes, str]:
    """Those of some paths that lie in another repository by now, and in what. Of a nested one, or
    its git dir, only files that are tracked here, or are `ours`, may change."""
    found = {folder: _repository_at(folder, present, worktree) for folder in folders_of(paths)}
    inside = {
        path: around
        for path in paths
        if (around := next(filter(None, map(found.get, folders_above(path))), None)) is not None
    }
    tracked = {entry.path for entry in present.staged_at(inside.keys())}.union(ours)
    return {p: around for p, around in inside.items() if around == SUBMODULE or p not in tracked}


def _shared(target: Recorded) -> frozenset[bytes]:
    """What was tracked inside a repository that was there then. One that was made since has all
    that it holds to itself."""
    nested = {to_bytes(state.path) for state in target.manifest.nested}
    if not nested or target.is_foreign:
        return frozenset()
    paths = (entry.path for entry in target.index.entries)
    return frozenset(path for path in paths if not nested.isdisjoint(folders_above(path)))


def _repository_at(folder: bytes, present: Present, worktree: Worktree) -> str | None:
    """What a folder is, if it is a repository. It is looked at on disk, since no scan enters a
    folder that is ignored or denied."""
    if _mode(present.entry(folder)) == GITLINK and _is_initialised(folder, present):
        return SUBMODULE
    is_skipped = present.skipped.get(folder) is SkipReason.NESTED
    return str(SkipReason.NESTED) if is_skipped or worktree.is_repository(folder) else None


def _is_initialised(submodule: bytes, present: Present) -> bool:
    return any(to_bytes(state.path) == submodule for state in present.nested)


def why_unheld(obstacle: bytes, present: Present, worktree: Worktree) -> str:
    """Why the present says nothing about what is on disk."""
    if worktree.is_git_dir(obstacle):
        return GIT_DIR
    for path in (obstacle, *folders_above(obstacle)):
        if path in present.skipped:
            return str(present.skipped[path])
        if present.entry(path) is not None:
            return IN_THE_WAY
    return "ignored"


class _Removed(set[bytes]):
    """The paths that a plan removes."""

    @cached_property
    def by_folded(self) -> dict[bytes, list[bytes]]:
        """The same by their names in small letters."""
        found: dict[bytes, list[bytes]] = {}
        for path in self:
            found.setdefault(path.lower(), []).append(path)
        return found


def _obstacles(
    action: Action, removed: _Removed, present: Present, worktree: Worktree
) -> list[bytes]:
    """What would be lost, or stops the write, if the path were written now."""
    parent = worktree.in_the_way(action.path)
    if parent is not None:
        return [] if parent in removed else [parent]
    if action.before is not None:
        return []
    status = worktree.lstat(action.path)
    if status is None:
        return []
    if stat.S_ISDIR(status.st_mode):
        held = removed.union(present.empty_folders)
        return list(_unheld_below(action.path, held, worktree))
    goes = _goes_by_another_name(action.path, status, removed, worktree)
    return [] if goes else [action.path]


def _goes_by_another_name(
    path: bytes, status: os.stat_result, removed: _Removed, worktree: Worktree
) -> bool:
    """Where case does not count, the file at a path may be one that the plan removes."""
    others = map(worktree.lstat, removed.by_folded.get(path.lower(), ()))
    return any(other is not None and os.path.samestat(status, other) for other in others)


def _unheld_below(top: bytes, held: set[bytes], worktree: Worktree) -> Iterator[bytes]:
    """What a folder holds, itself included, that the plan cannot take away."""
    todo = [top]
    while todo:
        path = todo.pop()
        status = worktree.lstat(path)
        is_folder = status is not None and stat.S_ISDIR(status.st_mode)
        names = worktree.names(path) if is_folder else []
        is_git_dir = IN_GIT_DIR.issubset(names) and path + b"/HEAD" not in held
        if is_git_dir or any(name.lower() == b".git" for name in names):
            yield path  # another repository, or what looks like one
        elif names:
            todo += (path + b"/" + name for name in sorted(names, reverse=True))
        elif path not in held:
            yield path


def _plan_folders(
    plan: Plan, present: Present, target: Recorded, worktree: Worktree, limits: tuple[bytes, ...]
) -> None:
    """Empty folders to make, and folders that removals leave empty to take away.

    A submodule that is not initialised is an empty folder, without which git takes it for deleted.
    """
    wanted = plan.hollow.union(target.manifest.empty_folders)
    missing = sorted(wanted - set(present.empty_folders))
    closed = in_repositories(missing, present, worktree)
    for folder in missing:
        if limits and not is_within(folder, limits):
            continue
        try:
            is_there = worktree.folder_permissions(folder) is not None
        except PermissionError:
            plan.blocked[folder] = str(SkipReason.UNREADABLE)
            continue
        if not is_there and folder not in closed:
            plan.make_folders.append(folder)
    needed = wanted | folders_of(wanted) | folders_of(action.path for action in plan.writes)
    files = {action.path for action in plan.writes}
    doomed = plan.doomed = {
        folder
        for folder in present.empty_folders
        if folder not in needed
        and (not limits or is_within(folder, limits))
        and (
            target.left_out(folder, is_folder=True) is None
            or not files.isdisjoint((folder, *folders_above(folder)))
        )
    }
    emptied = folders_of(action.path for action in plan.removals) | folders_of(doomed)
    plan.remove_folders = sorted((doomed | emptied) - needed, key=len, reverse=True)
