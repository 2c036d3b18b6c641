# SPDX-License-Identifier: MIT
"""What other tools dropped and git still has: stashes, commits, contents once staged.

Also checkpoints that are in no trash any more, and edits that pre-commit took off the disk and
never put back. Each with the time it is from and enough to recognise it by. What ckpt itself
writes beside the files of a checkpoint is no work of anybody's and is left out.
"""

from __future__ import annotations

from itertools import islice

from ckpt import jsontext
from ckpt.engine.catalog import Catalog, load
from ckpt.engine.lost_patches import lost_patches
from ckpt.errors import CkptError
from ckpt.ids import is_id
from ckpt.models import Checkpoint
from ckpt.patterns import lazy_pattern
from ckpt.store import made_here, record
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.repository import Repository
from ckpt.store.trees import diff_trees, read_limited, walk
from ckpt.store.unreachable import unreachable
from ckpt.values import replace, value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

# In the order in which those of the same second are shown.
STASH, CHECKPOINT, COMMIT, PATCH, TREE, CONTENT = KINDS = (
    "stash",
    "checkpoint",
    "commit",
    "patch",
    "tree",
    "content",
)
_STASHED = lazy_pattern(r"(WIP on|On) [^\n]+: ")
_STAGED = "index on "
_OWN_ID = lazy_pattern(r"(?m)^Ckpt-Id: (\S+)$")
# How index flags and manifests begin, and what each of them has, since the first.
_OWN_BLOBS = {
    b'{\n "assume_valid":': {"assume_valid", "intent_to_add", "skip_worktree", "version"},
    b'{\n "branch":': {"branch", "empty_folders", "excludes", "modes", "operation", "unskipped"},
}
_MOST_FILES = 10_000
_LONGEST_LINE = 200


@value_class
class Lost:
    """`id` is that of the object or, of a patch, the name of its file; `path` is where that is,
    and `paths` what it changes. `files` counts what it changes, or has, and `size` bytes; None
    where that says nothing."""

    kind: str
    id: str
    time: int
    subject: str
    files: int | None = None
    size: int | None = None
    path: str | None = None
    paths: tuple[str, ...] = ()


def find_lost(repo: Repository, patch_folders: Iterable[str]) -> list[Lost]:
    """Everything that can be rescued, newest first."""
    ends = unreachable(repo)
    found = [*_commits(repo, ends.commits), *_contents(repo, ends.blobs)]
    found += [Lost(TREE, tree.decode(), time, "") for tree, time in ends.trees.items()]
    found += [
        Lost(PATCH, p.name, p.time, ", ".join(p.paths), len(p.paths), path=path, paths=p.paths)
        for path, p in lost_patches(repo, patch_folders).items()
    ]
    return sorted(found, key=lambda lost: (-lost.time, KINDS.index(lost.kind), lost.id))


def with_files(repo: Repository, lost: Lost) -> Lost:
    """The same with the number of files, which takes a look at its trees."""
    object_id = ObjectID(lost.id.encode())
    try:
        if lost.kind in (STASH, COMMIT):
            return replace(lost, files=_count_changes(repo, object_id, lost.kind == STASH))
        if lost.kind == TREE:
            return replace(lost, files=_count_files(repo, object_id))
    except CkptError:  # cut off, half of it gone, or of no use to anybody
        pass
    return lost


def _count_changes(repo: Repository, commit: ObjectID, is_stash: bool) -> int:
    """How many files a commit changes; a stash may have untracked ones in a third parent."""
    found = record.read_commit(repo.objects, commit)
    before = _tree_of(repo, found.parents[0]) if found.parents else None
    changed = sum(1 for _ in diff_trees(repo.objects, before, found.tree))
    untracked = found.parents[2:] if is_stash else ()
    return changed + sum(_count_files(repo, _tree_of(repo, each)) for each in untracked)


def _tree_of(repo: Repository, commit: ObjectID) -> ObjectID:
    return record.read_commit(repo.objects, commit).tree


def _count_files(repo: Repository, tree: ObjectID) -> int:
    return sum(1 for _ in islice(walk(repo.objects, tree), _MOST_FILES))


# -- commits -----------------------------------------------------------------------


def _commits(repo: Repository, commits: dict[ObjectID, int]) -> Iterator[Lost]:
    held = _held(repo)
    for commit, time in commits.items():
        try:
            found = record.read_commit(repo.objects, commit)
        except MissingObject:
            continue
        own_id = checkpoint_id(found.message)
        # Whoever commits with the message of a checkpoint, or picks one, makes none.
        checkpoint = None if own_id is None else _checkpoint(repo, own_id, commit)
        if checkpoint is None:
            kind = STASH if _is_stash(repo, found) else COMMIT
            yield Lost(kind, commit.decode(), time, first_line(found.message))
        elif checkpoint.id not in held or _is_replaced(repo, checkpoint, held, commits):
            subject = checkpoint.name or checkpoint.id
            files = checkpoint.stats.files_changed
            yield Lost(CHECKPOINT, commit.decode(), time, subject, files)


def _held(repo: Repository) -> dict[str, set[str]]:
    """The ids of all checkpoints, also of those in the trash, with the commits that they have."""
    held: dict[str, set[str]] = {}
    for name, commit in (*repo.refs.checkpoints().items(), *repo.refs.trash().items()):
        held.setdefault(name.rpartition("/")[2], set()).add(commit.decode())
    return held


def _is_replaced(
    repo: Repository,
    checkpoint: Checkpoint,
    held: Mapping[str, set[str]],
    commits: Container[ObjectID],
) -> bool:
    """Whether it was made here, and its id has only another's commit by now, as a forced fetch
    does it; of several that a pin left behind, the newest. Once brought back, it has another id."""
    noted = made_here.commits_of(repo.common_dir, checkpoint.id)
    newest = next((each for each in noted if each.encode() in commits), None)
    if newest != checkpoint.commit or not held[checkpoint.id].isdisjoint(noted):
        return False
    state = (checkpoint.tree, checkpoint.state_commit)
    return not any((c.tree, c.state_commit) == state and not c.foreign for c in Catalog(repo))


def checkpoint_id(message: str) -> str | None:
    """The id that a commit's message says it is the checkpoint of."""
    named = _OWN_ID.findall(message)
    return named[-1] if named and is_id(named[-1]) else None


def _is_stash(repo: Repository, commit: record.CommitData) -> bool:
    """Whether git made it so: its second parent is what was staged."""
    if len(commit.parents) not in (2, 3) or not _STASHED.match(commit.message):
        return False
    try:
        staged = record.read_commit(repo.objects, commit.parents[1])
    except MissingObject:
        return False
    return staged.message.startswith(_STAGED)


def _checkpoint(repo: Repository, checkpoint_id: str, commit: ObjectID) -> Checkpoint | None:
    try:
        return load(repo, checkpoint_id, commit)
    except CkptError:
        return None


# -- contents ----------------------------------------------------------------------


def _contents(repo: Repository, blobs: dict[ObjectID, int]) -> Iterator[Lost]:
    for blob, size in repo.objects.sizes(blobs).items():
        try:
            start = next(repo.objects.pieces(blob), b"")
        except MissingObject:
            continue
        if size and not _is_own(repo, blob, start):
            yield Lost(CONTENT, blob.decode(), blobs[blob], _first_words(start), size=size)


def _is_own(repo: Repository, blob: ObjectID, start: bytes) -> bool:
    """Whether ckpt wrote it beside the files; a file of the user's may begin just so."""
    names = next((_OWN_BLOBS[each] for each in _OWN_BLOBS if start.startswith(each)), None)
    if names is None:
        return False
    try:
        document = jsontext.load(read_limited(repo.objects, blob))
    except (MissingObject, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and names <= document.keys()


def _first_words(data: bytes) -> str:
    if b"\0" in data[:8000]:  # as git tells binary files
        return "(binary)"
    return first_line(data[:8000].decode("utf-8", "replace"))


def first_line(text: str) -> str:
    """The first line that has something in it, in printable characters."""
    line = next((line for line in text.splitlines() if line.strip()), "").strip()
    return "".join(char if char.isprintable() else " " for char in line[:_LONGEST_LINE])
