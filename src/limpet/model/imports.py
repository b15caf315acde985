"""Late imports that Ctrl-C cannot break."""

from __future__ import annotations

import threading
from contextlib import suppress
from importlib import import_module

_loaded: set[str] = set()  # whole: a module that another thread is importing is in sys.modules already


def load_extension(name: str) -> None:
    """Import a package with compiled parts whole, where no signal handler runs: in another thread than the main one.

    Some packages, numpy among them, cannot be imported again in a process after their import was interrupted. Raises
    nothing: a package that is missing is found missing by the import that follows.
    """
    if name in _loaded or threading.current_thread() is not threading.main_thread():
        return
    loading = threading.Thread(target=_import, args=(name,), name=f"limpet-import-{name}")
    loading.start()
    loading.join()


def _import(name: str) -> None:
    with suppress(Exception):  # why: the import that follows raises it, in the thread that needs to know
        import_module(name)
    _loaded.add(name)
