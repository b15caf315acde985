"""A fact in a short sentence of its own, for where the words it came from hold several or leave out whom they mean."""

from __future__ import annotations

from collections.abc import Mapping

# What stands between whom and what, where it holds, and where it does not.
_WORDINGS: Mapping[str, tuple[str, str]] = {
    "home": ("lives in", "does not live in"),
    "origin": ("is from", "is not from"),
    "employer": ("works at", "no longer works at"),
    "role": ("works as", "does not work as"),
    "name": ("is called", "is not called"),
    "nickname": ("wants to be called", "does not want to be called"),
    "age": ("is this old:", "is not this old:"),
    "birthday": ("has their birthday on", "does not have their birthday on"),
    "nationality": ("is", "is not"),
    "studies": ("studies or studied", "does not study"),
    "school": ("studies or studied at", "does not study at"),
    "relationship": ("is", "is not"),
    "family": ("has", "does not have"),
    "pet": ("has", "does not have"),
    "owns": ("owns", "does not own"),
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


def stated(subject: str, attribute: str, value: str, *, polarity: bool = True) -> str:
    if attribute.startswith("favourite:"):
        what = attribute.partition(":")[2]
        return f"{_who(subject)}'s favourite {what} {'is' if polarity else 'is not'} {value}."
    holds, fails = _WORDINGS.get(attribute, (f"has the {attribute}", f"does not have the {attribute}"))
    return f"{_who(subject)} {holds if polarity else fails} {value}."


def _who(subject: str) -> str:
    first, *way = subject.split("/")
    person = "The user" if first == "user" else "The project" if first == "project" else first.title()
    return "'s ".join([person, *way])
