# SPDX-License-Identifier: MIT
"""Keeps the tests away from the machine they run on, and the machine away from them.

Every test gets its own home, an environment without anything of the user's git or
ckpt, fixed identity, date, zone and umask. The home is also the current folder, so that
a command given no folder cannot reach the checkout the tests are run from.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import helpers
import pytest
import seam
from byhand import object_store
from figures import pytest_terminal_summary
from hypothesis import HealthCheck, settings
from scenes import example

__all__ = ["pytest_terminal_summary"]

# How long an example takes says how busy the machine is, not whether ckpt works.
settings.register_profile(
    "ckpt",
    settings(),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ckpt")

# A run started in the background ignores Ctrl-C, one under `nohup` the end of its terminal, and so
# would every program it starts.
for usual in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGUSR1):
    if signal.getsignal(usual) is signal.SIG_IGN:
        signal.signal(usual, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where each test does a thing many times over; elsewhere a test is marked by itself.
SLOW_FOLDERS = {"faults", "fuzz", "hostile", "properties"}
# What these try out is the shell, git and other programs, and one Python starts them like another.
SLOW_FILES = {
    *("test_doctor.py", "test_guard.py", "test_guard_rules.py", "test_install.py"),
    *("test_pre_commit.py", "test_status.py", "test_wrapper.py"),
}

# What a user may have set that git, ckpt, Python or pre-commit would follow.
FOREIGN = ("GIT_", "CKPT_", "XDG_", "PYTHON", "PRE_COMMIT", "SUDO_", "LC_", "LESS")
FOREIGN_NAMES = {
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "EDITOR",
    "EMAIL",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "NO_COLOR",
    "PAGER",
    "SSH_ASKPASS",
    "VISUAL",
}

OURS = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "Ann Author",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05+00:00",
    "GIT_COMMITTER_NAME": "Ann Author",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05+00:00",
    "COLUMNS": "80",
    "LC_ALL": "C.UTF-8",
    "TERM": "dumb",
    "TZ": "UTC",
}

# No maintenance behind a test's back; a template without the machine's own hooks.
GIT_CONFIG = """\
[init]
    defaultBranch = main
    templateDir = {template}
[gc]
    auto = 0
[maintenance]
    auto = false
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(tests).parts[0]
        if folder in SLOW_FOLDERS or (folder == "with_git" and item.path.name in SLOW_FILES):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `git init` copies: the folders that repositories have, and nothing in them."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "hooks").mkdir()
    (folder / "info").mkdir()
    return folder


@pytest.fixture(scope="session")
def new_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes folders of whatever name with a number behind it.

    pytest looks through all that there are for the next number: after thousands of tests that
    takes longer than most of them.
    """
    top, numbers = tmp_path_factory.mktemp("folders"), count()

    def make(name: str) -> Path:
        folder = top / f"{name}{next(numbers)}"
        folder.mkdir(0o700)
        return folder

    return make


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, new_folder: Callable[[str], Path]) -> Path:
    """A folder of the test's own, in place of pytest's."""
    return new_folder(re.sub(r"\W", "_", request.node.name)[:30])


@pytest.fixture(autouse=True)
def isolated(
    template: Path, new_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The test's own home folder."""
    home = new_folder("home")
    (home / ".gitconfig").write_text(GIT_CONFIG.format(template=template))
    for name in list(os.environ):
        if name.startswith(FOREIGN) or name in FOREIGN_NAMES:
            monkeypatch.delenv(name)
    for name, value in {**OURS, **_folders(home)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home)
    time.tzset()
    umask = os.umask(0o022)
    yield home
    seam.observe(None)
    os.umask(umask)
    monkeypatch.undo()
    time.tzset()


def _folders(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_STATE_HOME": str(home / ".local/state"),
        "XDG_RUNTIME_DIR": str(home / ".run"),
    }


@pytest.fixture
def git() -> Callable[..., str]:
    return helpers.git


@pytest.fixture
def ckpt() -> Callable[..., helpers.Ran]:
    return helpers.ckpt


@pytest.fixture(scope="session")
def once(new_folder: Callable[[str], Path]) -> Callable[[Callable[[Path], object]], Path]:
    """Repositories, each made by a function when a test first asks for it. They are for
    `helpers.copy_repository`, as a copy takes less time than the git commands that make one."""
    made: dict[Callable[[Path], object], Path] = {}

    def get(make: Callable[[Path], object]) -> Path:
        if make not in made:
            top = new_folder("once") / "repo"
            top.mkdir()
            make(top)
            made[make] = top
        return made[make]

    return get


@pytest.fixture
def repo(
    tmp_path: Path,
    once: Callable[[Callable[[Path], object]], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A repository on branch main with one commit and nothing changed; the current folder."""
    top = helpers.copy_repository(once(example), tmp_path / "repo")
    monkeypatch.chdir(top)
    return top


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    """Objects in a folder of their own, without a repository around them."""
    opened = object_store(tmp_path / "objects")
    yield opened
    opened.close()
