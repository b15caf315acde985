"""``limpet chat``: a model at the terminal, with memory. Only ``command`` is imported before it is used."""
