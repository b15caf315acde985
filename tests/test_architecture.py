"""The structure of the package, asserted: layers, declared imports beside them, and how big things may grow."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"

# A package imports itself and packages of the layers above it in this list. `` is limpet/__init__.py.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("model", "config"),
    ("store", "providers", "security"),
    ("search",),
    ("sessions", "knowledge", "documents", "notes"),
    ("context", "schedules", "lifecycle"),
    ("api",),
    ("",),
    ("tools", "mcp", "server", "cli", "testing", "__main__"),
)
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}

# Within a layer, packages import each other only as declared here: a package, or one module of it.
BESIDE: dict[str, set[str]] = {
    "config": {"model"},
    "providers": {"security.telemetry"},
    "store": {"security.telemetry"},
    "security": {"store"},
    "knowledge": {"sessions", "notes"},
    "lifecycle": {"schedules"},
    "mcp": {"tools"},
    "server": {"tools", "mcp"},
    "cli": {"tools", "mcp", "server"},
    "__main__": {"cli"},
}

# The rules of a language are used through their package alone.
FENCED = "limpet.knowledge.english"

# Other packages are imported inside the function that needs them. Not so in modules that are themselves imported late.
THIRD_PARTY_AT_THE_TOP = {
    "limpet.store.postgres": {"psycopg"},
    "limpet.search.rank": {"numpy"},
    "limpet.knowledge.change_network": {"numpy"},
    "limpet.knowledge.reader_network": {"numpy"},
    "limpet.security.otel": {"opentelemetry"},
    "limpet.server": {"prometheus_client", "pydantic", "pydantic_core", "starlette", "typing_extensions", "uvicorn"},
    "limpet.mcp.http": {"anyio", "mcp"},
    "limpet.mcp.purge": {"anyio", "mcp", "mcp_types"},
    "limpet.mcp.server": {"anyio", "mcp", "mcp_types"},
    "limpet.mcp.stdio": {"anyio", "mcp", "mcp_types", "pydantic"},
}

# What makes a run differ from the next belongs to the composition root, which hands it down.
ROOT = {"limpet.api.runtime"}
IMPURE = {
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"),
    *("time.time", "time.time_ns", "time.localtime", "time.gmtime"),
    *("os.environ", "os.environb", "os.getenv", "os.urandom", "uuid.uuid1", "uuid.uuid4", "random", "secrets"),
}
MAY_BE_IMPURE = {
    ("limpet.api.remote.memory", "secrets.token_hex"),  # a client has no root: the key that ties a turn's requests
    ("limpet.config", "os.environ"),  # Config.load reads it like Limpet.open
    ("limpet.providers.minilm", "os.environ"),  # written, for packages that read it when they are imported
    ("limpet.model.values", "datetime.datetime.now"),  # system_clock, the default
}

MAX_FUNCTION_LINES = 80
MAX_FILE_LINES = 500
REASON = re.compile(r"#.*\bwhy: \S")


@dataclass(frozen=True)
class Import:
    target: str
    line: int
    at_the_top: bool  # executed when the module is imported
    for_types: bool


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        return package_of(self.name)

    def at(self, line: int) -> str:
        return f"{self.path.relative_to(SOURCE)}:{line}"


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


@cache
def modules() -> dict[str, Module]:
    found = {}
    for path in sorted((SOURCE / "limpet").rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        found[name] = Module(name, path, text, ast.parse(text))
    return found


@cache
def imports(module: Module) -> tuple[Import, ...]:
    return tuple(_imports(module, module.tree, at_the_top=True, for_types=False))


def _imports(module: Module, node: ast.AST, *, at_the_top: bool, for_types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # imports are statements, and most nodes are not
        if isinstance(child, ast.Import | ast.ImportFrom):
            for target in _targets(module, child):
                yield Import(target, child.lineno, at_the_top, for_types)
        late = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        typing = isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")
        yield from _imports(module, child, at_the_top=at_the_top and not late, for_types=for_types or typing)


def _targets(module: Module, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Modules where they can be told, else `module.name`: what `from a import b` means is a.b if that is a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    origin = node.module or ""
    if node.level:
        package = module.name if module.path.name == "__init__.py" else module.name.rpartition(".")[0]
        parts = package.split(".")
        origin = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [origin])])
    found = [f"{origin}.{alias.name}" for alias in node.names]
    yield from {name if name in modules() or not origin.startswith("limpet") else origin for name in found}


def inside() -> Iterator[tuple[Module, Import]]:
    """Imports of one part of Limpet by another."""
    for module in modules().values():
        for entry in imports(module):
            if entry.target.split(".")[0] == "limpet":
                yield module, entry


def test_every_package_has_a_layer():
    missing = {module.package for module in modules().values()} - LAYER.keys()
    assert not missing, f"give {missing} a layer in LAYERS"


def test_imports_follow_the_layers():
    wrong = [
        f"{module.at(entry.line)} imports {entry.target}"
        for module, entry in inside()
        if not _is_allowed(module.package, entry.target)
    ]
    assert not wrong, "\n".join(wrong)


def _is_allowed(package: str, target: str) -> bool:
    other = package_of(target)
    if package == other or LAYER[other] < LAYER[package]:
        return True
    beside = {f"limpet.{name}" for name in BESIDE.get(package, ())}
    return LAYER[other] == LAYER[package] and any(f"{target}.".startswith(f"{name}.") for name in beside)


def test_every_declared_import_is_used():
    used = {(module.package, entry.target) for module, entry in inside()}
    declared = {(package, f"limpet.{name}") for package, names in BESIDE.items() for name in names}
    unused = [
        (package, name)
        for package, name in declared
        if not any(mine == package and f"{target}.".startswith(f"{name}.") for mine, target in used)
    ]
    assert not unused, f"remove from BESIDE: {unused}"


def test_the_model_uses_only_the_standard_library():
    wrong = [
        f"{module.at(entry.line)} imports {entry.target}"
        for module in modules().values()
        if module.package == "model"
        for entry in imports(module)
        if entry.target.split(".")[0] not in {"limpet", *sys.stdlib_module_names}
    ]
    assert not wrong, "\n".join(wrong)


def test_modules_have_no_import_cycles():
    graph: dict[str, set[str]] = {name: set() for name in modules()}
    for module, entry in inside():
        if entry.at_the_top and not entry.for_types and entry.target != module.name:
            graph[module.name].add(entry.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_third_party_packages_are_imported_lazily():
    wrong = [
        f"{module.at(entry.line)} imports {entry.target} at the top"
        for module in modules().values()
        for entry in imports(module)
        if entry.at_the_top and not entry.for_types and not _may_be_at_the_top(module, entry.target.split(".")[0])
    ]
    assert not wrong, "\n".join(wrong)


def _may_be_at_the_top(module: Module, package: str) -> bool:
    return package in {"limpet", *sys.stdlib_module_names} or any(
        f"{module.name}.".startswith(f"{place}.") and package in allowed
        for place, allowed in THIRD_PARTY_AT_THE_TOP.items()
    )


def test_import_limpet_loads_no_heavy_modules():
    code = "import sys, limpet; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"asyncio", "cryptography", "httpx", "numpy", "psycopg", "ssl", "Stemmer", "tomllib", "yaml"}
    assert heavy & set(done.stdout.split()) == set()


def test_frozen_dataclasses_are_compiled_when_they_are_used():
    """See limpet.model.dataclass: with the decorator of the standard library, importing Limpet takes twice as long."""
    wrong = [
        module.at(node.lineno)
        for module in modules().values()
        if module.name != "limpet.model.dataclass"
        for node in module.tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if any(alias.name == "dataclass" for alias in node.names) and "@dataclass(frozen" in module.text
    ]
    assert not wrong, f"import dataclass from limpet.model.dataclass: {wrong}"


def test_the_rules_of_a_language_are_imported_when_something_is_learned():
    code = "import sys; from limpet import Limpet; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.startswith(f"{FENCED}.")] == []


def test_the_rules_of_a_language_are_fenced():
    wrong = [
        f"{module.at(entry.line)} imports {entry.target}"
        for module, entry in inside()
        if entry.target.startswith(f"{FENCED}.") and not module.name.startswith(FENCED)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_property_is_computed_under_a_lock_that_a_fork_copies():
    using = [module.name for module in modules().values() if "cached_property" in module.text]
    assert using == ["limpet.model.late"], "use lazy_property: Python 3.11 locks a cached_property while it is computed"


def test_functions_and_files_stay_below_size_limits():
    wrong = []
    for module in modules().values():
        if (lines := module.text.count("\n")) > MAX_FILE_LINES:
            wrong.append(f"{module.at(1)} has {lines} lines; split it at {MAX_FILE_LINES}")
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    wrong.append(f"{module.at(node.lineno)} {node.name} has {lines} lines, above {MAX_FUNCTION_LINES}")
    for path in (*(SOURCE.parent / "tests").rglob("*.py"), *(SOURCE.parent / "bench").rglob("*.py")):
        lines = path.read_text(encoding="utf-8").count("\n")
        wrong += [f"{path.name} has {lines} lines; split it at {MAX_FILE_LINES}"] if lines > MAX_FILE_LINES else []
    assert not wrong, "\n".join(wrong)


def test_broad_excepts_have_a_reason():
    wrong = []
    for module in modules().values():
        lines = module.text.splitlines()
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ExceptHandler) and _is_broad(node.type) and not _raises_again(node):
                near = lines[max(0, node.lineno - 2) : node.lineno]
                if not any(REASON.search(line) for line in near):
                    wrong.append(f"{module.at(node.lineno)} catches everything without a `# why: …` beside it")
    assert not wrong, "\n".join(wrong)


def _is_broad(caught: ast.expr | None) -> bool:
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(kind is None or ast.unparse(kind) in {"Exception", "BaseException"} for kind in kinds)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    """Tidy up and pass it on: that hides nothing."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_no_clock_randomness_or_environment_below_the_root():
    wrong = [
        f"{module.at(line)} uses {name}"
        for module in modules().values()
        if LAYER[module.package] <= LAYER["api"] and module.name not in ROOT
        for line, name in _uses(module)
        if (name in IMPURE or name.split(".")[0] in IMPURE) and (module.name, name) not in MAY_BE_IMPURE
    ]
    assert not wrong, "\n".join(wrong)


def _uses(module: Module) -> Iterator[tuple[int, str]]:
    """Every name from elsewhere with its full path, aliases undone: `from os import environ as e; e` is os.environ."""
    known: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            known |= {alias.asname or alias.name.split(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name | ast.Attribute):
            first, *rest = _path(node)
            if first in known:
                yield node.lineno, ".".join((known[first], *rest))


def _path(node: ast.expr) -> tuple[str, ...]:
    """``a.b.c`` as its names; first an empty one where it is an attribute of something else, such as a call."""
    if isinstance(node, ast.Attribute):
        return (*_path(node.value), node.attr)
    return (node.id if isinstance(node, ast.Name) else "",)
