# SPDX-License-Identifier: MIT
"""How git keeps refs as files, and the protocol by which they change.

A ref is a file of its own (loose) or a line in `packed-refs`, which a loose one hides. It
changes under `<ref>.lock`: the old value is compared, the new one durable before it has
the name. Loose refs are looked at before the packed ones, because git packs in that order.
To remove one, `packed-refs` stays locked until the loose file has gone, or git might pack
what is about to go. Folders that have become empty come and go at any moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from ckpt import disk, regular
from ckpt.errors import Busy, CkptError, Refused, is_want
from ckpt.store.lock import holding, replace_locked
from ckpt.store.loose_refs import (
    entries_of,
    inode_of,
    read_anyhow,
    read_loose,
    remove_empty,
    remove_empty_above,
    remove_file,
)
from ckpt.store.objects import ObjectID
from ckpt.store.packed_refs import PackedRefs, object_id
from ckpt.store.ref_names import is_safe, is_shared
from ckpt.store.sharing import NOT_SHARED

_MOST_LINKS = 5  # from one symbolic ref to the next, as in git
# How long git too waits for another process that holds a lock.
_REF_PATIENCE = 0.1
PACKED_PATIENCE = 1.0


class RefFiles:
    """The refs that one worktree sees."""

    def __init__(self, git_dir: str, common_dir: str, hex_length: int) -> None:
        self.git_dir = git_dir
        self.common_dir = common_dir
        self.sharing = NOT_SHARED
        self._private_dir = os.path.join(git_dir, "ckpt")
        self._hex_length = hex_length

    def read(self, ref: bytes) -> ObjectID | None:
        """The object a ref names, links followed; None where there is none."""
        return self._object_id(self._followed(ref)[1])

    def behind(self, ref: bytes) -> bytes:
        """The ref that changes when a commit is made on this one: another, if it is symbolic."""
        return self._followed(ref)[0]

    def _followed(self, ref: bytes) -> tuple[bytes, bytes]:
        """The ref at the end of the links, and what it says."""
        name = ref
        for _ in range(_MOST_LINKS):
            contents = self._contents(name)
            if not contents.startswith(b"ref:"):
                return name, contents
            name = contents[len(b"ref:") :].strip()
        raise CkptError(
            f"'{os.fsdecode(ref)}' is a link in a circle",
            hint="'git symbolic-ref' shows and changes where it leads",
        )

    def _contents(self, ref: bytes) -> bytes:
        """What a ref itself says, wherever it is kept; empty where there is none."""
        if not is_safe(ref):
            return b""
        loose = read_loose(self._path(ref))
        if loose is not None or not is_shared(ref):
            return loose or b""
        return self._packed().get(ref) or b""

    def _packed(self) -> PackedRefs:
        try:
            data = regular.read(self._packed_path, regular.LARGE)
        except FileNotFoundError:
            data = b""
        return PackedRefs(data, self._hex_length)

    @property
    def _packed_path(self) -> str:
        """Where the file itself is: several repositories may share it by a link, as those of
        `git-new-workdir` and `repo` do, and then it is locked and replaced where it is."""
        path = os.path.join(self.common_dir, "packed-refs")
        return os.path.realpath(path) if os.path.islink(path) else path

    # -- many ----------------------------------------------------------------------

    def _below(self, prefix: str) -> dict[str, ObjectID]:
        """Name to object of every ref below a prefix; loose refs hide packed ones, as in git."""
        names = list(self._loose_names(prefix))
        loose = {name: self._loose_value(prefix + name) for name in names}
        found = self._packed().below(prefix)
        for name, value in loose.items():
            if value is not None:
                found[name] = value
        return found

    def _loose_names(self, prefix: str, base: str | None = None) -> Iterator[str]:
        """The names, without the prefix, of the files below it."""
        folders = [""]
        for folder in folders:
            for entry in entries_of(os.path.join(base or self.common_dir, prefix + folder)):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{folder}{entry.name}/")
                elif not entry.name.endswith(".lock"):
                    yield folder + entry.name

    def _loose_value(self, name: str) -> ObjectID | None:
        """What a file holds; None also where it cannot be read."""
        try:
            contents = read_loose(os.path.join(self.common_dir, name))
        except OSError as error:
            if is_want(error):
                raise
            return None
        return self._object_id(contents)

    def contents_below(self, prefix: str) -> dict[str, bytes]:
        """Name to what every ref below a prefix says, also what no ref should: a link, or
        nothing. An error if `packed-refs` is damaged, which may hide some."""
        names = list(self._loose_names(prefix))
        loose = {name: read_anyhow(os.path.join(self.common_dir, prefix + name)) for name in names}
        packed = self._packed()
        packed.check()
        return {
            **packed.below(prefix),
            **{n: said for n, said in loose.items() if said is not None},
        }

    def hidden(self, ref: bytes) -> ObjectID | None:
        """What `packed-refs` says of a ref, and the ref's own file hides."""
        is_loose = read_anyhow(self._path(ref)) is not None
        return self._packed().get(ref) if is_loose and is_shared(ref) else None

    def remove_as(self, ref: bytes, contents: bytes, hidden: ObjectID | None) -> bool:
        """Delete a ref, whatever it says and hides; False if it says something else by now."""
        return self._remove(ref, lambda: self._says(ref, contents, hidden))

    def replace_as(
        self, ref: bytes, contents: bytes, hidden: ObjectID | None, new: ObjectID
    ) -> bool:
        """Move a ref, whatever it says and hides; False if it says something else by now."""
        return self._write(ref, new, lambda: self._says(ref, contents, hidden))

    def uncover(self, ref: bytes, contents: bytes, hidden: ObjectID) -> bool:
        """Take away the file of a ref, whatever it says, and let what it hid be seen; False if
        either has changed by now."""
        return self._remove_loose(ref, lambda: self._says(ref, contents, hidden), _REF_PATIENCE)

    def _says(self, ref: bytes, contents: bytes, hidden: ObjectID | None) -> bool:
        return self._contents(ref) == contents and self.hidden(ref) == hidden

    def named_by(self, contents: bytes) -> ObjectID | None:
        """The object that a ref's contents name, if they do."""
        return self._object_id(contents)

    # -- changing one --------------------------------------------------------------

    def _write(
        self,
        ref: bytes,
        value: ObjectID,
        still_valid: Callable[[], bool],
        patience: float = _REF_PATIENCE,
    ) -> bool:
        """Give a ref a value under its lock; False if `still_valid` says no by then."""
        _check_safe(ref)
        path = self._path(ref)
        folder = os.path.dirname(path)
        known = inode_of(folder)
        self._make_place(ref)
        is_written = replace_locked(
            path,
            value + b"\n",
            self._private_dir_for(ref),
            still_valid,
            patience=patience,
            sharing=self.sharing,
        )
        top = os.path.join(self._base(ref), "refs")
        if is_written and known != inode_of(
            folder
        ):  # new, or git took it away and we made it again
            while folder != top:
                folder = os.path.dirname(folder)
                disk.fsync_dir(folder)
        return is_written

    def _make_place(self, ref: bytes) -> None:
        """Make the folder for a ref, and take away empty ones where it shall stand."""
        path = self._path(ref)
        above = os.path.dirname(ref)
        while above and not os.path.isdir(self._path(above)):
            if os.path.lexists(self._path(above)):
                raise impossible(ref, above)
            above = os.path.dirname(above)
        self.sharing.make_folders(os.path.dirname(path))
        remove_empty(path)
        if os.path.isdir(path):
            raise impossible(ref, ref + b"/")

    def _is_free(self, ref: bytes) -> bool:
        """Whether a ref, whose lock we hold, does not exist and can."""
        if os.path.lexists(self._path(ref)):
            return False
        packed = self._packed()
        if packed.get(ref) is not None:
            return False
        obstacle = packed.obstacle_to(ref)
        if obstacle is not None:
            raise impossible(ref, obstacle)
        return True

    def _remove(
        self, ref: bytes, still_valid: Callable[[], bool], patience: float = _REF_PATIENCE
    ) -> bool:
        """Delete a ref under its lock; False if `still_valid` says no by then."""
        _check_safe(ref)
        path = self._path(ref)
        private_dir = self._private_dir_for(ref)
        with holding(path, private_dir, patience=patience, sharing=self.sharing):
            is_valid = still_valid()
            if is_valid:
                self._remove_locked(ref, path)
        # The first two parts of a name stay, as git has it.
        top = b"/".join(ref.split(b"/")[:2])
        remove_empty_above(path, self._path(top))
        return is_valid

    def _remove_locked(self, ref: bytes, path: str) -> None:
        with holding(self._packed_path, self._shared_dir, patience=PACKED_PATIENCE) as lock:
            packed = self._packed()
            if packed.get(ref) is not None:
                lock.replace(packed.without(ref))
            remove_empty(path)
            remove_file(path)

    # -- packing -------------------------------------------------------------------

    def pack(self, prefixes: Sequence[str], is_packed: Callable[[ObjectID], bool]) -> int:
        """Move the refs below some prefixes into `packed-refs`, those whose object may be there
        without the line that says what it peels to; how many went.

        As git does it: the new file first and durable, then each loose ref that is still the same.
        """
        with holding(self._packed_path, self._shared_dir, patience=PACKED_PATIENCE) as lock:
            loose = {name: self._loose_value(name) for name in self._all_loose(prefixes)}
            found = {
                os.fsencode(name): value
                for name, value in loose.items()
                if value is not None and is_safe(os.fsencode(name)) and is_packed(value)
            }
            contents = self._packed().with_refs(found)
            if not found or contents is None:
                return 0
            lock.replace(contents)
        return sum([self._drop_loose(ref, value) for ref, value in found.items()])

    def loose_count(self, prefixes: Sequence[str]) -> int:
        return len(self._all_loose(prefixes))

    def _all_loose(self, prefixes: Sequence[str]) -> list[str]:
        return [prefix + name for prefix in prefixes for name in self._loose_names(prefix)]

    def _drop_loose(self, ref: bytes, value: ObjectID) -> bool:
        """Take away the file of a ref that is packed, unless either has changed: the ref may
        have been dropped and brought back since."""
        path = self._path(ref)

        def is_same() -> bool:
            return value == self._object_id(read_loose(path)) == self._packed().get(ref)

        try:
            return self._remove_loose(ref, is_same)
        except Busy:
            return False

    def _remove_loose(
        self, ref: bytes, still_valid: Callable[[], bool], patience: float = 0.0
    ) -> bool:
        """Take away the file of a ref and nothing else; False if `still_valid` says no."""
        path = self._path(ref)
        with holding(path, self._shared_dir, patience=patience, sharing=self.sharing):
            is_valid = still_valid()
            if is_valid:
                remove_file(path)
        remove_empty_above(path, self._path(b"/".join(ref.split(b"/")[:2])))
        return is_valid

    # -- places --------------------------------------------------------------------

    def _path(self, ref: bytes) -> str:
        return os.path.join(self._base(ref), os.fsdecode(ref))

    def _base(self, ref: bytes) -> str:
        return self.common_dir if is_shared(ref) else self.git_dir

    def _private_dir_for(self, ref: bytes) -> str:
        return self._shared_dir if is_shared(ref) else self._private_dir

    @property
    def _shared_dir(self) -> str:
        """Where our files behind locks are that stand in the way of every worktree: not in one
        that can be removed, unless what there is belongs to another user."""
        common = os.path.join(self.common_dir, "ckpt")
        is_usable = os.access(common, os.W_OK | os.X_OK) or not os.path.lexists(common)
        return common if is_usable else self._private_dir

    def _object_id(self, contents: bytes | None) -> ObjectID | None:
        return None if not contents else object_id(contents, self._hex_length)


def _check_safe(ref: bytes) -> None:
    if not is_safe(ref):
        raise Refused(
            f"'{ref.decode('utf-8', 'backslashreplace')}' is not a valid ref name",
            hint="see 'git help check-ref-format'",
        )


def impossible(ref: bytes, obstacle: bytes) -> Busy:
    return Busy(
        f"'{os.fsdecode(obstacle)}' exists; cannot create '{os.fsdecode(ref)}'",
        hint="'git for-each-ref' lists the refs; rename the one that is in the way",
    )
