# SPDX-License-Identifier: MIT
"""The bytes that a file had on disk, from what a checkpoint has of it.

Stored as they were, or made from git's blob: by a recipe, which always gives the same, or
with the smudge command of a filter driver, which may be gone, fail or give something else
by now. What Git LFS has in its local store is taken from there: its driver may be told not
to give it. All of that is compared with what was recorded before any of it is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ckpt.engine.changes import FileState
from ckpt.engine.origins import DriverRecipe, built_in
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.repository import Repository
from ckpt.store.streams import UnreadableFile, file_pieces

TYPE_CHECKING = False
if TYPE_CHECKING:  # few repositories have drivers, and it takes time to import
    from typing import IO

    from ckpt.worktree.deadline import Deadline
    from ckpt.worktree.filters import Filters


class Unrestorable(Exception):
    """Bytes that only a filter driver could give, and it does not; the message says why."""


def open_filters(repo: Repository, deadline: Deadline | None = None) -> Filters:
    """The drivers of git's configuration, in the environment that git gives them."""
    from ckpt.worktree import filters

    env = dict(repo.env)
    if env.keys() & {"GIT_DIR", "GIT_WORK_TREE"}:
        env |= {"GIT_DIR": repo.git_dir, "GIT_WORK_TREE": repo.worktree}
    # A driver may run git, and that must not wait for the checkpoint being made.
    env["CKPT_DISABLE"] = "1"
    drivers = filters.read_drivers(repo.config.items("filter"))
    return filters.Filters(
        drivers,
        top=repo.worktree,
        env=env,
        timeout=filters.TIMEOUT,
        scratch=_scratch(repo),
        deadline=deadline,
    )


def _scratch(repo: Repository) -> str | None:
    """Where temporary files go: to the repository's disk, which has to hold as much anyway."""
    return repo.private_dir if os.path.isdir(repo.private_dir) else None


class Smudger:
    """Gives the bytes of files; holds the processes of drivers until it is closed."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._filters: Filters | None = None

    def __enter__(self) -> Smudger:
        return self

    def __exit__(self, *_: object) -> None:
        if self._filters is not None:
            self._filters.close()

    def pieces(self, path: bytes, state: FileState) -> Iterator[bytes]:
        """MissingObject or Unrestorable at any time until the last of them."""
        objects = self._repo.objects
        origin = state.origin
        if origin is None or not origin.recipe:
            yield from objects.pieces(state.entry.id)
            return
        recipe = DriverRecipe.parse(origin.recipe)
        if recipe is None:
            yield built_in(objects, origin.blob, origin.recipe)
            return
        stored = from_lfs(self._repo, origin.blob, recipe)
        with stored or self._by_driver(path, origin.blob, recipe) as output:
            yield from file_pieces(output.fileno(), os.fstat(output.fileno()).st_size)

    def check(self, path: bytes, state: FileState) -> None:
        """Read them to their end, for the errors that this may raise."""
        for _ in self.pieces(path, state):
            pass

    def _by_driver(self, path: bytes, blob: ObjectID, recipe: DriverRecipe) -> IO[bytes]:
        from ckpt.worktree.filter_errors import FilterFailed

        try:
            with self._cleaned(blob, recipe.built_in) as source:
                output = self._smudge(path, blob, recipe.driver, source)
        except FilterFailed as error:
            raise Unrestorable(f"filter '{recipe.driver}' failed: {error}") from None
        if file_id(self._repo.objects, output) != recipe.raw:
            output.close()
            raise Unrestorable(f"filter '{recipe.driver}' gives other content than it did")
        return output

    @contextmanager
    def _cleaned(self, blob: ObjectID, steps: str) -> Iterator[IO[bytes]]:
        """A temporary file with what the driver's clean command gave."""
        from tempfile import TemporaryFile

        objects = self._repo.objects
        with TemporaryFile(dir=_scratch(self._repo)) as source:
            for piece in [built_in(objects, blob, steps)] if steps else objects.pieces(blob):
                source.write(piece)
            source.seek(0)
            yield source

    def _smudge(self, path: bytes, blob: ObjectID, name: str, source: IO[bytes]) -> IO[bytes]:
        if self._filters is None:
            self._filters = open_filters(self._repo)
        driver = self._filters.drivers.get(name)
        output = driver and self._filters.smudge(driver, path, source, blob)
        if not output:
            raise Unrestorable(f"filter '{name}' failed: git has no smudge command for it")
        return output


def from_lfs(repo: Repository, blob: ObjectID, recipe: DriverRecipe) -> IO[bytes] | None:
    """What the driver would give, if Git LFS has just that in its local store."""
    from ckpt.engine import lfs

    if recipe.driver != lfs.DRIVER:
        return None
    pointer = lfs.read_pointer(repo.objects, blob)
    content = None if pointer is None else lfs.LocalStore(repo).open(pointer)
    if content is None:
        return None
    with suppress(UnreadableFile):
        if file_id(repo.objects, content) == recipe.raw:
            return content
    content.close()
    return None


def file_id(objects: ObjectStore, file: IO[bytes]) -> ObjectID:
    """The id that a temporary file's content has as a blob."""
    return objects.hash_file(file.fileno(), os.fstat(file.fileno()).st_size)
