"""A transaction: every noun of the port on one connection."""

from __future__ import annotations

from holdfast.storage.cache import Caches
from holdfast.storage.sql.api_keys import SqlApiKeys
from holdfast.storage.sql.chunks import SqlChunks
from holdfast.storage.sql.db import Db
from holdfast.storage.sql.documents import SqlDocuments
from holdfast.storage.sql.graph import SqlGraph
from holdfast.storage.sql.jobs import SqlJobs
from holdfast.storage.sql.moving import SqlImports, SqlMoving
from holdfast.storage.sql.once import SqlOnces
from holdfast.storage.sql.purges import SqlPurges
from holdfast.storage.sql.records import SqlRecords
from holdfast.storage.sql.retention import SqlRetention
from holdfast.storage.sql.schedules import SqlSchedules
from holdfast.storage.sql.seals import Seals, TxSeals
from holdfast.storage.sql.sessions import SqlCursors, SqlKeyValues, SqlMessages, SqlSessions, SqlSummaries, SqlUsage
from holdfast.storage.sql.trust import SqlAudit, SqlGrants


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
