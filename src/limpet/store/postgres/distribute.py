"""Spread the tables of a store over the machines of a Citus cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limpet.errors import Unsupported
from limpet.store.tables import TABLES

if TYPE_CHECKING:
    from limpet.store.postgres.connection import PostgresConnection
    from limpet.store.postgres.db import PostgresDb

_MISSING = (
    "this database has no Citus: run CREATE EXTENSION citus in it on every machine, and citus_add_node for each worker"
    " on the coordinator; a store on one machine needs neither"
)
_FOREIGN_KEYS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE contype = 'f' AND conparentid = 0 AND connamespace = current_schema()::regnamespace ORDER BY oid
"""
# What every writer locks, and the log of migrations, stay on the coordinator.
_WRITERS = "limpet_writers"


def distribute_tables(connection: PostgresConnection) -> dict[str, list[str]]:
    """Return the tables that were not spread yet, by how they are now: ``bucket``, ``tenant`` or ``reference``."""
    connection.begin(exclusive=True)
    try:
        done = _distribute(connection.db)
        connection.commit()
    finally:
        connection.rollback()
    return done


def _distribute(db: PostgresDb) -> dict[str, list[str]]:
    if not db.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'"):
        raise Unsupported(_MISSING)
    known = {name for (name,) in db.execute("SELECT logicalrelid::text FROM pg_dist_partition")}
    wanted = [*((table.name, table.placement) for table in TABLES), (_WRITERS, "bucket")]
    missing = [(name, placement) for name, placement in wanted if name not in known]
    if missing:
        # Citus does not distribute a table that another one refers to.
        keys = db.execute(_FOREIGN_KEYS)
        for table, name, _ in keys:
            db.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        for name, placement in missing:
            _place_table(db, name, placement)
        for table, name, definition in keys:
            db.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")
    return {
        placement: [name for name, of in missing if of == placement] for placement in ("bucket", "tenant", "reference")
    }


def _place_table(db: PostgresDb, name: str, placement: str) -> None:
    if placement == "reference":
        db.execute("SELECT create_reference_table(%s)", [name])
        return
    # All of one placement lie together: the rows of a bucket on one machine, whichever table they are in.
    first = {"bucket": "partitions", "tenant": "imports"}[placement]
    beside = "none" if name == first else first
    db.execute("SELECT create_distributed_table(%s, %s, colocate_with => %s)", [name, placement, beside])
    db.execute("SELECT truncate_local_data_after_distributing_table(%s)", [name])
