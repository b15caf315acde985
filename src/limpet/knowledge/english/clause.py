"""Split a sentence into clauses: the subject of each, its predicate, and whether it is asserted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from limpet.knowledge.english.lexicon import FEMALE, GIVEN_NAMES, MALE, NO_NAMES, PET_NAMES, PETS, RELATIONS, any_of
from limpet.model.dataclass import dataclass

MAX_CLAUSE = 300
_KIN = any_of(frozenset(RELATIONS) | PETS)

_EXPANSIONS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), plain)
    for pattern, plain in (
        (r"\bi ?'?m\b", "I am"),
        (r"\bi'?ve\b", "I have"),
        (r"\bi'd\b", "I would"),
        (r"\bi'll\b", "I will"),
        (r"\b(we|they|you)'re\b", r"\1 are"),
        (r"\b(we|they|you)'ve\b", r"\1 have"),
        (r"\b(we|they|you|he|she|it)'d\b", r"\1 would"),
        (r"\b(we|they|you|he|she|it)'ll\b", r"\1 will"),
        (r"\b(he|she|it|that|there)'s (?=been\b|got\b|moved\b|started\b|joined\b)", r"\1 has "),
        (r"\b(he|she|it|that|there|what|who)'s\b", r"\1 is"),
        (r"\b(?:um+|uh+|erm+),?\s+", ""),
        (r"\b(he|she)s\b", r"\1 is"),
        (rf"\b((?:my|our) {_KIN})s (?=name\b|birthday\b|favou?rite\b)", r"\1's "),
        (rf"\b((?:my|our) {_KIN})'?s (?=(?:an?|from|called|named|allergic|living|working)\b)", r"\1 is "),
        (r"\bname's\b", "name is"),
        (
            (
                r"\b(?<!at )(?<!for )(?<!St )([A-Z][a-z]+)'s "
                r"(?=(?:a|an|from|based|called|named|allergic|living|working|in)\b)"
            ),
            r"\1 is ",
        ),
        (r"\b(?:can't|cant|cannot)\b", "can not"),
        (r"\b(?:won't|wont)\b", "will not"),
        (r"\b(do|does|did|is|are|was|were|have|has|had|would|could|should|must)n'?t\b", r"\1 not"),
        (r"\bi\b", "I"),
        (r"\b(?:wanna)\b", "want to"),
        (r"\b(?:gonna)\b", "going to"),
        (r"\bfave?(?= \w)", "favourite"),
    )
)
# Those that can match a text without one.
_WITHOUT_APOSTROPHE = tuple(pair for pair in _EXPANSIONS if not re.search("'(?![?t])", pair[0].pattern))
_NAME = r"[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]+(?:(?:-[A-ZÀ-Þ]?|'[A-ZÀ-Þ])[a-zß-öø-ÿ]+)?"
NAME = rf"{_NAME}(?: (?:van |de |von |da |le |la |Le |De )?{_NAME})?"
# An old friend is still a friend; an old boss is not a boss.
_FORMERLY = (
    r"(?:boss|manager|colleague|coworker|co-worker|roommate|flatmate|landlord|landlady|teacher|coach|tutor|"
    r"neighbou?r|"
    r"therapist|assistant)\b"
)
_WORD = "|".join(sorted({*RELATIONS, *PETS}, key=lambda word: (-len(word), word)))
_RELATION = rf"(?:(?:ex|former|previous|old(?= {_FORMERLY}))[ -])?(?:{_WORD})|ex"
_ADJECTIVES = (
    rf"(?:(?:best|older|younger|little|big|elder|eldest|oldest|youngest|late|twin|new|old(?! {_FORMERLY})|dear|good|"
    r"only|middle|"
    r"close|closest|baby|amazing|lovely|poor|beloved|great|wonderful|dearest|first|second|other)[ -]){0,2}"
)
_RELATIVE = re.compile(
    rf"(?i:(?:my|our)\s+{_ADJECTIVES}({_RELATION})\b(?: (?:since|from|at) (?:high |primary |art |law |med )?(?:school|"
    rf"university|uni|college|work|childhood|church|kindergarten|the office)\b)?)(?:,?\s+(?:Mr\.? |Mrs\.? |Ms\.? |"
    rf"Dr\.? )?({NAME})(?!\w))?"
)
_ENDS_IN_RELATIVE = re.compile(rf"(?i:\b(?:my|our)\s+{_ADJECTIVES}({_RELATION}))(?: {NAME})?,?\s*$")
# "to set it up and use it": the second verb depends on the "to" of the first, not on the subject.
_INFINITIVE = re.compile(
    r"\b(?:to|can|could|will|would|should|must|help|let|please|might|may)(?: (?:\w+ly )?\w+|$)", re.IGNORECASE
)
_MENTION = re.compile(rf"(?i:\b(?:my|our)\s+{_ADJECTIVES}({_RELATION}))\b")
# "Grandpa Joe died", "Mum lives in Cork": the owner is understood.
_TITLED = re.compile(
    rf"(?:Mum|Mom|Mama|Dad|Daddy|Papa|Grandpa|Grandad|Granddad|Grandma|Granny|Gran|Nana|Uncle|Auntie|Aunt)"
    rf"(?: {_NAME})? (?:is|was|has|had|lives|lived|works|worked|loves|hates|likes|died|passed|moved|turned|got|"
    rf"just)\b|(?:mum|mom|dad|grandma|grandpa|gran|nana) (?:is|was|has|had|lives|lived|works|worked|loves|hates|died|"
    rf"moved|turned)\b"
)
# For text without capitals: only known names count, where nothing else fits.
_SMALL = re.compile(
    r" ([a-z]{3,12})(?=$|[,.!;]| (?:is|was|has|had|just|lives|lived|works|loves|hates|likes|got|and|who|moved|"
    r"said|says|told|turned|also|will|can|would|does|did|never|always|started|wants|came|went|made|bought|ate|died)\b)"
)
_APART = re.compile(r",\s+((?:an?|the)\s+[^,;:]{3,60}),\s+(?=[a-z])")
_I_AM_SOMEBODY = re.compile(rf"am (?:{_NAME}(?: {_NAME})?|[a-z]{{3,12}}), (?:\d\d, )?(?=an? )")
_MEMORY = 2  # sentences
_NAMED = re.compile(rf"({NAME})(?=\s|'s\b|,\s)")
_SELF = re.compile(r"(?:I|we|my (?:\w+) and I|me and my \w+)\s+", re.IGNORECASE)
_PRONOUN = re.compile(r"(he|she)\s+", re.IGNORECASE)
_OWN = re.compile(r"(my|our|his|her)\s+(?=\w)", re.IGNORECASE)
_VERBS = (
    r"(?:live|lives|lived|work|works|worked|love|loves|like|likes|hate|hates|prefer|prefers|enjoy|"
    r"enjoys|have|has|am|is|"
    r"was|are|study|studies|studied|moved|speak|speaks|play|plays|own|owns|drive|drives|joined|dislike|dislikes|"
    r"adore|adores|use|uses|do not|does not|no longer|never|can not|got|grew|quit|left|started|bought|adopted|raised|"
    r"turned|became|been|used to|want to|plan to|teach|teaches|run|runs|collect|collects|"
    r"(?:currently )?(?:living in|based in|working (?:as|at|for))|originally from)\b"
)
_OTHER_VERBS = _VERBS.replace("like|likes|", "")  # after a bare comma, "like" starts an example
_PERSON = rf"(?:I|we|he|she|my|our|his|her|{NAME}(?:'s)?\s+(?:{_VERBS}|birthday|favou?rite|name))"
_JOINT = r"(?:and|but|so|because|though|although|while|whereas|then|plus|yet|n|as|since|also|however)"
_SPLIT = re.compile(
    rf"\s*[;–—]\s*|\s+-\s+|,?\s+(?:but|because|although|though|whereas|if|when|whenever|unless|until|who|which|where|"
    rf"tho|or(?=\s+(?:{_PERSON}|{_VERBS})\b))\s+|,?\s+{_JOINT}\s+(?:(?:also|now|currently|still)\s+)?(?=(?:{_PERSON}|"
    rf"{_VERBS})\b)|"
    rf",\s*(?:(?:oh|and|also|btw|by the way|anyway|so|well),?\s+){{0,4}}(?=(?:{_PERSON}|{_OTHER_VERBS})\b)|"
    rf"\s+(?:btw|by the way),?\s+(?=(?:{_PERSON})\b)|"
    rf"\s(?=I am (?:\d\d?\b|an? \w+|from )|I live in |my name is )"
)
# Spoken or typed quickly, "I am Ana I am 17" has no punctuation; "I think I am 17" needs none.
_RUNS_ON = re.compile(
    r"(?!.*\b(?:say|said|tell|told|think|thought|know|knew|claim|pretend|feel|felt|wish|hope|guess|believ|"
    r"mean|sure|like|if|that|"
    r"where|what|when|why|how|whether|than|place|reason|heard|assum|ask|remind|remember|forg[eo]t|prov|"
    r"show|joke|imagin)\w*)"
    r"(?:I|my name|hi|hey|hello|so|yo)\b",
    re.IGNORECASE,
)
_UNREAL_JOINT = re.compile(r"\b(?:if|unless|whether|when|whenever|until|or)\s*$", re.IGNORECASE)
_LEAD = re.compile(
    r"(?:(?:well|guys|folks|hey guys|hi all|hi everyone|omg|damn|man|dude|oh|ok|okay|yes|yeah|yep|no|nope|so|and|"
    r"but|also|btw|fyi|hi|hey|hello|hi there|hey there|hello there|"
    r"sorry|anyway|actually|honestly|unfortunately|luckily|sadly|ha|haha|lol|ugh|wow|hmm|thanks|thank you|cool|nice|"
    r"great|right|sure|please|correction|update|news|by the way|for what it's worth|in fact|these days|nowadays|"
    r"lately|"
    r"currently|recently|now|still|again|basically|obviously|sometimes|kidding|just kidding|bit of news|quick update|"
    r"before we (?:start|begin|go on)|(?:just )?to introduce myself(?: \w+)?|first of all|a bit about me|about me|"
    r"quick intro|some (?:background|context)|"
    r"for context|background|"
    r"for the record|just so you know|please note that|note that|remember that|please remember that|"
    r"keep in mind that|"
    r"please keep in mind that|do(?:n't| not) forget that|as I said|like I said|as I mentioned|it turns out that|"
    r"turns out that|"
    r"it turns out|turns out|the thing is|last (?:week|month|year|night|summer|spring|autumn|winter)|"
    r"next (?:week|month|year|summer|spring)|in \d{4}|(?:good )?(?:morning|evening|afternoon)|unlike [\w ]{2,30}|"
    r"as an? [\w ]{2,20}|apparently|since then|at the moment|right now|yesterday|today|both|"
    r"personally|(?:my|the) (?:doctor|gp|dentist|cardiologist|dermatologist|neurologist|psychiatrist|specialist) "
    r"(?:says|said|told me|tells me|confirmed)(?: that)?(?= I (?:have|am)\b)|when I was (?:a |"
    r"an )?[\w ]{2,20}?(?=,? I\b)|"
    r"(?:since|because|as|given that|seeing as|now that|considering)(?= (?:I|my|we|our|he|she|his|her)\b))"
    r"(?:\s*[,:!.]+\s*|\s+))",
    re.IGNORECASE,
)
_REPORT = re.compile(
    r"(says?|said|told (?:me|us|you)|tells (?:me|us|you)|mentioned(?: to me)?|thinks?|thought|believes?|believed|"
    r"guess(?:es)?|suppose|heard|hears?|wish(?:es)?|hopes?|hoped|dreamt|dreamed|doubts?|claims?|claimed|wants?|"
    r"wanted|"
    r"asked(?: me| us)?|pretends?|feels?|wonders?|knows?|knew|imagined?|never said|did not say|meant)"
    r"\s+(?:that\s+|to (?=me\b|us\b))?(?=(?:I|he|she|we|they|you|it|my|our|his|her|everyone|the|[A-Z]\w+)\b)"
)
_FIRM = frozenset("said says told tells mentioned mention knows know knew".split())
_UNSURE = frozenset("think thinks guess believe believes heard hear suppose claims claimed".split())
_HEDGE = re.compile(
    r"\b(?:maybe|perhaps|probably|i think|i guess|not sure|apparently|might|possibly|if i recall)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Clause:
    """``owned``: the predicate starts with a possession, as in "my birthday is". ``name``: mentioned in passing."""

    subject: str
    predicate: str
    owned: bool = False
    name: str | None = None
    hedged: bool = False
    elided: bool = False
    whole: str = ""


@lru_cache(maxsize=64)
def expand_contractions(text: str) -> str:
    """Expand contractions, so that the rules need one form of each."""
    for pattern, plain in _EXPANSIONS if "'" in text else _WITHOUT_APOSTROPHE:
        text = pattern.sub(plain, text)
    return text


def normalize_subject(name: str) -> str:
    return " ".join(name.casefold().replace("/", " ").split())


def normalize_relation(words: str) -> str:
    """Return the normal form of a role. An ex-wife is not a wife, and a former boss is not a boss."""
    word = re.sub(r"^(?:ex|former|previous|old)[ -]", "", words.casefold())
    plain = RELATIONS.get(word, word)
    return f"ex-{plain}" if word != words.casefold() else plain


class ClauseReader:
    """Reads a message sentence by sentence: "I" is fixed, the referent of "she" changes."""

    def __init__(self, me: str) -> None:
        self.me = me
        self._third: str | None = None
        self._met: str | None = None
        self._age = 0
        self._ambiguous = False

    def read_clauses(self, text: str, *, bullet: bool = False) -> Iterator[Clause]:
        hedged = bool(_HEDGE.search(text))
        subject: str | None = self.me if bullet else None
        before = ""
        self._met = None
        self._update_mentions(text)
        for piece, unreal, relative in _split_pieces(expand_contractions(text)):
            if unreal:
                continue
            if relative:
                subject = self._find_antecedent(before)
            infinitive, first = bool(_INFINITIVE.search(before)), not before
            before = piece
            at_once = self._third
            for clause in self._read(piece, subject, infinitive=infinitive, first=first):
                subject = clause.subject
                yield replace(clause, hedged=hedged or clause.hedged, whole=text)
            self._update_from_piece(piece, at_once)
        if self._ambiguous:
            self._third = None

    def _update_mentions(self, text: str) -> None:
        """The referent of "she" lasts for a sentence or two, or until another person is mentioned."""
        self._age += 1
        mentioned = {f"{self.me}/{normalize_relation(word)}" for word in _MENTION.findall(text)}
        if self._age > _MEMORY or (mentioned and self._third not in mentioned):
            self._third = next(iter(mentioned)) if len(mentioned) == 1 else None
            self._age = 1
        self._ambiguous = len(mentioned) > 1

    def _update_from_piece(self, piece: str, before: str | None) -> None:
        """ "He has a dog and it scares my daughter, she is four": "she" is not another person's dog."""
        if self._third is not None and self._third.count("/") < 2:
            return
        found = _MENTION.findall(piece)
        if found and before != (subject := f"{self.me}/{normalize_relation(found[-1])}"):
            self._set_third_person(subject)

    def _set_third_person(self, subject: str) -> None:
        self._third, self._age = subject, 0

    def _find_antecedent(self, piece: str) -> str | None:
        """Return the referent of "who": the last words before it."""
        if match := _ENDS_IN_RELATIVE.search(piece):
            return f"{self.me}/{normalize_relation(match[1])}"
        return self._met

    def _read(
        self, piece: str, inherited: str | None, *, infinitive: bool = False, first: bool = False
    ) -> Iterator[Clause]:
        piece = _strip_leads(piece)
        if match := _SELF.match(piece):
            predicate = piece[match.end() :]
            if who := _I_AM_SOMEBODY.match(predicate):
                yield Clause(self.me, f"am {predicate[who.end() :]}")
            yield from self._read_predicate(self.me, predicate)
        elif match := _RELATIVE.match(piece):
            yield from self._read_relative(match, piece[match.end() :])
        elif _TITLED.match(piece):
            yield from self._read(f"my {piece}", inherited)
        elif match := _OWN.match(piece):
            owner = self._find_owner(match[1])
            if owner:
                yield Clause(owner, piece[match.end() :], owned=True)
        elif match := _PRONOUN.match(piece):
            if self._is_referent(match[1].lower()):
                yield from self._read_predicate(str(self._third), piece[match.end() :])
        elif (match := _NAMED.match(piece)) and is_name(match[1]) and not (first and _ELIDED.match(piece)):
            yield from self._read_name(match[1], piece[match.end() :])
        elif inherited and not infinitive and re.match(_VERBS, piece):
            yield Clause(inherited, piece, elided=True)
        elif first and _LIKING.match(piece):
            yield Clause(
                self.me, re.sub(r"^(?=not |(?:big|huge|massive) )", "am ", piece, flags=re.IGNORECASE), elided=True
            )
        elif first and _ELIDED.match(piece):
            yield Clause(self.me, piece, elided=True)

    def _read_apposition(self, subject: str, rest: str) -> Iterator[Clause]:
        """Parse an apposition: "my brother Tom, a plumber from Cork, …"."""
        if match := _APART.match(rest):
            yield Clause(subject, f"is {match[1].strip()}", elided=True)

    def _read_relative(self, match: re.Match[str], rest: str) -> Iterator[Clause]:
        subject = f"{self.me}/{normalize_relation(match[1])}"
        name = match[2] if match[2] and match[2][0].isupper() and is_name(match[2]) else None
        if name is None and not match[2] and (small := _SMALL.match(rest)) and _is_small_name(small[1], subject):
            name, rest = small[1].title(), rest[small.end() :]
        if match[2] and name is None:
            rest = f" {match[2]}{rest}"
        if rest.startswith("'s "):
            self._set_third_person(subject)
            yield Clause(subject, rest[3:], owned=True, name=name)
            return
        yield from (replace(clause, name=name) for clause in self._read_apposition(subject, rest))
        rest = _APART.sub("", rest, count=1)
        rest = re.sub(r"^,?\s*(?:not my [^,]{2,40},|and I\b)\s*", "", rest).lstrip(" ,")
        self._set_third_person(subject)
        yield from (replace(clause, name=name or clause.name) for clause in self._read_predicate(subject, rest))

    def _read_name(self, name: str, rest: str) -> Iterator[Clause]:
        subject = normalize_subject(name)
        if rest.startswith("'s "):
            self._set_third_person(subject)
            yield Clause(subject, rest[3:], owned=True)
        elif not rest.startswith(","):
            before = self._third
            self._set_third_person(subject)
            told = list(self._read_predicate(subject, rest.lstrip()))
            if not told:
                self._third = before
            yield from told

    def _read_predicate(self, subject: str, predicate: str) -> Iterator[Clause]:
        """What a person says about others is about the others; what a person thinks or wishes is not a fact."""
        adverb = re.match(r"(?:really|just|also|still|always|never|did not)\s+", predicate)
        report = _REPORT.match(predicate, adverb.end() if adverb else 0)
        if report is None:
            yield Clause(subject, predicate)
            return
        verb = report[1].split()[0]
        if adverb and adverb.group().strip() in {"never", "did not"}:
            return
        inner = predicate[report.end() :]
        mine = subject == self.me
        firm = verb in _FIRM or (mine and verb == "meant")
        if not firm and not (mine and verb in _UNSURE):
            return
        if not mine and re.match(r"(?:I|we|my|our|you)\b", inner):
            return  # another person about us, or a quotation
        for clause in self._read(inner, None):
            yield replace(clause, hedged=clause.hedged or not firm)

    def _find_owner(self, word: str) -> str | None:
        if word.lower() in {"my", "our"}:
            return self.me
        return self._third if self._third and self._is_referent("he" if word.lower() == "his" else "she") else None

    def _is_referent(self, pronoun: str) -> bool:
        if self._third is None:
            return False
        last = self._third.rpartition("/")[2].removeprefix("ex-")
        return last not in (MALE if pronoun == "she" else FEMALE)

    def introduce(self, subject: str) -> None:
        """A person was introduced: "she" and "who" now refer to them."""
        self._set_third_person(subject)
        self._met = subject


_LIKING = re.compile(
    r"(?:(?:absolutely |really |just )?(?:love|hate|adore|despise) (?!the\b|my\b|from\b|to\b|of\b|is\b|and\b|at\b|"
    r"speech\b|"
    r"crimes?\b|\w+ (?:is|are|was)\b)\w|(?:not )?(?:a )?(?:big |huge |massive )?fan of )",
    re.IGNORECASE,
)
_ELIDED = re.compile(
    r"(?:just |finally |recently )*(?:moved|got (?:engaged|married|divorced|promoted|a new job|a job)|"
    r"(?:sharing|renting) an? (?:\w+ )?(?:place|flat|house|apartment|room|studio)|"
    r"started (?:a job|working|at|a new job)|can not (?:stand|bear|eat)|adopted|bought|joined|relocated|"
    r"quit my job|lost my job|going to be (?:in|away|on)|"
    rf"got (?:an?|two|three) (?:new )?{any_of(PETS)}s?\b|"
    r"turned \d{1,2})\b",
    re.IGNORECASE,
)


def _split_pieces(text: str) -> Iterator[tuple[str, bool, bool]]:
    """Yield each part of the sentence, whether it is a condition, and whether it is about the person just named."""
    at, unreal, relative = 0, False, False
    for found in _SPLIT.finditer(text):
        if found.start() > at:
            if found.group() == " " and not _RUNS_ON.match(text[at : found.start()]):
                continue
            yield text[at : found.start()][:MAX_CLAUSE], unreal, relative
        joint = found.group()
        unreal = bool(_UNREAL_JOINT.search(joint))
        relative = joint.strip(" ,") == "who"
        at = found.end()
    yield text[at:][:MAX_CLAUSE], unreal, relative


_LY_NAMES = frozenset(
    "Emily Lily Kelly Molly Polly Sally Billy Holly Carly Lilly Milly Willy Ely Elly Nelly Shelly".split()
)


def _strip_leads(piece: str) -> str:
    piece = piece.lstrip(" ,.:!\"'(*_")
    for _ in range(4):
        match = _LEAD.match(piece)
        if not match:
            break
        piece = piece[match.end() :]
    return piece


def _is_small_name(word: str, subject: str) -> bool:
    return word in GIVEN_NAMES or (word in PET_NAMES and subject.rpartition("/")[2] in PETS)


def is_name(name: str) -> bool:
    if name.endswith("ly") and name.casefold() not in GIVEN_NAMES and " " not in name:
        return name in _LY_NAMES
    return not any(word.casefold() in NO_NAMES for word in re.split(r"[\s']", name))
