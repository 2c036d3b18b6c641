# SPDX-License-Identifier: MIT
"""Git's own hooks: installed in git's configuration (git 2.54 on), else in files.

A shell hook gets a marked block after its first line. Any other (binary, another language, a
symbolic link) is renamed to `<name>.ckpt-wrapped` and run by ours. A file outside the git dir is
left alone unless `edit_tracked`; the line to add is printed instead. pre-commit's configuration
is only read, to say whether `ckpt-save` comes first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from shlex import join, quote
from typing import NamedTuple

from ckpt import disk
from ckpt.errors import Refused
from ckpt.git.config import GitConfig
from ckpt.git.repository import Repository
from ckpt.install.programs import asset, has_configured_hooks
from ckpt.install.record import (
    ADDED,
    CHANGED,
    KEPT,
    NOTE,
    REMOVED,
    TO_DO,
    ConfigFile,
    Step,
    Target,
    missing_folders,
    read_file,
    remove_folders,
    write_file,
)
from ckpt.locks import NO_LINKS, NOT_SHARED, Sharing
from ckpt.models import FOREIGN, INSTALLED, MISSING, REPLACED, Finding
from ckpt.paths import data_dir

EVENTS = ("pre-commit", "pre-merge-commit", "pre-rebase", "pre-push", "post-checkout")
SHEBANG = b"#!/bin/sh\n"
# A file that goes when ckpt is uninstalled: what is left of it must not be executed then.
PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
_PART = "hooks"
_WRAPPED = ".ckpt-wrapped"
_MOVED = (".legacy", ".old")  # what pre-commit runs first, and lefthook never
_BEGIN = b"# >>> ckpt >>> (git ckpt uninstall takes these lines out)\n"
_END = b"# <<< ckpt <<<"
_OWN = b"# Made by 'git ckpt install'.\n"
_BLOCK = re.compile(
    rb"^" + re.escape(_BEGIN) + rb"(?:[^\n]*\n)*?" + re.escape(_END) + rb"(?:\n|\Z)", re.MULTILINE
)
_SHELLS = {b"sh", b"bash", b"dash", b"ash", b"ksh", b"mksh", b"zsh", b"yash"}
_HARMLESS_OPTIONS = re.compile(rb"-[eufxplC]*\Z")
# Another interpreter, or a tool that counts lines, reads the script itself.
_READS_ITSELF = re.compile(
    rb"\b(?:exec|tail|head|sed|awk|perl|ruby|node|python[\w.]*)\b[^\n]*"
    rb"""[ \t]["']?\$(?:0|\{0\}|BASH_SOURCE|\{BASH_SOURCE(?:\[0\])?\})["']?(?=[ \t\n;|&)]|\Z)"""
)
_ITS_NAME = re.compile(rb"""\b(?:dir|base)name[ \t]+(?:--[ \t]+)?["']?\$(?:0|\{0\})["']?""")


# -- All hooks of a place


def install(target: Target, events: Sequence[str] = EVENTS) -> list[Step]:
    if not events:
        return []
    if has_configured_hooks(target.env):
        # Each goes before those that are there: the last is the first of the file.
        return [step for event in reversed(events) for step in _into_config(target, event)]
    if target.is_global:
        _note(target, events=list(events))
        return _install_template(target, events)
    steps = [step for event in events for step in _into_file(target, event)]
    if any(step.action == TO_DO for step in steps):
        place = find_place(target.require_repo())
        if place.is_foreign and not target.edit_tracked:
            what = "hooks are outside the git dir, where ckpt changes files only on request"
            steps.append(Step(NOTE, what, place.scripts, ("git ckpt install --edit-tracked",)))
    return steps


def uninstall(target: Target, events: Sequence[str] = EVENTS) -> list[Step]:
    if not events:
        return []
    steps = [step for event in events for step in _out_of_config(target.config_file, event)]
    if target.is_global:
        steps += _uninstall_template(target, events)
    else:
        steps += _out_of_files(target, events)
    notes = target.record.get(_PART)
    left = [event for event in notes.get("events", []) if event not in events]
    if left:
        target.record.put(_PART, {**notes, "events": left})
    else:
        remove_folders(notes.get("made", []))
        target.record.drop(_PART)
    return steps


def files(target: Target) -> list[str]:
    """All files that an install may write."""
    if target.is_global:
        return [os.path.join(_template_dir(target), "hooks", event) for event in EVENTS]
    return [
        path for place in _earlier_places(target) for event in EVENTS for path in place.files(event)
    ]


def inspect(target: Target) -> list[Finding]:
    """The state of each hook in this repository, however it was installed."""
    reads_config = has_configured_hooks(target.env)
    return [_inspected(target, event, reads_config) for event in EVENTS]


def _into_config(target: Target, event: str) -> list[Step]:
    _note(target, events=[event])
    config = target.config_file
    wanted = _config_entries(event, target.python)
    found = [entry for entry in config.entries() if _is_of(entry[0], event)]
    step = Step(KEPT, f"hook {event}", f"{config.path}: hook.ckpt-{event}")
    if found != wanted:
        if found:
            config.remove(lambda key, _: _is_of(key, event))
        pairs = [(key.rpartition(".")[2], value) for key, value in wanted]
        config.add("hook", f"ckpt-{event}", pairs)
        what = f"hook {event}, in git's configuration"
        step = Step(CHANGED if found else ADDED, what, step.place)
    return [step, *(() if target.is_global else _out_of_files(target, [event]))]


def _out_of_config(config: ConfigFile, event: str) -> list[Step]:
    if not config.remove(lambda key, _: _is_of(key, event)):
        return []
    return [Step(REMOVED, f"hook {event}", f"{config.path}: hook.ckpt-{event}")]


def _config_entries(event: str, python: str) -> list[tuple[str, str]]:
    # Git adds the arguments at the end, where they are ignored.
    pairs = (("event", event), ("command", command(event, python) + "; :"))
    return [(f"hook.ckpt-{event}.{name}", value) for name, value in pairs]


def _is_of(key: str, event: str) -> bool:
    return key.startswith(f"hook.ckpt-{event}.")


def _into_file(target: Target, event: str) -> list[Step]:
    repo = target.require_repo()
    place = find_place(repo)
    path = place.file(event)
    if place.is_foreign and not target.edit_tracked:
        if calls_ckpt(read_file(path), event):
            return [Step(KEPT, f"hook {event}", path)]
        line = line_to_add(event, target.python)
        if os.path.lexists(path) or place.is_husky:
            return [Step(TO_DO, f"hook {event}: add this line at the beginning", path, (line,))]
        return [Step(TO_DO, f"hook {event}: make this script", path, ("#!/bin/sh", line))]
    _note(target, events=[event], folders=[place.hooks])
    if not os.path.isdir(place.scripts):
        _note(target, made=missing_folders(place.scripts))
        repo.sharing.make_folders(place.scripts)
    path = _where_it_runs(place, event) or path
    step = put_in(path, event, target.python, is_script=place.is_husky, sharing=repo.sharing)
    return [step, *_out_of_config(target.config_file, event)]


def _out_of_files(target: Target, events: Sequence[str]) -> list[Step]:
    noted = target.record.get(_PART).get("folders", [])
    steps: list[Step] = []
    for place in _earlier_places(target):
        may_edit = not place.is_foreign or target.edit_tracked or place.hooks in noted
        for event in events:
            path = place.file(event)
            if may_edit:
                steps += [step for file in place.files(event) for step in take_out(file, event)]
                steps += _give_back(path, event)
            elif has_block(read_file(path)):
                what = f"hook {event} is left in a shared file"
                steps.append(Step(NOTE, what, path, ("git ckpt uninstall --edit-tracked",)))
    return steps


def _note(target: Target, **more: list[str]) -> None:
    notes = target.record.get(_PART)
    for name, values in more.items():
        notes[name] = list(dict.fromkeys([*notes.get(name, []), *values]))
    target.record.put(_PART, notes)


def _inspected(target: Target, event: str, reads_config: bool) -> Finding:
    config = configured_in(target, event)
    if config is not None and reads_config:
        return Finding(event, INSTALLED, f"git's configuration, '{config.path}'")
    try:
        place = find_place(target.require_repo())
    except Refused as error:
        return Finding(event, FOREIGN, error.message, error.hint)
    path = _where_it_runs(place, event)
    mend = f"git ckpt install --hooks {event}"
    if path is not None:
        return Finding(event, INSTALLED, f"'{path}'")
    if place.is_foreign:
        told = f"hooks are in '{place.scripts}', outside the git dir"
        return Finding(event, FOREIGN, told, f"{mend} --edit-tracked")
    if config is not None:
        return Finding(event, REPLACED, "this git takes no hooks from its configuration", mend)
    if event in target.record.get(_PART).get("events", []):
        return Finding(event, REPLACED, f"another tool took it out of '{place.file(event)}'", mend)
    return Finding(event, MISSING, "not installed", mend)


def configured_in(target: Target, event: str) -> ConfigFile | None:
    """The configuration file in which a hook is installed."""
    keys = {key for key, _ in _config_entries(event, "")}
    configs = (target.config_file, target.user_config_file)
    return next((c for c in configs if keys <= {key for key, _ in c.entries()}), None)


def own_entries(config: ConfigFile, event: str, python: str) -> list[tuple[str, str]]:
    """The entries of a hook if they are exactly what ckpt writes."""
    found = [entry for entry in config.entries() if _is_of(entry[0], event)]
    return found if found == _config_entries(event, python) else []


# -- The folder of the hooks that git runs


class Place(NamedTuple):
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

    def files(self, event: str) -> list[str]:
        """The names under which the hook for an event may be, the one that git runs first."""
        names = [self.file(event), *(self.file(event) + suffix for suffix in _MOVED)]
        return names if not self.is_husky else [*names, os.path.join(self.hooks, event)]


def find_place(repo: Repository) -> Place:
    """Where git looks for hooks now; refuses if it cannot find any there."""
    folder, configured = _folder(repo), repo.config.get_path("core.hookspath")
    if configured != "" and (os.path.isdir(folder) or not os.path.lexists(folder)):
        return _place(folder, repo)
    what = "core.hooksPath is empty" if configured == "" else f"'{folder}' is not a folder"
    hint = "git config --show-origin --get core.hooksPath"
    if configured is None:
        hint = f"{_move_away(folder)} && git ckpt install"
    raise Refused(f"hooks are turned off: {what}", hint=hint)


def _folder(repo: Repository) -> str:
    configured = repo.config.get_path("core.hookspath")
    if configured:
        return os.path.normpath(os.path.join(repo.worktree, configured))
    return os.path.join(repo.common_dir, "hooks")


def _earlier_places(target: Target) -> list[Place]:
    """All the folders where hooks of ours may be: git may have looked elsewhere before."""
    repo = target.require_repo()
    noted = target.record.get(_PART).get("folders", [])
    folders = [_folder(repo), os.path.join(repo.common_dir, "hooks"), *noted]
    return [_place(folder, repo) for folder in dict.fromkeys(folders) if os.path.isdir(folder)]


def _place(hooks: str, repo: Repository) -> Place:
    parent, name = os.path.split(hooks)
    is_husky = (name, os.path.basename(parent)) == ("_", ".husky")
    own = os.path.join(os.path.realpath(repo.common_dir), "")
    is_foreign = not os.path.join(os.path.realpath(hooks), "").startswith(own)
    return Place(hooks, parent if is_husky else hooks, is_foreign)


def where_it_runs(target: Target, event: str) -> str | None:
    """The file through which git comes to call ckpt for an event."""
    try:
        return _where_it_runs(find_place(target.require_repo()), event)
    except Refused:
        return None


def _where_it_runs(place: Place, event: str) -> str | None:
    for path in place.files(event):
        is_run = path == place.file(event) or _is_run_by_pre_commit(path)
        if is_run and calls_ckpt(read_file(path), event):
            return path
    return None


def _is_run_by_pre_commit(path: str) -> bool:
    """Whether pre-commit has moved the hook to this name and runs it from its own."""
    hook = path.removesuffix(".legacy")
    return hook != path and b"pre-commit" in read_file(hook) and os.access(hook, os.X_OK)


# -- The file of one hook


def put_in(
    path: str, event: str, python: str, *, is_script: bool = False, sharing: Sharing = NOT_SHARED
) -> Step:
    """Let a hook take a checkpoint. `is_script`: it is run by `sh`, whatever its first line."""
    text = read_file(path)
    if has_block(text):
        renewed = with_block(text, block(event, python))
        if renewed == text:
            return Step(KEPT, f"hook {event}", path)
        write_file(path, renewed)
        return Step(CHANGED, f"hook {event}, which calls {python} now", path)
    if calls_ckpt(text, event):
        return Step(KEPT, f"hook {event}, by a line that was added by hand", path)
    wrapped = _wrapped(path, event)
    if not os.path.lexists(path):
        if os.path.lexists(wrapped):  # another tool has removed our file
            return _run_before(path, event, python, sharing)
        write_file(path, own_script(event, python, wraps=False), 0o777, sharing)
        return Step(ADDED, f"hook {event}", path)
    if os.path.isdir(path):
        what = f"hook {event}: a folder is in its place"
        return Step(TO_DO, what, path, (_move_away(path), "git ckpt install"))
    if is_script or (is_shell(text) and os.access(path, os.X_OK)):
        write_file(path, with_block(text, block(event, python)))
        return Step(ADDED, f"hook {event}, as a block in the script that was there", path)
    if os.path.lexists(wrapped) and not _is_same(path, wrapped):
        what = f"hook {event}: '{os.path.basename(wrapped)}' is in the way"
        return Step(TO_DO, what, path, (_move_away(wrapped), "git ckpt install"))
    _second_name(path, wrapped)
    return _run_before(path, event, python, sharing)


def take_out(path: str, event: str) -> list[Step]:
    """Remove what is ours from a hook's file, and give what we wrapped its name back."""
    text = read_file(path)
    if not has_block(text):
        return []
    wrapped = _wrapped(path, event)
    is_own = without_block(text) in (SHEBANG + _OWN, SHEBANG + _OWN + _chain(event))
    if not is_own:  # with what a user has added, also to a script that began as ours
        write_file(path, without_block(text).replace(SHEBANG + _OWN, SHEBANG, 1))
        if _chain(event) not in text or not os.path.lexists(wrapped):
            return [Step(REMOVED, f"hook {event}, a block in a script", path)]
        what = f"hook {event}; '{os.path.basename(path)}', which you have changed, goes on to run"
        return [Step(REMOVED, f"{what} '{os.path.basename(wrapped)}'", path)]
    if _chain(event) in text and os.path.lexists(wrapped):
        disk.rename(wrapped, path)
        return [Step(REMOVED, f"hook {event}; what was there before has its name back", path)]
    disk.unlink(path)
    return [Step(REMOVED, f"hook {event}", path)]


def _give_back(path: str, event: str) -> list[Step]:
    """Rename back what we wrapped when another tool has removed our file."""
    wrapped = _wrapped(path, event)
    if not os.path.lexists(wrapped) or _is_same(path, wrapped):
        if os.path.lexists(wrapped):
            disk.unlink(wrapped)
        return []
    if _chain(event) in read_file(path):
        return []
    if os.path.lexists(path):
        what = f"hook {event}: the file that ckpt had renamed is still there beside a new one"
        commands = (_move_away(path), join(["mv", wrapped, path]))
        return [Step(TO_DO, what, wrapped, commands)]
    disk.rename(wrapped, path)
    return [Step(CHANGED, f"hook {event}: it has its name back", path)]


def _run_before(path: str, event: str, python: str, sharing: Sharing) -> Step:
    """Write a hook that runs what has been renamed."""
    wrapped = _wrapped(path, event)
    write_file(path, own_script(event, python, wraps=True), 0o777, sharing)
    what = f"hook {event}; what was there runs after it, as '{os.path.basename(wrapped)}'"
    return Step(ADDED, what, path)


def _move_away(path: str) -> str:
    """The command that makes room; it overwrites nothing."""
    return join(["mv", "-n", path, path + ".away"])


def _is_same(path: str, wrapped: str) -> bool:
    """Whether an install was killed just after it gave a hook its second name."""
    return os.path.lexists(path) and os.path.samestat(os.lstat(path), os.lstat(wrapped))


def _second_name(path: str, wrapped: str) -> None:
    """The hook keeps its first name until ours replaces it."""
    try:
        disk.link(path, wrapped)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        disk.rename(path, wrapped)


def _wrapped(path: str, event: str) -> str:
    return os.path.join(os.path.dirname(path), event + _WRAPPED)


# -- The text of a hook


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
    """A whole hook; it runs what it wraps, also after it has itself been renamed."""
    return SHEBANG + _OWN + block(event, python) + (_chain(event) if wraps else b"")


def _chain(event: str) -> bytes:
    name = f'"${{0%/*}}/{event}{_WRAPPED}"'
    return f'[ ! -x {name} ] || exec {name} "$@"\n'.encode()


def own_lines(text: bytes, event: str, python: str) -> bytes:
    """The lines of a script that call ckpt, if they are exactly what ckpt writes or prints."""
    found = _BLOCK.search(text)
    if found:
        return found[0] if found[0].rstrip(b"\n") + b"\n" == block(event, python) else b""
    line = os.fsencode(line_to_add(event, python)) + b"\n"
    ours = [each for each in text.splitlines(keepends=True) if calls_ckpt(each, event)]
    return line if ours == [line] else b""


def has_block(text: bytes) -> bool:
    return _BLOCK.search(text) is not None


def calls_ckpt(text: bytes, event: str) -> bool:
    """Whether a script takes the checkpoint for a hook, by our block or a line added by hand."""
    called = rb"(?m)^[^#\n]*(?:-m ckpt|git[ -]ckpt) hook %s\b" % event.encode()
    return re.search(called, text) is not None


def with_block(text: bytes, added: bytes) -> bytes:
    """The script with a block after its first line, in place of one that it has."""
    found = _BLOCK.search(text)
    if found:
        new = added if found[0].endswith(b"\n") else added[:-1]
        return text[: found.start()] + new + text[found.end() :]
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
    return (before if found[0].endswith(b"\n") else before[:-1]) + text[found.end() :]


def is_shell(text: bytes) -> bool:
    """Whether a block can be put into a script without harm."""
    if (
        not text.startswith(b"#!")
        or b"\0" in text
        or _READS_ITSELF.search(_ITS_NAME.sub(b"", text))
    ):
        return False
    first, _, rest = text[2:].partition(b"\n")
    if rest.lstrip().startswith((b"'''", b'"""', b"''':", b'":"')) or first.endswith(b"\r"):
        return False  # the rest is a string to Python
    words = first.split()
    if words and os.path.basename(words[0]) == b"env":
        words = words[2:] if words[1:2] == [b"-S"] else words[1:2]
    return (
        bool(words)
        and os.path.basename(words[0]) in _SHELLS
        and all(_HARMLESS_OPTIONS.match(option) for option in words[1:])
    )


# -- Repositories to come, where git has no configured hooks: `init.templateDir`

_KEY = "init.templatedir"


def _template_dir(target: Target) -> str:
    return os.path.join(data_dir(target.env), "git-template")


def _install_template(target: Target, events: Sequence[str]) -> list[Step]:
    folder = _template_dir(target)
    hooks = os.path.join(folder, "hooks")
    if not os.path.isdir(hooks):
        for name in (hooks, os.path.join(folder, "info")):
            NOT_SHARED.make_folders(name)
        exclude = asset("templates/git-template/info/exclude").read_bytes()
        write_file(os.path.join(folder, "info/exclude"), exclude)
    done = [put_in(os.path.join(hooks, event), event, target.python) for event in events]
    steps = [step for step in done if step.action != ADDED]
    theirs = GitConfig.load(target.env).get_path(_KEY)
    if theirs == folder:
        return [*steps, Step(KEPT, "template for new repositories", folder)]
    if theirs:
        into = os.path.join(theirs, "hooks")
        scripts = [os.path.join(hooks, name) for name in sorted(os.listdir(hooks))]
        advice = (join(["mkdir", "-p", into]), join(["cp", "-n", *scripts, into]))
        what = "template for new repositories: you have one of your own, copy the hooks into it"
        return [*steps, Step(NOTE, what, theirs, advice)]
    target.user_config_file.add("init", None, [("templateDir", folder)])
    what = "template for repositories made or cloned from now on"
    hint = "in a repository that is there already: git init, or git ckpt install"
    return [*steps, Step(ADDED, what, folder, (hint,))]


def _uninstall_template(target: Target, events: Sequence[str]) -> list[Step]:
    """Remove hooks from the template, and with the last of them the template itself."""
    folder = _template_dir(target)
    hooks = os.path.join(folder, "hooks")
    steps = [step for e in events for step in take_out(os.path.join(hooks, e), e)]
    if os.path.isdir(hooks) and os.listdir(hooks):
        return steps
    target.user_config_file.remove(lambda key, value: key == _KEY and value == folder)
    if not os.path.isdir(folder):
        return []
    disk.remove_tree(folder)
    return [Step(REMOVED, "template for new repositories", folder)]


# -- Whether pre-commit takes checkpoints here, before its other hooks

_CONFIG = ".pre-commit-config.yaml"
_HOOK = "ckpt-save"
_MARK = re.compile(rb"(?i)generated by pre(?:-commit|k)\b")
_ID = re.compile(rb"""(?m)^[ \t]*(?:-[ \t]+)?(?:\{[ \t]*)?id:[ \t]*["']?([\w.-]+)""")


def inspect_pre_commit(target: Target) -> list[Finding]:
    """One finding where pre-commit is used, none elsewhere."""
    repo = target.require_repo()
    ids = [each.decode() for each in _ID.findall(read_file(os.path.join(repo.worktree, _CONFIG)))]
    if not ids:
        return []
    if _HOOK not in ids:
        told = f"'{_CONFIG}' does not name it; the hooks of 'git ckpt install' need no such entry"
        return [Finding(_HOOK, MISSING, told)]
    try:
        hook = read_file(find_place(repo).file("pre-commit"))
    except Refused:
        hook = b""
    if not _MARK.search(hook):
        told = f"'{_CONFIG}' names it, but pre-commit is not installed as a hook here"
        return [Finding(_HOOK, MISSING, told, "pre-commit install")]
    if ids[0] != _HOOK:
        told = f"'{_CONFIG}' runs '{ids[0]}' first, which may change files before they are saved"
        return [Finding(_HOOK, INSTALLED, told, f"move {_HOOK} to the top of '{_CONFIG}'")]
    return [Finding(_HOOK, INSTALLED, f"the first hook in '{_CONFIG}'")]
