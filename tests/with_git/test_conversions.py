# SPDX-License-Identifier: MIT
"""Files that git converts: their bytes come back, and git sees them as it did before."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt_here, fsck, git, status_by_content, tree_state
from seam import observe

LFS = pytest.mark.skipif(not shutil.which("git-lfs"), reason="needs git-lfs: not installed")

Files = dict[str, bytes]

LINES = b"one\ntwo\nthree\n"
CRLF = LINES.replace(b"\n", b"\r\n")
MIXED = b"one\r\ntwo\nthree\r\n"


def utf_16(text: bytes) -> bytes:
    return b"\xff\xfe" + text.decode().encode("utf-16-le")


# What a repository is set up with: configuration, attributes, and contents that suit them.
KINDS: dict[str, tuple[dict[str, str], str, list[bytes]]] = {
    "autocrlf=true": ({"core.autocrlf": "true"}, "", [CRLF, LINES, MIXED]),
    "autocrlf=input": ({"core.autocrlf": "input"}, "", [LINES, CRLF, MIXED]),
    "eol=crlf": ({}, "*.txt eol=crlf", [CRLF, LINES, MIXED]),
    "eol=lf": ({}, "*.txt eol=lf", [LINES, CRLF, MIXED]),
    "text=auto": ({}, "* text=auto", [LINES, CRLF, MIXED]),
    "core.eol": ({"core.eol": "crlf"}, "*.txt text", [CRLF, LINES, MIXED]),
    "ident": ({}, "*.txt ident", [b"$Id$\na\n", b"$Id: 12 $\nb\n", b"$Id: by hand $\nc\n"]),
    "encoding": (
        {},
        "*.txt working-tree-encoding=UTF-16 eol=crlf",
        [utf_16(CRLF), utf_16(LINES), utf_16(MIXED)],
    ),
    "clean and smudge": (
        {"filter.twist.clean": "tr ac ca", "filter.twist.smudge": "tr ac ca"},
        "*.txt filter=twist",
        [b"abc\n", b"cba\n", b""],
    ),
    "required": (
        {
            "filter.twist.clean": "tr a-z b-za",
            "filter.twist.smudge": "tr b-za a-z",
            "filter.twist.required": "true",
        },
        "*.txt filter=twist text",
        [b"abc\n", b"ABC\n", b"xyz\r\nxyz\n"],
    ),
    "lossy": (
        {"filter.twist.clean": "tr -d x", "filter.twist.smudge": "cat"},
        "*.txt filter=twist",
        [b"abc\n", b"axbxcx\n", b"xxx\n"],
    ),
}


def prepare(top: Path, kind: str) -> None:
    """A repository with two commits' worth of converted files, checked out by git."""
    config, attributes, contents = KINDS[kind]
    git("init", "-q", str(top))
    for key, value in {"core.safecrlf": "false", **config}.items():
        git("config", key, value, cwd=top)
    if attributes:
        (top / ".gitattributes").write_text(attributes + "\n")
    (top / "sub").mkdir()
    for number, content in enumerate(contents):
        (top / f"{number}.txt").write_bytes(content)
        (top / f"sub/{number}.txt").write_bytes(content)
    (top / "plain.bin").write_bytes(bytes(range(256)))
    git("add", ".", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)
    for path in top.glob("**/*.txt"):
        path.unlink()
    git("checkout", "-q", ".", cwd=top)


def work(top: Path, kind: str) -> None:
    """Change some files, in ways that git's conversions do not undo; stage a few of them."""
    first, second, third = KINDS[kind][2]
    (top / "1.txt").write_bytes(third)
    (top / "2.txt").write_bytes(first + second if kind != "encoding" else second)
    (top / "sub/0.txt").write_bytes(second)
    (top / "sub/0.txt").chmod(0o755)
    (top / "sub/1.txt").unlink()
    (top / "new.txt").write_bytes(third)
    (top / "staged.txt").write_bytes(second)
    git("add", "staged.txt", "2.txt", cwd=top)
    (top / "staged.txt").write_bytes(first)


def destroy(top: Path) -> None:
    git("reset", "-q", "--hard", cwd=top)
    git("clean", "-qfd", cwd=top)
    for path in [*top.glob("*.txt"), *top.glob("sub/*")]:
        path.unlink()


def raw(top: Path, saved: dict[str, Any]) -> list[str]:
    """What a checkpoint keeps as it was on disk."""
    listed = git("ls-tree", "-r", saved["ref"] + "^2", "raw/", cwd=top).splitlines()
    return [line.partition("\t")[2] for line in listed if line.startswith("100644")]


def blobs(top: Path) -> set[str]:
    form = "--batch-check=%(objecttype) %(objectname)"
    rows = git("cat-file", "--batch-all-objects", form, cwd=top).splitlines()
    return {row.split()[1] for row in rows if row.startswith("blob")}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def top(tmp_path: Path, kind: str) -> Path:
    prepare(tmp_path / "repo", kind)
    return tmp_path / "repo"


def test_bytes_and_status_come_back(top: Path, kind: str) -> None:
    work(top, kind)
    before = tree_state(top), status_by_content(top)
    ckpt_here("save", "-m", "work", cwd=top, code=0)
    assert before == (tree_state(top), status_by_content(top))
    destroy(top)
    ckpt_here("rollback", "latest", "--yes", cwd=top, code=0)

    assert before == (tree_state(top), status_by_content(top))
    assert fsck(top) == []
    ckpt_here("undo", "--yes", cwd=top, code=0)
    assert not (top / "new.txt").exists()
    ckpt_here("undo", "--yes", cwd=top, code=0)
    assert before == (tree_state(top), status_by_content(top))


def test_unchanged_files_are_those_of_the_index(top: Path, kind: str) -> None:
    saved = ckpt_here("save", "--json", cwd=top, code=0).json["checkpoint"]

    assert git("diff", "--stat", saved["ref"], cwd=top) == ""
    assert git("diff", "--stat", "HEAD", saved["ref"], cwd=top) == ""
    assert saved["stats"]["files_changed"] == 0
    assert saved["git_state"]["dirty_files"] == []


def test_what_no_conversion_gives_is_kept_as_it_is(top: Path, kind: str) -> None:
    work(top, kind)
    saved = ckpt_here("save", "--json", cwd=top, code=0).json["checkpoint"]

    cleaned = git("hash-object", "new.txt", cwd=top).strip()
    assert git("rev-parse", f"{saved['ref']}:new.txt", cwd=top).strip() == cleaned
    kept = {path.removeprefix("raw/"): (top / path[4:]).read_bytes() for path in raw(top, saved)}
    for path, content in kept.items():
        blob = git("hash-object", "--no-filters", "--stdin", cwd=top, stdin=os.fsdecode(content))
        state = git("rev-parse", f"{saved['ref']}^2:raw/{path}", cwd=top)
        assert (state, path) == (blob, path)
    assert set(kept) >= ({"new.txt"} if kind != "clean and smudge" else set())


def test_bytes_come_back_after_the_rules_changed(top: Path, kind: str) -> None:
    work(top, kind)
    before = tree_state(top)
    ckpt_here("save", cwd=top, code=0)
    git("config", "core.autocrlf", "false", cwd=top)
    git("config", "core.eol", "lf", cwd=top)
    (top / ".git/info/attributes").write_text(
        "* -text -ident !eol !working-tree-encoding !filter\n"
    )
    destroy(top)
    ckpt_here("rollback", "latest", "--yes", cwd=top, code=0)

    assert before == tree_state(top)


@pytest.mark.parametrize("kind", ["eol=crlf", "clean and smudge"])
@pytest.mark.parametrize("way", ["--continue", "--abort"])
@pytest.mark.parametrize("after", [1, 3, 7])
def test_an_interrupted_rollback_goes_either_way(
    top: Path, kind: str, way: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(top, kind)
    then = tree_state(top), status_by_content(top)
    ckpt_here("save", cwd=top, code=0)
    destroy(top)
    (top / "0.txt").write_bytes(KINDS[kind][2][1])
    os.utime(top / "0.txt", (1, 1))  # so long ago that git goes by what an index says of it
    now = tree_state(top), status_by_content(top)
    left = after

    def fail(operation: str, path: str) -> None:
        nonlocal left
        if operation == "rename" and "/.git/" not in path:
            left -= 1
            if not left:
                raise OSError(5, "no more")

    observe(fail)
    ckpt_here("rollback", "latest", "--yes", cwd=top, code=1)
    observe(None)
    assert tree_state(top) not in (then[0], now[0]) or after == 1
    ckpt_here("rollback", way, cwd=top, code=0)

    assert (tree_state(top), status_by_content(top)) == (then if way == "--continue" else now)
    if way == "--continue":
        ckpt_here("undo", "--yes", cwd=top, code=0)
        assert (tree_state(top), status_by_content(top)) == now


def with_driver(top: Path, **commands: str) -> None:
    """A repository with one committed file that the driver `odd` converts."""
    git("init", "-q", str(top))
    for name, command in commands.items():
        git("config", f"filter.odd.{name}", command, cwd=top)
    (top / ".gitattributes").write_text("*.odd filter=odd\n")
    (top / "a.odd").write_bytes(b"abc\n")
    (top / "plain").write_bytes(b"plain\n")
    git("add", ".", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)


def logged(command: str, log: Path) -> str:
    return f"echo %f >> {shlex.quote(str(log))}; {command}"


def settle() -> None:
    """Let the clock move on, so that a file's stat data prove that it has not changed since."""
    time.sleep(0.2)


def test_a_file_is_filtered_once_and_an_unmodified_one_never(tmp_path: Path) -> None:
    log = tmp_path / "log"
    top = tmp_path / "repo"
    turn = "tr a-z b-za"
    with_driver(top, clean=logged(turn, log), smudge=logged("tr b-za a-z", log))
    settle()
    log.unlink()
    saved = ckpt_here("save", "--json", cwd=top, code=0).json["checkpoint"]
    assert not log.exists()
    assert git("diff", "--stat", "HEAD", saved["ref"], cwd=top) == ""
    (top / "a.odd").write_bytes(b"xyz\n")
    settle()
    for name in ("one", "two"):
        ckpt_here("save", name, cwd=top, code=0)
        assert log.read_text() == "a.odd\n"
    git("add", "a.odd", cwd=top)
    log.unlink()
    ckpt_here("save", cwd=top, code=0)
    assert not log.exists()

    (top / "a.odd").unlink()
    ckpt_here("rollback", "latest", cwd=top, code=0)
    assert (top / "a.odd").read_bytes() == b"xyz\n"


@pytest.mark.parametrize("required", ["true", "false"])
@pytest.mark.parametrize("command", ["exit 1", "no-such-command", "head -c 1; exit 3"])
def test_where_a_driver_fails_the_bytes_are_taken_and_marked(
    tmp_path: Path, command: str, required: str
) -> None:
    with_driver(tmp_path, clean="tr a-z b-za", smudge="tr b-za a-z", required=required)
    git("config", "filter.odd.clean", command, cwd=tmp_path)
    (tmp_path / "b.odd").write_bytes(b"new\n")
    before = tree_state(tmp_path)
    saved = ckpt_here("save", "--json", cwd=tmp_path, code=0).json["checkpoint"]
    (tmp_path / "a.odd").write_bytes(b"lost")
    (tmp_path / "b.odd").unlink()
    ckpt_here("rollback", "latest", "--yes", cwd=tmp_path, code=0)

    assert before == tree_state(tmp_path)
    assert raw(tmp_path, saved) == ["raw/a.odd", "raw/b.odd"]


def test_a_driver_that_hangs_costs_its_time_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckpt.worktree.filters.TIMEOUT", 1.0)
    with_driver(tmp_path, clean="cat", smudge="cat")
    log = tmp_path / ".git/log"
    git("config", "filter.odd.clean", logged("exec sleep 1000", log), cwd=tmp_path)
    for name in "bcdef":
        (tmp_path / f"{name}.odd").write_bytes(b"new\n")
    before = tree_state(tmp_path)
    ckpt_here("save", cwd=tmp_path, code=0)
    assert len(log.read_text().splitlines()) == 1
    for name in "abcdef":
        (tmp_path / f"{name}.odd").unlink()
    ckpt_here("rollback", "latest", "--yes", cwd=tmp_path, code=0)

    assert before == tree_state(tmp_path)


@pytest.mark.parametrize("command", [None, "exit 1", "cat", "exec sleep 1000"])
def test_a_file_comes_back_that_its_driver_does_not_give_any_more(
    tmp_path: Path, command: str | None
) -> None:
    with_driver(tmp_path, clean="tr a-z b-za", smudge="tr b-za a-z")
    before = tree_state(tmp_path)
    ckpt_here("save", cwd=tmp_path, code=0)
    (tmp_path / "a.odd").unlink()
    if command is None:
        git("config", "--remove-section", "filter.odd", cwd=tmp_path)
    else:
        git("config", "filter.odd.smudge", command, cwd=tmp_path)
    ckpt_here("rollback", "latest", "--yes", cwd=tmp_path, code=0)

    assert before == tree_state(tmp_path)


@pytest.mark.parametrize("there", [b"wip\n", None])
def test_an_undo_needs_no_driver_that_is_broken_by_now(tmp_path: Path, there: bytes | None) -> None:
    edited_then_as_committed(tmp_path, there)
    git("config", "filter.odd.smudge", "sh .git/smudge", cwd=tmp_path)
    (tmp_path / ".git/smudge").write_text("tr b-za a-z\n")
    before = tree_state(tmp_path), status_by_content(tmp_path)
    ckpt_here("save", cwd=tmp_path, code=0)
    (tmp_path / ".git/smudge").write_text("exit 1\n")
    stored = blobs(tmp_path)
    ckpt_here("rollback", "edited", "--dry-run", "--yes", cwd=tmp_path, code=0)
    assert blobs(tmp_path) == stored
    done = ckpt_here("rollback", "edited", "--yes", "--json", cwd=tmp_path, code=0).json
    assert raw(tmp_path, done["safety"]) == ["raw/a.odd"]
    assert git("show", f"{done['safety']['ref']}:a.odd", cwd=tmp_path) == "bcd\n"
    ckpt_here("undo", "--yes", cwd=tmp_path, code=0)

    assert before == (tree_state(tmp_path), status_by_content(tmp_path))


def edited_then_as_committed(top: Path, content: bytes | None) -> None:
    """A checkpoint `edited` in which a.odd is something else, or nothing; then HEAD's again."""
    with_driver(top, clean="tr a-z b-za", smudge="tr b-za a-z")
    if content is None:
        (top / "a.odd").unlink()
    else:
        (top / "a.odd").write_bytes(content)
    ckpt_here("save", "edited", cwd=top, code=0)
    git("checkout", "-q", "a.odd", cwd=top)
    settle()


def test_a_driver_with_a_process_only_counts_as_one_that_fails(tmp_path: Path) -> None:
    with_driver(tmp_path)
    git("config", "filter.odd.process", "touch started", cwd=tmp_path)
    (tmp_path / "a.odd").write_bytes(b"edited\n")
    saved = ckpt_here("save", "--json", cwd=tmp_path, code=0).json["checkpoint"]
    (tmp_path / "a.odd").unlink()
    ckpt_here("rollback", "latest", "--yes", cwd=tmp_path, code=0)

    assert (tmp_path / "a.odd").read_bytes() == b"edited\n"
    assert raw(tmp_path, saved) == ["raw/a.odd"]
    assert not (tmp_path / "started").exists()


def test_no_command_is_taken_from_the_worktree(tmp_path: Path) -> None:
    git("init", "-q", str(tmp_path))
    (tmp_path / ".gitattributes").write_text("* filter=odd\n[filter]odd clean=touch\n")
    (tmp_path / ".gitconfig").write_text('[filter "odd"]\n clean = touch made\n')
    ckpt_here("save", cwd=tmp_path, code=0)

    assert not (tmp_path / "made").exists()


@LFS
def test_git_lfs_files_come_back(tmp_path: Path) -> None:
    with_lfs(tmp_path)
    (tmp_path / "b.bin").write_bytes(b"changed" * 1000)
    (tmp_path / "new.bin").write_bytes(b"new" * 1000)
    (tmp_path / "staged.bin").write_bytes(b"staged" * 1000)
    git("add", "staged.bin", cwd=tmp_path)
    before = tree_state(tmp_path), status_by_content(tmp_path)
    saved = ckpt_here("save", "--json", cwd=tmp_path, code=0).json["checkpoint"]
    assert raw(tmp_path, saved) == ["raw/b.bin", "raw/new.bin", "raw/staged.bin"]
    assert git("diff", "--stat", saved["ref"], "--", "a.bin", "staged.bin", cwd=tmp_path) == ""
    git("reset", "-q", "--hard", cwd=tmp_path)
    git("clean", "-qfd", cwd=tmp_path)
    (tmp_path / "a.bin").unlink()
    ckpt_here("rollback", "latest", "--yes", cwd=tmp_path, code=0)

    assert before == (tree_state(tmp_path), status_by_content(tmp_path))


def with_lfs(top: Path, storage: str | None = None) -> None:
    git("init", "-q", str(top))
    if storage is not None:
        git("config", "lfs.storage", storage, cwd=top)
    git("lfs", "install", "--local", cwd=top)
    git("lfs", "track", "*.bin", cwd=top)
    for name in "ab":
        (top / f"{name}.bin").write_bytes(name.encode() * 5000)
    git("add", ".", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)


def test_a_trigger_on_an_unchanged_state_makes_no_second_checkpoint(top: Path, kind: str) -> None:
    work(top, kind)
    first = ckpt_here("save", "--kind", "auto", "--json", cwd=top, code=0).json
    settle()
    second = ckpt_here("save", "--kind", "auto", "--json", cwd=top, code=0).json
    third = ckpt_here("save", "--kind", "auto", "--json", cwd=top, code=0).json

    assert [first["outcome"], second["outcome"], third["outcome"]] == [
        "created",
        *["unchanged"] * 2,
    ]
