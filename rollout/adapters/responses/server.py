"""A recording served over HTTP, as the Responses API: `POST /v1/responses`, streaming and not.

The server listens on the loopback interface alone, and refuses what comes from a web page. Also served are
`POST /v1/responses/compact`, `GET /v1/responses/ID` and `GET /v1/models`, each with and without `/v1`. A request that
departs from the recording gets status 400, code `departs_from_recording` and the first difference, which clients do not
try again. Needs nothing but the standard library.
"""

from __future__ import annotations

import dataclasses
import http.server
import json
import logging
import os
import threading
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Any, ClassVar

from rollout.adapters.responses.events import make_events
from rollout.adapters.responses.matching import Ignored
from rollout.adapters.responses.recording import Answer, Departure, Recording
from rollout.errors import RolloutError, UsageError
from rollout.files.source import AnySource

HOST = "127.0.0.1"
_MOST_BYTES = 256 * 1024 * 1024
_log = logging.getLogger(__name__)
_LOCAL_NAMES = frozenset({HOST, "localhost"})


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what became of it. `call` is the recorded call that answered, or comes nearest (None: none).

    `notes`: what was different and let pass; `error`: why there is no answer (None: there is one).
    """

    call: int | None
    line: int | None
    streamed: bool
    notes: tuple[str, ...] = ()
    error: str | None = None


class Server(http.server.ThreadingHTTPServer):
    """Answers requests from a rollout, each in a thread of its own; `run` serves.

    `port` 0 takes any free one. `ignored` (outputs, context, reasoning) and `is_strict` as for `Recording`.
    `on_exchange` is told of each request, one at a time; what it raises ends the server. UsageError if the port cannot
    be had, or no model answers anything in the rollout; SourceError.
    """

    daemon_threads = True

    def __init__(
        self,
        source: AnySource,
        *,
        home: str | os.PathLike[str] | None = None,
        port: int = 0,
        ignored: Collection[str] = (),
        is_strict: bool = False,
        on_exchange: Callable[[Exchange], None] | None = None,
    ) -> None:
        self.recording = Recording(source, home=home, ignored=[Ignored(each) for each in ignored], is_strict=is_strict)
        if not self.recording.calls:
            what = "no model answered anything in it"
            raise UsageError(what, path=self.recording.path, remedy="give another rollout")
        self._on_exchange, self._lock = on_exchange, threading.Lock()
        self._failure: BaseException | None = None
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            what = f"port {port} cannot be had ({error})"
            raise UsageError(what, remedy="give another one, or 0 for any that is free") from error

    @property
    def url(self) -> str:
        """What a client takes for its base URL."""
        return f"http://{HOST}:{self.server_address[1]}/v1"

    def run(self) -> None:
        """Serve until `shutdown` is called, in another thread, or an interrupt comes."""
        with self:
            self.serve_forever(poll_interval=0.1)
        if self._failure is not None:
            raise self._failure

    def tell(self, exchange: Exchange) -> None:
        """Hand on what became of a request."""
        if self._on_exchange is None:
            return
        with self._lock:
            try:
                if self._failure is None:
                    self._on_exchange(exchange)
            except Exception as error:  # noqa: BLE001  # it is raised again where the server was started
                self._failure = error
                threading.Thread(target=self.shutdown).start()


class _Refused(Exception):
    """A request that gets an error in the API's form."""

    def __init__(self, status: HTTPStatus, message: str, code: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "rollout", ""
    timeout = 600
    server: Server
    compacts: ClassVar[dict[str, bool]] = {"/responses": False, "/responses/compact": True}

    def do_POST(self) -> None:
        """Answer a request for a response."""
        self._guarded(self._post)

    def do_GET(self) -> None:
        """Give a response again, or the models."""
        self._guarded(self._get)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Nothing: what is to be told of a request goes to `Server.tell`."""

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            self._check_is_local()
            work()
        except _Refused as refused:
            self._refuse(refused)
        except RecursionError:
            self._refuse(_Refused(HTTPStatus.BAD_REQUEST, "the body is nested too deeply", "invalid_json"))
        except RolloutError as error:
            status = HTTPStatus.BAD_REQUEST if isinstance(error, UsageError) else HTTPStatus.INTERNAL_SERVER_ERROR
            self.server.tell(Exchange(None, None, False, error=str(error)))
            self._refuse(_Refused(status, str(error), "invalid_request"))
        except (ConnectionError, TimeoutError):  # the client has gone; it may ask again
            self.close_connection = True
        except Exception as error:  # noqa: BLE001  # one request must not end the server
            _log.debug("a request failed", exc_info=True)
            self.close_connection = True
            told = f"a request failed unexpectedly ({type(error).__name__})"
            self.server.tell(Exchange(None, None, False, error=told))
            self._refuse(_Refused(HTTPStatus.INTERNAL_SERVER_ERROR, told, "failed"))

    def _check_is_local(self) -> None:
        """A page in a browser can reach this port, too: under its own name for it, or naming itself."""
        host = self.headers.get("Host", HOST).rpartition(":")[0] or self.headers.get("Host", HOST)
        if host not in _LOCAL_NAMES or "Origin" in self.headers:
            self.close_connection = True
            raise _Refused(HTTPStatus.FORBIDDEN, "only programs on this machine are answered", "not_local")

    def _post(self) -> None:
        body = self._read_body()
        path = self._path()
        if path not in self.compacts:
            raise _Refused(HTTPStatus.NOT_FOUND, f"a recording does not answer {self.path!r}", "not_found")
        try:
            request = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}", "invalid_json") from error
        if not isinstance(request, dict):
            raise _Refused(HTTPStatus.BAD_REQUEST, "the body is not a JSON object", "invalid_json")
        is_compaction = self.compacts[path]
        streams = request.get("stream") is True and not is_compaction
        found = self.server.recording.answer(request, is_compaction=is_compaction)
        number, line = (None, None) if found.call is None else (found.call.number, found.call.line)
        if isinstance(found, Departure):
            self.server.tell(Exchange(number, line, streams, error=found.message))
            param = None if found.difference is None else f"input[{found.difference.place}]"
            raise _Refused(HTTPStatus.BAD_REQUEST, found.message, "departs_from_recording", param)
        self.server.tell(Exchange(number, line, streams, found.notes))
        if streams:
            self._stream(found)
        else:
            self._send_json(HTTPStatus.OK, found.response)

    def _get(self) -> None:
        recording, path = self.server.recording, self._path()
        if path == "/models":
            names = dict.fromkeys(call.model for call in recording.calls if call.model is not None)
            models = [{"id": name, "object": "model", "created": 0, "owned_by": "recording"} for name in names]
            self._send_json(HTTPStatus.OK, {"object": "list", "data": models})
            return
        response = recording.retrieve(path.removeprefix("/responses/"))
        if response is None:
            raise _Refused(HTTPStatus.NOT_FOUND, f"a recording does not answer {self.path!r}", "not_found")
        self._send_json(HTTPStatus.OK, response)

    def _path(self) -> str:
        return self.path.partition("?")[0].rstrip("/").removeprefix("/v1")

    def _read_body(self) -> bytes:
        self.close_connection = True  # until the body is read, what follows cannot be told from it
        if self.headers.get("Content-Encoding", "identity") != "identity":
            raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body is packed; send it as it is", "packed")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "the request does not tell its length", "length_required")
        if int(length) > _MOST_BYTES:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is over {_MOST_BYTES} bytes", "too_large")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionError
        self.close_connection = self.headers.get("Connection", "").lower() == "close"
        return body

    def _stream(self, answer: Answer) -> None:
        self._begin(HTTPStatus.OK, "text/event-stream; charset=utf-8", ("Transfer-Encoding", "chunked"))
        for event in make_events(answer.response):
            data = b"event: %s\ndata: %s\n\n" % (event["type"].encode(), _dump(event))
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def _refuse(self, refused: _Refused) -> None:
        error = {"message": str(refused), "type": "invalid_request_error", "param": refused.param, "code": refused.code}
        self._send_json(refused.status, {"error": error})

    def _send_json(self, status: HTTPStatus, document: dict[str, Any]) -> None:
        data = _dump(document)
        headers = [("Content-Length", str(len(data)))]
        if status is not HTTPStatus.OK:
            headers.append(("X-Should-Retry", "false"))  # it would fail again
        if self.close_connection:
            headers.append(("Connection", "close"))
        self._begin(status, "application/json", *headers)
        self.wfile.write(data)

    def _begin(self, status: HTTPStatus, content_type: str, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", content_type), ("Cache-Control", "no-store"), *headers):
            self.send_header(name, value)
        self.end_headers()


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), default=str).encode()
