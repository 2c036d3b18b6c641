# SPDX-License-Identifier: MIT
"""What is read of objects that others may have made has an end, and is one thing only."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from byhand import MOMENT, index, open_repository, worktree
from helpers import git
from hostile.scene import Scene

from ckpt import CheckpointManager, UsageError
from ckpt.engine import diff, recorded, recurse, rules
from ckpt.engine.foreign import TreeCheck, Unsafe, check_entry, is_git_dir
from ckpt.engine.gc import repack_checkpoints
from ckpt.errors import CkptError, Refused
from ckpt.git import index as index_check
from ckpt.git import loose, operation, packs, record, trees
from ckpt.git import objects as alternates
from ckpt.git.config import ConfigError, GitConfig
from ckpt.git.formats import ObjectID
from ckpt.git.index import IndexEntry, parse_staged, read_staged, write_index
from ckpt.git.loose import DamagedObject, parse_loose
from ckpt.git.objects import MissingObject, ObjectStore, object_folders
from ckpt.git.repository import Repository
from ckpt.git.rules import is_gitmodules
from ckpt.git.trees import (
    FOLDER,
    GITLINK,
    REGULAR,
    SYMLINK,
    TreeEntry,
    diff_trees,
    lookup,
    serialise,
    walk,
)


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with open_repository(worktree(tmp_path / "repo")) as repository:
        yield repository


@pytest.fixture
def objects(repo: Repository) -> ObjectStore:
    return repo.objects


def test_a_name_stands_for_one_thing_only(objects: ObjectStore) -> None:
    blob = objects.add(b"blob", b"x")
    inner = objects.add(b"tree", serialise([(b"x", REGULAR, blob)]))
    twice = objects.add(
        b"tree", serialise([(b"a", REGULAR, blob)]) + serialise([(b"a", FOLDER, inner)])
    )

    for use in (
        lambda: [*walk(objects, twice)],
        lambda: [*diff_trees(objects, None, twice)],
        lambda: lookup(objects, twice, b"a"),
    ):
        with pytest.raises(MissingObject, match="two entries of one name"):
            use()


def test_a_folder_that_is_often_repeated_is_no_hostile_one(objects: ObjectStore) -> None:
    blob = objects.add(b"blob", b"")
    inner = objects.add(b"tree", serialise([(b"__init__.py", REGULAR, blob)]))
    outer = objects.add(b"tree", serialise([(b"%05d" % n, FOLDER, inner) for n in range(20_000)]))

    assert sum(1 for _ in walk(objects, outer)) == 20_000
    assert sum(1 for _ in diff_trees(objects, None, outer)) == 20_000


def nested(objects: ObjectStore, levels: int, width: int = 1) -> ObjectID:
    """A folder of `width` equal folders, and so on, down to files."""
    tree = objects.add(b"tree", serialise([(b"file", REGULAR, objects.add(b"blob", b""))]))
    for _ in range(levels - 1):
        tree = objects.add(b"tree", serialise([(b"%d" % n, FOLDER, tree) for n in range(width)]))
    return tree


def test_what_others_made_is_measured_before_it_unfolds(objects: ObjectStore) -> None:
    with pytest.raises(Unsafe, match="millions of files"):
        TreeCheck(objects).check(nested(objects, levels=5, width=60))
    with pytest.raises(Unsafe, match="too deep"):
        TreeCheck(objects).check(nested(objects, levels=501))
    TreeCheck(objects).check(nested(objects, levels=500))


def test_what_others_made_has_each_name_once(objects: ObjectStore) -> None:
    entry = serialise([(b"a", REGULAR, objects.add(b"blob", b""))])
    with pytest.raises(Unsafe, match="two entries of one name"):
        TreeCheck(objects).check(objects.add(b"tree", entry + entry))


@pytest.mark.parametrize("kind", [b"commit", b"tree", b"tag"])
def test_what_is_never_read_in_pieces_is_not_read_if_it_is_large(
    kind: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loose, "LARGEST_WHOLE", 1000)
    whole = zlib.compress(b"%s 2000\0" % kind + bytes(2000))

    with pytest.raises(DamagedObject, match="too large"):
        parse_loose(whole)
    assert parse_loose(zlib.compress(b"blob 2000\0" + bytes(2000))) == (b"blob", bytes(2000))


def test_neither_is_it_from_a_pack(
    repo: Repository, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = objects.add(b"blob", b"x")
    rows = [(b"%03d" % n, REGULAR, blob) for n in range(100)]
    tree = trees.write_tree(objects, {name: TreeEntry(mode, id) for name, mode, id in rows})
    objects.flush()
    git("update-ref", "refs/tags/tree", tree.decode(), cwd=repo.worktree)
    git("repack", "-adq", cwd=repo.worktree)
    git("prune-packed", cwd=repo.worktree)
    with open_repository(Path(repo.worktree)) as again:
        assert len(trees.read_tree(again.objects, tree)) == 100
    monkeypatch.setattr(packs, "LARGEST_WHOLE", 1000)

    with open_repository(Path(repo.worktree)) as again, pytest.raises(MissingObject):
        trees.read_tree(again.objects, tree)


def test_the_files_of_an_operation_have_a_size_together(
    objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = TreeEntry(REGULAR, objects.add(b"blob", bytes(600)))
    names = (b"MERGE_MSG", b"SQUASH_MSG")
    tree = trees.write_tree(objects, {b"op/files/" + name: blob for name in names})
    assert len(operation.read_state(objects, tree).files.contents) == 2
    monkeypatch.setattr(operation, "_MOST_BYTES", 1000)

    with pytest.raises(CkptError, match="too large"):
        operation.read_state(objects, tree)


def test_no_larger_operation_is_stored(
    objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = operation.OperationFiles({"MERGE_MSG": bytes(600), "SQUASH_MSG": bytes(600)})
    state = operation.OperationState(files)
    assert operation.write_state(objects, state)
    monkeypatch.setattr(operation, "_MOST_BYTES", 1000)

    with pytest.raises(Refused, match="operation in progress"):
        operation.write_state(objects, state)


def test_no_checkpoint_is_made_whose_manifest_could_not_be_read(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(repo.worktree, ".gitignore").write_bytes(b"#" * 1000 + b"\n.gitignore\n")
    Path(repo.worktree, "text").touch()
    with CheckpointManager(repo.worktree) as manager:
        assert manager.create("x")
        monkeypatch.setattr(trees, "LARGEST_STATE", 1000)
        with pytest.raises(Refused, match=r"manifest.json.* too large"):
            manager.create("y")

        assert [each.name for each in manager.list()] == ["x"]


def test_nor_one_whose_index_flags_could_not_be(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = repo.objects.add(b"blob", b"x")
    names = [b"%04d" % number for number in range(100)]
    entries = [IndexEntry.of(name, content, REGULAR, skip_worktree=True) for name in names]
    index(Path(repo.git_dir), *entries)
    repo.objects.flush()
    monkeypatch.setattr(trees, "LARGEST_STATE", 1000)

    with CheckpointManager(repo.worktree) as manager:
        with pytest.raises(Refused, match=r"index-flags.json.* too large"):
            manager.create("x")
        assert manager.list() == []


def test_a_list_of_branches_has_a_length(
    objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = TreeEntry(REGULAR, objects.add(b"blob", b"- refs/heads/x\n" * 100))
    tree = trees.write_tree(objects, {b"op/branches": blob})
    assert len(operation.read_state(objects, tree).branches) == 1
    monkeypatch.setattr(operation, "_LONGEST_LIST", 1000)

    with pytest.raises(CkptError, match="too large"):
        operation.read_state(objects, tree)


@pytest.mark.parametrize(("limit", "most"), [("_MOST_BYTES", 1000), ("MOST_VALUES", 300)])
def test_the_parts_of_an_agent_s_state_have_a_size_together(
    objects: ObjectStore, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    """A blob that is there twice counts twice."""
    blob = TreeEntry(REGULAR, objects.add(b"blob", b"[" + b"[]," * 199 + b"0]"))
    names = (b"data.json", b"tracked/a.json", b"tracked/b.json")
    tree = trees.write_tree(objects, {b"state/" + name: blob for name in names})
    assert [*record.read(objects, tree).tracked] == ["a", "b"]
    monkeypatch.setattr(record, limit, most)

    with pytest.raises(ValueError, match="together"):
        record.read(objects, tree)


def test_values_that_could_not_be_read_again_are_not_saved(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "MOST_VALUES", 300)

    with CheckpointManager(repo.worktree) as manager:
        with pytest.raises(UsageError, match="more than 300 values"):
            manager.create(data=[0] * 301)
        made = manager.create(data={"commas": ",[{" * 1000, 'a \\ and "': '",",'}).checkpoint
        assert made is not None
        assert manager.get(made.id).data["commas"] == ",[{" * 1000


def test_what_could_not_be_read_again_is_not_saved(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "LARGEST_STATE", 1000)

    with CheckpointManager(repo.worktree) as manager:
        with pytest.raises(UsageError, match="more than 1,000"):
            manager.create(data="x" * 2000)
        assert manager.create(data="x").checkpoint is not None


def test_names_that_are_like_the_git_dir_s_but_are_not_it_are_fine() -> None:
    for name in (".gitignore", ".gitmodules", "git", "git~", "x.git", ".git-x", "..git", ".github"):
        assert not is_git_dir(name.encode()), name


MODULES = (".gitmodules", ".GITMODULES", ".gitmodules .", ".gitmodules:x\n", ".git\u200cmodules")
SHORT_MODULES = (
    "gitmod~1",
    "GITMOD~4 .",
    "gi7eba~1",
    "GI7EB~10",
    "gi7e~123",
    "~1000000",
    "a\\gitmod~1",
)


@pytest.mark.parametrize("name", [*MODULES, *SHORT_MODULES])
def test_what_git_takes_for_gitmodules_is_a_file(name: str) -> None:
    check_entry(name.encode(), REGULAR)

    for mode in (SYMLINK, FOLDER, GITLINK):
        with pytest.raises(Unsafe, match="is no file"):
            check_entry(name.encode(), mode)


def test_names_that_are_like_gitmodules_but_are_not_it_are_fine() -> None:
    names = ("gitmodules", ".gitmodules.x", "gitmod~5", "gitmod~", "gi7eba~0", "gi7eba~12", "~1")
    for name in (*names, "~12345678", "gi8eba~1", ".gitmodule"):
        assert not is_gitmodules(name.encode()), name


def test_no_entry_of_an_index_is_of_zeros_not_even_a_submodule() -> None:
    index_check.check([IndexEntry.of(b"sub", b"1" * 40, GITLINK)])

    with pytest.raises(ValueError, match="names no object"):
        index_check.check([IndexEntry.of(b"sub", b"0" * 40, GITLINK)])


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("sequencer/opts", "b'[options]\\n' + b'\\tedit = true\\n' * 40 + b'!'"),
        ("rebase-merge/end", "b' ' * 1_000_000 + b'!'"),
        ("MERGE_MODE", "b' ' * 1_000_000 + b'!'"),
        ("MERGE_RR", "(b'1' * 40 + b'\\t') * 50_000"),
    ],
)
def test_the_files_of_an_operation_are_not_divided_in_every_way(path: str, data: str) -> None:
    script = f"""
from ckpt.engine.foreign import Unsafe, check_files, needs_consent
from ckpt.git.operation import OperationFiles, OperationState

state = OperationState(OperationFiles({{{path!r}: {data}}}))
try:
    check_files(state)
except Unsafe as error:
    print(error)
print(needs_consent(state))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert path in ran.stdout, ran


@pytest.mark.parametrize(
    ("glob", "url"),
    [
        ("*a" * 10 + "b", "a" * 200),
        ("**/" * 10 + "b", "a/" * 200),
        ("**/?*a/" * 10 + "b", "aa/" * 200),
        ("*a" * 1_000_000 + "b", "a" * 200),
    ],
)
def test_the_conditions_of_a_repository_inside_are_not_compared_in_every_way(
    glob: str, url: str, tmp_path: Path
) -> None:
    top = worktree(tmp_path / "repo")
    git("init", "-q", "vendor", cwd=top)
    with open(top / "vendor/.git/config", "a") as file:
        file.write(f'[remote "x"]\nurl = {url}\n')
        file.write(f'[includeIf "hasconfig:remote.*.url:{glob}"]\npath = x\n')

    words = [sys.executable, "-I", "-m", "ckpt", "save"]
    ran = subprocess.run(words, cwd=top, capture_output=True, text=True, timeout=60)

    assert (ran.returncode, ran.stderr) == (0, "")


def test_nor_are_conditions_and_remotes_without_number(tmp_path: Path) -> None:
    git("init", "-q", os.fspath(tmp_path))
    with open(tmp_path / ".git/config", "a") as file:
        file.write("".join(f'[remote "{n}"]\nurl = {n}\n' for n in range(300)))
        file.write('[includeIf "hasconfig:remote.*.url:x*"]\npath = x\n' * 300)

    with pytest.raises(ConfigError, match=r"too long .* in .*config:\d+ holds"):
        GitConfig.load({}, git_dir=os.fspath(tmp_path / ".git"))


def test_a_repository_inside_cannot_include_without_end(tmp_path: Path) -> None:
    """Ten files, each of which includes the next one twenty times."""
    top = worktree(tmp_path / "repo")
    git("init", "-q", "vendor", cwd=top)
    for number in range(9):
        include = f"[include]\npath = {number + 1}\n"
        (top / "vendor/.git" / str(number)).write_text(include * 20)
    with open(top / "vendor/.git/config", "a") as file:
        file.write("[include]\npath = 0\n")

    words = [sys.executable, "-I", "-m", "ckpt", "save"]
    ran = subprocess.run(words, cwd=top, capture_output=True, text=True, timeout=60)

    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("text", ["a\n" * 600_000, "[include]\npath = none\n" * 2000])
def test_nor_does_it_have_settings_without_number(text: str, tmp_path: Path) -> None:
    git("init", "-q", os.fspath(tmp_path))
    with open(tmp_path / ".git/config", "a") as file:
        file.write(text)

    with pytest.raises(ConfigError, match=r"with '.*' in it is too long"):
        GitConfig.load({}, git_dir=os.fspath(tmp_path / ".git"))


@pytest.mark.parametrize(
    "names", ["".join(f"{number}\n" for number in range(200_000)), ".\n" * 500_000]
)
def test_a_repository_inside_does_not_borrow_without_end(
    names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "info").mkdir()
    (tmp_path / "info/alternates").write_text(names)
    looked_at: list[str] = []
    monkeypatch.setattr(os.path, "isdir", looked_at.append)

    assert object_folders(os.fspath(tmp_path)) == [os.fspath(tmp_path)]
    assert len(looked_at) < 100


def test_nor_do_those_that_it_borrows_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, names in {"own": "../a\n../b\n", "a": "../c\n", "b": "../d\n"}.items():
        (tmp_path / name / "info").mkdir(parents=True)
        (tmp_path / name / "info/alternates").write_text(names)
    for name in ("c", "d"):
        (tmp_path / name).mkdir()
    assert len(object_folders(os.fspath(tmp_path / "own"))) == 5
    monkeypatch.setattr(alternates, "_MOST", 3)

    assert len(object_folders(os.fspath(tmp_path / "own"))) == 4


def within_each_other(top: Path, levels: int) -> None:
    """Repositories, each with the next one as its submodule, and all of them clean."""
    inner: ObjectID | None = None
    for level in reversed(range(levels)):
        place = worktree(top / ("d/" * level))
        entries = {} if inner is None else {b"d": TreeEntry(GITLINK, inner)}
        with open_repository(place) as repo:
            tree = trees.write_tree(repo.objects, entries)
            inner = record.write_commit(repo.objects, tree, (), f"{level}\n", MOMENT)
            repo.objects.flush()
        (place / ".git/refs/heads/main").write_bytes(inner + b"\n")
        staged = [IndexEntry.of(path, each.id, each.mode) for path, each in entries.items()]
        index(place / ".git", *staged)


def test_repositories_within_each_other_are_not_looked_into_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python follows no more than a thousand calls within each other."""
    within_each_other(tmp_path, 5)
    with CheckpointManager(tmp_path) as manager:
        assert manager.create().checkpoint.nested[0].dirty is False
        monkeypatch.setattr(diff, "MOST_LEVELS", 2)
        assert manager.create().checkpoint.nested[0].dirty is None


def test_nor_are_they_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    within_each_other(tmp_path, 5)
    monkeypatch.setattr(recurse, "MOST_LEVELS", 2)

    with CheckpointManager(tmp_path) as manager:
        assert manager.create(recurse=True).outcome == "partial"
    with CheckpointManager(tmp_path / "d/d") as inner:
        (saved,) = inner.list()
        assert saved.nested[0].problem == "too many repositories are around it"


def test_the_folders_of_a_sparse_index_have_an_end_together(
    repo: Repository, objects: ObjectStore
) -> None:
    """Three objects, and each folder of the index is some ten thousand files."""
    blob = objects.add(b"blob", b"")
    tree = trees.write_tree(objects, {b"%03d" % n: TreeEntry(REGULAR, blob) for n in range(100)})
    tree = trees.write_tree(objects, {b"%03d" % n: TreeEntry(FOLDER, tree) for n in range(100)})
    folders = [IndexEntry.of(b"%03d/" % n, tree, FOLDER, skip_worktree=True) for n in range(100)]
    data = write_index(folders, version=3, extensions={b"sdir": b""})

    with pytest.raises(trees.UnsafeTree, match="unfolds without an end"):
        parse_staged(repo, data, 0)
    one = write_index(folders[:1], version=3, extensions={b"sdir": b""})
    assert len(parse_staged(repo, one, 0).index.entries) == 10_000


def test_an_index_of_too_many_files_is_not_read_to_tell_whether_anything_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, inner = worktree(tmp_path / "top"), worktree(tmp_path / "top/inner")
    entries = [IndexEntry.of(b"%d" % n, b"1" * 40, REGULAR) for n in range(5)]
    index(inner / ".git", *entries)
    with CheckpointManager(top) as manager:
        assert manager.create().checkpoint.nested[0].dirty is True
        monkeypatch.setattr("ckpt.engine.nested.MOST_FILES", 4)
        assert manager.create().checkpoint.nested[0].dirty is None


def test_nor_one_with_folders_within_each_other_without_end(tmp_path: Path) -> None:
    """Of a path of some ten thousand folders, those around it are gigabytes."""
    top, inner = worktree(tmp_path / "top"), worktree(tmp_path / "top/inner")
    index(inner / ".git", IndexEntry.of(b"a/" * 20_000 + b"a", b"1" * 40, REGULAR))
    tracemalloc.start()
    try:
        with CheckpointManager(top) as manager:
            assert manager.create().checkpoint.nested[0].dirty is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 27
    finally:
        tracemalloc.stop()


def test_a_commit_that_is_too_long_is_none_of_a_checkpoint(
    objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_LARGEST", 1000)
    commit = objects.add(b"commit", b"tree x\n\n" + b"x" * 1000)

    with pytest.raises(record.NotACheckpoint, match="too long"):
        record.read_checkpoint(objects, "20260101-000000-000-aaaa", commit)


def test_a_file_of_rules_of_anothers_that_is_large_is_not_read(
    repo: Repository, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(repo.worktree, ".gitignore").write_text("x\n" * 1000)
    with CheckpointManager(repo.worktree) as manager:
        made = manager.create("x").checkpoint
    assert made is not None
    assert recorded.Recorded(repo, made, is_foreign=True).left_out(b"x") == "ignored"
    monkeypatch.setattr(recorded, "LARGEST_RULES", 1000)

    with pytest.raises(CkptError, match="too large"):
        recorded.Recorded(repo, made, is_foreign=True).left_out(b"x")


def test_a_rollback_goes_by_a_large_file_of_rules_as_the_save_did(repo: Repository) -> None:
    text = Path(repo.worktree, "text")
    Path(repo.worktree, ".gitignore").write_bytes(b"#" * (1 << 20) + b"\nx\n")
    text.write_text("before")
    with CheckpointManager(repo.worktree) as manager:
        made = manager.create("x")
        text.write_text("after")
        Path(repo.worktree, "x").write_text("ignored")
        Path(repo.worktree, "new").write_text("not ignored")
        manager.rollback(made)

    assert text.read_text() == "before"
    assert {*os.listdir(repo.worktree)} == {".git", ".gitignore", "text", "x"}


def test_a_file_of_rules_without_end_takes_no_memory(repo: Repository) -> None:
    for name in (".gitignore", ".gitattributes", "ckpt.toml"):
        with open(Path(repo.worktree, name), "wb") as file:
            file.truncate(1 << 40)
    text = Path(repo.worktree, "text")
    text.write_text("before")
    with CheckpointManager(repo.worktree) as manager:
        made = manager.create("x")
        text.write_text("after")
        Path(repo.worktree, "new").touch()
        manager.rollback(made)

    assert text.read_text() == "before"
    assert not Path(repo.worktree, "new").exists()


@pytest.mark.parametrize("name", ["index", "MERGE_MSG", "rebase-merge/git-rebase-todo"])
def test_nor_does_a_file_in_the_git_dir_of_a_repository_inside(repo: Repository, name: str) -> None:
    inner = worktree(Path(repo.worktree, "inner"))
    Path(inner, "text").touch()
    file = inner / ".git" / name
    file.parent.mkdir(exist_ok=True)
    with open(file, "wb") as endless:
        endless.truncate(1 << 40)

    with CheckpointManager(repo.worktree) as manager:
        made = manager.create("x", recurse=True).checkpoint

    assert made is not None
    assert "too large" in str(made.nested[0].problem)


def test_the_files_of_an_operation_are_read_up_to_a_size_together(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MERGE_MSG", "SQUASH_MSG"):
        Path(repo.git_dir, name).write_bytes(bytes(600))
    assert len(operation.read(repo.git_dir).contents) == 2
    monkeypatch.setattr(operation, "LARGEST", 1000)

    with pytest.raises(CkptError, match="too large"):
        operation.read(repo.git_dir)


def test_staged_rules_that_are_too_large_are_passed_over(
    repo: Repository, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (rules, rules):
        monkeypatch.setattr(module, "LARGEST_TEXT", 1000)
    content = objects.add(b"blob", b"* -text\n" * 1000)
    names = (b".gitattributes", b"a/.gitignore")
    entries = [IndexEntry.of(name, content, REGULAR, skip_worktree=True) for name in names]
    index(Path(repo.git_dir), *entries)

    assert rules._absent_ignore_files(repo, read_staged(repo)) == {}
    attributed = rules._Reader(repo, {b".gitattributes": content}, {})
    assert attributed.read(b"") is None


def test_a_gc_of_long_names_within_each_other_does_not_hold_all_the_paths(scene: Scene) -> None:
    forge, long = scene.forge, 100_000
    forge.checkpoint(forge.chain([b"%d" % n + b"a" * long for n in range(60)], forge.tree()))

    with open_repository(scene.repo) as repository:
        tracemalloc.start()
        try:
            repack_checkpoints(repository, at_least=1, grace=-60)
            assert tracemalloc.get_traced_memory()[1] < 60 * 60 / 2 * long / 4
        finally:
            tracemalloc.stop()

    assert git("ls-tree", "-r", "-t", "--name-only", f"refs/checkpoints/{forge.id}", cwd=scene.repo)
