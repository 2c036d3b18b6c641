# SPDX-License-Identifier: MIT
"""Whether pre-commit takes checkpoints here, and whether it does so before anything else.

Only looks: `.pre-commit-config.yaml` is the team's file. It is read line by line for the
ids of its hooks, in their order, which is the order pre-commit runs them in; a YAML parser
would be a dependency for this one question.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from shlex import join, quote, split

from ckpt import disk
from ckpt.errors import Refused
from ckpt.git.config import GitConfig
from ckpt.git.repository import Repository
from ckpt.install.programs import asset, has_configured_hooks
from ckpt.install.record import NEW, ConfigFile, data_dir, missing_folders, remove_folders
from ckpt.install.target import (
    ADDED,
    CHANGED,
    FOREIGN,
    INSTALLED,
    KEPT,
    MISSING,
    NOTE,
    REMOVED,
    REPLACED,
    TO_DO,
    Finding,
    Step,
    Target,
)
from ckpt.locks import NO_LINKS, NOT_SHARED, Sharing

# Where tools put a hook that they find: pre-commit runs it first, lefthook never.
_MOVED = (".legacy", ".old")


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of the hooks that git runs; `scripts` is where a user's own go.

    They differ under husky, which has scripts of its own in `.husky/_` that run, with `sh`,
    those in `.husky`, and writes the former anew at each `npm install`.
    """

    hooks: str
    scripts: str
    is_foreign: bool

    @property
    def is_husky(self) -> bool:
        return self.hooks != self.scripts

    def file(self, event: str) -> str:
        return os.path.join(self.scripts, event)


def find_place(repo: Repository) -> Place:
    """Where git looks for hooks now; refuses if it cannot find any there."""
    folder, configured = _folder(repo), repo.config.get_path("core.hookspath")
    if configured == "":
        raise _turned_off("empty, so that git looks for hooks in '/'")
    if os.path.isdir(folder) or not os.path.lexists(folder):
        return _place(folder, repo)
    if configured is not None:
        raise _turned_off(f"'{folder}', which is not a folder")
    raise Refused(
        f"git finds no hooks: '{folder}' is not a folder, nor a link to one",
        hint=f"{join(['mv', folder, folder + '.away'])} && git ckpt install",
    )


def _turned_off(how: str) -> Refused:
    return Refused(
        f"hooks are turned off: core.hooksPath is {how}",
        hint="git config --show-origin --get core.hooksPath",
    )


def _folder(repo: Repository) -> str:
    configured = repo.config.get_path("core.hookspath")
    if configured:
        return os.path.normpath(os.path.join(repo.worktree, configured))
    return os.path.join(repo.common_dir, "hooks")


def earlier_places(repo: Repository, noted: list[str]) -> list[Place]:
    """All the folders where hooks of ours may be: git may have looked elsewhere before."""
    folders = [_folder(repo), os.path.join(repo.common_dir, "hooks"), *noted]
    return [_place(folder, repo) for folder in dict.fromkeys(folders) if os.path.isdir(folder)]


def files_of(place: Place, event: str) -> list[str]:
    """The names under which the hook for an event may lie, the one that git runs first."""
    names = [place.file(event), *(place.file(event) + suffix for suffix in _MOVED)]
    return names if not place.is_husky else [*names, os.path.join(place.hooks, event)]


def is_run_by_pre_commit(path: str) -> bool:
    """Whether pre-commit has moved the hook to this name and runs it from its own."""
    hook = path.removesuffix(".legacy")
    return hook != path and b"pre-commit" in read_file(hook) and os.access(hook, os.X_OK)


def read_file(path: str) -> bytes:
    """What a plain file holds; nothing for a symbolic link, a folder or no file."""
    if os.path.islink(path) or not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


def _place(hooks: str, repo: Repository) -> Place:
    parent, name = os.path.split(hooks)
    is_husky = (name, os.path.basename(parent)) == ("_", ".husky")
    return Place(hooks, parent if is_husky else hooks, is_foreign=not _is_inside(hooks, repo))


def _is_inside(hooks: str, repo: Repository) -> bool:
    real = os.path.join(os.path.realpath(hooks), "")
    return real.startswith(os.path.join(os.path.realpath(repo.common_dir), ""))


# -- The shell that git's hooks get from ckpt, and how it is put into their text and out again

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


# -- Puts ckpt into the file of one hook, in one of three ways, and takes it out again


def put_in(
    path: str, event: str, python: str, *, is_script: bool = False, sharing: Sharing = NOT_SHARED
) -> Step:
    """Let a hook take a checkpoint. `is_script`: `sh` is told to run it, whatever it looks like."""
    text = read_file(path)
    if has_block(text):
        return _renew(path, event, python, text)
    if calls_ckpt(text, event):
        return Step(KEPT, f"hook {event}, by a line that somebody has added", path)
    if not os.path.lexists(path):
        if os.path.lexists(_wrapped(path, event)):  # another tool has taken our file away
            return _run_before(path, event, python, sharing)
        _write(path, own_script(event, python, wraps=False), 0o777, sharing)
        return Step(ADDED, f"hook {event}", path)
    if os.path.isdir(path):
        what = f"hook {event}: a folder is in its place"
        return Step(TO_DO, what, path, (_move_away(path), "git ckpt install"))
    if is_script or (is_shell(text) and os.access(path, os.X_OK)):
        _write(path, with_block(text, block(event, python)), None, sharing)
        return Step(ADDED, f"hook {event}, as a block in the script that was there", path)
    return _wrap(path, event, python, sharing)


def take_out(path: str, event: str) -> list[Step]:
    """Take what is ours out of a hook's file, and give what we wrapped its name back."""
    _clear(path)
    text = read_file(path)
    if not has_block(text):
        return []
    wrapped = _wrapped(path, event)
    if wraps(text, event) and os.path.lexists(wrapped):
        return [_unwrap(path, event, text, wrapped)]
    if is_own(text, event):
        disk.unlink(path)
        return [Step(REMOVED, f"hook {event}", path)]
    _write(path, without_ours(text), None, NOT_SHARED)
    return [Step(REMOVED, f"hook {event}, a block in a script", path)]


def give_back(path: str, event: str) -> list[Step]:
    """Rename back what we wrapped when another tool has taken our file away."""
    wrapped = _wrapped(path, event)
    if not os.path.lexists(wrapped):
        _forget_name(path, event)
        return []
    if _is_same(path, wrapped):
        _forget_name(path, event)
        disk.unlink(wrapped)
        return []
    if runs_wrapped(read_file(path), event):
        return []
    if os.path.lexists(path):
        what = f"hook {event}: the file that ckpt had renamed is still there beside a new one"
        commands = (_move_away(path), f"mv {quote(wrapped)} {quote(path)}")
        return [Step(TO_DO, what, wrapped, commands)]
    disk.rename(wrapped, path)
    _forget_name(path, event)
    return [Step(CHANGED, f"hook {event}: it has its name back", path)]


def _renew(path: str, event: str, python: str, text: bytes) -> Step:
    renewed = with_block(text, block(event, python))
    if renewed == text:
        return Step(KEPT, f"hook {event}", path)
    _write(path, renewed, None, NOT_SHARED)
    return Step(CHANGED, f"hook {event}, which calls {python} now", path)


def _wrap(path: str, event: str, python: str, sharing: Sharing) -> Step:
    wrapped = _wrapped(path, event)
    if os.path.lexists(wrapped) and not _is_same(path, wrapped):
        what = f"hook {event}: '{os.path.basename(wrapped)}' is in the way"
        return Step(TO_DO, what, path, (_move_away(wrapped), "git ckpt install"))
    _second_name(path, wrapped)
    return _run_before(path, event, python, sharing)


def _run_before(path: str, event: str, python: str, sharing: Sharing) -> Step:
    """Let ours run what has been renamed."""
    wrapped = _wrapped(path, event)
    if os.path.islink(wrapped):
        _keep_name(wrapped, event, sharing)
    _write(path, own_script(event, python, wraps=True), 0o777, sharing)
    what = f"hook {event}; what was there runs after it, as '{os.path.basename(wrapped)}'"
    return Step(ADDED, what, path)


def _move_away(path: str) -> str:
    """The command that makes room; what is there may be all that there is of a user's hook."""
    names = (f"{path}.away{number or ''}" for number in count())
    free = next(name for name in names if not os.path.lexists(name))
    return f"mv {quote(path)} {quote(free)}"


def _is_same(path: str, wrapped: str) -> bool:
    """Whether an install was killed just after it gave a hook its second name."""
    return os.path.lexists(path) and os.path.samestat(os.lstat(path), os.lstat(wrapped))


def _second_name(path: str, wrapped: str) -> None:
    try:
        disk.link(path, wrapped)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in NO_LINKS:  # a full disk, say, where ours could not be written either
            raise
        disk.rename(path, wrapped)


def _unwrap(path: str, event: str, text: bytes, wrapped: str) -> Step:
    if is_own(text, event):
        disk.rename(wrapped, path)
        _forget_name(path, event)
        return Step(REMOVED, f"hook {event}; what was there before has its name back", path)
    _write(path, without_ours(text), None, NOT_SHARED)
    what = f"hook {event}; '{os.path.basename(path)}', which you have changed, goes on to run"
    return Step(REMOVED, f"{what} '{os.path.basename(wrapped)}'", path)


def _keep_name(wrapped: str, event: str, sharing: Sharing) -> None:
    """Let one program that is linked under the names of many hooks know for which it runs."""
    name = _name_kept(wrapped, event)
    sharing.make_folders(os.path.dirname(name))
    with suppress(FileExistsError):
        disk.symlink(_link_to(event), name)


def _forget_name(path: str, event: str) -> None:
    name = _name_kept(path, event)
    with suppress(OSError):  # there is none, or the folder has more in it
        if os.readlink(name) == _link_to(event):
            disk.unlink(name)
    with suppress(OSError):
        disk.rmdir(os.path.dirname(name))


def _name_kept(path: str, event: str) -> str:
    return os.path.join(os.path.dirname(path), NAMED, event)


def _link_to(event: str) -> str:
    return os.path.join(os.pardir, event + WRAPPED)


def _wrapped(path: str, event: str) -> str:
    return os.path.join(os.path.dirname(path), event + WRAPPED)


def _write(path: str, text: bytes, mode: int | None, sharing: Sharing) -> None:
    """Put a file in place in one step: with these bits less the umask, or those it had."""
    bits = stat.S_IMODE(os.lstat(path).st_mode) if mode is None else None
    temporary = path + NEW
    _clear(path)
    with disk.replacing(path, temporary, mode or 0o600) as fd:
        disk.write(fd, text)
        if bits is None:
            sharing.adjust(temporary)
        else:
            disk.chmod(fd, bits)


def _clear(path: str) -> None:
    """Take away what a killed process has not finished."""
    try:
        disk.unlink(path + NEW)
    except FileNotFoundError:
        pass


# -- Hooks that git's configuration names, which git has from 2.54 on

PREFIX = "hook.ckpt-"
_END_config_hooks = "; :"  # git adds the arguments at the end: there they are nobody's


def put_in_config_hooks(config: ConfigFile, event: str, python: str) -> Step:
    pairs = [("event", event), ("command", _command(event, python))]
    wanted = [(f"{PREFIX}{event}.{name}", value) for name, value in pairs]
    found = [entry for entry in config.entries() if _is_of(entry[0], event)]
    place = f"{config.path}: {PREFIX}{event}"
    if found == wanted:
        return Step(KEPT, f"hook {event}", place)
    if found:
        config.remove(lambda key, _: _is_of(key, event))
    config.add("hook", f"ckpt-{event}", pairs)
    return Step(CHANGED if found else ADDED, f"hook {event}, in git's configuration", place)


def take_out_config_hooks(config: ConfigFile, event: str) -> list[Step]:
    if not config.remove(lambda key, _: _is_of(key, event)):
        return []
    return [Step(REMOVED, f"hook {event}", f"{config.path}: {PREFIX}{event}")]


def is_in(config: ConfigFile, event: str) -> bool:
    names = {key.rpartition(".")[2] for key, _ in config.entries() if _is_of(key, event)}
    return names >= {"command", "event"}


def our_entries(config: ConfigFile, event: str) -> list[tuple[str, str]]:
    """What a file says of a hook; nothing, unless that is word for word what ckpt puts there."""
    found = [entry for entry in config.entries() if _is_of(entry[0], event)]
    said = dict(found)
    line = said.get(f"{PREFIX}{event}.command", "")
    is_ours = (
        len(found) == 2
        and said.get(f"{PREFIX}{event}.event") == event
        and line.endswith(_END_config_hooks)
        and is_word_for_word(os.fsencode(line.removesuffix(_END_config_hooks)), event)
    )
    return found if is_ours else []


def _is_of(key: str, event: str) -> bool:
    return key.startswith(f"{PREFIX}{event}.")


def _command(event: str, python: str) -> str:
    return command(event, python) + _END_config_hooks


# -- Git's own hooks: which way into each there is, and what is to be seen of it

EVENTS = ("pre-commit", "pre-merge-commit", "pre-rebase", "pre-push", "post-checkout")
_PART = "hooks"


def install(target: Target, events: Sequence[str] = EVENTS) -> list[Step]:
    if not events:
        return []
    if has_configured_hooks(target.env):
        # Each goes before those that are there: the last is the first of the file.
        return [step for event in reversed(events) for step in _into_config(target, event)]
    if target.is_global:
        _note(target, events=list(events))
        return install_template(target, events)
    steps = [step for event in events for step in _into_file(target, event)]
    return steps + _how_to_edit(target, steps)


def uninstall(target: Target, events: Sequence[str] = EVENTS) -> list[Step]:
    if not events:
        return []
    config = target.config_file
    steps = [step for event in events for step in take_out_config_hooks(config, event)]
    steps += (
        uninstall_template(target, events) if target.is_global else _out_of_files(target, events)
    )
    _forget(target, events)
    return steps


def files(target: Target) -> list[str]:
    """All that is written to put them in."""
    if target.is_global:
        hooks = os.path.join(template_dir(target), "hooks")
        return [os.path.join(hooks, event) for event in EVENTS]
    noted = target.record.get(_PART).get("folders", [])
    places = earlier_places(target.require_repo(), noted)
    return [path for place in places for event in EVENTS for path in files_of(place, event)]


def inspect(target: Target, events: Sequence[str] = EVENTS) -> list[Finding]:
    """How it stands with each hook, in this repository, however it was installed."""
    reads_config = has_configured_hooks(target.env)
    return [_inspected(target, event, reads_config) for event in events]


def _into_config(target: Target, event: str) -> list[Step]:
    _note(target, events=[event])
    step = put_in_config_hooks(target.config_file, event, target.python)
    return [step, *_out_of_files(target, [event])]


def _into_file(target: Target, event: str) -> list[Step]:
    repo = target.require_repo()
    place = find_place(repo)
    path = _where_it_runs(place, event) or place.file(event)
    if place.is_foreign and not target.edit_tracked:
        return [_by_hand(target, place, event)]
    _note(target, events=[event], folders=[place.hooks])
    _make_folder(target, place.scripts)
    step = put_in(path, event, target.python, is_script=place.is_husky, sharing=repo.sharing)
    return [step, *take_out_config_hooks(target.config_file, event)]


def _by_hand(target: Target, place: Place, event: str) -> Step:
    path = place.file(event)
    if calls_ckpt(read_file(path), event):
        return Step(KEPT, f"hook {event}", path)
    line = line_to_add(event, target.python)
    if os.path.lexists(path) or place.is_husky:
        return Step(TO_DO, f"hook {event}: add this line at the beginning", path, (line,))
    return Step(TO_DO, f"hook {event}: make this script", path, ("#!/bin/sh", line))


def _how_to_edit(target: Target, steps: Sequence[Step]) -> list[Step]:
    place = find_place(target.require_repo())
    if not place.is_foreign or target.edit_tracked or all(s.action != TO_DO for s in steps):
        return []
    what = "hooks are outside the git dir, where ckpt changes files only if asked"
    return [Step(NOTE, what, place.scripts, ("git ckpt install --edit-tracked",))]


def _make_folder(target: Target, folder: str) -> None:
    if not os.path.isdir(folder):
        _note(target, made=missing_folders(folder))
        target.require_repo().sharing.make_folders(folder)


def _out_of_files(target: Target, events: Sequence[str]) -> list[Step]:
    if target.is_global:
        return []
    noted = target.record.get(_PART).get("folders", [])
    steps: list[Step] = []
    for place in earlier_places(target.require_repo(), noted):
        may_edit = not place.is_foreign or target.edit_tracked or place.hooks in noted
        out_of = _out_of_place if may_edit else _left_in_place
        steps += [step for event in events for step in out_of(place, event)]
    return steps


def _out_of_place(place: Place, event: str) -> list[Step]:
    steps = [step for path in files_of(place, event) for step in take_out(path, event)]
    return steps + give_back(place.file(event), event)


def _left_in_place(place: Place, event: str) -> list[Step]:
    """Somebody else, or an install into another repository, has put it there."""
    path = place.file(event)
    if not has_block(read_file(path)):
        return []
    what = f"hook {event} is left in a shared file"
    return [Step(NOTE, what, path, ("git ckpt uninstall --edit-tracked",))]


def _forget(target: Target, events: Sequence[str]) -> None:
    """What was noted of these events need not be known any more."""
    notes = target.record.get(_PART)
    left = [event for event in notes.get("events", []) if event not in events]
    if left:
        target.record.put(_PART, {**notes, "events": left})
        return
    remove_folders(notes.get("made", []))
    target.record.drop(_PART)


def _note(target: Target, **more: list[str]) -> None:
    notes = target.record.get(_PART)
    for name, values in more.items():
        notes[name] = list(dict.fromkeys([*notes.get(name, []), *values]))
    target.record.put(_PART, notes)


def _where_it_runs(place: Place, event: str) -> str | None:
    """The file through which git comes to call ckpt for an event."""
    for path in files_of(place, event):
        is_run = path == place.file(event) or is_run_by_pre_commit(path)
        if is_run and calls_ckpt(read_file(path), event):
            return path
    return None


def where_it_runs(target: Target, event: str) -> str | None:
    """The file through which git comes to call ckpt for an event in a repository."""
    try:
        return _where_it_runs(find_place(target.require_repo()), event)
    except Refused:
        return None


def _inspected(target: Target, event: str, reads_config: bool) -> Finding:
    configs = (target.config_file, target.user_config_file)
    named = [config.path for config in configs if is_in(config, event)]
    if named and reads_config:
        return Finding(event, INSTALLED, f"git's configuration, '{named[0]}'")
    try:
        place = find_place(target.require_repo())
    except Refused as error:
        return Finding(event, FOREIGN, error.message, error.hint)
    path = _where_it_runs(place, event)
    if path is not None:
        return Finding(event, INSTALLED, f"'{path}'")
    mend = f"git ckpt install --hooks {event}"
    if place.is_foreign:
        told = f"hooks are in '{place.scripts}', outside the git dir"
        return Finding(event, FOREIGN, told, f"{mend} --edit-tracked")
    if named:
        return Finding(event, REPLACED, "this git takes no hooks from its configuration", mend)
    if event in target.record.get(_PART).get("events", []):
        return Finding(event, REPLACED, f"another tool took it out of '{place.file(event)}'", mend)
    return Finding(event, MISSING, "not installed", mend)


# -- Hooks for repositories to come, where git has no configured hooks: `init.templateDir`

_KEY = "init.templatedir"


def install_template(target: Target, events: Sequence[str]) -> list[Step]:
    folder = template_dir(target)
    steps = _build(target, folder, events)
    theirs = GitConfig.load(target.env).get_path(_KEY)
    if theirs == folder:
        return [*steps, Step(KEPT, "template for new repositories", folder)]
    if theirs:
        hooks = os.path.join(theirs, "hooks")
        copy = shlex.join(["cp", "-n", *_scripts(folder), hooks])
        what = "template for new repositories: you have one of your own, copy the hooks into it"
        return [*steps, Step(NOTE, what, theirs, (shlex.join(["mkdir", "-p", hooks]), copy))]
    target.user_config_file.add("init", None, [("templateDir", folder)])
    what = "template for repositories made or cloned from now on"
    advice = ("in a repository that is there already: git init, or git ckpt install",)
    return [*steps, Step(ADDED, what, folder, advice)]


def uninstall_template(target: Target, events: Sequence[str]) -> list[Step]:
    """Take hooks out of the template, and with the last of them the template itself."""
    folder = template_dir(target)
    hooks = os.path.join(folder, "hooks")
    steps = [step for e in events for step in take_out(os.path.join(hooks, e), e)]
    if os.path.isdir(hooks) and os.listdir(hooks):
        return steps
    config = target.user_config_file
    config.remove(lambda key, value: key == _KEY and value == folder)
    if not os.path.isdir(folder):
        return []
    disk.remove_tree(folder)
    return [Step(REMOVED, "template for new repositories", folder)]


def template_dir(target: Target) -> str:
    return os.path.join(data_dir(target.env), "git-template")


def _build(target: Target, folder: str, events: Sequence[str]) -> list[Step]:
    """The folder as it should be; the steps that were needed for hooks in it."""
    hooks = os.path.join(folder, "hooks")
    if not os.path.isdir(hooks):
        NOT_SHARED.make_folders(hooks)
        _copy("info/exclude", folder)
    done = [put_in(os.path.join(hooks, e), e, target.python) for e in events]
    return [step for step in done if step.action != ADDED]


def _copy(name: str, folder: str) -> None:
    path = os.path.join(folder, name)
    NOT_SHARED.make_folders(os.path.dirname(path))
    fd = disk.create(path, 0o666)
    try:
        disk.write(fd, asset(f"templates/git-template/{name}").read_bytes())
    finally:
        os.close(fd)


def _scripts(folder: str) -> list[str]:
    hooks = os.path.join(folder, "hooks")
    return [os.path.join(hooks, name) for name in sorted(os.listdir(hooks))]


# -- Whether pre-commit takes checkpoints here, and whether it does so before anything else

CONFIG = ".pre-commit-config.yaml"
HOOK = "ckpt-save"
_MARK = re.compile(rb"(?i)generated by pre(?:-commit|k)\b")
_ID = re.compile(rb"""(?m)^[ \t]*(?:-[ \t]+)?(?:\{[ \t]*)?id:[ \t]*["']?([\w.-]+)""")


def inspect_pre_commit_config(target: Target) -> list[Finding]:
    """One finding where pre-commit is used, none elsewhere."""
    text = read_file(os.path.join(target.require_repo().worktree, CONFIG))
    ids = [found.decode() for found in _ID.findall(text)]
    if not ids:
        return []
    if HOOK not in ids:
        told = f"'{CONFIG}' does not name it; the hooks of 'git ckpt install' need no such entry"
        return [Finding(HOOK, MISSING, told)]
    if not _runs_pre_commit(target):
        told = f"'{CONFIG}' names it, but pre-commit is not installed as a hook here"
        return [Finding(HOOK, MISSING, told, "pre-commit install")]
    if ids[0] != HOOK:
        told = f"'{CONFIG}' runs '{ids[0]}' first, which may change files before they are saved"
        return [Finding(HOOK, INSTALLED, told, f"move {HOOK} to the top of '{CONFIG}'")]
    return [Finding(HOOK, INSTALLED, f"the first hook in '{CONFIG}'")]


def _runs_pre_commit(target: Target) -> bool:
    try:
        place = find_place(target.require_repo())
    except Refused:
        return False
    return _MARK.search(read_file(place.file("pre-commit"))) is not None
