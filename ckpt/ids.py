# SPDX-License-Identifier: MIT
"""Checkpoint ids and names: how they are made and what they may be.

An id is a UTC time with milliseconds and four random characters, so that ids sort by
age and two processes do not collide: `20261115-233412-123-k7pq`. The alphabet leaves
out letters that are mistaken for others.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from ckpt.errors import UsageError

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
PATTERN = re.compile(rf"(?a)\d{{8}}-\d{{6}}-\d{{3}}-[{ALPHABET}]{{4}}")
MAX_NAME = 200
MAX_DESCRIPTION = 64 * 1024


def is_id(text: str) -> bool:
    return PATTERN.fullmatch(text) is not None


def new_id(now: datetime, newest: str | None) -> str:
    """An id for `now`, or for a millisecond after `newest` where the clock is behind it."""
    start = stamp(now)
    if newest is not None and start <= newest[: len(start)]:
        try:
            start = stamp(_time_of(newest) + timedelta(milliseconds=1))
        except (ValueError, OverflowError):  # no id of ours: no time, or the end of time
            pass
    # The alphabet has 32 letters, so that every one is as likely as the others.
    return start + "-" + "".join(ALPHABET[byte % len(ALPHABET)] for byte in os.urandom(4))


def stamp(moment: datetime) -> str:
    """What the id of a moment begins with."""
    return moment.astimezone(timezone.utc).strftime("%Y%m%d-%H%M%S-") + (
        f"{moment.microsecond // 1000:03d}"
    )


def _time_of(checkpoint_id: str) -> datetime:
    moment = datetime.strptime(checkpoint_id[:15], "%Y%m%d-%H%M%S")
    return moment.replace(microsecond=int(checkpoint_id[16:19]) * 1000, tzinfo=timezone.utc)


def possible_ids(names: Iterable[str]) -> list[str]:
    """Those of `names` that are ids, newest first."""
    return sorted(filter(is_id, names), reverse=True)


def matches(checkpoint_id: str, word: str) -> bool:
    """Whether an id, or its last part, begins with a word."""
    return checkpoint_id.startswith(word) or checkpoint_id.rpartition("-")[2].startswith(word)


def check_name(name: str) -> str:
    """A name as it will be stored, or a `UsageError` that says what is wrong with it."""
    name = name.strip()
    problem = _problem_with(name)
    if problem is not None:
        raise UsageError(
            f"invalid checkpoint name: {problem}",
            hint="choose a short line of text, such as: git ckpt save before-refactor",
        )
    return name


def has_controls(text: str) -> bool:
    """Whether a text has line breaks or other characters that are obeyed rather than shown."""
    return any(unicodedata.category(char) in ("Cc", "Zl", "Zp") for char in text)


def _problem_with(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(name) > MAX_NAME:
        return f"it has {len(name):,} characters, more than {MAX_NAME}"
    if has_controls(name):
        return "it holds a line break or another control character"
    if not _is_utf8(name):
        return "it is not valid UTF-8"
    if name.startswith("-"):
        return f"'{name}' begins with '-', like an option"
    if name.startswith("latest"):
        return f"'{name}' begins with 'latest', which names the newest checkpoint"
    if is_id(name):
        return f"'{name}' has the form of an id"
    return None


def check_description(description: str) -> str | None:
    """A description as it will be stored; None if nothing is left of it."""
    description = description.replace("\r\n", "\n").strip()
    if "\0" in description or not _is_utf8(description):
        raise UsageError("the description is not text", hint="pass valid UTF-8 without NUL bytes")
    if len(description.encode()) > MAX_DESCRIPTION:
        raise UsageError(
            f"the description is longer than {MAX_DESCRIPTION // 1024} KiB",
            hint="put long texts into --data, which is kept apart from the message",
        )
    return description or None


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
