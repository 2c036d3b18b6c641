# SPDX-License-Identifier: MIT
"""Git writes an index and we read it; we write one and git reads it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ckpt.git.index import (
    ASSUME_VALID,
    INTENT_TO_ADD,
    SKIP_WORKTREE,
    CorruptIndex,
    Index,
    IndexEntry,
    read_index,
    write_index,
)

NEVER_RACY = 1 << 62  # nanoseconds, a time after that of any file


class Repo:
    """A repository of git's own making, away from the user's settings."""

    def __init__(self, path: Path, object_format: str = "sha1") -> None:
        self.path = path
        self.hash_name = object_format
        self.index_file = path / ".git" / "index"
        self.git("init", "-q", f"--object-format={object_format}", str(path), cwd=path.parent)

    def git(
        self, *words: str, cwd: Path | None = None, stdin: bytes = b"", status: int = 0
    ) -> bytes:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@example.org",
            "LC_ALL": "C",
        }
        ran = subprocess.run(
            ["git", *words], cwd=cwd or self.path, env=env, input=stdin, capture_output=True
        )
        assert ran.returncode == status, ran.stderr.decode()
        return ran.stdout

    def write(self, name: str, content: str) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def read_index(self) -> Index:
        data = self.index_file.read_bytes()
        return read_index(data, self.hash_name)

    def rewrite_index(self, index: Index) -> None:
        self.index_file.write_bytes(write_index(index.entries, hash_name=self.hash_name))

    def listing(self) -> bytes:
        """All that git can tell of every entry; reading only, the index stays as it is."""
        return self.git("ls-files", "--stage", "-v", "--debug", "-z")


FILES = {
    "README": "read me\n",
    "src/a.py": "a\n",
    "src/b.py": "b\n",
    "src/lib/c.py": "c\n",
    "src/lib/d": "d\n",
    "src.txt": "sorted between folder and its name with a slash\n",
    "empty": "",
    "ümlaut/näme with space": "x\n",
}


def make_repo(path: Path, object_format: str = "sha1") -> Repo:
    repo = Repo(path, object_format)
    for name, content in FILES.items():
        repo.write(name, content)
    (path / "src" / "run").write_text("#!/bin/sh\n")
    (path / "src" / "run").chmod(0o755)
    (path / "link").symlink_to("src/a.py")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "first")
    return repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "repo")


def plain(repo: Repo) -> None:
    pass


def intent_to_add(repo: Repo) -> None:
    repo.write("src/new.py", "new\n")
    repo.git("add", "-N", "src/new.py")


def skip_worktree(repo: Repo) -> None:
    repo.git("update-index", "--skip-worktree", "src/a.py")


def assume_unchanged(repo: Repo) -> None:
    repo.git("update-index", "--assume-unchanged", "src/b.py", "README")


def conflict(repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.write("src/a.py", "side\n")
    repo.git("rm", "-q", "README")
    repo.git("commit", "-qam", "side")
    repo.git("checkout", "-q", "-")
    repo.write("src/a.py", "main\n")
    repo.write("README", "changed\n")
    repo.git("commit", "-qam", "main")
    repo.git("merge", "-q", "side", status=1)


def resolved_conflict(repo: Repo) -> None:
    """Leaves the REUC extension behind."""
    conflict(repo)
    repo.git("add", "-A")


def long_path(repo: Repo) -> None:
    """Longer than any file system takes, and than its length field can say."""
    [blob] = repo.git("hash-object", "-w", "--stdin", stdin=b"far down\n").split()
    for end in (b"a", b"b"):
        path = b"/".join([b"d" * 200] * 25) + b"/" + end
        line = b"100644 " + blob + b" 0\t" + path + b"\0"
        repo.git("update-index", "-z", "--index-info", stdin=line)


def gitlink(repo: Repo) -> None:
    head = repo.git("rev-parse", "HEAD").decode().strip()
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub")


def everything(repo: Repo) -> None:
    conflict(repo)
    intent_to_add(repo)
    gitlink(repo)
    long_path(repo)
    repo.git("update-index", "--assume-unchanged", "src/b.py")
    repo.git("update-index", "--skip-worktree", "src/lib/d")


STATES = [
    plain,
    intent_to_add,
    skip_worktree,
    assume_unchanged,
    conflict,
    resolved_conflict,
    long_path,
    gitlink,
    everything,
]


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("state", STATES)
def test_git_sees_no_difference_after_we_rewrote_its_index(repo: Repo, state, version: int) -> None:
    state(repo)
    repo.git("update-index", f"--index-version={version}")
    status, listing = repo.git("status", "--porcelain=v2"), repo.listing()
    index = repo.read_index()

    repo.rewrite_index(index)

    assert repo.listing() == listing
    assert repo.git("status", "--porcelain=v2") == status
    assert repo.git("fsck", "--strict", "--no-dangling") == b""


@pytest.mark.parametrize("version", [2, 4])
def test_a_sha256_repository_is_served_too(tmp_path: Path, version: int) -> None:
    repo = make_repo(tmp_path / "repo", "sha256")
    everything(repo)
    repo.git("update-index", f"--index-version={version}")
    listing = repo.listing()
    index = repo.read_index()

    repo.rewrite_index(index)

    assert repo.listing() == listing
    assert {len(entry.id) for entry in index.entries} == {64}
    assert repo.git("fsck", "--strict", "--no-dangling") == b""


def test_entries_say_what_git_says(repo: Repo) -> None:
    everything(repo)

    lines = [
        b"%06o %s %d\t%s" % (entry.mode, entry.id, entry.stage, entry.path)
        for entry in repo.read_index().entries
    ]

    assert lines == repo.git("ls-files", "--stage", "-z").split(b"\0")[:-1]


def marked(repo: Repo, flag: int) -> list[bytes]:
    return [entry.path for entry in repo.read_index().entries if entry.flags & flag]


def test_flags_are_those_that_were_set(repo: Repo) -> None:
    intent_to_add(repo)
    skip_worktree(repo)
    assume_unchanged(repo)

    assert marked(repo, INTENT_TO_ADD) == [b"src/new.py"]
    assert marked(repo, SKIP_WORKTREE) == [b"src/a.py"]
    assert marked(repo, ASSUME_VALID) == [b"README", b"src/b.py"]


def test_flags_that_we_set_are_seen_by_git(repo: Repo) -> None:
    index = repo.read_index()
    changed = [
        IndexEntry.of(e.path, e.id, e.mode, SKIP_WORKTREE | ASSUME_VALID)
        if e.path == b"src/a.py"
        else e
        for e in index.entries
    ]

    repo.rewrite_index(Index(changed))

    assert b"\0s src/a.py\0" in repo.git("ls-files", "-v", "-z")


def folder_ids(repo: Repo) -> dict[bytes, bytes]:
    ids = {b"": repo.git("rev-parse", "HEAD^{tree}").strip()}
    for line in repo.git("ls-tree", "-d", "-r", "-t", "-z", "HEAD").split(b"\0")[:-1]:
        fields, path = line.split(b"\t", 1)
        ids[path] = fields.split()[2]
    return ids


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_the_cache_tree_names_the_trees_of_head(tmp_path: Path, object_format: str) -> None:
    repo = make_repo(tmp_path / "repo", object_format)
    index = repo.read_index()

    assert index.trees == folder_ids(repo)
    assert index.tree == index.trees[b""]


def test_folders_above_a_change_are_not_in_the_cache_tree(repo: Repo) -> None:
    before = folder_ids(repo)
    repo.write("src/a.py", "changed\n")
    repo.git("add", "src/a.py")

    index = repo.read_index()

    assert index.tree is None
    assert index.trees.keys() == before.keys() - {b"", b"src"}
    assert index.trees[b"src/lib"] == before[b"src/lib"]


def test_an_index_without_a_checksum_is_read(repo: Repo) -> None:
    """index.skipHash is unknown to git before 2.40, which then writes the checksum."""
    expected = repo.read_index().entries
    repo.git("-c", "index.skipHash=true", "update-index", "--force-write-index")

    assert repo.read_index().entries == expected


def test_git_and_we_find_the_same_damage(repo: Repo) -> None:
    data = bytearray(repo.index_file.read_bytes())
    data[20] ^= 1
    repo.index_file.write_bytes(data)

    repo.git("fsck", status=128)
    with pytest.raises(CorruptIndex):
        repo.read_index()


def matching(repo: Repo) -> set[bytes]:
    top, index = os.fsencode(repo.path), repo.read_index()
    index.mtime_ns = NEVER_RACY
    return {
        entry.path
        for entry in index.entries
        if index.is_unmodified(entry, os.lstat(os.path.join(top, entry.path)))
    }


def test_every_file_matches_the_stat_data_that_git_recorded(repo: Repo) -> None:
    index = repo.read_index()

    assert matching(repo) == {entry.path for entry in index.entries}


def test_a_file_that_was_touched_in_any_way_no_longer_matches(repo: Repo) -> None:
    before = matching(repo)
    os.utime(repo.path / "README", ns=(0, 1))
    (repo.path / "src/a.py").chmod(0o755)
    (repo.path / "src/b.py").write_text("other size\n")
    (repo.path / "link").unlink()
    (repo.path / "link").symlink_to("src/b.py")
    (repo.path / "src/lib/c.py").rename(repo.path / "old")
    (repo.path / "src/lib/c.py").write_text("c\n")

    touched = {b"README", b"src/a.py", b"src/b.py", b"link", b"src/lib/c.py"}
    assert matching(repo) == before - touched


def test_an_entry_that_git_smudged_because_it_was_racy_does_not_match(repo: Repo) -> None:
    """The file changes without its stat data; git, about to hide that, empties the size."""
    file = repo.path / "README"
    stamp = 2_000_000_000 * 10**9  # later than any index written now: always racy
    os.utime(file, ns=(stamp, stamp))
    repo.git("add", "README")
    file.write_text("mad ree\n")
    os.utime(file, ns=(stamp, stamp))
    repo.git("config", "core.trustctime", "false")
    repo.git("update-index", "--force-write-index")

    index = repo.read_index()
    index.mtime_ns = NEVER_RACY
    [entry] = [e for e in index.entries if e.path == b"README"]

    assert not any(entry.stat[36:])
    assert not index.is_unmodified(entry, os.lstat(file))
