"""Read a statement clause by clause: whom it is about, what it says of them, and whether that holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from limpet.knowledge.english import get_pattern, get_words, load_table
from limpet.model.dataclass import dataclass, replace
from limpet.model.text_cache import cache_texts

MAX_CLAUSE = 300
FIRST_PERSON = re.compile(r"\b(?:i|my|me|mine|myself|we|our|ours|us|ourselves|im|ive)\b|\bi['’]", re.IGNORECASE)
KIN_NAMED = re.compile(
    r"\b(?:my|our)\s+(?:[\w-]+\s+){0,2}?(?P<kin>[a-z-]+)\b(?:\s+(?P<name>[A-ZÀ-Þ][\w’-]+))?", re.IGNORECASE
)
_MEMORY = 2  # sentences for which "she" means the person spoken of last


@cache
def load_roles() -> Mapping[str, str]:
    """The words for family and other roles, with their normal form: mother for mom."""
    forms = load_table("words.toml")["relations"]
    normal = {word.replace("_", " "): role for role, words in forms.items() for word in words.split()}
    return {word: word for word in get_words("relation")} | normal


def find_role_word(word: str) -> str | None:
    """Return the normal form of a role, such as "mother" for "mom"; None for other words."""
    return load_roles().get(word, word if word in get_words("pets") else None)


@cache
def _load_contractions() -> list[tuple[re.Pattern[str], str]]:
    from limpet.knowledge.english import compile_pattern

    return [(compile_pattern(short), plain) for short, plain in load_table("patterns.toml")["contractions"]]


@cache_texts(64)
def expand_contractions(text: str) -> str:
    """Expand contractions, so that the rules need one form of each."""
    for pattern, plain in _load_contractions():
        text = pattern.sub(plain, text)
    return text


@dataclass(frozen=True, slots=True)
class Aspect:
    """``core`` is the rest of the predicate: a verb in some form and what follows it."""

    core: str
    negated: bool = False
    ended: bool = False
    future: bool = False
    perfect: bool = False
    possible: bool = False

    @property
    def is_real(self) -> bool:
        return not (self.future or self.possible)


def parse_aspect(predicate: str) -> Aspect:
    """How a predicate is said: denied, over, to come, merely possible."""
    seen = Aspect(predicate)
    for _ in range(8):
        core = seen.core
        if get_pattern("unbearable").match(core):
            break
        if match := get_pattern("is").match(core):
            word = match[2].lower()
            seen = replace(seen, negated=seen.negated != (word == "not"), ended=seen.ended or word == "no longer")
            seen = replace(seen, core=f"{match[1]} {core[match.end() :]}")
        elif match := get_pattern("was").match(core):
            seen = replace(seen, core=f"is {core[match.end() :]}", ended=True)
        elif match := get_pattern("adverb").match(core):
            seen = replace(seen, core=core[match.end() :])
        elif match := get_pattern("not").match(core):
            seen = replace(seen, core=core[match.end() :], negated=not seen.negated)
        elif match := get_pattern("future").match(core):
            seen = replace(seen, core=core[match.end() :], future=True)
        elif match := get_pattern("ended").match(core):
            seen = replace(seen, core=core[match.end() :], ended=True)
        elif match := get_pattern("perfect").match(core):
            seen = replace(seen, core=core[match.end() :], perfect=True)
        else:
            seen = replace(seen, possible=get_pattern("possible").match(core) is not None)
            break
    over = get_pattern("over")
    if seen.negated and over.search(seen.core):
        seen = replace(seen, negated=False, ended=True)
    return replace(seen, core=over.sub("", seen.core).strip())


_FIRM = frozenset("said says told tells mentioned mention knows know knew".split())
_UNSURE = frozenset("think thinks guess believe believes heard suppose claims claimed".split())


@dataclass(frozen=True, slots=True)
class Clause:
    """``owned``: the predicate starts with a possession, as in "my birthday is". ``name``: mentioned in passing."""

    subject: str
    predicate: str
    owned: bool = False
    name: str | None = None
    hedged: bool = False
    whole: str = ""  # the statement it is part of


def normalize_subject(name: str) -> str:
    return " ".join(name.casefold().replace("/", " ").split())


def normalize_role(words: str) -> str:
    """Return the normal form of a role. An ex-wife is not a wife, and a former boss is not a boss."""
    word = re.sub(r"^(?:ex|former|previous|old)[ -]", "", words.casefold())
    plain = load_roles().get(word, word)
    return f"ex-{plain}" if word != words.casefold() else plain


def is_name(name: str) -> bool:
    known = get_words("given_names") | get_words("ly_names")
    if name.endswith("ly") and name.casefold() not in known and " " not in name:
        return False
    return not any(word.casefold() in get_words("no_names") for word in re.split(r"[\s']", name))


class ClauseReader:
    """Reads a message statement by statement: "I" is fixed, the referent of "she" changes."""

    def __init__(self, me: str) -> None:
        self.me = me
        self._third: str | None = None
        self._met: str | None = None
        self._age = 0
        self._sentence = ""
        self._ambiguous = False

    def read_clauses(self, text: str, sentence: str, *, bullet: bool = False) -> Iterator[Clause]:
        """The clauses of a statement, which is a sentence or a part of it."""
        hedged = get_pattern("hedge").search(text) is not None
        subject: str | None = self.me if bullet else None
        before = ""
        self._met = None
        self._update_mentions(sentence)
        for piece, joint in _split_pieces(expand_contractions(text)):
            if joint == "unreal":
                continue
            if joint == "who":
                subject = self._find_antecedent(before)
            for clause in self._read(piece, subject, first=not before):
                subject = clause.subject
                yield replace(clause, hedged=hedged or clause.hedged, whole=text)
            self._update_from_piece(piece)
            before = piece

    def hear(self, text: str) -> None:
        """A question or a request that states nothing names whom "she" means: "for my daughter's class? She …"."""
        if "?" in text and self._find_mentions(text):
            self._update_mentions(text.strip())

    def introduce(self, subject: str) -> None:
        """A person was introduced: "she" and "who" now refer to them."""
        self._set_third_person(subject)
        self._met = subject

    def _find_mentions(self, text: str) -> list[str]:
        return [f"{self.me}/{normalize_role(match[1])}" for match in get_pattern("mention").finditer(text)]

    def _update_mentions(self, sentence: str) -> None:
        """The referent of "she" lasts for a sentence or two, or until others are mentioned."""
        if sentence == self._sentence:
            return
        mentioned = set(self._find_mentions(sentence))
        self._age += 1
        if self._ambiguous or self._age > _MEMORY or (mentioned and self._third not in mentioned):
            self._third = next(iter(mentioned)) if len(mentioned) == 1 else None
            self._age = 1
        self._sentence, self._ambiguous = sentence, len(mentioned) > 1

    def _update_from_piece(self, piece: str) -> None:
        """ "He has a dog and it scares my daughter, she is four": "she" is not another person's dog."""
        found = self._find_mentions(piece)
        if found and (self._third is None or self._third.count("/") > 1):
            self._set_third_person(found[-1])

    def _set_third_person(self, subject: str) -> None:
        self._third, self._age = subject, 0

    def _find_antecedent(self, piece: str) -> str | None:
        """Return the referent of "who": the last words before it."""
        match = get_pattern("ends_in_relative").search(piece)
        return f"{self.me}/{normalize_role(match[1])}" if match else self._met

    def _read(self, piece: str, inherited: str | None, *, first: bool = False) -> Iterator[Clause]:
        piece = _strip_leads(piece)
        elided = get_pattern("elided").match(piece) if first else None
        if match := get_pattern("self").match(piece):
            yield from self._read_predicate(self.me, piece[match.end() :])
        elif match := get_pattern("relative").match(piece):
            yield from self._read_relative(match, piece[match.end() :])
        elif get_pattern("titled").match(piece):
            yield from self._read(f"my {piece[0].lower()}{piece[1:]}", inherited)
        elif match := get_pattern("own").match(piece):
            if owner := self._find_owner(match[1].lower()):
                yield Clause(owner, piece[match.end() :], owned=True)
        elif match := get_pattern("pronoun").match(piece):
            if self._third and self._is_referent(match[1].lower()):
                yield from self._read_predicate(self._third, piece[match.end() :])
        elif not elided and (match := get_pattern("named").match(piece)) and is_name(match[1]):
            yield from self._read_name(match[1], piece[match.end() :])
        elif inherited and get_pattern("verb").match(piece):
            yield Clause(inherited, piece)
        elif elided:
            yield Clause(self.me, piece)

    def _read_relative(self, match: re.Match[str], rest: str) -> Iterator[Clause]:
        subject = f"{self.me}/{normalize_role(match[1])}"
        name = match[2] if match[2] and is_name(match[2]) else None
        if not match[2] and (small := get_pattern("small_name").match(rest)) and _is_small_name(small[1], subject):
            name, rest = small[1].title(), rest[small.end() :]
        if match[2] and name is None:
            rest = f" {match[2]}{rest}"
        self._set_third_person(subject)
        if rest.startswith("'s "):
            yield Clause(subject, rest[3:], owned=True, name=name)
            return
        rest = re.sub(r"^,?\s*(?:not my [^,]{2,40},|and I\b)\s*", "", rest).lstrip(" ,")
        yield from (replace(clause, name=name or clause.name) for clause in self._read_predicate(subject, rest))

    def _read_name(self, name: str, rest: str) -> Iterator[Clause]:
        subject, before = normalize_subject(name), self._third
        self._set_third_person(subject)
        if rest.startswith("'s "):
            yield Clause(subject, rest[3:], owned=True)
            return
        clauses = list(self._read_predicate(subject, rest.lstrip()))
        if not clauses:
            self._third = before
        yield from clauses

    def _read_predicate(self, subject: str, predicate: str) -> Iterator[Clause]:
        """What a person says about others is about the others; what a person thinks or wishes is not a fact."""
        adverb = re.match(r"(?:really|just|also|still|always|never|did not)\s+", predicate)
        report = get_pattern("report").match(predicate, adverb.end() if adverb else 0)
        if report is None:
            yield Clause(subject, predicate)
            return
        verb, inner, mine = report[1].split()[0], predicate[report.end() :], subject == self.me
        firm = verb in _FIRM or (mine and verb == "meant")
        denied = adverb is not None and adverb.group().strip() in {"never", "did not"}
        about_us = not mine and re.match(r"(?:I|we|my|our|you)\b", inner)  # another person about us, or a quotation
        if denied or about_us or not (firm or (mine and verb in _UNSURE)):
            return
        yield from (replace(clause, hedged=clause.hedged or not firm) for clause in self._read(inner, None))

    def _find_owner(self, word: str) -> str | None:
        if word in {"my", "our"}:
            return self.me
        return self._third if self._is_referent("he" if word == "his" else "she") else None

    def _is_referent(self, pronoun: str) -> bool:
        last = (self._third or "").rpartition("/")[2].removeprefix("ex-")
        return last not in get_words("male" if pronoun == "she" else "female")


def _split_pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield each part of the sentence, and whether it is a condition ("unreal") or about whom it follows ("who")."""
    at, joint = 0, ""
    for found in get_pattern("joint").finditer(text):
        if found.start() > at:
            if found.group() == " " and not get_pattern("runs_on").match(text[at : found.start()]):
                continue
            yield text[at : found.start()][:MAX_CLAUSE], joint
        joint = "unreal" if found["unreal"] else "who" if found["who"] else ""
        at = found.end()
    yield text[at:][:MAX_CLAUSE], joint


def _strip_leads(piece: str) -> str:
    piece = piece.lstrip(" ,.:!\"'(*_")
    for _ in range(4):
        if not (match := get_pattern("lead").match(piece)):
            break
        piece = piece[match.end() :]
    return piece


def _is_small_name(word: str, subject: str) -> bool:
    known = word in get_words("pet_names") and subject.rpartition("/")[2] in get_words("pets")
    return known or word in get_words("given_names")


def speaks_of_user(question: str) -> bool:
    """Return whether it is about whoever asks, or an agent's question about "the user"."""
    return bool(FIRST_PERSON.search(question)) or "the user" in question.lower()


_ASKS_FOR_SELF = re.compile(r"\b(?:i|my|me|mine|i'm|im|myself)\b", re.IGNORECASE)


def find_asked_subjects(question: str) -> frozenset[str]:
    """Return whom a question is about: the user, or one of theirs. Empty: it does not say."""
    kin = [role for match in KIN_NAMED.finditer(question) if (role := find_role_word(match["kin"].lower()))]
    if kin:
        return frozenset(f"user/{role}" for role in kin)
    return frozenset({"user"}) if _ASKS_FOR_SELF.search(question) else frozenset()
