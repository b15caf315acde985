"""graph: who and what is spoken of, how they are related, and where that was said."""

from __future__ import annotations

from argparse import Namespace
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Literal

from limpet.cli import show
from limpet.cli.options import UsageError, add_command
from limpet.cli.place import open_memory

if TYPE_CHECKING:
    from limpet import Entity, Graph, Relation
    from limpet.model.graph import GraphSource

_FORMATS = (".graphml", ".json")
_SOURCES = 3  # shown of each relation


def add(commands: Any) -> None:
    parser = add_command(commands, "graph", "show who and what is spoken of, and how they are related", run)
    parser.add_argument("--user", metavar="U", help="the user whose memory it is")
    parser.add_argument("--agent", metavar="A", help="the agent whose memory it is")
    parser.add_argument("--global", dest="everyone", action="store_true", help="the memory of the whole tenant")
    parser.add_argument("--entity", metavar="NAME", help="only what is around this one")
    parser.add_argument("--depth", metavar="N", type=int, default=1, help="how many relations far; default: 1")
    parser.add_argument("--export", metavar="FILE", help="write it to FILE.graphml or FILE.json instead")


def run(args: Namespace) -> int:
    if [args.user is not None, args.agent is not None, args.everyone].count(True) != 1:
        raise UsageError("say whose memory this is, and only one: --user U, --agent A or --global")
    if args.export is not None and not args.export.lower().endswith(_FORMATS):
        raise UsageError(f"--export takes a file that ends in {' or '.join(_FORMATS)}, not {args.export!r}")
    everyone: Literal["global"] | None = "global" if args.everyone else None
    with open_memory(args) as hf:
        graph = hf.graph(args.user, args.entity, args.depth, agent=args.agent, scope=everyone, fresh=True)
    if args.export is not None:
        return _export(args, graph)
    show.print_result(args, graph.to_json(), _format_graph(graph, args.entity))
    return 0


def _export(args: Namespace, graph: Graph) -> int:
    import json
    from pathlib import Path

    as_json = args.export.lower().endswith(".json")
    text = json.dumps(graph.to_json(), indent=2, ensure_ascii=False) + "\n" if as_json else graph.to_graphml()
    Path(args.export).write_text(text, encoding="utf-8", errors="replace")
    facts = {"file": args.export, "entities": len(graph.entities), "relations": len(graph.relations), "cut": graph.cut}
    entities = "1 entity" if len(graph.entities) == 1 else f"{len(graph.entities):,} entities"
    lines = [f"Wrote {entities} and {show.pluralize(len(graph.relations), 'relation')} to {args.export}."]
    show.print_result(args, facts, lines + _truncation_note(graph))
    return 0


def _format_graph(graph: Graph, entity: str | None) -> list[str]:
    if not graph.entities:
        if entity is not None:
            return [f"Nothing is known of {show.one_line(entity)}."]
        return ["Nobody and nothing is named yet. Names in messages and memories appear here."]
    names = {each.id: each.name for each in graph.entities}
    by_subject: dict[str, list[Relation]] = defaultdict(list)
    for relation in graph.relations:
        by_subject[relation.subject].append(relation)
    rows = [[each.name, each.kind.value, f"{each.mentions:,}", _format_aliases(each, names)] for each in graph.entities]
    under = [
        [
            show.truncate(f"    {_format_relation(relation, names)}", show.screen_width())
            for relation in by_subject[each.id]
        ]
        for each in graph.entities
    ]
    return show.format_table(("name", "kind", ">mentions", "also"), rows, under) + _truncation_note(graph)


def _format_aliases(entity: Entity, names: dict[str, str]) -> str:
    if entity.could_be:
        return "could be " + " or ".join(names.get(other, other) for other in entity.could_be)
    return ", ".join(entity.aliases)


def _format_relation(relation: Relation, names: dict[str, str]) -> str:
    other = relation.value if relation.object is None else names.get(relation.object, relation.object)
    denied = "" if relation.holds else "not: "
    until = "" if relation.valid_to is None else f", until {show.format_time(relation.valid_to)}"
    sources = ", ".join(map(_format_source, relation.sources[:_SOURCES]))
    more = f" and {len(relation.sources) - _SOURCES} more" if len(relation.sources) > _SOURCES else ""
    return show.one_line(f"{denied}{relation.predicate} → {other}{until}  [{sources}{more}]")


def _format_source(source: GraphSource) -> str:
    if source.record_id is not None:
        return f"record {source.record_id}"
    return f"{source.session_id}#{source.sequence}"


def _truncation_note(graph: Graph) -> list[str]:
    return ["There is more: graph.entities and graph.mentions say how much is shown."] if graph.cut else []
