# SPDX-License-Identifier: MIT
"""Turn what was lost into a checkpoint; neither a file nor the index is touched.

A stash or a commit becomes the checkpoint of the state that it holds, with the commit that it
stands on as HEAD; the lost commit itself is kept along with it. A content of which no name is
known, and the edits in a patch, are laid over the present, so that `diff` shows these and
nothing else. A checkpoint that was let go gets its ref again, or is published under another id if
its own has become somebody else's. What is not saved anew but found is verified, and does not stay
if it turns out to be half there. If only the history behind a stash or commit is, its state is kept
without that, on the present HEAD. A lost commit may have come with a fetch: one that git would not
check out is kept too, but is foreign.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone
from itertools import count

from ckpt import ids
from ckpt.engine import lost_patches, overlay, snapshot
from ckpt.engine.catalog import Catalog, load
from ckpt.engine.lost import (
    CHECKPOINT,
    COMMIT,
    CONTENT,
    PATCH,
    STASH,
    TREE,
    Lost,
    checkpoint_id,
)
from ckpt.engine.manifest import Manifest
from ckpt.engine.overlay import Edited
from ckpt.engine.publishing import NO_TIME, draft_of, publish
from ckpt.engine.snapshot import SaveRequest
from ckpt.engine.summary import count_lines
from ckpt.engine.tree_check import TreeCheck, Unsafe
from ckpt.engine.verify import Target, fault_behind, fault_in, verify
from ckpt.errors import Busy, CkptError, NotFound, Refused, UsageError
from ckpt.git.patch import LARGEST
from ckpt.models import Checkpoint, Kind, Scope, Stats
from ckpt.paths import folders_above, folders_of
from ckpt.store import made_here, record, staging
from ckpt.store.index import Index
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.pruning import is_collecting
from ckpt.store.repository import Repository
from ckpt.store.trees import (
    FOLDER,
    REGULAR,
    TreeEntry,
    UnsafeTree,
    diff_trees,
    walk,
    write_tree,
)
from ckpt.values import replace, value_class
from ckpt.worktree.modes import Modes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Set

    from ckpt.engine.present import Present
    from ckpt.settings import Settings
    from ckpt.store.trees import Entries

_FOLDER = b"rescued"
_NAME_LENGTH = 12
_SHORTEST_ID = 4  # of what may be typed of one


@value_class
class _Held:
    """The state that a lost commit or tree holds."""

    tree: ObjectID
    index: ObjectID
    head: ObjectID | None
    keep: tuple[ObjectID, ...] = ()


@value_class
class Rescued:
    """The checkpoint that was made; `lacks` is what is missing of the history that it would have
    had, and that was not kept for it, `unsafe` why it does not count as made here, and `path`
    where a content is in it."""

    checkpoint: Checkpoint
    lacks: str | None = None
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
    lacks = _lacks(repo, held)
    if lacks is not None:
        held = replace(held, head=repo.refs.head().commit, keep=())
        told = f"{request.description} The history behind it is not kept: {lacks}."
        request = replace(request, description=told)
    unsafe = _unsafe(repo, held)
    made = _published(repo, request, held, is_ours=unsafe is None)
    return Rescued(_sound(repo, made), lacks, unsafe)


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
    changed = f", which changes {_files(lost.files)}" if lost.kind == COMMIT and lost.files else ""
    return f"Rescued {lost.kind} {lost.id} of {moment:%Y-%m-%d %H:%M:%S} UTC{changed}."


def _files(number: int) -> str:
    return f"{number:,} file{'' if number == 1 else 's'}"


# -- states ------------------------------------------------------------------------


def _held(repo: Repository, lost: Lost) -> _Held:
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
        held = _held(repo, lost)
        problem = fault_in(repo, (held.tree, held.index))
    except (MissingObject, UnsafeTree) as error:
        problem = error.message
    if problem is None:
        return held
    raise CkptError(
        f"no checkpoint can be made of {lost.kind} '{lost.id}': {problem}",
        hint=f"git ls-tree -r {lost.id}",
    )


def _lacks(repo: Repository, held: _Held) -> str | None:
    """What is at fault with the history that a checkpoint of this would hold on to."""
    newest = held.keep[0] if held.keep else held.head
    return None if newest is None else fault_behind(repo, newest)


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
        return publish(
            repo, Catalog(repo), draft, held.tree, parents, _is_whole(repo), is_ours=is_ours
        )
    finally:
        objects.discard()


def _is_whole(repo: Repository) -> Callable[[ObjectID, Set[ObjectID]], bool]:
    return lambda commit, relied_on: not repo.objects.missing({commit, *relied_on})


def _state_tree(repo: Repository, held: _Held) -> ObjectID:
    objects = repo.objects
    no_flags = Index(2, [], {}, repo.object_format.oid_length)
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
    def complete(present: Present) -> None:
        overlay.lay_over(repo, present, changes)

    made = snapshot.save(repo, settings, request, progress=progress, complete=complete)
    if made.checkpoint is None:
        raise CkptError(f"no checkpoint was taken: {made.reason}", hint="git ckpt save")
    return made.checkpoint


def _changes(repo: Repository, lost: Lost) -> dict[bytes, Edited | None]:
    if lost.path is not None:
        changes = lost_patches.edits_in(repo, lost.path)
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
    if repo.refs.create(found.ref.encode(), commit):
        return _sound(repo, found)
    present = repo.refs.checkpoint(found.id) or commit
    if found.foreign or made_here.holds(repo.common_dir, found.id, present.decode()):
        raise Refused(f"'{found.ref}' exists", hint=f"git ckpt show {found.id}")
    return _sound(repo, _under_another_id(repo, found))


def _under_another_id(repo: Repository, found: Checkpoint) -> Checkpoint:
    """The same checkpoint anew: somebody else's has its id."""
    data = record.read_commit(repo.objects, ObjectID(found.commit.encode()))
    try:
        return publish(repo, Catalog(repo), found, data.tree, data.parents, _is_whole(repo))
    finally:
        repo.objects.discard()


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
