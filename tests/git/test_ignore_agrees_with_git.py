# SPDX-License-Identifier: MIT
"""ckpt.git.rules against git itself, over tables of patterns and paths.

Most tests give each set of patterns a folder of its own with a .gitignore, so that one git
process answers for hundreds of sets. `git check-ignore` takes a path that does not exist for
a file and its parents for folders, so little else need be created.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ckpt.git.rules import IgnoreStack, IgnoreTree, Rules

# What nobody writes: a bracket or backslash with a slash in it. Ours may differ there.
_ODD = re.compile(rb"\[[^\]\n]*[/:]|\\/")
# Only plain text and globs are read without case as git does it.
_WITH_CASE = re.compile(rb"[\[\\]")

PIECES = [
    *(b"a", b"b", b"A", b"Z", b".", b"-", b"^", b"#", b"!", b" ", b"\\", b"/", b"]", b"[", b":"),
    *(b"*", b"**", b"***", b"?", b"*.", b"**/", b"/**", b"/**/", b"\\*", b"\\ ", b"\\A"),
    *(b"[ab]", b"[!a]", b"[^a]", b"[a-b]", b"[A-Z]", b"[Aa]", b"[]a]", b"[\\]]", b"[a-", b"[]-a]"),
    *(b"[[:alpha:]]", b"[[:upper:]]", b"[![:punct:]]", b"[[:none:]]", b"[:", b":]", b"[[:]"),
    *(b"\r", b"\t", b"\v", b"\xc3\xa9", b"\xff"),
]
NAMES = [
    *(b"a", b"b", b"ab", b"ba", b"aab", b"abab", b"A", b"aB", b"Z", b"a.b", b".a", b"a-b", b"-"),
    *(b"^", b"#", b"#a", b"!", b"!a", b" ", b" a", b"a ", b"a  ", b"*", b"a*", b"**", b"?", b":"),
    *(b"[", b"]", b"[a]", b"a]", b"a[b", b"\\", b"a\\", b"a\\b", b"\r", b"a\r", b"a\t", b"a\nb"),
    *(b"\xc3\xa9", b"\xc3", b"\xff", b"\x0b"),
]

BROAD = [
    b"a",
    b"b",
    b"ab",
    b"*b",
    b"a*",
    b"*.b",
    b"a?",
    b"?a",
    b"/a",
    b"/*",
    b"a/b",
    b"a/*",
    b"b/**",
]


@dataclass
class Repository:
    """A repository that holds nothing but ignore files."""

    top: Path
    ignore_files: dict[bytes, bytes] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    def git(self, *args: str, stdin: bytes = b"") -> bytes:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.top), "GIT_CONFIG_NOSYSTEM": "1"}
        command = ["git", "-C", str(self.top), *args]
        run = subprocess.run(command, input=stdin, capture_output=True, env=env, check=False)
        assert run.returncode in (0, 1), run.stderr
        return run.stdout

    def write(self, folder: bytes, text: bytes) -> None:
        on_disk = os.path.join(os.fsencode(self.top), folder)
        os.makedirs(on_disk, exist_ok=True)
        with open(os.path.join(on_disk, b".gitignore"), "wb") as file:
            file.write(text)
        self.ignore_files[folder] = text

    def write_each(self, texts: Iterable[bytes]) -> dict[bytes, bytes]:
        """A new folder for each text: folder to text."""
        folders = {b"%d" % next(self.numbers): text for text in texts}
        for folder, text in folders.items():
            self.write(folder, text)
        return folders

    def ignored(self, paths: Sequence[bytes], *, ignore_case: bool = False) -> set[bytes]:
        """What git says. A path is given as ./path, or a colon would be taken for magic."""
        setting = f"core.ignoreCase={'true' if ignore_case else 'false'}"
        check = ("check-ignore", "--no-index", "-v", "-n", "-z", "--stdin")
        stdin = b"".join(b"./%s\0" % path for path in paths)
        fields = self.git("-c", setting, *check, stdin=stdin).split(b"\0")
        answers = zip(paths, fields[0::4], fields[2::4], strict=False)
        return {path for path, source, pattern in answers if source and pattern[:1] != b"!"}

    def disagreements(
        self, folders: Mapping[bytes, bytes], below: Sequence[bytes], *, ignore_case: bool = False
    ) -> list[str]:
        paths = [folder + b"/" + path for folder in folders for path in below]
        theirs = self.ignored(paths, ignore_case=ignore_case)
        tree = IgnoreTree(IgnoreStack(), self.ignore_files.get, ignore_case=ignore_case)
        return [
            f"{folders[path.partition(b'/')[0]]!r}: git says {path in theirs} of {path!r}"
            for path in paths
            if tree.ignored(path, path in self.ignore_files) != (path in theirs)
        ]


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Repository:
    repository = Repository(tmp_path_factory.mktemp("ignore"))
    repository.git("init", "--quiet")
    return repository


@pytest.fixture(scope="module")
def misread(repository) -> re.Pattern[bytes]:
    """The lines that this git reads in another way than git since 2.52; see wildmatch.py."""
    (folder,) = repository.write_each([b"a**/b"])
    if not repository.ignored([folder + b"/ab"]):
        return _ODD
    return re.compile(
        rb"(?m)^(?=.*/.)!?/?[^*?\[\\\n]*[^*?\[\\/\n]\*\*+(/|\\/|[ \r\0]|$)|" + _ODD.pattern
    )


def some_lines(chance: random.Random, most: int) -> bytes:
    return b"\n".join(a_line(chance) for _ in range(chance.randint(1, most)))


def a_line(chance: random.Random) -> bytes:
    """Anything, or often what matches much, so that lines and files contradict each other."""
    if chance.random() < 0.6:
        return b"".join(chance.choices(PIECES, k=chance.choice((1, 2, 2, 3, 3, 4, 5, 6))))
    return chance.choice((b"", b"!")) + chance.choice(BROAD)


def some_paths(chance: random.Random, number: int) -> list[bytes]:
    paths = {b"/".join(chance.choices(NAMES, k=chance.choice((2, 3, 4)))) for _ in range(number)}
    return [*NAMES, *paths]


@pytest.mark.parametrize("seed", range(4))
def test_random_patterns_mean_the_same_as_in_git(repository, misread, seed):
    chance = random.Random(seed)
    texts = (some_lines(chance, 3) for _ in range(400))
    folders = repository.write_each(text for text in texts if not misread.search(text))
    for folder in chance.sample(sorted(folders), 150):
        text = some_lines(chance, 2)
        if not misread.search(text):
            repository.write(folder + b"/" + chance.choice((b"a", b"b", b"ab")), text)

    paths = some_paths(chance, 40)
    assert not repository.disagreements(folders, paths)
    plain = {folder: text for folder, text in folders.items() if not _WITH_CASE.search(text)}
    assert not repository.disagreements(plain, paths, ignore_case=True)


def strings(alphabet: Sequence[bytes], longest: int) -> Iterator[bytes]:
    lengths = (product(alphabet, repeat=length) for length in range(1, longest + 1))
    return map(b"".join, chain.from_iterable(lengths))


def test_every_short_pattern_of_stars_and_slashes_means_the_same_as_in_git(repository, misread):
    texts = strings((b"a", b"*", b"/", b"**/"), 4)
    folders = repository.write_each(text for text in texts if not misread.search(text))
    paths = [b"/".join(path) for n in (1, 2, 3) for path in product((b"a", b"ba", b"*"), repeat=n)]

    assert not repository.disagreements(folders, paths)


def test_every_short_bracket_means_the_same_as_in_git(repository):
    texts = (b"[%s" % text for text in strings((b"]", b"!", b"-", b"\\", b"a", b"A"), 4))
    folders = repository.write_each(texts)
    names = [b"a", b"A", b"b", b"-", b"!", b"]", b"[", b"\\", b":", b"^", b"a]", b"-]", b"]]"]

    assert not repository.disagreements(folders, names)


CLASSES = [
    *(b"alnum", b"alpha", b"blank", b"cntrl", b"digit", b"graph"),
    *(b"lower", b"print", b"punct", b"space", b"upper", b"xdigit"),
]


def test_every_class_holds_the_bytes_that_it_holds_in_git(repository):
    brackets = [b"x[[:%s:]]" % name for name in CLASSES]
    negated = [b"x[^[:%s:]]" % name for name in CLASSES]
    folders = repository.write_each([*brackets, *negated, b"x[A-Z]", b"x[^A-Z]", b"x?"])
    names = [b"x%c" % byte for byte in range(1, 256) if byte != ord("/")]

    assert not repository.disagreements(folders, names)


NASTY = st.text("*?[]!\\/# ab.-^", max_size=12).map(str.encode)
LINE = st.one_of(NASTY, st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join))
TEXT = st.lists(LINE, min_size=1, max_size=5).map(b"\n".join)
PATH = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(b"/".join)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    texts=st.lists(TEXT, min_size=1, max_size=30),
    paths=st.lists(PATH, min_size=1, max_size=30),
    ignore_case=st.booleans(),
)
@example(texts=[b"A", b"*.B"], paths=[b"a", b"A", b"a.b"], ignore_case=True)
@example(texts=[b"\\ ", b"a\\  ", b"a\\\\ "], paths=[b" ", b"a ", b"a\\"], ignore_case=False)
def test_patterns_mean_the_same_as_in_git(repository, misread, texts, paths, ignore_case):
    odd = re.compile(b"%s|%s" % (misread.pattern, _WITH_CASE.pattern)) if ignore_case else misread
    folders = repository.write_each(text for text in texts if not odd.search(text))

    assert not repository.disagreements(folders, paths, ignore_case=ignore_case)


@pytest.mark.parametrize("seed", range(12))
def test_a_walk_finds_the_untracked_and_the_ignored_as_git_status_does(tmp_path, misread, seed):
    chance = random.Random(seed)
    repository = Repository(tmp_path / "work")
    repository.top.mkdir()
    repository.git("init", "--quiet")
    folders = [b"", *fill(os.fsencode(repository.top), b"", chance, depth=3)]
    texts = (some_lines(chance, 3) for _ in range(30))
    everywhere, here, *others = (text for text in texts if not misread.search(text))
    (tmp_path / "excludes").write_bytes(everywhere)
    (repository.top / ".git" / "info" / "exclude").write_bytes(here)
    for text in others:
        repository.write(chance.choice(folders), text)

    excludes = f"core.excludesFile={tmp_path / 'excludes'}"
    options = ("--porcelain", "-z", "--untracked-files=all", "--ignored=matching")
    status = repository.git("-c", excludes, "status", *options)
    stack = IgnoreStack(Rules(everywhere), Rules(here))
    assert set(status.split(b"\0")[:-1]) == set(walk(repository, b"", stack))


def fill(top: bytes, folder: bytes, chance: random.Random, depth: int) -> Iterator[bytes]:
    """Makes files and folders, none of them empty: git does not mention those."""
    for name in (b"file", *chance.sample(NAMES, 10)):
        path = os.path.join(folder, name)
        if depth and name != b"file" and chance.random() < 0.4:
            os.mkdir(os.path.join(top, path))
            yield path
            yield from fill(top, path, chance, depth - 1)
        else:
            Path(os.fsdecode(os.path.join(top, path))).touch()


def walk(repository: Repository, folder: bytes, stack: IgnoreStack) -> Iterator[bytes]:
    if folder in repository.ignore_files:
        stack = stack.enter(Rules(repository.ignore_files[folder], folder))
    for entry in os.scandir(os.path.join(os.fsencode(repository.top), folder)):
        path = os.path.join(folder, entry.name)
        if entry.name == b".git":
            continue
        if stack.ignored(path, entry.is_dir()):
            yield b"!! " + path + (b"/" if entry.is_dir() else b"")
        elif entry.is_dir():
            yield from walk(repository, path, stack)
        else:
            yield b"?? " + path
