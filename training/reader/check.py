"""Measure the shipped reader on labelled messages: python training/reader/check.py FILE

FILE has a line of JSON a message: text, before, claims (quote, about, attribute, kind, status), nothing (why, or null).
Or it has conversations in the form of lives. Precision counts clauses that are kept and overlap a claim; recall counts
claims with such a clause; a refusal is right when no clause is kept.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from examples import Message, read_messages
from measure import CARE

from limpet.knowledge.reader import DOUBTFUL, SURE, Reading, default_reader


def overlaps(text: str, quote: str, reading: Reading) -> bool:
    start = text.index(quote)
    shared = min(reading.end, start + len(quote)) - max(reading.start, start)
    return shared >= 0.5 * min(len(quote), reading.end - reading.start)


def measure(messages: list[Message], threshold: float, name: str) -> None:
    kept = right = 0
    found: list[tuple[dict[str, str], Reading | None]] = []
    refused: dict[str, list[bool]] = defaultdict(list)
    for message in messages:
        readings = [one for one in default_reader().read(message.text, message.before) if one.keep >= threshold]
        kept += len(readings)
        right += sum(any(overlaps(message.text, c["quote"], one) for c in message.claims) for one in readings)
        for claim in message.claims:
            hits = [one for one in readings if overlaps(message.text, claim["quote"], one)]
            found.append((claim, max(hits, key=lambda one: one.keep) if hits else None))
        if message.why and not message.claims:
            refused[message.why].append(not readings)
    care = [hit is not None for claim, hit in found if claim["attribute"] in CARE]
    hits = [(claim, hit) for claim, hit in found if hit]
    print(f"{name} ({threshold}): precision {right / max(1, kept):.3f} ({right}/{kept})", end=" ")
    print(f"recall {len(hits) / max(1, len(found)):.3f} ({len(hits)}/{len(found)})", end=" ")
    print(f"health, diet, rules {sum(care) / max(1, len(care)):.3f} ({sum(care)}/{len(care)})")
    for label in ("kind", "attribute", "status"):
        same = sum(claim[label] == getattr(hit, label) for claim, hit in hits)
        print(f"  {label} {same / max(1, len(hits)):.3f}", end="")
    sure = [(claim, hit) for claim, hit in hits if hit.attribute_sure >= 0.8]
    same = sum(claim["attribute"] == hit.attribute for claim, hit in sure)
    print(f"  attribute where sure {same / max(1, len(sure)):.3f} of {len(sure)}", end="")
    print(f"  about {sum((hit.about == 'user') == bool(claim['user']) for claim, hit in hits) / max(1, len(hits)):.3f}")
    print("  refused:", {why: f"{sum(rows)}/{len(rows)}" for why, rows in sorted(refused.items())},
          f"{sum(map(sum, refused.values()))}/{sum(map(len, refused.values()))}")  # fmt: skip


if __name__ == "__main__":
    given = list(read_messages(Path(sys.argv[1])))
    measure(given, SURE, "sure")
    measure(given, DOUBTFUL, "doubtful")
