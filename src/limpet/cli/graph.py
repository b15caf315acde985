"""graph: what is special about it is that it can be written to a file."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.derive import OperationCommand
from limpet.cli.options import Parser, UsageError
from limpet.cli.render_memory import format_graph, truncation_note
from limpet.store.files import open_private

if TYPE_CHECKING:
    from limpet import Graph, Limpet

_FORMATS = (".graphml", ".json")


class ShowGraph(OperationCommand):
    hidden = ("fresh",)  # a person wants to see what was just said

    def add_arguments(self, parser: Parser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--export", metavar="FILE", help="write it to FILE.graphml or FILE.json instead")

    def run(self, args: Namespace) -> int:
        if args.export is None:
            return super().run(args)
        if not args.export.lower().endswith(_FORMATS):
            raise UsageError(f"--export takes a file that ends in {' or '.join(_FORMATS)}, not {args.export!r}")
        with self.open(args) as memory:
            graph: Graph = self.call(memory, args, self.read(args))
        _write(graph, args.export)
        sizes = {"entities": len(graph.entities), "relations": len(graph.relations)}
        entities = "1 entity" if sizes["entities"] == 1 else f"{sizes['entities']:,} entities"
        lines = [f"Wrote {entities} and {show.pluralize(sizes['relations'], 'relation')} to {args.export}."]
        show.print_result(args, {"file": args.export, **sizes, "cut": graph.cut}, [*lines, *truncation_note(graph)])
        return 0

    def call(self, memory: Limpet, args: Namespace, given: Mapping[str, Any]) -> Any:
        return super().call(memory, args, {**given, "fresh": True})

    def to_json(self, answer: Graph, given: Mapping[str, Any]) -> Any:
        return answer.to_json()

    def format(self, answer: Graph, given: Mapping[str, Any], args: Namespace) -> list[str]:
        return format_graph(answer, given.get("entity"))


def _write(graph: Graph, file: str) -> None:
    as_json = file.lower().endswith(".json")
    text = json.dumps(graph.to_json(), indent=2, ensure_ascii=False) + "\n" if as_json else graph.to_graphml()
    with open_private(Path(file), "w", encoding="utf-8", errors="replace") as out:
        out.write(text)


SPECIAL: Mapping[str, type[OperationCommand]] = {"graph.get": ShowGraph}
