# SPDX-License-Identifier: MIT
"""Find what other tools dropped, and turn it into a checkpoint; no file or index is touched.

A stash or a commit becomes the checkpoint of the state that it holds, on the commit that it stands
on. A blob without a name, and the edits in a patch of pre-commit, are laid over the present. A
checkpoint whose ref is gone gets its ref again. Left out: what is not whole, such as a commit
whose history is gone; git can still show its parts.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import count, islice
from typing import BinaryIO, NamedTuple

from ckpt import ids
from ckpt.engine import overlay, snapshot
from ckpt.engine.catalog import Catalog, load
from ckpt.engine.foreign import TreeCheck, Unsafe
from ckpt.engine.manifest import Manifest
from ckpt.engine.overlay import Edited
from ckpt.engine.present import Present
from ckpt.engine.snapshot import NO_TIME, SaveRequest, draft_of, publish
from ckpt.engine.summary import count_lines
from ckpt.engine.verify import Target, fault_behind, first_fault, verify
from ckpt.errors import Busy, CkptError, NotFound, Refused, UsageError
from ckpt.git import index as staging
from ckpt.git import patch, record
from ckpt.git.formats import ObjectID
from ckpt.git.index import Index, IndexEntry
from ckpt.git.objects import MissingObject
from ckpt.git.patch import LARGEST, BadPatch
from ckpt.git.reachability import seconds, unreachable
from ckpt.git.repository import Repository, is_collecting
from ckpt.git.trees import (
    FOLDER,
    REGULAR,
    Entries,
    TreeEntry,
    UnsafeTree,
    diff_trees,
    walk,
    write_tree,
)
from ckpt.ids import is_id
from ckpt.models import Checkpoint, Kind, Scope, Stats
from ckpt.paths import folders_above, folders_of, to_str
from ckpt.settings.settings import Settings
from ckpt.worktree.modes import Modes

_PATCH = re.compile(r"patch([0-9]{1,12})-[1-9][0-9]{0,9}")
_MOST_PATCHES = 200  # the newest, of all repositories


class LostPatch(NamedTuple):
    """A patch with lost edits in it; `paths` are the files that it changes."""

    name: str
    time: int
    paths: tuple[str, ...]


def lost_patches(repo: Repository, folders: Iterable[str]) -> dict[str, LostPatch]:
    """Those of this repository, by where they are."""
    found: dict[str, LostPatch] = {}
    for time, path in sorted(_files(folders), reverse=True)[:_MOST_PATCHES]:
        edits = edits_in(repo, path)
        if edits is not None and any(_is_lost(repo, *edit) for edit in edits.items()):
            found[path] = LostPatch(os.path.basename(path), time, tuple(map(to_str, edits)))
    return found


def _files(folders: Iterable[str]) -> Iterator[tuple[int, str]]:
    for folder in folders:
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            match = _PATCH.fullmatch(name)
            if match is not None:
                yield seconds(match[1]), os.path.join(folder, name)


def edits_in(repo: Repository, path: str) -> dict[bytes, Edited | None] | None:
    """What a patch makes of files of this repository; None if it is not of it."""
    try:
        patches = patch.parse(_read(path))
        entries = [
            IndexEntry.of(patch.old_path, _base(repo, patch.old_id), patch.old_mode or REGULAR)
            for patch in patches
            if patch.old_path is not None
        ]
        if not entries:  # it could be anybody's
            return None
        index = Index(entries, hash_len=repo.object_format.oid_length)
        return overlay.edits(repo, patches, index)
    except (BadPatch, OSError):
        return None


def _base(repo: Repository, shortened: bytes) -> ObjectID:
    if len(shortened) == repo.object_format.hex_length and repo.objects.has(ObjectID(shortened)):
        return ObjectID(shortened)
    found = repo.objects.beginning_with(shortened) if len(shortened) >= 4 else set()
    if len(found) != 1:
        raise BadPatch("it was made for another repository")
    return found.pop()


def _read(path: str) -> bytes:
    with _opened(path) as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid():
            raise BadPatch("it is no file of ours")
        if status.st_size > LARGEST:
            raise BadPatch("it is too large")
        return file.read(LARGEST)


def _opened(path: str | bytes) -> BinaryIO:
    """A file that is one: a pipe would have us wait for whoever writes into it."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return open(fd, "rb")
    os.close(fd)
    raise BadPatch("it is no file")


def _is_lost(repo: Repository, path: bytes, edited: Edited | None) -> bool:
    """Whether a content is neither in the repository nor on the disk."""
    if edited is None or repo.objects.has(repo.objects.hash(b"blob", edited.content)):
        return False
    try:
        with _opened(os.path.join(os.fsencode(repo.worktree), path)) as file:
            return file.read(len(edited.content) + 1) != edited.content
    except (BadPatch, OSError):
        return True


# -- What other tools dropped and git still has: stashes, commits, contents once staged

# In the order in which those of the same second are shown.
STASH, CHECKPOINT, COMMIT, PATCH, TREE, CONTENT = KINDS = (
    "stash",
    "checkpoint",
    "commit",
    "patch",
    "tree",
    "content",
)
_STASHED = re.compile(r"(WIP on|On) [^\n]+: ")
_STAGED = "index on "
_OWN_ID = re.compile(r"(?m)^Ckpt-Id: (\S+)$")
# How index flags and manifests begin, which a killed save leaves.
_OWN_BLOBS = (b'{\n "assume_valid":', b'{\n "branch":')
_MOST_FILES = 10_000
_LONGEST_LINE = 200


class Lost(NamedTuple):
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
            return lost._replace(files=_count_changes(repo, object_id, lost.kind == STASH))
        if lost.kind == TREE:
            return lost._replace(files=_count_files(repo, object_id))
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
        elif checkpoint.id not in held:
            subject = checkpoint.name or checkpoint.id
            files = checkpoint.stats.files_changed
            yield Lost(CHECKPOINT, commit.decode(), time, subject, files)


def _held(repo: Repository) -> set[str]:
    """The ids of all checkpoints, also of those in the trash."""
    return {name.rpartition("/")[2] for name in (*repo.refs.checkpoints(), *repo.refs.trash())}


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
        if size and not start.startswith(_OWN_BLOBS):
            yield Lost(CONTENT, blob.decode(), blobs[blob], _first_words(start), size=size)


def _first_words(data: bytes) -> str:
    if b"\0" in data[:8000]:  # as git tells binary files
        return "(binary)"
    return first_line(data[:8000].decode("utf-8", "replace"))


def first_line(text: str) -> str:
    """The first line that has something in it, in printable characters."""
    line = next((line for line in text.splitlines() if line.strip()), "").strip()
    return "".join(char if char.isprintable() else " " for char in line[:_LONGEST_LINE])


# -- Turn what was lost into a checkpoint; neither a file nor the index is touched

_FOLDER = b"rescued"
_NAME_LENGTH = 12
_SHORTEST_ID = 4  # of what may be typed of one


@dataclass(frozen=True)
class _Held:
    """The state that a lost commit or tree holds."""

    tree: ObjectID
    index: ObjectID
    head: ObjectID | None
    keep: tuple[ObjectID, ...] = ()


class Rescued(NamedTuple):
    """The checkpoint that was made; `unsafe` says why it does not count as made here, and `path`
    where a content is in it."""

    checkpoint: Checkpoint
    unsafe: str | None = None
    path: bytes | None = None


def rescue(
    repo: Repository,
    settings: Settings,
    lost: Lost,
    name: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Rescued:
    """The checkpoint that holds what was lost."""
    if is_collecting(repo.common_dir):
        raise Busy(
            "git gc is at work, and may be about to take away what is to be rescued",
            hint="wait until it has ended, then try again",
        )
    if lost.kind == CHECKPOINT:
        return Rescued(_brought_back(repo, ObjectID(lost.id.encode()), name))
    request = SaveRequest(
        name=name if name is not None else _name_for(lost),
        description=_description(lost),
        kind=Kind.MANUAL,
    )
    request = snapshot.checked(request)
    if lost.kind in (CONTENT, PATCH):
        changes = _changes(repo, lost)
        made = _laid_over(repo, settings, changes, request, progress)
        return Rescued(made, path=min(changes) if lost.kind == CONTENT else None)
    held = _usable(repo, lost)
    unsafe = _unsafe(repo, held)
    made = _published(repo, request, held, is_ours=unsafe is None)
    return Rescued(_sound(repo, made), unsafe)


def _name_for(lost: Lost) -> str | None:
    if lost.kind == PATCH:
        words = lost.id  # the name of a file, which says what it is
    else:
        short = f"{lost.kind} {lost.id[:_NAME_LENGTH]}"
        words = lost.subject if lost.kind in (STASH, COMMIT) else short
    try:
        return ids.check_name(f"rescued: {words}"[: ids.MAX_NAME])
    except UsageError:
        return None


def _description(lost: Lost) -> str:
    moment = datetime.fromtimestamp(lost.time, timezone.utc)
    number = lost.files if lost.kind == COMMIT else None
    changed = f", which changes {number:,} file{'' if number == 1 else 's'}" if number else ""
    return f"Rescued {lost.kind} {lost.id} of {moment:%Y-%m-%d %H:%M:%S} UTC{changed}."


# -- states ------------------------------------------------------------------------


def _state_of(repo: Repository, lost: Lost) -> _Held:
    object_id = ObjectID(lost.id.encode())
    if lost.kind == TREE:
        return _Held(object_id, object_id, repo.refs.head().commit)
    commit = record.read_commit(repo.objects, object_id)
    if lost.kind == COMMIT:
        return _Held(commit.tree, commit.tree, object_id)
    base, staged, *untracked = commit.parents
    index = record.read_commit(repo.objects, staged).tree
    tree = commit.tree
    if untracked:
        others = record.read_commit(repo.objects, untracked[0]).tree
        tracked, new = (dict(walk(repo.objects, each)) for each in (tree, others))
        tree = write_tree(repo.objects, _on_disk(tracked, new))
    return _Held(tree, index, base, (object_id,))


def _on_disk(tracked: Entries, untracked: Entries) -> Entries:
    """The files that a stash was made from. Git leaves a tracked file in it that has become a
    folder of untracked ones, and those of a folder that has become an untracked file."""
    folders = folders_of(untracked)
    beside = {
        path: entry
        for path, entry in tracked.items()
        if path not in folders and untracked.keys().isdisjoint(folders_above(path))
    }
    return {**beside, **untracked}


def _usable(repo: Repository, lost: Lost) -> _Held:
    """The same, if all of it is there and fit for a worktree. What is found out only when objects
    are written would leave them behind, and they would hide what was lost."""
    try:
        held = _state_of(repo, lost)
        newest = held.keep[0] if held.keep else held.head
        problem = first_fault(repo, (), (held.tree, held.index))
        if problem is None and newest is not None:
            problem = fault_behind(repo, newest)
    except (MissingObject, UnsafeTree) as error:
        problem = error.message
    if problem is None:
        return held
    raise CkptError(
        f"no checkpoint can be made of {lost.kind} '{lost.id}': {problem}",
        hint=f"git ls-tree -r {lost.id}",
    )


def _unsafe(repo: Repository, held: _Held) -> str | None:
    """Why a rollback to this has to be asked for as one to another's checkpoint."""
    trees = TreeCheck(repo.objects)
    try:
        trees.check(held.tree)
        trees.check(held.index)
    except Unsafe as error:
        return str(error)
    return None


def _published(repo: Repository, request: SaveRequest, held: _Held, *, is_ours: bool) -> Checkpoint:
    objects = repo.objects
    try:
        state = record.write_commit(
            objects, _state_tree(repo, held), held.keep, "ckpt: state of the worktree\n", NO_TIME
        )
        draft = replace(
            draft_of(repo, request, Scope.FULL, held.tree, state),
            head_commit=None if held.head is None else held.head.decode(),
            stats=_stats(repo, held),
        )
        parents = tuple(filter(None, (held.head, state)))
        return publish(repo, Catalog(repo), draft, held.tree, parents, is_ours=is_ours)
    finally:
        objects.discard()


def _state_tree(repo: Repository, held: _Held) -> ObjectID:
    objects = repo.objects
    no_flags = Index([], hash_len=repo.object_format.oid_length)
    entries = staging.write_state(objects, no_flags, stages={0: held.index})
    manifest = Manifest(modes=_usual_modes())
    entries[record.MANIFEST] = TreeEntry(REGULAR, objects.add(b"blob", manifest.dump()))
    entries[record.INDEX] = TreeEntry(FOLDER, held.index)
    return write_tree(objects, entries)


def _usual_modes() -> Modes:
    """The permissions that git would give the files, on a checkout by whoever asks."""
    mask = os.umask(0o077)
    os.umask(mask)
    return Modes(plain=0o666 & ~mask, executable=0o777 & ~mask)


def _stats(repo: Repository, held: _Held) -> Stats:
    head = None if held.head is None else record.read_commit(repo.objects, held.head).tree
    changes = diff_trees(repo.objects, head, held.tree)
    return count_lines(repo.objects, ((before, after) for _, before, after in changes))


# -- contents and patches ----------------------------------------------------------


def _laid_over(
    repo: Repository,
    settings: Settings,
    changes: dict[bytes, Edited | None],
    request: SaveRequest,
    progress: Callable[[int, int], None] | None,
) -> Checkpoint:
    def complete(present: Present) -> Present:
        return overlay.lay_over(repo, present, changes)[0]

    made = snapshot.save(repo, settings, request, progress=progress, complete=complete)
    if made.checkpoint is None:
        raise CkptError(f"no checkpoint was taken: {made.reason}", hint="git ckpt save")
    return made.checkpoint


def _changes(repo: Repository, lost: Lost) -> dict[bytes, Edited | None]:
    if lost.path is not None:
        changes = edits_in(repo, lost.path)
        if changes is None:
            raise CkptError(f"cannot read '{lost.path}'", hint="git ckpt rescue")
        return changes
    if (lost.size or 0) > LARGEST:
        raise Refused(
            f"content '{lost.id}' is over {LARGEST >> 20} MiB",
            hint=f"git cat-file blob {lost.id} > FILE",
        )
    content = repo.objects.read(ObjectID(lost.id.encode()), b"blob")
    path = b"%s/%s" % (_free_folder(repo), lost.id[:_NAME_LENGTH].encode())
    return {path: Edited(REGULAR, content, None)}


def _free_folder(repo: Repository) -> bytes:
    """Where a content without a name can come back: nothing else is called so."""
    top = os.fsencode(repo.worktree)
    names = (_FOLDER + (b"-%d" % number if number > 1 else b"") for number in count(1))
    return next(name for name in names if _is_free(os.path.join(top, name)))


def _is_free(path: bytes) -> bool:
    is_folder = os.path.isdir(path) and not os.path.islink(path)
    return not os.path.lexists(os.path.join(path, b".git") if is_folder else path)


# -- checkpoints -------------------------------------------------------------------


def _brought_back(repo: Repository, commit: ObjectID, name: str | None) -> Checkpoint:
    if name is not None:
        raise UsageError("a rescued checkpoint keeps its name", hint="leave NAME out")
    message = record.read_commit(repo.objects, commit).message
    found = load(repo, checkpoint_id(message) or "", commit)
    lacks = fault_behind(repo, commit)
    if lacks is not None:
        raise CkptError(
            f"it is not whole any more: {lacks}",
            hint=f"git ckpt save && git restore --source={commit.decode()} -- PATH",
        )
    if not repo.refs.create(found.ref.encode(), commit):
        raise Refused(f"'{found.ref}' exists", hint=f"git ckpt show {found.id}")
    return _sound(repo, found)


def _sound(repo: Repository, made: Checkpoint) -> Checkpoint:
    """The same, if all of it is there; else its ref goes again."""
    commit = ObjectID(made.commit.encode())
    (verified,) = verify(repo, [Target(made.ref, made.id, commit)]).checkpoints
    if verified.is_whole:
        return made
    repo.refs.remove(made.ref.encode(), commit)
    raise CkptError(
        f"it is not whole any more: {verified.problems[0].detail}",
        hint="'git ckpt rescue' lists what else there is",
    )


def choose(found: list[Lost], word: str) -> Lost:
    """The one that a number in the list, an id or the beginning of one stands for."""
    fitting = [each for each in found if each.id == word] or [
        each for each in found if len(word) >= _SHORTEST_ID and each.id.startswith(word)
    ]
    numbered = found[int(word) - 1] if _is_number(word, len(found)) else None
    if numbered is not None and numbered not in fitting:
        fitting.append(numbered)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UsageError(f"'{word}' is ambiguous", hint="type more of the id")
    raise NotFound(
        f"nothing lost is called '{word}'",
        hint="git ckpt rescue",
        details={"available": [each.id for each in found]},
    )


def _is_number(word: str, most: int) -> bool:
    """Whether it counts one of so many in a list."""
    is_plain = word.isascii() and word.isdigit() and len(word) <= len(str(most))
    return is_plain and 0 < int(word) <= most
