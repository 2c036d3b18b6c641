# SPDX-License-Identifier: MIT
"""Find lost checkpoints, stashes, commits and blobs.

Git fsck tells what is unreachable. Rescue restores the ref of a checkpoint; for anything else it
prints the git command that does so. The worktree and the index are not changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from shlex import quote
from typing import NamedTuple

from ckpt import ids
from ckpt.engine.catalog import load
from ckpt.engine.verify import fault_behind
from ckpt.errors import CkptError, NotFound, Refused, UsageError
from ckpt.git import record
from ckpt.git.objects import MissingObject, ObjectID
from ckpt.git.repository import Repository
from ckpt.git.trees import UnsafeTree, reach
from ckpt.models import Checkpoint

# Lists objects not reachable from a ref, reflog or index, without checking their contents.
FSCK = ("fsck", "--connectivity-only", "--unreachable", "--no-dangling", "--no-progress")
# The sort order within one second.
KINDS = ("stash", "checkpoint", "commit", "content")
STASH, CHECKPOINT, COMMIT, CONTENT = KINDS
_STATE = "ckpt: state of "  # the prefix of a state commit's message
_COMMITTER = re.compile(rb"(?m)^committer .*> (\d{1,10})\d* [-+]\d{4}$")
_STASHED = re.compile(r"(WIP on|On) [^\n]+: ")
_OWN_ID = re.compile(r"(?m)^Ckpt-Id: (\S+)$")
_LONGEST_LINE = 200
_SHORTEST_ID = 4  # characters of an abbreviated id


class Lost(NamedTuple):
    """A lost object; `files` counts the changes of a checkpoint, `bytes` the size of a blob."""

    kind: str
    id: str
    timestamp: int
    subject: str
    files: int | None = None
    bytes: int | None = None


def find_lost(repo: Repository, fsck: bytes) -> list[Lost]:
    """Return the lost objects in the output of `FSCK`, newest first: the commits that no other one
    has as a parent, and the blobs in none of them. Those of alternates are left out."""
    objects = repo.objects
    own = {name: int(status.st_mtime) for name, status in objects.loose_files()}
    for pack in objects.own_packs():
        own |= dict.fromkeys(pack, int(os.stat(pack.path).st_mtime))
    told = re.findall(rb"(?m)^unreachable (commit|blob) ([0-9a-f]+)$", fsck)
    lost = [(kind, ObjectID(name)) for kind, name in told if name in own]
    commits: dict[ObjectID, record.CommitData] = {}
    held: set[ObjectID] = set()
    for name in (name for kind, name in lost if kind == b"commit"):
        with suppress(MissingObject, UnsafeTree):
            found = record.read_commit(objects, name)
            reach(objects, found.tree, held)
            if not found.message.startswith(_STATE):  # of a killed save
                commits[name] = found
    inner = {parent for found in commits.values() for parent in found.parents}
    tips = {name: commits[name] for name in commits.keys() - inner}
    blobs = {name: own[name] for kind, name in lost if kind == b"blob" and name not in held}
    listed = [*_commits(repo, tips), *_contents(repo, blobs)]
    return sorted(listed, key=lambda lost: (-lost.timestamp, KINDS.index(lost.kind), lost.id))


# -- commits


def _commits(repo: Repository, commits: dict[ObjectID, record.CommitData]) -> Iterator[Lost]:
    held = {name.rpartition("/")[2] for name in (*repo.refs.checkpoints(), *repo.refs.trash())}
    for commit, found in commits.items():
        written = _COMMITTER.search(found.header)
        time = int(written[1]) if written else 0
        checkpoint = _checkpoint(repo, found.message, commit)
        if checkpoint is None:
            # A stash has two parents, or three with untracked files.
            is_stash = len(found.parents) in (2, 3) and _STASHED.match(found.message)
            kind = STASH if is_stash else COMMIT
            yield Lost(kind, commit.decode(), time, _first_line(found.message))
        elif checkpoint.id not in held:
            subject = checkpoint.name or checkpoint.id
            files = checkpoint.stats.files_changed
            yield Lost(CHECKPOINT, commit.decode(), time, subject, files)


def _checkpoint(repo: Repository, message: str, commit: ObjectID) -> Checkpoint | None:
    """Return the checkpoint of a commit; None if it is not a valid one."""
    named = _OWN_ID.findall(message)
    if not named or not ids.is_id(named[-1]):
        return None
    try:
        return load(repo, named[-1], commit)
    except CkptError:
        return None


# -- contents


def _contents(repo: Repository, blobs: dict[ObjectID, int]) -> Iterator[Lost]:
    for blob, time in blobs.items():
        size = repo.objects.size(blob)
        try:
            start = next(repo.objects.pieces(blob), b"")[:8000]
        except MissingObject:
            continue
        if size:
            text = start.decode("utf-8", "replace")
            subject = "(binary)" if b"\0" in start else _first_line(text)
            yield Lost(CONTENT, blob.decode(), time, subject, bytes=size)


def _first_line(text: str) -> str:
    """Return the first line that is not blank."""
    return next((line for line in text.splitlines() if line.strip()), "").strip()[:_LONGEST_LINE]


# -- rescue


def choose(found: list[Lost], word: str) -> Lost:
    """Resolve a number in the list or an abbreviated id."""
    numbered = {str(number): each for number, each in enumerate(found, 1)}
    fitting = [each for each in found if len(word) >= _SHORTEST_ID and each.id.startswith(word)]
    fitting = [numbered[word]] if word in numbered else fitting
    if not fitting:
        available = [each.id for each in found]
        told = f"nothing lost is called '{word}'"
        raise NotFound(told, hint="git ckpt rescue", details={"available": available})
    if len(fitting) > 1:
        raise UsageError(f"'{word}' is ambiguous", hint="type more of the id")
    return fitting[0]


def rescue(repo: Repository, lost: Lost) -> Checkpoint:
    """Restore a lost checkpoint; refuse anything else, with git's command for it as the hint."""
    commit = ObjectID(lost.id.encode())
    fault = None if lost.kind == CONTENT else fault_behind(repo, commit)
    if fault is not None:
        hint = f"git ls-tree -r {lost.id}"
        raise Refused(f"{lost.kind} '{lost.id}' is not whole: {fault}", hint=hint)
    if lost.kind != CHECKPOINT:
        hints = {
            STASH: f"git stash store -m {quote(lost.subject)} {lost.id}",
            COMMIT: f"git branch rescued-{lost.id[:12]} {lost.id}",
            CONTENT: f"git cat-file blob {lost.id} > FILE",
        }
        raise Refused(f"{lost.kind} '{lost.id}' is not a checkpoint", hint=hints[lost.kind])
    found = _checkpoint(repo, record.read_commit(repo.objects, commit).message, commit)
    if found is None or not repo.refs.create(found.ref.encode(), commit):
        raise Refused(f"checkpoint '{lost.id}' is there again, or gone", hint="git ckpt list")
    return found
