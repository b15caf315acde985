"""What ``from limpet import …`` gives: a short, sorted list that changes on purpose only."""

from __future__ import annotations

import limpet


def test_public_names_match_list() -> None:
    assert limpet.__all__ == [
        "ActivityResult",
        "AsyncLimpet",
        "AsyncSession",
        "AsyncTurn",
        "AuditEntry",
        "CompactionResult",
        "Config",
        "Context",
        "Document",
        "Entity",
        "ExportResult",
        "FileInfo",
        "FilePart",
        "FileSessions",
        "Finding",
        "Firing",
        "Forgotten",
        "Grant",
        "GrantInfo",
        "Graph",
        "GraphSource",
        "Hit",
        "ImagePart",
        "ImportResult",
        "ItemExportResult",
        "ItemImportResult",
        "JobInfo",
        "KeyInfo",
        "LearnResult",
        "Limpet",
        "LimpetError",
        "Mention",
        "Message",
        "NewKey",
        "Notification",
        "OutputPage",
        "Profile",
        "Receipt",
        "Record",
        "Relation",
        "RetentionResult",
        "Run",
        "RunResult",
        "Schedule",
        "ScheduleLease",
        "Session",
        "SessionInfo",
        "Signal",
        "Source",
        "Summary",
        "TextPart",
        "ToolCall",
        "Turn",
        "Unauthenticated",
        "Usage",
    ]
    assert limpet.__all__ == sorted(set(limpet.__all__))


def test_no_public_attribute_outside_list() -> None:
    """Modules of ours become attributes when they are imported; everything else without an underscore is listed."""
    beside = {name for name, value in vars(limpet).items() if not name.startswith("_") and name not in limpet.__all__}
    loaded = {name for name in beside if getattr(vars(limpet)[name], "__name__", "") == f"limpet.{name}"}
    assert beside - loaded <= {"Any", "TYPE_CHECKING", "import_module"}


def test_star_import_provides_all_public_names() -> None:
    names: dict[str, object] = {}
    exec("from limpet import *", names)
    assert names.keys() >= set(limpet.__all__)
