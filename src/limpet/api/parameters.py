"""The types of arguments: each with its limits and its meaning, which every interface shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from enum import Enum, auto
from functools import cache
from os import PathLike
from typing import Annotated, Any, Literal

from limpet.errors import InvalidInput
from limpet.model import constraints as limits
from limpet.model.access import MAX_NAME, AuditOutcome, Grant
from limpet.model.chunk import SourceKind
from limpet.model.constraints import REFERENCE, Codec, Definitions, DescribedCodec, EnumChoice, Mode
from limpet.model.containers import Items, JsonObject, JsonValue, ListCodec, Opaque, Parsed, StringMap
from limpet.model.job import JobState
from limpet.model.message import Content as AnyContent
from limpet.model.message import ContentCodec, Message, Role, ToolCall, ToolCallsCodec
from limpet.model.record import Layer, RecordType
from limpet.model.schedule import NotifyPolicy, ScheduleState
from limpet.model.schema import Called, ObjectCodec, to_json
from limpet.model.session import ModelUsage, SessionStatus
from limpet.model.types import MAX_COST, MAX_HITS, MAX_NEIGHBOURS, MAX_TAGS, MAX_TITLE_BYTES, MAX_URI_BYTES
from limpet.model.values import MAX_PAGE, PageCursor, check_cursor, check_time, from_micros, short_repr, to_micros
from limpet.search.analysis import MAX_QUESTION
from limpet.search.recipes import RECIPES
from limpet.security.operation import OPERATIONS
from limpet.sessions.usage import parse_usage

MAX_GRANTS = 1000
MAX_DEPTH = 10
MAX_CONDITIONS = 100  # each is a condition of its own to the database, which plans them longer than it answers
_MINUTE, _HOUR, _DAY, _MONTH = "[1-5]?[0-9]", "([0-9]|1[0-9]|2[0-3])", "([1-9]|1[0-9]|2[0-8])", "([1-9]|1[0-2])"
_FIELDS = (
    rf"({_MINUTE}(,{_MINUTE})?|\*/(5|10|15|20|30))",
    rf"(\*|{_HOUR}(,{_HOUR}){{0,3}}|[0-9]-(1[0-9]|2[0-3])|\*/[2-8])",
    rf"(\*|{_DAY}(,{_DAY}){{0,3}})",
    rf"(\*|{_MONTH}(,{_MONTH}){{0,3}})",
    r"(\*|[0-6](,[0-6]){0,3}|[0-2]-[3-6])",
)
_MOMENT = "20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]"
_SPAN = "[1-9][0-9]{0,2} ?(m|h|d|minutes|hours|days)"
# What a pattern can say: not that February has no 31st day. The server reads all of cron.
_USUAL = f"^(cron: {' '.join(_FIELDS)}|once: {_MOMENT}|every: {_SPAN})$"
_ANY = re.compile(r"(cron|once|every):[ -~]+")
_MAX_LENGTH = 200


class LocalPath(Enum):
    """A file or folder of the caller's machine: the remote client reads or writes it, the server never does."""

    READ = auto()
    WRITE = auto()


class OneOrMore(ListCodec):
    """A list to filter by. One text is a list of one, not of its letters."""

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) or super().accepts(value)

    def check(self, value: Any, name: str) -> tuple[Any, ...]:
        return super().check((value,) if isinstance(value, str) else value, name)


class CursorCodec(Codec):
    """Where a page of a list ended: the time and the id of its last entry, in JSON ``microseconds.id``."""

    def accepts(self, value: object) -> bool:
        return isinstance(value, (tuple, str))

    def check(self, value: Any, name: str) -> PageCursor | None:
        return check_cursor(value)

    def read(self, value: Any, name: str) -> PageCursor | None:
        if not isinstance(value, str):
            raise InvalidInput(f"{name} must be the `next` of the previous page, not {short_repr(value)}")
        moment, _, entry = value.partition(".")
        if not (moment.isdecimal() and len(moment) <= 16):
            raise InvalidInput(f"{name} must be the `next` of the previous page, not {short_repr(value)}")
        return check_cursor((from_micros(int(moment)), entry))

    def write(self, value: PageCursor) -> str:
        return f"{to_micros(value.at)}.{value.id}"

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "string", "pattern": r"^[0-9]{1,16}\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}


class StateCodec(EnumChoice):
    """A session's state, in small letters too."""

    def check(self, value: Any, name: str) -> Any:
        return super().check(value.upper() if isinstance(value, str) else value, name)


class KeptPath(limits.FilePath):
    """A path that stays what it is: a document's name is a uri if it is text, and a file if it is a path."""

    def check(self, value: Any, name: str) -> Any:
        super().check(value, name)
        return value

    def read(self, value: Any, name: str) -> Any:
        """Over HTTP it is a uri, never a file of the server's machine."""
        return limits.Printable(MAX_URI_BYTES).check(value, name)


class EndCodec(limits.Text):
    """A time, or text that is read in the schedule's zone."""

    def accepts(self, value: object) -> bool:
        return isinstance(value, (datetime, str))

    def check(self, value: Any, name: str) -> Any:
        return check_time(value, name) if isinstance(value, datetime) else super().check(value, name)

    def write(self, value: Any) -> Any:
        return value.isoformat() if isinstance(value, datetime) else value

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "format": "date-time"}, {"const": "never"}]}


class MessagesCodec(Codec):
    """A list of messages made with ``Message.new``; in JSON, of its arguments."""

    def accepts(self, value: object) -> bool:
        return isinstance(value, Iterable)

    def check(self, value: Any, name: str) -> list[Message]:
        if not isinstance(value, Iterable):
            raise InvalidInput(f"extend takes a list of messages, not {type(value).__name__}")
        return [Message.validate(each) for each in value]

    def read(self, value: Any, name: str) -> list[Message]:
        return [*ListCodec(_get_message_codec()).read(value, name)]

    def write(self, value: Iterable[Message]) -> list[dict[str, Any]]:
        return [{**_get_message_codec().write(each), "sequence": each.sequence or None} for each in value]

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "array", "items": _get_message_codec().schema(definitions, mode)}


@cache
def _get_message_codec() -> ObjectCodec:
    """What a session's append takes, without what says how to store it."""
    fields = [each for each in OPERATIONS["session.append"].parameters if each.name != "learn"]
    return ObjectCodec("NewMessage", lambda: fields, Message.from_checked)


class UsageCodec(JsonObject):
    """What a model took: ours, or what OpenAI or Anthropic answered with."""

    def accepts(self, value: object) -> bool:
        return isinstance(value, (Mapping, ModelUsage))

    def check(self, value: Any, name: str) -> Any:
        return parse_usage(value)

    def write(self, value: Any) -> dict[str, Any]:
        return to_json(value) if isinstance(value, ModelUsage) else dict(value)


class StoredJson(JsonValue):
    """Any JSON value. It is checked when it is encoded to be stored, and not twice."""

    def check(self, value: Any, name: str) -> Any:
        return value


class CadenceCodec(limits.Text):
    """When a schedule fires, as text. Its fields are read later, in its zone."""

    def read(self, value: Any, name: str) -> str:
        text = self.check(value, name)
        if len(text) > _MAX_LENGTH or not _ANY.fullmatch(text):
            raise InvalidInput(
                f"{name} must be a cadence such as 'cron: 0 9 * * 1-5', 'once: 2030-12-01T09:00' or 'every: 15m'"
            )
        return text

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        if mode != "input":
            return {"type": "string"}
        examples = ["cron: 0 9 * * 1-5", "every: 15m"]
        return {"type": "string", "maxLength": _MAX_LENGTH, "pattern": _USUAL, "examples": examples}


class TimeZoneCodec(limits.Printable):
    """The name of a time zone."""

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        if definitions is None or mode != "input":
            return {"type": "string"}
        if "TimeZone" not in definitions:
            from zoneinfo import available_timezones  # late: it reads a folder

            definitions["TimeZone"] = {"type": "string", "enum": sorted(available_timezones())}
        return {"$ref": REFERENCE.format("TimeZone")}


def _filter(inner: Codec, most: int = 10_000) -> OneOrMore:
    return OneOrMore(inner, Items(most, unique=True))


URI = limits.Printable(MAX_URI_BYTES).limits()
CLEARED = ["key", "title", "tags", "metadata", "references", "valid_to", "expires_at"]
# The usual grants; one can also be for a session or an agent.
GRANT = {"pattern": "^(read|write):(global|store|user|user:[a-z]{1,20})$"}

# Whose memory it is
User = Annotated[str, limits.Printable(), "whose memory; left out: your own"]
OneUser = Annotated[str, limits.Printable(), "the user"]
OfUser = Annotated[str, limits.Printable(), "only what belongs to this user; left out: all you may see"]
Agent = Annotated[str, limits.Printable(), "an agent's memory, instead of a user's"]
OfAgent = Annotated[str, limits.Printable(), "only what belongs to this agent"]
ThroughAgent = Annotated[str, limits.Printable(), "the agent that acts; left out: the usual one"]
SessionRef = Annotated[str, limits.Uuid(), Called("session id"), "one session's memory, and nothing outside it"]
OfSession = Annotated[str, limits.Uuid(), Called("session id"), "only what belongs to this session"]
SessionId = Annotated[str, limits.Uuid(), Called("session id"), "the session's id"]
Everyone = Annotated[Literal["global"], "what the whole tenant shares, instead of a user's"]
Tenant = Annotated[str, limits.Printable(), "the tenant"]
ActingName = Annotated[str, limits.Printable(), "who acts, as the audit log says it; left out: the user's name"]

# Chats
Channel = Annotated[str, limits.Printable(), "the platform of the chat, such as telegram"]
Chat = Annotated[str, limits.Printable(), "the chat's name in its channel"]
Thread = Annotated[str, limits.Printable(), "the thread within the chat"]
State = Annotated[str, StateCodec(SessionStatus), "only sessions in this state"]

# Lists
Limit = Annotated[int, limits.PageSize(), "entries at most"]
Offset = Annotated[int, limits.Integer(), "entries to skip"]
Before = Annotated[tuple[datetime | None, str], CursorCodec(), "where the page before ended"]
Since = Annotated[datetime, limits.Instant(), "only what was said or created at or after this time"]
Until = Annotated[datetime, limits.Instant(), "only what was said or created before this time"]
AsOf = Annotated[datetime, limits.Instant(), "what was true at this time"]
At = Annotated[datetime, limits.Instant(), 'the time of the question, for words such as "yesterday"; left out: now']
Kinds = Annotated[Iterable[str], _filter(EnumChoice(SourceKind)), "only hits of one of these kinds"]
Layers = Annotated[Iterable[str], _filter(EnumChoice(Layer)), "only records of one of these layers"]
Types = Annotated[Iterable[str], _filter(EnumChoice(RecordType)), "only records of one of these types"]
WithTags = Annotated[Iterable[str], _filter(limits.Tag(), MAX_CONDITIONS), "only records with all of these tags"]
WithLabels = Annotated[Mapping[str, str], StringMap(), "only records with all of this metadata"]
Everywhere = Annotated[
    bool, limits.Boolean(), "also from the messages, summaries and notes that would be named in left"
]
DryRun = Annotated[bool, limits.Boolean(), "change nothing, only report what would happen"]

# Messages
RoleName = Annotated[str, EnumChoice(Role), "who speaks"]
Content = Annotated[AnyContent, ContentCodec(), "text, or parts: text, image, file"]
Speaker = Annotated[str, limits.Printable(), "the speaker's name, if several people speak"]
ToolCalls = Annotated[Iterable[ToolCall | Mapping[str, Any]], ToolCallsCodec(), "what the assistant asks tools to do"]
ToolCallId = Annotated[str, limits.Printable(), "of a tool's result: the call it answers"]
IsError = Annotated[bool, limits.Boolean(), "whether a tool's result is an error"]
CreatedAt = Annotated[datetime, limits.Instant(), "when it was said; left out: now"]
Sequence = Annotated[int, limits.Integer(1), "its number in the session; left out: the next"]
Learn = Annotated[
    bool, limits.Boolean(), "learn from it in the background; left out: a user's message, if `learn.enabled` is set"
]
IdempotencyName = Annotated[
    str, limits.Printable(), "repeating a request under the same key returns the first result instead of a second"
]
Metadata = Annotated[Mapping[str, Any], JsonObject(), "any JSON of your own, stored with it"]
After = Annotated[int, limits.Integer(), Called("a bound"), "only messages after this number"]
BeforeNumber = Annotated[int, limits.Integer(), Called("a bound"), "only messages before this number"]
MessageLimit = Annotated[int, limits.Integer(), Called("a bound"), "messages at most"]
MessageCount = Annotated[int, limits.Integer(), "how many messages"]

Messages = Annotated[Iterable[Message], MessagesCodec(), "messages, in their order"]
MessageUsage = Annotated[ModelUsage | Mapping[str, Any], UsageCodec(), "the model's usage for it"]
ModelName = Annotated[str, limits.Printable(), "the model that was called"]
ValueKey = Annotated[str, limits.Printable(), Called("a key"), "the entry's key"]
Value = Annotated[Any, StoredJson(), "any JSON value"]
SummaryText = Annotated[str, limits.Text(), "the summary"]
UpperSequence = Annotated[int, limits.Integer(), "the last message it covers"]
Epoch = Annotated[int, limits.Integer(), "the epoch of the summary it replaces; 0: there is none"]
Keep = Annotated[int, limits.Integer(), "messages that stay as they are; left out: `compact.keep`"]
WorkingMemory = Annotated[str, limits.Text(), Called("working memory"), "what the agent is working on"]

TokenCount = Annotated[int, limits.Integer(0, 10**12), "how many tokens"]
Cost = Annotated[float, limits.Number(0, 1_000_000), "what it cost, in any currency"]

# Contexts
Question = Annotated[
    str,
    limits.Text(),
    Called("the question"),
    "the question, or words; of more than 16,000 characters the first and last 8,000 are read",
]
ContextQuery = Annotated[
    str, limits.Text(), Called("the question"), "what the prompt is about: memory about it is recalled; empty: none"
]
Tokens = Annotated[int, DescribedCodec(limits.Integer(), minimum=1), "tokens at most; left out: `context.max_tokens`"]
Window = Annotated[int, limits.Integer(), "tokens the model can read: room is left for its reply"]
Skill = Annotated[str, limits.Printable(), "the active skill; what was learned with it counts more"]
HitCount = Annotated[int, limits.Integer(1, MAX_HITS), "hits at most; left out: `search.k`"]
Neighbours = Annotated[int, limits.Integer(0, MAX_NEIGHBOURS), "messages around each hit"]
Floor = Annotated[bool, limits.Boolean(), "leave out what is not about the question, however few hits are left"]
Compact = Annotated[bool, limits.Boolean(), "compact history first if that is due"]
RecipeName = Annotated[
    str, DescribedCodec(limits.Text(), enum=[*RECIPES]), "how hits are ranked; left out: `search.recipe`"
]

# Records
History = Annotated[bool, limits.Boolean(), "also records that are no longer true"]
Archived = Annotated[bool, limits.Boolean(), "records that have faded, and no others"]
RecordId = Annotated[str, limits.ForeignId(), Called("record id"), "the record's id, or the one it was imported with"]
SourceSession = Annotated[
    str, limits.Uuid(), Called("session id"), "id of the user's session in which it came up; left out: of none"
]
NewRecordId = Annotated[str, limits.Uuid(), Called("record id"), "an id of your own; left out: a new one"]
RecordKey = Annotated[str, limits.Identifier(), "unique to its owner: saying it again replaces the content"]
Remembered = Annotated[str, limits.Text(blank=False), "what is remembered"]
RecordTypeName = Annotated[str, EnumChoice(RecordType), "what it states"]
LayerByType = Annotated[
    str, EnumChoice(Layer), "what kind of memory it is; without it procedural for failures and fixes, else semantic"
]
Title = Annotated[str, limits.Text(max_bytes=MAX_TITLE_BYTES), "a heading"]
Tags = Annotated[Iterable[str], ListCodec(limits.Tag(), Items(MAX_TAGS, unique=True)), "words to filter by"]
Labels = Annotated[Mapping[str, str], StringMap(), "texts of your own, stored with it"]
Confidence = Annotated[float, limits.Number(0, 1), "how sure it is, from 0 to 1"]
Salience = Annotated[float, limits.Number(0, 1), "how much it matters, from 0 to 1"]
References = Annotated[
    Iterable[str], ListCodec(limits.Tag(), Items(MAX_TAGS, unique=True)), "files, tests and the like that it names"
]
Pinned = Annotated[bool, limits.Boolean(), "it is in every context, and never fades"]
ValidFrom = Annotated[datetime, limits.Instant(), "since when it is true; left out: now"]
Lifetime = Annotated[timedelta | float, limits.Duration(), "how long it lasts, a timedelta or seconds"]
Clear = Annotated[
    Iterable[str], ListCodec(DescribedCodec(limits.Text(), enum=CLEARED)), "fields to empty, such as expires_at"
]
Promotion = Annotated[Literal["user", "global"], "who can see it afterwards"]
MetadataKey = Annotated[str, limits.Tag(), Called("the metadata key"), "the name in the metadata"]
MetadataValue = Annotated[str, limits.Text(), Called("the metadata value"), "its exact value"]
Words = Annotated[str, limits.Text(MAX_QUESTION), Called("the query"), "all records that hold every word of it"]

# Documents and the graph
DocumentName = Annotated[
    str | PathLike[str], DescribedCodec(KeptPath(), **URI), LocalPath.READ, "any uri, or the path of a file or folder"
]
DocumentUri = Annotated[str | PathLike[str], DescribedCodec(KeptPath(), **URI), "its uri, or the path it was read from"]
DocumentText = Annotated[str, limits.Text(), "its text; left out: the text of the file"]
Entity = Annotated[str, limits.Text(max_bytes=4096), "only what is around this one"]
Depth = Annotated[int, limits.Integer(0, MAX_DEPTH), "how many relations far"]

Fresh = Annotated[bool, limits.Boolean(), "read unread messages first"]

# Notes
UserText = Annotated[str, limits.Text(), "what the user said"]
AssistantText = Annotated[str, limits.Text(), "what the assistant said"]
DeleteMissing = Annotated[bool, limits.Boolean(), "remove records whose lines are missing"]
Day = Annotated[date | str, limits.Day(), "the day; left out: today"]
NoteText = Annotated[str, limits.Text(), "Markdown"]
MaskSecrets = Annotated[bool, limits.Boolean(), "mask secrets in it first, as `learn.secrets` says; for a model's text"]
NoteVersion = Annotated[str, limits.Text(), "the version that was read; WrongState if the text has another by now"]

# Schedules
ScheduleName = Annotated[str, limits.Text(max_bytes=MAX_TITLE_BYTES), "its name; need not be unique"]
Goal = Annotated[str, DescribedCodec(limits.Text(blank=False), maxLength=500), "what is to be done each time"]
Cadence = Annotated[str, CadenceCodec(), "`cron: 0 9 * * 1-5`, `once: 2030-12-01T09:00` or `every: 15m`"]
TimeZone = Annotated[str, TimeZoneCodec(), "the zone of its clock times; left out: `schedules.timezone`"]
Notify = Annotated[str, EnumChoice(NotifyPolicy), "when a run is reported; conditional: when it begins with `[NOTIFY]`"]
MaxRuns = Annotated[int, limits.Integer(0, 1_000_000), "firings after which it ends; 0: no limit"]
EndsAt = Annotated[datetime | str, EndCodec(), "when it ends; `never`: no end"]
ScheduleId = Annotated[str, limits.Uuid(), Called("schedule id"), "the schedule's id"]
ScheduleStateName = Annotated[str, EnumChoice(ScheduleState), "only schedules in this state"]
GoalText = Annotated[str, limits.Text(max_bytes=1024), "words of the name or the goal"]
ClaimCount = Annotated[int, limits.Integer(1, 100), "how many at most"]
LeaseSeconds = Annotated[
    float, limits.Number(1, 86_400), "how long nobody else may claim them; left out: `schedules.lease_s`"
]
LeaseToken = Annotated[int, limits.Integer(1), "the token of the claim"]
RunText = Annotated[str, limits.Text(), "what it said; `[NOTIFY]` at the beginning asks for a notification"]
RunError = Annotated[
    str, limits.Text(max_bytes=MAX_TITLE_BYTES, blank=False), "what went wrong; left out: it succeeded"
]
RunTurns = Annotated[int, limits.Integer(0, 1_000_000), "turns it took"]
RunCost = Annotated[float, limits.Number(0, MAX_COST), "what it cost, in any one currency"]
RunNotify = Annotated[bool, limits.Boolean(), "whether to report it; left out: as the schedule says"]
DueBefore = Annotated[datetime, limits.Instant(), "only schedules that run next before this"]
RunId = Annotated[str, limits.Uuid(), Called("run id"), "the run's id"]

OutputOffset = Annotated[int, limits.Integer(), Called("offset"), "the character to begin at"]
OutputLimit = Annotated[int, limits.Integer(1, 1_000_000), Called("limit"), "characters at most"]

# Access
GrantText = Annotated[str | Grant, DescribedCodec(Parsed(Grant), **GRANT), "such as read:global or write:user:bob"]
Grants = Annotated[
    Iterable[str | Grant],
    ListCodec(DescribedCodec(Parsed(Grant), **GRANT), Items(MAX_GRANTS)),
    "rights beyond one's own memory",
]
KeyName = Annotated[str, limits.Printable(MAX_NAME), "its name; different from those of the tenant's other live keys"]
KeyRef = Annotated[str, limits.Printable(), Called("the key's id or name"), "the key's id or name"]
IncludeRevoked = Annotated[bool, limits.Boolean(), "also keys that were revoked or have expired"]
Secret = Annotated[str, Opaque(str), "the key's secret"]
OperationName = Annotated[str, limits.Printable(), "only calls of this operation, such as records.update"]
Outcome = Annotated[str, EnumChoice(AuditOutcome), "only calls that ended like this"]
PrincipalName = Annotated[str, limits.Printable(), "only calls of this caller"]

# The store as a whole
JobIds = Annotated[
    Iterable[int], ListCodec(limits.Integer(), Items(MAX_PAGE)), Called("ids"), "the numbers of the jobs"
]
UntilIdle = Annotated[bool, limits.Boolean(), "until nothing is due; else one job"]
JobKind = Annotated[str, limits.Printable(), "only jobs of this kind"]
JobStateName = Annotated[str, EnumChoice(JobState), "only jobs in this state"]
Days = Annotated[float, limits.Number(0, 100_000), "how old, in days"]
Everything = Annotated[bool, limits.Boolean(), "explicit and pinned memories, documents and MEMORY.md too"]
AskedBy = Annotated[str, limits.Printable(), "who asked for it, for the receipt"]
Repair = Annotated[bool, limits.Boolean(), "repair what can be derived again"]
Overwrite = Annotated[bool, limits.Boolean(), "replace everything in the store"]
Vacuum = Annotated[bool, limits.Boolean(), "rewrite the database's files, which takes as long as the store is large"]
LearnFromImport = Annotated[
    bool,
    limits.Boolean(),
    "learn from the imported conversations in the background; an export of Limpet contains what was learned",
]
Format = Annotated[str, limits.Text(), "the program that wrote it; auto: detected"]
ReadPath = Annotated[str | PathLike[str], limits.FilePath(), LocalPath.READ, "the file or folder to read"]
WritePath = Annotated[str | PathLike[str], limits.FilePath(), LocalPath.WRITE, "the new file or folder to write"]
