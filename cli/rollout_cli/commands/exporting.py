"""One session as a document: export."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

import rollout
from rollout_cli.commands.reading import check_is_rollout
from rollout_cli.failures import FINE
from rollout_cli.homes import point, reference
from rollout_cli.options import At, Form, Home, Json, Source
from rollout_cli.terminal import Output, ProgressCallback, print_error, progress
from rollout_cli.units import count
from rollout_cli.views import encode

_FORM = "html, md, json, jsonl or openai; else as the output ends, or md."
_WRITE_BYTES = 1 << 18
_SUFFIXES = {".html": Form.html, ".htm": Form.html, ".md": Form.md, ".json": Form.json, ".jsonl": Form.jsonl}


def export(
    source: Source,
    form: Annotated[Form | None, typer.Option("--format", "-f", metavar="FORM", help=_FORM)] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Else it is printed.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    images: Annotated[bool, typer.Option("--images", help="Keep the pictures (html, openai).")] = False,
    redact: Annotated[bool, typer.Option("--redact/--no-redact", help="Mask keys, tokens, passwords.")] = True,
    at: At = None,
    home: Home = None,
    json: Json = False,
) -> int:
    """Write a session for others: html (a page), md, json, jsonl (a rollout again) or openai (the next request).

    Secrets are masked, as far as they can be recognized, and counted. For example: rollout export -1 -o session.html
    """
    path = None if output is None else Path(output).expanduser()
    form = form or (Form.md if path is None else _SUFFIXES.get(path.suffix.lower(), Form.md))
    _check(form, path, force, json)
    redactor = rollout.Redactor() if redact else None
    out = Output()
    with progress() as advance:
        pieces, size = _pieces(form, source, at, home, redactor, images, path, advance), 0
        if path is not None:
            size = _write(path, pieces)
        elif form in (Form.md, Form.html):
            out.print_document(pieces)
        else:
            out.print_json(pieces)
    if json:
        counts = {} if redactor is None else dict(redactor.counts)
        head = {"format": form.value, "path": str(path), "bytes": size}
        out.print_json([encode({**head, "redacted": sum(counts.values()), "kinds": counts})])
    else:
        written = "" if path is None else f"{form.value} written to {path}, {size:,} bytes. "
        print_error(f"rollout: {written}{say_redacted(redactor)}")
    return FINE


def _check(form: Form, path: Path | None, force: bool, json: bool) -> None:
    if path is None and json:
        raise rollout.UsageError("--json is of a file that was written", remedy="give --output FILE")
    if path is None and form is Form.html and sys.stdout is not None and sys.stdout.isatty():
        raise rollout.UsageError("a page is not for a terminal", remedy="give --output FILE.html, or a pipe")
    if path is not None and not path.parent.is_dir():
        raise rollout.UsageError(f"there is no folder {path.parent}", remedy="make it, or give another --output")
    if path is not None and os.path.lexists(path) and not _is_stream(path) and (not force or path.is_dir()):
        raise rollout.UsageError(f"{path} is there already", remedy="give another --output, or --force")


def _pieces(
    form: Form,
    source: str,
    at: str | None,
    home: str | None,
    redactor: "rollout.Redactor | None",
    images: bool,
    output: Path | None,
    advance: ProgressCallback | None,
) -> Iterator[bytes]:
    from rollout_cli.export import values
    from rollout_cli.export.chronicle import Chronicle
    from rollout_cli.export.presenting import Presenter

    ref, moment = reference(source, home), point(at)
    if form is Form.openai:
        state = rollout.reconstruct(ref, at=moment, home=home, progress=advance)
        check_is_rollout(state.path, state.records_decoded > 0 or not state.damage)
        pieces, paths = values.to_openai(state, redactor, images=images), {str(state.path)}
    else:
        chronicle = Chronicle(ref, home, advance, at=moment)
        check_is_rollout(chronicle.path, bool(chronicle.statuses.keys() - {"damaged", "blank"}))
        paths = {path for path in chronicle.paths if path is not None}
        if form is Form.jsonl:
            pieces = values.to_jsonl(chronicle, redactor)
        elif form is Form.json:
            pieces = values.to_json(chronicle, redactor)
        else:
            from rollout_cli.export import markdown, page

            write = markdown.to_markdown if form is Form.md else page.to_page
            written = write(chronicle, Presenter(redactor, images=images), lambda: say_redacted(redactor))
            pieces = (text.encode(errors="backslashreplace") for text in written)
    if output is not None and output.exists() and any(output.samefile(path) for path in paths):
        raise rollout.UsageError(f"{output} is what is exported", remedy="give another --output")
    yield from pieces


def say_redacted(redactor: "rollout.Redactor | None") -> str:
    """How many secrets were masked, and of which kinds."""
    if redactor is None:
        return "Secrets were not looked for."
    counts = sorted(redactor.counts.items(), key=lambda each: (-each[1], each[0]))
    if not counts:
        return "No secrets were found."
    kinds = ", ".join(f"{number} {kind}" for kind, number in counts)
    return f"{count(redactor.total, 'secret')} masked: {kinds}."


def _is_stream(path: Path) -> bool:
    """Whether it takes bytes and keeps no file, as a pipe or /dev/null does."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _write(path: Path, pieces: Iterable[bytes]) -> int:
    """A file that is whole or not there; its size in bytes. A stream is written to, and what a link leads to."""
    path = path.resolve()
    if _is_stream(path):
        with path.open("wb", buffering=_WRITE_BYTES) as file:
            return sum(file.write(piece) for piece in pieces)
    making = path.with_name(f".{path.name}.{os.getpid()}.making")
    try:
        with making.open("wb", buffering=_WRITE_BYTES) as file:
            for piece in pieces:
                file.write(piece)
            size = file.tell()
        making.replace(path)
    finally:
        making.unlink(missing_ok=True)
    return size
