# SPDX-License-Identifier: MIT
"""The repository that git would use is found, and what cannot be served is refused."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

import pytest
from byhand import git_dir, worktree
from byhand import open_repository as opened

from ckpt.errors import CkptError, Refused
from ckpt.git.repository import NotARepository, TooBroad


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (worktree(tmp_path / "repo") / "src/deep").mkdir(parents=True)
    return tmp_path / "repo"


def link(main: Path, path: Path, name: str = "other") -> Path:
    """A linked worktree of the repository at `main`, as `git worktree add` makes it."""
    own = main / "worktrees" / name
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/topic\n")
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text(f"{path}/.git\n")
    path.mkdir()
    (path / ".git").write_text(f"gitdir: {own}\n")
    return path


# Finding


@pytest.mark.parametrize("start", ["", "src", "src/deep"])
def test_a_repository_is_found_from_any_folder_below(start: str, top: Path) -> None:
    found = opened(top / start)

    assert found.worktree == str(top)
    assert found.git_dir == found.common_dir == str(top / ".git")
    assert found.index_path == str(top / ".git/index")
    assert found.private_dir == str(top / ".git/ckpt")
    assert found.worktree_id == "main"


def test_the_worktree_is_named_without_links(top: Path) -> None:
    (top.parent / "link").symlink_to("repo/src")

    assert opened(top.parent / "link").worktree == str(top)


def test_the_innermost_repository_counts(top: Path) -> None:
    worktree(top / "src/inner")

    assert opened(top / "src/inner").worktree == str(top / "src/inner")


def test_outside_a_repository_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(NotARepository) as caught:
        opened(tmp_path)

    assert "git init" in (caught.value.hint or "")


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CkptError, match="no such directory"):
        opened(tmp_path / "absent")


@pytest.mark.parametrize("missing", ["HEAD", "objects", "refs"])
def test_a_folder_called_dot_git_is_not_enough(missing: str, top: Path) -> None:
    os.rename(top / ".git" / missing, top / ".git/away")

    with pytest.raises(NotARepository):
        opened(top)


def test_the_search_stops_at_a_ceiling(top: Path) -> None:
    with pytest.raises(NotARepository):
        opened(top / "src/deep", GIT_CEILING_DIRECTORIES=str(top))
    with pytest.raises(NotARepository):
        opened(top / "src/deep", GIT_CEILING_DIRECTORIES=f"/nowhere:{top}")

    assert opened(top, GIT_CEILING_DIRECTORIES=str(top)).worktree == str(top)
    assert opened(top / "src", GIT_CEILING_DIRECTORIES=str(top.parent)).worktree == str(top)


def test_a_gitfile_leads_to_the_git_dir(tmp_path: Path) -> None:
    git_dir(tmp_path / "elsewhere")
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/.git").write_text("gitdir: ../elsewhere\n")
    found = opened(tmp_path / "repo")

    assert (found.git_dir, found.worktree) == (str(tmp_path / "elsewhere"), str(tmp_path / "repo"))
    assert found.worktree_id == "main"


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "invalid gitfile format"),
        (b"elsewhere\n", "invalid gitfile format"),
        (b"gitdir:elsewhere\n", "invalid gitfile format"),
        (b"gitdir: absent\n", "not a git repository"),
        (b"gitdir: \n", "invalid gitfile format"),
        (b"gitdir: a\0b\n", "not a git repository"),
    ],
)
def test_a_broken_gitfile_is_an_error(contents: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / ".git").write_bytes(contents)

    with pytest.raises(CkptError, match=message):
        opened(tmp_path)


def test_a_link_to_a_git_dir_is_followed(tmp_path: Path) -> None:
    git_dir(tmp_path / "elsewhere")
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/.git").symlink_to("../elsewhere")

    assert opened(tmp_path / "repo").git_dir == str(tmp_path / "elsewhere")


# Linked worktrees


def test_a_linked_worktree_shares_all_but_head_and_index(top: Path, tmp_path: Path) -> None:
    found = opened(link(top / ".git", tmp_path / "linked"))

    assert found.git_dir == str(top / ".git/worktrees/other")
    assert found.common_dir == str(top / ".git")
    assert found.worktree == str(tmp_path / "linked")
    assert found.worktree_id == "worktrees/other"
    assert found.index_path == str(top / ".git/worktrees/other/index")
    assert found.private_dir == str(top / ".git/worktrees/other/ckpt")
    assert found.objects.path == str(top / ".git/objects")


def test_a_linked_worktree_of_a_bare_repository_is_no_bare_one(tmp_path: Path) -> None:
    bare = git_dir(tmp_path / "bare.git", config="\tbare = true\n")

    assert opened(link(bare, tmp_path / "linked")).worktree == str(tmp_path / "linked")


def test_a_linked_worktree_is_not_where_the_main_one_is_configured_to_be(tmp_path: Path) -> None:
    """A submodule's git dir has core.worktree, and may have linked worktrees too."""
    main = git_dir(tmp_path / "module", config="\tworktree = ../sub\n")

    assert opened(link(main, tmp_path / "linked")).worktree == str(tmp_path / "linked")


# The environment


def test_git_dir_names_the_repository_and_the_folder_is_its_worktree(
    top: Path, tmp_path: Path
) -> None:
    (tmp_path / "files").mkdir()
    found = opened(tmp_path / "files", GIT_DIR=str(top / ".git"))

    assert (found.git_dir, found.worktree) == (str(top / ".git"), str(tmp_path / "files"))


def test_git_dir_is_relative_to_the_folder(top: Path) -> None:
    assert opened(top, GIT_DIR=".git").worktree == str(top)
    with pytest.raises(CkptError, match=r"not a git repository: '\.git'"):
        opened(top / "src", GIT_DIR=".git")


def test_git_dir_may_name_a_gitfile(top: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(f"gitdir: {top}/.git\n")

    assert opened(top, GIT_DIR=str(tmp_path / "file")).git_dir == str(top / ".git")


def test_an_empty_git_dir_makes_no_worktree_of_a_git_dir(top: Path) -> None:
    with pytest.raises(Refused, match="must be run in a work tree"):
        opened(top / ".git", GIT_DIR="")


@pytest.mark.parametrize(
    "named",
    [
        {"GIT_DIR": "."},
        {"GIT_DIR": ".", "GIT_WORK_TREE": "."},
        {"GIT_DIR": ".", "GIT_WORK_TREE": "refs"},
        {"GIT_DIR": ".", "GIT_WORK_TREE": "objects/pack"},
    ],
    ids=str,
)
def test_nothing_of_a_git_dir_is_a_worktree(named: dict[str, str], top: Path) -> None:
    """Git runs some hooks in its own folder, and names it."""
    (top / ".git/objects/pack").mkdir(exist_ok=True)

    with pytest.raises(Refused, match="must be run in a work tree") as refusal:
        opened(top / ".git", **named)
    assert "unset GIT_DIR" in refusal.value.hint


def test_nor_is_it_by_configuration(top: Path) -> None:
    with open(top / ".git/config", "a") as config:
        config.write("[core]\n\tworktree = hooks\n")
    (top / ".git/hooks").mkdir(exist_ok=True)

    with pytest.raises(Refused, match="must be run in a work tree"):
        opened(top)


def test_git_work_tree_names_the_worktree(top: Path, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    found = opened(top / "src", GIT_DIR=str(top / ".git"), GIT_WORK_TREE="../../files")

    assert found.worktree == str(tmp_path / "files")


def test_a_work_tree_that_is_not_there_is_an_error(top: Path, tmp_path: Path) -> None:
    with pytest.raises(CkptError, match="does not exist"):
        opened(top, GIT_DIR=str(top / ".git"), GIT_WORK_TREE=str(tmp_path / "absent"))


@pytest.mark.parametrize("name", [".git/index.lock", ".git/next-index-7.lock", ".git/mine", "mine"])
def test_an_index_that_is_lent_is_not_the_users(top: Path, name: str) -> None:
    assert opened(top, GIT_INDEX_FILE=name).index_path == str(top / ".git/index")


# Refusals


def test_a_bare_repository_has_no_working_state(tmp_path: Path) -> None:
    bare = git_dir(tmp_path / "bare.git", config="\tbare = true\n")

    with pytest.raises(Refused, match="must be run in a work tree"):
        opened(bare)
    with pytest.raises(Refused, match="must be run in a work tree"):
        opened(tmp_path, GIT_DIR=str(bare))

    (tmp_path / "files").mkdir()
    found = opened(tmp_path, GIT_DIR=str(bare), GIT_WORK_TREE="files")
    assert found.worktree == str(tmp_path / "files")


@pytest.mark.parametrize("inside", ["", "refs", "objects/pack"])
def test_the_inside_of_a_git_dir_is_no_worktree(inside: str, top: Path) -> None:
    with pytest.raises(Refused, match="must be run in a work tree"):
        opened(top / ".git" / inside)


def test_core_worktree_is_relative_to_the_git_dir(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    worktree(tmp_path / "repo", config="\tworktree = ../../files\n")

    assert opened(tmp_path / "repo").worktree == str(tmp_path / "files")


@pytest.mark.parametrize("place", ["home", "above", "root"])
def test_a_worktree_that_holds_the_home_folder_is_refused(place: str, tmp_path: Path) -> None:
    top = worktree(tmp_path / "repo")
    env = {"home": str(top), "above": str(top / "home/me"), "root": ""}

    with pytest.raises(TooBroad, match="refusing to take checkpoints"):
        if place == "root":
            opened(top, GIT_DIR=str(top / ".git"), GIT_WORK_TREE="/")
        else:
            opened(top, HOME=env[place])


def test_a_worktree_beside_or_below_the_home_folder_is_served(tmp_path: Path) -> None:
    top = worktree(tmp_path / "repo")

    assert opened(top, HOME=str(tmp_path)).worktree == str(top)
    assert opened(top, HOME=str(tmp_path / "repository")).worktree == str(top)
    assert opened(top, HOME="").worktree == str(top)


class TestOwnership:
    """Another user's repository can make git run commands: its config is not believed."""

    @pytest.fixture(autouse=True)
    def _somebody_else(self, monkeypatch: pytest.MonkeyPatch) -> None:
        theirs = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: theirs + 1)

    @staticmethod
    def declare(home: Path, *values: str) -> None:
        lines = "".join(f"\tdirectory = {value}\n" for value in values)
        (home / ".gitconfig").write_text("[safe]\n" + lines)

    def test_the_repository_of_another_user_is_refused(self, top: Path) -> None:
        with pytest.raises(Refused, match="detected dubious ownership") as caught:
            opened(top / "src")

        assert caught.value.hint == f"git config --global --add safe.directory {quote(str(top))}"

    def test_it_is_refused_before_its_configuration_is_read(self, top: Path) -> None:
        (top / ".git/config").write_text("[broken")

        with pytest.raises(Refused, match="detected dubious ownership"):
            opened(top)

    def test_it_cannot_declare_itself_safe(self, top: Path) -> None:
        with open(top / ".git/config", "a") as file:
            file.write("[safe]\n\tdirectory = *\n")

        with pytest.raises(Refused, match="detected dubious ownership"):
            opened(top)

    def test_the_user_can_declare_it_safe(self, top: Path, isolated: Path) -> None:
        for values in ([str(top)], [f"{top}/"], ["*"], [f"{top.parent}/*"], ["/x", str(top)]):
            self.declare(isolated, *values)
            assert opened(top).worktree == str(top)

    def test_an_empty_value_takes_earlier_ones_back(self, top: Path, isolated: Path) -> None:
        for values in (["*", '""'], [str(top), '""', "/elsewhere"]):
            self.declare(isolated, *values)
            with pytest.raises(Refused):
                opened(top)

    @pytest.mark.parametrize("value", ["/elsewhere", "{top}/src", "{top}x", "{top}/*"])
    def test_another_folder_is_not_meant(self, value: str, top: Path, isolated: Path) -> None:
        self.declare(isolated, value.format(top=top))

        with pytest.raises(Refused):
            opened(top)

    def test_the_home_folder_may_be_written_as_a_tilde(self, isolated: Path) -> None:
        top = worktree(isolated / "project")
        self.declare(isolated, "~/project")

        assert opened(top).worktree == str(top)

    def test_a_repository_that_is_named_is_trusted(self, top: Path) -> None:
        assert opened(top, GIT_DIR=str(top / ".git")).worktree == str(top)


def test_under_sudo_the_repository_of_the_caller_is_trusted(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path, **options: _of(4711, real(path, **options)))
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    with pytest.raises(Refused):
        opened(top)
    assert opened(top, SUDO_UID="4711").worktree == str(top)

    monkeypatch.setattr(os, "geteuid", lambda: 1)
    with pytest.raises(Refused):
        opened(top, SUDO_UID="4711")


def _of(user: int, status: os.stat_result) -> os.stat_result:
    return os.stat_result([*status[:4], user, *status[5:]])


# Formats


def with_config(path: Path, version: str, extension: str = "") -> Path:
    top = worktree(path)
    (top / ".git/config").write_text(
        f"[core]\n\trepositoryformatversion = {version}\n[extensions]\n{extension}\n"
    )
    return top


@pytest.mark.parametrize("version", ["2", "99", "x"])
def test_a_newer_version_of_the_format_is_refused(version: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=f"found {version}"):
        opened(with_config(tmp_path / "repo", version))


def test_an_unknown_extension_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="unknown repository extension found: 'newthing'"):
        opened(with_config(tmp_path / "repo", "1", "\tnewThing = true"))


def test_unknown_extensions_mean_nothing_in_version_0(tmp_path: Path) -> None:
    assert opened(with_config(tmp_path / "repo", "0", "\tnewThing = true"))


@pytest.mark.parametrize(
    "extension",
    [
        "noop = 1",
        "preciousObjects = true",
        "partialClone = origin",
        "worktreeConfig = true",
        "relativeWorktrees = true",
        "refStorage = files",
        "objectFormat = sha1",
    ],
)
def test_known_extensions_are_served(extension: str, tmp_path: Path) -> None:
    assert opened(with_config(tmp_path / "repo", "1", "\t" + extension))


def test_refs_in_another_place_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="unknown ref storage format 'files:///elsewhere'"):
        opened(with_config(tmp_path / "repo", "1", "\trefStorage = files:///elsewhere"))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ('[remote "o"]\n\tpromisor = true\n', True),
        ('[remote "o"]\n\tpromisor = true\n\tpromisor = false\n', False),
        ('[remote "o"]\n\turl = x\n', False),
    ],
)
def test_a_partial_clone_is_known_by_its_promisor(config: str, expected: bool, top: Path) -> None:
    with (top / ".git/config").open("a") as file:
        file.write(config)

    assert opened(top).format.is_partial is expected


@pytest.mark.parametrize(
    "name",
    ["GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"],
)
def test_no_ref_is_made_to_objects_that_a_tool_keeps_apart(
    top: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(Refused, match=r"quarantine|objects are not kept") as refused:
        opened(top, **{name: str(tmp_path)})

    assert refused.value.hint is not None and "unset" in refused.value.hint


def test_sha256_is_known_and_other_hashes_are_refused(tmp_path: Path) -> None:
    found = opened(with_config(tmp_path / "new", "1", "\tobjectFormat = sha256"))
    assert found.object_format.hex_length == 64
    assert opened(worktree(tmp_path / "old")).object_format.hex_length == 40

    with pytest.raises(Refused, match="unknown object format 'sha3'"):
        opened(with_config(tmp_path / "repo", "1", "\tobjectFormat = sha3"))


def test_a_common_dir_that_no_folder_can_be_is_an_error(top: Path) -> None:
    (top / ".git/commondir").write_bytes(b"a\0b\n")

    with pytest.raises(CkptError, match="invalid commondir"):
        opened(top)
