"""HTTP/1.1 as uvicorn reads it, with an end to what stands before a body: its parser takes that as long as it comes."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD = 2**16  # bytes of an address and headers that came in several pieces; one piece is no longer than 256 KiB
_REFUSED = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)


class Protocol(HttpToolsProtocol):
    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._is_in_head = False
        self._head = 0

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head, self._head = True, 0

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_in_head:
            self._head += len(data)
            if self._head > MOST_HEAD and not self.transport.is_closing():
                self.transport.write(_REFUSED)
                self.transport.close()
