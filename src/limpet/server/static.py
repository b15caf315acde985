"""Answers that are the same for everybody: compressed once, and not sent again to whoever has them.

No others are compressed. Where an answer holds what a caller chose beside what is secret, its length tells how much the
two have in common, and so the secret, bit by bit (BREACH).
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from hashlib import sha256

from starlette.datastructures import Headers
from starlette.responses import Response


class StaticFile:
    """Each form has an ETag of its own: a cache must not take one for the other."""

    def __init__(self, content: bytes, media: str, headers: Mapping[str, str] | None = None) -> None:
        digest = sha256(content).hexdigest()[:32]
        rules = {"Vary": "Accept-Encoding", "Cache-Control": "no-cache", **(headers or {})}
        self._media = media
        self._plain = content, {**rules, "ETag": f'"{digest}"'}
        self._packed = gzip.compress(content, 9, mtime=0), {**rules, "ETag": f'"{digest}-gzip"'}

    def respond(self, asked: Headers) -> Response:
        is_packed = _accepts_gzip(asked.get("accept-encoding", ""))
        content, headers = self._packed if is_packed else self._plain
        if _has_etag(asked.get("if-none-match", ""), headers["ETag"]):
            return Response(status_code=304, headers=headers)
        packing = {"Content-Encoding": "gzip"} if is_packed else {}
        return Response(content, media_type=self._media, headers=headers | packing)


def _accepts_gzip(accepted: str) -> bool:
    """Named, or meant by a star; and not refused with a weight of nothing."""
    weights = {}
    for each in accepted.split(","):
        name, _, parameters = each.partition(";")
        _, _, weight = parameters.replace(" ", "").lower().partition("q=")
        weights[name.strip().lower()] = weight.strip("0.") != "" or not weight
    return weights.get("gzip", weights.get("*", False))


def _has_etag(known: str, tag: str) -> bool:
    tags = {each.strip().removeprefix("W/") for each in known.split(",")}
    return bool(tags & {tag, "*"})
