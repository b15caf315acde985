"""What programs read: every noun as JSON, the same on the command line and over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from limpet.model import view_types
    from limpet.model.access import GrantInfo
    from limpet.model.api_key import KeyInfo
    from limpet.model.audit import AuditEntry
    from limpet.model.chunk import Hit, Source
    from limpet.model.context import Context
    from limpet.model.document import Document
    from limpet.model.finding import Finding
    from limpet.model.job import JobInfo
    from limpet.model.message import Message
    from limpet.model.receipt import Receipt
    from limpet.model.record import Forgotten, Record
    from limpet.model.retention import RetentionResult
    from limpet.model.schedule import Run, Schedule
    from limpet.model.session import CompactionResult, SessionInfo, Summary, Usage


@overload
def iso(moment: datetime) -> str: ...
@overload
def iso(moment: None) -> None: ...
@overload
def iso(moment: datetime | None) -> str | None: ...
def iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def session(info: SessionInfo) -> view_types.Session:
    return {
        "id": info.id,
        "key": str(info.key),
        "tenant": info.tenant,
        "user": info.user,
        "agent": info.agent,
        "channel": info.key.channel,
        "chat": info.key.chat,
        "thread": info.key.thread,
        "state": info.state.value,
        "metadata": dict(info.metadata),
        "created_at": iso(info.created_at),
        "last_active_at": iso(info.last_active_at),
        "expires_at": iso(info.expires_at),
        "last_sequence": info.last_sequence,
        "message_count": info.message_count,
    }


def message(given: Message) -> view_types.Message:
    from limpet.model.message import part_to_json

    content = given.content if isinstance(given.content, str) else [part_to_json(part) for part in given.content]
    calls: list[view_types.ToolCall] = [
        {"id": call.id, "name": call.name, "arguments": dict(call.arguments)} for call in given.tool_calls
    ]
    return {
        "sequence": given.sequence,
        "role": given.role.value,
        "name": given.name,
        "content": content,
        "tool_calls": calls,
        "tool_call_id": given.tool_call_id,
        "is_error": given.is_error,
        "metadata": dict(given.metadata),
        "tokens": given.tokens,
        "created_at": iso(given.created_at),
        "idempotency_key": given.idempotency_key,
    }


def summary(given: Summary | None) -> view_types.Summary | None:
    if given is None:
        return None
    return {
        "text": given.text,
        "epoch": given.epoch,
        "upper_sequence": given.upper_sequence,
        "message_count": given.message_count,
        "updated_at": iso(given.updated_at),
    }


def usage(given: Usage) -> list[view_types.ModelUsage]:
    return [
        {
            "model": entry.model,
            "calls": entry.calls,
            "input_tokens": entry.input_tokens,
            "output_tokens": entry.output_tokens,
            "cached_tokens": entry.cached_tokens,
            "cost": entry.cost,
        }
        for entry in given.models
    ]


def record(given: Record) -> view_types.Record:
    return {
        "id": given.id,
        "tenant": given.home.scope.tenant,
        "level": given.level,
        "user": given.user,
        "agent": given.agent,
        "session_id": given.session_id,
        "layer": given.layer.value,
        "type": given.type.value,
        "key": given.key,
        "title": given.title,
        "content": given.content,
        "tags": list(given.tags),
        "metadata": dict(given.metadata),
        "confidence": given.confidence,
        "salience": given.salience,
        "references": list(given.references),
        "origin": given.origin.value,
        "source": {
            "session_id": given.source.session_id,
            "sequences": list(given.source.sequences),
            "speaker": given.source.speaker,
            "sentence": given.source.sentence,
        },
        "created_at": iso(given.created_at),
        "updated_at": iso(given.updated_at),
        "last_used_at": iso(given.last_used_at),
        "uses": given.uses,
        "valid_from": iso(given.valid_from),
        "valid_to": iso(given.valid_to),
        "superseded_by": given.superseded_by,
        "expires_at": iso(given.expires_at),
        "pinned": given.pinned,
        "version": given.version,
        "subject": given.subject,
        "attribute": given.attribute,
        "value": given.value,
        "polarity": given.polarity,
        "said": given.said,
        "archived_at": iso(given.archived_at),
        "inputs": list(given.inputs),
    }


def hit(rank: int, given: Hit) -> view_types.Hit:
    signals: dict[str, view_types.Signal] = {
        name: {"rank": signal.rank, "score": signal.score} for name, signal in given.signals.items()
    }
    return {
        "rank": rank,
        "score": given.score,
        "text": given.text,
        "signals": signals,
        "source": source(given.source),
        "metadata": dict(given.metadata),
        "neighbours": [message(one) for one in given.neighbours],
    }


def source(given: Source) -> view_types.Source:
    return {
        "kind": given.kind.value,
        "id": given.id,
        "session_id": given.session_id,
        "first_sequence": given.first_sequence,
        "last_sequence": given.last_sequence,
        "role": given.role,
        "name": given.name,
        "created_at": iso(given.created_at),
        "uri": given.uri,
        "offset": given.offset,
        "end_offset": given.end_offset,
    }


def document(given: Document) -> view_types.Document:
    return {
        "id": given.id,
        "uri": given.uri,
        "title": given.title,
        "metadata": dict(given.metadata),
        "content_hash": given.content_hash,
        "created_at": iso(given.created_at),
        "updated_at": iso(given.updated_at),
        "chunks": given.chunks,
        "status": None if given.status is None else given.status.value,
    }


def job(given: JobInfo) -> view_types.Job:
    return {
        "id": given.id,
        "kind": given.kind,
        "tenant": given.tenant,
        "level": given.level.value,
        "owner": given.owner,
        "detail": given.detail,
        "state": given.state.value,
        "attempts": given.attempts,
        "run_at": iso(given.run_at),
        "leased_until": iso(given.leased_until),
        "error": given.error,
        "created_at": iso(given.created_at),
    }


def context(given: Context) -> view_types.Context:
    return {
        "text": given.text,
        "messages": [message(entry) for entry in given.messages],
        "tokens": given.tokens,
        "sections": dict(given.sections),
        "hits": [hit(rank, entry) for rank, entry in enumerate(given.hits, start=1)],
        "dropped": [{"what": entry.what, "reason": entry.reason} for entry in given.dropped],
    }


def forgotten(gone: Forgotten) -> view_types.Forgotten:
    return {"forgotten": gone.total, "ids": list(gone.ids), "counts": dict(gone.counts), "left": list(gone.left)}


def status(finding: Finding) -> str:
    if finding.repaired:
        return "repaired"
    return "ok" if finding.ok else "FAULT"


def finding(given: Finding) -> view_types.Finding:
    return {"check": given.check, "status": status(given), "detail": given.detail}


def granted(given: GrantInfo) -> view_types.Granted:
    return {"user": given.user, "grant": str(given.grant), "at": iso(given.at), "by": given.by}


def api_key(given: KeyInfo) -> view_types.ApiKey:
    return {
        "id": given.id,
        "tenant": given.tenant,
        "name": given.name,
        "user": given.user,
        "agent": given.agent,
        "grants": [str(grant) for grant in given.grants],
        "created_at": iso(given.created_at),
        "created_by": given.created_by,
        "expires_at": iso(given.expires_at),
        "revoked_at": iso(given.revoked_at),
        "last_used_at": iso(given.last_used_at),
    }


def audit_entry(given: AuditEntry) -> view_types.AuditEntry:
    return {
        "id": given.id,
        "at": iso(given.at),
        "last_at": iso(given.last_at),
        "principal": given.principal,
        "tenant": given.tenant,
        "verb": given.verb,
        "access": given.access,
        "outcome": given.outcome.value,
        "user": given.user,
        "agent": given.agent,
        "session": given.session,
        "record": given.record,
        "missing": given.missing,
        "calls": given.calls,
    }


def schedule(given: Schedule) -> view_types.Schedule:
    return {
        "id": given.id,
        "tenant": given.tenant,
        "user": given.user,
        "agent": given.agent,
        "goal": given.goal,
        "cadence": given.cadence,
        "timezone": given.timezone,
        "state": given.state.value,
        "notify": given.notify.value,
        "channel": given.channel,
        "chat": given.chat,
        "thread": given.thread,
        "session_id": given.session,
        "next_run_at": iso(given.next_run_at),
        "due_at": iso(given.due_at),
        "last_due_at": iso(given.last_due_at),
        "last_run_at": iso(given.last_run_at),
        "last_status": None if given.last_status is None else given.last_status.value,
        "attempts": given.attempts,
        "failures": given.failures,
        "run_count": given.run_count,
        "max_runs": given.max_runs,
        "ends_at": iso(given.ends_at),
        "running_until": iso(given.running_until),
        "metadata": dict(given.metadata),
        "created_at": iso(given.created_at),
        "updated_at": iso(given.updated_at),
    }


def run(given: Run) -> view_types.Run:
    return {
        "id": given.id,
        "schedule_id": given.schedule_id,
        "due_at": iso(given.due_at),
        "started_at": iso(given.started_at),
        "ended_at": iso(given.ended_at),
        "status": given.status.value,
        "attempt": given.attempt,
        "missed": given.missed,
        "summary": given.summary,
        "output_characters": given.output_characters,
        "turns": given.turns,
        "cost": given.cost,
        "error": given.error,
        "to_notify": given.to_notify,
        "notified": given.notified,
    }


def receipt(given: Receipt) -> view_types.Receipt:
    return {
        "id": given.id or None,
        "what": given.what.value,
        "digest": given.digest,
        "before": iso(given.before),
        "asked_by": given.asked_by,
        "asked_at": iso(given.asked_at),
        "done_at": iso(given.done_at),
        "counts": dict(given.counts),
        "verified": given.verified,
        "left": list(given.left),
        "bytes": given.bytes.value,
    }


def retained(given: RetentionResult) -> view_types.Retained:
    return {"tenant": given.tenant, "agent": given.agent, "days": dict(given.days), "counts": dict(given.counts)}


def compacted(given: CompactionResult) -> view_types.Compacted:
    return {
        "done": given.done,
        "messages": given.messages,
        "tokens_before": given.tokens_before,
        "tokens_after": given.tokens_after,
        "by": given.by,
        "reason": given.reason,
    }
