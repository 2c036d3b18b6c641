# SPDX-License-Identifier: MIT
"""How it stands with a worktree: its checkpoints, its triggers, and what is wrong.

Gathered from refs, commits and private files; no file of the worktree is looked at, so it
is quick however large that is. What triggers are installed is found out by `install` and
passed in. Left out: whether a trigger would work now, which takes trying it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ckpt.engine.catalog import Catalog
from ckpt.engine.gc import have_piled_up
from ckpt.engine.journal import ABORT, CONTINUE
from ckpt.engine.space import Held, held
from ckpt.errors import CkptError
from ckpt.git.operation import in_progress
from ckpt.git.refs import branch_name
from ckpt.git.repository import Repository
from ckpt.git.trigger_log import TriggerLog, TriggerNotes
from ckpt.locks import is_interrupted, running_rollback
from ckpt.models import INSTALLED, REPLACED, Checkpoint, Finding, GitState, Kind
from ckpt.settings.settings import Settings, disabled_by_env, load_forgiving
from ckpt.settings.sources import EVERY_TRIGGER, TRIGGERS


class TriggerStatus(NamedTuple):
    """`finding` is what `install` says of it, if anything; `off` what turns it off."""

    name: str
    finding: Finding | None
    off: str | None
    notes: TriggerNotes

    @property
    def is_known(self) -> bool:
        """Whether there is more to say than that it was never installed."""
        was_there = self.finding is not None and self.finding.state in (INSTALLED, REPLACED)
        return was_there or self.notes != TriggerNotes()


class Footprint(NamedTuple):
    """The private files of a worktree, and those it shares with others."""

    files: int
    size: int


class Status(NamedTuple):
    """`newest` and `oldest` are of this worktree, `elsewhere` counts those of other ones, and
    `unreadable` those whose ref names no checkpoint, or a damaged one. `refs` are all of ours,
    `foreign_refs` those of other tools below refs/checkpoints/.

    `held` is how much space they take, if that can be told at once, and `piled_up`
    whether `gc` would help.
    `notes` say which settings are not followed, and why. `others` are findings of `install`
    that are about no trigger. `ways_out` are the commands that end an interrupted rollback,
    and `rollback_running` is the process that is at one.
    """

    worktree: str
    worktree_id: str
    git_dir: str
    head: GitState
    operation: str | None
    rollback_interrupted: bool
    kinds: Mapping[Kind, int]
    newest: Checkpoint | None
    oldest: Checkpoint | None
    elsewhere: int
    unreadable: int
    trash: int
    refs: int
    foreign_refs: int
    footprint: Footprint
    held: Held | None
    piled_up: bool
    notes: tuple[str, ...]
    triggers: tuple[TriggerStatus, ...]
    others: tuple[Finding, ...]
    ways_out: tuple[str, ...] = (CONTINUE, ABORT)
    rollback_running: str | None = None

    @property
    def here(self) -> int:
        return sum(self.kinds.values())

    @property
    def failing(self) -> tuple[TriggerStatus, ...]:
        return tuple(trigger for trigger in self.triggers if trigger.notes.is_failing)


def look(repo: Repository, findings: Sequence[Finding]) -> Status:
    settings = load_forgiving(repo)
    head = repo.refs.head()
    operation = in_progress(repo.git_dir)
    catalog = Catalog(repo)
    every, refs, trash = [*catalog], len(catalog.ids()), len(repo.refs.trash())
    here = [found for found in every if found.worktree == repo.worktree_id]
    return Status(
        worktree=repo.worktree,
        worktree_id=repo.worktree_id,
        git_dir=repo.git_dir,
        head=GitState(None if head.commit is None else head.commit.decode(), branch_name(head)),
        operation=None if operation is None else operation.name,
        rollback_interrupted=is_interrupted(repo.private_dir),
        kinds=_counted(here),
        newest=here[0] if here else None,
        oldest=here[-1] if here else None,
        elsewhere=len(every) - len(here),
        unreadable=refs - len(every),
        trash=trash,
        refs=refs + trash,
        foreign_refs=repo.refs.foreign(),
        footprint=_footprint(repo),
        held=held(repo),
        piled_up=have_piled_up(repo),
        notes=settings.notes,
        triggers=tuple(_triggers(repo, settings, findings)),
        others=tuple(found for found in findings if found.trigger not in TRIGGERS),
        ways_out=_ways_out(repo),
        rollback_running=running_rollback(repo.private_dir),
    )


def _ways_out(repo: Repository) -> tuple[str, ...]:
    if not is_interrupted(repo.private_dir):
        return ()
    from ckpt.engine import journal
    from ckpt.engine.recovery import open_ways

    try:
        return open_ways(repo, journal.read(repo.private_dir))
    except CkptError:  # either way then tells why it cannot be read
        return CONTINUE, ABORT


def _counted(checkpoints: Sequence[Checkpoint]) -> dict[Kind, int]:
    kinds = [checkpoint.kind for checkpoint in checkpoints]
    return {kind: kinds.count(kind) for kind in Kind}


def _triggers(
    repo: Repository, settings: Settings, findings: Sequence[Finding]
) -> Iterator[TriggerStatus]:
    log = TriggerLog(repo.private_dir, TRIGGERS)
    found = {finding.trigger: finding for finding in findings}
    for name in TRIGGERS:
        off = _turned_off_by(name, repo, settings)
        yield TriggerStatus(name, found.get(name), off, log.read(name))


def _turned_off_by(trigger: str, repo: Repository, settings: Settings) -> str | None:
    if disabled_by_env(repo.env, trigger):
        return "CKPT_DISABLE"
    if not settings.enabled:
        return "ckpt.enabled"
    if {EVERY_TRIGGER, trigger}.isdisjoint(settings.disable):
        return None
    return "ckpt.disable"


def _footprint(repo: Repository) -> Footprint:
    folders = dict.fromkeys((repo.private_dir, os.path.join(repo.common_dir, "ckpt")))
    sizes = [size for folder in folders for size in _sizes(folder)]
    return Footprint(len(sizes), sum(sizes))


def _sizes(folder: str) -> Iterator[int]:
    """The sizes of all files in a private folder, as far as they can be seen."""
    try:
        children = [*os.scandir(folder)]
    except OSError:
        return
    for child in children:
        try:
            if child.is_dir(follow_symlinks=False):
                yield from _sizes(child.path)
            else:
                yield child.stat(follow_symlinks=False).st_size
        except OSError:  # it is gone by now
            continue
