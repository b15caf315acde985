"""A fact in a short sentence of its own, for where the words it came from hold several or leave out whom they mean."""

from __future__ import annotations

import re
from collections.abc import Mapping

_DETERMINED = frozenset(
    """a an the one two three four five six seven eight nine ten several some many no my his her their our both few head
    retired unemployed self-employed""".split()
)
# What stands between whom and what, where it holds, and where it does not.
_WORDINGS: Mapping[str, tuple[str, str]] = {
    "home": ("lives in", "does not live in"),
    "origin": ("is from", "is not from"),
    "employer": ("works at", "no longer works at"),
    "role": ("works as {a}", "does not work as {a}"),
    "name": ("is called", "is not called"),
    "nickname": ("wants to be called", "does not want to be called"),
    "age": ("is {} years old", "is not {} years old"),
    "birthday": ("has their birthday on", "does not have their birthday on"),
    "nationality": ("is", "is not"),
    "studies": ("studies or studied", "does not study"),
    "school": ("studies or studied at", "does not study at"),
    "relationship": ("is", "is not"),
    "family": ("has {a}", "does not have {a}"),
    "pet": ("has {a}", "does not have {a}"),
    "owns": ("owns {a}", "does not own {a}"),
    "allergy": ("is allergic to", "is not allergic to"),
    "diet": ("is", "is not"),
    "eats": ("eats", "does not eat"),
    "drinks": ("drinks", "does not drink"),
    "habit": ("does this:", "does not do this:"),
    "health": ("has", "does not have"),
    "hobby": ("does this in their free time:", "no longer does this in their free time:"),
    "language": ("speaks", "does not speak"),
    "learning": ("is learning", "is not learning"),
    "visited": ("was in", "was never in"),
    "plan": ("plans to:", "does not plan to:"),
    "goal": ("wants to:", "does not want to:"),
    "likes": ("likes", "does not like"),
    "prefers": ("prefers", "does not prefer"),
    "uses": ("uses", "does not use"),
    "email": ("has the email address", "does not have the email address"),
    "phone": ("has the phone number", "does not have the phone number"),
    "timezone": ("is in the time zone", "is not in the time zone"),
    "status": ("has", "has not"),
}


def format_statement(
    subject: str, attribute: str, value: str, *, polarity: bool = True, name: str | None = None
) -> str:
    """``name``: of whom it is about, where there may be several of them: "The user's sister Anna lives in Porto."."""
    who = _format_subject(subject) if name is None or attribute == "name" else f"{_format_subject(subject)} {name}"
    if attribute.startswith("favourite:"):
        what = attribute.partition(":")[2]
        return f"{who}'s favourite {what} {'is' if polarity else 'is not'} {value}."
    holds, fails = _WORDINGS.get(attribute, (f"has the {attribute}", f"does not have the {attribute}"))
    wording = holds if polarity else fails
    if "{}" in wording:
        return f"{who} {wording.format(value)}."
    return f"{who} {wording.format(a=_choose_article(value))} {value}.".replace("  ", " ")


def find_name(subject: str, content: str) -> str | None:
    """The name that a text gives whom it is about: Anna, of "The user's sister Anna lives in Porto."."""
    role = subject.rpartition("/")[2]
    found = re.search(rf"(?:\b[Mm]y|\b[Oo]ur|'s) (?:[a-z]+ )?{re.escape(role)},? ([A-ZÀ-Þ][\w'-]+)", content)
    return found[1].removesuffix("'s") if found and "/" in subject else None


def _choose_article(value: str) -> str:
    """Before one of something, unless the words say how many or whose."""
    first, last = value.split(maxsplit=1)[0].casefold(), value.rsplit(maxsplit=1)[-1].casefold()
    several = last.endswith("s") and not last.endswith("ss")
    if several or not first[0].isalpha() or first in _DETERMINED or value[0].isupper():
        return ""
    return "an" if first[0] in "aeiou" else "a"


def _format_subject(subject: str) -> str:
    first, *way = subject.split("/")
    person = "The user" if first == "user" else "The project" if first == "project" else first.title()
    return "'s ".join([person, *way])
