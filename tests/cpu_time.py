"""CPU time of this process, for tests of how work grows with its input.

A busy machine slows single runs even by CPU time. So a test that failed tries again: noise passes, quadratic work does
not.
"""

import time
from collections.abc import Callable

_TRIES = 5
_TOO_SHORT_TO_TELL_S = 0.02


def measure_cpu(work: Callable[[str], object], text: str) -> float:
    """Run it once on the text, and return the seconds of CPU it took."""
    start = time.process_time()
    work(text)
    return time.process_time() - start


def assert_linear(work: Callable[[str], object], small: str, large: str) -> None:
    """Check that the work on the large text took no more than three times its share of the work on the small one."""
    allowed = 3 * len(large) / len(small)
    growths = []
    for number in range(_TRIES):
        # A text of its own each time, so that no cache answers.
        base = max(min(measure_cpu(work, f"{small}{number}{run}") for run in "ab"), _TOO_SHORT_TO_TELL_S)
        growths.append(measure_cpu(work, f"{large}{number}") / base)
        if growths[-1] < allowed:
            return
    raise AssertionError(f"{len(large) / len(small):.0f} times the text took {growths} times as long")
