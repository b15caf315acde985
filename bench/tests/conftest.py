"""As in the other tests, most stores need no vectors."""

from __future__ import annotations

import os

os.environ.setdefault("LIMPET_EMBEDDING_MODEL", "none")
