# SPDX-License-Identifier: MIT
"""The text of an agent's settings: what is ckpt's in it, with it and without it.

Pure functions of texts. What a file may look like is for `agent_formats` to say; a text that is
no JSON, or has something else where the hooks belong, is `Unfit` and left as it is.
"""

from __future__ import annotations

from shlex import split

from ckpt.install import json_edit
from ckpt.install.agent_formats import FORMATS, entry, is_ours
from ckpt.install.json_edit import Draft, Node, NotJson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HOOKS = "hooks"


class Unfit(Exception):
    """The file cannot be edited, for this reason."""


def wanted(agent: str, python: str) -> dict[str, list[Any]]:
    return {event: [entry(agent, event, python)] for event in FORMATS[agent].events}


def found(text: str, agent: str) -> dict[str, list[Any]]:
    """What is ours in a text, by events: the items of each list that run ckpt."""
    hooks = _parse(text, agent).get(_HOOKS) if text.strip() else None
    events = {} if hooks is None else json_edit.load(text, hooks)
    lists = {event: items for event, items in events.items() if isinstance(items, list)}
    ours = {event: [i for i in items if _has_ours(i, agent)] for event, items in lists.items()}
    return {event: items for event, items in ours.items() if items}


def _has_ours(item: object, agent: str) -> bool:
    inner = item.get(_HOOKS) if isinstance(item, dict) else None
    return is_ours(item, agent) or (
        isinstance(inner, list) and any(is_ours(one, agent) for one in inner)
    )


def _parse(text: str, agent: str) -> Node:
    try:
        root = json_edit.parse(text, comments=FORMATS[agent].has_comments)
    except NotJson as error:
        raise Unfit(str(error)) from None
    hooks = root.get(_HOOKS) if root.kind == "object" else None
    lists = () if hooks is None else tuple(map(hooks.get, FORMATS[agent].events))
    if (
        root.kind != "object"
        or (hooks is not None and hooks.kind != "object")
        or any(node is not None and node.kind != "array" for node in lists)
    ):
        raise Unfit("it does not have the form of the agent's settings")
    return root


def python_of(found: dict[str, list[Any]], agent: str) -> str:
    """The interpreter that our entries start."""
    items = [item for event in found.values() for item in event]
    runs = [one for item in items for one in (item, *item.get(_HOOKS, ())) if is_ours(one, agent)]
    try:
        return split(runs[0]["command"])[0]
    except (ValueError, IndexError):
        return ""


def whole(agent: str, python: str) -> str:
    """A settings file with nothing but ckpt's hooks."""
    return json_edit.written({**FORMATS[agent].required, _HOOKS: wanted(agent, python)})


def is_current(text: str, agent: str, python: str) -> bool:
    """Whether all of ours is there as it is to be."""
    return found(text, agent) == wanted(agent, python)


def add(draft: Draft, agent: str, wanted: dict[str, list[Any]]) -> None:
    for key, value in FORMATS[agent].required.items():
        root = _parse(draft.text, agent)
        if root.get(key) is None:
            draft.insert(json_edit.added_member(draft.text, root, key, value))
    root = _parse(draft.text, agent)
    if root.get(_HOOKS) is None:
        draft.insert(json_edit.added_member(draft.text, root, _HOOKS, wanted))
        return
    for event, items in wanted.items():
        hooks = _parse(draft.text, agent).get(_HOOKS)
        assert hooks is not None, "looked for above"
        there = hooks.get(event)
        if there is None:
            draft.insert(json_edit.added_member(draft.text, hooks, event, items))
        else:
            draft.insert(json_edit.added_item(draft.text, there, items[0]))


def is_bare(text: str, agent: str) -> bool:
    """Whether nothing is left in a file that ckpt has made."""
    if not text.strip():
        return True
    left = json_edit.load(text, _parse(text, agent))
    return {key: value for key, value in left.items() if value != {}} in (
        {},
        dict(FORMATS[agent].required),
    )


def without_ours(text: str, agent: str) -> str:
    """The text without ckpt's entries, and without lists and objects that are empty then."""
    while True:
        shorter = _without_one(text, agent)
        if shorter is None:
            return text
        text = shorter


def _without_one(text: str, agent: str) -> str | None:
    """The text without the first entry that is ours; None if there is none."""
    root = _parse(text, agent)
    hooks = root.get(_HOOKS)
    for at, event in enumerate(() if hooks is None else hooks.items):
        for number, item in enumerate(event.items):
            if _has_ours(json_edit.load(text, item), agent):
                assert hooks is not None, "it has this event"
                return _cut_out(
                    text, (root, _last(root, _HOOKS)), (hooks, at), (event, number), agent
                )
    return None


def _cut_out(
    text: str,
    outer: tuple[Node, int],
    middle: tuple[Node, int],
    inner: tuple[Node, int],
    agent: str,
) -> str:
    """Cut an item out, or the outermost of what holds nothing else; of a group with entries of
    others, only ours."""
    group = inner[0].items[inner[1]]
    entries = group.get(_HOOKS) if group.kind == "object" else None
    if entries is not None and len(entries.items) > 1:
        ours = [is_ours(json_edit.load(text, one), agent) for one in entries.items]
        return json_edit.without(text, entries, ours.index(True))
    for node, number in (inner, middle):
        if len(node.items) > 1:
            return json_edit.without(text, node, number)
    return json_edit.without(text, *outer)


def _last(node: Node, key: str) -> int:
    return max(number for number, name in enumerate(node.keys) if name == key)
