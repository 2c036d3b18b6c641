# SPDX-License-Identifier: MIT
"""The journal: what makes a rollback that died resumable, in either direction.

Written and flushed before the first file changes, removed after the last. It names the
target and the safety checkpoint and lists, path by path, what was and what shall be,
so that recovery needs no decision anew: ignore rules on disk may be half restored. A
checksum stands before it: half of a journal, or a wrong one, is worse than none.

Beside it lies `last-rollback`, the memory that `undo` reads.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from ckpt import disk, jsontext
from ckpt.disk import LARGE
from ckpt.engine.changes import (
    Action,
    FolderChange,
    HeadMove,
    dump_action,
    dump_folder,
    dump_move,
    load_action,
    load_folder,
    load_move,
)
from ckpt.errors import Refused
from ckpt.git.reachability import git_dirs, in_worktree, worktree_of
from ckpt.git.repository import Repository
from ckpt.paths import from_json, to_json


@dataclass(frozen=True, slots=True)
class WorktreePlace:
    """`path` leads from the git dir to the top of the worktree."""

    path: bytes
    device: int
    inode: int


def place_of(repo: Repository) -> WorktreePlace:
    status = os.stat(repo.worktree)
    path = os.path.relpath(repo.worktree, repo.git_dir)
    return WorktreePlace(os.fsencode(path), status.st_dev, status.st_ino)


def check_place(repo: Repository, then: WorktreePlace | None, command: str) -> None:
    """Refuse what belongs into another worktree, and say how to do it there. An older ckpt did
    not note the place."""
    folder = None if then is None else _elsewhere(repo, then)
    if folder is not None:
        from shlex import quote  # for a hint that few see

        raise Refused(
            f"the rollback took place in '{folder}', not in this worktree",
            hint=command.replace("git ", f"git --work-tree={quote(folder)} ", 1),
        )


def _elsewhere(repo: Repository, then: WorktreePlace) -> str | None:
    now = place_of(repo)
    if then.path == now.path or (then.device, then.inode) == (now.device, now.inode):
        return None
    folder = os.path.normpath(os.path.join(repo.git_dir, os.fsdecode(then.path)))
    return folder if os.path.isdir(folder) else None


def dump_place(place: WorktreePlace | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return to_json(place.path) | {"device": place.device, "inode": place.inode}


def load_place(document: dict[str, Any] | None) -> WorktreePlace | None:
    if document is None:
        return None
    return WorktreePlace(from_json(document), int(document["device"]), int(document["inode"]))


# -- Whether a rollback is under way, or died, in a worktree, and whether agents were at work

JOURNAL, SESSIONS = "journal", "sessions"
FINISH, TAKE_BACK = "git ckpt rollback --continue", "git ckpt rollback --abort"


def journal_exists(private_dir: str) -> bool:
    return os.path.lexists(os.path.join(private_dir, JOURNAL))


def is_hidden(private_dir: str) -> bool:
    """Whether nobody can tell, as it is another user's."""
    try:
        os.lstat(os.path.join(private_dir, JOURNAL))
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def journal_size(private_dir: str) -> int:
    """In bytes; zero if there is none."""
    try:
        return os.lstat(os.path.join(private_dir, JOURNAL)).st_size
    except OSError:
        return 0


def running_rollback(private_dir: str) -> str | None:
    """The process that is rolling back this worktree, in words; None if none is."""
    if not journal_exists(private_dir):
        return None
    from ckpt.locks import who_is_alone

    return who_is_alone(private_dir)


def is_interrupted(private_dir: str) -> bool:
    """Whether a rollback died here. One that is at work, or ends at this moment, did not."""
    is_dead = journal_exists(private_dir) and running_rollback(private_dir) is None
    return is_dead and journal_exists(private_dir)


def has_sessions(private_dir: str) -> bool:
    return os.path.isdir(os.path.join(private_dir, SESSIONS))


# -- The journal: what makes a rollback that died resumable, in either direction

_LAST = "last-rollback"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Journal:
    """A rollback that has begun: from the safety checkpoint's state to the target's.

    `index`, `operation` and `head` are what changes; `asked_…` is what the user asked for,
    which is what an undo will ask for in turn. `unstaged` are the paths of the target's index
    that stay out of it, with the reasons; `kept` and `blocked` are those of the plan, which
    whoever finishes it has to tell. `family` is the name of the files that it begins to write.
    The commits are those that target and safety checkpoint had; an older ckpt did not note them.
    `edits` is the checkpoint that a recovery made of what it found, and was interrupted in turn.
    `worktree` is the one that goes back, which an older ckpt did not note either.
    """

    target: str
    safety: str
    paths: tuple[bytes, ...]
    actions: tuple[Action, ...]
    make_folders: tuple[bytes, ...] = ()
    remove_folders: tuple[bytes, ...] = ()
    folders: tuple[FolderChange, ...] = ()
    index: bool = True
    unstaged: Mapping[bytes, str] = field(default_factory=dict)
    kept: Mapping[bytes, str] = field(default_factory=dict)
    blocked: Mapping[bytes, str] = field(default_factory=dict)
    operation: bool = False
    head: HeadMove | None = None
    asked_index: bool = True
    asked_head: bool = False
    asked_overwrite: bool = False
    asked_trust: bool = False
    family: str | None = None
    target_commit: str | None = None
    safety_commit: str | None = None
    edits: str | None = None
    edits_commit: str | None = None
    worktree: WorktreePlace | None = None

    @property
    def name(self) -> bytes:
        """By which the files are known that the rollback has begun to write."""
        return (self.family or "").encode()


@dataclass(frozen=True, slots=True)
class LastRollback:
    """The last rollback that finished here, and how `undo` takes it back.

    `created` are the files that it put where there were none, `replaced` those it put in
    the place of others. The commits are those that target and safety checkpoint had; an older
    ckpt did not note them.
    """

    target: str
    safety: str
    paths: tuple[bytes, ...] = ()
    index: bool = True
    head: bool = False
    overwrite: bool = False
    created: tuple[bytes, ...] = ()
    replaced: tuple[bytes, ...] = ()
    move: HeadMove | None = None
    target_commit: str | None = None
    safety_commit: str | None = None
    worktree: WorktreePlace | None = None


def exists(private_dir: str) -> bool:
    return journal_exists(private_dir)


class NewerJournal(Refused):
    """A newer ckpt wrote it, and can go on with it."""


class Doubtful(Refused):
    """Another user could have written it, and whoever did decides on files and branches."""

    def __init__(self, why: str, command: str) -> None:
        super().__init__(
            f"{why}, so it is not believed",
            hint=f"if nobody else has written there: {command}",
        )


def write(private_dir: str, journal: Journal) -> None:
    _store(private_dir, JOURNAL, dump(private_dir, journal))


def dump(private_dir: str, journal: Journal) -> dict[str, Any]:
    """All that `write` would store there."""
    return {
        "format": FORMAT,
        "target": journal.target,
        "safety": journal.safety,
        "target_commit": journal.target_commit,
        "safety_commit": journal.safety_commit,
        "edits": journal.edits,
        "edits_commit": journal.edits_commit,
        "paths": [to_json(path) for path in journal.paths],
        "actions": [dump_action(action) for action in journal.actions],
        "make_folders": [to_json(path) for path in journal.make_folders],
        "remove_folders": [to_json(path) for path in journal.remove_folders],
        "folders": [dump_folder(change) for change in journal.folders],
        "index": journal.index,
        "unstaged": _dump_reasons(journal.unstaged),
        "kept": _dump_reasons(journal.kept),
        "blocked": _dump_reasons(journal.blocked),
        "operation": journal.operation,
        "head": dump_move(journal.head),
        "asked_index": journal.asked_index,
        "asked_head": journal.asked_head,
        "asked_overwrite": journal.asked_overwrite,
        "asked_trust": journal.asked_trust,
        "family": journal.family,
        "last": _last(private_dir),
        "worktree": dump_place(journal.worktree),
    }


def note_edits(private_dir: str, edits: str, commit: str) -> None:
    """Note a checkpoint of what a recovery has found."""
    document = _fetch(private_dir, JOURNAL)
    document["edits"], document["edits_commit"] = edits, commit
    _store(private_dir, JOURNAL, document)


def read(private_dir: str) -> Journal:
    """The journal that is there; refuses one that it cannot read."""
    document = _fetch(private_dir, JOURNAL)
    if document is None:
        raise Refused("no rollback was interrupted in this worktree", hint="git ckpt list")
    return load(document)


def load(document: dict[str, Any]) -> Journal:
    try:
        if document["format"] != FORMAT:
            _check_newer(document["format"])
            raise ValueError(f"format {document['format']}")
        return Journal(
            target=str(document["target"]),
            safety=str(document["safety"]),
            paths=tuple(map(from_json, document["paths"])),
            actions=tuple(map(load_action, document["actions"])),
            make_folders=tuple(map(from_json, document["make_folders"])),
            remove_folders=tuple(map(from_json, document["remove_folders"])),
            folders=tuple(map(load_folder, document["folders"])),
            index=bool(document["index"]),
            unstaged=_load_reasons(document, "unstaged"),
            kept=_load_reasons(document, "kept"),
            blocked=_load_reasons(document, "blocked"),
            operation=bool(document["operation"]),
            head=load_move(document["head"]),
            asked_index=bool(document["asked_index"]),
            asked_head=bool(document["asked_head"]),
            asked_overwrite=bool(document["asked_overwrite"]),
            asked_trust=bool(document.get("asked_trust")),  # the first ones did not have it
            family=jsontext.text_or_none(document["family"]),
            target_commit=jsontext.text_or_none(document.get("target_commit")),
            safety_commit=jsontext.text_or_none(document.get("safety_commit")),
            edits=jsontext.text_or_none(document.get("edits")),
            edits_commit=jsontext.text_or_none(document.get("edits_commit")),
            worktree=load_place(document.get("worktree")),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(error) from None


def _dump_reasons(paths: Mapping[bytes, str]) -> list[dict[str, str]]:
    return [to_json(path) | {"reason": reason} for path, reason in paths.items()]


def _load_reasons(document: dict[str, Any], name: str) -> dict[bytes, str]:
    """Paths with reasons; an older ckpt did not note all of them."""
    return {from_json(item): str(item["reason"]) for item in document.get(name, ())}


def remove(private_dir: str) -> None:
    disk.remove(os.path.join(private_dir, JOURNAL))


def take_back(private_dir: str) -> None:
    """The rollback never was: `undo` means what it meant before, and the journal goes."""
    last = _fetch(private_dir, JOURNAL).get("last")
    if last is None:
        disk.remove(os.path.join(private_dir, _LAST))
    elif last != _last(private_dir):
        _store(private_dir, _LAST, last)
    remove(private_dir)


def check_memory(private_dir: str) -> None:
    """Refuse to begin a rollback that could not be remembered in the end."""
    path = os.path.join(private_dir, _LAST)
    if os.path.isdir(path) and not os.path.islink(path):
        raise Refused(f"'{path}' is a folder", hint="remove it, then repeat the command")


def remember(private_dir: str, last: LastRollback) -> None:
    document = {
        "format": FORMAT,
        "target": last.target,
        "safety": last.safety,
        "target_commit": last.target_commit,
        "safety_commit": last.safety_commit,
        "paths": [to_json(path) for path in last.paths],
        "index": last.index,
        "head": last.head,
        "overwrite": last.overwrite,
        "created": [to_json(path) for path in last.created],
        "replaced": [to_json(path) for path in last.replaced],
        "move": dump_move(last.move),
        "worktree": dump_place(last.worktree),
    }
    _store(private_dir, _LAST, document)


def last_rollback(private_dir: str) -> LastRollback | None:
    """What `undo` takes back; None if there is nothing, or nothing legible. Refuses what another
    user could have written."""
    try:
        document = _fetch(private_dir, _LAST)
        if document is None or document["format"] != FORMAT:
            return None
        return LastRollback(
            target=str(document["target"]),
            safety=str(document["safety"]),
            paths=tuple(map(from_json, document["paths"])),
            index=bool(document["index"]),
            head=bool(document["head"]),
            overwrite=bool(document["overwrite"]),
            created=tuple(map(from_json, document["created"])),
            replaced=tuple(map(from_json, document["replaced"])),
            move=load_move(document["move"]),
            target_commit=jsontext.text_or_none(document.get("target_commit")),
            safety_commit=jsontext.text_or_none(document.get("safety_commit")),
            worktree=load_place(document.get("worktree")),
        )
    except Doubtful:
        raise
    except (Refused, AttributeError, KeyError, TypeError, ValueError):
        return None


def _last(private_dir: str) -> Any:
    try:
        return _fetch(private_dir, _LAST)
    except Refused:
        return None


def _store(private_dir: str, name: str, document: dict[str, Any]) -> None:
    data = jsontext.dump(document)
    disk.replace(os.path.join(private_dir, name), _checksum(data) + b"\n" + data)


def _fetch(private_dir: str, name: str) -> Any:
    try:
        data = _read_plain(os.path.join(private_dir, name))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _damaged(error) from None
    checksum, _, body = data.partition(b"\n")
    try:
        if checksum != _checksum(body):
            raise ValueError("its checksum is wrong")
        return jsontext.load(body)
    except (ValueError, RecursionError) as error:
        raise _damaged(error) from None


def _read_plain(path: str) -> bytes:
    """The content of a file; ValueError if anything else is there, which is not waited for.
    Refuses one that another user could have written."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise ValueError("it is no file")
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        doubt = disk.doubt(path, status)
        if doubt is not None:
            raise Doubtful(*doubt)
        if status.st_size > LARGE:
            raise ValueError("it is too large for what it is")
        return file.read()


def _checksum(data: bytes) -> bytes:
    return sha256(data).hexdigest().encode("ascii")


def _check_newer(found: object) -> None:
    if isinstance(found, int) and found > FORMAT:
        raise NewerJournal(
            f"the journal of an interrupted rollback has format {found}, newer than this ckpt",
            hint="upgrade ckpt: pip install --upgrade git-ckpt",
        )


def _damaged(error: Exception) -> Refused:
    return Refused(
        f"the journal of an interrupted rollback is damaged ({error})",
        hint="'git ckpt doctor' tells how to move it aside; then roll back to the newest of "
        "'git ckpt list --kind safety', which is the state before it",
    )


# -- Which checkpoints a rollback that is not over may need: none of them may go


def needed_by_rollbacks(repo: Repository) -> dict[str, str | None]:
    """Checkpoints that interrupted rollbacks name, and the worktrees where these were begun, as
    far as that is known."""
    needed: dict[str, str | None] = {}
    for git_dir in git_dirs(repo):
        found = _read(repo, git_dir)
        if found is not None:
            needed |= dict.fromkeys(_named(found), worktree_of(git_dir))
    return needed


def hidden_worktrees(repo: Repository) -> set[str]:
    """The ids of worktrees of other users, of which nobody can tell here what they need."""
    hidden = (one for one in git_dirs(repo) if is_hidden(os.path.join(one, "ckpt")))
    return {repo.worktree_id_of(git_dir) for git_dir in hidden}


def _named(record: Journal) -> set[str]:
    named = {record.target, record.safety}
    return named if record.edits is None else named | {record.edits}


def _read(repo: Repository, git_dir: str) -> Journal | None:
    private_dir = os.path.join(git_dir, "ckpt")
    if not journal_exists(private_dir):
        return None

    try:
        return read(private_dir)
    except Refused as error:
        if journal_exists(private_dir):
            raise _elsewhere_journals(repo, git_dir, error) from None
        return None  # that rollback has ended meanwhile


def _elsewhere_journals(repo: Repository, git_dir: str, error: Refused) -> Refused:
    """Say in which worktree a journal is that stops this one too."""
    if git_dir == repo.git_dir:
        return error
    return Refused(error.message + in_worktree(git_dir), hint="git ckpt doctor")
