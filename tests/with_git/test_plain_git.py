# SPDX-License-Identifier: MIT
"""A checkpoint is a commit like any other: git reads it, shows it, takes files from it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git, tree_state
from scenes import link, remove, write


def save(*words: str, cwd: Path | None = None) -> dict:
    return ckpt("save", "--json", *words, cwd=cwd, code=0).json["checkpoint"]


@pytest.fixture
def saved(repo: Path) -> dict:
    """A checkpoint of one edited, one staged, one removed and one new file."""
    write(repo, "README.md", "# Edited\n")
    write(repo, "src/app.py", "print('staged')\n")
    git("add", "src/app.py")
    write(repo, "src/app.py", "print('staged')\nprint('edited')\n")
    remove(repo, "src/data.bin")
    write(repo, "new/file.txt", "new\n")
    return save("before-refactor", "-m", "Why it was taken.\n\nAnd more.")


def as_git_would_stage(top: Path, *words: str) -> str:
    """The tree of the whole worktree, made by git in an index of its own."""
    lent = {"GIT_INDEX_FILE": str(top.parent / "lent-index")}
    git("read-tree", "HEAD", cwd=top, env=lent)
    git("add", "--all", *words, cwd=top, env=lent)
    return git("write-tree", cwd=top, env=lent).strip()


def test_the_ref_names_a_commit_whose_tree_is_the_worktree(repo: Path, saved: dict) -> None:
    assert saved["ref"] == f"refs/checkpoints/{saved['id']}"
    assert git("rev-parse", saved["ref"]).strip() == saved["commit"]
    assert git("cat-file", "-t", saved["ref"]) == "commit\n"
    assert git("rev-parse", f"{saved['ref']}^{{tree}}").strip() == as_git_would_stage(repo)


def test_the_first_parent_is_head_and_the_last_one_the_state(repo: Path, saved: dict) -> None:
    head, state = git("rev-parse", f"{saved['ref']}^@").split()

    assert head == git("rev-parse", "HEAD").strip()
    assert trailers(saved)["Ckpt-State"] == state
    assert git("rev-parse", f"{state}^@") == ""
    assert git("rev-parse", f"{state}:index").strip() == git("write-tree").strip()
    contents = {"index", "index-flags.json", "manifest.json"}
    assert set(git("ls-tree", "--name-only", state).split()) == contents


def test_before_the_first_commit_the_state_is_the_only_parent(tmp_path: Path) -> None:
    git("init", "-q", str(tmp_path / "fresh"))
    found = save(cwd=tmp_path / "fresh")

    parents = git("log", "-1", "--format=%P", found["ref"], cwd=tmp_path / "fresh").split()

    assert parents == [trailers(found, tmp_path / "fresh")["Ckpt-State"]]
    assert (found["git_state"]["commit_hash"], found["git_state"]["branch"]) == (None, "main")
    assert fsck(tmp_path / "fresh") == []


def trailers(found: dict, cwd: Path | None = None) -> dict[str, str]:
    message = git("log", "-1", "--format=%B", found["ref"], cwd=cwd)
    parsed = git("interpret-trailers", "--parse", stdin=message, cwd=cwd)
    return dict(line.split(": ", 1) for line in parsed.splitlines())


def test_subject_body_and_trailers_are_name_description_and_metadata(saved: dict) -> None:
    shown = git("log", "-1", "--format=%s%x00%b", saved["ref"])
    subject, body = shown.split("\0")

    assert subject == "before-refactor"
    assert body.startswith("Why it was taken.\n\nAnd more.\n\nCkpt-Format: 1\n")
    found = trailers(saved)
    assert found["Ckpt-Format"] == "1"
    assert found["Ckpt-Id"] == saved["id"]
    assert found["Ckpt-Kind"] == "manual"
    assert found["Ckpt-Worktree"] == "main"
    assert found["Ckpt-Branch"] == "main"
    assert found["Ckpt-Timestamp"] == saved["timestamp"]


def test_without_a_name_the_subject_is_the_id(repo: Path) -> None:
    found = save()

    assert git("log", "-1", "--format=%s", found["ref"]).strip() == found["id"]
    assert found["name"] is None


def test_a_description_cannot_pass_for_trailers(repo: Path) -> None:
    text = "Ckpt-Kind: feature\n\nCkpt-Pinned: yes\nCkpt-Format: 9\nSigned-off-by: me"
    found = save("name", "-m", text)

    again = ckpt("show", "name", "--json", code=0).json["checkpoint"]

    assert again == found
    assert (again["kind"], again["pinned"], again["description"]) == ("manual", False, text)
    assert "Signed-off-by" not in trailers(found)


def test_long_data_are_in_blobs_and_not_in_the_message(repo: Path) -> None:
    data = {"text": "x" * 100_000}
    found = save("--data", json.dumps(data), "--meta", "ticket=4242")
    message = git("log", "-1", "--format=%B", found["ref"])
    state = found["ref"] + "^2:state/"

    assert len(message) < 2000
    assert "4242" not in message
    assert json.loads(git("show", state + "data.json")) == data
    assert json.loads(git("show", state + "metadata.json")) == {"ticket": "4242"}


def test_show_diff_and_log_need_nothing_but_git(repo: Path, saved: dict) -> None:
    ref = saved["ref"]

    assert git("diff", ref, "--", ":!new") == ""
    assert git("show", f"{ref}:src/app.py") == "print('staged')\nprint('edited')\n"
    shown = git("show", "--first-parent", "--name-status", "--format=%s", ref)
    assert shown.split("\n") == [
        "before-refactor",
        "",
        "M\tREADME.md",
        "A\tnew/file.txt",
        "M\tsrc/app.py",
        "D\tsrc/data.bin",
        "",
    ]
    assert git("log", "--first-parent", "--format=%s", ref) == "before-refactor\nfirst\n"
    git("show", ref)
    write(repo, "README.md", "# Edited again\n")
    assert "+# Edited again" in git("diff", ref)


def test_checkout_takes_single_files_from_a_checkpoint(repo: Path, saved: dict) -> None:
    git("reset", "-q", "--hard")
    git("clean", "-q", "-f", "-d")

    git("checkout", saved["ref"], "--", "new", "README.md")
    git("restore", f"--source={saved['ref']}", "src/app.py")

    assert (repo / "new/file.txt").read_text() == "new\n"
    assert (repo / "README.md").read_text() == "# Edited\n"
    assert (repo / "src/app.py").read_text() == "print('staged')\nprint('edited')\n"


def test_a_whole_worktree_can_be_made_of_a_checkpoint(repo: Path, tmp_path: Path) -> None:
    link(repo, "new link", "src")
    write(repo, "tool", "#!/bin/sh\n", 0o755)
    found = save()

    git("worktree", "add", "-q", "--detach", str(tmp_path / "copy"), found["ref"])

    assert tree_state(tmp_path / "copy").keys() - {b".git"} == tree_state(repo).keys()
    assert (tmp_path / "copy/tool").stat().st_mode & 0o777 == 0o755


def test_what_was_left_out_stands_in_the_manifest(repo: Path) -> None:
    write(repo, ".env", "SECRET=1\n")
    write(repo, "private", "mine\n", 0o600)
    (repo / "hollow").mkdir()
    manifest = json.loads(git("show", f"{save()['ref']}^2:manifest.json"))

    assert manifest["skipped"] == [{"path": ".env", "reason": "denied"}]
    assert manifest["empty_folders"] == [{"path": "hollow"}]
    assert manifest["modes"]["others"] == [{"mode": "0600", "path": "private"}]


def test_a_checkpoint_of_a_newer_format_is_refused_and_not_guessed_at(
    repo: Path, saved: dict
) -> None:
    newer = forged(saved, lambda message: message.replace("Ckpt-Format: 1", "Ckpt-Format: 2"))

    refused = ckpt("rollback", newer, "--json", code=4).json["error"]

    assert refused["code"] == "refused"
    assert "format 2" in refused["message"]
    assert refused["hint"]
    listed = ckpt("list", "--json", code=0).json["checkpoints"]
    assert [found["id"] for found in listed] == [saved["id"]]


def forged(saved: dict, change) -> str:
    """Another checkpoint's ref, with a message that was tampered with."""
    other = re.sub("....$", "zzzz", saved["id"])
    message = git("log", "-1", "--format=%B", saved["ref"]).replace(saved["id"], other)
    parents = git("rev-parse", f"{saved['ref']}^@").split()
    words = [word for parent in parents for word in ("-p", parent)]
    tree = f"{saved['ref']}^{{tree}}"
    commit = git("commit-tree", tree, *words, stdin=change(message)).strip()
    git("update-ref", f"refs/checkpoints/{other}", commit)
    return other


@pytest.mark.parametrize(
    "change",
    [
        lambda message: "no trailers at all\n",
        lambda message: re.sub("Ckpt-Kind: .*", "Ckpt-Kind: mystery", message),
        lambda message: re.sub("Ckpt-State: .*", f"Ckpt-State: {'0' * 40}", message),
        lambda message: re.sub("Ckpt-Timestamp: .*", "Ckpt-Timestamp: noon", message),
        lambda message: re.sub("Ckpt-Stats: .*", "Ckpt-Stats: many", message),
        lambda message: re.sub("Ckpt-Id: .*", "Ckpt-Id: another", message),
    ],
)
def test_a_commit_that_ckpt_did_not_write_is_explained_and_stands_in_nobodys_way(
    repo: Path, saved: dict, change
) -> None:
    foreign = forged(saved, change)

    assert foreign in ckpt("show", foreign, code=1).stderr
    assert ckpt("rollback", foreign, code=1).stdout == ""
    assert len(ckpt("list", "--json", code=0).json["checkpoints"]) == 1
    assert ckpt("show", "latest", "--json", code=0).json["checkpoint"]["id"] == saved["id"]
    save()


@pytest.mark.parametrize("name", ["mine", "a/folder", "20260101-000000-000-zzzz"])
@pytest.mark.parametrize("thing", ["HEAD", "HEAD^{tree}", "HEAD:README.md"])
def test_foreign_refs_beside_checkpoints_are_passed_over(repo: Path, name: str, thing: str) -> None:
    git("update-ref", f"refs/checkpoints/{name}", git("rev-parse", thing).strip())
    found = save()

    assert [c["id"] for c in ckpt("list", "--json", code=0).json["checkpoints"]] == [found["id"]]
    assert ckpt("show", name).code in (1, 3)
    assert ckpt("show", found["id"], code=0)
