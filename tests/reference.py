"""The slow reference: the rules carried out forward, oldest line first, in the plainest code there is.

It knows nothing of the engine and imports nothing of it. It reads everything, keeps everything and may be quadratic.
Where the rules are silent, the reason for what is done here stands beside it in a comment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from tests.reference_context import contextual, texts
from tests.reference_shapes import fits as fits_shape
from tests.reference_shapes import is_communication, is_item, maybe, text

Object = dict[str, Any]

HEAD_BYTES = 1 << 20  # a session_meta is looked for among the lines that begin in here
DEPTH = 128
LEGACY_TOKENS = 20_000
BOM = b"\xef\xbb\xbf"
GLUE = b'{"timestamp":"'
ENVELOPE_TYPES = (
    "session_meta turn_context response_item compacted event_msg world_state token_usage_record"
    " inter_agent_communication inter_agent_communication_metadata dynamic_tools_updated realtime_item"
    " security_risk_score"
).split()
WITHOUT_EFFECT = ("inter_agent_communication_metadata dynamic_tools_updated realtime_item security_risk_score").split()
ITEM_TYPES = (
    "message reasoning function_call function_call_output custom_tool_call custom_tool_call_output local_shell_call"
    " web_search_call tool_search_call tool_search_output image_generation_call compaction compaction_summary"
    " context_compaction agent_message additional_tools configuration_update ghost_snapshot compaction_trigger other"
).split()
EARLIER_SUMMARY = "Another language model started to solve this problem and produced a summary of its thinking process."


class Place(NamedTuple):
    """Where a line or record begins: in which file of the lineage (oldest is 0), and bytes from that file's start."""

    segment: int
    offset: int


class Line(NamedTuple):
    """The verdict on a line or a part of it. `by` is what rolled it back, replaced it or removed it."""

    segment: int
    offset: int
    status: str
    by: Place | None


@dataclass(eq=False)
class Turn:
    """`id` is None where it is derived. `place` is that of its first record."""

    id: str | None
    explicit: bool
    status: str
    place: Place
    first: int  # index of its first record
    stands: bool = False


@dataclass(eq=False)
class Record:
    """One decoded record. `kind` is an envelope type, "malformed" or "other"; `line` is where its line begins."""

    index: int
    place: Place
    line: Place
    kind: str
    payload: Any
    turn: Turn | None = None
    while_open: bool = False  # written while its explicit turn was open
    undone_by: Record | None = None
    out_by: tuple[str, Record] | None = None  # an item that left the history: how, and by which record

    @property
    def event(self) -> str | None:
        return str(self.payload["type"]) if self.kind == "event_msg" else None

    @property
    def item(self) -> Object | None:
        """What it adds to the history, if anything."""
        if self.kind == "response_item" and visible(self.payload):
            return dict(self.payload)
        if self.kind == "inter_agent_communication":
            return agent_message(self.payload)
        return None

    @property
    def contextual(self) -> bool:
        return self.kind == "response_item" and contextual(self.payload)

    @property
    def boundary(self) -> bool:
        item = self.item
        return item is not None and (item["type"] == "agent_message" or is_user_text(item))

    @property
    def compacts(self) -> bool:
        return self.kind == "compacted"

    @property
    def legacy(self) -> bool:
        return self.compacts and self.payload.get("replacement_history") is None


@dataclass
class Reference:
    """The whole answer."""

    history: list[Object]
    origins: list[int]  # for each item the index of the record that said it, be it kept by an old compaction
    previous_model: str | None
    reference_context: Object | None
    reference_state: str
    world_state: Any
    token_usage: Object | None
    session: Object | None
    base_instructions: str | None
    turns: list[Turn]
    damaged_lines: int
    damaged_offsets: list[Place]
    lines: list[Line]
    parts: list[Line]  # the same for each record, damaged piece and blank line
    records: list[Record] = field(repr=False)

    @property
    def standing_turns(self) -> list[Turn]:
        return [turn for turn in self.turns if turn.stands]


def fold(data: bytes, *, bases: Sequence[bytes] = (), missing_base: bool = False) -> Reference:
    """The answer for the file `data` that goes on from `bases` (oldest first, each already cut where it is left)."""
    lines: list[tuple[Place, list[tuple[Place, Record | None]]]] = []
    records: list[Record] = []
    blanks: set[Place] = set()
    for segment, file in enumerate([*bases, data]):
        for offset, line in split_lines(file):
            parts: list[tuple[Place, Record | None]] = []
            for at, value in decode_line(line):
                place, record = Place(segment, offset + at), None
                if value is not None:
                    record = Record(len(records), place, Place(segment, offset), *classify(value))
                    records.append(record)
                parts.append((place, record))
            lines.append((Place(segment, offset), parts))
            if not parts and b"\0" not in line:  # a run of NUL bytes is no line of its own (ours)
                blanks.add(Place(segment, offset))
    turns = find_turns(records)
    for record in records:
        if record.event == "thread_rolled_back":
            roll_back(records, record)
    standing = [record for record in records if record.undone_by is None]
    for turn in turns:
        turn.stands = turn_stands(turn, records)
    state, context = find_reference(turns, standing)
    session = find_session(records, segment=len(bases))
    history = fold_history(standing)
    return Reference(
        history=[entry.item for entry in history],
        origins=[entry.said.index for entry in history],
        previous_model=find_previous_model(turns, standing),
        reference_context=context,
        reference_state=state,
        world_state=find_world_state(standing),
        token_usage=find_token_usage(records),
        session=session,
        base_instructions=find_base_instructions(session),
        turns=turns,
        damaged_lines=sum(any(record is None for _, record in parts) for _, parts in lines) + missing_base,
        damaged_offsets=[place for _, parts in lines for place, record in parts if record is None],
        lines=[line_verdict(place, [record for _, record in parts]) for place, parts in lines],
        parts=[part for place, parts in lines for part in part_verdicts(place, parts, is_blank=place in blanks)],
        records=records,
    )


# Lines


def split_lines(data: bytes) -> list[tuple[int, bytes]]:
    """Every line without its newline, and the tail if there is one, each with its offset."""
    lines, offset = [], 0
    for line in data.split(b"\n"):
        lines.append((offset, line))
        offset += len(line) + 1
    if lines[-1][1] == b"":  # nothing behind the last newline: no tail
        lines.pop()
    return lines


def decode_line(line: bytes) -> list[tuple[int, Object | None]]:
    """The records of a line in order, None for damaged bytes, each with its offset in the line."""
    found: list[tuple[int, Object | None]] = []
    at = 0
    # A raw NUL never stands inside JSON, so a run of them only separates.
    for part in line.split(b"\0"):
        piece = part.lstrip().removeprefix(BOM).lstrip()
        start = at + len(part) - len(piece)
        piece = piece.rstrip()
        at += len(part) + 1
        if piece == b"":
            continue
        record = decode(piece)
        if record is not None:
            found.append((start, record))
            continue
        # Torn, perhaps with the next record glued behind: an unescaped `{"timestamp":"` cannot stand in a JSON string.
        for cut, end in cuts(piece):
            rest = piece[cut:end].lstrip()
            if rest.strip() != b"":
                found.append((start + end - len(rest), decode(rest.strip())))
    return found


def cuts(piece: bytes) -> list[tuple[int, int]]:
    edges = [at for at in range(1, len(piece)) if piece.startswith(GLUE, at) and piece[at - 1 : at] != b"\\"]
    return list(zip([0, *edges], [*edges, len(piece)], strict=True))


def decode(piece: bytes) -> Object | None:
    """The record, or None: not UTF-8, not strict JSON, too deep, or no record."""
    try:
        text = piece.decode("utf-8")
        if nesting(text) > DEPTH:
            return None
        value = json.loads(text, object_pairs_hook=checked_object, parse_constant=no_constant, parse_int=any_int)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and is_record(value) else None


def nesting(text: str) -> int:
    deepest = depth = 0
    in_string = escaped = False
    for char in text:
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            in_string = True
        else:
            depth += (char in "{[") - (char in "}]")
            deepest = max(deepest, depth)
    return deepest


def checked_object(pairs: list[tuple[str, Any]]) -> Object:
    # A lone surrogate cannot be encoded. Not the dict is looked at: a value that a doubled key hides counts too.
    json.dumps(pairs, ensure_ascii=False, default=str).encode("utf-8")
    return dict(pairs)  # of a doubled key the last one counts


def no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def any_int(digits: str) -> int | Decimal:
    return int(digits) if len(digits) < 4000 else Decimal(digits)  # Python refuses longer ones


def is_record(value: Object) -> bool:
    if "type" not in value:
        # Passed over, or the bare session meta of 2025.
        return "record_type" in value or (isinstance(value.get("id"), str) and "timestamp" in value)
    kind = value["type"]
    if not isinstance(kind, str):
        return False
    if "payload" in value:
        return True
    # A bare response item of 2025. One of unknown type too, unless the line shows an envelope that lost its payload.
    in_envelope = any(key in value for key in ("timestamp", "ordinal", "record_type"))
    return kind in ITEM_TYPES or (not in_envelope and kind not in ENVELOPE_TYPES)


# Records


def classify(value: Object) -> tuple[str, Any]:
    """The kind and payload of a record. One that lacks what its kind needs is malformed: it has no effect at all."""
    if "type" not in value:
        return ("other", value) if "record_type" in value else ("session_meta", value)
    kind, payload = (value["type"], value["payload"]) if "payload" in value else ("response_item", value)
    if kind not in ENVELOPE_TYPES or kind in WITHOUT_EFFECT:
        return "other", payload
    return (kind if well_formed(kind, payload) else "malformed"), payload


def well_formed(kind: str, payload: Any) -> bool:
    if kind == "token_usage_record":
        return True
    if not isinstance(payload, dict):
        return False
    if kind == "turn_context":
        return isinstance(payload.get("model"), str)
    if kind == "compacted":
        replacement = payload.get("replacement_history")
        return isinstance(replacement, list) or (replacement is None and isinstance(payload.get("message"), str))
    if kind == "world_state":
        return isinstance(payload.get("full"), bool) and isinstance(payload.get("state"), dict)
    if kind == "response_item":
        # What no model sees anyway is not looked at: S3 knows messages without a role and the hidden types.
        return has_type(payload) and (not visible(payload) or is_item(payload))
    if kind == "inter_agent_communication":
        return is_communication(payload)
    if kind == "event_msg":
        counts = {"thread_rolled_back": "num_turns", "items_removed": "num_items"}
        event = payload.get("type")
        return isinstance(event, str) and (event not in counts or is_count(payload.get(counts[event])))
    return True


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def has_type(value: Any) -> bool:
    return fits_shape(value, {"type": text, "role": maybe(text)})


def visible(item: Object) -> bool:
    """S3. A role of null is no role."""
    if item.get("role") == "system" or item["type"] in ("ghost_snapshot", "compaction_trigger", "other"):
        return False
    return item["type"] != "message" or item.get("role") is not None


def agent_message(payload: Object) -> Object:
    """S6: how a model is shown what another agent said."""
    author, recipient, encrypted = payload["author"], payload["recipient"], payload.get("encrypted_content")
    content = [{"type": "input_text", "text": payload["content"]}]
    if encrypted is not None:
        kind = "NEW_TASK" if payload["trigger_turn"] else "MESSAGE"
        head = f"Message Type: {kind}\nTask name: {recipient}\nSender: {author}\nPayload:\n"
        content = [
            {"type": "input_text", "text": head},
            {"type": "encrypted_content", "encrypted_content": encrypted},
        ]
    return {"type": "agent_message", "author": author, "recipient": recipient, "content": content}


def is_user_text(item: Object) -> bool:
    """A message that a person wrote."""
    return item["type"] == "message" and item.get("role") == "user" and not contextual(item)


# S1


def find_turns(records: list[Record]) -> list[Turn]:
    """All turns, oldest first; gives each record its turn."""
    turns: list[Turn] = []
    open_turn: Turn | None = None
    for record in records:
        if record.event in ("task_started", "turn_started"):
            open_turn = Turn(turn_id(record), True, "interrupted", record.place, record.index)
            turns.append(open_turn)
        elif record.boundary and open_turn is None:
            turns.append(open_implicit(records, record))
        record.turn = turns[-1] if turns else None
        record.while_open = open_turn is not None
        if record.event in ("task_complete", "turn_complete") and open_turn is not None:
            # Whatever id it names: the real program ends the running turn.
            open_turn.status = "completed"
            open_turn = None
        elif record.event == "turn_aborted":
            if open_turn is not None and fits(turn_id(record), open_turn):
                open_turn = None
            elif open_turn is None and turns and not turns[-1].explicit:
                # An implicit turn has no id that the abort could fail to name.
                turns[-1].status = "interrupted"
    return turns


def open_implicit(records: list[Record], boundary: Record) -> Turn:
    """The turn that `boundary` opens, with the unbroken run of records right above it. Damaged bytes are no records."""
    first = boundary.index
    while first > 0 and (records[first - 1].kind in ("turn_context", "world_state") or records[first - 1].contextual):
        first -= 1
    turn = Turn(None, False, "completed", records[first].place, first)
    for record in records[first : boundary.index]:
        record.turn = turn
    return turn


def turn_id(record: Record) -> str | None:
    value = record.payload.get("turn_id")
    return value if isinstance(value, str) else None


def fits(named: str | None, turn: Turn) -> bool:
    return named is None or turn.id is None or named == turn.id


def turn_stands(turn: Turn, records: list[Record]) -> bool:
    """A turn stands while any record of it does: token totals behind the marker too, as the recorded cases have it.

    A marker itself shows nothing of the turn that it ends up in, a session_meta is the file's.
    """
    return any(
        record.turn is turn
        and record.undone_by is None
        and record.event != "thread_rolled_back"
        and record.kind not in ("session_meta", "malformed")
        for record in records
    )


# S2


def roll_back(records: list[Record], marker: Record) -> None:
    """Mark what `marker` undoes. It sees what stands before it and nothing else."""
    count = marker.payload["num_turns"]
    before = records[: marker.index]
    said = [record.index for record in before if record.boundary]  # standing or not
    first = said[0] if said else marker.index

    def undo(record: Record) -> None:
        prefix = record.kind == "response_item" and record.item is not None and record.index < first
        # The file is still this session's, whatever was taken back.
        if record.undone_by is None and not prefix and record.kind != "session_meta":
            record.undone_by = marker

    boundaries = [record for record in before if record.boundary and record.undone_by is None]
    if count == 0:
        return
    if len(boundaries) < count:
        for record in before:
            undo(record)
        return
    cut = boundaries[-count]
    assert cut.turn is not None
    alone = not any(older.turn is cut.turn for older in boundaries[:-count])
    start = cut.turn.first if alone else cut.index
    for record in reversed(records[:start]):
        if record.undone_by is not None:
            continue
        if record in boundaries or record.compacts or record.event == "items_removed":
            break
        if record.item is not None:
            if not record.contextual:
                break
            undo(record)
        # All else is passed over, a turn's end too: the `<turn_aborted>` message of the turn before goes as well.
    for record in records[start : marker.index]:
        undo(record)


def announces(record: Record) -> bool:
    return record.event == "user_message" and record.while_open


# S3


class Entry(NamedTuple):
    """An item of the history, the record that said it, and whether that record still stands for it alone."""

    item: Object
    said: Record
    own: bool = True


def fold_history(standing: list[Record]) -> list[Entry]:
    """The history; notes on each record how its item left it."""
    history: list[Entry] = []
    for record in standing:
        gone: list[Entry] = []
        how = "replaced"
        if record.item is not None:
            history.append(Entry(record.item, record))
        elif record.compacts:
            gone, history = history, replacement(history, record)
        elif record.event == "items_removed":
            how = "removed"
            kept = max(len(history) - record.payload["num_items"], 0)
            history, gone = history[:kept], history[kept:]
        for entry in gone:
            if entry.own:
                entry.said.out_by = (how, record)
    return history


def replacement(history: list[Entry], compaction: Record) -> list[Entry]:
    payload = compaction.payload
    items = payload.get("replacement_history")
    if items is not None:
        # One malformed item costs that item, not the compaction.
        return [
            Entry(item, compaction, own=False) for item in items if has_type(item) and visible(item) and is_item(item)
        ]
    kept: list[Entry] = []
    remaining = LEGACY_TOKENS
    for item, said, _ in reversed(history):
        if remaining <= 0:
            break
        if not is_user_text(item):
            continue
        if "".join(texts(item)).startswith(EARLIER_SUMMARY):
            continue
        parts = words(item)
        total = sum(len(part.encode()) for part in parts)
        cost = -(-total // 4)
        text = user_message(parts if cost <= remaining else cut_middle(parts, 4 * remaining))
        kept.append(Entry(text, said, own=False))
        remaining -= cost
    summary = user_message([payload["message"] or "(no summary available)"])
    return [*reversed(kept), Entry(summary, compaction, own=False)]


def words(item: Object) -> list[str]:
    """The texts of a user's message without the tags around its images; one of nothing but images says nothing."""
    found = texts(item)
    left = [text for text in found if not is_image_tag(text)]
    has_image = any(part.get("type") == "input_image" for part in item["content"])
    if found and not left and not has_image:
        left = found  # tags of no image are what the user wrote
    return left or ([""] if item["content"] else [])


def is_image_tag(text: str) -> bool:
    return text in ("<image>", "</image>") or (text.startswith("<image name=") and text.endswith(">"))


def user_message(parts: list[str]) -> Object:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": part} for part in parts]}


def cut_middle(parts: list[str], budget_bytes: int) -> list[str]:
    """The parts seen as one text; its middle becomes a part of its own that tells how much is missing."""
    total = sum(len(part.encode()) for part in parts)
    left_end = budget_bytes // 2
    right_start = total - (budget_bytes - budget_bytes // 2)
    tokens = -(-(total - budget_bytes) // 4)
    left: list[str] = []
    right: list[str] = []
    at = 0
    for part in parts:
        raw = part.encode()
        # Decoding with "ignore" drops the character that the cut went through: inward, on both sides.
        left.append(raw[: max(left_end - at, 0)].decode("utf-8", "ignore"))
        right.append(raw[max(right_start - at, 0) :].decode("utf-8", "ignore"))
        at += len(raw)
    return [part for part in [*left, f"…{tokens} tokens truncated…", *right] if part]


# S4


def of_turn(turn: Turn, standing: list[Record]) -> tuple[bool, list[Record], list[Record]]:
    """Whether a person spoke in it, its contexts, its compactions; only what stands, oldest first."""
    mine = [record for record in standing if record.turn is turn]
    return (
        any(record.boundary or announces(record) for record in mine),
        [record for record in mine if record.kind == "turn_context" and fits(turn_id(record), turn)],
        [record for record in mine if record.compacts],
    )


def find_previous_model(turns: list[Turn], standing: list[Record]) -> str | None:
    for turn in reversed(turns):
        user, contexts, _ = of_turn(turn, standing)
        if user and contexts:
            return str(contexts[0].payload["model"])
    return None


def find_reference(turns: list[Turn], standing: list[Record]) -> tuple[str, Object | None]:
    compactions = [record for record in standing if record.compacts]
    if compactions and compactions[-1].legacy:
        return "cleared", None
    for turn in reversed(turns):
        user, contexts, cleared = of_turn(turn, standing)
        # In any turn, one without a user message and the tail behind a turn too.
        if cleared and (not contexts or contexts[-1].index < cleared[-1].index):
            return "cleared", None
        if user and contexts:
            return "set", contexts[-1].payload
    return ("cleared" if any(record.turn is None for record in compactions) else "never"), None


def find_world_state(standing: list[Record]) -> Any:
    state: Any = None
    for record in standing:
        if record.compacts:
            state = None
        elif record.kind == "world_state":
            if record.payload["full"]:
                state = record.payload["state"]
            elif state is not None:  # a patch on nothing gives nothing
                state = merge_patch(state, record.payload["state"])
    return state


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396, as it is written there."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def find_token_usage(records: list[Record]) -> Object | None:
    """The newest totals of the log, undone or not: they were spent."""
    usage: Object | None = None
    for record in records:
        if record.compacts and not record.legacy and record.undone_by is None:
            usage = None  # older totals count the tokens of a history that is gone
        found = totals(record)
        usage = usage if found is None else found
    return usage


def totals(record: Record) -> Object | None:
    found: Any = None
    if record.event == "token_count":
        found = dig(record.payload, "info", "total_token_usage")
    elif record.kind == "token_usage_record":
        found = dig(record.payload, "thread_token_usage")
    elif record.compacts:
        found = dig(record.payload, "latest_token_usage_record", "thread_token_usage")
    return found if isinstance(found, dict) else None


def dig(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def find_session(records: list[Record], *, segment: int) -> Object | None:
    """A session_meta in a base is the base's. A later one is that of a source whose lines were copied."""
    for record in records:
        if record.kind == "session_meta" and record.place.segment == segment and record.line.offset < HEAD_BYTES:
            return dict(record.payload)
    return None


def find_base_instructions(session: Object | None) -> str | None:
    # The text, the same as a plain string, the key of 2025.
    candidates: list[Callable[[Object], Any]] = [
        lambda meta: dig(meta, "base_instructions", "text"),
        lambda meta: meta.get("base_instructions"),
        lambda meta: meta.get("instructions"),
    ]
    for candidate in candidates:
        value = candidate(session or {})
        if isinstance(value, str):
            return value
    return None


# Why


def line_verdict(place: Place, parts: list[Record | None]) -> Line:
    """The verdict on the line's last record, also where damaged bytes stand beside it."""
    found = [record for record in parts if record is not None]
    if not found:
        return Line(*place, "damaged" if parts else "blank", None)
    status, by = verdict(found[-1])
    return Line(*place, status, by.line if by else None)


def part_verdicts(line: Place, parts: list[tuple[Place, Record | None]], *, is_blank: bool) -> list[Line]:
    if not parts:
        return [Line(*line, "blank", None)] if is_blank else []
    found: list[Line] = []
    for place, record in parts:
        status, by = verdict(record) if record else ("damaged", None)
        found.append(Line(*place, status, by.place if by else None))
    return found


def verdict(record: Record) -> tuple[str, Record | None]:
    if record.kind == "malformed":
        return "damaged", None
    if record.kind == "event_msg":
        return "event", None  # it happened; that does not become untrue
    if record.item is None and record.kind not in ("turn_context", "world_state", "compacted"):
        return "metadata", None
    if record.undone_by is not None:
        return "rolled_back", record.undone_by
    if record.item is None:
        return "metadata", None
    return record.out_by or ("visible", None)
