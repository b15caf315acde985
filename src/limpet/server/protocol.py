"""HTTP/1.1 as uvicorn reads it, with an end to what it would wait for: endless heads, late bodies, slow readers."""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD = 2**16  # bytes of an address and headers that came in several pieces; one piece is no longer than 256 KiB
_REFUSED = "HTTP/1.1 {}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LARGE = _REFUSED.format("431 Request Header Fields Too Large").encode()
_TOO_SLOW = _REFUSED.format("408 Request Timeout").encode()


class _Part(Enum):
    """Of a request, what is being read."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()


class HttpProtocol(HttpToolsProtocol):
    """Whoever has been answered, or has asked nothing yet, owes the next request's head, or the rest of a body.

    There is a time for that, whether bytes trickle in or none come. While a request is worked on there is none: whoever
    reads its body has a time of their own. Between two requests uvicorn's own counts, until the next byte.
    """

    header_seconds = 10.0
    answer_seconds = 60.0  # in which somebody who is sent something has to take some of it

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._part = _Part.NOTHING
        self._head = 0
        self._late: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_timer()
        self._cancel_abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._part, self._head = _Part.HEAD, 0

    def on_headers_complete(self) -> None:
        self._part = _Part.BODY
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._part = _Part.NOTHING
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._part is _Part.HEAD:
            self._head += len(data)
            if self._head > MOST_HEAD and not self.transport.is_closing():
                self.transport.write(_TOO_LARGE)
                self._end()
        self._start_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._start_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(self.answer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_abort()

    def _cancel_abort(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def timeout_keep_alive_handler(self) -> None:
        self._end()

    def _start_timer(self) -> None:
        is_worked_on = self.cycle and not self.cycle.response_complete
        if is_worked_on or self.transport.is_closing() or not self._is_awaiting_data():
            self._cancel_timer()
        elif self._late is None:
            self._late = self.loop.call_later(self.header_seconds, self._time_out)

    def _is_awaiting_data(self) -> bool:
        """An empty line before a request begins none, and ends uvicorn's wait all the same."""
        return self._part is not _Part.NOTHING or self.timeout_keep_alive_task is None

    def _cancel_timer(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _time_out(self) -> None:
        if self._part is _Part.HEAD and not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)
        self._end()

    def _end(self) -> None:
        """What was written is sent first, but that is waited for no longer, either."""
        self.transport.close()
        self.loop.call_later(self.header_seconds, self.transport.abort)


def configure_protocol(header_seconds: float, answer_seconds: float) -> type[HttpProtocol]:
    """With these times."""
    return type("Protocol", (HttpProtocol,), {"header_seconds": header_seconds, "answer_seconds": answer_seconds})
