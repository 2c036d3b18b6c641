# SPDX-License-Identifier: MIT
"""What a shell command that an agent is about to run can do to files.

Three answers: it only reads, it destroys, or neither is certain. Only what is made of known
parts and nothing else is said to read: a line with a variable, a substitution, a here-document
or an unknown program is never among it. To be wrong the other way costs a checkpoint that is
not needed. Pure functions; no command is run, and no shell grammar is followed beyond quotes,
lists and pipes.
"""

from __future__ import annotations

import os

from ckpt.triggers.git_words import HARMLESS, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

READS, WRITES, DESTROYS = "reads", "writes", "destroys"

# Programs that write no file, whatever they are told, but for the options after them.
_ALWAYS_READ = (
    "[ basename cat cd cmp comm cut date df diff dirname du echo egrep expr false fgrep grep head "
    "id jq ls md5sum nl pgrep printf ps pwd readlink realpath rev seq sha1sum sha256sum sleep stat "
    "tac tail test tr true type uname wc which whoami"
)
_READERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_ALWAYS_READ.split(), ()),
    "file": ("-C", "--compile"),
    "find": ("-delete", "-exec", "-execdir", "-fls", "-fprint", "-ok", "-okdir"),
    "rg": ("--pre", "--hostname-bin"),
    "tree": ("-o",),
}
# `add`, `commit` and the like leave files alone, but not what was staged.
_GIT_READS = (
    "blame cat-file check-ignore count-objects describe diff diff-files diff-index diff-tree "
    "for-each-ref grep log ls-files ls-remote ls-tree merge-base name-rev range-diff rev-list "
    "rev-parse shortlog show show-ref status var version whatchanged"
)
_GIT_READERS = frozenset(_GIT_READS.split())
_GIT_WRITING = ("--output", "-O", "--open-files-in-pager", "--ext-diff", "--textconv")
_MOST_OPTIONS = 100  # words: a line may hold a whole text in which git is spoken of all the time
_GIT_OPTIONS = ("-C", "-P", "--no-pager", "--no-optional-locks")
_DESTROYERS = frozenset(
    {"dd", "mv", "rm", "rmdir", "shred", "srm", "truncate", "unlink", "-delete", "--delete"}
)

# Where output goes that nobody keeps.
_TO_NOWHERE = ("2>&1", "2>/dev/null", "2> /dev/null", "&>/dev/null", ">/dev/null", "> /dev/null")
_ENDS = ("&&", "||", ";", "|", "&", "\n")
_UNCLEAR = frozenset("`$(){}<>\\#!")
_LONGEST = 1 << 16  # characters that are looked at; to say what more of them do may take seconds
_UNCLEAR_IN_QUOTES = frozenset("`$\\!")


def effect(line: str) -> str:
    """What running a line of shell can do."""
    if len(line) > _LONGEST:
        return DESTROYS
    commands = _split(_without_null(line))
    if commands is not None and all(map(_reads, commands)):
        return READS
    return DESTROYS if _destroys(line) else WRITES


def _without_null(line: str) -> str:
    line += " "
    for redirection in _TO_NOWHERE:
        for end in " ;|&\n":
            line = line.replace(f" {redirection}{end}", f" {end}")
    return line


def _split(line: str) -> list[list[str]] | None:
    """The simple commands of a line, in words; None if it holds anything that is not clear."""
    commands: list[list[str]] = [[]]
    word: str | None = None
    at = 0
    while at < len(line):
        char = line[at]
        end = next((end for end in _ENDS if line.startswith(end, at)), "")
        if char in "'\"":
            close = line.find(char, at + 1)
            inner = line[at + 1 : close]
            if close < 0 or (char == '"' and not _UNCLEAR_IN_QUOTES.isdisjoint(inner)):
                return None
            word, at = (word or "") + inner, close + 1
        elif end or char in " \t":
            if word is not None:
                commands[-1].append(word)
            word, at = None, at + len(end or char)
            commands += [[]] if end else []
        elif char in _UNCLEAR:
            return None
        else:
            word, at = (word or "") + char, at + 1
    if word is not None:
        commands[-1].append(word)
    return [command for command in commands if command] or None


def _reads(words: Sequence[str]) -> bool:
    name, rest = words[0], words[1:]
    if name == "git":
        return _git_reads(rest)
    if name == "sed":
        return _sed_prints(rest)
    if name == "sort":  # `-o` may stand among other letters
        return not any(word.startswith(("--o", "--c")) or _has_letter(word, "o") for word in rest)
    writing = _READERS.get(name)
    return writing is not None and not any(word.startswith(writing) for word in rest if writing)


def _has_letter(word: str, letter: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and letter in word


def _git_reads(words: Sequence[str]) -> bool:
    command = parse(words)
    return (
        command.name in _GIT_READERS
        and all(option in _GIT_OPTIONS for option, _ in command.options)
        and not any(word.startswith(_GIT_WRITING) for word in command.words)
    )


def _sed_prints(words: Sequence[str]) -> bool:
    """`sed -n 10,20p FILE`, which agents read files with."""
    if len(words) < 2 or words[0] != "-n" or any(word.startswith("-") for word in words[1:]):
        return False
    return words[1].endswith("p") and all(
        char.isdecimal() or char in ",$" for char in words[1][:-1]
    )


def _destroys(line: str) -> bool:
    """Whether any word, wherever it stands, is that of a program that takes files away."""
    words = list(_loose_words(line))
    if any(os.path.basename(word) in _DESTROYERS for word in words):
        return True
    return any(
        os.path.basename(word) == "git" and _git_name(words, at + 1) not in HARMLESS
        for at, word in enumerate(words)
    )


def _git_name(words: Sequence[str], at: int) -> str:
    """The command that git is told; empty, and so in doubt, after more options than it has."""
    return parse(words[at : at + _MOST_OPTIONS]).name


def _loose_words(line: str) -> Iterator[str]:
    for char in "\"'`;|&(){}<>\\":
        line = line.replace(char, " ")
    yield from line.split()
