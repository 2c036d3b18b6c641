# SPDX-License-Identifier: MIT
"""Are objects there, whole, and what they are taken for? Each is read once and to its end.

An object is sound if one of its copies (loose, in a pack, here or in an alternate) can be
read, is of the expected kind and has the content that its id stands for: what ckpt and git
ask of an object before they use it. Contents are read in the order in which packs have them,
large ones in pieces, so that memory grows with the number of objects and not with their size.

Left out: what an object refers to, which is for those who know what it is good for.
"""

from __future__ import annotations

import os
import re
from binascii import unhexlify
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from ckpt import disk
from ckpt.errors import CkptError, is_want
from ckpt.git import operation
from ckpt.git.formats import ObjectID, to_hex, to_raw
from ckpt.git.history import seconds, time_in
from ckpt.git.index import Index, UnsupportedIndex, read_index
from ckpt.git.loose import DamagedObject, exists, loose_path
from ckpt.git.objects import MissingObject, ObjectStore, object_folders
from ckpt.git.packs import Pack, PackList
from ckpt.git.refs import IDENTITY
from ckpt.git.repack import cruft_objects, loose_objects, pack_stems, packed_commits
from ckpt.git.repository import Repository
from ckpt.git.streams import LARGE
from ckpt.paths import to_str

_OURS = ("refs/checkpoints", "refs/checkpoints-trash")
_FOLDER = 0o040000


@dataclass(frozen=True, slots=True)
class Roots:
    """Raw ids: `tips` of any kind, `trees` that only an index may hold, and `whole`, objects all
    of whose contents are among these, too, so that nobody has to look into them."""

    tips: set[bytes]
    trees: set[bytes]
    whole: set[bytes]


def held_by_git(repo: Repository) -> Roots:
    found = Roots(set(map(unhexlify, repo.refs.others())), set(), set())
    for git_dir in git_dirs(repo):
        found.tips.update(_heads(repo, git_dir))
        found.tips.update(_logged(os.path.join(git_dir, "logs"), repo.object_format.hex_length))
        for index in _indexes(repo, git_dir):
            _add_staged(index, found)
    return found


def git_dirs(repo: Repository) -> list[str]:
    """Of the main worktree, and of the linked ones."""
    linked = os.path.join(repo.common_dir, "worktrees")
    names = sorted(os.listdir(linked)) if os.path.isdir(linked) else []
    return [repo.common_dir, *(os.path.join(linked, name) for name in names)]


def worktree_of(git_dir: str) -> str | None:
    """The folder to which a git dir of `git_dirs` belongs, whether or not it is there; None if
    nobody can tell."""
    if os.path.basename(git_dir) == ".git":
        return os.path.dirname(git_dir)
    try:
        named = disk.read(os.path.join(git_dir, "gitdir")).rstrip(b"\n")
    except OSError:
        return None
    return os.path.dirname(os.path.join(git_dir, to_str(named))) if named else None


def present_worktrees(repo: Repository) -> list[str]:
    """The folders of all worktrees of a repository that are there, its own first."""
    places = [place for place in map(worktree_of, git_dirs(repo)) if place is not None]
    linked = (os.path.realpath(place) for place in places if os.path.isdir(place))
    return [*dict.fromkeys([repo.worktree, *linked])]


def in_worktree(git_dir: str) -> str:
    """Where something was found, for who looks from another worktree."""
    return f", in worktree '{worktree_of(git_dir) or git_dir}'"


def _heads(repo: Repository, git_dir: str) -> Iterator[bytes]:
    refs = type(repo.refs)(git_dir, repo.common_dir, repo.object_format.hex_length)
    try:
        commit = refs.head().commit
    except (CkptError, OSError):
        return
    if commit is not None:
        yield unhexlify(commit)
    yield from map(unhexlify, refs.own())


def _logged(logs: str, hex_length: int) -> set[bytes]:
    """The old and the new value of each line of each reflog."""
    found: set[bytes] = set()
    for folder, folders, names in os.walk(logs):
        folders[:] = [
            name
            for name in folders
            if os.path.relpath(os.path.join(folder, name), logs) not in _OURS
        ]
        for name in names:
            try:
                lines = disk.read(os.path.join(folder, name), disk.LARGE).split(b"\n")
            except OSError:
                continue
            for line in lines:
                found.update(line[: 2 * hex_length + 1].split(b" "))
    ids = (word for word in found if len(word) == hex_length and word.strip(b"0"))
    return {unhexlify(word) for word in ids if not word.strip(b"0123456789abcdef")}


def _indexes(repo: Repository, git_dir: str) -> Iterator[Index]:
    """A worktree's index, if it can be read."""
    try:
        data = disk.read(os.path.join(git_dir, "index"), disk.LARGE)
        yield read_index(
            data, hash_len=repo.object_format.oid_length, hash_name=repo.format.hash_name
        )
    except UnsupportedIndex:  # what it names is not known
        raise
    except (OSError, CkptError):
        return


def _add_staged(index: Index, found: Roots) -> None:
    found.whole.update(map(unhexlify, [entry.id for entry in index.entries]))
    # The tree of a folder whose entries are all here, and so are the trees of those in it.
    found.whole.update(map(unhexlify, index.trees.values()))


# -- Objects that nothing names any more: no ref, reflog, index or operation of any worktree

_STATE = b"ckpt: state of "  # how the message of a state commit begins
_STATE_COMMITTER = b"\ncommitter %s 0 +0000" % IDENTITY
_MOST_COMMITS = 200_000
_MOST_TREES = 100_000  # to be read of git's own history
_FIRST_COMMITS = 500  # whose trees are looked at in any case
_FULL_ID = re.compile(rb"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])")
_ENTRIES = {
    20: re.compile(rb"([0-7]+) [^\0]+\0([\0-\xff]{20})"),
    32: re.compile(rb"([0-7]+) [^\0]+\0([\0-\xff]{32})"),
}
_FOLDERS = (b"40000", b"040000")
_GITLINK = b"160000"


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The ends of it: commits that are no other's parent, trees and blobs that no commit and
    no tree of these has. With the time of each, in seconds since 1970: a commit's own, and
    of the others the one when git wrote them, or used them last."""

    commits: dict[ObjectID, int]
    trees: dict[ObjectID, int]
    blobs: dict[ObjectID, int]


def unreachable(repo: Repository) -> Unreachable:
    """Find them; reads only."""
    cruft = cruft_objects(repo.objects)
    loose = set(loose_objects(repo.objects))
    reach = _Reach(repo.objects, loose)
    try:
        lost = _look_for(repo, reach, {*cruft, *loose})
        commits = {to_hex(raw_id): reach.time_of(raw_id) for raw_id in lost.ends}
    finally:
        reach.close()

    def time_of(raw_id: bytes) -> int:
        return cruft.get(raw_id) or _mtime(repo.objects, raw_id)

    return Unreachable(
        commits,
        {to_hex(raw_id): time_of(raw_id) for raw_id in lost.trees},
        {to_hex(raw_id): time_of(raw_id) for raw_id in lost.blobs},
    )


def _look_for(repo: Repository, reach: _Reach, judged: set[bytes]) -> _Lost:
    reach.mark_commits(_tips(repo, reach))
    reach.mark_trees(_FIRST_COMMITS)
    lost = _Lost(reach, judged - reach.marked)
    if lost.blobs or lost.trees:
        reach.mark_trees(_MOST_COMMITS)
        lost.forget(reach.marked)
    return lost


def _tips(repo: Repository, reach: _Reach) -> Iterator[bytes]:
    """Where everything that is named begins; what an index has is marked by the way."""
    roots = held_by_git(repo)
    reach.marked |= roots.whole
    reach.also_trees += roots.trees
    yield from roots.tips
    yield from map(unhexlify, repo.refs.checkpoints().values())
    yield from map(unhexlify, repo.refs.trash().values())
    for git_dir in git_dirs(repo):
        files = operation.read(git_dir).contents if os.path.isdir(git_dir) else {}
        for text in files.values():
            yield from map(unhexlify, _FULL_ID.findall(text))


class _Reach:
    """What was found to be named."""

    def __init__(self, objects: ObjectStore, loose: set[bytes]) -> None:
        self.objects = objects
        self._loose = loose
        self._packs = PackList(objects.object_format)
        self._packs.look([objects.path])
        self.marked: set[bytes] = set()
        self.also_trees: list[bytes] = []
        self.is_cut_off = False
        self._entries = _ENTRIES[objects.object_format.oid_length]
        self._trees: list[tuple[int, bytes]] = []
        self._trees_left = _MOST_TREES

    def mark_commits(self, tips: Iterable[bytes]) -> None:
        todo = list(tips)
        count = 0
        while todo:
            commit = todo.pop()
            if commit in self.marked:
                continue
            self.marked.add(commit)
            named = self._named_by_tip(commit)
            if named is None:
                continue
            count += 1
            self.is_cut_off = count >= _MOST_COMMITS
            if self.is_cut_off:
                break
            time, tree, parents = named
            self._trees.append((time, tree))
            todo += parents
        self._trees.sort()

    def _named_by_tip(self, tip: bytes) -> tuple[int, bytes, list[bytes]] | None:
        """What a commit names; a tag leads to one, and a tree is kept for later."""
        for _ in range(5):  # a tag of a tag
            found = self.commit(tip)
            if found is not None:
                return found
            data = self._read(tip, b"tag")
            if not data:
                self.marked.discard(tip)
                self.also_trees.append(tip)
                return None
            tip = to_raw(data.partition(b"\n")[0].removeprefix(b"object ")) or tip
            self.marked.add(tip)
        return None

    def mark_trees(self, most_commits: int) -> None:
        """Of the newest so many commits that are left, of the indexes, and of odd tips."""
        while self.also_trees:
            self.mark_tree(self.also_trees.pop(), self.marked)
        for _ in range(min(most_commits, len(self._trees))):
            self.mark_tree(self._trees.pop()[1], self.marked)

    def mark_tree(self, tree: bytes, into: set[bytes]) -> None:
        """Mark a tree and all in it that is not marked anyway."""
        todo = [tree]
        while todo:
            current = todo.pop()
            if current in into or current in self.marked or self._trees_left <= 0:
                continue
            into.add(current)
            self._trees_left -= 1
            todo += self._mark_contents(current, into)

    def mark_inside(self, tree: bytes, into: set[bytes]) -> None:
        """Mark all that is in a tree, and not the tree itself."""
        for folder in self._mark_contents(tree, into):
            self.mark_tree(folder, into)

    def _mark_contents(self, tree: bytes, into: set[bytes]) -> list[bytes]:
        """Mark the contents of files right in a tree; returns the trees of its folders."""
        folders = []
        for mode, child in self._entries.findall(self._read(tree, b"tree")):
            if mode in _FOLDERS:
                folders.append(child)
            elif mode != _GITLINK:
                into.add(child)
        return folders

    def time_of(self, commit: bytes) -> int:
        found = self.commit(commit)
        return 0 if found is None else found[0]

    def commit(self, commit: bytes) -> tuple[int, bytes, list[bytes]] | None:
        """The time, the tree and the parents of one that can be read."""
        header = self._read(commit, b"commit").partition(b"\n\n")[0]
        lines = header.split(b"\n")
        tree = to_raw(lines[0].removeprefix(b"tree ")) if lines[0].startswith(b"tree ") else None
        if tree is None:
            return None
        parents = [to_raw(line[7:]) for line in lines if line.startswith(b"parent ")]
        return time_in(header), tree, [parent for parent in parents if parent]

    def is_state(self, commit: bytes) -> bool:
        """Whether it is one that a checkpoint keeps its state in."""
        header, _, message = self._read(commit, b"commit").partition(b"\n\n")
        return header.endswith(_STATE_COMMITTER) and message.startswith(_STATE)

    def _read(self, raw_id: bytes, kind: bytes) -> bytes:
        """The content of an object; nothing, if it cannot be read or is of another kind. What
        is in a pack is not compared with its id: that would take as long again."""
        place = None if raw_id in self._loose else self._packs.find(raw_id)
        try:
            if place is None:
                return self.objects.read(to_hex(raw_id), kind)
            found, data = self._packs.read(*place)
        except (MissingObject, DamagedObject):
            return b""
        return data if found == kind else b""

    def close(self) -> None:
        self._packs.close()


class _Lost:
    """Objects that are not marked, sorted out: `ends` are commits, and what `trees` and `blobs`
    have left is in none of them."""

    def __init__(self, reach: _Reach, unmarked: set[bytes]) -> None:
        kinds: dict[bytes | None, set[bytes]] = {b"commit": set(), b"tree": set(), b"blob": set()}
        for raw_id in unmarked:
            kinds.setdefault(reach.objects.kind(to_hex(raw_id)), set()).add(raw_id)
        commits = kinds[b"commit"]
        if not reach.is_cut_off:
            commits |= set(packed_commits(reach.objects)) - reach.marked
        below: set[bytes] = set()
        parents: dict[bytes, list[bytes]] = {}
        trees: dict[bytes, bytes] = {}
        for commit in commits:
            found = reach.commit(commit)
            if found is not None:
                _, trees[commit], parents[commit] = found
        # What a save or rescue that was killed has written of a checkpoint hides nothing, neither
        # a commit nor what was staged, which is in a tree of it.
        halves = {commit for commit in _ends(commits, parents) if reach.is_state(commit)}
        self.ends = _ends(commits - halves, parents)
        for commit in trees.keys() - halves:
            reach.mark_tree(trees[commit], below)
        others = kinds[b"tree"] - {trees[commit] for commit in halves & trees.keys()}
        self.trees = others - below
        for tree in others:
            reach.mark_inside(tree, below)
        self.trees -= below
        self.blobs = kinds[b"blob"] - below

    def forget(self, marked: set[bytes]) -> None:
        """Leave out what turns out to be named after all."""
        self.trees -= marked
        self.blobs -= marked


def _ends(commits: set[bytes], parents: dict[bytes, list[bytes]]) -> set[bytes]:
    """Those that are a parent of none of them."""
    return commits.difference(*(parents.get(commit, ()) for commit in commits))


def _mtime(objects: ObjectStore, raw_id: bytes) -> int:
    try:
        return seconds(str(int(os.stat(loose_path(objects.path, to_hex(raw_id))).st_mtime)))
    except OSError:
        return 0


# -- Are objects there, whole, and what they are taken for? Each is read once and to its end

MISSING, DAMAGED, UNREADABLE, WRONG_KIND, PROMISED = (
    "missing",
    "damaged",
    "unreadable",
    "wrong-kind",
    "promised",
)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with an object that was expected to be of a kind."""

    problem: str
    kind: bytes
    id: ObjectID
    detail: str


class Inspection:
    """Objects that were looked at, and those at fault by kind and id.

    `progress` is called with the number of objects and bytes that were read.
    """

    def __init__(
        self, objects: ObjectStore, progress: Callable[[int, int], None] | None = None
    ) -> None:
        self.objects = objects
        self.faults: dict[tuple[bytes, ObjectID], Fault] = {}
        self._sound: set[tuple[bytes, ObjectID]] = set()
        self._progress = progress
        self.read_bytes = 0

    @property
    def read_objects(self) -> int:
        return len(self._sound)

    def fault(self, kind: bytes, object_id: ObjectID) -> Fault | None:
        return self.faults.get((kind, object_id))

    def read(self, kind: bytes, object_id: ObjectID) -> bytes | None:
        """The content of a small object; None if it is at fault."""
        if (kind, object_id) in self.faults:
            return None
        try:
            data = self.objects.read(object_id, kind)
        except (MissingObject, OSError) as error:
            self._blame(kind, object_id, error)
            return None
        self._passed(kind, object_id, len(data))
        return data

    def condemn(self, kind: bytes, object_id: ObjectID, detail: str) -> None:
        """Note that what an object says cannot be."""
        shown = f"damaged {kind.decode()} {shown_id(object_id)}: {detail}"
        self.faults[kind, object_id] = Fault(DAMAGED, kind, object_id, shown)

    def check_blobs(self, blobs: Collection[ObjectID]) -> None:
        """Read contents to their end; those that were read before are not again."""
        left = {blob for blob in blobs if not self._is_known(blob)}
        sizes = self.objects.sizes(left)  # in the order of the packs
        for blob, size in sizes.items():
            self._check_blob(blob, size)
        for blob in sorted(left - sizes.keys()):
            self._check_blob(blob, 0)

    def distrust_packs(self) -> None:
        """Find fault with what only a pack has that does not end as its index says: each object
        may be right, but git reads none of them."""
        folders = object_folders(self.objects.path)
        stems = [stem for folder in folders for stem in pack_stems(folder)]
        packs = [Pack(stem, self.objects.object_format, []) for stem in stems]
        broken = [pack for pack in packs if not pack.is_whole()]
        others = [pack for pack in packs if pack.is_whole()]
        for kind, object_id in list(self._sound) if broken else ():
            raw_id = unhexlify(object_id)
            is_elsewhere = _holds(others, raw_id) or any(
                exists(loose_path(folder, object_id)) for folder in folders
            )
            if not is_elsewhere and _holds(broken, raw_id):
                self._sound.discard((kind, object_id))
                self.condemn(kind, object_id, "its pack does not match the index of that")

    def _is_known(self, blob: ObjectID) -> bool:
        return (b"blob", blob) in self._sound or (b"blob", blob) in self.faults

    def _check_blob(self, blob: ObjectID, size: int) -> None:
        try:
            if size > LARGE:
                self.objects.check(blob, b"blob")
            else:
                self.objects.read(blob, b"blob")
        except (MissingObject, OSError) as error:
            self._blame(b"blob", blob, error)
        else:
            self._passed(b"blob", blob, size)

    def _passed(self, kind: bytes, object_id: ObjectID, size: int) -> None:
        if (kind, object_id) not in self._sound:
            self._sound.add((kind, object_id))
            self.read_bytes += size
            if self._progress is not None:
                self._progress(len(self._sound), self.read_bytes)

    def _blame(self, kind: bytes, object_id: ObjectID, error: Exception) -> None:
        if isinstance(error, OSError) and is_want(error):
            raise error
        problem, detail = self._diagnosis(kind, object_id, error)
        self.faults[kind, object_id] = Fault(problem, kind, object_id, detail)

    def _diagnosis(self, kind: bytes, object_id: ObjectID, error: Exception) -> tuple[str, str]:
        name, shown = kind.decode(), shown_id(object_id)
        error = self._denial(object_id) or error
        if isinstance(error, OSError):  # of what has to be laid down on the way, for one
            return UNREADABLE, f"unreadable {name} {shown}: {error.strerror}"
        if not self.objects.has(object_id):
            return MISSING, f"missing {name} {shown}"
        found = self.objects.kind(object_id)
        if found is not None and found != kind:
            return WRONG_KIND, f"{shown} is a {found.decode()}, not a {name}"
        return DAMAGED, f"damaged {name} {shown}"

    def _denial(self, object_id: ObjectID) -> OSError | None:
        """Why we may not look where an object is, or may be, if that is so: it could be sound."""
        for folder in object_folders(self.objects.path):
            packs = [stem + ending for stem in pack_stems(folder) for ending in (".pack", ".idx")]
            for path in (loose_path(folder, object_id), *packs):
                try:
                    os.close(disk.opened(path))
                except PermissionError as error:
                    return error
                except OSError as error:
                    if is_want(error):
                        raise
        return None


def _holds(packs: list[Pack], raw_id: bytes) -> bool:
    return any(pack.find(raw_id) is not None for pack in packs)


def shown_id(object_id: ObjectID) -> str:
    return object_id.decode("ascii", "backslashreplace")[:64]
