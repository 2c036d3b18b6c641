# SPDX-License-Identifier: MIT
"""From a file's bytes to the blob that `git add` would make of them, and the way back.

For each file that git converts: its cleaned blob, and either a recipe that was tried and
gives the same bytes again, or the bytes themselves. A driver's smudge command is relied on
only for a blob that HEAD has at that path, as git relies on it itself; what a driver made of
a file that is changed or only staged may be gone tomorrow (`git lfs prune`). Git LFS must have
the content in its local store besides. Where a driver fails, or an encoding does not fit, the
bytes are taken as they are and stand under `raw/` as well.

Left out: built-in conversions of files too large to be held in memory. Their bytes are
taken as they are.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from functools import cached_property

from ckpt.engine import lfs, remembered
from ckpt.engine.contents import VanishedFile, add_stable, is_fresh
from ckpt.engine.origins import Converted, DriverRecipe
from ckpt.engine.smudging import file_id, open_filters
from ckpt.hashing import sha256
from ckpt.store.loose import LARGEST_WHOLE
from ckpt.store.objects import LARGEST_KEPT, MissingObject, ObjectID, ObjectStore
from ckpt.store.repository import Repository
from ckpt.store.staging import Staged
from ckpt.store.streams import UnreadableFile, file_pieces
from ckpt.values import value_class
from ckpt.worktree import reach
from ckpt.worktree.convert import Conversion, clean, find_recipe
from ckpt.worktree.encodings import Unconvertible
from ckpt.worktree.filter_errors import FilterFailed
from ckpt.worktree.identity import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

    from ckpt.worktree.deadline import Deadline
    from ckpt.worktree.filters import Driver

_ATTEMPTS = 4

HeadBlob = Callable[[bytes], ObjectID | None]


@value_class
class _Cleaned:
    """A file's blob, the id of its bytes, and how these come back if they are not stored."""

    blob: ObjectID
    raw: ObjectID
    recipe: str = ""
    failed: bool = False

    @classmethod
    def same(cls, blob: ObjectID) -> _Cleaned:
        return cls(blob, blob)

    @classmethod
    def failure(cls, blob: ObjectID) -> _Cleaned:
        """Taken as it is because it could not be cleaned."""
        return cls(blob, blob, failed=True)


class Cleaner:
    """Cleans the files of one capture; `converted` are those that differ from their blob."""

    def __init__(
        self,
        repo: Repository,
        objects: ObjectStore,
        read_staged: Callable[[], Staged],
        head_blob: HeadBlob,
        deadline: Deadline | None = None,
    ) -> None:
        self._objects = objects
        self._head_blob = head_blob
        self._read_staged = read_staged
        self._filters = open_filters(repo, deadline)
        self._lfs = lfs.LocalStore(repo)
        self.memory = remembered.Memory(repo.private_dir, repo.worktree)
        self.converted: dict[bytes, Converted] = {}
        # Files whose blob follows from their bytes and the attributes, and is these bytes.
        self.fixed: set[bytes] = set()
        self._rules: dict[Conversion, str] = {}

    @cached_property
    def _staged(self) -> dict[bytes, ObjectID]:
        entries = self._read_staged().index.entries
        return {e.path: ObjectID(e.id) for e in entries if e.stage in (0, 2)}

    def close(self) -> None:
        self._filters.close()

    def known(self, path: bytes, status: os.stat_result, asked: Conversion) -> ObjectID | None:
        """The blob of a file that was converted before and has not changed."""
        found = self.memory.find(path, status, self._rule(asked), self._staged.get(path))
        if found is None:
            return None
        if not found.recipe and found.raw != found.blob and not self._objects.has(found.raw):
            return None
        recipe = DriverRecipe.parse(found.recipe)
        if recipe is not None and not self._is_relied_on(path, recipe.driver, found.blob):
            return None
        self._note(path, _Cleaned(found.blob, found.raw, found.recipe))
        return found.blob

    def add(self, path: bytes, full: bytes, asked: Conversion) -> tuple[ObjectID, os.stat_result]:
        """Add a file's blob, with the stat data that it had before and after.

        VanishedFile or UnreadableFile as with add_stable.
        """
        for _ in range(_ATTEMPTS):
            added = self._attempt(path, full, asked)
            if added is not None:
                return added
        raise UnreadableFile.changing()

    def _attempt(
        self, path: bytes, full: bytes, asked: Conversion
    ) -> tuple[ObjectID, os.stat_result] | None:
        try:
            fd = reach.open_file(full)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise VanishedFile(full) from error
        except OSError as error:
            raise UnreadableFile(error.errno, error.strerror) from error
        with open(fd, "rb") as file:
            before, began = os.fstat(fd), time.time_ns()
            if not stat.S_ISREG(before.st_mode):
                return None
            if before.st_size > LARGEST_KEPT and asked.driver not in self._filters.drivers:
                return add_stable(self._objects, full)
            try:
                cleaned = self._clean(path, asked, file, before.st_size)
                hides = is_fresh(before, began)
                again = self._objects.hash_file(fd, before.st_size) if hides else cleaned.raw
            except UnreadableFile:
                return None
            if again != cleaned.raw or identity(before) != identity(os.fstat(fd)):
                return None
        self._note(path, cleaned)
        self._remember(path, before, asked, cleaned)
        return cleaned.blob, before

    def _note(self, path: bytes, cleaned: _Cleaned) -> None:
        if cleaned.failed or cleaned.raw != cleaned.blob:
            self.converted[path] = Converted(cleaned.raw, cleaned.recipe)

    def _remember(
        self, path: bytes, status: os.stat_result, asked: Conversion, cleaned: _Cleaned
    ) -> None:
        if cleaned.failed or path in self.fixed or cleaned.blob != self._staged.get(path):
            return
        known = remembered.Conversion(
            identity(status), self._rule(asked), cleaned.blob, cleaned.raw, cleaned.recipe
        )
        self.memory.add(path, status, known)

    def _rule(self, asked: Conversion) -> str:
        """All that a conversion follows from, but for the content and the index entry."""
        if asked not in self._rules:
            self._rules[asked] = f"{asked} {self._filters.drivers.get(asked.driver or '')}"
        return self._rules[asked]

    def _clean(self, path: bytes, asked: Conversion, file: IO[bytes], size: int) -> _Cleaned:
        driver = self._filters.drivers.get(asked.driver or "")
        if driver is None:
            data = b"".join(file_pieces(file.fileno(), size))
            cleaned = self._built_in(path, asked, data)
            if cleaned == _Cleaned.same(cleaned.blob) and b"\r" not in data:
                self.fixed.add(path)  # also if the index gets another content
            return cleaned
        pointer = self._unchanged_pointer(path, driver, file, size)
        if pointer is not None:
            return self._by_pointer(path, driver, pointer, file, size)
        try:
            output = self._filters.clean(driver, path, file)
        except FilterFailed:
            return _Cleaned.failure(self._objects.add_file(file.fileno(), size))
        if output is None:  # it has only a smudge command
            if size > LARGEST_KEPT or not asked.is_built_in:
                return _Cleaned.same(self._objects.add_file(file.fileno(), size))
            return self._built_in(path, asked, b"".join(file_pieces(file.fileno(), size)))
        with output:
            return self._by_driver(path, asked, driver, output, file, size)

    def _built_in(self, path: bytes, asked: Conversion, data: bytes) -> _Cleaned:
        objects = self._objects
        try:
            blob = clean(asked, data, lambda: self._index_blob(path, data))
        except Unconvertible:
            return _Cleaned.failure(objects.add(b"blob", data))
        blob_id = objects.hash(b"blob", blob)
        # What the index names needs no protection from gc, which takes time for each file.
        if blob_id != self._staged.get(path) or objects.size(blob_id) != len(blob):
            blob_id = objects.add(b"blob", blob)
        if blob == data:
            return _Cleaned.same(blob_id)
        recipe = find_recipe(asked, data, blob, blob_id)
        if recipe is None:
            return _Cleaned(blob_id, objects.add(b"blob", data))
        return _Cleaned(blob_id, objects.hash(b"blob", data), recipe)

    def _by_driver(
        self,
        path: bytes,
        asked: Conversion,
        driver: Driver,
        output: IO[bytes],
        file: IO[bytes],
        size: int,
    ) -> _Cleaned:
        """What the driver gave is converted further, and tried the other way round."""
        objects, fd = self._objects, file.fileno()
        given = os.fstat(output.fileno()).st_size
        if asked.is_built_in and given <= LARGEST_KEPT:
            inner = self._built_in(path, asked, output.read())
            output.seek(0)
        else:
            inner = _Cleaned.same(objects.add_file(output.fileno(), given))
        raw = objects.hash_file(fd, size)
        if raw == inner.blob:
            return _Cleaned.same(raw)
        can_return = inner.raw == inner.blob or inner.recipe
        if (
            can_return
            and self._is_relied_on(path, driver.name, inner.blob)
            and self._smudges_to(path, driver, output, raw, inner.blob)
        ):
            return _Cleaned(inner.blob, raw, str(DriverRecipe(inner.recipe, driver.name, raw)))
        return _Cleaned(inner.blob, objects.add_file(fd, size))

    def _by_pointer(
        self, path: bytes, driver: Driver, blob: ObjectID, file: IO[bytes], size: int
    ) -> _Cleaned:
        pointer = lfs.read_pointer(self._objects, blob)
        is_held = pointer is not None and self._lfs.holds(pointer)
        if not is_held or not self._is_relied_on(path, driver.name, blob):
            return _Cleaned(blob, self._objects.add_file(file.fileno(), size))
        raw = self._objects.hash_file(file.fileno(), size)
        return _Cleaned(blob, raw, str(DriverRecipe("", driver.name, raw)))

    def _is_relied_on(self, path: bytes, driver: str, blob: ObjectID) -> bool:
        """Whether the driver may be expected to give the bytes again, also later."""
        if blob != self._head_blob(path):
            return False
        pointer = lfs.read_pointer(self._objects, blob) if driver == lfs.DRIVER else None
        return pointer is None or self._lfs.has(pointer)

    def _smudges_to(
        self, path: bytes, driver: Driver, cleaned: IO[bytes], raw: ObjectID, blob: ObjectID
    ) -> bool:
        try:
            output = self._filters.smudge(driver, path, cleaned, blob)
        except FilterFailed:
            return False
        if output is None:
            return False
        with output:
            return file_id(self._objects, output) == raw

    def _unchanged_pointer(
        self, path: bytes, driver: Driver, file: IO[bytes], size: int
    ) -> ObjectID | None:
        """The index's Git LFS pointer, if it stands for this content: no process need say so."""
        blob = self._staged.get(path)
        if driver.name != lfs.DRIVER or blob is None:
            return None
        found = lfs.read_pointer(self._objects, blob)
        if found is None or found.size != size:
            return None
        digest = sha256(expected=size)
        for piece in file_pieces(file.fileno(), size):
            digest.update(piece)
        return blob if digest.hexdigest() == found.oid else None

    def _index_blob(self, path: bytes, data: bytes) -> bytes | None:
        blob = self._staged.get(path)
        likely = data.replace(b"\r\n", b"\n")  # which is quicker to tell than to read
        if blob is None or self._objects.hash(b"blob", likely) == blob:
            return None if blob is None else likely
        try:
            return self._objects.read(blob, b"blob", LARGEST_WHOLE)
        except MissingObject:  # in a partial clone, say
            return None
