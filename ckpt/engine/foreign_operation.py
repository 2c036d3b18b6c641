# SPDX-License-Identifier: MIT
"""The operation in progress of somebody else's checkpoint, looked at before git goes by it.

Git believes the files of its own operations: a line of a todo list runs a command, an option
lets a patch write outside the worktree, a list of refs is deleted in the end. So of another's
only files of known names come in, each with what a file of its name holds. What makes git run
something, or takes it where nobody would look, is not judged here but gathered: whoever asks
for the rollback has to see it and to agree.
"""

from __future__ import annotations

import re

from ckpt.engine.operation_objects import ONE_COMMIT
from ckpt.engine.tree_check import Unsafe, check_path, shown
from ckpt.store.operation import TODO_LISTS, UPDATE_REFS
from ckpt.store.operation_record import OperationState
from ckpt.store.ref_names import is_branch, is_ref_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ID = rb"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_CONFLICT = re.compile(rb"(?s)" + _ID + rb"(?:\.[0-9]+)?\t(.+)")
# One thing to do on each line: a word or its letter, and what to do it with.
_TODO = re.compile(
    rb"\s*(?:#.*|(?:p|pick|r|reword|e|edit|s|squash|f|fixup|d|drop|revert|l|label|t|reset|m|merge"
    rb"|noop)(?:\s.*)?)?"
)
_COMMAND = re.compile(rb"\s*(?:x|exec|b|break)(?:\s.*)?")
_UPDATE_REF = re.compile(rb"\s*(?:u|update-ref)\s+(\S+)\s*")
_MOST_SHOWN, _LONGEST_SHOWN = 10, 60


def _is_todo(data: bytes) -> bool:
    return b"\0" not in data and all(map(_is_thing_to_do, data.splitlines()))


def _is_thing_to_do(line: bytes) -> bool:
    moved = _UPDATE_REF.fullmatch(line)
    if moved is not None:
        return _is_branch(moved[1])
    return bool(_TODO.fullmatch(line) or _COMMAND.fullmatch(line))


def _is_branch(data: bytes) -> bool:
    name = data.strip()
    return name == b"detached HEAD" or is_branch(name)


def _is_place(data: bytes) -> bool:
    """A branch without its prefix, or a commit, to which a bisect returns."""
    name = data.strip()
    return not name.startswith(b"-") and is_ref_name(b"refs/heads/" + name)


def _are_rewritten(data: bytes) -> bool:
    """Refs that go when a rebase ends."""
    refs = data.splitlines()
    return all(name.startswith(b"refs/rewritten/") and is_ref_name(name) for name in refs)


def _are_moves(data: bytes) -> bool:
    """Three lines for each branch: its name, where it stands, where it shall."""
    lines = data.splitlines()
    ids = [line for number, line in enumerate(lines) if number % 3]
    return all(map(_is_branch, lines[::3])) and all(map(_CHECKS["ids"], ids))


def _are_conflicts(data: bytes) -> bool:
    """Paths that `rerere` writes to, each up to a zero."""
    *conflicts, rest = data.split(b"\0")
    return not rest and all(map(_is_conflict, conflicts))


def _is_conflict(data: bytes) -> bool:
    found = _CONFLICT.fullmatch(data)
    try:
        check_path(found[1] if found is not None else b"")
    except Unsafe:
        return False
    return True


def _only(expression: bytes) -> Callable[[bytes], object]:
    """Nothing else but white space around it, which the expression need not mind: two that may
    take the same spaces try each way to divide them."""
    fullmatch = re.compile(expression).fullmatch
    return lambda data: fullmatch(data.strip())


_CHECKS: dict[str, Callable[[bytes], object]] = {
    "id": _only(_ID),
    "ids": re.compile(rb"(?:" + _ID + rb"\s+)*(?:" + _ID + rb")?").fullmatch,
    "number": _only(rb"[0-9]{0,9}"),
    "flag": _only(rb"(?:[a-z-]{1,30}|[01])?"),
    "fixups": re.compile(rb"(?:(?:fixup|squash)(?: -[cC])? " + _ID + rb"\s*)*").fullmatch,
    "terms": re.compile(rb"[A-Za-z0-9][\w.-]{0,60}\n[A-Za-z0-9][\w.-]{0,60}\n?").fullmatch,
    "strategy": _only(rb"(?:ort|recursive|resolve|octopus|ours|subtree)?"),
    "text": lambda data: True,
    "todo": _is_todo,
    "branch": _is_branch,
    "place": _is_place,
    "rewritten": _are_rewritten,
    "moves": _are_moves,
    "conflicts": _are_conflicts,
}
_FILES = {
    "id": " ".join(ONE_COMMIT),
    "ids": """ORIG_HEAD AUTO_MERGE REBASE_HEAD MERGE_HEAD BISECT_EXPECTED_REV rebase-merge/amend
        rebase-merge/stopped-sha rebase-merge/rewritten-list rebase-merge/rewritten-pending
        rebase-apply/rewritten rebase-apply/abort-safety rebase-apply/original-commit
        sequencer/abort-safety""",
    "number": "rebase-merge/msgnum rebase-merge/end rebase-apply/next rebase-apply/last",
    "flag": """MERGE_MODE BISECT_ANCESTORS_OK BISECT_FIRST_PARENT rebase-merge/quiet
        rebase-merge/verbose rebase-merge/signoff rebase-merge/interactive
        rebase-merge/allow_rerere_autoupdate rebase-merge/reschedule-failed-exec
        rebase-merge/no-reschedule-failed-exec rebase-merge/drop_redundant_commits
        rebase-merge/keep_redundant_commits rebase-merge/cdate_is_adate rebase-merge/ignore_date
        rebase-apply/quiet rebase-apply/utf8 rebase-apply/keep rebase-apply/messageid
        rebase-apply/scissors rebase-apply/quoted-cr rebase-apply/sign rebase-apply/threeway
        rebase-apply/rebasing rebase-apply/applying rebase-apply/dirtyindex""",
    "fixups": "rebase-merge/current-fixups",
    "terms": "BISECT_TERMS",
    "strategy": "rebase-merge/strategy",
    "text": """MERGE_MSG SQUASH_MSG BISECT_LOG BISECT_RUN rebase-merge/message rebase-merge/patch
        rebase-merge/message-fixup rebase-merge/message-squash rebase-apply/patch
        rebase-apply/info rebase-apply/msg rebase-apply/msg-clean rebase-apply/final-commit""",
    "todo": " ".join(TODO_LISTS),
    "branch": "rebase-merge/head-name rebase-apply/head-name",
    "place": "BISECT_START",
    "rewritten": "rebase-merge/refs-to-delete",
    "moves": UPDATE_REFS,
    "conflicts": "MERGE_RR",
}
_CHECK_OF = {path: _CHECKS[kind] for kind, paths in _FILES.items() for path in paths.split()}
_PATCHES = re.compile(r"rebase-apply/[0-9]{1,9}")
_REFS = ("refs/bisect/", "refs/rewritten/")

# Files by which git is told how to go about it. Without being asked about they may say nothing,
# and one of them what names no program, as a strategy does, and has none run, as signing has.
_OPTIONS = "sequencer/opts"
_HOW = f"""rebase-merge/author-script rebase-apply/author-script rebase-apply/apply-opt
    rebase-merge/strategy_opts rebase-merge/gpg_sign_opt rebase-apply/gpg_sign_opt BISECT_NAMES
    {_OPTIONS}""".split()
_HARMLESS = b"""allow-empty allow-empty-message allow-ff allow-rerere-auto drop-redundant-commits
    edit keep-redundant-commits mainline no-commit record-origin signoff""".split()
_OPTION = _only(rb"(?:\[options\]|(?:%s) = (?:true|false|[0-9]{1,9}))?" % b"|".join(_HARMLESS))


def _says_nothing(path: str, data: bytes) -> bool:
    if path == _OPTIONS:
        return all(map(_OPTION, data.split(b"\n")))
    return not data.strip()


def check_files(state: OperationState) -> None:
    """Refuse a file that is not one of git's, or does not hold what git writes into it."""
    for path, data in state.files.contents.items():
        if path not in _HOW and not _check_of(path)(data):
            raise Unsafe(f"'{shown(path.encode())}' does not hold what git writes there")
    for branch in state.branches:
        if not _is_branch(branch):
            raise Unsafe(f"it would move '{shown(branch)}', which is no branch")


def _check_of(path: str) -> Callable[[bytes], object]:
    if path.startswith(_REFS) and is_ref_name(path.encode("utf-8", "surrogateescape")):
        return _CHECKS["id"]
    if _PATCHES.fullmatch(path):
        return _CHECKS["text"]
    found = _CHECK_OF.get(path)
    if found is None:
        raise Unsafe(f"'{shown(path.encode('utf-8', 'surrogateescape'))}' is no file of git's")
    return found


def needs_consent(state: OperationState) -> list[str]:
    """What git would run or go by if the operation went on, as a person can read it."""
    texts = dict.fromkeys(text[:_LONGEST_SHOWN] for text in _commands(state))
    return [*texts][:_MOST_SHOWN]


def _is_order(line: bytes) -> bool:
    return bool(_COMMAND.fullmatch(line) or _UPDATE_REF.fullmatch(line))


def _commands(state: OperationState) -> Iterator[str]:
    for path, data in sorted(state.files.contents.items()):
        if path in TODO_LISTS:
            for line in filter(_is_order, data.splitlines()):
                yield shown(line.strip())
        elif path == UPDATE_REFS:
            for branch in data.splitlines()[::3]:
                yield f"update-ref {shown(branch)}"
        elif path in _HOW and not _says_nothing(path, data):
            yield path
