"""Labels: the session_id and the tags that group records.

They stand in the envelope of a line, ahead of its type: `{"timestamp":…,"session_id":"…","tags":{…},"type":…}`.
A label that is made is right or is not made (UsageError); of one that is read, each part that is not right counts as
unset, and no record is lost to it. Records without an envelope (of 2025, or in a replacement_history) have no label.

A tag `session_id` says the same as the session_id: alone it is the session_id, beside another one it is an error.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rollout.errors import UsageError
from rollout.format.strict_json import mend
from rollout.ids import SessionId
from rollout.limits import LABEL_TAGS, TAG_KEY_CHARACTERS, TAG_VALUE_CHARACTERS

SESSION_ID = "session_id"
_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SIGNS = (b'"session_id"', b'"tags"')
_SHOWN_CHARACTERS = 80
_encode = msgspec.json.Encoder(order="sorted").encode


def check_session_id(text: object) -> SessionId:
    """`text` itself if it can be a session_id: 1 to 64 of A-Z a-z 0-9 _ - and nothing else.

    Raises:
        UsageError: it cannot.
    """
    found = _SESSION_ID.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise UsageError(f"{_shown(text)} is no session_id", remedy="give 1 to 64 of A-Z a-z 0-9 _ -")
    return SessionId(found[0])


@dataclasses.dataclass(frozen=True)
class Label:
    """A session_id (None: unset) and tags, made of what is given; UsageError for what is not right."""

    session_id: SessionId | None = None
    tags: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_by_tag: bool = dataclasses.field(default=False, init=False, repr=False, compare=False)
    """Only a tag gave the session_id."""

    def __post_init__(self) -> None:
        tags = _checked(self.tags)
        own = None if self.session_id is None else check_session_id(self.session_id)
        tagged = check_session_id(tags[SESSION_ID]) if SESSION_ID in tags else own
        if tagged != own and own is not None:
            remedy = "leave one of them out, or let them agree"
            raise UsageError(f"the session_id is {own}, but the tag session_id is {tagged}", remedy=remedy)
        is_by_tag = own is None and tagged is not None
        vars(self).update(session_id=tagged, tags=MappingProxyType(tags), is_by_tag=is_by_tag)

    @functools.cached_property
    def envelope(self) -> bytes:
        """The keys as they stand in a line, with a comma behind."""
        named = b"" if self.session_id is None else b'"session_id":"%b",' % self.session_id.encode()
        if not self.tags:
            return named
        # What begins like a record is taken for one where a damaged line is searched for records.
        spelled = _encode(dict(self.tags)).replace(b'{"timestamp":', b'{ "timestamp":', 1)
        return b'%b"tags":%b,' % (named, spelled)

    def __bool__(self) -> bool:
        """Whether anything is set."""
        return bool(self.envelope)

    def __hash__(self) -> int:
        return hash((self.session_id, frozenset(self.tags.items())))

    def __reduce__(self) -> tuple[Any, ...]:  # a mapping that cannot be changed can neither be copied nor pickled
        return Label, (self.session_id, dict(self.tags))

    def around(self, inner: Label) -> Label:
        """What is said inside of this label, added to it: the inner session_id counts, and each inner tag.

        Raises:
            UsageError: a tag disagrees with the session_id in force, which a tag alone does not change.
        """
        if not inner or not self:
            return inner or self
        if inner.is_by_tag and self.session_id not in (None, inner.session_id):
            raise UsageError(
                f"the tag session_id is {inner.session_id}, but the session_id here is {self.session_id}",
                remedy=f"give session_id={inner.session_id!r} beside it, or leave it out",
            )
        session_id = inner.session_id or self.session_id
        tags = {**self.tags, **inner.tags}
        if SESSION_ID in tags and session_id is not None:
            tags[SESSION_ID] = session_id
        return Label(session_id, tags)

    def fits(self, wanted: Label) -> bool:
        """Whether it has the session_id and all the tags that are wanted, as far as any are."""
        if wanted.session_id is not None and self.session_id != wanted.session_id:
            return False
        return all(self.tags.get(key) == value for key, value in wanted.tags.items() if key != SESSION_ID)


def label(session_id: str | None = None, tags: Mapping[str, str] | None = None) -> Label:
    """What is given as a label; UsageError."""
    if session_id is None and tags is None:
        return UNLABELLED
    return Label(None if session_id is None else check_session_id(session_id), {} if tags is None else tags)


def can_hold_label(block: bytes) -> bool:
    """False if no line in these bytes (one line or many) has a label: much cheaper than looking."""
    return _SIGNS[0] in block or _SIGNS[1] in block


def label_of(line: bytes) -> Label:
    """The label of a line that holds a record; what is not right in it is left out. Never fails."""
    return read_label(line)[0] if can_hold_label(line) else UNLABELLED


class _Labelled(msgspec.Struct, frozen=True, gc=False):
    session_id: Raw | UnsetType = UNSET
    tags: Raw | UnsetType = UNSET
    payload: Raw | UnsetType = UNSET


_labelled, _values = msgspec.json.Decoder(_Labelled), msgspec.json.Decoder(dict[str, Raw] | None)
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


def read_label(line: bytes) -> tuple[Label, tuple[str, ...]]:
    """The label of a line that holds a record, and what is wrong with it."""
    if not can_hold_label(line):  # a key that is spelled with escapes is none of ours
        return UNLABELLED, ()
    try:
        found = _labelled.decode(line)
    except _UNREADABLE:
        return UNLABELLED, ()
    if found.payload is UNSET:
        return UNLABELLED, ()
    return _judge(*(b"null" if raw is UNSET else bytes(raw) for raw in (found.session_id, found.tags)))


@functools.lru_cache(maxsize=256)  # most lines of a log have the same one
def _judge(raw_session_id: bytes, raw_tags: bytes) -> tuple[Label, tuple[str, ...]]:
    wrong: list[str] = []
    tags, session_id = _read_tags(raw_tags, wrong), None
    try:
        told = msgspec.json.decode(raw_session_id, type=str | None)
        session_id = None if told is None else check_session_id(told)
    except _UNREADABLE:
        wrong.append("its session_id is not a string")
    except UsageError as error:
        wrong.append(error.message)
    tagged = tags.get(SESSION_ID)
    if tagged is not None and session_id not in (None, tagged):
        wrong.append(f"its tag session_id is {_shown(tagged)}, its session_id {session_id}")
        del tags[SESSION_ID]
    return Label(session_id, tags), tuple(wrong)


def _read_tags(raw: bytes, wrong: list[str]) -> dict[str, str]:
    try:
        values = _values.decode(raw) or {}
    except _UNREADABLE:
        wrong.append("its tags are no object")
        return {}
    if len(values) > LABEL_TAGS:
        wrong.append(f"it has {len(values)} tags, more than {LABEL_TAGS}")
        return {}
    tags: dict[str, str] = {}
    for key, value in values.items():
        try:
            text = msgspec.json.decode(value, type=str)
            tags |= {key: check_session_id(text)} if key == SESSION_ID else _checked({key: text})
        except _UNREADABLE:
            wrong.append(f"the tag {_shown(key)} is no string")
        except UsageError as error:
            wrong.append(error.message)
    return tags


def _checked(tags: Any) -> dict[str, str]:
    """A copy of tags that may be set, without lone surrogates."""
    if not isinstance(tags, Mapping):
        raise UsageError(f"tags are {_shown(tags)}", remedy="give a mapping of strings to strings")
    found: dict[Any, Any] = mend(tags)
    if len(found) > LABEL_TAGS:
        raise UsageError(f"{len(found)} tags", remedy=f"give {LABEL_TAGS} at most")
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise UsageError(f"the tag {_shown(key)} is {_shown(value)}", remedy="give strings")
        if not 0 < len(key) <= TAG_KEY_CHARACTERS:
            raise UsageError(f"{_shown(key)} is no key of a tag", remedy=f"give 1 to {TAG_KEY_CHARACTERS} characters")
        if len(value) > TAG_VALUE_CHARACTERS:
            remedy = f"give {TAG_VALUE_CHARACTERS} at most"
            raise UsageError(f"the tag {_shown(key)} has {len(value)} characters", remedy=remedy)
    return found


def _shown(value: object) -> str:
    """A value in an error message: as ASCII, cut."""
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


UNLABELLED = Label()
