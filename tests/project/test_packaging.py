# SPDX-License-Identifier: MIT
"""What a user installs: the wheel, the sdist and the editable checkout, each tried out.

Nothing is downloaded. The packages that ckpt needs come from the environment the
tests run in, through a .pth file.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import ckpt
from ckpt.install import record
from ckpt.install.record import asset

TOP = Path(__file__).resolve().parents[2]
SHIPPED = ["hooks/guard", "templates/ckpt.toml", "man/git-ckpt.1"]
ASSET = "from ckpt.install.record import asset; import sys; print(asset(sys.argv[1]))"


def run(*words: str | Path, cwd: Path | None = None) -> str:
    ran = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def copy_of_the_checkout(target: Path) -> Path:
    """Without what a build must not depend on: git's data, environments, caches."""
    ignore = shutil.ignore_patterns(
        ".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "build", "dist", "_assets"
    )
    return Path(shutil.copytree(TOP, target, ignore=ignore, symlinks=True))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was made from it."""
    source = copy_of_the_checkout(tmp_path_factory.mktemp("source") / "git-ckpt")
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source)
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [path] = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def sdist(built: Path) -> Path:
    [path] = built.glob("*.tar.gz")
    return path


class Environment:
    """A virtual environment of its own, with our dependencies but not our ckpt."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.folder = folder
        self.python = folder / "bin/python"
        site = run(self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
        Path(site.strip(), "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def install(self, *words: str | Path) -> None:
        options = ["--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed", "-q"]
        run(sys.executable, "-m", "pip", "--python", self.python, "install", *options, *words)

    def check(self, package: Path) -> None:
        """The program runs, from where it should, and finds its files."""
        version = ckpt.__version__
        assert version in run(self.folder / "bin/git-ckpt", "--version").split()
        assert "rollback" in run(self.folder / "bin/git-ckpt", "-h")
        assert "rollback" in run(self.folder / "bin/ckpt", "-h")
        assert version in run(self.python, "-I", "-m", "ckpt", "--version").split()
        assert "NAME" in run(self.folder / "bin/git-ckpt", "help")
        origin = run(self.python, "-I", "-c", "import ckpt; print(ckpt.__file__)").strip()
        assert Path(origin).parent.resolve() == package.resolve()
        for name in SHIPPED:
            found = Path(run(self.python, "-I", "-c", ASSET, name).strip())
            assert found.read_bytes() == (TOP / name).read_bytes()
            assert found.stat().st_mode & 0o777 == (TOP / name).stat().st_mode & 0o777


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv")


def site_packages(environment: Environment) -> Path:
    [path] = environment.folder.glob("lib/python*/site-packages")
    return path


@pytest.mark.parametrize("name", SHIPPED)
def test_a_checkout_finds_its_files(name: str) -> None:
    assert asset(name) == TOP / name


def test_an_installed_package_does_not_take_files_from_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """site-packages may well hold a folder named `hooks`."""
    (tmp_path / "ckpt/_assets").mkdir(parents=True)
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks/guard").write_text("not ours")
    monkeypatch.setattr(record, "_PACKAGE", tmp_path / "ckpt")

    assert not asset("hooks/guard").exists()


def test_every_hook_can_be_run() -> None:
    for path in (TOP / "hooks").iterdir():
        if path.suffix:  # a shell reads it
            continue
        assert path.stat().st_mode & 0o111 == 0o111, path
        assert path.read_bytes().startswith(b"#!/bin/sh\n"), path
        run("sh", "-n", path)


@pytest.mark.slow
def test_the_wheel_holds_the_package_its_files_and_the_man_page(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    version = ckpt.__version__

    for name in SHIPPED:
        assert f"ckpt/_assets/{name}" in modes
    assert f"git_ckpt-{version}.data/data/share/man/man1/git-ckpt.1" in modes
    assert stat.S_IMODE(modes["ckpt/_assets/hooks/guard"]) & 0o111 == 0o111
    assert "ckpt/py.typed" in modes
    sources = {str(path.relative_to(TOP)) for path in (TOP / "ckpt").rglob("*.py")}
    assert sources == {name for name in modes if name.endswith(".py")}
    assert {name.split("/")[0].split("-")[0] for name in modes} == {"ckpt", "git_ckpt"}


@pytest.mark.slow
def test_the_wheel_asks_for_two_packages_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("dist-info/METADATA")]
        headers = archive.read(name).decode().split("\n\n")[0]
    required = re.findall(r"^Requires-Dist: (?!.*extra ==)([\w-]+)", headers, re.MULTILINE)

    assert sorted(required) == ["dulwich", "tomli"]
    assert "Requires-Dist: tomli>=2.0; python_version < '3.11'" in headers


@pytest.mark.slow
def test_the_sdist_can_run_the_tests_and_the_demo(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        modes = {member.name.partition("/")[2]: member.mode for member in archive}

    for name in [*SHIPPED, "Makefile", "README.md", "LICENSE", "CHANGELOG.md", "demo/demo.sh"]:
        assert name in modes
    for name in ["tests/conftest.py", "pyproject.toml", ".pre-commit-config.yaml"]:
        assert name in modes
    for name in ["hooks/guard", ".ci/run", ".ci/pythons", ".ci/other-pythons"]:
        assert modes[name] & 0o111 == 0o111
    assert not [name for name in modes if "__pycache__" in name or name.startswith(".venv")]


@pytest.mark.slow
def test_an_installed_wheel_works(wheel: Path, environment: Environment) -> None:
    environment.install(wheel)

    environment.check(site_packages(environment) / "ckpt")
    page = environment.folder / "share/man/man1/git-ckpt.1"
    assert page.read_bytes() == (TOP / "man/git-ckpt.1").read_bytes()


@pytest.mark.slow
def test_git_finds_the_installed_command(wheel: Path, environment: Environment) -> None:
    environment.install(wheel)
    path = f"{environment.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"

    assert "rollback" in run("env", f"PATH={path}", "git", "ckpt", "-h")


@pytest.mark.slow
def test_an_installed_sdist_works(sdist: Path, environment: Environment) -> None:
    environment.install(sdist)

    environment.check(site_packages(environment) / "ckpt")


@pytest.mark.slow
def test_an_editable_install_works(environment: Environment, tmp_path: Path) -> None:
    checkout = copy_of_the_checkout(tmp_path / "checkout")
    environment.install("--editable", checkout)

    environment.check(checkout / "ckpt")
    assert not (checkout / "ckpt/_assets").exists()
