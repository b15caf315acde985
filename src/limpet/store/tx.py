"""A transaction: every noun of the port on one connection."""

from __future__ import annotations

from limpet.documents.repository import SqlDocuments
from limpet.knowledge.graph.repository import SqlGraph
from limpet.knowledge.repository import SqlRecords
from limpet.lifecycle.purge_repository import SqlPurges
from limpet.lifecycle.retention_repository import SqlRetention
from limpet.lifecycle.transfer_repository import SqlImports, SqlMoving
from limpet.schedules.repository import SqlSchedules
from limpet.search.cache import Caches
from limpet.search.chunk_repository import SqlChunks
from limpet.security.access_repository import SqlAudit, SqlGrants
from limpet.security.api_key_repository import SqlApiKeys
from limpet.sessions.repository import SqlCursors, SqlKeyValues, SqlMessages, SqlSessions, SqlSummaries, SqlUsage
from limpet.store.db import Db
from limpet.store.encryption_state import Seals, TxSeals
from limpet.store.idempotency import SqlOnces
from limpet.store.jobs import SqlJobs


class SqlTx:
    def __init__(self, db: Db, caches: Caches | None = None, seals: Seals | None = None) -> None:
        self.db = db
        kept = caches or Caches()
        self.seals = TxSeals(db, seals)
        self.chunks = SqlChunks(db, kept, self.seals)
        self.graph = SqlGraph(db, self.chunks, kept, self.seals)
        self.records = SqlRecords(db, self.chunks, self.graph, self.seals)
        self.sessions = SqlSessions(db, self.chunks, self.graph, self.seals)
        self.messages = SqlMessages(db, self.seals)
        self.summaries = SqlSummaries(db, self.seals)
        self.kv = SqlKeyValues(db, self.seals)
        self.usage = SqlUsage(db)
        self.cursors = SqlCursors(db)
        self.jobs = SqlJobs(db, self.seals)
        self.documents = SqlDocuments(db, self.chunks, self.seals)
        self.imports = SqlImports(db, self.seals)
        self.grants = SqlGrants(db)
        self.audit = SqlAudit(db)
        self.api_keys = SqlApiKeys(db)
        self.once = SqlOnces(db, self.seals)
        self.schedules = SqlSchedules(db, self.chunks, self.seals)
        self.moving = SqlMoving(db, self)
        self.purges = SqlPurges(db, self.chunks, self.seals)
        self.retention = SqlRetention(db)
