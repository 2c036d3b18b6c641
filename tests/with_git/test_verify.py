# SPDX-License-Identifier: MIT
"""`git ckpt verify` finds every kind of damage, says what it affects, and finds no other."""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt_here as ckpt
from helpers import git, loose_object
from scenes import divide, write

KEYS = ["id", "name", "ref", "dropped", "whole", "problems"]


def save(*words: str, top: Path | None = None) -> dict[str, Any]:
    found: dict[str, Any] = ckpt("save", *words, "--json", cwd=top, code=0).json["checkpoint"]
    return found


def verify(*words: str, top: Path | None = None, code: int = 1) -> list[dict[str, Any]]:
    """What is told of each checkpoint."""
    told = ckpt("verify", *words, "--json", cwd=top, code=code).json
    assert list(told) == ["schema", "checkpoints", "objects", "promised"]
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


# Which ones


def test_all_are_those_of_every_worktree_and_of_the_trash(repo: Path, tmp_path: Path) -> None:
    one, two = save("one"), save("two")
    ckpt("drop", "one", code=0)
    git("worktree", "add", "-q", str(tmp_path / "linked"))
    three = save(top=tmp_path / "linked")

    found = {each["id"]: each["dropped"] for each in verify("--all", code=0)}
    assert found == {one["id"]: True, two["id"]: False, three["id"]: False}
    assert [each["id"] for each in verify(one["id"], code=0)] == [one["id"]]


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
        ("staged", "blob", {("state", "index/src/app.py")}),
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
            {("worktree", "README.md"), ("state", "index/README.md"), ("head", "README.md")},
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


@pytest.mark.parametrize("at", [0, 11, -1])
def test_a_pack_that_does_not_begin_and_end_as_git_wants_is_damage(repo: Path, at: int) -> None:
    save()
    git("repack", "-q", "-a", "-d")
    (pack,) = (repo / ".git/objects/pack").glob("*.pack")
    pack.chmod(0o644)
    data = bytearray(pack.read_bytes())
    data[at] ^= 1
    pack.write_bytes(data)

    assert ckpt("verify", "--all", code=1).stdout.startswith("broken ")


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


def test_a_head_that_names_no_tree_is_damage(saved: dict[str, Any]) -> None:
    words = ("hash-object", "-t", "commit", "-w", "--literally", "--stdin")
    odd = git(*words, stdin="author nobody\n\nno tree\n").strip()
    text = git("cat-file", "commit", saved["commit"])
    forged = git(*words, stdin=text.replace(saved["git_state"]["commit_hash"], odd)).strip()
    git("update-ref", saved["ref"], forged)

    (found,) = problems()
    assert found["detail"] == f"damaged commit {odd}: its tree or a parent is no id"
    assert places(found) == {("head", "")}


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
    assert ckpt("verify", "--all", code=1).stdout.count("broken ") == 7
