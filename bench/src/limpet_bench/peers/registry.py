"""The peers that are measured, Limpet first."""

from __future__ import annotations

from limpet import __version__
from limpet_bench.peers.peer import About

_HERE = "limpet_bench.peers"
OURS, OUR_MODULE = "limpet", f"{_HERE}.ours"

PEERS: tuple[About, ...] = (
    About(
        OURS,
        "words, and vectors where there is a model",
        OUR_MODULE,
        "from limpet import Limpet",
        vectors=False,
        own_version=__version__,
    ),
    About("fts5", "SQLite's word index, any word of the question", f"{_HERE}.fts5", "import sqlite3", vectors=False),
    About("flat-file", "lines of JSON, vectors compared with numpy", f"{_HERE}.flat", "import json, numpy", ("numpy",)),
    About(
        "sqlite-vec",
        "a vec0 table, partitioned by user",
        f"{_HERE}.vec0",
        "import sqlite3, sqlite_vec",
        ("sqlite-vec",),
        extensions=True,
    ),
    About(
        "chromadb",
        "PersistentClient, one collection",
        f"{_HERE}.chroma",
        "import chromadb",
        ("chromadb",),
        environment={"ANONYMIZED_TELEMETRY": "False"},
    ),
    About("lancedb", "one table, vectors only", f"{_HERE}.lance", "import lancedb", ("lancedb",)),
    About(
        "lancedb-hybrid",
        "one table, vectors and its word index, fused by its own RRF",
        f"{_HERE}.lance_hybrid",
        "import lancedb",
        ("lancedb",),
    ),
    About("qdrant", "the client's local mode", f"{_HERE}.qdrant", "import qdrant_client", ("qdrant-client",)),
    About(
        "langgraph",
        "SqliteStore with an index",
        f"{_HERE}.langgraph",
        "from langgraph.store.sqlite import SqliteStore",
        ("langgraph-checkpoint-sqlite",),
        extensions=True,
        environment={"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"},
    ),
    About(
        "mem0",
        "Memory on qdrant's local mode, infer=False",
        f"{_HERE}.mem0",
        "from mem0 import Memory",
        ("mem0ai", "langchain"),
        environment={"MEM0_TELEMETRY": "False", "MEM0_DIR": "{folder}", "ANONYMIZED_TELEMETRY": "False"},
    ),
)


def get_peer(name: str) -> About:
    return next(about for about in PEERS if about.name == name)
