# SPDX-License-Identifier: MIT
"""`git ckpt verify` finds every kind of damage, says what it affects, and finds no other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt_here as ckpt
from helpers import git, loose_object
from hostile.forge import NULL, Forge
from scenes import divide, remove, write

from ckpt import ids
from ckpt.git.objects import ObjectStore
from ckpt.manager import CheckpointManager

KEYS = ["id", "name", "ref", "dropped", "whole", "problems"]


def save(*words: str, top: Path | None = None) -> dict[str, Any]:
    found: dict[str, Any] = ckpt("save", *words, "--json", cwd=top, code=0).json["checkpoint"]
    return found


def verify(*words: str, top: Path | None = None, code: int = 1) -> list[dict[str, Any]]:
    """What is told of each checkpoint."""
    told = ckpt("verify", *words, "--json", cwd=top, code=code).json
    assert list(told) == ["schema", "checkpoints", "objects", "bytes", "promised"]
    assert all(list(found) == KEYS for found in told["checkpoints"])
    assert all(found["whole"] is (not found["problems"]) for found in told["checkpoints"])
    return list(told["checkpoints"])


def problems(*words: str, top: Path | None = None) -> list[dict[str, Any]]:
    """The problems of the one checkpoint that has any."""
    broken = [found for found in verify(*words, top=top) if not found["whole"]]
    assert len(broken) == 1, broken
    return list(broken[0]["problems"])


def places(problem: dict[str, Any]) -> set[tuple[str, str]]:
    return {(place["within"], place["path"]) for place in problem["places"]}


@pytest.fixture
def saved(repo: Path) -> dict[str, Any]:
    """A checkpoint with a bit of everything."""
    write(repo, "src/app.py", "staged\n")
    git("add", "src/app.py")
    write(repo, "src/app.py", "edited\n")
    write(repo, "notes/new", "untracked\n", 0o600)
    (repo / "hollow").mkdir()
    return save("one", "--data", '{"step": 3}')


def object_of(saved: dict[str, Any], what: str) -> str:
    """The id of a part of a checkpoint."""
    state = f"{saved['commit']}^{2 if saved['git_state']['commit_hash'] else 1}"
    parts = {
        "file": f"{saved['commit']}:notes/new",
        "staged": f"{state}:index/src/app.py",
        "folder": f"{saved['commit']}:notes",
        "tree": f"{saved['commit']}^{{tree}}",
        "commit": saved["commit"],
        "state": state,
        "state tree": f"{state}^{{tree}}",
        "manifest": f"{state}:manifest.json",
        "data": f"{state}:state/data.json",
        "head": "HEAD",
        "head's file": "HEAD:README.md",
    }
    return git("rev-parse", parts[what]).strip()


def flip(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a byte flipped": flip,
    "cut off": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "garbage": lambda data: b"garbage\n" * 4,
    "something behind": lambda data: zlib.compress(zlib.decompress(data) + b"more"),
    "a byte behind": lambda data: data + b"x",
    "a bomb": lambda data: zlib.compress(b"blob 10\0" + bytes(50 << 20), 1),
    "another content": lambda data: zlib.compress(b"blob 10\0uNtracked\n"),
}


def damage(saved: dict[str, Any], what: str, how: Callable[[bytes], bytes]) -> str:
    object_id = object_of(saved, what)
    path = Path(loose_object(".git", object_id))
    path.chmod(0o644)
    path.write_bytes(how(path.read_bytes()))
    return object_id


def lose(saved: dict[str, Any], what: str) -> str:
    object_id = object_of(saved, what)
    os.unlink(loose_object(".git", object_id))
    return object_id


# All is well


def test_a_checkpoint_with_a_bit_of_everything_is_whole(saved: dict[str, Any]) -> None:
    (found,) = verify(code=0)

    assert (found["id"], found["name"], found["dropped"]) == (saved["id"], "one", False)
    assert found["problems"] == []


def test_the_answer_for_people_is_one_line_if_all_is_well(saved: dict[str, Any]) -> None:
    ran = ckpt("verify", code=0)

    assert ran.stdout.startswith("Verified 1 checkpoint, ")
    assert ran.stdout.endswith(" objects: all objects present and valid.\n")
    assert ran.stdout.count("\n") == 1
    assert ckpt("verify", "-q", code=0).stdout == ""


def test_packed_and_with_deltas_all_is_well_too(repo: Path) -> None:
    for number in range(4):
        write(repo, "long", "".join(f"line {n} of a file\n" for n in range(number, 400)))
        write(repo, "large", bytes(range(256)) * (6000 + number))  # more than is held in memory
        save()
    git("repack", "-q", "-a", "-d", "-f")
    git("pack-refs", "--all")

    assert not list((repo / ".git/objects").glob("??"))
    assert len(verify("--all", code=0)) == 4


def test_with_longer_ids_all_is_well_too(tmp_path: Path) -> None:
    top = tmp_path / "sha256"
    git("init", "-q", "--object-format=sha256", str(top))
    write(top, "file", "content\n")
    saved = save(top=top)
    git("repack", "-q", "-a", "-d", cwd=top)

    assert len(saved["commit"]) == 64
    assert verify(saved["id"], top=top, code=0)[0]["whole"]


def test_with_borrowed_objects_all_is_well_too(repo: Path, tmp_path: Path) -> None:
    top = tmp_path / "borrowing"
    git("clone", "-q", "--shared", str(repo), str(top))
    write(top, "new", "new\n")
    save(top=top)

    assert verify(top=top, code=0)[0]["whole"]
    os.rename(repo, tmp_path / "moved away")
    assert {p["problem"] for p in problems(top=top)} == {"missing"}


def test_a_folder_with_nothing_but_ignored_files_in_it_may_have_bits_of_its_own(repo: Path) -> None:
    write(repo, ".gitignore", "*.log\n")
    for folder in ("logs", "one", "two", "three"):
        write(repo, f"{folder}/a.log", "ignored\n")
        write(repo, f"{folder}/file", "file\n")
    remove(repo, "logs/file")
    (repo / "logs").chmod(0o700)
    ckpt("save", code=0)

    assert verify("--all", code=0)[0]["whole"]


def test_amid_a_merge_all_is_well_until_its_other_side_is_lost(repo: Path) -> None:
    divide(repo, "side")
    subprocess.run(["git", "merge", "-q", "side"], capture_output=True)
    side = git("rev-parse", "side").strip()
    save()

    assert verify(code=0)[0]["whole"]
    os.unlink(loose_object(".git", side))
    (found,) = problems()
    assert (found["problem"], found["object"]) == ("missing", side)
    assert places(found) == {("operation", "")}


def test_a_checkpoint_of_state_alone_is_whole(repo: Path) -> None:
    with CheckpointManager(repo, worktree=False) as manager:
        made = manager.create(data={"step": 1}).checkpoint
    assert made is not None

    assert verify(made.id, code=0)[0]["whole"]
    blob = git("rev-parse", f"{made.state_commit}:state/data.json").strip()
    os.unlink(loose_object(".git", blob))
    assert places(problems(made.id)[0]) == {("state", "state/data.json")}


def test_an_entry_of_zeros_is_named_though_it_is_a_submodule(saved: dict[str, Any]) -> None:
    forge = Forge(Path(), saved["id"])
    tree = forge.tree(("160000", b"sub", NULL))
    forge.checkpoint(tree, forge.state(index=("40000", tree)))

    found = next(p for p in problems(forge.id) if p["object"] == tree)
    assert places(found) == {("worktree", ""), ("state", "index")}
    assert "its entry 'sub' names nothing" in ckpt("verify", forge.id, code=1).stdout


# Which ones


def test_without_an_argument_it_is_the_latest(repo: Path) -> None:
    save("one")
    newest = save("two")

    assert [found["id"] for found in verify(code=0)] == [newest["id"]]


def test_several_are_verified_each_once(repo: Path) -> None:
    one, two = save("one"), save("two")
    save("three")

    found = verify("one", two["id"], one["id"][-4:], "two", code=0)
    assert [each["id"] for each in found] == [one["id"], two["id"]]


def test_all_are_those_of_every_worktree_and_of_the_trash(repo: Path, tmp_path: Path) -> None:
    one, two = save("one"), save("two")
    ckpt("drop", "one", code=0)
    git("worktree", "add", "-q", str(tmp_path / "linked"))
    three = save(top=tmp_path / "linked")

    found = {each["id"]: each["dropped"] for each in verify("--all", code=0)}
    assert found == {one["id"]: True, two["id"]: False, three["id"]: False}
    assert [each["id"] for each in verify(one["id"], code=0)] == [one["id"]]


def test_no_such_checkpoint_has_its_exit_code(repo: Path) -> None:
    assert ckpt("verify", code=3).stdout == ""
    assert ckpt("verify", "nowhere", code=3).stdout == ""
    assert ckpt("verify", "--all", code=0).stdout == "No checkpoints to verify.\n"
    save()
    assert ckpt("verify", "--all", "latest", code=2).stdout == ""


def test_a_newer_one_that_cannot_be_read_does_not_hide_behind_the_latest(repo: Path) -> None:
    older = save("older")
    newer = save("newer")
    lose(newer, "commit")

    told = {each["id"]: each["whole"] for each in verify()}
    assert told == {newer["id"]: False, older["id"]: True}
    lose(older, "commit")
    assert [each["whole"] for each in verify()] == [False, False]


def test_one_that_cannot_be_read_is_found_by_its_id(saved: dict[str, Any]) -> None:
    lose(saved, "commit")

    for word in (saved["id"], saved["id"][:15], saved["id"][-4:]):
        (found,) = problems(word)
        assert (found["problem"], found["kind"]) == ("missing", "commit")
        assert places(found) == {("commit", "")}


def test_many_checkpoints_of_one_tree_read_it_once(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        save("again")
    read: list[bytes] = []
    original = ObjectStore.read

    def counted(self: ObjectStore, object_id: Any, kind: bytes) -> bytes:
        read.append(object_id)
        return original(self, object_id, kind)

    monkeypatch.setattr(ObjectStore, "read", counted)
    assert len(verify("--all", code=0)) == 5

    files = git("ls-tree", "-r", "--object-only", "HEAD").split()
    assert [read.count(blob.encode()) for blob in files] == [1] * len(files)


# Damage


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_content_is_found_with_its_path(saved: dict[str, Any], how: str) -> None:
    blob = damage(saved, "file", DAMAGES[how])

    (found,) = problems()
    assert (found["problem"], found["kind"], found["object"]) == ("damaged", "blob", blob)
    assert places(found) == {("worktree", "notes/new")}


@pytest.mark.parametrize(
    ("what", "kind", "expected"),
    [
        ("file", "blob", {("worktree", "notes/new")}),
        ("staged", "blob", {("index", "src/app.py")}),
        ("folder", "tree", {("worktree", "notes")}),
        ("tree", "tree", {("worktree", "")}),
        ("state", "commit", {("state", "")}),
        ("state tree", "tree", {("state", "")}),
        ("manifest", "blob", {("state", "manifest.json")}),
        ("data", "blob", {("state", "state/data.json")}),
        ("head", "commit", {("head", "")}),
        (
            "head's file",
            "blob",
            {("worktree", "README.md"), ("index", "README.md"), ("head", "README.md")},
        ),
    ],
)
@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_each_part_is_missed(
    saved: dict[str, Any], what: str, kind: str, expected: set[tuple[str, str]], how: str
) -> None:
    lost = lose(saved, what) if how == "missing" else damage(saved, what, flip)

    (found,) = problems()
    assert (found["problem"], found["kind"], found["object"]) == (how, kind, lost)
    assert places(found) == expected


def test_a_damaged_pack_is_found(repo: Path) -> None:
    write(repo, "new", os.urandom(3000))
    save()
    git("repack", "-q", "-a", "-d")
    (pack,) = (repo / ".git/objects/pack").glob("*.pack")
    pack.chmod(0o644)
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 0xFF  # in the one content that is as long
    pack.write_bytes(data)

    (found,) = problems("--all")
    assert (found["problem"], found["kind"]) == ("damaged", "blob")
    assert places(found) == {("worktree", "new")}


@pytest.mark.parametrize("how", ["a byte flipped", "a byte behind", "cut off"])
def test_a_large_content_that_is_damaged_is_found(repo: Path, how: str) -> None:
    write(repo, "large", os.urandom(3 << 20))
    saved = save()
    large = git("rev-parse", f"{saved['commit']}:large").strip()
    path = Path(loose_object(".git", large))
    path.chmod(0o644)
    path.write_bytes(DAMAGES[how](path.read_bytes()))

    (found,) = problems()
    assert (found["problem"], found["object"]) == ("damaged", large)


def test_a_second_copy_that_is_whole_is_enough(saved: dict[str, Any], repo: Path) -> None:
    blob = object_of(saved, "file")
    path = Path(loose_object(".git", blob))
    kept = path.read_bytes()
    git("repack", "-q", "-a", "-d")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(flip(kept))

    assert verify(code=0)[0]["whole"]


def test_what_is_broken_is_told_with_what_still_comes_back(saved: dict[str, Any]) -> None:
    blob = lose(saved, "file")
    ran = ckpt("verify", code=1)

    assert ran.stdout.splitlines()[:3] == [
        f"broken {saved['id']} 'one'",
        f"  missing blob {blob}: notes/new",
        f"  other files come back with: git ckpt rollback {saved['id']} -- PATH",
    ]
    Path("README.md").write_text("spoiled\n")
    ckpt("rollback", saved["id"], "--", "README.md", code=0)
    assert Path("README.md").read_text() == "# An example\n"


def test_what_another_clone_has_can_be_brought_from_there(
    saved: dict[str, Any], repo: Path, tmp_path: Path
) -> None:
    shutil.copytree(repo, tmp_path / "other")
    lose(saved, "tree")
    told = ckpt("verify", code=1).stdout.splitlines()[2]

    command = told.partition(": ")[2].replace("CLONE", str(tmp_path / "other"))
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert verify(code=0)[0]["whole"]


def test_a_history_that_git_cannot_follow_is_found_right_behind_head(repo: Path) -> None:
    """With a ref to it no gc comes to an end."""
    first = git("rev-parse", "HEAD").strip()
    write(repo, "README.md", "second\n")
    git("commit", "-q", "-a", "-m", "second")
    save("one")
    os.unlink(loose_object(".git", first))

    (found,) = problems()
    assert (found["problem"], found["object"]) == ("missing", first)
    assert places(found) == {("history", "")}
    told = ckpt("verify", code=1).stdout
    assert f"missing commit {first}: the history behind HEAD's commit" in told
    assert f"git -C CLONE cat-file commit {first} |" in told


def test_a_head_that_names_no_tree_is_damage(saved: dict[str, Any]) -> None:
    words = ("hash-object", "-t", "commit", "-w", "--literally", "--stdin")
    odd = git(*words, stdin="author nobody\n\nno tree\n").strip()
    text = git("cat-file", "commit", saved["commit"])
    forged = git(*words, stdin=text.replace(saved["git_state"]["commit_hash"], odd)).strip()
    git("update-ref", saved["ref"], forged)

    (found,) = problems()
    assert found["detail"] == f"damaged commit {odd}: its tree or a parent is no id"
    assert places(found) == {("head", "")}


def test_where_a_shallow_clone_ends_nothing_is_missing(repo: Path, tmp_path: Path) -> None:
    write(repo, "README.md", "second\n")
    git("commit", "-q", "-a", "-m", "second")
    git("clone", "-q", "--depth=1", f"file://{repo}", str(tmp_path / "shallow"))
    save("one", top=tmp_path / "shallow")

    assert verify("--all", top=tmp_path / "shallow", code=0)[0]["whole"]


# Repositories inside


# Partial clones


@pytest.fixture
def partial(repo: Path, tmp_path: Path) -> Path:
    git("config", "uploadpack.allowFilter", "true")
    top = tmp_path / "partial"
    git("clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{repo}", str(top))
    git("sparse-checkout", "set", "--no-cone", "/README.md", cwd=top)
    git("checkout", "-q", "main", cwd=top)
    os.rename(repo, tmp_path / "moved away")
    write(top, "new", "new\n")
    return top


def test_what_a_partial_clone_left_at_its_remote_is_no_damage(partial: Path) -> None:
    save(top=partial)

    told = ckpt("verify", "--json", cwd=partial, code=0).json
    assert told["promised"] > 3
    assert told["checkpoints"][0]["whole"]
    said = ckpt("verify", cwd=partial, code=0).stdout
    assert "left at the remote of this partial clone" in said


# Refs that no save has made


def hash_object(kind: str, data: bytes) -> str:
    ran = subprocess.run(
        ["git", "hash-object", "-t", kind, "-w", "--stdin", "--literally"],
        input=data,
        check=True,
        capture_output=True,
    )
    return ran.stdout.decode().strip()


def test_refs_of_ours_that_lead_to_no_checkpoint_are_broken(repo: Path) -> None:
    good = save()
    other = good["id"][:-4] + "zzzz"
    folder = repo / ".git/refs/checkpoints"
    git("update-ref", "refs/checkpoints/by-hand", good["commit"])
    git("update-ref", f"refs/checkpoints/{other}", good["commit"])
    git("update-ref", "refs/checkpoints/20260101-000000-000-head", "HEAD")
    git("update-ref", "refs/checkpoints/20260101-000000-000-b000", hash_object("blob", b"x"))
    git("symbolic-ref", "refs/checkpoints/20260101-000000-000-s000", good["ref"])
    (folder / "20260101-000000-000-e000").write_text("")
    (folder / "20260101-000000-000-g000").write_text("garbage\n")
    (folder / "20260101-000000-000-n000").write_text("1" * 40 + "\n")
    git("update-ref", "refs/checkpoints-trash/20260101/odd", good["commit"])

    told = {each["ref"].rpartition("/")[2]: each["problems"] for each in verify("--all")}
    assert told.pop(good["id"]) == []
    assert {name: [p["problem"] for p in found] for name, found in told.items()} == {
        other: ["no-checkpoint"],
        "20260101-000000-000-head": ["no-checkpoint"],
        "20260101-000000-000-b000": ["damaged"],
        "20260101-000000-000-s000": ["no-checkpoint"],
        "20260101-000000-000-e000": ["no-checkpoint"],
        "20260101-000000-000-g000": ["no-checkpoint"],
        "20260101-000000-000-n000": ["missing"],
    }
    assert "symbolic" in told["20260101-000000-000-s000"][0]["detail"]
    assert ckpt("verify", "--all", code=1).stdout.count("broken ") == 7


def test_packed_refs_that_are_damaged_are_told(repo: Path) -> None:
    save()
    git("pack-refs", "--all")
    with (repo / ".git/packed-refs").open("ab") as file:
        file.write(b"half a li")

    assert "packed-refs" in ckpt("verify", "--all", code=1).stderr


# Checkpoints that lie


@pytest.fixture
def forged(saved: dict[str, Any]) -> Iterator[Callable[..., str]]:
    """Makes another checkpoint of the parts of one, some of them replaced."""

    def forge(
        tree: str | None = None,
        state: dict[str, str] | None = None,
        message: Callable[[str], str] = lambda text: text,
    ) -> str:
        new = ids.new_id(ids._time_of(saved["id"]), saved["id"])
        old_state = object_of(saved, "state")
        env = {"GIT_INDEX_FILE": str(Path(".git/forged").resolve())}
        git("read-tree", f"{old_state}^{{tree}}", env=env)
        for path, blob in (state or {}).items():
            git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", env=env)
        state_tree = git("write-tree", "--missing-ok", env=env).strip()
        made_state = git("commit-tree", state_tree, "-m", "state").strip()
        head = git("rev-parse", "HEAD").strip()
        text = git("log", "-1", "--format=%B", saved["commit"])
        text = text.replace(saved["id"], new).replace(old_state, made_state)
        words = ["-p", head, "-p", made_state, "-F", "-"]
        commit = git(
            "commit-tree", tree or object_of(saved, "tree"), *words, stdin=message(text)
        ).strip()
        git("update-ref", f"refs/checkpoints/{new}", commit)
        return new

    yield forge


def manifest_with(saved: dict[str, Any], **changes: Any) -> dict[str, str]:
    """What to put into the state tree to have another manifest."""
    document = json.loads(git("cat-file", "blob", object_of(saved, "manifest")))
    return {"manifest.json": hash_object("blob", json.dumps(document | changes).encode())}


def modes(**changes: Any) -> dict[str, Any]:
    usual = {"executable": "0755", "folder": "0755", "plain": "0644", "folders": [], "others": []}
    return {"modes": usual | changes}


def flags(**changes: Any) -> bytes:
    plain = {"version": 2, "intent_to_add": [], "assume_valid": [], "skip_worktree": []}
    return json.dumps(plain | changes).encode()


STATES: dict[str, tuple[str, bytes, str]] = {
    "a manifest": ("manifest.json", b"{", "manifest"),
    "a list of the manifest": ("manifest.json", b'{"format": 1, "skipped": 5}', "damaged"),
    "a list of flags": ("index-flags.json", flags(skip_worktree=5), "damaged"),
    "a version": ("index-flags.json", flags(version=9), "flags"),
    "data": ("state/data.json", b"{", "state"),
    "a state file": ("state/files.json", b'{"files": [{"path": "x", "permissions": 6}]}', "state"),
}


@pytest.mark.parametrize("which", STATES)
def test_a_state_that_cannot_be_read_is_found(forged: Callable[..., str], which: str) -> None:
    path, content, told = STATES[which]
    (found,) = problems(forged(state={path: hash_object("blob", content)}))

    assert found["problem"] == "damaged"
    assert told in found["detail"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("Ckpt-Format: 1", "Ckpt-Format: 2", "format 2"),
        ("Ckpt-Kind: manual", "Ckpt-Kind: odd", "trailers"),
        ("Ckpt-Stats: ", "Ckpt-Stats: many ", "trailers"),
        ("Ckpt-State: ", "Ckpt-State: 1", "state commit"),
        ("Ckpt-Id: ", "Ckpt-Id: 2", "not written by ckpt"),
    ],
)
def test_trailers_that_cannot_be_read_are_found(
    forged: Callable[..., str], old: str, new: str, told: str
) -> None:
    (found,) = problems(forged(message=lambda text: text.replace(old, new)))

    assert told in found["detail"]


def tree(*entries: tuple[bytes, bytes, str]) -> str:
    data = b"".join(b"%s %s\0%s" % (mode, name, bytes.fromhex(i)) for mode, name, i in entries)
    return hash_object("tree", data)


@pytest.mark.parametrize("which", ["blob as tree", "tree as blob", "twice", "order", "mode", ".."])
def test_trees_that_git_would_not_write_are_found(forged: Callable[..., str], which: str) -> None:
    blob, empty = hash_object("blob", b"x"), hash_object("tree", b"")
    trees = {
        "blob as tree": [(b"40000", b"folder", blob)],
        "tree as blob": [(b"100644", b"file", empty)],
        "twice": [(b"100644", b"a", blob), (b"100755", b"a", blob)],
        "order": [(b"100644", b"b", blob), (b"100644", b"a", blob)],
        "mode": [(b"10644", b"a", blob)],
        "..": [(b"100644", b"..", blob)],
    }
    new = forged(tree=tree(*trees[which]), message=lambda text: text)

    assert problems(new)[0]["problem"] == "damaged"


def test_a_tree_of_millions_by_repetition_and_a_very_deep_one_take_no_time(
    saved: dict[str, Any], forged: Callable[..., str]
) -> None:
    top = tree((b"100644", b"f", "1" * 40))
    for _ in range(20):
        top = tree(*[(b"40000", b"%d" % n, top) for n in range(10)])
    lowest = deep = hash_object("blob", b"bottom")
    mode = b"100644"
    objects = CheckpointManager(".").repository.objects
    for _ in range(3000):
        deep = objects.add(b"tree", mode + b" d\0" + bytes.fromhex(deep)).decode()
        mode = b"40000"
    objects.flush()
    both = tree((b"40000", b"deep", deep), (b"40000", b"wide", top))
    changes = manifest_with(saved, **modes(), empty_folders=[])

    (found,) = problems(forged(tree=both, state=changes))
    assert (found["problem"], found["object"]) == ("missing", "1" * 40)
    assert len(found["places"]) >= 1000
    assert lowest != deep
