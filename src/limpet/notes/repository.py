"""The repository of notes. A note belongs to a partition, and is named like its file."""

from __future__ import annotations

from collections.abc import Collection

from limpet.model.note import Note
from limpet.model.scope import Level, Partition
from limpet.search.chunk_repository import Chunks
from limpet.store.encryption import RowLayout
from limpet.store.tables import NOTE_ROWS, NOTES
from limpet.store.tx import Partitions, Query, Repository, partition_params

_NOTE = RowLayout(NOTES, NOTE_ROWS)


class Notes(Repository):
    def get(self, partition: Partition, name: str) -> Note | None:
        return self.find(partition, [name]).get(name)

    def lock(self, partition: Partition, name: str) -> Note | None:
        """Return the note or None: no other transaction adds or changes it until this one ends."""
        Partitions(self._tx).lock(partition)
        if Partitions(self._tx).needs_lock(partition):  # it is not there: another writer may be creating it
            Chunks(self._tx).lock_partition(partition)
        found = self.find(partition, [name], self._db.for_update).get(name)
        if found is None:
            Chunks(self._tx).lock_partition(partition)  # a new note has no row that could be locked
            found = self.get(partition, name)
        return found

    def find(self, partition: Partition, names: Collection[str] | None = None, order: str = "") -> dict[str, Note]:
        [rows] = self._db.all_together([self._build_query(partition, names, order)])
        cipher = self._cipher(partition)
        found = [NOTE_ROWS.read(cipher.decrypt_row(_NOTE, (row[-1], row[0]), row)[:-1]) for row in rows]
        return {note.name: note for note in found}

    def prefetch(self, partition: Partition, names: Collection[str]) -> None:
        """Let these be read along with whatever is read next."""
        if names:
            self._db.prefetch([self._build_query(partition, names)])

    def prefetch_locked(self, partition: Partition, name: str) -> None:
        """Let what ``lock`` reads be read along with the lock of the partition."""
        self._db.prefetch_locked([self._build_query(partition, [name], self._db.for_update)])

    def _build_query(self, partition: Partition, names: Collection[str] | None, order: str = "") -> Query:
        params = partition_params(partition)
        if names is None:
            return Query("notes.select", params, order=order)
        return Query("notes.select", {**params, "names": self._db.to_array([*names])}, "name IN :names[]", order)

    def put(self, partition: Partition, note: Note) -> None:
        """Insert version 1 of a locked note, or put a later version in place of the one before."""
        row = Chunks(self._tx).lock_partition(partition) if note.version == 1 else None
        key = Partitions(self._tx).find_key(partition) if row is None else row.key
        bound = (key["partition_id"], note.name)
        params = self._cipher(partition).encrypt_params(NOTES, bound, NOTE_ROWS.params(note))
        self._db.run_later("notes.update" if row is None else "notes.insert", {**params, **key})

    def mark_mirrored(self, partition: Partition, note: Note, digest: str) -> None:
        """Note that the file has the text of this version. A later version is still to be written."""
        cipher = self._tx.encryption.find_cipher(partition.tenant)
        if cipher is None:  # the key was removed meanwhile
            return
        params = {"name": note.name, "version": note.version, "mirrored": digest}
        encrypted = cipher.encrypt_params(NOTES, None, params)  # the digest, which is bound to no row
        self._db.run_later("notes.mark", {**encrypted, **Partitions(self._tx).find_key(partition)})

    def delete(self, partition: Partition, names: Collection[str]) -> int:
        key = Partitions(self._tx).find_key(partition)
        return self._db.run("notes.delete", {**key, "names": self._db.to_array([*names])})

    def list_pending(self) -> list[tuple[Partition, str]]:
        """Notes of anybody whose file has still to be written."""
        rows = self._db.all("notes.pending", {})
        return [(Partition(tenant, Level(level), owner), name) for tenant, level, owner, name in rows]

    def list_names(self, partition: Partition) -> list[str]:
        return [name for (name,) in self._db.all("notes.names", Partitions(self._tx).find_key(partition))]
