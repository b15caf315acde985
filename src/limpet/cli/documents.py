"""documents: add, list, remove."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from limpet.cli import options, show
from limpet.cli.ask import ProgressLine, confirm, is_interactive
from limpet.cli.memory import read_text_argument
from limpet.cli.options import Parser, UsageError, add_command
from limpet.cli.place import open_memory
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import Document


def add(commands: Any) -> None:
    noun = add_command(commands, "documents", "add, list and remove documents; without a verb: list", list_documents)
    _add_list_options(noun)
    noun.set_defaults(limit=50, offset=0)
    verbs = noun.add_subparsers(title="verbs", metavar="VERB")
    # What is left out here must not undo what stood before the verb.
    unset = {"argument_default": argparse.SUPPRESS}
    adding = add_command(verbs, "add", "add a file, a folder or a text; what changed replaces what was", add_document)
    adding.add_argument("place", metavar="PATH_OR_URI", help="a file or folder; with --text any uri")
    _add_owner(adding)
    adding.add_argument("--text", metavar="TEXT", help="the text itself; - reads it from the input")
    adding.add_argument("--title", metavar="TITLE", help="a heading (default: the one the document gives itself)")
    adding.add_argument("--meta", action="append", metavar="K=V", type=options.parse_pair, help="may be repeated")
    listing = add_command(verbs, "list", "list documents, the latest change first", list_documents, **unset)
    _add_list_options(listing)
    removing = add_command(verbs, "remove", "remove a document with its chunks", remove_document)
    removing.add_argument("place", metavar="URI", help="its uri, or its file's path")
    _add_owner(removing)
    options.add_yes(removing)


def _add_owner(parser: Parser) -> None:
    parser.add_argument("--user", metavar="U", help="the user whose document it is")
    parser.add_argument("--agent", metavar="A", help="the agent whose document it is")
    parser.add_argument("--global", dest="everyone", action="store_true", help="a document of the whole tenant")


def _add_list_options(parser: Parser) -> None:
    _add_owner(parser)
    parser.add_argument("--limit", metavar="N", type=int, help="how many at most; default: 50")
    parser.add_argument("--offset", metavar="N", type=int, help="how many to pass over; default: 0")


def _owner(args: Namespace) -> dict[str, Any]:
    if [args.user is not None, args.agent is not None, args.everyone].count(True) != 1:
        raise UsageError("say whose document it is, and only one: --user U, --agent A or --global")
    return {"user": args.user, "agent": args.agent, "scope": "global" if args.everyone else None}


class _FileProgress(ProgressLine):
    """Knows afterwards how many files there were."""

    files = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.files = total
        super().__call__(stage, done, total)


def add_document(args: Namespace) -> int:
    owner, text = _owner(args), None if args.text is None else read_text_argument(args.text)
    _quiet_pdf_reader()
    metadata, progress = dict(args.meta) if args.meta else None, _FileProgress()
    with open_memory(args, creates=True) as hf:
        try:
            added = hf.documents.add(args.place, text, title=args.title, metadata=metadata, progress=progress, **owner)
        finally:
            progress.end()
    documents = added if isinstance(added, list) else [added]
    skipped = progress.files - len(documents)
    value = {"documents": to_json(documents), "skipped": skipped}
    show.print_result(args, value, _format_added(documents, skipped))
    return 0


def _quiet_pdf_reader() -> None:
    """What it finds wrong in a file is our one line to say."""
    import logging

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)


def _format_added(documents: Sequence[Document], skipped: int) -> list[str]:
    if len(documents) == 1 and not skipped:
        [document] = documents
        chunks = show.pluralize(document.chunks, "chunk")
        return [show.one_line(f"{str(document.status).capitalize()}: {document.uri} ({chunks})")]
    counts = Counter(str(document.status) for document in documents)
    parts = [f"{counts[status]:,} {status}" for status in ("added", "changed", "unchanged")]
    more = f"; {show.pluralize(skipped, 'file')} passed over (--verbose says why)" if skipped else ""
    return [f"{show.pluralize(len(documents), 'document')}: {', '.join(parts)}{more}."]


def list_documents(args: Namespace) -> int:
    owner = _owner(args)
    with open_memory(args) as hf:
        found = hf.documents.list(limit=args.limit, offset=args.offset, **owner)
    show.print_result(args, to_json(found), _format_documents(found, args))
    return 0


def _format_documents(found: Sequence[Document], args: Namespace) -> list[str]:
    if not found and args.offset:
        return ["No documents so far down. Leave --offset out to see the first."]
    if not found:
        return ["No documents yet. `limpet documents add PATH --user U` adds a file or a folder."]
    rows = [
        (show.format_time(document.updated_at), f"{document.chunks:,}", document.title or "-") for document in found
    ]
    # A uri that was cut to the screen could not be copied.
    lines = show.format_table(
        ("CHANGED", ">CHUNKS", "TITLE"), rows, [show.indent_lines(document.uri) for document in found]
    )
    return [*lines, *show.next_page_hint(len(found), args.limit, args.offset)]


def remove_document(args: Namespace) -> int:
    owner = _owner(args)
    # One document named by its uri is what the caller meant; a person may have slipped.
    if is_interactive():
        confirm(args, f"Remove {show.one_line(args.place)} from memory for good?")
    with open_memory(args, needed=True) as hf:
        gone = hf.documents.remove(args.place, **owner)
    chunks = show.pluralize(gone.counts["chunks"], "chunk")
    value = {"removed": list(gone.ids), "counts": dict(gone.counts)}
    show.print_result(args, value, [show.one_line(f"Removed {args.place} with {chunks}.")])
    return 0
