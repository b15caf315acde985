"""JSON files people may have edited: read strictly, because what is misread here is overwritten by the next write."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def loads(data: bytes) -> Any:
    """The value, or ValueError. Repeated names, NaN and lone surrogates are refused; none survives a round trip."""
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("it contains a lone surrogate") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start}") from None
    return value


def dumps(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2) + "\n").encode()


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} appears twice in one object")
    return found


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
