# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote

import pytest

from ckpt.errors import CkptError, UsageError
from ckpt.git.config import GitConfig


class Machine:
    """A home, a system file and a repository under one temporary folder."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.git_dir = os.path.join(root, "desk/repo/.git")
        self.home = os.path.join(root, "home")
        self.env = {"HOME": self.home, "GIT_CONFIG_SYSTEM": os.path.join(root, "system")}
        os.makedirs(self.git_dir)
        self.write("desk/repo/.git/HEAD", "ref: refs/heads/main\n")

    def write(self, name: str, text: str) -> str:
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def local(self, text: str) -> str:
        return self.write("desk/repo/.git/config", text)

    def load(self, **more: str) -> GitConfig:
        return GitConfig.load(self.env, **{"git_dir": self.git_dir, **more})

    def protected(self) -> GitConfig:
        return GitConfig.load(self.env)


@pytest.fixture
def machine(tmp_path):
    return Machine(os.fspath(tmp_path))


def test_every_source_is_read_from_the_lowest_to_the_highest(machine):
    machine.write("system", "[a]\nk = system\n")
    machine.write("home/.config/git/config", "[a]\nk = xdg\n")
    machine.write("home/.gitconfig", "[a]\nk = home\n")
    machine.local("[extensions]\nworktreeConfig = true\n[a]\nk = local\n")
    machine.write("desk/repo/.git/config.worktree", "[a]\nk = worktree\n")
    machine.env |= {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "a.k",
        "GIT_CONFIG_VALUE_0": "counted",
        "GIT_CONFIG_PARAMETERS": "'a.k'='command'",
    }
    config = machine.load()

    assert config.get_all("a.k") == [
        "system",
        "xdg",
        "home",
        "local",
        "worktree",
        "counted",
        "command",
    ]
    assert config.get("A.K") == "command"


def test_a_repository_without_any_file_has_no_values(machine):
    config = machine.load()

    assert config.get("core.bare") is None
    assert config.get_all("core.bare") == []
    assert config.get_path("core.bare") is None
    assert config.get_bool("core.bare", True) is True
    assert config.items("core") == []


def test_without_a_git_dir_only_what_the_repository_cannot_write_is_read(machine):
    machine.write("system", "[safe]\ndirectory = /system\n")
    machine.write("home/.gitconfig", "[safe]\ndirectory = /home\n")
    machine.local("[safe]\ndirectory = *\n")
    machine.env["GIT_CONFIG_PARAMETERS"] = "'safe.directory'='/command'"

    assert machine.protected().get_all("safe.directory") == ["/system", "/home", "/command"]


def test_nosystem_wins_over_a_named_system_file(machine):
    machine.write("system", "[a]\nk = 1\n")
    machine.env["GIT_CONFIG_NOSYSTEM"] = "yes"

    assert machine.load().get("a.k") is None


def test_nosystem_that_says_no_leaves_the_system_file(machine):
    machine.write("system", "[a]\nk = 1\n")
    machine.env["GIT_CONFIG_NOSYSTEM"] = "0"

    assert machine.load().get("a.k") == "1"


def test_nosystem_must_be_a_boolean(machine):
    machine.env["GIT_CONFIG_NOSYSTEM"] = "perhaps"

    with pytest.raises(UsageError, match="GIT_CONFIG_NOSYSTEM"):
        machine.load()


def test_a_named_global_file_replaces_both_of_the_home(machine):
    machine.write("home/.config/git/config", "[a]\nk = xdg\n")
    machine.write("home/.gitconfig", "[a]\nk = home\n")
    machine.env["GIT_CONFIG_GLOBAL"] = machine.write("mine", "[a]\nk = mine\n")

    assert machine.load().get_all("a.k") == ["mine"]


def test_xdg_config_home_moves_the_first_global_file(machine):
    machine.write("home/.config/git/config", "[a]\nk = xdg\n")
    machine.write("other/git/config", "[a]\nk = other\n")
    machine.env["XDG_CONFIG_HOME"] = os.path.join(machine.root, "other")

    assert machine.load().get_all("a.k") == ["other"]


def test_without_a_home_the_global_files_are_skipped(machine):
    machine.local("[a]\nk = 1\n")
    del machine.env["HOME"]

    assert machine.load().get_all("a.k") == ["1"]


def test_worktree_config_is_read_only_if_the_extension_is_on(machine):
    machine.local("[extensions]\nworktreeConfig = false\n")
    machine.write("desk/repo/.git/config.worktree", "[a]\nk = 1\n")

    assert machine.load().get("a.k") is None


def test_an_included_file_cannot_turn_worktree_config_on(machine):
    machine.local("[include]\npath = more\n")
    machine.write("desk/repo/.git/more", "[extensions]\nworktreeConfig = true\n")
    machine.write("desk/repo/.git/config.worktree", "[a]\nk = 1\n")

    assert machine.load().get("a.k") is None


def test_a_linked_worktree_reads_the_common_config_and_its_own(machine):
    machine.local("[extensions]\nworktreeConfig = true\n[a]\nk = common\n")
    linked = os.path.join(machine.git_dir, "worktrees/w")
    machine.write("desk/repo/.git/worktrees/w/config.worktree", "[a]\nk = own\n")
    machine.write("desk/repo/.git/config.worktree", "[a]\nk = main's\n")

    config = machine.load(git_dir=linked, common_dir=machine.git_dir)

    assert config.get_all("a.k") == ["common", "own"]


def test_a_bad_line_names_the_file_it_stands_in(machine):
    path = machine.write("home/.gitconfig", "[user\n")

    with pytest.raises(CkptError) as caught:
        machine.load()

    assert caught.value.details == {"file": path, "line": 1}


@contextmanager
def as_nobody() -> Iterator[None]:
    """For root no file is unreadable."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_an_unreadable_global_file_is_skipped(machine):
    os.chmod(machine.write("home/.gitconfig", "[a]\nk = 1\n"), 0)

    with as_nobody():
        assert machine.protected().get("a.k") is None


def test_an_unreadable_local_file_is_an_error(machine):
    machine.env["GIT_CONFIG_NOSYSTEM"] = "1"
    path = machine.local("[a]\nk = 1\n")
    os.chmod(path, 0)

    with as_nobody(), pytest.raises(CkptError, match="unable to access") as caught:
        machine.load()

    assert caught.value.details == {"file": path}
    assert caught.value.hint == f"ls -ld {quote(path)}"


def test_a_folder_in_place_of_a_file_is_an_error(machine):
    os.makedirs(os.path.join(machine.git_dir, "config"))

    with pytest.raises(CkptError, match="unable to access"):
        machine.load()


def test_the_file_of_a_value_is_told(machine):
    home = machine.write("home/.gitconfig", "[ckpt]\ndeny = *.a\nenabled\n[other]\nk = 1\n")
    local = machine.local('[CKPT]\nDeny = *.b\n[ckpt "Auto"]\nKeepLast = 3\n')

    assert machine.load().items("Ckpt") == [
        ("deny", "*.a", home),
        ("enabled", "true", home),
        ("deny", "*.b", local),
        ("Auto.keeplast", "3", local),
    ]


def test_a_subsection_is_found_only_in_its_own_case(machine):
    machine.local('[remote "Origin"]\nurl = x\n')
    config = machine.load()

    assert config.get("REMOTE.Origin.URL") == "x"
    assert config.get("remote.origin.url") is None


def test_a_key_without_a_value_is_true_and_reads_as_empty(machine):
    machine.local("[core]\nbare\n")
    config = machine.load()

    assert config.get_bool("core.bare", False) is True
    assert config.get("core.bare") == ""
    assert config.get_all("core.bare") == [""]


def test_a_value_that_is_no_boolean_names_file_line_key_and_words(machine):
    path = machine.local("[core]\nbare = maybe\n")

    with pytest.raises(UsageError) as caught:
        machine.load().get_bool("core.bare", False)

    assert caught.value.message == (
        f"bad boolean value 'maybe' for 'core.bare' in {path}:2: "
        "expected true, yes, on, 1, false, no, off or 0"
    )
    assert caught.value.hint == "git config --show-origin --get-all core.bare"


def test_a_path_is_expanded_with_the_home_of_the_environment(machine):
    machine.local("[core]\nexcludesFile = ~/ignore\n[a]\nk = %(prefix)/x\n")
    config = machine.load()

    assert config.get_path("core.excludesfile") == os.path.join(machine.home, "ignore")
    assert config.get_path("a.k") == "%(prefix)/x"


def test_a_path_whose_home_is_unknown_is_an_error(machine):
    path = machine.local("[core]\nexcludesFile = ~/ignore\n")
    del machine.env["HOME"]

    with pytest.raises(UsageError, match="failed to expand user dir") as caught:
        machine.load().get_path("core.excludesfile")

    assert path in caught.value.message


def test_a_path_without_a_value_is_an_error(machine):
    machine.local("[core]\nexcludesFile\n")

    with pytest.raises(UsageError, match=r"missing value for 'core\.excludesfile'"):
        machine.load().get_path("core.excludesfile")


def test_an_optional_path_counts_only_if_it_is_there(machine):
    machine.local("[a]\nthere = :(optional)~/ignore\ngone = :(optional)~/gone\n")
    there = machine.write("home/ignore", "")
    config = machine.load()

    assert config.get_path("a.there") == there
    assert config.get_path("a.gone") is None


def test_an_include_is_taken_where_it_stands(machine):
    machine.local("[a]\nk = 1\n[include]\nPath = more\n[a]\nk = 3\n")
    machine.write("desk/repo/.git/more", "[a]\nk = 2\n")

    assert machine.load().get_all("a.k") == ["1", "2", "3"]


def test_a_file_may_be_included_twice(machine):
    machine.local("[include]\npath = more\npath = more\n")
    machine.write("desk/repo/.git/more", "[a]\nk = 1\n")

    assert machine.load().get_all("a.k") == ["1", "1"]


def test_an_include_begins_at_the_file_or_at_a_home_or_at_the_root(machine):
    machine.local(f"[include]\npath = ../x\npath = ~/y\npath = {machine.root}/z\npath = gone\n")
    machine.write("desk/repo/x", "[a]\nk = x\n")
    machine.write("home/y", "[a]\nk = y\n")
    machine.write("z", "[a]\nk = z\n")

    assert machine.load().get_all("a.k") == ["x", "y", "z"]


def test_includes_may_be_ten_deep(machine):
    machine.local("[include]\npath = 1\n")
    for depth in range(1, 11):
        machine.write(
            f"desk/repo/.git/{depth}", f"[a]\nk = {depth}\n[include]\npath = {depth + 1}\n"
        )

    assert machine.load().get("a.k") == "10"


def test_files_that_include_each_other_are_an_error(machine):
    machine.local("[include]\npath = config\n")

    with pytest.raises(CkptError, match=r"exceeded maximum include depth \(10\)"):
        machine.load()


def test_an_include_from_the_command_line_must_be_absolute(machine):
    machine.env["GIT_CONFIG_PARAMETERS"] = "'include.path'='more'"

    with pytest.raises(CkptError, match="relative config includes must come from files"):
        machine.load()


@pytest.mark.parametrize("value", ["path", "path = ~no-such-user/x"])
def test_an_include_that_names_no_path_is_an_error(machine, value):
    machine.local(f"[include]\n{value}\n")

    with pytest.raises(CkptError, match="could not expand include path"):
        machine.load()


def included(machine: Machine, condition: str, **more: str) -> bool:
    machine.write("home/.gitconfig", f'[includeIf "{condition}"]\npath = more\n')
    machine.write("home/more", "[a]\nk = 1\n")
    return machine.load(**more).get("a.k") == "1"


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("gitdir:{root}/desk/", True),
        ("gitdir:{root}/desk", False),
        ("gitdir:{root}/desk/repo/.git", True),
        ("gitdir:{root}/*/repo/.git", True),
        ("gitdir:{root}/*/.git", False),
        ("gitdir:{root}/**/.git", True),
        ("gitdir:{root}/des?/repo/.gi[!a-s]", True),
        ("gitdir:{root}/desk/repo/.gi[z-a]", False),
        ("gitdir:repo/.git", True),
        ("gitdir:repo/", True),
        ("gitdir:epo/", False),
        ("gitdir:~/../desk/", False),
        ("gitdir:./", False),
        ("gitdir:REPO/", False),
        ("gitdir/i:REPO/", True),
        ("onbranch:main", True),
        ("onbranch:ma*", True),
        ("onbranch:ai", False),
        ("onbranch:MAIN", False),
        ("hasconfig:core.bare:**", False),
        ("onbranch:main/", False),
        ("worktree:repo/", False),
        ("nonsense:main", False),
        ("gitdir", False),
    ],
)
def test_a_condition_decides_whether_a_file_is_included(machine, condition, holds):
    assert included(machine, condition.format(root=machine.root)) is holds


def test_a_condition_relative_to_its_file_is_matched_literally(machine):
    machine.write("desk/.conf[a]ig", '[includeIf "gitdir:./repo/"]\npath = more\n')
    machine.write("desk/more", "[a]\nk = 1\n")
    machine.env["GIT_CONFIG_GLOBAL"] = os.path.join(machine.root, "desk/.conf[a]ig")

    assert machine.load().get("a.k") == "1"


def test_a_folder_is_known_by_its_own_name_and_by_that_of_a_symlink(machine):
    link = os.path.join(machine.root, "link")
    os.symlink(os.path.join(machine.root, "desk"), link)

    assert included(machine, f"gitdir:{machine.root}/desk/", git_dir=f"{link}/repo/.git")
    assert included(machine, f"gitdir:{link}/", git_dir=f"{link}/repo/.git")


def test_a_home_that_is_a_symlink_matches_by_its_real_name(machine):
    link = os.path.join(machine.root, "link")
    os.symlink(os.path.join(machine.root, "desk"), link)
    config = machine.write("cfg", '[includeIf "gitdir:~/"]\npath = more\n')
    machine.write("more", "[a]\nk = 1\n")
    machine.env |= {"HOME": link, "GIT_CONFIG_GLOBAL": config}

    assert machine.load().get("a.k") == "1"


def test_the_worktree_condition_needs_a_worktree(machine):
    worktree = os.path.join(machine.root, "desk/repo")

    assert included(machine, "worktree:desk/repo", worktree=worktree)
    assert included(machine, "worktree/i:DESK/", worktree=worktree)
    assert not included(machine, "worktree:other/", worktree=worktree)


def test_no_condition_on_a_repository_holds_without_one(machine):
    machine.write("home/.gitconfig", '[includeIf "gitdir:**"]\npath = more\n')
    machine.write("home/more", "[a]\nk = 1\n")

    assert machine.protected().get("a.k") is None
    assert machine.load().get("a.k") == "1"


@pytest.mark.parametrize(
    ("head", "holds"),
    [
        ("ref: refs/heads/a/b\n", True),
        ("ref:refs/heads/a/b", True),
        ("ref: refs/heads/.invalid\n", False),
        ("ref: refs/remotes/a/b\n", False),
        ("0123456789012345678901234567890123456789\n", False),
    ],
)
def test_the_branch_condition_reads_head(machine, head, holds):
    machine.write("desk/repo/.git/HEAD", head)

    assert included(machine, "onbranch:**") is holds


def test_the_branch_condition_reads_a_head_that_is_a_symlink(machine):
    head = os.path.join(machine.git_dir, "HEAD")
    os.unlink(head)
    os.symlink("refs/heads/a/b", head)

    assert included(machine, "onbranch:a/")


def test_without_head_there_is_no_branch(machine):
    os.unlink(os.path.join(machine.git_dir, "HEAD"))

    assert not included(machine, "onbranch:**")


@pytest.mark.parametrize(
    ("pattern", "holds"),
    [
        ("https://example.com/**", True),
        ("https://*/team/*", True),
        ("https://example.com/", False),
        ("ssh://**", False),
    ],
)
def test_the_remote_condition_sees_remotes_that_come_later(machine, pattern, holds):
    machine.local('[remote "o"]\nurl = https://example.com/team/repo\n')

    assert included(machine, f"hasconfig:remote.*.url:{pattern}") is holds
