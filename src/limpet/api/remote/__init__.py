"""A memory on a server: ``Limpet.connect``. Imported when somebody connects."""
