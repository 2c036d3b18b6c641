# SPDX-License-Identifier: MIT
"""The same question to git and to ckpt, and the same answer.

Blanks inside a value are left out: git keeps tabs there since 2.45 and made
spaces of them before.
"""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckpt.errors import CkptError
from ckpt.git.config import GitConfig, parse_bool, parse_file

Listing = list[tuple[bytes, ...]]


class Machine:
    """A home and a repository of git's own making, shut off from this machine's."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.repo = os.path.join(root, "desk/repo")
        self.git_dir = os.path.join(self.repo, ".git")
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "HOME": os.path.join(root, "home"),
            "GIT_CONFIG_SYSTEM": os.path.join(root, "system"),
        }
        os.makedirs(self.env["HOME"])
        self.git("init", "-q", "-b", "main", self.repo, cwd=root)

    def git(self, *arguments: str, cwd: str | None = None) -> bytes:
        command = ["git", *arguments]
        done = subprocess.run(
            command, cwd=cwd or self.repo, env=self.env, capture_output=True, check=True
        )
        return done.stdout

    def write(self, name: str, text: str) -> str:
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def append_local(self, text: str) -> None:
        with open(os.path.join(self.git_dir, "config"), "a") as file:
            file.write(text)

    def of_git(self, cwd: str | None = None) -> Listing:
        return listing(self.git("config", "--list", "-z", "--includes", cwd=cwd))

    def of_ckpt(self, git_dir: str | None = None) -> Listing:
        return [as_listed(entry.key, entry.value) for entry in self.load(git_dir).entries]

    def load(self, git_dir: str | None = None) -> GitConfig:
        git_dir = git_dir or self.git_dir
        return GitConfig.load(self.env, git_dir=git_dir, common_dir=self.git_dir)


@pytest.fixture
def machine(tmp_path):
    return Machine(os.fspath(tmp_path))


def listing(output: bytes) -> Listing:
    return [tuple(item.split(b"\n", 1)) for item in output.split(b"\0")[:-1]]


def as_listed(key: str, value: str | None) -> tuple[bytes, ...]:
    return tuple(os.fsencode(part) for part in (key, value) if part is not None)


def file_of_git(path: str) -> Listing | int:
    """What git reads from one file, or the line it refuses."""
    done = subprocess.run(
        ["git", "config", "--file", path, "--list", "-z"],
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
        capture_output=True,
    )
    if done.returncode == 0:
        return listing(done.stdout)
    line = re.search(rb"bad config line (\d+) in file", done.stderr)
    assert line is not None, done.stderr
    return int(line[1])


def file_of_ckpt(content: bytes) -> Listing | int:
    try:
        return [as_listed(entry.key, entry.value) for entry in parse_file(content, "config")]
    except CkptError as error:
        line: int = error.details["line"]
        return line


def check_file(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
    expected, actual = file_of_git(path), file_of_ckpt(content)
    if isinstance(expected, int) and isinstance(actual, int):
        # Where the file is cut off git counts one line more.
        assert actual in (expected, content.count(b"\n"), content.count(b"\n") + 1)
    else:
        assert actual == expected


@pytest.mark.parametrize(
    "content",
    [
        b"a = b\n",
        b"[]\na = b\n",
        b'[ "x"]\na = b\n',
        b"[x ]\na = b\n",
        b'[a.B "C"]\nK = v\n',
        b"[a]k\n",
        b"[a]\nk = a \\\n   b\n",
        b"[a]\nk = \\\n   b\n",
        b'[a]\nk = "a\n',
        b'[a]\nk = "a\\\nb"\n',
        b"[a]\n1k = 2\n",
        b"[a]\r\nk \r\nl = x\r\n",
        b"[a]\nk\rx = 1\n",
        b'[a]\nk = "x;y" z # c\n',
        b'[a]\nk = "a\\"#b" # c\n',
        b"[a]\nk = \\x\n",
        b"[a]\nk = a\\",
        b"[a]\nk = a ; b\\\nc = d\n",
        b"\xef\xbb\xbf[a]\nk = 1\n",
        b"\xef\xbb[a]\nk = 1\n",
        b'[a "b\\c"]\nk = 1\n',
        b'[a "x\\"#y"]\nk = 1\n',
        b'[a\t"b"]\nk = 1\n',
        b'[a"b"]\nk = 1\n',
        b'[a "b" ]\nk = 1\n',
        b"[a]\n k v\n",
        b"[a",
        b'[a "b',
        b"[a]\n\xe4 = 1\n",
        b"[a]\nk = \xe4\n",
    ],
)
def test_a_file_reads_as_git_reads_it(tmp_path, content):
    check_file(os.fspath(tmp_path / "config"), content)


PIECES = [
    *(b"[", b"]", b"[a]", b'[a "b"]', b"[A.b]", b'"', b"\\", b"\n", b"\n", b"\r\n", b" = ", b"="),
    *(b"#", b";", b" ", b"k", b"key-1", b"1", b"v", b"\\n", b'\\"', b"\\\n", b"x y", b"\xe4", b"."),
]


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join))
def test_any_file_reads_as_git_reads_it(tmp_path, content):
    check_file(os.fspath(tmp_path / "config"), b"[s]\n" + content)


def test_all_sources_stand_in_gits_order(machine):
    machine.write("system", "[a]\nk = system\n")
    machine.write("home/.config/git/config", "[a]\nk = xdg\n")
    machine.write("home/.gitconfig", "[a]\nk = home\n[include]\npath = more\n")
    machine.write("home/more", "[a]\nk = more\n")
    machine.append_local("[extensions]\nworktreeConfig = true\n[a]\nk = local\n")
    machine.write("desk/repo/.git/config.worktree", "[a]\nk = worktree\n")
    machine.env |= {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "A.Sub.K",
        "GIT_CONFIG_VALUE_0": "counted",
        "GIT_CONFIG_PARAMETERS": "'a.k=old' 'a.k'='new' 'a.bare'",
    }

    assert machine.of_ckpt() == machine.of_git()
    assert len(machine.of_ckpt()) > 12


def test_the_files_that_the_environment_moves_are_gits(machine):
    machine.write("system", "[a]\nk = system\n")
    machine.write("home/.config/git/config", "[a]\nk = xdg\n")
    machine.write("home/.gitconfig", "[a]\nk = home\n")
    machine.write("other/git/config", "[a]\nk = other\n")
    other, mine = os.path.join(machine.root, "other"), machine.write("mine", "[a]\nk = mine\n")
    for more in (
        {"GIT_CONFIG_NOSYSTEM": "1"},
        {"GIT_CONFIG_NOSYSTEM": "no", "XDG_CONFIG_HOME": other},
        {"XDG_CONFIG_HOME": ""},
        {"GIT_CONFIG_GLOBAL": mine, "XDG_CONFIG_HOME": other},
        {"GIT_CONFIG_GLOBAL": ""},
        {"GIT_CONFIG_SYSTEM": ""},
    ):
        machine.env |= more

        assert machine.of_ckpt() == machine.of_git()


def test_without_a_home_the_same_files_are_left(machine):
    machine.write("home/.gitconfig", "[a]\nk = home\n")
    machine.write("other/git/config", "[a]\nk = other\n")
    del machine.env["HOME"]
    machine.env["XDG_CONFIG_HOME"] = os.path.join(machine.root, "other")

    assert machine.of_ckpt() == machine.of_git()


def test_a_linked_worktree_has_its_own_config(machine):
    machine.git("-c", "user.name=n", "-c", "user.email=e", "commit", "--allow-empty", "-qm", "x")
    machine.git("worktree", "add", "-q", "../linked")
    machine.git("config", "extensions.worktreeConfig", "true")
    linked = os.path.join(machine.root, "desk/linked")
    machine.git("config", "--worktree", "a.k", "linked's", cwd=linked)
    machine.git("config", "--worktree", "a.k", "main's")
    git_dir = os.path.join(machine.git_dir, "worktrees/linked")

    assert machine.of_ckpt() == machine.of_git()
    assert machine.of_ckpt(git_dir) == machine.of_git(linked)
    assert (b"a.k", b"linked's") in machine.of_ckpt(git_dir)


def test_options_handed_down_by_git_c_are_read(machine):
    options = ['a.b=it\'s a "test"!', "a.Sub.Key=x=y", "a.empty=", "a.lines=1\n2"]
    arguments = [word for option in options for word in ("-c", option)]
    told = ("-c", "alias.told=!printenv GIT_CONFIG_PARAMETERS", "told")
    output = machine.git(*arguments, *told)
    machine.env["GIT_CONFIG_PARAMETERS"] = os.fsdecode(output.removesuffix(b"\n"))

    assert machine.of_ckpt() == machine.of_git()
    assert (b"a.b", b'it\'s a "test"!') in machine.of_ckpt()


CONDITIONS = [
    "gitdir:{root}/desk/",
    "gitdir:{root}/desk",
    "gitdir:{root}/*/repo/.git",
    "gitdir:{root}/*/.git",
    "gitdir:{root}/**/.git",
    "gitdir:{root}/des?/re[a-p]o/.gi[!a-s]",
    "gitdir:{root}/desk/[^q]epo/**",
    "gitdir:{root}/desk/repo/.gi[z-a]",
    "gitdir:{root}/desk**/.git",
    "gitdir:{root}/**/**/re*/**/*t",
    "gitdir:{root}/**/no/**/.git",
    "gitdir:**/desk/**/.git/**",
    "gitdir:**/desk/**/.git/**/*",
    "gitdir:{root}/desk/[[:alpha:]]*o/.git",
    "gitdir:{root}/desk/re\\\\",
    "gitdir:{root}/desk/re\\\\po/",
    "gitdir:repo/",
    "gitdir:epo/",
    "gitdir:~/../desk/",
    "gitdir:~/",
    "gitdir:./",
    "gitdir:",
    "gitdir",
    "gitdir:REPO/",
    "gitdir/i:REPO/",
    "gitdir/i:{root}/WORK/**",
    "nonsense:main",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_holds_when_git_says_so(machine, condition):
    quoted = condition.format(root=machine.root)
    machine.write("home/.gitconfig", f'[includeIf "{quoted}"]\npath = more\n[a]\nk = after\n')
    machine.write("home/more", "[a]\nk = included\n")

    assert machine.of_ckpt() == machine.of_git()


def test_a_condition_beside_its_file_holds_when_git_says_so(machine):
    machine.append_local(
        '[includeIf "gitdir:./"]\npath = no\n[includeIf "gitdir:.git"]\npath = a\n'
    )
    machine.write("desk/more", "[a]\nk = beside\n")
    for pattern in ("gitdir:./repo/", "gitdir:./", "gitdir/i:./REPO/", "gitdir:./r*/**/.git"):
        beside = machine.write("desk/config", f'[includeIf "{pattern}"]\npath = more\n')
        machine.env["GIT_CONFIG_GLOBAL"] = beside

        assert machine.of_ckpt() == machine.of_git()
        assert (b"a.k", b"beside") in machine.of_ckpt()


@pytest.mark.parametrize(
    "text",
    [
        "[include]\npath = config\n",
        "[include]\npath\n",
        "[include]\npath = refs\n",
        "[a\n",
    ],
)
def test_what_stops_git_stops_ckpt(machine, text):
    machine.append_local(text)

    with pytest.raises(subprocess.CalledProcessError):
        machine.git("status")
    with pytest.raises(CkptError):
        machine.load()


@pytest.mark.parametrize(
    "env",
    [
        {"GIT_CONFIG_COUNT": "many"},
        {"GIT_CONFIG_COUNT": "1"},
        {"GIT_CONFIG_PARAMETERS": "'a.b'='c"},
    ],
)
def test_an_environment_that_stops_git_stops_ckpt(machine, env):
    machine.env |= env

    with pytest.raises(subprocess.CalledProcessError):
        machine.git("status")
    with pytest.raises(CkptError):
        machine.load()


VALUES = [
    *("true", "YES", "On", "1", "-1", "010", "+3"),
    *("", "false", "NO", "Off", "0", "00"),
    *("maybe", "t", "1.0", "1kb", "yes ", "-"),
]


@pytest.mark.parametrize("value", VALUES)
def test_a_boolean_means_what_it_means_to_git(machine, value):
    done = subprocess.run(
        ["git", "config", "--type=bool", "--get", "a.k"],
        cwd=machine.repo,
        env=machine.env | {"GIT_CONFIG_PARAMETERS": f"'a.k'='{value}'"},
        capture_output=True,
    )
    expected = {b"true\n": True, b"false\n": False}.get(done.stdout)

    assert parse_bool(value) is expected


@pytest.mark.parametrize("value", ["~/x", "~", "~root/x", "a/~", "/x", "", "./x"])
def test_a_path_expands_as_in_git(machine, value):
    machine.env["GIT_CONFIG_PARAMETERS"] = f"'a.k'='{value}'"
    expected = machine.git("config", "--type=path", "--get", "a.k")

    assert os.fsencode(machine.load().get_path("a.k") or "") + b"\n" == expected


@pytest.mark.parametrize("key", ["Core.Bare", "remote.Origin.URL", "remote.origin.url", "a.bare"])
def test_a_key_is_found_as_git_finds_it(machine, key):
    machine.append_local('[Remote "Origin"]\nurl = x\nurl = y\n[a]\nbare\n')
    done = subprocess.run(
        ["git", "config", "--get-all", key], cwd=machine.repo, env=machine.env, capture_output=True
    )

    assert machine.load().get_all(key) == done.stdout.decode().splitlines()
