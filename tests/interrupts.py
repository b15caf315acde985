"""A call that is interrupted, as by Ctrl-C, at a chosen place."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType
from typing import Any


class Alarm(BaseException):
    """Like KeyboardInterrupt, which would end the test run where it is not caught."""


@cache
def _list_steps(code: CodeType) -> dict[int, str]:
    return {step.offset: step.opname for step in dis.get_instructions(code)}


def interrupt_at(number: int, call: Callable[[], Any], inside: str) -> Any:
    """The outcome of a call that is interrupted at the n-th place where Python handles signals.

    Those places are the beginning of a function, the end of a call into C and the end of a loop's body; only those in
    files whose path begins with ``inside`` count. None when there are fewer than n.
    """
    places = 0
    before: dict[FrameType, str] = {}

    def watch(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal places
        if event == "call" and frame.f_back is not None:
            before.pop(frame.f_back, None)  # a call into Python has its place at the beginning of what is called
        if not frame.f_code.co_filename.startswith(inside) or frame.f_code.co_name == "__del__":
            return None  # what collects garbage, perhaps of another test, cannot raise
        frame.f_trace_opcodes = True
        if event == "opcode":
            handled = before.get(frame, "").startswith(("CALL", "RESUME", "JUMP_BACKWARD"))
            before[frame] = _list_steps(frame.f_code)[frame.f_lasti]
            places += handled
            if handled and places == number:
                raise Alarm(f"{frame.f_code.co_filename}, line {frame.f_lineno}")
        return watch

    sys.settrace(watch)
    try:
        answer = call()
    except Alarm as alarm:
        return alarm.with_traceback(None)  # its frames would keep alive what they hold
    finally:
        sys.settrace(None)
        before.clear()
    return answer if places >= number else None
