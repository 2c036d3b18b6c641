# SPDX-License-Identifier: MIT
"""Settings from the repository's own file, `ckpt.toml` or a table of pyproject.toml.

Apart, because few repositories have either: a TOML parser is imported for those only. The file
comes with whatever was checked out, and may be written to do harm: it is read with care.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from ckpt.patterns import lazy_pattern
from ckpt.setting_sources import SettingsError, Source, mend, printable, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def from_pyproject(text: bytes, name: str = "pyproject.toml") -> Source:
    if b"ckpt" not in text:  # spares most repositories a TOML parser
        return Source("repository file", name, {})
    table = _subtable(_toml(text, name), "tool", f"{name}: tool")
    table = _subtable(table, "ckpt", f"{name}: tool.ckpt")
    values = dict(flat(table))
    places = {key: f"{name}: tool.ckpt.{printable(key)}" for key in values}
    return Source("repository file", name, values, places)


def from_ckpt_toml(text: bytes, name: str = "ckpt.toml") -> Source:
    return Source("repository file", name, dict(flat(_toml(text, name))))


_LONG_DOTTED_KEY = lazy_pattern(
    rb"""(?<![\w\\-])(?:(?:[\w-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')[ \t]*\.[ \t]*){64}"""
)


def _toml(text: bytes, name: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    # The parser takes minutes over a key of some ten thousand parts.
    long_key = _LONG_DOTTED_KEY.search(text)
    if long_key:
        line = text.count(b"\n", 0, long_key.start()) + 1
        raise _invalid(name, f"key of too many parts (at line {line})")
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise _invalid(name, f"not UTF-8 (at line {line})") from error
    except RecursionError as error:
        raise _invalid(name, "nested too deeply") from error
    except ValueError as error:
        reason = str(error)
        raise _invalid(name, f"{reason[:1].lower()}{reason[1:]}") from error


def _invalid(name: str, reason: str) -> SettingsError:
    return SettingsError(f"{name}: invalid TOML: {reason}", hint=mend(name))


def _subtable(table: dict[str, Any], key: str, place: str) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        file = place.partition(": ")[0]
        raise SettingsError(f"{place}: expected a table, got {shown(value)}", hint=mend(file))
    return value


def flat(
    table: Mapping[str, object], prefix: str = "", depth: int = 3
) -> Iterator[tuple[str, object]]:
    """Tables within tables become dotted keys; no setting of ours lies deeper than three."""
    for key, value in table.items():
        if isinstance(value, dict) and value and depth > 1:
            yield from flat(value, f"{prefix}{key}.", depth - 1)
        else:
            yield prefix + key, value
