"""documents: what is special about adding and removing them."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.ask import ProgressLine, confirm, is_interactive
from limpet.cli.derive import OperationCommand
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import Document, Forgotten, Limpet


class FileProgress(ProgressLine):
    """Knows afterwards how many files there were."""

    files = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.files = total
        super().__call__(stage, done, total)


class AddDocuments(OperationCommand):
    """A file, or a folder of them; some may be passed over."""

    progress: FileProgress

    def make_progress(self) -> FileProgress:
        import logging

        # What the reader finds wrong in a PDF is our one line to say.
        logging.getLogger("pypdf").setLevel(logging.CRITICAL)
        return FileProgress()

    def call(self, memory: Limpet, args: Namespace, given: Mapping[str, Any]) -> list[Document]:
        added = super().call(memory, args, given)
        return added if isinstance(added, list) else [added]

    def to_json(self, answer: list[Document], given: Mapping[str, Any]) -> Any:
        return {"documents": to_json(answer), "skipped": self.progress.files - len(answer)}

    def format(self, answer: Sequence[Document], given: Mapping[str, Any], args: Namespace) -> list[str]:
        skipped = self.progress.files - len(answer)
        if len(answer) == 1 and not skipped:
            [document] = answer
            chunks = show.pluralize(document.chunks, "chunk")
            return [show.one_line(f"{str(document.status).capitalize()}: {document.uri} ({chunks})")]
        counts = Counter(str(document.status) for document in answer)
        parts = [f"{counts[status]:,} {status}" for status in ("added", "changed", "unchanged")]
        more = f"; {show.pluralize(skipped, 'file')} passed over (--verbose says why)" if skipped else ""
        return [f"{show.pluralize(len(answer), 'document')}: {', '.join(parts)}{more}."]


class RemoveDocument(OperationCommand):
    asks = True

    def call(self, memory: Limpet, args: Namespace, given: Mapping[str, Any]) -> Any:
        # One document named by its uri is what the caller meant; a person may have slipped.
        if is_interactive():
            confirm(args, f"Remove {show.one_line(given['uri'])} from memory for good?")
        return super().call(memory, args, given)

    def to_json(self, answer: Forgotten, given: Mapping[str, Any]) -> Any:
        return {"removed": list(answer.ids), "counts": dict(answer.counts)}

    def format(self, answer: Forgotten, given: Mapping[str, Any], args: Namespace) -> list[str]:
        chunks = show.pluralize(answer.counts["chunks"], "chunk")
        return [show.one_line(f"Removed {given['uri']} with {chunks}.")]


SPECIAL: Mapping[str, type[OperationCommand]] = {"documents.add": AddDocuments, "documents.remove": RemoveDocument}
