"""What is reported of the work: failures, their fixes, an assistant's decisions, and commands with their results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from limpet.knowledge import english
from limpet.knowledge.candidate import Candidate, Echoes, TurnMessage, find_references, iter_texts
from limpet.model.message import Role, ToolCall
from limpet.model.record import Layer, RecordType

_SURE, _LOW = 0.75, 0.7  # confidence in what a user and an assistant say: it may be wrong about its own work


def find_reports(said: TurnMessage, sentence: str, *, by_user: bool) -> list[Candidate]:
    plain = english.expand_contractions(sentence)
    if english.get_pattern("work_thing").search(plain):
        return []  # a broken boiler is not about the work
    kinds = [RecordType.FAILURE] if _is_failure(plain, by_user=by_user) else []
    kinds += [RecordType.FIX] if _is_fix(plain) else []
    return [_build(said, sentence, kind, _SURE if by_user else _LOW) for kind in kinds]


def _is_failure(sentence: str, *, by_user: bool) -> bool:
    """In the present tense a user reports, while an assistant explains in general."""
    if by_user and "still " in sentence and english.get_pattern("work_still").search(sentence):
        return True
    names = ("work_failed", "work_cause", "work_fails") if by_user else ("work_failed", "work_cause")
    found = next((match for name in names if (match := english.get_pattern(name).search(sentence))), None)
    return found is not None and not _is_open(sentence[: found.start()])


def _is_open(words: str) -> bool:
    """Whether it is only tried or wished for."""
    return english.get_pattern("work_open").search(words) is not None


def _is_fix(sentence: str) -> bool:
    found = english.get_pattern("work_fixed").search(sentence)
    if found is None:
        return False
    before, words = sentence[: found.start()], found.group().lower()
    if words.startswith(("did not ", "does not ")):
        return True
    # "was resolved by pinning it" is a fix; "was resolved with the help of …" may be any story.
    if english.get_pattern("work_passive").search(before) and not re.search(r"\bby \w+ing\b", words):
        return False
    return not _is_open(words[:25] if words.startswith(";") else before + words[:25])


def _build(
    said: TurnMessage,
    sentence: str,
    kind: RecordType,
    confidence: float,
    *,
    layer: Layer = Layer.PROCEDURAL,
    content: str | None = None,
    value: str | None = None,
    ran: tuple[str, ...] = (),
    salience: float = 0.7,
    tags: tuple[str, ...] = (),
) -> Candidate:
    named = (name for name in find_references(sentence) if name not in ran)
    return Candidate(
        type=kind,
        layer=layer,
        content=content or sentence,
        sentence=sentence,
        sequence=said.sequence,
        subject="project",
        said_at=said.created_at,
        speaker=said.speaker,
        value=value,
        confidence=confidence,
        salience=salience,
        tags=tags,
        references=(*ran, *named),
    )


def read_work(said: TurnMessage, echoes: Echoes) -> Iterator[Candidate]:
    """What an assistant reports about the work, never about people: it may repeat memory."""
    for sentence, _ in english.find_statements(said.text):
        words = said.text[sentence.start : sentence.start + len(sentence.text)]
        found = [*english.extract_decisions(said, words), *find_reports(said, words, by_user=False)]
        if found and not echoes.contains(words):
            yield from found


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


def read_outcomes(turn: Sequence[TurnMessage]) -> Iterator[Candidate]:
    """What became of the commands of a turn: failures, and results of those that change or test something."""
    waiting: list[ToolCall] = []
    for said in turn:
        if said.role is Role.ASSISTANT:
            waiting += said.tool_calls
        elif said.role is Role.TOOL:
            yield from _read_outcome(said, _find_call(said, waiting))


def _find_call(said: TurnMessage, waiting: list[ToolCall]) -> ToolCall | None:
    """Match by id; without ids, results follow the order of the calls."""
    for at, call in enumerate(waiting):
        if said.tool_call_id is None or call.id == said.tool_call_id:
            return waiting.pop(at)
    return None


def _get_command(call: ToolCall) -> str | None:
    if not _SHELL.search(call.name):
        return None
    for name in _ARGUMENTS:
        if isinstance(call.arguments.get(name), str):
            return str(call.arguments[name]).strip()[:MAX_LINE] or None
    return next((text.strip()[:MAX_LINE] for text in iter_texts(call) if text.strip()), None)


def _read_outcome(said: TurnMessage, call: ToolCall | None) -> Iterator[Candidate]:
    command = _get_command(call) if call else None
    shown = (command or (call.name if call else "a tool")).splitlines()[0][:120]
    ran = (shown,) if command else ()
    if said.is_error:
        if line := _find_line(said.text, _TELLING, last=False):
            content, kind, layer = f"`{shown}` failed: {line}", RecordType.FAILURE, Layer.EPISODIC
            yield _build(
                said, line, kind, 0.6, layer=layer, content=content, value=shown, ran=ran, salience=0.5, tags=("tool",)
            )
    elif command and _WORTH.search(command) and (line := _find_line(said.text, _OUTCOME, _FIGURE, last=True)):
        kind, content = RecordType.COMMAND_RESULT, f"`{shown}`: {line}"
        yield _build(said, line, kind, 0.7, content=content, value=shown, ran=ran, salience=0.4, tags=("command",))


def _find_line(output: str, *telling: re.Pattern[str], last: bool) -> str | None:
    lines = [line.strip() for line in (output[:20_000] + "\n" + output[20_000:][-20_000:]).split("\n")]
    lines = [line for line in lines if any(map(str.isalnum, line[:MAX_LINE]))]
    lines = lines if len(lines) <= 2 * _LOOKED_AT else lines[:_LOOKED_AT] + lines[-_LOOKED_AT:]
    clear = [line for line in lines if not _FRAME.match(line)] or lines
    told = (matches for one in telling if (matches := [line for line in clear if one.search(line[:MAX_LINE])]))
    chosen = next(told, clear)
    return chosen[-1 if last else 0][:MAX_LINE].strip() if chosen else None
