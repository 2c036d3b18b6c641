# SPDX-License-Identifier: MIT
"""`git ckpt rescue` finds what real git has dropped, and only that, and brings it back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from collecting import gc_at_work
from helpers import ckpt_here as ckpt
from helpers import fsck, git, loose_object, tree_state, verified
from scenes import divide, write

from ckpt.engine.rescue import Lost, choose
from ckpt.errors import NotFound, UsageError

KEYS = ["kind", "id", "timestamp", "subject", "files", "bytes", "patch"]
OWN = ["manifest.json", "index-flags.json"]
OLD = "2026-01-02T03:04:05.000000+00:00"  # what tests take for now


def rescue(*words: str, code: int = 0) -> dict[str, Any]:
    told: dict[str, Any] = ckpt("rescue", *words, "--json", code=code).json
    if code == 0:
        assert list(told) == ["schema", "lost", "total", "checkpoint"]
        assert all(list(each) == KEYS for each in told["lost"])
    return told


def lost() -> list[dict[str, Any]]:
    told = rescue()
    assert told["total"] == len(told["lost"])
    assert told["checkpoint"] is None
    return list(told["lost"])


def forget_reflogs() -> None:
    git("reflog", "expire", "--expire=now", "--all")


def look() -> tuple[object, str, str]:
    """What a rescue must not touch."""
    return tree_state("."), git("status", "--porcelain=v2", "--branch"), git("ls-files", "-s")


def bring_back(which: str, *words: str) -> dict[str, Any]:
    """Rescue one, with nothing else changed; the checkpoint of it."""
    before = look()
    found: dict[str, Any] = rescue(which, *words)["checkpoint"]
    assert look() == before
    assert fsck(".") == []
    assert verified(".") == []
    return found


# What is lost


def test_where_nothing_is_lost_nothing_is_found(repo: Path) -> None:
    write(repo, "README.md", "stashed\n")
    git("stash", "-q")
    write(repo, "README.md", "staged\n")
    git("add", ".")
    write(repo, "new", "in a checkpoint\n")
    ckpt("save", code=0)
    ckpt("save", "dropped", code=0)
    ckpt("drop", "dropped", code=0)
    git("commit", "-q", "-m", "second")
    git("commit", "-q", "--amend", "-m", "amended")  # of which the reflog knows
    git("tag", "-a", "-m", "tagged", "v1", "HEAD~1")

    assert lost() == []
    assert ckpt("rescue", code=0).stdout == "Nothing was found that is lost.\n"


def test_a_dropped_stash_comes_back_with_what_was_staged_and_untracked(repo: Path) -> None:
    write(repo, "README.md", "staged\n")
    git("add", "README.md")
    write(repo, "README.md", "edited\n")
    write(repo, "new/file", "untracked\n")
    before = look()
    git("stash", "push", "-q", "-u", "-m", "precious")
    stash = git("rev-parse", "stash@{0}").strip()
    git("stash", "drop", "-q")
    write(repo, "src/app.py", "something else\n")

    (found,) = lost()
    assert (found["kind"], found["id"], found["files"]) == ("stash", stash, 2)
    assert found["subject"] == "On main: precious"
    assert found["timestamp"] == OLD
    made = bring_back("1")
    assert made["name"] == "rescued: On main: precious"
    assert made["git_state"]["commit_hash"] == git("rev-parse", "HEAD").strip()
    assert made["stats"]["files_changed"] == 2
    assert lost() == []
    ckpt("rollback", made["id"], code=0)
    assert look() == before
    git("gc", "-q", "--prune=now")
    assert verified(".") == []


def test_a_stash_in_which_files_and_folders_changed_places_comes_back(repo: Path) -> None:
    """Git leaves in it what was tracked there."""
    write(repo, "README.md", "edited\n")
    write(repo, "folder/staged", "staged\n")
    write(repo, "folder-2", "staged\n")
    git("add", ".")
    shutil.rmtree("folder")
    write(repo, "folder", "a file by now\n")
    os.remove("src/app.py")
    write(repo, "src/app.py/below/new", "a folder by now\n")
    before = tree_state(".")
    git("stash", "push", "-q", "-u")
    kept = git("ls-tree", "-r", "--name-only", "stash")
    assert "folder/staged\n" in kept and "src/app.py\n" in kept
    git("stash", "drop", "-q")

    made = bring_back("1")

    ckpt("rollback", made["id"], code=0)
    assert tree_state(".") == before
    assert git("ls-files", "--", "folder") == "folder/staged\n"


def test_what_a_killed_rescue_has_written_does_not_hide_what_is_lost(repo: Path) -> None:
    write(repo, "README.md", "edited\n")
    git("stash", "push", "-q", "-m", "precious")
    stash = git("rev-parse", "stash@{0}").strip()
    git("stash", "drop", "-q")
    made = rescue("1")["checkpoint"]
    git("update-ref", "-d", made["ref"])
    os.unlink(loose_object(".git", made["commit"]))  # which is written last, then its ref

    (found,) = lost()
    assert (found["kind"], found["id"]) == ("stash", stash)
    bring_back("1")
    assert lost() == []


def test_nor_does_what_a_killed_save_has_written_hide_what_was_staged(repo: Path) -> None:
    write(repo, "README.md", "staged\n")
    git("add", ".")
    write(repo, "README.md", "edited\n")
    saved = ckpt("save", "one", "--json", code=0).json["checkpoint"]
    git("update-ref", "-d", saved["ref"])
    os.unlink(loose_object(".git", saved["commit"]))
    git("reset", "-q", "--hard")

    found = lost()
    assert {each["kind"] for each in found} == {"tree"}
    texts = {git("show", f"{each['id']}:README.md") for each in found}
    assert texts == {"staged\n", "edited\n"}


def test_a_commit_is_found_though_its_message_begins_as_that_of_a_state(repo: Path) -> None:
    write(repo, "README.md", "edited\n")
    git("commit", "-q", "-a", "-m", "ckpt: state of my work")
    commit = git("rev-parse", "HEAD").strip()
    git("reset", "-q", "--hard", "HEAD~1")
    forget_reflogs()

    (found,) = lost()
    assert (found["kind"], found["id"]) == ("commit", commit)


def test_a_commit_that_was_amended_away_is_found_when_the_reflog_forgets_it(repo: Path) -> None:
    write(repo, "README.md", "first try\n")
    git("commit", "-q", "-a", "-m", "first try")
    first = git("rev-parse", "HEAD").strip()
    write(repo, "README.md", "second try\n")
    git("commit", "-q", "-a", "--amend", "-m", "second try")

    assert lost() == []
    forget_reflogs()
    (found,) = lost()
    assert (found["kind"], found["id"], found["files"]) == ("commit", first, 1)
    assert found["subject"] == "first try"
    made = bring_back(first[:10], "again")
    assert (made["name"], made["git_state"]["commit_hash"]) == ("again", first)
    ckpt("rollback", "again", "--head", code=0)
    assert git("rev-parse", "HEAD").strip() == first
    assert (repo / "README.md").read_text() == "first try\n"


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ISO-8859-1", "Grüße"),
        ("windows-1252", "Grüße"),
        ("iso-8859-99", "Gr\ufffd\ufffde"),
        ("rot13", "Gr\ufffd\ufffde"),
    ],
)
def test_a_commit_in_another_encoding_has_its_subject(
    repo: Path, encoding: str, shown: str
) -> None:
    text = git("cat-file", "commit", "HEAD").partition("\n\n")[0].encode()
    text += b"\nencoding " + encoding.encode() + b"\n\nGr\xfc\xdfe\n"
    command = ["git", "hash-object", "-t", "commit", "-w", "--stdin"]
    subprocess.run(command, input=text, check=True, capture_output=True)

    (found,) = lost()
    assert found["subject"] == shown
    assert rescue("1")["checkpoint"]["name"] == f"rescued: {shown}"


def test_a_branch_that_was_deleted_is_one_commit_with_those_behind_it(repo: Path) -> None:
    git("checkout", "-q", "-b", "topic")
    for number in (1, 2, 3):
        write(repo, "topic", f"{number}\n")
        git("add", "topic")
        git("commit", "-q", "-m", f"topic {number}")
    tip = git("rev-parse", "topic").strip()
    git("checkout", "-q", "main")
    git("branch", "-q", "-D", "topic")
    forget_reflogs()

    (found,) = lost()
    assert (found["id"], found["subject"]) == (tip, "topic 3")
    made = bring_back("1")
    git("gc", "-q", "--prune=now")
    assert git("rev-list", "--count", f"{made['ref']}^1").strip() == "4"


def test_of_a_commit_it_is_told_what_it_changes(repo: Path) -> None:
    """Against HEAD, which is the commit itself, nothing is changed."""
    _, second = lose_history(repo)
    forget_history(repo)

    told = ckpt("rescue", second, code=0).stdout
    assert told.startswith(f"Rescued commit {second[:12]} (1 file): ")
    (made,) = ckpt("list", "--json", code=0).json["checkpoints"]
    assert made["description"].endswith(" UTC, which changes 1 file.")


def test_what_was_staged_and_reset_is_found_by_its_content(repo: Path) -> None:
    write(repo, "lost.txt", "\n  only ever staged\nand more\n")
    write(repo, "lost.bin", bytes(range(255)))
    git("add", ".")
    blob = git("rev-parse", ":lost.txt").strip()
    git("reset", "-q", "--hard")

    found = {each["id"]: each for each in lost()}
    assert {each["subject"] for each in found.values()} == {"only ever staged", "(binary)"}
    assert (found[blob]["kind"], found[blob]["bytes"]) == ("content", 29)
    made = bring_back(blob)
    path = f"rescued/{blob[:12]}"
    assert [each["path"] for each in made["git_state"]["dirty_files"]] == [path]
    ckpt("rollback", made["id"], "--", path, code=0)
    assert (repo / path).read_text() == "\n  only ever staged\nand more\n"


@pytest.mark.parametrize("taken", ["file", "link", "dangling", "repository"])
def test_a_content_comes_back_in_another_folder_if_its_own_is_taken(
    repo: Path, tmp_path: Path, taken: str
) -> None:
    blob = git("hash-object", "-w", "--stdin", stdin="lost\n").strip()
    if taken == "file":
        write(repo, "rescued", "something else\n")
    elif taken == "repository":
        git("init", "-q", "rescued")
    else:
        os.symlink(tmp_path if taken == "link" else "nowhere", "rescued")
    (repo / "rescued-2").mkdir()

    told = ckpt("rescue", blob, code=0).stdout
    _, _, path = told.splitlines()[-1].rpartition(" ")
    assert path == f"rescued-2/{blob[:12]}"
    ckpt("rollback", "latest", "--", path, code=0)
    assert (repo / path).read_text() == "lost\n"


def test_what_ckpt_writes_for_itself_and_nothing_at_all_are_no_contents(repo: Path) -> None:
    saved = ckpt("save", "--json", code=0).json["checkpoint"]
    own = [git("cat-file", "blob", f"{saved['ref']}^2:{name}") for name in OWN]
    git("update-ref", "-d", saved["ref"])
    git("prune", "--expire=now")
    for text in (*own, ""):
        git("hash-object", "-w", "--stdin", stdin=text)

    assert lost() == []


@pytest.mark.parametrize(
    "text",
    ['{\n "branch": "x"}\n', '{\n "assume_valid": [], half of it', '{\n "branch": ' + "[" * 9999],
)
def test_a_content_that_begins_as_what_ckpt_writes_is_found(repo: Path, text: str) -> None:
    blob = git("hash-object", "-w", "--stdin", stdin=text).strip()

    (found,) = lost()
    assert (found["kind"], found["id"]) == ("content", blob)


def test_a_tree_that_was_written_and_forgotten_is_found_without_its_parts(repo: Path) -> None:
    write(repo, "some/lost.txt", "in a tree\n")
    git("add", ".")
    tree = git("write-tree").strip()
    git("reset", "-q", "--hard")

    (found,) = lost()
    assert (found["kind"], found["id"], found["files"]) == ("tree", tree, 7)
    made = bring_back("1")
    ckpt("rollback", made["id"], "--", "some", code=0)
    assert (repo / "some/lost.txt").read_text() == "in a tree\n"


def test_a_checkpoint_that_left_the_trash_comes_back_as_it_was(repo: Path) -> None:
    write(repo, "README.md", "precious\n")
    saved = ckpt("save", "precious", "--json", code=0).json["checkpoint"]
    ckpt("drop", "precious", code=0)
    assert lost() == []
    ckpt("prune", "--now", code=0)
    git("reset", "-q", "--hard")

    (found,) = lost()
    assert (found["kind"], found["subject"], found["files"]) == ("checkpoint", "precious", 1)
    assert found["id"] == saved["commit"]
    assert ckpt("rescue", "1", "other-name", code=2).stdout == ""
    assert bring_back("1") == saved
    ckpt("rollback", "precious", code=0)
    assert (repo / "README.md").read_text() == "precious\n"


def test_the_commit_from_before_a_checkpoint_was_pinned_is_not_lost(repo: Path) -> None:
    ckpt("save", "one", code=0)
    ckpt("pin", "one", code=0)
    ckpt("unpin", "one", code=0)

    assert lost() == []


def test_a_commit_with_the_message_of_a_checkpoint_is_found_with_those_behind_it(
    repo: Path,
) -> None:
    saved = ckpt("save", "one", "--json", code=0).json["checkpoint"]
    write(repo, "README.md", "behind\n")
    git("commit", "-q", "-a", "-m", "behind it")
    write(repo, "README.md", "picked\n")
    git("commit", "-q", "-a", "-C", saved["ref"])
    commit = git("rev-parse", "HEAD").strip()
    git("reset", "-q", "--hard", "HEAD~2")
    forget_reflogs()

    (found,) = lost()
    assert (found["kind"], found["id"], found["subject"]) == ("commit", commit, "one")
    made = bring_back("1")
    assert git("log", "--format=%s", f"{made['ref']}^1") == "one\nbehind it\nfirst\n"
    assert lost() == []


def replace_by_a_fetch(repo: Path, tmp_path: Path, ref: str) -> str:
    """Have another clone's checkpoint under the id of one of ours; its commit."""
    git("clone", "-q", str(repo), str(tmp_path / "other"))
    other = ("-C", str(tmp_path / "other"))
    git(*other, "fetch", "-q", "origin", f"{ref}:{ref}")
    theirs = git(*other, "cat-file", "commit", ref).replace("\n\none\n", "\n\ntheirs\n")
    commit = git(*other, "hash-object", "-t", "commit", "-w", "--stdin", stdin=theirs).strip()
    git(*other, "update-ref", ref, commit)
    git("fetch", "-q", str(tmp_path / "other"), "+refs/checkpoints/*:refs/checkpoints/*")
    return commit


def test_a_checkpoint_that_a_forced_fetch_replaced_comes_back_under_another_id(
    repo: Path, tmp_path: Path
) -> None:
    write(repo, "README.md", "precious\n")
    ckpt("save", "one", code=0)
    saved = ckpt("pin", "one", "--json", code=0).json["checkpoint"]
    theirs = replace_by_a_fetch(repo, tmp_path, saved["ref"])
    git("reset", "-q", "--hard")

    (found,) = lost()  # and not what it was before the pin
    assert (found["kind"], found["id"], found["subject"]) == (
        "checkpoint",
        saved["commit"],
        "one",
    )
    made = bring_back("1")
    assert made["id"] != saved["id"]
    anew = dict.fromkeys(("id", "ref", "commit", "timestamp"))
    assert {**made, **anew} == {**saved, **anew}
    for parts in ("^{tree}", "^@"):
        assert git("rev-parse", made["commit"] + parts) == git("rev-parse", theirs + parts)
    assert git("rev-parse", saved["ref"]).strip() == theirs
    assert lost() == []
    ckpt("rollback", made["id"], code=0)
    assert (repo / "README.md").read_text() == "precious\n"


def test_what_a_merge_in_progress_needs_is_not_lost(repo: Path) -> None:
    divide(repo, "side")
    subprocess.run(["git", "merge", "-q", "side"], capture_output=True)
    git("branch", "-q", "-D", "side")
    forget_reflogs()

    assert lost() == []


def test_another_worktrees_head_and_index_hold_what_they_name(repo: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git("worktree", "add", "-q", "--detach", str(linked))
    write(linked, "README.md", "committed there\n")
    git("commit", "-q", "-a", "-m", "there", cwd=linked)
    write(linked, "README.md", "staged there\n")
    git("add", ".", cwd=linked)
    forget_reflogs()

    assert lost() == []


@pytest.mark.parametrize("digits", ["99999999999999", "9" * 5000, "-99999999999999"])
def test_a_date_that_no_calendar_has_does_not_stop_the_search(repo: Path, digits: str) -> None:
    tree = git("rev-parse", "HEAD^{tree}").strip()
    text = f"tree {tree}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> {digits} +0000\n\nodd\n"
    odd = git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=text).strip()
    stash = lose_a_stash(repo, "stashed\n")

    assert {each["id"] for each in lost()} == {odd, stash}
    assert "odd" in ckpt("rescue", code=0).stdout
    assert rescue(odd)["checkpoint"]["name"] == "rescued: odd"


def lose_a_hostile_commit(repo: Path) -> str:
    """One with a name in it that must never reach a file system."""
    blob = git("rev-parse", "HEAD:README.md").strip()
    inner = git("mktree", stdin=f"100644 blob {blob}\tconfig\n").strip()
    data = b"40000 .git\0" + bytes.fromhex(inner)
    made = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin"],
        input=data,
        capture_output=True,
        check=True,
    )
    return git("commit-tree", "-m", "hostile", made.stdout.decode().strip()).strip()


def test_a_hostile_commit_does_not_stop_the_search(repo: Path) -> None:
    hostile = lose_a_hostile_commit(repo)
    stash = lose_a_stash(repo, "stashed\n")

    found = {each["id"]: each for each in lost()}
    assert found.keys() == {hostile, stash}
    assert (found[hostile]["subject"], found[hostile]["files"]) == ("hostile", None)


# Where it is


def lose_a_stash(repo: Path, text: str) -> str:
    write(repo, "README.md", text)
    git("stash", "-q")
    stash = git("rev-parse", "stash").strip()
    git("stash", "drop", "-q")
    return stash


def test_what_git_keeps_in_a_cruft_pack_is_found(repo: Path) -> None:
    stash = lose_a_stash(repo, "stashed\n")
    write(repo, "lost.txt", "only ever staged\n")
    git("add", ".")
    git("reset", "-q", "--hard")
    git("repack", "-q", "--cruft", "-d")

    assert list((repo / ".git/objects/pack").glob("*.mtimes"))
    assert not list((repo / ".git/objects").glob("??"))
    found = {each["kind"]: each for each in lost()}
    assert found["stash"]["id"] == stash
    assert found["content"]["timestamp"] > OLD
    assert bring_back(stash)["stats"]["files_changed"] == 1


def test_a_commit_that_was_packed_though_nothing_needs_it_is_found(repo: Path) -> None:
    """As `git maintenance` packs what is loose."""
    stashes = {lose_a_stash(repo, f"stashed {number}\n" * 50) for number in range(3)}
    loose = [str(path.parent.name + path.name) for path in (repo / ".git/objects").glob("??/*")]
    git("pack-objects", "-q", ".git/objects/pack/loose", stdin="".join(f"{i}\n" for i in loose))
    git("prune-packed", "-q")

    assert not list((repo / ".git/objects").glob("??"))
    assert {each["id"] for each in lost()} == stashes
    assert bring_back(stashes.pop())["stats"]["files_changed"] == 1


def test_with_longer_ids_it_works_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path / "sha256"
    git("init", "-q", "--object-format=sha256", str(top))
    monkeypatch.chdir(top)
    write(top, "README.md", "first\n")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    stash = lose_a_stash(top, "stashed\n")

    assert len(stash) == 64
    assert [each["id"] for each in lost()] == [stash]
    assert bring_back("1")["stats"]["files_changed"] == 1


# Patches of pre-commit


def hide_edits(repo: Path, store: Path, moment: int = 1_700_000_000) -> Path:
    """What pre-commit does to unstaged edits before its hooks run, and is then killed."""
    store.mkdir(parents=True, exist_ok=True)
    patch = store / f"patch{moment}-4711"
    words = ["diff-index", "--ignore-submodules", "--binary", "--no-color", "--no-ext-diff"]
    patch.write_text(git(*words, git("write-tree").strip(), "--"))
    git("checkout", "-q", "--", ".")
    return patch


def test_edits_that_a_killed_pre_commit_left_in_its_patch_come_back(
    repo: Path, isolated: Path
) -> None:
    write(repo, "src/app.py", "print('staged')\n")
    git("add", "src/app.py")
    write(repo, "src/app.py", "print('unstaged')\n")
    write(repo, "src/data.bin", bytes(range(255, -1, -1)))
    edited = tree_state(repo)
    patch = hide_edits(repo, isolated / ".cache/pre-commit")
    git("commit", "-q", "-m", "went on")  # the index is another by now, the contents are there

    (found,) = lost()
    assert (found["kind"], found["id"], found["files"]) == ("patch", patch.name, 2)
    assert found["subject"] == "src/app.py, src/data.bin"
    assert found["timestamp"].startswith("2023-11-14T22:13:20")
    assert found["patch"] == {"path": str(patch)}
    made = bring_back("1")
    assert made["name"] == f"rescued: {patch.name}"
    assert made["stats"]["files_changed"] == 2
    ckpt("rollback", made["id"], code=0)
    assert tree_state(repo) == edited
    assert lost() == []


def test_a_patch_that_was_put_back_or_is_of_another_repository_is_not_lost(
    repo: Path, isolated: Path, tmp_path: Path
) -> None:
    store = isolated / ".cache/pre-commit"
    write(repo, "README.md", "edited\n")
    patch = hide_edits(repo, store)
    git("apply", str(patch))
    (store / "patch1700000001-1").write_text("garbage\n")
    (store / "patch1700000002-1").write_text("")
    os.symlink(patch, store / "patch1700000003-1")
    git("init", "-q", str(tmp_path / "other"))
    write(tmp_path / "other", "README.md", "of another\n")
    git("add", ".", cwd=tmp_path / "other")
    write(tmp_path / "other", "README.md", "of another, edited\n")
    (store / "patch1700000004-1").write_text(git("diff", "--binary", cwd=tmp_path / "other"))

    assert lost() == []
    write(repo, "README.md", "something else\n")
    assert [each["id"] for each in lost()] == [patch.name]


def test_a_patch_of_a_year_that_no_calendar_has_comes_back(repo: Path, isolated: Path) -> None:
    write(repo, "README.md", "edited\n")
    patch = hide_edits(repo, isolated / ".cache/pre-commit", 999_999_999_999)

    assert [each["id"] for each in lost()] == [patch.name]
    assert patch.name in ckpt("rescue", code=0).stdout
    assert bring_back("1")["stats"]["files_changed"] == 1


def test_paths_of_a_patch_are_shown_as_git_shows_them(repo: Path, isolated: Path) -> None:
    """A terminal would obey some of them, and one could pass for a line of its own."""
    for name in ("a\033[2Jb", "b\n2  now", "größe"):
        write(repo, name, "before\n")
        git("add", name)
    git("commit", "-q", "-m", "odd names")
    for name in ("a\033[2Jb", "b\n2  now", "größe"):
        write(repo, name, "after\n")
    hide_edits(repo, isolated / ".cache/pre-commit")

    assert lost()[0]["subject"] == "a\033[2Jb, b\n2  now, größe"
    _, row, *_ = ckpt("rescue", code=0).stdout.splitlines()
    assert row.endswith(r"""  "a\033[2Jb", "b\n2  now", größe""")


def test_a_pipe_where_a_patch_had_a_file_is_not_waited_for(repo: Path, isolated: Path) -> None:
    write(repo, "README.md", "edited\n")
    patch = hide_edits(repo, isolated / ".cache/pre-commit")
    os.unlink("README.md")
    os.mkfifo("README.md")

    command = [sys.executable, "-I", "-m", "ckpt", "rescue", "--json"]
    ran = subprocess.run(command, capture_output=True, check=True, timeout=30)
    assert [each["id"] for each in json.loads(ran.stdout)["lost"]] == [patch.name]


# Choosing


def test_they_are_listed_by_time_and_chosen_by_number_or_id(repo: Path) -> None:
    for number in range(3):
        date = {"GIT_COMMITTER_DATE": f"2026-01-02T03:0{number}:00+00:00"}
        write(repo, "README.md", f"stashed {number}\n")
        git("stash", "push", "-q", "-m", f"number {number}", env=date)
        git("stash", "drop", "-q")

    rows = ckpt("rescue", code=0).stdout.splitlines()
    assert [row.split()[0] for row in rows[1:4]] == ["1", "2", "3"]
    assert [row[-len("number 0") :] for row in rows[1:4]] == ["number 2", "number 1", "number 0"]
    assert rows[-1] == "make a checkpoint of one:   git ckpt rescue NUMBER [NAME]"
    told = rescue("-n", "1")
    assert (len(told["lost"]), told["total"]) == (1, 3)
    assert "2 older ones are not shown" in ckpt("rescue", "-n", "1", code=0).stdout
    assert bring_back("2")["name"] == "rescued: On main: number 1"
    assert bring_back(lost()[1]["id"][:8], "chosen")["name"] == "chosen"


def test_what_is_not_lost_cannot_be_chosen(repo: Path) -> None:
    lose_a_stash(repo, "stashed\n")

    for word in ("2", "0", "1" * 5000, "nowhere", git("rev-parse", "HEAD").strip()):
        assert ckpt("rescue", word, code=3).stdout == ""
    assert ckpt("rescue", "-n", "-1", code=2).stdout == ""
    assert ckpt("rescue", "1", "latest-one", code=2).stdout == ""
    assert git("for-each-ref", "refs/checkpoints") == ""


def test_of_thousands_each_is_chosen_by_its_number() -> None:
    found = [Lost("commit", f"{number:x}".rjust(40, "f"), 0, "") for number in range(2500)]
    found[7] = Lost("commit", "2400".ljust(40, "0"), 0, "")
    found[1199] = Lost("commit", "1200".ljust(40, "0"), 0, "")

    assert [choose(found, word) for word in ("8", "1000", "2500")] == [
        found[number - 1] for number in (8, 1000, 2500)
    ]
    assert choose(found, "1200") == found[1199]  # by its number and by its id
    assert choose(found, "24000") == found[7]
    with pytest.raises(UsageError, match="'2400' is ambiguous"):
        choose(found, "2400")
    for word in ("2501", "0", "9999"):
        with pytest.raises(NotFound):
            choose(found, word)


@pytest.mark.parametrize("kind", ["stash", "commit", "tree"])
def test_what_is_half_gone_stays_listed_and_does_not_become_a_checkpoint(
    repo: Path, kind: str
) -> None:
    gone = lose_a_stash(repo, "stashed\n")
    tree = git("rev-parse", f"{gone}^{{tree}}").strip()
    blob = git("rev-parse", f"{gone}:README.md").strip()
    if kind != "stash":
        os.unlink(loose_object(".git", git("rev-parse", f"{gone}^2").strip()))
        os.unlink(loose_object(".git", gone))
        gone = tree if kind == "tree" else git("commit-tree", "-m", "lost", tree).strip()
    os.unlink(loose_object(".git", blob))
    before = lost()

    assert [(each["kind"], each["id"]) for each in before] == [(kind, gone)]
    told = ckpt("rescue", "1", code=1)
    assert f"no checkpoint can be made of {kind} '{gone}': missing blob {blob}" in told.stderr
    assert git("for-each-ref", "refs/checkpoints") == ""
    assert lost() == before


def test_what_is_unsafe_stays_listed_and_does_not_become_a_checkpoint(repo: Path) -> None:
    hostile = lose_a_hostile_commit(repo)
    before = lost()

    told = ckpt("rescue", hostile, code=1)
    assert f"no checkpoint can be made of commit '{hostile}': " in told.stderr
    assert "unsafe name '.git'" in told.stderr
    assert lost() == before


UNSAFE = {
    "a name": ("100644", "git~1", "'git~1' is no name for a file"),
    "a link": ("120000", ".gitmodules", "'.gitmodules' would be '.gitmodules' and is no file"),
}


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("which", UNSAFE)
def test_what_git_would_not_check_out_is_kept_but_is_foreign(
    repo: Path, which: str, staged: bool
) -> None:
    """It may have come with a fetch, and nobody has looked it over."""
    mode, name, told = UNSAFE[which]
    blob = git("rev-parse", "HEAD:README.md").strip()
    tree = git("mktree", stdin=f"{mode} blob {blob}\t{name}\n").strip()
    words = ["-p", "HEAD", "-m", "lost"]
    if staged:
        index = git("commit-tree", tree, "-p", "HEAD", "-m", "index on main: x").strip()
        tree = git("rev-parse", "HEAD^{tree}").strip()
        words = ["-p", "HEAD", "-p", index, "-m", "WIP on main: x"]
    gone = git("commit-tree", tree, *words).strip()

    assert f"it counts as foreign, for it is not safe: {told}" in ckpt("rescue", gone).stderr
    (made,) = ckpt("list", "--json", code=0).json["checkpoints"]
    assert made["foreign"]
    assert git("show", f"{made['ref']}^2:index/{name}") == git("show", "HEAD:README.md")
    before = look()
    for command in ("pin", "rollback"):
        ran = ckpt(command, made["id"])
    assert (ran.code, told in ran.stderr) == (4, True)
    assert look() == before
    assert verified(".") == []


def lose_history(repo: Path) -> tuple[str, str]:
    """Two commits of which nothing tells any more; the ids of the first and the second."""
    ids = []
    for text in ("first\n", "second\n"):
        write(repo, "README.md", text)
        git("commit", "-q", "-a", "-m", text)
        ids.append(git("rev-parse", "HEAD").strip())
    return ids[0], ids[1]


def forget_history(repo: Path) -> None:
    git("reset", "-q", "--hard", "HEAD~2")
    forget_reflogs()


def test_a_commit_whose_history_is_gone_comes_back_without_it(repo: Path) -> None:
    """A ref to it would make every gc fail."""
    first, second = lose_history(repo)
    forget_history(repo)
    os.unlink(loose_object(".git", first))
    before = look()

    told = ckpt("rescue", second, code=0)
    assert f"the history behind it is not kept: missing commit {first}" in told.stderr
    (made,) = ckpt("list", "--json", code=0).json["checkpoints"]
    assert look() == before
    assert made["git_state"]["commit_hash"] == git("rev-parse", "HEAD").strip()
    assert f"not kept: missing commit {first}" in made["description"]
    assert git("show", f"{made['ref']}:README.md") == "second\n"
    assert git("show", f"{made['ref']}^2:index/README.md") == "second\n"
    git("gc", "-q", "--prune=now")
    assert (fsck("."), verified(".")) == ([], [])


@pytest.mark.parametrize("kind", ["tree", "blob"])
def test_a_commit_of_whose_history_a_content_is_gone_comes_back_without_it(
    repo: Path, kind: str
) -> None:
    first, second = lose_history(repo)
    gone = git("rev-parse", f"{first}^{{tree}}" if kind == "tree" else f"{first}:README.md").strip()
    forget_history(repo)
    os.unlink(loose_object(".git", gone))

    made = rescue(second)["checkpoint"]
    assert f"not kept: missing {kind} {gone}" in made["description"]
    assert git("show", f"{made['ref']}:README.md") == "second\n"
    git("gc", "-q", "--prune=now")
    assert verified(".") == []


def test_a_stash_on_a_history_that_is_gone_comes_back_without_it(repo: Path) -> None:
    first, _ = lose_history(repo)
    write(repo, "README.md", "staged\n")
    git("add", "README.md")
    write(repo, "README.md", "stashed\n")
    write(repo, "new", "untracked\n")
    git("stash", "-q", "-u")
    stash = git("rev-parse", "stash").strip()
    git("stash", "drop", "-q")
    forget_history(repo)
    os.unlink(loose_object(".git", first))

    made = rescue(stash)["checkpoint"]
    assert f"not kept: missing commit {first}" in made["description"]
    assert git("show", f"{made['ref']}:README.md") == "stashed\n"
    assert git("show", f"{made['ref']}:new") == "untracked\n"
    assert git("show", f"{made['ref']}^2:index/README.md") == "staged\n"
    git("gc", "-q", "--prune=now")
    assert verified(".") == []


def test_a_checkpoint_on_a_history_that_is_gone_gets_no_ref(repo: Path) -> None:
    first, _ = lose_history(repo)
    saved = ckpt("save", "precious", "--json", code=0).json["checkpoint"]
    git("update-ref", "-d", saved["ref"])
    forget_history(repo)
    os.unlink(loose_object(".git", first))

    told = ckpt("rescue", "1", code=1)
    assert f"missing commit {first}" in told.stderr
    assert f"hint: git ckpt save && git restore --source={saved['commit']} -- PATH" in told.stderr
    assert git("for-each-ref", "refs/checkpoints") == ""


def test_where_a_shallow_clone_ends_no_history_is_missing(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repo, "README.md", "second\n")
    git("commit", "-q", "-a", "-m", "second")
    git("clone", "-q", "--depth=1", f"file://{repo}", str(tmp_path / "shallow"))
    monkeypatch.chdir(tmp_path / "shallow")
    stash = lose_a_stash(tmp_path / "shallow", "stashed\n")
    git("update-ref", "HEAD", git("commit-tree", "-m", "other", "HEAD^{tree}").strip())
    git("symbolic-ref", "-d", "refs/remotes/origin/HEAD")
    git("update-ref", "-d", "refs/remotes/origin/main")
    forget_reflogs()

    made = bring_back(stash)
    assert git("rev-parse", f"{made['ref']}^2^1").strip() == stash


def test_a_commit_without_a_tree_is_not_listed(repo: Path) -> None:
    stash = lose_a_stash(repo, "stashed\n")
    for text in ("tree abc\n\nno id\n", "author nobody\n\nno tree\n", ""):
        git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=text)

    assert [each["id"] for each in lost()] == [stash]


def test_what_is_told_after_a_rescue_brings_back_some_or_all_of_it(repo: Path) -> None:
    lose_a_stash(repo, "stashed\n")
    write(repo, "untracked", "of today\n")
    told = ckpt("rescue", "1", code=0).stdout.splitlines()
    commands = {line.split(":")[0]: line.split("git ckpt ")[-1].split() for line in told[1:]}

    assert list(commands) == ["look at it", "some of it", "all of it"]
    path = git("diff", "--name-only", "HEAD", f"refs/checkpoints/{commands['all of it'][1]}")
    ckpt(*(path.strip() if word == "PATH" else word for word in commands["some of it"]), code=0)
    assert (repo / path.strip()).read_text() == "stashed\n"
    assert (repo / "untracked").exists()
    ckpt(*commands["all of it"], code=0)
    assert not (repo / "untracked").exists()


def test_a_damaged_object_does_not_stop_the_search(repo: Path) -> None:
    stash = lose_a_stash(repo, "stashed\n")
    write(repo, "lost.txt", "only ever staged\n")
    git("add", ".")
    blob = Path(loose_object(".git", git("rev-parse", ":lost.txt").strip()))
    git("reset", "-q", "--hard")
    blob.chmod(0o644)
    blob.write_bytes(b"garbage")
    (blob.parent / "not-an-object").write_text("")

    assert [each["id"] for each in lost()] == [stash]


def test_nothing_is_brought_back_that_a_gc_at_work_may_take(repo: Path) -> None:
    stash = lose_a_stash(repo, "stashed\n")
    with gc_at_work(repo / ".git"):
        told = ckpt("rescue", "1", code=4)

    assert "git gc is at work" in told.stderr
    bring_back(stash)
