# SPDX-License-Identifier: MIT
"""Checkpoints that others made: by `git fetch`, from a bundle, or with a ref written by hand.

Foreign is what the record of checkpoints made here does not name, whatever it says of itself.
All that a rollback to one would rely on is looked at before it is: names that may reach any
file system, modes that git knows, no entry twice, no tree that unfolds into millions of files,
a manifest, an index and state files that can be read. Permission bits are no wider than those
that files get here. An operation that would have git run commands, or that moves branches, needs
consent (`--trust`), which also takes the rest as it is; what can never be right is refused even
then, elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ckpt.engine.head import ONE_COMMIT
from ckpt.engine.recorded import LARGEST_RULES, Recorded
from ckpt.errors import CkptError, Refused
from ckpt.git.formats import ObjectID
from ckpt.git.index import IndexEntry
from ckpt.git.objects import ObjectStore
from ckpt.git.operation import TODO_LISTS, UPDATE_REFS, OperationState
from ckpt.git.record import read_commit
from ckpt.git.refs import is_branch, is_ref_name
from ckpt.git.repository import Repository
from ckpt.git.rules import folded, is_gitmodules
from ckpt.git.trees import (
    EXECUTABLE,
    FOLDER,
    GITLINK,
    REGULAR,
    SYMLINK,
    UnsafeTree,
    check_name,
    is_null,
    read_tree,
)
from ckpt.models import Checkpoint, Scope
from ckpt.paths import to_bytes, to_str

if TYPE_CHECKING:
    Children = list[tuple[bytes, int, ObjectID]]

_MODES = frozenset((REGULAR, EXECUTABLE, SYMLINK, GITLINK, FOLDER))
_MOST_FILES = 5_000_000
_MOST_LEVELS = 500
_LONGEST_NAME = 4096
_OF_NTFS = re.compile(r"(?s)(?:\.git|git~[0-9]+)[. ]*(?::.*)?")


class Unsafe(Exception):
    """Why something of another's cannot be used."""


class TreeCheck:
    """`blobs` are the contents of all trees that were looked at."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._folders: dict[ObjectID, list[ObjectID]] = {}
        self._files: dict[ObjectID, int] = {}
        self._sums: dict[ObjectID, tuple[int, int]] = {}  # files and levels below each tree
        self.blobs: set[ObjectID] = set()

    def check(self, top: ObjectID) -> None:
        todo = [top]
        while todo:
            tree = todo.pop()
            if tree not in self._folders:
                children = self._open(tree)
                folders = [child for _, mode, child in children if mode == FOLDER]
                self._folders[tree] = folders
                self._files[tree] = len(children) - len(folders)
                todo += folders
        self._measure(top)

    def _measure(self, top: ObjectID) -> None:
        """Sum up from the innermost trees, each once."""
        todo = [top]
        while todo:
            tree = todo[-1]
            unknown = [child for child in self._folders[tree] if child not in self._sums]
            if unknown:
                todo += unknown
                continue
            self._sums[todo.pop()] = self._sum(tree)

    def _sum(self, tree: ObjectID) -> tuple[int, int]:
        below = [self._sums[child] for child in self._folders[tree]]
        files = self._files[tree] + sum(files for files, _ in below)
        levels = 1 + max((levels for _, levels in below), default=0)
        if files > _MOST_FILES:
            raise Unsafe("it unfolds into millions of files")
        if levels > _MOST_LEVELS:
            raise Unsafe("its folders are too deep")
        return max(files, 1), levels  # an empty folder counts, too

    def _open(self, tree: ObjectID) -> Children:
        try:
            children = read_tree(self._objects, tree)
        except CkptError as error:
            raise Unsafe(error.message) from None
        names = [name for name, _, _ in children]
        if len({*names}) < len(names):
            raise Unsafe("a tree has two entries of one name")
        keys = [name + b"/" * (mode == FOLDER) for name, mode, _ in children]
        if keys != sorted(keys):
            raise Unsafe("the entries of a tree are not in order")
        for name, mode, child in children:
            check_entry(name, mode)
            if is_null(child):
                raise Unsafe(f"'{shown(name)}' names no object")
            if mode not in (FOLDER, GITLINK):
                self.blobs.add(child)
        return children


def check_blobs(objects: ObjectStore, blobs: Iterable[ObjectID]) -> None:
    """Refuse a content that is not here, or is something else."""
    for blob in blobs:
        if objects.kind(blob) != b"blob":
            raise Unsafe(f"content {blob.decode()} is not there")


def check_entry(name: bytes, mode: int) -> None:
    """Refuse what git would not have in a worktree or an index."""
    if mode not in _MODES:
        raise Unsafe(f"'{shown(name)}' has the unknown mode {mode:o}")
    _check_name(name)
    if mode not in (REGULAR, EXECUTABLE) and is_gitmodules(name):
        raise Unsafe(f"'{shown(name)}' would be '.gitmodules' and is no file")


def check_path(path: bytes) -> None:
    """Refuse a path that no tree could have had: it came in another way."""
    names = path.split(b"/")
    if len(names) > _MOST_LEVELS:
        raise Unsafe("its folders are too deep")
    try:
        for name in names:
            check_name(name)
            _check_name(name)
    except UnsafeTree as error:
        raise Unsafe(error.message) from None


def _check_name(name: bytes) -> None:
    if len(name) > _LONGEST_NAME or is_git_dir(name):
        raise Unsafe(f"'{shown(name)}' is no name for a file")


def is_git_dir(name: bytes) -> bool:
    """Whether some file system would take the name for `.git`, or for a way to it."""
    text = folded(name)
    parts = text.split("\\")
    return text == ".git" or ".." in parts or any(map(_OF_NTFS.fullmatch, parts))


def shown(text: bytes) -> str:
    return to_str(text).encode("utf-8", "backslashreplace").decode("utf-8")[:80]


# -- Checkpoints that others made: by `git fetch`, from a bundle, or with a ref written by hand

_MOST_SHOWN = 10
_DAMAGE = (AttributeError, KeyError, TypeError, ValueError)


def check_target(target: Recorded, *, head: bool) -> None:
    """Refuse what is not safe in another's checkpoint; it was opened without trust."""
    try:
        _check_parts(target)
        if head:
            _check_head(target)
    except Unsafe as error:
        raise Refused(
            f"checkpoint '{target.checkpoint.id}' was not made here and is not safe: {error}",
            hint=f"nothing was touched; 'git ckpt show {target.checkpoint.id}' tells more, "
            "--trust takes it as it is",
        ) from None
    if head:
        _check_consent(target)


def _check_consent(target: Recorded) -> None:

    commands = needs_consent(target.operation)
    if commands:
        listed = ", ".join(f"'{command}'" for command in commands)
        raise Refused(
            f"checkpoint '{target.checkpoint.id}' was not made here, and git would go by what its "
            f"operation says: {listed}",
            hint=f"look: git ls-tree -r {target.checkpoint.state_commit} op/files/; "
            "repeat the command with --trust to agree, or without --head",
            details={"commands": commands},
        )


def check_branches(target: Recorded, moving: Iterable[bytes]) -> None:
    """Refuse to move branches that HEAD is not on because another's checkpoint says so."""
    branches = [shown(branch) for branch in moving]
    if branches:
        listed = ", ".join(f"'{branch}'" for branch in branches[:_MOST_SHOWN])
        raise Refused(
            f"checkpoint '{target.checkpoint.id}' was not made here, and would move branches that "
            f"HEAD is not on: {listed}",
            hint="repeat the command with --trust to agree, or without --head",
            details={"branches": branches},
        )


def check(repo: Repository, checkpoint: Checkpoint) -> None:
    """Refuse to import a checkpoint that is not whole, or not safe."""
    try:
        _check_import(repo, checkpoint)
    except Unsafe as error:
        raise Refused(
            f"checkpoint '{checkpoint.id}' is not imported: {error}", hint="nothing was imported"
        ) from None


def _check_import(repo: Repository, checkpoint: Checkpoint) -> None:
    from ckpt.engine.verify import fault_behind

    objects = repo.objects
    commits = [ObjectID(checkpoint.head_commit.encode())] if checkpoint.head_commit else []
    commits += read_commit(objects, ObjectID(checkpoint.state_commit.encode())).parents
    for commit in commits:
        if objects.kind(commit) != b"commit":
            raise Unsafe(f"commit {commit.decode()} is not here; fetch it first")
        fault = fault_behind(repo, commit)
        if fault is not None:  # with a ref to it no gc would come to an end
            raise Unsafe(f"commit {commit.decode()} is not whole: {fault}")
    blobs = _check_parts(Recorded(repo, checkpoint))
    check_blobs(objects, blobs)
    if checkpoint.operation is not None:
        raise Unsafe(f"a {checkpoint.operation} was under way, whose files may name commands")


def _check_parts(target: Recorded) -> set[ObjectID]:
    """Look at everything but the operation; returns the contents that trees name."""
    trees = TreeCheck(target.objects)
    try:
        trees.check(target.tree)
        trees.check(target.state_tree)
        _ = target.checkpoint.operation
        _check_rules(target)
        for path in _told_paths(target):
            check_path(path)
        for entry in _intended(target):
            check_entry(entry.path.rpartition(b"/")[2], entry.mode)
    except CkptError as error:
        raise Unsafe(error.message) from None
    except _DAMAGE as error:
        raise Unsafe(f"it is damaged ({error!r})") from None
    return trees.blobs


def _check_rules(target: Recorded) -> None:
    """Millions of ignore rules would take hours."""
    if target.checkpoint.scope is Scope.FULL:
        for text in target.manifest.excludes.values():
            if len(text) > LARGEST_RULES:
                raise Unsafe(f"ignore rules of {len(text):,} bytes")


def _told_paths(target: Recorded) -> Iterator[bytes]:
    """The paths that are not in trees alone, and that something is written to."""
    yield from target.state_files
    if target.checkpoint.scope is not Scope.FULL:
        return
    yield from target.manifest.empty_folders
    yield from (to_bytes(state.path) for state in target.manifest.nested)
    yield from (entry.path for entry in _intended(target))


def _intended(target: Recorded) -> list[IndexEntry]:
    """The entries of the index that no tree has."""
    if target.checkpoint.scope is not Scope.FULL:
        return []
    return [entry for entry in target.index.entries if entry.intent_to_add]


def _check_head(target: Recorded) -> None:

    branch = target.head.branch
    if branch is not None and not is_branch(branch):
        raise Unsafe(f"HEAD would be at '{shown(branch)}', which is no branch")
    try:
        operation = target.operation
    except CkptError as error:
        raise Unsafe(error.message) from None
    check_files(operation)


# -- The operation in progress of somebody else's checkpoint, looked at before git goes by it

_ID = rb"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_CONFLICT = re.compile(rb"(?s)" + _ID + rb"(?:\.[0-9]+)?\t(.+)")
# One thing to do on each line: a word or its letter, and what to do it with.
_TODO = re.compile(
    rb"\s*(?:#.*|(?:p|pick|r|reword|e|edit|s|squash|f|fixup|d|drop|revert|l|label|t|reset|m|merge"
    rb"|noop)(?:\s.*)?)?"
)
_COMMAND = re.compile(rb"\s*(?:x|exec|b|break)(?:\s.*)?")
_UPDATE_REF = re.compile(rb"\s*(?:u|update-ref)\s+(\S+)\s*")
_MOST_SHOWN_foreign_operation, _LONGEST_SHOWN = 10, 60


def _is_todo(data: bytes) -> bool:
    return b"\0" not in data and all(map(_is_thing_to_do, data.splitlines()))


def _is_thing_to_do(line: bytes) -> bool:
    moved = _UPDATE_REF.fullmatch(line)
    if moved is not None:
        return _is_branch(moved[1])
    return bool(_TODO.fullmatch(line) or _COMMAND.fullmatch(line))


def _is_branch(data: bytes) -> bool:
    name = data.strip()
    return name == b"detached HEAD" or is_branch(name)


def _is_place(data: bytes) -> bool:
    """A branch without its prefix, or a commit, to which a bisect returns."""
    name = data.strip()
    return not name.startswith(b"-") and is_ref_name(b"refs/heads/" + name)


def _are_rewritten(data: bytes) -> bool:
    """Refs that go when a rebase ends."""
    refs = data.splitlines()
    return all(name.startswith(b"refs/rewritten/") and is_ref_name(name) for name in refs)


def _are_moves(data: bytes) -> bool:
    """Three lines for each branch: its name, where it stands, where it shall."""
    lines = data.splitlines()
    ids = [line for number, line in enumerate(lines) if number % 3]
    return all(map(_is_branch, lines[::3])) and all(map(_CHECKS["ids"], ids))


def _are_conflicts(data: bytes) -> bool:
    """Paths that `rerere` writes to, each up to a zero."""
    *conflicts, rest = data.split(b"\0")
    return not rest and all(map(_is_conflict, conflicts))


def _is_conflict(data: bytes) -> bool:
    found = _CONFLICT.fullmatch(data)
    try:
        check_path(found[1] if found is not None else b"")
    except Unsafe:
        return False
    return True


def _only(expression: bytes) -> Callable[[bytes], object]:
    """Nothing else but white space around it, which the expression need not mind: two that may
    take the same spaces try each way to divide them."""
    fullmatch = re.compile(expression).fullmatch
    return lambda data: fullmatch(data.strip())


_CHECKS: dict[str, Callable[[bytes], object]] = {
    "id": _only(_ID),
    "ids": re.compile(rb"(?:" + _ID + rb"\s+)*(?:" + _ID + rb")?").fullmatch,
    "number": _only(rb"[0-9]{0,9}"),
    "flag": _only(rb"(?:[a-z-]{1,30}|[01])?"),
    "fixups": re.compile(rb"(?:(?:fixup|squash)(?: -[cC])? " + _ID + rb"\s*)*").fullmatch,
    "terms": re.compile(rb"[A-Za-z0-9][\w.-]{0,60}\n[A-Za-z0-9][\w.-]{0,60}\n?").fullmatch,
    "strategy": _only(rb"(?:ort|recursive|resolve|octopus|ours|subtree)?"),
    "text": lambda data: True,
    "todo": _is_todo,
    "branch": _is_branch,
    "place": _is_place,
    "rewritten": _are_rewritten,
    "moves": _are_moves,
    "conflicts": _are_conflicts,
}
_FILES = {
    "id": " ".join(ONE_COMMIT),
    "ids": """ORIG_HEAD AUTO_MERGE REBASE_HEAD MERGE_HEAD BISECT_EXPECTED_REV rebase-merge/amend
        rebase-merge/stopped-sha rebase-merge/rewritten-list rebase-merge/rewritten-pending
        rebase-apply/rewritten rebase-apply/abort-safety rebase-apply/original-commit
        sequencer/abort-safety""",
    "number": "rebase-merge/msgnum rebase-merge/end rebase-apply/next rebase-apply/last",
    "flag": """MERGE_MODE BISECT_ANCESTORS_OK BISECT_FIRST_PARENT rebase-merge/quiet
        rebase-merge/verbose rebase-merge/signoff rebase-merge/interactive
        rebase-merge/allow_rerere_autoupdate rebase-merge/reschedule-failed-exec
        rebase-merge/no-reschedule-failed-exec rebase-merge/drop_redundant_commits
        rebase-merge/keep_redundant_commits rebase-merge/cdate_is_adate rebase-merge/ignore_date
        rebase-apply/quiet rebase-apply/utf8 rebase-apply/keep rebase-apply/messageid
        rebase-apply/scissors rebase-apply/quoted-cr rebase-apply/sign rebase-apply/threeway
        rebase-apply/rebasing rebase-apply/applying rebase-apply/dirtyindex""",
    "fixups": "rebase-merge/current-fixups",
    "terms": "BISECT_TERMS",
    "strategy": "rebase-merge/strategy",
    "text": """MERGE_MSG SQUASH_MSG BISECT_LOG BISECT_RUN rebase-merge/message rebase-merge/patch
        rebase-merge/message-fixup rebase-merge/message-squash rebase-apply/patch
        rebase-apply/info rebase-apply/msg rebase-apply/msg-clean rebase-apply/final-commit""",
    "todo": " ".join(TODO_LISTS),
    "branch": "rebase-merge/head-name rebase-apply/head-name",
    "place": "BISECT_START",
    "rewritten": "rebase-merge/refs-to-delete",
    "moves": UPDATE_REFS,
    "conflicts": "MERGE_RR",
}
_CHECK_OF = {path: _CHECKS[kind] for kind, paths in _FILES.items() for path in paths.split()}
_PATCHES = re.compile(r"rebase-apply/[0-9]{1,9}")
_REFS = ("refs/bisect/", "refs/rewritten/")

# Files by which git is told how to go about it. Without being asked about they may say nothing,
# and one of them what names no program, as a strategy does, and has none run, as signing has.
_OPTIONS = "sequencer/opts"
_HOW = f"""rebase-merge/author-script rebase-apply/author-script rebase-apply/apply-opt
    rebase-merge/strategy_opts rebase-merge/gpg_sign_opt rebase-apply/gpg_sign_opt BISECT_NAMES
    {_OPTIONS}""".split()
_HARMLESS = b"""allow-empty allow-empty-message allow-ff allow-rerere-auto drop-redundant-commits
    edit keep-redundant-commits mainline no-commit record-origin signoff""".split()
_OPTION = _only(rb"(?:\[options\]|(?:%s) = (?:true|false|[0-9]{1,9}))?" % b"|".join(_HARMLESS))


def _says_nothing(path: str, data: bytes) -> bool:
    if path == _OPTIONS:
        return all(map(_OPTION, data.split(b"\n")))
    return not data.strip()


def check_files(state: OperationState) -> None:
    """Refuse a file that is not one of git's, or does not hold what git writes into it."""
    for path, data in state.files.contents.items():
        if path not in _HOW and not _check_of(path)(data):
            raise Unsafe(f"'{shown(path.encode())}' does not hold what git writes there")
    for branch in state.branches:
        if not _is_branch(branch):
            raise Unsafe(f"it would move '{shown(branch)}', which is no branch")


def _check_of(path: str) -> Callable[[bytes], object]:
    if path.startswith(_REFS) and is_ref_name(path.encode("utf-8", "surrogateescape")):
        return _CHECKS["id"]
    if _PATCHES.fullmatch(path):
        return _CHECKS["text"]
    found = _CHECK_OF.get(path)
    if found is None:
        raise Unsafe(f"'{shown(path.encode('utf-8', 'surrogateescape'))}' is no file of git's")
    return found


def needs_consent(state: OperationState) -> list[str]:
    """What git would run or go by if the operation went on, as a person can read it."""
    texts = dict.fromkeys(text[:_LONGEST_SHOWN] for text in _commands(state))
    return [*texts][:_MOST_SHOWN_foreign_operation]


def _is_order(line: bytes) -> bool:
    return bool(_COMMAND.fullmatch(line) or _UPDATE_REF.fullmatch(line))


def _commands(state: OperationState) -> Iterator[str]:
    for path, data in sorted(state.files.contents.items()):
        if path in TODO_LISTS:
            for line in filter(_is_order, data.splitlines()):
                yield shown(line.strip())
        elif path == UPDATE_REFS:
            for branch in data.splitlines()[::3]:
                yield f"update-ref {shown(branch)}"
        elif path in _HOW and not _says_nothing(path, data):
            yield path
