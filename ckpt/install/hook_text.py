# SPDX-License-Identifier: MIT
"""The shell that git's hooks get from ckpt, and how it is put into their text and out again.

Pure functions of bytes. The block stands right after the first line of a shell script and
cannot change what follows: it sets no variable, reads nothing from standard input, leaves
`$?` zero and the arguments as they are, and holds under `set -e` and `set -u`. It stops
git only if the user asked for that (`on_error = block`): Python's own failures end with
the same status, so it is believed only if ckpt can be imported.
"""

from __future__ import annotations

import os
import re
from shlex import quote, split

SHEBANG = b"#!/bin/sh\n"
WRAPPED = ".ckpt-wrapped"
# In this folder, what had to be renamed has its own name: a link may tell by it what to do.
NAMED = "ckpt-wrapped"
# A file that goes when ckpt goes: what is left of it then is not to be heard of.
PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
_BEGIN = b"# >>> ckpt >>> (git ckpt uninstall takes these lines out)\n"
_END = b"# <<< ckpt <<<"
_OWN = b"# Made by 'git ckpt install'.\n"
_BLOCK = re.compile(
    rb"^" + re.escape(_BEGIN) + rb"(?P<body>(?:[^\n]*\n)*?)" + re.escape(_END) + rb"(?:\n|\Z)",
    re.MULTILINE,
)
_SHELLS = {b"sh", b"bash", b"dash", b"ash", b"ksh", b"mksh", b"zsh", b"yash"}
_HARMLESS_OPTIONS = re.compile(rb"-[eufxplC]*\Z")
# Another interpreter, or a tool that counts lines, reads the script itself.
_READS_ITSELF = re.compile(
    rb"\b(?:exec|tail|head|sed|awk|perl|ruby|node|python[\w.]*)\b[^\n]*"
    rb"""[ \t]["']?\$(?:0|\{0\}|BASH_SOURCE|\{BASH_SOURCE(?:\[0\])?\})["']?(?=[ \t\n;|&)]|\Z)"""
)
# A path as `quote` writes it, in a line of ours.
_PATH = rb"""((?:'[^']*(?:'"'"'[^']*)*'|[\w@%+=:,./-]+))"""
_CHECKS = re.compile(rb"(?:if )?\[ -x " + _PATH + rb" \] && (?:\[ -f " + _PATH + rb" \])?")
_ITS_NAME = re.compile(rb"""\b(?:dir|base)name[ \t]+(?:--[ \t]+)?["']?\$(?:0|\{0\})["']?""")


def command(event: str, python: str, program: str = PROGRAM) -> str:
    """One line of shell that takes a checkpoint for a hook."""
    start = quote(python)
    run = f"{start} -I -m ckpt hook {event}"
    is_there = f"[ -x {start} ] && [ -f {quote(program)} ]"
    if event.startswith("post-"):
        return f'if {is_there}; then {run} "$@" </dev/null || :; fi'
    is_meant = f"[ $? -eq 1 ] && {start} -I -c 'import ckpt.cli' 2>/dev/null && exit 1"
    return f"if {is_there}; then {run} </dev/null || {{ {is_meant}; }} || :; fi"


def line_to_add(event: str, python: str) -> str:
    """The same for people to put into a script by hand; it never stops git."""
    start, arguments = quote(python), ' "$@"' if event.startswith("post-") else ""
    return f"[ -x {start} ] && {start} -I -m ckpt hook {event}{arguments} </dev/null || :"


def block(event: str, python: str) -> bytes:
    return _BEGIN + os.fsencode(command(event, python)) + b"\n" + _END + b"\n"


def own_script(event: str, python: str, *, wraps: bool) -> bytes:
    """A whole hook; it goes on to what it wraps, found also after it has itself been renamed."""
    chain = _chain(event) if wraps else b""
    return SHEBANG + _OWN + block(event, python) + chain


def _chain(event: str) -> bytes:
    names = f'"${{0%/*}}/{NAMED}/{event}" "${{0%/*}}/{event}{WRAPPED}"'
    return f'for hook in {names}; do [ ! -x "$hook" ] || exec "$hook" "$@"; done\n'.encode()


def has_block(text: bytes) -> bool:
    return _BLOCK.search(text) is not None


def calls_ckpt(text: bytes, event: str) -> bool:
    """Whether a script takes the checkpoint for a hook, by our block or a line added by hand."""
    called = rb"(?m)^[^#\n]*(?:-m ckpt|git[ -]ckpt) hook %s\b" % event.encode()
    return re.search(called, text) is not None


def our_lines(text: bytes, event: str) -> bytes:
    """What a script does for ckpt, without all else: the block, or lines added by hand. Nothing,
    unless that is word for word what ckpt puts there, or tells people to."""
    found = _BLOCK.search(text)
    lines = [found["body"]] if found else text.splitlines(keepends=True)
    ours = [line for line in lines if found or calls_ckpt(line, event)]
    return b"".join(ours) if all(is_word_for_word(line, event) for line in ours) else b""


def is_word_for_word(line: bytes, event: str) -> bool:
    """Whether a line is ours, whatever interpreter and installation it is for."""
    found = _CHECKS.match(line)
    if found is None:
        return False
    python, program = (unquoted(word or b"") for word in found.groups())
    ours = (command(event, python, program), line_to_add(event, python))
    return os.path.isabs(python) and line.removesuffix(b"\n") in map(os.fsencode, ours)


def unquoted(word: bytes) -> str:
    """What a word of shell stands for if `quote` has written it; else anything."""
    try:
        return "".join(split(os.fsdecode(word)))
    except ValueError:  # a quote without its other half
        return ""


def is_own(text: bytes, event: str) -> bool:
    """Whether a script is all ours, with nothing that a user has added."""
    return without_block(text) in (SHEBANG + _OWN, SHEBANG + _OWN + _chain(event))


def wraps(text: bytes, event: str) -> bool:
    return text.startswith(SHEBANG + _OWN) and _chain(event) in text


def runs_wrapped(text: bytes, event: str) -> bool:
    """Whether a script that is a user's by now goes on to what ckpt had wrapped."""
    return _chain(event) in text


def with_block(text: bytes, added: bytes) -> bytes:
    """The script with a block after its first line, in place of one that it has."""
    found = _BLOCK.search(text)
    if found:
        has_newline = found[0].endswith(b"\n")
        return text[: found.start()] + (added if has_newline else added[:-1]) + text[found.end() :]
    if not text.startswith(b"#!"):
        return added + text
    first, newline, rest = text.partition(b"\n")
    # Without a newline there, the block gives its own back when it goes.
    return first + b"\n" + (added + rest if newline else added[:-1])


def without_block(text: bytes) -> bytes:
    found = _BLOCK.search(text)
    if found is None:
        return text
    before = text[: found.start()]
    if not found[0].endswith(b"\n"):
        before = before[:-1]
    return before + text[found.end() :]


def without_ours(text: bytes) -> bytes:
    """What a user has added to a script that began as ours."""
    return without_block(text).replace(SHEBANG + _OWN, SHEBANG, 1)


def is_shell(text: bytes) -> bool:
    """Whether a block can be put into a script without harm."""
    if not text.startswith(b"#!") or b"\0" in text:
        return False
    if _READS_ITSELF.search(_ITS_NAME.sub(b"", text)):
        return False
    first, _, rest = text[2:].partition(b"\n")
    if rest.lstrip().startswith((b"'''", b'"""', b"''':", b'":"')):  # to Python a string
        return False
    words = first.split(b" ") if b"\t" not in first else first.split()
    words = [word for word in words if word]
    if not words or first.endswith(b"\r"):
        return False
    if os.path.basename(words[0]) == b"env":
        words = words[2:] if words[1:2] == [b"-S"] else words[1:2]
    name, *options = words or [b""]
    known = os.path.basename(name) in _SHELLS
    return known and all(_HARMLESS_OPTIONS.match(option) for option in options)
