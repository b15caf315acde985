"""Events of a project: its tools, decisions, problems and fixes, and commands that were run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from limpet.knowledge.candidate import TurnMessage, iter_texts
from limpet.knowledge.english import values
from limpet.knowledge.english.lexicon import PETS, RELATIONS, any_of
from limpet.knowledge.english.values import RuleMatch
from limpet.model.message import Role, ToolCall
from limpet.model.record import Layer, RecordType

_PART = (
    r"(?:back-?end|front-?end|app|api|project|services?|site|website|codebase|repo|server|client|cli|bot|pipeline|"
    r"product|platform|dashboard)"
)
_MADE_OF = re.compile(
    r"\b(?:(?:our|the) (?:tech )?stack is|we are (?:still )?(?:on|running(?: on)?)) (?P<w>[\w.+#-]+.*)|"
    rf"\b(?:the|our|my|this) (?:[\w-]+ )?{_PART} (?:is|are) (?:all |mostly |entirely )?"
    r"(?:written|built|implemented|coded) (?:in|with|on(?: top of)?) (?P<v>[\w.+#-]+.*)|"
    rf"\b(?:the|our) (?:[\w-]+ ){{0,2}}(?:{_PART}|database|db|queue|cache|ci|hosting|infrastructure|infra|orm|"
    rf"test runner)"
    r" (?:is|are|runs? on|(?:is|are) hosted on|uses?|lives? on) (?:an? |all |still |now )?(?P<x>[A-Za-z][\w.+#-]*.*)",
    re.IGNORECASE,
)
# Recurring events of a team: "we release every second Thursday".
_ROUTINE = re.compile(
    r"\bwe (?:only |always |usually )?(?:release|deploy|ship|cut a release) (?:to (?:prod|production|staging) )?"
    r"(?:every|each|once an?|twice an?|weekly|daily|monthly|on (?:\w+days?|the (?:first|second|last)))\b",
    re.IGNORECASE,
)
# Fast check for texts without any.
_HINT = re.compile(
    r"stack|written|built|implemented|coded|we are|\b(?:the|our) .{2,60}(?:is|are|runs?|uses?|lives?) ", re.IGNORECASE
)
# Languages whose names are also words or letters.
_SHORT_NAMES = re.compile(r"(?:go|c|r|d|zig|haskell|clojure|erlang)\b(?! (?:down|to|away|live)\b)", re.IGNORECASE)


def find_stack(sentence: str) -> Iterator[RuleMatch]:
    found = _MADE_OF.search(sentence) if _HINT.search(sentence) else None
    made = (found["v"] or found["w"] or found["x"]) if found else None
    if made and (values.is_product(made) or _SHORT_NAMES.match(made)):
        yield RuleMatch(RecordType.FACT, "project", None, None, confidence=0.8, salience=0.6)


def find_routine(sentence: str) -> Iterator[RuleMatch]:
    if _ROUTINE.search(sentence):
        yield RuleMatch(RecordType.FACT, "project", None, None, confidence=0.8, salience=0.6)


# Decisions


_LETS = re.compile(
    r"(?:^|[,;:] |\b(?:so|ok|okay|right|then|alright|and|yes|actually|no|hmm|thought|well) )"
    r"let'?s (?:just |please )?(?:go with|"
    r"use|stick (?:with|to)|switch to|drop|keep(?! \w+ing\b| at\b| up\b| it up| in touch| this up| "
    r"each other)|"
    r"choose|pick|settle (?:on|for)|adopt|call it|name it|move to|skip|postpone|ship|target|standardi[sz]e on|"
    r"not use|"
    r"go for|do it with|build (?:it|this) (?:with|in|on))\b (?P<v>.+)",
    re.IGNORECASE,
)
_SETTLED = re.compile(
    r"(?<!which )(?<!that )(?<!what )(?<!where )\b(?P<who>I|we|my \w+ and I|the team|us) (?:have |both |all |"
    r"finally |just |already |had |now )*"
    r"(?:(?:decided|agreed|chose|opted|resolved|voted)(?: not)? (?:to|on|against|for|that)|settled on|"
    r"chose|picked(?! up| out)|went with(?! (?:my|our|him|her|them|some friends|a friend|friends))|"
    r"are not going to (?:support|use|ship|add|build|maintain)|are going with|am going with|will go with|"
    r"are switching to|ended up (?:going with|choosing|using)|have chosen|"
    r"have settled on|will stick with|are sticking (?:with|to)) (?P<v>.+)",
    re.IGNORECASE,
)
# A completed change of tools is a decision; people move too.
_CHANGED = re.compile(
    r"\bwe (?:will|are going to) (?:use|stay (?:on|with)) (?P<w>.+)|"
    r"^(?:let'?s )?(?:scrap|ditch|forget|drop) the [\w -]{3,40}, we (?:are|will) (?:just )?(?P<x>(?:keep|"
    r"going to (?!be\b|talk\b|discuss\b|see\b)|us(?:e|ing)|do (?:it|this)).+)|"
    r"\bwe (?:have |just |already |recently )*(?:switched|migrated|moved)(?: over)?(?: away)?"
    r"(?: from (?P<old>[\w.+#-]+))?(?: over)? to (?P<v>.+)",
    re.IGNORECASE,
)
_STATED = re.compile(
    r"\b(?:the |our |my |final )+decision (?:is|was)(?: to)?:? (?!final\b|hard\b|not\b|up to\b|mine\b|"
    r"yours\b)(?P<v>.+)|"
    r"^(?:ok,? |okay,? |so,? )?(?:final )?(?:decision|verdict): (?P<d>.+)",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\b(?:have not|has not|had not|did not|not yet|never|yet to|before (?:I|we)|once (?:I|we)|until "
    r"(?:I|we)|if (?:I|we)|undecided|can not|could not|when (?:I|we))\b[^.]{0,25}\b(?:decide|agree|"
    r"chosen|choose|settled|pick)",
    re.IGNORECASE,
)

# An assistant also drafts letters: its decision is about the work if it reports what it did.
_OF_THE_WORK = re.compile(
    r"\b(?:decided|chose|opted)(?: not)? (?:to|for) (?:use|keep|add|drop|switch|split|move|store|make|implement|skip|"
    r"leave|put|rename|pin|go with|reuse|write|remove|replace|extract|cache|index)\b",
    re.IGNORECASE,
)
# Unclear later, or not a choice: "go with my sister", "call it a day".
_IDLE = re.compile(
    r"(?:them|it|this|that|these|those|him|her|me|you|your|one|both|some|something|someone)\b|"
    rf"(?:my|our|his|her|their) (?:\w+ )?(?:{any_of(frozenset(RELATIONS) | PETS)}s?|children|parents|family|folks)\b|"
    r"(?:the )?(?:option|plan|version|choice|number|answer|variant) (?:[a-z]|\d+|one|two|three)$|the \w+ one\b|"
    r"(?:stay|stayed) (?:in|home|at home|up)\b|(?:a|the|another) (?:time|date|day|night|break|walk|look|few|"
    r"moment)\b|by\b|in on\b|off\b|to disagree|disagree\b|"
    r"(?:the |an )?(?:next|last|first|second|third|other|former|latter|same) "
    r"(?:one|option|question|topic|step|part|point|item|section|task)s?\b|"
    r"(?:go|going) (?:to (?:bed|sleep|the)|home|out|for a)\b|.{0,40}\bup$|quits$",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"\b(?:let'?s (?:just |please )?not use|are not going to|decided not to|decided against|opted against|"
    r"let'?s drop)\b",
    re.IGNORECASE,
)


def find_decisions(sentence: str, me: str, *, proposes: bool) -> Iterator[RuleMatch]:
    """``proposes``: "let's" counts. An assistant's proposal is not a decision; what it reports as settled is."""
    if _OPEN.search(sentence):
        return
    settled = _SETTLED.search(sentence)
    if settled and _IDLE.match(settled["v"].strip(" .!")):
        return
    lets = _LETS.search(sentence) if proposes and "let" in sentence.casefold() else None
    if lets and (settled is None or not _REFUSED.search(lets.group())):  # the rejected alternative says more
        if not _IDLE.match(lets["v"].strip(" .!")):
            yield _build_decision("project", lets)
    elif settled:
        mine = settled["who"].lower() == "i" or settled["who"].lower().endswith(" i")
        if mine and not proposes and not _OF_THE_WORK.search(settled.group()):
            return
        yield _build_decision(me if mine and proposes else "project", settled)
    elif (changed := _CHANGED.search(sentence)) and _is_about_tools(changed, proposes=proposes):
        yield _build_decision("project", changed)
    elif (match := _STATED.search(sentence)) and (proposes or not match["d"]):
        yield _build_decision("project", match)


def _is_about_tools(changed: re.Match[str], *, proposes: bool) -> bool:
    if changed["v"]:
        return values.parse_product(changed["v"]) is not None
    return proposes and bool(changed["x"] or values.parse_product(changed["w"]))


def _build_decision(subject: str, match: re.Match[str]) -> RuleMatch:
    salience = 0.75 if subject == "project" else 0.5  # a choice of dessert matters less than a choice of database
    named = match.groupdict()
    value = next(text for text in map(named.get, "vdwx") if text)
    return RuleMatch(
        RecordType.DECISION,
        subject,
        None,
        value.strip(" .!")[:200] or None,
        polarity=_REFUSED.search(match.group()) is None,
        confidence=0.85,
        salience=salience,
    )


# Problems and fixes


_FAILED = re.compile(
    r"\b(?:failed|crashed|broke|was failing|is failing|were failing|did not work|does not work|"
    r"timed out|hung|blew up|was red|was broken|errored|stopped working|was slow|"
    r"was flaky)\b.{0,60}?\b(?:because|due to|since|"
    r"when|after)\b .{4,}|\b(?:failed|crashed) with .{4,}",
    re.IGNORECASE,
)
# In the present tense a user reports, while an assistant explains in general.
_FAILS = re.compile(
    r"(?<!\bI )(?<!\bto )\b(?:fails?|crash(?:es)?|times? out)\b(?:(?: on \w+)?(?: \w+)? (?:because|due to|"
    r"since|with|after)|.{0,30} because) .{4,}|"
    r"\b(?:keeps?|kept) (?:failing|dying|crashing|breaking|hanging|timing out|flaking)\b.{0,60}?\b(?:because|due to|"
    r"since|with|after|"
    r"when|whenever) .{4,}|"
    r"\b(?:returns?|gives?|throws?|answers with|responds with) (?:an? |HTTP )?[45]\d\d(?: errors?)? (?:when|whenever|"
    r"if|for|because|on|"
    r"as soon as) .{4,}",
    re.IGNORECASE,
)
# It still fails: keep the error text, so that it can be found later.
_STILL = re.compile(
    r"\bstill (?:an? )?(?:HTTP )?[45]\d\d(?: errors?)?(?=$|[.!])|"
    r"\bstill (?:get|gets|getting|see|seeing|throws?|throwing|fails? with|failing with|crash(?:es)? with|says?|"
    r"returns?|"
    r"returning)\b.{0,40}?(?:\b(?-i:[A-Z][A-Z0-9]*_[A-Z0-9_]{3,})|\b\w+(?:Error|Exception)\b|\bHTTP \d{3}\b|"
    r"\b[45]\d\d(?:s| errors?)?(?=$|[,.!])|\bE\d{3,}\b|\b(?:exit )?code \d+|\bsegfault|\bout of memory\b|"
    r"\btimeouts?\b)",
    re.IGNORECASE,
)
_CAUSE = re.compile(
    r"\b(?:root cause|culprit|real problem|actual problem|actual issue|real issue|underlying (?:issue|"
    r"problem|cause))\b(?! that\b| which\b| and\b).{0,30}?\b(?:was|is|turned out to be)\b .{4,}"
    r"|\b(?:the|this|that|our|my) (?:\w+ ){0,3}(?:bug|issue|problem|failure|crash|outage|error|test|"
    r"build|leak|regression|timeout)s? (?:was|were|is|are) caused by .{4,}"
    r"|\bthe (?:bug|issue|problem) was (?:that |in |a |an |the ).{4,}",
    re.IGNORECASE,
)
_DID = (
    r"(?:changed|added|removed|pinned|upgraded|replaced|renamed|moved|set|switched|restarted|cleared|updated|"
    r"reverted|mounted|"
    r"deleted|disabled|enabled|installed|reinstalled|downgraded|bumped|wrapped|increased|rebuilt|patched|raised|"
    r"lowered)"
)
# Fast check for texts without any.
_FAILURES_HINT = re.compile(
    r"[fF]ix|[sS]olved|[cC]ured|[rR]epaired|worke?[ds]?\b|unblocked|trick|[wW]orkaround|[sS]olution|pass|green|"
    r"gone|went away|"
    r"disappeared|runs|builds|again|now\b|stopped|back|fine|did|does|helped"
)
_FIXED_BY = re.compile(
    r"(?<!more )(?<!is )(?<!are )(?<!be )(?<!became )\b(?:fixed|solved|resolved|repaired|worked "
    r"around|unblocked|cured)\b.{0,50}?\b(?:by|with) (?:\w+ing\b|an?\b|the\b|`).{3,}|"
    r"\bthe (?:fix|solution|workaround) (?:was|turned out to be) .{4,}|"
    r"^(?:fix|workaround)\b[^:0-9]{0,40}: .{4,}|"
    r"(?:^|; |, (?=\w+ing\b))(?:turns out )?[\w`./: =<>@'\"-]{3,80}?\b(?:fixed|solved|resolved|cured) "
    r"(?:it|this|that|the \w+|everything)\b|"
    r"^\w+ing .{3,80}\b(?:did the trick|solved it|made it work)\b|"
    r"\b(?:changed|added|removed|pinned|upgraded|replaced|renamed|moved|set|switched|restarted|cleared|updated|"
    r"reverted)\b"
    r".{3,120}, which (?:fixed|solved|resolved) .{2,}|"
    rf"\b(?:I|we) (?:just |then |have )?{_DID}\b .{{3,120}}? and (?:now |then |suddenly )?"
    r"(?:(?:the )?(?:\w+ ){0,2}(?:errors?|warnings?|crash|leak|bug|problem|issue) (?:went away|is gone|"
    r"are gone|disappeared|stopped)|"
    r"(?:it|everything|the (?:build|tests?|app|site|page|deploy|pipeline|server)|(?:all )?(?:the )?tests|ci) "
    r"(?:now )?(?:works?|pass(?:es)?|runs|builds|is (?:fixed|green|back|fine|gone)|are (?:green|passing)|"
    r"went green))\b|"
    rf"\b(?:I|we) (?:just |then |have )?{_DID}\b .{{3,120}}?,? and (?:now )?(?:the )?(?:[\w-]+ ){{1,3}}"
    r"(?:works?|renders?|loads?|starts?|responds?|compiles?|pass(?:es)?|runs?|builds?|is up|is back) (?:again|now|"
    r"fine)\b|"
    r"\b(?:did not|does not) (?:help|work|fix \w+),? but \w+ing .{3,80} (?:did|does|helped|worked)\b",
    re.IGNORECASE,
)
_FAILURES_OPEN = re.compile(
    r"\b(?:could|can|might|may|should|would|will|try|maybe|perhaps|if|to be|needs? to|want to|how to|not|never|"
    r"trying|"
    r"you|hopefully|once|let me|let us|please)\b",
    re.IGNORECASE,
)
_OPEN_TRY = re.compile(r"\b(?:if|could|might|would|will|should|what|why|when)\b", re.IGNORECASE)
_PASSIVE = re.compile(r"\b(?:was|were|been|be|is|are)(?: \w+ly)? $", re.IGNORECASE)
_THING = re.compile(
    r"\b(?:car|boiler|washing|marriage|relationship|(?:my|our|first|blind) date|exam|diet|heart|leg|arm|voice|"
    r"sink|toilet|faucet|tap|roof|door|window|fridge|oven|dishwasher|bike|bicycle|fence|lamp|shower|dress|hair|"
    r"zipper|recipe|"
    r"sauce|cake|dough|dog|cat)\b",
    re.IGNORECASE,
)


def find_failures(sentence: str, *, reported: bool = False) -> Iterator[RuleMatch]:
    """A problem needs a cause, or it is only a complaint. ``reported``: by a user, about the present."""
    now = _FAILS.search(sentence) if reported else None
    still = _STILL.search(sentence) if reported and "still " in sentence else None
    if still and not _OPEN_TRY.search(sentence[: still.start()]):
        yield RuleMatch(RecordType.FAILURE, "project", layer=Layer.PROCEDURAL, confidence=0.7, salience=0.7)
        return
    for found in (_FAILED.search(sentence), _CAUSE.search(sentence), now):
        if found and not _FAILURES_OPEN.search(sentence[: found.start()]) and not _THING.search(sentence):
            yield RuleMatch(RecordType.FAILURE, "project", layer=Layer.PROCEDURAL, confidence=0.75, salience=0.7)
            return


def find_fixes(sentence: str) -> Iterator[RuleMatch]:
    found = _FIXED_BY.search(sentence) if _FAILURES_HINT.search(sentence) else None
    before = "" if found and found.group().startswith(";") else sentence[: found.start() if found else 0]
    instead = found is not None and re.match(r"(?:did|does) not ", found.group(), re.IGNORECASE)
    if not found or _THING.search(sentence) or (not instead and _FAILURES_OPEN.search(before + found.group()[:25])):
        return
    if re.match(
        r"(?:that|this|it|yes|you|which)\b[^,]{0,20}\b(?:fixed|solved|resolved|cured)", sentence, re.IGNORECASE
    ):
        return  # unclear what did
    # "was resolved by pinning it" is a fix; "was resolved with the help of …" may be any story.
    if _PASSIVE.search(sentence[: found.start()]) and not re.search(r"\bby \w+ing\b", found.group(), re.IGNORECASE):
        return
    yield RuleMatch(RecordType.FIX, "project", layer=Layer.PROCEDURAL, confidence=0.75, salience=0.75)


# Commands that were run, and their results. Other tool output is ignored


_SHELL = re.compile(r"bash|shell|terminal|command|exec|cmd|powershell|run|console", re.IGNORECASE)
_ARGUMENTS = ("command", "cmd", "script", "commandline", "command_line", "code", "input")
# Read-only commands: a listing teaches nothing.
_WORTH = re.compile(
    r"(?:^|[|;&]\s*|\bsudo |\bmake |\buv run |\bnpx |\bpoetry run )(?:\w+=\S+ )*(?:(?:python3? -m "
    r")?(?:pytest|unittest|mypy|ruff|tox|nox|coverage|alembic)\b|npm (?:test|run|install|ci|publish)|"
    r"yarn (?:test|build|install|add|run)|pnpm (?:test|build|install|add|run)|make\b|cargo (?:build|"
    r"test|run|clippy|publish)|go (?:build|test|vet)|"
    r"mvn\b|gradle\b|\./gradlew\b|pip3? install|uv (?:sync|add|pip|lock)|poetry (?:install|add)|"
    r"docker (?:build|compose|run|push)|docker-compose\b|"
    r"kubectl (?:apply|rollout|delete)|terraform (?:apply|plan|destroy)|helm (?:install|upgrade)|"
    r"ansible-playbook\b|git (?:push|merge|rebase|revert|tag)|"
    r"apt(?:-get)? install|brew install|psql\b.* -f|flyway\b|rake\b|bundle (?:install|exec)|dotnet "
    r"(?:build|test|publish)|cmake\b|ctest\b|bazel\b|"
    r"jest\b|vitest\b|tsc\b|eslint\b|gcloud\b|aws \w+ (?:deploy|sync|create)|fly deploy|vercel\b)",
    re.IGNORECASE,
)
_TELLING = re.compile(
    r"error|fail|exception|denied|not found|no such|cannot|could not|panic|fatal|refused|timed? ?out|traceback",
    re.IGNORECASE,
)
_OUTCOME = re.compile(
    r"passed|failed|success|complete|installed|built|finished|done|ok\b|compiled|created|up to date|warning",
    re.IGNORECASE,
)
_FIGURE = re.compile(r"\d")  # better than nothing: a duration is not a result
_FRAME = re.compile(r"^\s*(?:Traceback|File \"|at |-->|\||\d+ \||\^+|~+|During handling)")
MAX_LINE = 300
_LOOKED_AT = 200  # lines read from each end of an output


def find_outcomes(turn: Sequence[TurnMessage]) -> Iterator[tuple[TurnMessage, str, RuleMatch, tuple[str, ...]]]:
    """Yield for each result: the message, the line it is grounded in, its meaning, and the command."""
    waiting: list[tuple[ToolCall, TurnMessage]] = []
    for said in turn:
        if said.role is Role.ASSISTANT:
            waiting += [(call, said) for call in said.tool_calls]
        elif said.role is Role.TOOL:
            call = _find_call(said, waiting)
            yield from _build_outcome(said, _get_command(call) if call else None, call)


def _find_call(said: TurnMessage, waiting: list[tuple[ToolCall, TurnMessage]]) -> ToolCall | None:
    """Match by id; without ids, results follow the order of the calls."""
    for at, (call, _) in enumerate(waiting):
        if said.tool_call_id is None or call.id == said.tool_call_id:
            return waiting.pop(at)[0]
    return None


def _get_command(call: ToolCall) -> str | None:
    if not _SHELL.search(call.name):
        return None
    for name in _ARGUMENTS:
        if isinstance(call.arguments.get(name), str):
            return str(call.arguments[name]).strip()[:MAX_LINE] or None
    return next((text.strip()[:MAX_LINE] for text in iter_texts(call) if text.strip()), None)


def _build_outcome(
    said: TurnMessage, command: str | None, call: ToolCall | None
) -> Iterator[tuple[TurnMessage, str, RuleMatch, tuple[str, ...]]]:
    ran = command or (call.name if call else "a tool")
    shown = ran.splitlines()[0][:120]
    if said.is_error:
        line = _find_line(said.text, _TELLING, last=False)
        if line:
            content = f"`{shown}` failed: {line}"
            finding = RuleMatch(
                RecordType.FAILURE,
                "project",
                None,
                shown,
                Layer.EPISODIC,
                confidence=0.6,
                salience=0.5,
                tags=("tool",),
                content=content,
            )
            yield said, line, finding, (shown,) if command else ()
    elif command and _WORTH.search(command):
        line = _find_line(said.text, _OUTCOME, _FIGURE, last=True)
        if line:
            finding = RuleMatch(
                RecordType.COMMAND_RESULT,
                "project",
                None,
                shown,
                Layer.PROCEDURAL,
                confidence=0.7,
                salience=0.4,
                tags=("command",),
                content=f"`{shown}`: {line}",
            )
            yield said, line, finding, (shown,)


def _find_line(output: str, *telling: re.Pattern[str], last: bool) -> str | None:
    """Return the line that says most about the result."""
    lines = [line.strip() for line in (output[:20_000] + "\n" + output[20_000:][-20_000:]).split("\n")]
    lines = [line for line in lines if any(map(str.isalnum, line[:MAX_LINE]))]
    lines = lines if len(lines) <= 2 * _LOOKED_AT else lines[:_LOOKED_AT] + lines[-_LOOKED_AT:]
    clear = [line for line in lines if not _FRAME.match(line)] or lines
    told = (matches for one in telling if (matches := [line for line in clear if one.search(line[:MAX_LINE])]))
    chosen = next(told, clear)
    return chosen[-1 if last else 0][:MAX_LINE].strip() if chosen else None
