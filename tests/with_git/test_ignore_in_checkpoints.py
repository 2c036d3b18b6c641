# SPDX-License-Identifier: MIT
"""What a checkpoint takes and leaves out: git's ignore rules, secrets, size, nesting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers import ckpt as ckpt_process
from helpers import ckpt_here as ckpt
from helpers import git
from scenes import link, remove, unprivileged, write


def save(*words: str, env: dict[str, str] | None = None) -> dict:
    return ckpt("save", "--json", *words, env=env, code=0).json["checkpoint"]


def taken(found: dict) -> list[str]:
    return git("ls-tree", "-r", "--name-only", "-z", found["ref"]).split("\0")[:-1]


def git_would_take() -> list[str]:
    words = ("--cached", "--others", "--exclude-standard", "--deduplicate", "-z")
    listed = git("ls-files", *words).split("\0")[:-1]
    return sorted(path for path in listed if os.path.lexists(path))


def test_a_checkpoint_takes_what_git_would_add(repo: Path, isolated: Path) -> None:
    rules = {
        ".gitignore": "*.log\n!important.log\n/top\nbuild/\n**/deep/x\n*.[oa]\n\\#hash\nsp\\ ace\n",
        "sub/.gitignore": "!*.log\n*.tmp\n/only-here\n",
        "sub/negated/.gitignore": "!only.tmp\n",
        "everything/.gitignore": "*\n!.gitignore\n!kept\n",
        ".git/info/exclude": "excluded\n",
    }
    write(isolated, ".config/git/ignore", "*.swp\n")
    for path, text in rules.items():
        write(repo, path, text)
    names = (
        *("a.log", "important.log", "top", "build/out", "x.o", "x.a", "x.c", "#hash", "sp ace"),
        *("excluded", "x.swp", "tracked.log", "dir/important.log", "dir/deep/x", "dir/deep/y"),
        *("sub/b.log", "sub/b.tmp", "sub/only-here", "sub/deeper/only-here", "sub/top"),
        *("sub/negated/only.tmp", "sub/negated/other.tmp", "everything/kept", "everything/lost"),
        *("everything/below/kept", "build/tracked", "sub/build/x"),
    )
    for path in names:
        write(repo, path, path)
    git("add", "--force", "tracked.log", "build/tracked")

    found = save()

    assert taken(found) == git_would_take()
    assert {"build/tracked", "tracked.log", "important.log"} < set(taken(found))
    assert found["skipped"] == []


def test_an_excludes_file_of_the_user_counts_wherever_it_is(repo: Path, isolated: Path) -> None:
    write(isolated, "my ignores", "*.mine\n")
    git("config", "--global", "core.excludesFile", "~/my ignores")
    write(repo, "x.mine", "")
    write(repo, "y", "")

    assert taken(save()) == git_would_take()


def test_an_ignored_folder_is_never_opened(repo: Path) -> None:
    write(repo, "build/secret/file", "ignored\n")
    (repo / "build").chmod(0o000)

    told = ckpt_process("save", "--json", under=unprivileged(), code=0).json
    (repo / "build").chmod(0o755)

    assert told["outcome"] == "created"
    assert told["checkpoint"]["skipped"] == []


def test_a_tracked_file_is_taken_although_it_is_ignored_and_gone_when_deleted(
    repo: Path,
) -> None:
    write(repo, "build/one", "tracked\n")
    write(repo, "build/two", "tracked\n")
    git("add", "--force", "build")
    git("commit", "-q", "-m", "ignored but tracked")
    write(repo, "build/one", "edited\n")
    remove(repo, "build/two")
    write(repo, "build/three", "ignored\n")
    found = save("work")
    git("reset", "-q", "--hard")

    ckpt("rollback", "work", code=0)

    assert "build/two" not in taken(found)
    assert (repo / "build/one").read_text() == "edited\n"
    assert sorted(os.listdir(repo / "build")) == ["one", "three"]


@pytest.mark.parametrize(
    "name",
    [
        *(".env", ".env.local", "deep/.env", "id_rsa", "server.pem", "deep/x.p12"),
        *(".netrc", ".npmrc", "credentials.json", "secrets.yaml"),
    ],
)
def test_a_secret_is_left_out_listed_and_never_in_the_repository(repo: Path, name: str) -> None:
    write(repo, name, "very secret 4711\n")
    found = save()

    assert name not in taken(found)
    assert found["skipped"] == [{"path": name, "reason": "denied"}]
    assert found["partial"] is False
    blob = git("hash-object", name).strip()
    assert blob not in git("cat-file", "--batch-all-objects", "--batch-check")
    shown = ckpt("save", code=0)
    assert "1 file on the deny list" in shown.stdout
    assert name in ckpt("show", code=0).stdout


@pytest.mark.parametrize("name", ["node_modules", ".venv", "__pycache__", "deep/.tox"])
def test_a_dependency_folder_is_left_out_as_a_whole(repo: Path, name: str) -> None:
    write(repo, f"{name}/a/b", "")

    assert save()["skipped"] == [{"path": name, "reason": "denied"}]


def test_git_config_can_allow_deny_and_include(repo: Path) -> None:
    write(repo, ".env", "wanted\n")
    write(repo, "notes.txt", "unwanted\n")
    write(repo, "wanted.log", "ignored\n")
    write(repo, "build/wanted", "ignored\n")
    git("config", "ckpt.allow", ".env")
    git("config", "ckpt.deny", "notes.txt")
    git("config", "--add", "ckpt.include", "wanted.log")
    git("config", "--add", "ckpt.include", "build/wanted")

    found = save("all")

    assert {".env", "wanted.log", "build/wanted"} < set(taken(found))
    assert found["skipped"] == [{"path": "notes.txt", "reason": "denied"}]
    write(repo, "wanted.log", "edited\n")
    ckpt("rollback", "all", code=0)
    assert (repo / "wanted.log").read_text() == "ignored\n"


def test_the_repository_s_own_file_cannot_let_secrets_in(repo: Path) -> None:
    write(repo, ".env", "secret\n")
    write(repo, "ckpt.toml", 'allow = [".env"]\ninclude = [".env"]\ndeny = ["*.txt"]\n')
    write(repo, "notes.txt", "unwanted\n")

    told = ckpt("save", code=0)
    found = ckpt("show", "--json").json["checkpoint"]

    assert found["skipped"] == [
        {"path": ".env", "reason": "denied"},
        {"path": "notes.txt", "reason": "denied"},
    ]
    assert "warning: ckpt.toml: allow" in told.stderr


def test_large_untracked_files_are_left_out_and_large_tracked_ones_taken(repo: Path) -> None:
    git("config", "ckpt.maxFileSize", "1k")
    write(repo, "tracked", b"x" * 5000)
    git("add", "tracked")
    write(repo, "untracked", b"y" * 5000)
    write(repo, "just", b"z" * 1024)

    found = save()

    assert {"tracked", "just"} < set(taken(found))
    assert found["skipped"] == [{"path": "untracked", "reason": "oversize"}]
    assert found["partial"] is False


def test_a_nested_repository_is_recorded_and_left_alone(repo: Path) -> None:
    git("init", "-q", "nested")
    write(repo, "nested/file", "its own\n")
    write(repo, "beside", "ours\n")

    found = save()

    assert found["skipped"] == [{"path": "nested", "reason": "nested"}]
    assert "beside" in taken(found)
    assert not [path for path in taken(found) if path.startswith("nested")]


def test_links_are_taken_and_never_followed(repo: Path, tmp_path: Path) -> None:
    write(tmp_path, "elsewhere/file", "not ours\n")
    link(repo, "out", tmp_path / "elsewhere")
    link(repo, "loop", "loop")
    link(repo, "up", "..")

    found = save()

    assert {"out", "loop", "up"} < set(taken(found))
    for name, target in (("out", tmp_path / "elsewhere"), ("loop", "loop"), ("up", "..")):
        assert git("show", f"{found['ref']}:{name}") == str(target)
        assert git("ls-tree", found["ref"], name).startswith("120000 ")
    assert "out/file" not in taken(found)
