# SPDX-License-Identifier: MIT
"""Builds the repositories that are measured: the same bytes on every machine, no network.

The shape is that of Django's checkout, which has 7,000 files, 2.2 to a folder: many small
Python packages with tests, templates and, deep down, two files for each of many languages.
Sizes are log-normal, 100 bytes to 60 KB, about 2 KB on average (Django's files are
larger; 100,000 of them would not fit). There are run bits, links, ignored files in a
folder of their own and in between, and a packed history of five commits.

Of each size there are two clones, one for ckpt and one for git's plumbing, so that neither
finds objects or caches of the other. They stay in the bench's folder from run to run.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

from bench.processes import BenchError, CommandFailed, Environment, git_program, run

FORMAT = "3"  # another shape needs another number: what was built before is built again
SIDES = ("ckpt", "git")

_SEED = 20260102
_COMMITS = 5
_SMALLEST, _LARGEST, _MEDIAN, _SPREAD = 100, 60_000, 900, 1.3
_SAMPLE = 4000
_LANGUAGES = [f"{first}{second}" for first in "abcd" for second in "aeiou"]
_IGNORED = """\
# What tools make
__pycache__/
*.py[co]
*.so
*.egg-info/
/build/
/dist/
.coverage
.coverage.*
htmlcov/
.tox/
.cache/
*.log
*.pot
*~
.*.sw[op]
.DS_Store
/docs/_build/
local_settings.py
!/docs/keep.log
node_modules/
"""


@dataclass(frozen=True, slots=True)
class Clone:
    """A worktree with its repository, and the files of it that may be edited."""

    top: Path
    env: Environment
    files: tuple[str, ...]

    @property
    def git_dir(self) -> Path:
        return self.top / ".git"

    def git(self, *words: str) -> str:
        return run([git_program(), *words], self.top, self.env).out

    def edit(self, paths: list[str], mark: str) -> None:
        """A line more at the end of each: the same bytes in every clone."""
        for path in paths:
            with open(self.top / path, "a", encoding="utf-8") as file:
                file.write(f"edited: {mark}\n")

    def some_files(self, number: int, first: int = 0) -> list[str]:
        return [self.files[(first + n) % len(self.files)] for n in range(number)]


@dataclass(frozen=True, slots=True)
class Pair:
    """The same repository twice."""

    ckpt: Clone
    git: Clone

    def edit(self, number: int, turn: int, first: int = 0) -> None:
        for clone in (self.ckpt, self.git):
            clone.edit(clone.some_files(number, first), f"turn {turn}")

    def make_pristine(self) -> None:
        for clone in (self.ckpt, self.git):
            make_pristine(clone)

    def settle(self, pause: float) -> None:
        """Wait until no timestamp is of this second, and let git put that into its index."""
        time.sleep(pause)
        for clone in (self.ckpt, self.git):
            clone.git("status", "--porcelain")


def pair(folder: Path, files: int, env: Environment) -> Pair:
    """Both clones as they were left; built if they are not there."""
    home = folder / f"{files}-files"
    if _format(home) != FORMAT:
        _build(home, files, env)
    sample = tuple((home / "sample").read_text().splitlines())
    return Pair(*(Clone(home / side, env, sample) for side in SIDES))


def make_pristine(clone: Clone) -> None:
    """Take away what a run has left: edits, refs, objects, ckpt's own files."""
    git_dir = clone.git_dir
    for name in ("index.lock", "bench-index"):
        (git_dir / name).unlink(missing_ok=True)
    for name in ("checkpoints", "checkpoints-trash", "bench"):
        if clone.git("for-each-ref", "--count=1", f"refs/{name}"):
            _delete_refs(clone, f"refs/{name}")
        shutil.rmtree(git_dir / "refs" / name, ignore_errors=True)
    shutil.rmtree(git_dir / "ckpt", ignore_errors=True)
    clone.git("reset", "-q", "--hard", "origin/main")
    clone.git("clean", "-q", "-fd")
    _remove_new_objects(clone)


def _delete_refs(clone: Clone, prefix: str) -> None:
    script = clone.git("for-each-ref", "--format=delete %(refname)", prefix)
    done = subprocess.run(
        [git_program(), "update-ref", "--stdin"],
        input=script,
        cwd=clone.top,
        env=dict(clone.env),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise CommandFailed(["git", "update-ref", "--stdin"], done.returncode, done.stderr)


def _remove_new_objects(clone: Clone) -> None:
    """All that was there at first is in packs whose names were noted."""
    known = set((clone.top.parent / f"{clone.top.name}.packs").read_text().split())
    objects = clone.git_dir / "objects"
    for folder in objects.iterdir():
        if len(folder.name) == 2:
            shutil.rmtree(folder)
    for file in (objects / "pack").iterdir():
        if file.name not in known:
            file.unlink()


# Building


def _format(home: Path) -> str:
    try:
        return (home / "format").read_text()
    except FileNotFoundError:
        return ""


def _build(home: Path, files: int, env: Environment) -> None:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    source = home / "source.git"
    run([git_program(), "init", "-q", "--bare", str(source)], home, env)
    _import_history(source, files, env)
    _clone_both(source, env)
    for side in SIDES:
        clone = Clone(home / side, env, ())
        _add_ignored_files(clone.top)
        if clone.git("status", "--porcelain"):
            raise BenchError(f"the new repository in '{home}' is not clean")
        packs = os.listdir(clone.git_dir / "objects/pack")
        (home / f"{side}.packs").write_text("\n".join(packs))
    _note_sample(home, files)
    (home / "format").write_text(FORMAT)


def _clone_both(source: Path, env: Environment) -> None:
    """At the same time, on two cores: most of the time to build goes into this."""
    commands = [[git_program(), "clone", "-q", str(source), side] for side in SIDES]
    clones = [subprocess.Popen(words, cwd=source.parent, env=dict(env)) for words in commands]
    for words, clone in zip(commands, clones, strict=True):
        if clone.wait():
            raise CommandFailed(words, clone.returncode, "")


def _import_history(source: Path, files: int, env: Environment) -> None:
    words = [git_program(), "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet"]
    with subprocess.Popen(words, cwd=source, env=dict(env), stdin=subprocess.PIPE) as importer:
        assert importer.stdin is not None
        for chunk in _history(files):
            importer.stdin.write(chunk)
    if importer.returncode:
        raise CommandFailed(words, importer.returncode, "")


def _history(files: int) -> Iterator[bytes]:
    """What fast-import reads: all files, then a few commits that change one in a hundred."""
    chance = random.Random(_SEED)
    text = _text(chance)
    for number in range(_COMMITS):
        yield _commit(number)
        if number == 0:
            yield _file("100644", ".gitignore", _IGNORED.encode())
        for place, path in enumerate(paths(files)):
            if number == 0 or place % 100 == number:
                yield _entry(place, path, text, chance)


def _commit(number: int) -> bytes:
    head = f"commit refs/heads/main\ncommitter Bench <bench@example.org> {1767322800 + number}"
    return f"{head} +0000\ndata <<END\ncommit {number}\nEND\n".encode()


def _entry(place: int, path: str, text: bytes, chance: random.Random) -> bytes:
    if place % 500 == 499:
        return _file("120000", path, b"../" + os.path.basename(path).encode())
    size = int(chance.lognormvariate(0, _SPREAD) * _MEDIAN)
    start = chance.randrange(len(text) - _LARGEST)
    content = b"# %d %s\n" % (chance.getrandbits(64), path.encode()) + text[start:]
    content = content[: max(_SMALLEST, min(size, _LARGEST)) - 1] + b"\n"
    return _file("100755" if place % 100 == 50 else "100644", path, content)


def _file(mode: str, path: str, content: bytes) -> bytes:
    return b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), path.encode(), len(content), content)


def _text(chance: random.Random) -> bytes:
    """A megabyte of lines that compress about as well as source code does."""
    letters = "etaoinshrdlucmfwypvbgk_"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 11))) for _ in range(3000)]
    lines = []
    for _ in range(24_000):
        indent = "    " * chance.randint(0, 3)
        lines.append(indent + " ".join(chance.choices(words, k=chance.randint(1, 10))))
    return "\n".join(lines).encode()


def paths(files: int) -> Iterator[str]:
    """So many paths, all different; a shorter list is the beginning of a longer one."""
    return islice((path for n in count() for path in _package(n)), files)


def _package(number: int) -> Iterator[str]:
    top = f"src/area{number // 12:02}/app{number:04}"
    yield from (f"{top}/{name}.py" for name in ("__init__", "admin", "apps", "checks", "models"))
    yield from (f"{top}/{name}.py" for name in ("forms", "signals", "urls", "utils", "views"))
    yield from (f"{top}/migrations/{n:04}_change.py" for n in range(6))
    yield from (f"{top}/management/commands/{name}.py" for name in ("__init__", "load", "dump"))
    yield from (f"{top}/templates/app{number:04}/page{n}.html" for n in range(9))
    yield from (f"{top}/static/{kind}/part{n}.{kind}" for kind in ("css", "js") for n in range(6))
    for language in _LANGUAGES:
        yield f"{top}/locale/{language}/LC_MESSAGES/django.mo"
        yield f"{top}/locale/{language}/LC_MESSAGES/django.po"
    for topic in range(14):
        names = ("__init__", "models", "test_forms", "test_views", "urls")
        yield from (f"tests/app{number:04}/topic{topic:02}/{name}.py" for name in names)


def _add_ignored_files(top: Path) -> None:
    for number in range(300):
        folder = top / "build" / f"lib{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"module{number}.o").write_bytes(b"\0object" * 400)
    packages = sorted(path.parent for path in top.glob("src/*/*/__init__.py"))[:50]
    for package in packages:
        (package / "__pycache__").mkdir()
        for name in ("models", "views"):
            (package / "__pycache__" / f"{name}.pyc").write_bytes(b"\0code" * 300)


def _note_sample(home: Path, files: int) -> None:
    """Files to edit, spread over the repository; links are no good for that."""
    regular = [path for place, path in enumerate(paths(files)) if place % 500 != 499]
    chosen = random.Random(_SEED).sample(regular, min(_SAMPLE, len(regular) // 2))
    (home / "sample").write_text("\n".join(chosen))
