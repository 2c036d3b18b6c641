# SPDX-License-Identifier: MIT
"""Whole checkpoints in git bundles: git reads ours, we read git's, and nobody is let in."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import fsck, git, tree_state

from ckpt import Checkpoint, CheckpointManager, CkptError, NotFound, Refused, UsageError
from ckpt.api import transfer
from ckpt.engine import foreign
from ckpt.git import bundle, record
from ckpt.git.formats import ObjectID
from ckpt.git.trees import GITLINK, REGULAR, TreeEntry, serialise, write_tree


@pytest.fixture
def manager(repo: Path) -> Iterator[CheckpointManager]:
    with CheckpointManager(repo) as manager:
        yield manager


@pytest.fixture
def clone(repo: Path, tmp_path: Path) -> Iterator[CheckpointManager]:
    git("clone", "-q", str(repo), str(tmp_path / "clone"))
    with CheckpointManager(tmp_path / "clone") as manager:
        yield manager


def edited(repo: Path) -> None:
    (repo / "README.md").write_text("edited\n")
    (repo / "new").mkdir(exist_ok=True)
    (repo / "new/file").write_bytes(os.urandom(3 << 20))  # read and written in pieces
    (repo / "run.sh").chmod(0o700)
    git("add", "README.md")


def saved(manager: CheckpointManager, repo: Path) -> Checkpoint:
    edited(repo)
    made = manager.create("before", data={"seen": {1, 2}}, description="why").checkpoint
    assert made is not None
    return made


def test_what_a_killed_export_left_goes_with_the_next_and_what_a_living_one_writes_stays(
    repo: Path, manager: CheckpointManager, tmp_path: Path
) -> None:
    saved(manager, repo)
    dead, alive = (tmp_path / f".ckpt-bundle-{digit * 16}" for digit in "01")
    dead.touch()
    with alive.open("x") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        manager.export(tmp_path / "x.bundle")

        assert (dead.exists(), alive.exists()) == (False, True)


def test_a_checkpoint_goes_to_another_clone_and_is_rolled_back_to_there(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path
) -> None:
    made = saved(manager, repo)
    bundle = tmp_path / "x.bundle"

    assert manager.export(bundle) == 1
    (found,) = clone.import_(bundle)
    clone.rollback(found)

    assert (found.id, found.name, found.description) == (made.id, "before", "why")
    assert found.data == {"seen": {1, 2}}
    there = tree_state(tmp_path / "clone")
    assert there == tree_state(repo)
    status = git("-C", str(tmp_path / "clone"), "status", "--porcelain")
    assert status == git("status", "--porcelain") != ""
    assert fsck(tmp_path / "clone") == []
    assert bundle.stat().st_mode & 0o777 == 0o600
    assert clone.import_(bundle) == []


def test_git_reads_our_bundle(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path
) -> None:
    made = saved(manager, repo)
    manager.export(tmp_path / "x.bundle")
    there = ("-C", str(tmp_path / "clone"))

    git(*there, "bundle", "verify", "-q", str(tmp_path / "x.bundle"))
    git(*there, "fetch", "-q", str(tmp_path / "x.bundle"), "refs/checkpoints/*:refs/checkpoints/*")

    assert clone.get(made.id).data == {"seen": {1, 2}}
    assert fsck(tmp_path / "clone") == []


def test_we_read_a_bundle_of_git_with_its_deltas(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path
) -> None:
    text = "".join(f"line {number}\n" for number in range(5000))
    ids = []
    for number in range(4):
        (repo / "README.md").write_text(text + f"the end {number}\n")
        ids.append(manager.create(f"n{number}").id)
    refs = [f"refs/checkpoints/{name}" for name in ids]
    git("bundle", "create", "-q", str(tmp_path / "x.bundle"), *refs, "^HEAD")

    made = clone.import_(tmp_path / "x.bundle")

    assert [c.id for c in made] == ids
    clone.rollback("n2")
    assert (tmp_path / "clone/README.md").read_text() == text + "the end 2\n"
    assert fsck(tmp_path / "clone") == []


def test_other_hashes_have_bundles_too(tmp_path: Path) -> None:
    git("init", "-q", "--object-format=sha256", str(tmp_path / "a"))
    (tmp_path / "a/file").write_text("then")
    CheckpointManager(tmp_path / "a").create("x")
    CheckpointManager(tmp_path / "a").export(tmp_path / "bundle")
    git("init", "-q", "--object-format=sha256", str(tmp_path / "b"))
    git("init", "-q", str(tmp_path / "c"))

    (found,) = CheckpointManager(tmp_path / "b").import_(tmp_path / "bundle")

    assert found.name == "x"
    with pytest.raises(Refused, match="sha256"):
        CheckpointManager(tmp_path / "c").import_(tmp_path / "bundle")


def test_an_id_that_is_taken_or_yet_to_come_is_given_anew(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path
) -> None:
    made = saved(manager, repo)
    manager.export(tmp_path / "x.bundle")
    session = CheckpointManager(repo, session="mine")
    (copy,) = session.import_(tmp_path / "x.bundle")

    assert (copy.session, copy.id[:20], copy.tree) == ("mine", made.id[:20], made.tree)
    assert copy.id != made.id
    assert manager.get(made.id) == made
    assert len(session) == 1


def test_some_checkpoints_can_be_chosen(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path
) -> None:
    first, second = manager.create("one"), manager.create("two")
    manager.export(tmp_path / "x.bundle", [second])

    assert [c.name for c in clone.import_(tmp_path / "x.bundle")] == ["two"]
    with pytest.raises(NotFound):
        manager.export(tmp_path / "x.bundle", ["nothing"])
    with pytest.raises(UsageError, match="no checkpoint to export"):
        manager.export(tmp_path / "x.bundle", [])
    assert first


def test_a_full_manager_reads_a_file_of_state(
    repo: Path, manager: CheckpointManager, tmp_path: Path
) -> None:
    state = CheckpointManager(repo, worktree=False)
    state.create("x", data=1)
    state.export(tmp_path / "x")
    git("init", "-q", str(tmp_path / "b"))

    (found,) = CheckpointManager(tmp_path / "b").import_(tmp_path / "x")

    assert (found.scope, found.data) == ("state", 1)


# What is refused


def refused(manager: CheckpointManager, path: Path) -> str:
    with pytest.raises(CkptError) as caught:
        manager.import_(path)
    assert len(manager) == 0
    return caught.value.message


def test_commits_that_are_not_here_are_named(
    repo: Path, manager: CheckpointManager, tmp_path: Path
) -> None:
    saved(manager, repo)
    manager.export(tmp_path / "x.bundle")
    git("init", "-q", str(tmp_path / "other"))

    message = refused(CheckpointManager(tmp_path / "other"), tmp_path / "x.bundle")
    assert git("rev-parse", "HEAD").strip() in message


def test_no_damage_gets_in(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path
) -> None:
    (repo / "README.md").write_text("edited\n")
    manager.create("x")
    manager.export(tmp_path / "x.bundle")
    data = (tmp_path / "x.bundle").read_bytes()
    pack = data.index(b"PACK")
    objects = tree_state(tmp_path / "clone/.git/objects")

    for place in [*range(0, pack, 7), *range(pack, len(data), 11)]:
        (tmp_path / "bad").write_bytes(
            data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :]
        )
        try:
            made = clone.import_(tmp_path / "bad")
        except CkptError:
            continue
        # Only a comment may have changed.
        assert place < pack
        assert [c.name for c in made] in ([], ["x"])
    for length in (0, 10, pack, pack + 20, len(data) - 1):
        (tmp_path / "bad").write_bytes(data[:length])
        with pytest.raises(CkptError):
            clone.import_(tmp_path / "bad")
    assert objects.keys() <= tree_state(tmp_path / "clone/.git/objects").keys()
    assert fsck(tmp_path / "clone") == []


@pytest.mark.parametrize(
    "header",
    [
        b"# v4 git bundle\n\n",
        b"# v3 git bundle\n@filter=blob:none\n\n",
        b"# v2 git bundle\n-xyz\n\n",
        b"# v2 git bundle\nabc refs/checkpoints/x\n\n",
        b"# v2 git bundle\n",
        b"#",
    ],
)
def test_a_header_that_is_none_is_refused(
    clone: CheckpointManager, tmp_path: Path, header: bytes
) -> None:
    (tmp_path / "bad").write_bytes(header)

    refused(clone, tmp_path / "bad")


def test_refs_that_name_no_checkpoint_are_refused(
    repo: Path, clone: CheckpointManager, tmp_path: Path
) -> None:
    (repo / "README.md").write_text("edited\n")
    git("commit", "-qam", "two")
    git("update-ref", "refs/checkpoints/20261115-233412-123-k7pq", "HEAD")
    for ref in ("HEAD", "refs/checkpoints/20261115-233412-123-k7pq"):
        git("bundle", "create", "-q", str(tmp_path / "x.bundle"), ref, "^HEAD~1")
        assert "is no checkpoint" in refused(clone, tmp_path / "x.bundle")


def test_one_that_was_taken_amid_a_merge_is_refused(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path
) -> None:
    (repo / ".git/MERGE_HEAD").write_text(git("rev-parse", "HEAD"))
    (repo / ".git/MERGE_MSG").write_text("x")
    manager.create("x")
    manager.export(tmp_path / "x.bundle")

    assert "a merge was under way" in refused(clone, tmp_path / "x.bundle")


def test_one_of_before_git_has_times_is_refused(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path
) -> None:
    made = saved(manager, repo)
    message = record.compose_message(made)
    stamp = next(line for line in message.split("\n") if line.startswith("Ckpt-Timestamp: "))
    text = message.replace(stamp, "Ckpt-Timestamp: 1970-01-01T00:00:00.000000+14:00")
    (repo / "message").write_text(text)
    parents = [
        word for parent in git("rev-parse", f"{made.ref}^@").split() for word in ("-p", parent)
    ]
    commit = git("commit-tree", made.tree, *parents, "-F", "message").strip()
    git("update-ref", made.ref, commit)
    git("bundle", "create", "-q", str(tmp_path / "x.bundle"), made.ref, "^HEAD")

    assert "timestamp of another age" in refused(clone, tmp_path / "x.bundle")
    assert fsck(tmp_path / "clone") == []


def bundle_of(
    manager: CheckpointManager, path: Path, made: Checkpoint, *texts: Callable[[ObjectID], bytes]
) -> None:
    """A bundle of a checkpoint, with further commits in it, each told the id of the one before;
    the ref is of the last."""
    objects = manager.repository.objects
    header, contents = transfer._gather(objects, [made])
    commit = ObjectID(b"")
    for text in texts:
        commit = objects.add(b"commit", text(commit))
        contents.append(commit)
    (ref,) = header.refs
    with path.open("wb") as file:
        bundle.write(objects, file.fileno(), replace(header, refs={ref: commit}), contents)
    objects.discard()


def text_of(commit: str) -> bytes:
    return git("cat-file", "commit", commit).encode()


@pytest.mark.parametrize("what", ["parent", "tree"])
def test_one_on_a_commit_that_is_not_whole_is_refused(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path, what: str
) -> None:
    """Its ref would make every gc fail."""
    made = saved(manager, repo)
    head, author = git("rev-parse", "HEAD").strip().encode(), b"\nauthor "
    tree = b"tree " + git("rev-parse", "HEAD^{tree}").strip().encode()
    gap = b"\nparent " + b"1" * 40 + author if what == "parent" else author
    top = tree if what == "parent" else b"tree " + b"1" * 40
    bundle_of(
        manager,
        tmp_path / "x.bundle",
        made,
        lambda _: text_of("HEAD").replace(tree, top).replace(author, gap, 1),
        lambda broken: text_of(made.commit).replace(head, broken),
    )

    kind = "commit" if what == "parent" else "tree"
    assert f"is not whole: missing {kind} {'1' * 40}" in refused(clone, tmp_path / "x.bundle")
    git("-C", str(tmp_path / "clone"), "gc", "-q", "--prune=now")


def test_one_with_two_trees_is_refused(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path
) -> None:
    made = saved(manager, repo)
    first = b"tree " + made.tree.encode()
    bundle_of(
        manager,
        tmp_path / "x.bundle",
        made,
        lambda _: text_of(made.commit).replace(first, first + b"\ntree " + b"1" * 40),
    )

    assert "is no checkpoint" in refused(clone, tmp_path / "x.bundle")
    git("-C", str(tmp_path / "clone"), "gc", "-q", "--prune=now")


Make = Callable[[CheckpointManager, TreeEntry], ObjectID]


def raw(*entries: tuple[bytes, int]) -> Make:
    def make(manager: CheckpointManager, blob: TreeEntry) -> ObjectID:
        rows = [(name, mode, blob.id) for name, mode in entries]
        return manager.repository.objects.add(b"tree", b"".join(serialise([row]) for row in rows))

    return make


def deep(manager: CheckpointManager, blob: TreeEntry) -> ObjectID:
    return write_tree(manager.repository.objects, {b"/".join([b"d"] * 600): blob})


def wide(manager: CheckpointManager, blob: TreeEntry) -> ObjectID:
    """Ten times ten times … the same folder: a few objects, ten million files."""
    objects = manager.repository.objects
    tree = objects.add(b"tree", serialise([(b"%d" % n, REGULAR, blob.id) for n in range(10)]))
    for _ in range(6):
        tree = objects.add(b"tree", serialise([(b"%d" % n, 0o40000, tree) for n in range(10)]))
    return tree


HOSTILE: Mapping[str, Make] = {
    "git dir": raw((b".git", REGULAR)),
    "upwards": raw((b"..", REGULAR)),
    "a path": raw((b"a/b", REGULAR)),
    "empty": raw((b"", REGULAR)),
    "NTFS": raw((b"git~1", REGULAR)),
    "NTFS stream": raw((b".git::$INDEX_ALLOCATION", REGULAR)),
    "NTFS dots": raw((b".git . .", REGULAR)),
    "backslash": raw((b"a\\.git\\x", REGULAR)),
    "HFS+": raw((".g\u200cit".encode(), REGULAR)),
    "twice": raw((b"a", REGULAR), (b"a", REGULAR)),
    "mode": raw((b"a", 0o100664)),
    "device": raw((b"a", 0o020000)),
    "a blob for a folder": raw((b"a", 0o40000)),
    "deep": deep,
    "wide": wide,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_tree_is_refused(manager: CheckpointManager, kind: str) -> None:
    made = manager.create("x").checkpoint
    assert made is not None
    objects = manager.repository.objects
    blob = TreeEntry(REGULAR, objects.add(b"blob", b"content"))
    tree = HOSTILE[kind](manager, blob)

    foreign.check(manager.repository, made)
    with pytest.raises(Refused, match="is not imported"):
        foreign.check(manager.repository, replace(made, tree=tree.decode()))
    objects.discard()


def test_a_submodule_is_no_missing_object(manager: CheckpointManager) -> None:
    made = manager.create("x").checkpoint
    assert made is not None
    objects = manager.repository.objects
    tree = write_tree(objects, {b"sub": TreeEntry(GITLINK, ObjectID(b"1" * 40))})

    foreign.check(manager.repository, replace(made, tree=tree.decode()))
    missing = objects.add(b"tree", serialise([(b"a", REGULAR, ObjectID(b"1" * 40))]))
    with pytest.raises(Refused, match="is not there"):
        foreign.check(manager.repository, replace(made, tree=missing.decode()))
    objects.discard()


def test_a_state_that_cannot_be_read_is_refused(manager: CheckpointManager) -> None:
    made = manager.create("x").checkpoint
    assert made is not None
    objects = manager.repository.objects
    blob = TreeEntry(REGULAR, objects.add(b"blob", b"{"))
    tree = write_tree(objects, {b"manifest.json": blob})
    state = record.write_commit(objects, tree, (), "x\n", made.timestamp)
    message = record.compose_message(replace(made, state_commit=state.decode()))
    parents = (ObjectID(str(made.head_commit).encode()), state)
    commit = record.write_commit(
        objects, ObjectID(made.tree.encode()), parents, message, made.timestamp
    )
    found = record.read_checkpoint(objects, made.id, commit)

    with pytest.raises(Refused, match="damaged"):
        foreign.check(manager.repository, found)
    objects.discard()
