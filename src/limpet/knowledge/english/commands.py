"""Commands that were run, and how they ended. What else a tool printed teaches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from limpet.knowledge.candidate import TurnMessage, iter_texts
from limpet.knowledge.english.table import RuleMatch
from limpet.model.message import Role, ToolCall
from limpet.model.record import Layer, RecordType

_SHELL = re.compile(r"bash|shell|terminal|command|exec|cmd|powershell|run|console", re.IGNORECASE)
_ARGUMENTS = ("command", "cmd", "script", "commandline", "command_line", "code", "input")
# Looking is not doing: a listing teaches nothing.
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
_FIGURE = re.compile(r"\d")  # better than nothing: how long it took is not how it ended
_FRAME = re.compile(r"^\s*(?:Traceback|File \"|at |-->|\||\d+ \||\^+|~+|During handling)")
MAX_LINE = 300
_LOOKED_AT = 200  # lines from either end of an output


def find_outcomes(turn: Sequence[TurnMessage]) -> Iterator[tuple[TurnMessage, str, RuleMatch, tuple[str, ...]]]:
    """For each result: the message, the line it is grounded in, what it means, and the command."""
    waiting: list[tuple[ToolCall, TurnMessage]] = []
    for said in turn:
        if said.role is Role.ASSISTANT:
            waiting += [(call, said) for call in said.tool_calls]
        elif said.role is Role.TOOL:
            call = _find_call(said, waiting)
            yield from _build_outcome(said, _get_command(call) if call else None, call)


def _find_call(said: TurnMessage, waiting: list[tuple[ToolCall, TurnMessage]]) -> ToolCall | None:
    """By its id; without one, results come in the order of the calls."""
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
    """The line that says most about how it ended."""
    lines = [line.strip() for line in (output[:20_000] + "\n" + output[20_000:][-20_000:]).split("\n")]
    lines = [line for line in lines if any(map(str.isalnum, line[:MAX_LINE]))]
    lines = lines if len(lines) <= 2 * _LOOKED_AT else lines[:_LOOKED_AT] + lines[-_LOOKED_AT:]
    clear = [line for line in lines if not _FRAME.match(line)] or lines
    told = (found for one in telling if (found := [line for line in clear if one.search(line[:MAX_LINE])]))
    chosen = next(told, clear)
    return chosen[-1 if last else 0][:MAX_LINE].strip() if chosen else None
