"""Preferences and tools, and requirements: standing orders, limits, budgets, deadlines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from limpet.knowledge.english import values
from limpet.knowledge.english.clause import Clause
from limpet.knowledge.english.lexicon import LANGUAGES, any_of
from limpet.knowledge.english.values import Rule, RuleMatch, compile_pattern
from limpet.model.record import RecordType

_DO = (
    r"(?:use|using|deploy|commit|push|run|write|add|answer|reply|respond|call|send|ask|delete|drop|"
    r"merge|put|include|keep|check|"
    r"test|format|return|import|log|expose|store|share|touch|change|edit|modify|install|mention|"
    r"suggest|speak|translate|"
    r"book|order|schedule|start|round|cite|show|explain|hard-?code|mock|skip|create|remove|rename|"
    r"force|force-push|rebase|"
    r"squash|sign|validate|escape|sanitize|sanitise|quote|buy|wear|cook|feed|lock|wash|disable|enable|bypass|"
    r"override|"
    r"overwrite|refactor|upgrade|downgrade|bump|release|publish|ship|print|pass|throw|raise|catch|swallow|cache|"
    r"assume|"
    r"commit|document|comment|pin|review|prefix|name|end|begin|reveal|post|email|contact|pay|charge|"
    r"refund|approve|open|"
    r"block|inline|depend|rely|target|support|save|back up|apply|migrate|query|seed|truncate|generate|"
    r"summari[sz]e|address)"
)
# Prohibitions beyond the current answer. "Do not include anything else" is about that answer only.
_TOUCH = (
    r"(?:use|deploy|commit|push|touch|change|edit|modify|delete|drop|remove|rename|install|merge|rebase|force-push|"
    r"upgrade|downgrade|bump|release|publish|ship|hard-?code|mock|disable|bypass|override|overwrite|expose|store|"
    r"share|"
    r"call|contact|email|order|buy|book|schedule|import|log|cache|add (?:new |any |more )?(?:dependenc|package|"
    r"librar)\w*|suggest|recommend|offer|propose)"
)
_STANDING = re.compile(
    rf"(?:^|[,;:] )(?:please |also |and |but |remember to |make sure to |make sure you |you should |"
    rf"you must |we |it should )*"
    rf"(?:always|never|under no circumstances(?: should you)?|at no point)(?: ever)? {_DO}\b(?! (?:to|"
    rf"it) (?:be|have)\b)",
    re.IGNORECASE,
)
_FROM_NOW_ON = re.compile(
    r"^(?:from now on|going forward|in (?:the )?future|henceforth)\b[, ]+"
    r"(?!I\b|we\b|he\b|she\b)(?P<v>.{8,})|^(?!.*\bI (?:will|am|would|can|have|want)\b).*\bfrom now on\b",
    re.IGNORECASE,
)
_DO_NOT = re.compile(
    rf"(?:^|[,;:] (?:and |so |but )?|\b(?:and|so|but) )(?:please |pls |plz |also )?do not (?:ever "
    rf")?{_TOUCH}\b(?!.*\b(?:yet|now|this time|today|it again|anything else|that one|this one)\b)",
    re.IGNORECASE,
)
_ONLY = re.compile(rf"(?:^|[,;:] )(?:please |you may |we may |we can )?only {_DO}\b", re.IGNORECASE)
_MUST = re.compile(
    r"\b(?P<who>[\w.`/-]+) (?:must|has to|have to|needs to|need to|shall|may)(?P<not> (?:not|never|"
    r"only|always))?(?: be)? (?P<verb>[\w-]+)",
    re.IGNORECASE,
)
_MUST_NOT = re.compile(
    r"\b(?:must (?:not|never)|(?:am|is|are) not allowed|(?:is|are) forbidden|(?:is|are) prohibited|may "
    r"not (?!be\b|have\b)|"
    r"(?<!this )(?<!that )(?<!it )should never|can not exceed|must not exceed|no more than \d|not permitted)\b",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"\b(?:must|has to|have to|needs to|need to|should) (?:stay|be|remain|fit|finish|complete|respond|"
    r"load|run) (?:\w+ )?(?:below|under|within|above|"
    r"at (?:most|least)|less than|more than|compatible with)\b",
    re.IGNORECASE,
)
_WE_CANNOT = re.compile(
    r"\b(?:we|the project|this project) (?:can not|are not allowed to|may not|must not|can only|may "
    r"only|must only) (?:use|ship|depend|deploy|add|store|share|rely|upgrade|install|run|support|"
    r"touch|change)\b",
    re.IGNORECASE,
)
_WE_MUST = re.compile(
    r"\bwe (?:have to|must|need to) (?:support|stay (?:on|with|compatible)|comply|be compatible|run on|keep support)|"
    r"\bthe (?:\w+ )?(?:client|customer|company|contract|policy|law|regulator|auditor|security team|legal team|team) "
    r"(?:requires|demands|insists|mandates|forbids) (?:that|on|all|every|no|us)\b",
    re.IGNORECASE,
)
_STYLE = re.compile(
    r"^(?:please |pls |also |and |ok,? |hey,? |(?:can|could|would|will) (?:you|u) |(?:I would like|I want|"
    r"I need) you to )*"
    r"(?:stop (?:using|asking|adding|apologi[sz]ing|explaining|writing|"
    r"saying|calling|sending|repeating|"
    r"suggesting|telling|giving|putting|starting|ending|making)"
    r" .{3,}|do not ask (?:me )?for confirmation|(?:be|stay) (?:more )?(?:concise|brief|terse)(?=$|[,.!]| in|"
    r" please)|"
    r"keep (?:your |the |all )?(?:answers|replies|responses|messages|summaries|explanations) "
    r"(?:short|brief|concise|simple|under \w+|below \w+|to \w+)|"
    r"(?:answer|reply|respond|speak)(?: to me)?(?: only)? in (?:" + any_of(LANGUAGES) + r"|plain text|markdown)\b|"
    r"use (?:british|american|metric|imperial|tabs|spaces|\d spaces|camelcase|snake_case|markdown|plain text|"
    r"celsius)\b|"
    r"no (?:emojis?|bullet points|small talk)\b)|"
    r"\band (?:to )?keep (?:your |the |all )?(?:answers|replies|responses|messages) (?:short|brief|concise|under|"
    r"below)\b|"
    r"\b(?:give|show|tell|ask) me (?:only )?one \w+ at a time\b|\bso (?:please )?no (?:\w+ ){1,3}(?:please|pls)\b|"
    r"\bkeep (?:the )?\w+(?: \w+)? (?:to a minimum|minimal)\b|"
    r"\bno (?:\w+ ){1,2}in (?:the |my |our )?(?:\w+ )?(?:files?|code|commits?|comments?|modules?)\b",
    re.IGNORECASE,
)
# About work, not life: "every function needs a docstring", "max line length is 100", "we target Python 3.10".
_HOUSE_RULE = re.compile(
    r"\b(?:max|maximum|min|minimum) (?:(?:supported|allowed|required) )?(?:(?:node|python|java|php|ruby|go|api|"
    r"android|ios|"
    r"browser|compiler|db|database|postgres) )?(?:line length|line width|file size|sdk|sdk version|api level|version|"
    r"upload size|"
    r"word count|length|coverage|timeout|memory|page count) (?:is|=|:|of) ?v?\d|"
    r"\b(?:every|each|all) (?:(?:new|public|changed|exported) )?(?:functions?|class(?:es)?|modules?|methods?|"
    r"commits?|prs?|"
    r"pull requests?|endpoints?|components?|migrations?|releases?|files?) (?:needs?|gets?|must have|requires?|"
    r"has to have) |"
    r"\bwe (?:only )?(?:target|support) (?:only )?(?:python|node|java|php|ruby|go|rust|ios|android|chrome|safari|"
    r"firefox|postgres|"
    r"windows|macos|linux|\.net)\b",
    re.IGNORECASE,
)
_WORK_NOUN = (
    r"(?:prs?|pull requests?|commits?|commit messages?|branch(?:es)?|branch names?|migrations?|endpoints?|tests?|"
    r"functions?|"
    r"class(?:es)?|files?|file names?|secrets?|logs?|dates?|timestamps?|titles?|names?|changes|releases?|builds?|"
    r"images?|"
    r"quer(?:y|ies)|requests?|responses?|inputs?|strings?|dependenc(?:y|ies)|versions?|features?|errors?|exceptions?|"
    r"hotfix(?:es)?)"
)
_PRACTICE = re.compile(
    rf"\b(?:(?:all|every|each|new|public|our|any) )?(?<!the ){_WORK_NOUN} (?:must|have to|has to|need to|"
    rf"needs to)(?: all| always)? "
    r"(?:be \w+(?:ed|en|wn|ten|d|t)|follow|have|start with|end with|include|contain|pass|come with|use)\b|"
    r"\bthe (?:pr |commit |branch )?(?:title|message|name)s? (?:must|has to|have to|needs? to) (?:be|follow|start|"
    r"end|include)\b",
    re.IGNORECASE,
)
# A stated consequence makes it more than a wish.
_OR_ELSE = re.compile(
    r"^(?:the|our|this|that|every|each|any|`)[\w`./ -]{2,40}? (?:needs?|requires?|has to|have to|must|needs to) "
    r".{2,80}?,? (?:otherwise|or else|or it(?: will)?|if not,) .{4,}",
    re.IGNORECASE,
)
# "Whenever …": an order that lasts.
_WHENEVER = re.compile(
    r"^(?:.{0,80}?[,;] ?(?:so |and )?)?(?:please|pls|kindly) (?:do not |never |always )?\w+ .{2,120}?\b(?:when|"
    r"whenever|every time|"
    r"each time|any time) (?:you (?:suggest|recommend|answer|reply|write|propose|plan|book|cook|search|give|list|code|"
    r"translate|explain|make|show)|I ask)\b|^(?:.{0,80}?[,;] ?(?:so |and )?)?(?:please |pls )?leave out (?:any|every|"
    r"all)\w* .{3,}",
    re.IGNORECASE,
)
_ORDERS = (
    _PRACTICE,
    _OR_ELSE,
    _WHENEVER,
    _HOUSE_RULE,
    _STANDING,
    _FROM_NOW_ON,
    _DO_NOT,
    _ONLY,
    _MUST_NOT,
    _LIMIT,
    _WE_CANNOT,
    _WE_MUST,
    _STYLE,
)
_AVAILABLE = re.compile(
    r"\bI (?:am|can) (?:only )?(?:available|free|meet|do (?:calls|meetings)) (?:only )?(?:after|"
    r"before|on|between|until|from)\b|\bI am only (?:available|free)\b|"
    r"\bI (?:can not|never) (?:do|make|work|meet|come|join)(?: on)? (?:\w+day mornings|(?:mon|tues|wednes|thurs|"
    r"fri|satur|sun)days|"
    r"weekends|mornings|evenings|school holidays)\b",
    re.IGNORECASE,
)
_GUESSING = re.compile(
    r"\b(?:you|it|that|this|he|she|there|they|I) must (?:be|have)\b|\bmust have (?:been|\w+(?:ed|en|t)\b)",
    re.IGNORECASE,
)
_PEOPLE = frozenset("i you he she they it that this there who we what to not also really one people everyone".split())
_MONEY = (
    r"(?:[$€£¥]\s?\d[\d.,]*(?:\s?[kKmM]\b)?|\d[\d.,]*\s?(?:k|m)?\s?(?:euros?|dollars?|usd|eur|gbp|"
    r"pounds?|quid|bucks|francs|chf|yen|rupees|crowns|pesos|reais|zloty)?\b)"
)
_BUDGET = re.compile(
    rf"\b(?:(?P<whose>my|our|the|a) )?(?:(?P<of>[a-z]+) )?budget (?:for (?:the |this |our |my "
    rf")?(?P<for>[\w ]{{2,30}}?) )?(?:is|of|=|:|went (?:up|down) to|"
    rf"(?:was|got|has been|is) (?:raised|cut|increased|reduced|lowered|changed) to)"
    rf"(?: about| around| at most| max| only| roughly| now)* ?(?P<v>{_MONEY})",
    re.IGNORECASE,
)
_HAVE = re.compile(
    rf"\b(?:I|we) (?:only )?have (?:about |around |only |roughly |at most |up to )?(?P<v>(?=[$€£]|"
    rf"\d[\d.,]* ?[a-z]{{3}}){_MONEY}) "
    rf"(?:to spend on|for) (?:the |this |our |my |a )?(?:whole |entire |new )?"
    rf"(?P<for>trip|holiday|vacation|wedding|party|laptop|phone|car|bike|project|gift|present|renovation|course|"
    rf"flat)\b",
    re.IGNORECASE,
)
_SPEND = re.compile(
    rf"\b(?:I|we) (?:can not|must not|do not want to|can only|will not|want to) (?:spend|pay)(?: more "
    rf"than| over| at most| up to| no more than)? (?P<v>{_MONEY})",
    re.IGNORECASE,
)
_DATE = (
    r"(?:\d{1,2}(?:st|nd|rd|th)?(?: of)? (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*|"
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w* \d{1,2}(?:st|nd|rd|th)?|"
    r"(?:next )?(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
)
_DEADLINE = re.compile(
    r"\bdeadline (?:for (?:the |this |our |my )?(?P<for>[\w ]{2,30}?) )?(?:is|(?:was |has |has been |got |is )?"
    r"(?:moved|pushed|extended|postponed|changed)(?: back| out)? to|=|:)(?: on| now| still)* (?P<v>.+)",
    re.IGNORECASE,
)
_RELEASE = re.compile(
    rf"\b(?:(?:the|our|next) )?(?P<for>release|launch|go-live|demo|submission|code freeze|"
    rf"feature freeze)(?: date)? is "
    rf"(?:now |still )?(?:(?:on|planned for|set for|scheduled for|due) )?(?P<v>(?:the )?{_DATE})",
    re.IGNORECASE,
)
_DUE = re.compile(
    r"\b(?:is|are) due (?:on|by|in|at)? ?(?P<v>.+)|\b(?:has|have|needs?) to be (?:done|ready|finished|"
    r"submitted|shipped|in|delivered) (?:by|before|on) (?P<w>.+)|"
    rf"\b(?:wants|needs|expects) (?:the|it|this|my|our|a) .{{0,40}}?\bby (?P<x>(?:tomorrow|{_DATE})\b.*)",
    re.IGNORECASE,
)
_WHEN = re.compile(
    r"\d|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b(?:tomorrow|tonight|noon|midnight|end of|"
    r"next|week|month)\b|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)",
    re.IGNORECASE,
)
_CHANGED = re.compile(
    r"\b(?:now|moved|changed|extended|postponed|pushed|raised|lowered|cut|increased|reduced|went|new|no longer|"
    r"actually|correction|instead)\b",
    re.IGNORECASE,
)
_LIFTED = re.compile(
    rf"^(?:(?:ok|okay|actually|so|well),? )?(?:you|we) (?:can|may) (?:now |again )?(?P<v>{_DO}\b.+?) (?:now|again)\b|"
    rf"\bit is (?:ok|okay|fine|allowed) (?:now |again )?to (?P<w>{_DO}\b.+?) (?:now|again)\b",
    re.IGNORECASE,
)
_REMEMBER = re.compile(
    r"^(?:please |and |also |so |just |ok,? )*(?:remember(?: that| this)?(?!,)|note that|keep in "
    r"mind(?: that)?|do not forget that|make a note(?: that)?|for the record|note to self|please "
    r"note(?: that)?)[:,]? +(?P<v>(?!to\b|that\b|the following\b|me\b|when\b|how\b|what\b|the time\b|that time\b|"
    r"you\b|"
    r"us\b).{8,})",
    re.IGNORECASE,
)


def find_constraints(sentence: str, me: str) -> Iterator[RuleMatch]:
    if limits := list(_find_limits(sentence, me)):
        yield from limits
        return
    if _AVAILABLE.search(sentence):
        yield _build_constraint(me, 0.75)
        return
    if _GUESSING.search(sentence):
        return
    if lifted := _LIFTED.search(sentence):
        value = (lifted["v"] or lifted["w"]).strip(" .!")
        yield replace(_build_constraint("project", 0.75, None, value), polarity=False)
        return
    if any(rule.search(sentence) for rule in _ORDERS) or _is_requirement(sentence):
        mine = re.search(r"\bI am not allowed\b", sentence, re.IGNORECASE) is not None
        yield _build_constraint(me if mine else "project", 0.65 if _DO_NOT.search(sentence) else 0.8)


def _is_requirement(sentence: str) -> bool:
    """About things, not people: "the service must run on ARM", not "I have to run"."""
    match = _MUST.search(sentence)
    if not match or match["who"].lower() in _PEOPLE:
        return False
    modal = match.group().lower()
    return (
        " must " in modal
        and re.match(
            r"run|work|support|use|stay|remain|be|fit|return|start|pass|include|contain|never|not|keep|"
            r"compile|handle",
            match["verb"],
            re.IGNORECASE,
        )
        is not None
    )


def _build_constraint(
    subject: str, confidence: float, attribute: str | None = None, value: str | None = None, *, changed: bool = False
) -> RuleMatch:
    exclusive = attribute is not None and (":" in attribute or changed)
    return RuleMatch(
        RecordType.CONSTRAINT, subject, attribute, value, exclusive=exclusive, confidence=confidence, salience=0.8
    )


def _find_limits(sentence: str, me: str) -> Iterator[RuleMatch]:
    """A budget without a purpose may differ from the last one, unless a change is stated."""
    changed = _CHANGED.search(sentence) is not None
    if match := _BUDGET.search(sentence) if "budget" in sentence.casefold() else None:
        what = match["for"] or (
            match["of"] if match["of"] not in {None, "total", "whole", "my", "our", "the", "a"} else None
        )
        mine = (
            (match["whose"] or "").lower() in {"my", "our"}
            or match.start() == 0
            or re.match(r"I (?:am|have|only have)\b", sentence)
        )
        subject = me if mine else "project"
        yield _build_constraint(
            subject,
            0.85,
            f"budget:{what.lower().strip()}" if what else "budget",
            match["v"].strip(" .,"),
            changed=changed,
        )
    elif match := _HAVE.search(sentence):
        yield _build_constraint(me, 0.75, f"budget:{match['for'].lower()}", match["v"].strip(" .,"), changed=changed)
    elif match := _SPEND.search(sentence):
        yield _build_constraint(me, 0.8, "budget", match["v"].strip(" .,"))
    if (match := _DEADLINE.search(sentence)) and _WHEN.search(match["v"]):
        what = match["for"]
        yield _build_constraint(
            "project",
            0.85,
            f"deadline:{what.lower().strip()}" if what else "deadline",
            values.parse_span(match["v"]),
            changed=changed,
        )
    elif match := _RELEASE.search(sentence):
        when = re.sub(r"^the ", "", match["v"])
        yield _build_constraint("project", 0.8, f"deadline:{match['for'].lower()}", when, changed=changed)
    elif (match := _DUE.search(sentence)) and _WHEN.search(match["v"] or match["w"] or match["x"]):
        yield _build_constraint("project", 0.75, "deadline", values.parse_span(match["v"] or match["w"] or match["x"]))


def find_notes(sentence: str, me: str) -> Iterator[RuleMatch]:
    """Return what a user asked to remember and no other rule matched."""
    if _REMEMBER.match(sentence):
        yield RuleMatch(RecordType.NOTE, me, None, None, confidence=0.85, salience=0.8, tags=("asked",))


# Likes, tools and preferences


_P = RecordType.PREFERENCE
_BE = r"(?:am|is|are)"
_VERY = r"(?:really |very |super |so |quite |pretty |totally |huge |big |a big |a huge |a |the biggest |not )*"

RULES: tuple[Rule, ...] = (
    Rule(
        "likes",
        compile_pattern(
            r"(?:(?:like|likes|dig|digs) (?!the (?!\w+(?: \w+)? of\b))|(?:love|loves|enjoy|enjoys|adore|"
            r"adores) )(?P<v>.+)"
        ),
        values.parse_thing,
        _P,
    ),
    Rule(
        "likes",
        compile_pattern(
            rf"{_BE} {_VERY}(?:into|fond of|fan of|fans of|crazy about|obsessed with|keen on|passionate about) "
            rf"(?P<v>.+)"
        ),
        values.parse_thing,
        _P,
    ),
    Rule(
        "likes",
        compile_pattern(
            r"(?:hate|hates|dislike|dislikes|detest|detests|loathe|loathes|despise|despises|can not (?:stand|"
            r"bear|stomach|tolerate)) (?P<v>.+)"
        ),
        values.parse_thing,
        _P,
        denies=True,
    ),
    Rule("prefers", compile_pattern(r"(?:prefer|prefers) (?P<v>.+)"), values.parse_choice, _P, salience=0.7),
    Rule(
        "prefers",
        compile_pattern(r"would (?:much |really )?(?:rather|prefer) (?P<v>(?!die\b|not\b)(?!.* here$).+)"),
        values.parse_choice,
        _P,
        when="possible",
        salience=0.7,
    ),
    Rule("uses", compile_pattern(r"(?:use|uses) (?P<v>[^,.;]+? for .+)"), values.parse_thing, _P),
    Rule("uses", compile_pattern(r"(?:use|uses) (?P<v>.+)"), values.parse_thing, _P, when="habit"),
    Rule("uses", compile_pattern(r"(?:use|uses) (?P<v>.+)"), values.parse_tools, _P, confidence=0.75),
)
_FAVOURITE = re.compile(
    r"(?:all-time |absolute |current |new |latest )?favou?rites? (?P<what>[\w -]{2,40}?)(?: of all time| ever)?"
    r"(?: (?:is|are|was) | ?[:=] ?)(?P<v>.+)",
    re.IGNORECASE,
)
_IS_FAVOURITE = re.compile(
    r"^(?:the )?(?P<v>[\w' -]{2,50}?) (?:is|are) (?P<whose>my|our) (?:all-time |absolute |current |new |latest )?"
    r"favou?rite (?P<what>[\w -]{2,30}?)(?=$|[,.!;]| (?:and|but|because|so)\b)",
    re.IGNORECASE,
)
# References to something earlier, which cannot be resolved later.
_PARTS = frozenset("part bit thing one line section option moment version feature aspect".split())
_SPELLINGS = {"color": "colour", "flavor": "flavour", "neighborhood": "neighbourhood", "movie": "film"}


def find_favourites(clause: Clause) -> Iterator[RuleMatch]:
    if clause.owned and (match := _FAVOURITE.match(clause.predicate)):
        yield from _build_favourite(clause.subject, match)


def find_listed_favourites(sentence: str, me: str, *, bullet: bool) -> Iterator[RuleMatch]:
    if (bullet and (match := _FAVOURITE.match(sentence))) or (match := _IS_FAVOURITE.match(sentence)):
        yield from _build_favourite(me, match)


def _build_favourite(subject: str, match: re.Match[str]) -> Iterator[RuleMatch]:
    what = match["what"].casefold().strip()
    what = _SPELLINGS.get(what, what.removesuffix("s") if not what.endswith("ss") else what)
    value = values.parse_thing(match["v"])
    if value and not _PARTS.intersection(what.split()) and not what.startswith("so far"):
        yield RuleMatch(
            _P, subject, f"favourite:{what}", value, exclusive=True, confidence=0.9, salience=0.7, tags=("favourite",)
        )
