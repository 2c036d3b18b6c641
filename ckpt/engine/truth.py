# SPDX-License-Identifier: MIT
"""Is what a checkpoint says of itself true?

Its manifest, flags and trailers name paths, modes, an operation: each is compared with what
the trees hold. A rollback believes all of it, so that something untrue would remove, keep
or change what it should not. That objects are there and whole is found out before; what is
missing here is an error that whoever asks knows of already.
"""

from __future__ import annotations

import stat

from ckpt.engine.recorded import Recorded
from ckpt.errors import CkptError
from ckpt.models import Checkpoint, Scope, SkipReason
from ckpt.paths import folders_above, from_json, is_within, to_bytes
from ckpt.store import record, staging
from ckpt.store.objects import ObjectID
from ckpt.store.repository import Repository
from ckpt.store.trees import FOLDER, GITLINK, Entries, TreeEntry, lookup, read_tree, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_MANIFEST_FORMAT = 1
_SHOWN = 80  # characters of a path
_DAMAGE = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)


class Facts:
    """Compares one checkpoint after the other; trees that many share are read once."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._known: dict[ObjectID, Entries] = {}
        self._compared: dict[tuple[ObjectID, ObjectID | None], bytes | None] = {}

    def untrue(self, checkpoint: Checkpoint) -> Iterator[str]:
        """One line for each thing that is not so."""
        try:
            checkpoint.data  # noqa: B018  # for the errors of reading the agent's state
            if checkpoint.scope is Scope.STATE:
                yield from self._state_only(checkpoint)
            else:
                yield from self._full(Recorded(self._repo, checkpoint))
        except _DAMAGE as error:
            yield f"what it says of itself is damaged ({error!r})"

    def _state_only(self, checkpoint: Checkpoint) -> Iterator[str]:
        if read_tree(self._repo.objects, ObjectID(checkpoint.tree.encode())):
            yield "it is of scope 'state', and has files"

    def _full(self, recorded: Recorded) -> Iterator[str]:
        yield from _trailers(recorded)
        yield from self._modes(recorded)
        yield from self._folders_and_skipped(recorded)
        yield from self._nested(recorded)
        yield from self._index(recorded)
        yield from self._conversions(recorded)

    # -- the manifest --------------------------------------------------------------

    def _modes(self, recorded: Recorded) -> Iterator[str]:
        modes, manifest = recorded.manifest.modes, recorded.manifest
        for path in modes.others:
            if not self._is_file(recorded.tree, path):
                yield f"it has permissions of {_shown(path)}, which is no file of it"
        aside = (*manifest.empty_folders, *manifest.skipped)
        for path in modes.folders:
            entry = self._entry(recorded.tree, path)
            is_folder = entry is not None and entry.mode == FOLDER
            if not is_folder and path and not any(is_within(each, (path,)) for each in aside):
                yield f"it has permissions of {_shown(path)}, which is no folder of it"

    def _folders_and_skipped(self, recorded: Recorded) -> Iterator[str]:
        manifest = recorded.manifest
        for path in manifest.empty_folders:
            if not self._is_empty(recorded, path):
                yield f"it calls {_shown(path)} an empty folder, and has something there"
        for path, reason in manifest.skipped.items():
            if self._is_file(recorded.tree, path):
                yield f"it has {_shown(path)}, and says that it was left out ({reason})"
        for path in manifest.unskipped:
            is_left_out = path in manifest.skipped or self._is_below_file(recorded.tree, path)
            if self._entry(recorded.tree, path) is None and not is_left_out:
                yield f"it says that {_shown(path)} was on disk, and does not have it"

    def _nested(self, recorded: Recorded) -> Iterator[str]:
        for path in (to_bytes(state.path) for state in recorded.manifest.nested):
            entry = self._entry(recorded.tree, path)
            if entry is None or entry.mode == GITLINK:
                continue
            if entry.mode != FOLDER or not self._is_tracked_below(recorded, path):
                yield f"it calls {_shown(path)} a repository, and has another there"

    def _is_tracked_below(self, recorded: Recorded, folder: bytes) -> bool:
        """Whether a folder has tracked files, which stay so if a repository is begun in it."""
        flags = staging.read_flags(self._repo.objects, recorded.state_tree)
        stages = staging.stage_trees(self._repo.objects, recorded.state_tree)
        held = (self._entry(tree, folder) for tree in stages if tree is not None)
        return any(entry is not None and entry.mode == FOLDER for entry in held) or any(
            is_within(from_json(item), (folder,)) for item in flags.get("intent_to_add", ())
        )

    # -- what is staged ------------------------------------------------------------

    def _index(self, recorded: Recorded) -> Iterator[str]:
        flags = staging.read_flags(self._repo.objects, recorded.state_tree)
        stages = staging.stage_trees(self._repo.objects, recorded.state_tree)
        intended = [from_json(item) for item in flags.get("intent_to_add", ())]
        for name in ("assume_valid", "skip_worktree", "stale", "unseen"):
            for path in map(from_json, flags.get(name, ())):
                held = (self._entry(tree, path) for tree in stages if tree is not None)
                if path not in intended and not any(held):
                    yield f"the index flag '{name}' is for {_shown(path)}, which is not staged"

    # -- files that git converts ---------------------------------------------------

    def _conversions(self, recorded: Recorded) -> Iterator[str]:
        top = recorded.raw_files.tree
        stray = None if top is None else self._stray(top, recorded.tree)
        if stray is not None:
            yield f"it says how {_shown(stray)} was on disk, which is no file of it"

    def _stray(self, top: ObjectID, files: ObjectID | None) -> bytes | None:
        """A path below one tree that is no file below the other; each pair is compared once."""
        if (top, files) not in self._compared:
            self._compared[top, files] = None  # also against going round for ever
            self._compared[top, files] = self._compare(top, files)
        return self._compared[top, files]

    def _compare(self, top: ObjectID, files: ObjectID | None) -> bytes | None:
        there = {} if files is None else _children(self._repo, files)
        for name, entry in _children(self._repo, top).items():
            other = there.get(name)
            if entry.mode == FOLDER:
                below = other.id if other is not None and other.mode == FOLDER else None
                stray = self._stray(entry.id, below)
                if stray is not None:
                    return name + b"/" + stray
            elif other is None or not stat.S_ISREG(other.mode):
                return name
        return None

    # -- looking things up ---------------------------------------------------------

    def _entry(self, tree: ObjectID, path: bytes) -> TreeEntry | None:
        return lookup(self._repo.objects, tree, path, self._known)

    def _is_file(self, tree: ObjectID, path: bytes) -> bool:
        entry = self._entry(tree, path)
        return entry is not None and entry.mode not in (FOLDER, GITLINK)

    def _is_below_file(self, tree: ObjectID, path: bytes) -> bool:
        """Whether something else stands where a folder of this path was left out."""
        above = (self._entry(tree, folder) for folder in folders_above(path))
        return any(entry is not None and entry.mode != FOLDER for entry in above)

    def _is_empty(self, recorded: Recorded, path: bytes) -> bool:
        """Whether the tree has nothing there but what a sparse checkout left out."""
        entry = self._entry(recorded.tree, path)
        if entry is None or path in recorded.absent:
            return True
        if entry.mode != FOLDER:
            return False
        files = (file for file, _ in walk(self._repo.objects, entry.id, path))
        return all(file in recorded.absent for file in files)


def _children(repo: Repository, tree: ObjectID) -> dict[bytes, TreeEntry]:
    return {name: TreeEntry(mode, id) for name, mode, id in read_tree(repo.objects, tree)}


def _trailers(recorded: Recorded) -> Iterator[str]:
    """What the commit's message and the manifest both say."""
    checkpoint, manifest = recorded.checkpoint, recorded.manifest
    document = record.read_json(recorded.objects, checkpoint, record.MANIFEST)
    if document.get("format") != _MANIFEST_FORMAT:
        raise CkptError(
            f"its manifest has format {document.get('format')!r}, which this ckpt does not know",
            hint="upgrade ckpt: pip install --upgrade git-ckpt",
        )
    if manifest.branch != checkpoint.branch:
        yield f"its commit is of branch '{checkpoint.branch}', its manifest of '{manifest.branch}'"
    if SkipReason.UNREADABLE.value in manifest.skipped.values() and not checkpoint.partial:
        yield "it is not marked partial, and some of it could not be read"
    if recorded.operation.files.operation != manifest.operation:
        yield "the operation in its manifest is not that of its files"


def _shown(path: bytes) -> str:
    text = path.decode("utf-8", "backslashreplace")
    return f"'{text if len(text) <= _SHOWN else text[: _SHOWN - 1] + '…'}'"
