"""Settings from a preset, a file, the environment and overrides, each layer stronger than the one before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from types import MappingProxyType
from typing import Any

from limpet.config import SECTIONS, SETTINGS, Config
from limpet.config.setting import check_agent_name
from limpet.errors import ConfigError
from limpet.model.values import suggest

AGENTS = "agents"  # where settings of single agents stand
PRESET = "preset"  # where a file names a preset
PRESET_VARIABLE = "LIMPET_PRESET"
KEYS = [f"{section}.{key}" for section, settings in SETTINGS.items() for key in settings]

# The defaults of five programs whose memory Limpet includes. A preset is weaker than every other setting.
_PICOBOT = {
    "retention.messages_days": 90,
    "context.max_tokens": 4000,
    "context.recent_messages": 20,
    "context.user_memories": 50,
    "context.show_user_memories": True,
    "context.show_summary": True,
    "compact.enabled": True,
    "compact.history_tokens": 8000,
    "compact.history_keep": 10,
}
_GOLEMCORE = {
    "context.layout": "golemcore",
    "context.recent_days": 7,
    "context.pack_soft": 1800,
    "context.pack_hard": 3500,
    "context.working_top": 6,
    "context.episodic_top": 8,
    "context.semantic_top": 6,
    "context.procedural_top": 4,
    "learn.promote": True,
    "learn.promote_confidence": 0.75,
    "learn.decay": True,
    "learn.fade_days": 30,
    "notes.write_daily": True,
    "compact.enabled": True,
    "compact.window": 50_000,
    "compact.keep": 20,
    "compact.characters_per_token": 3.5,
    "compact.overhead_tokens": 8000,
    "compact.check_above": 0.8,
    "compact.summary_tokens": 500,
    "compact.temperature": 0.3,
    "compact.timeout_s": 15.0,
    "compact.message_characters": 300,
}
_SCLAW = {
    "storage.wal": True,
    "storage.busy_timeout_ms": 5000,
    "memory.enabled": True,
    "context.recent_messages": 100,
    "context.facts": 10,
    "context.facts_tokens": 2000,
    "search.recipe": "words",
}
_ARALIYA = {
    "session.kv_cap": 200,
    "session.transcript_cap": 500,
    "memory.file_stores": "basic_session",
    "context.recent_messages": 20,
}
_OXYDRA = {
    "chunks.max_chars": 640,
    "chunks.overlap": 96,
    "search.recipe": "weighted",
    "compact.least_messages": 4,
    "compact.roll_above": 0.8,
    "compact.roll_to": 0.5,
    "schedules.summary_characters": 500,
}
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"picobot": _PICOBOT, "golemcore": _GOLEMCORE, "sclaw": _SCLAW, "araliya": _ARALIYA, "oxydra": _OXYDRA}
)


def get_preset(name: object, where: str) -> Mapping[str, Any]:
    """The settings of a preset, each under "section.key"."""
    if not isinstance(name, str) or name not in PRESETS:
        known = ", ".join(PRESETS)
        raise ConfigError(f"{where}: {name!r} is not a preset{suggest(str(name), PRESETS)}; there are {known}")
    return PRESETS[name]


_Assignments = Iterator[tuple[str, str | None, str, str, Any]]  # where it stands, agent, section, key, value
_SectionValues = dict[str, dict[str, Any]]


def build_config(
    path: str | PathLike[str] | None, env: Mapping[str, str], overrides: Mapping[str, Any], preset: str | None
) -> Config:
    chosen: dict[str | None, _SectionValues] = {None: {section: {} for section in SETTINGS}}
    tree, where = ({}, "") if path is None else _load_file(path)
    from_preset = _read_presets(tree, where, _name_preset(env, preset))
    from_file = [*_read_file(tree, where)]
    agents_of_file = {agent for _, agent, _, _, _ in from_file if agent}
    from_env = _read_env(env, agents_of_file)
    layers = (from_preset, from_file, from_env, _read_overrides(overrides))
    for where, agent, section, key, value in (given for layer in layers for given in layer):
        known = SETTINGS[section].get(key)
        if known is None:
            raise ConfigError(f"{where}: {section}.{key} is not a setting{suggest(f'{section}.{key}', KEYS)}")
        own = chosen.setdefault(agent, {section: {} for section in SETTINGS})
        own[section][key] = known.check(value, f"{where}: {f'agents.{agent}.' if agent else ''}{section}.{key}")
    general = chosen.pop(None)
    agents = {
        str(name): Config(**_build_sections({section: {**general[section], **own[section]} for section in SETTINGS}))
        for name, own in chosen.items()
    }
    return Config(**_build_sections(general), agents=agents)


def _build_sections(chosen: _SectionValues) -> dict[str, Any]:
    return {name: kind(**chosen[name]) for name, kind in SECTIONS.items()}


def _load_file(path: str | PathLike[str]) -> tuple[Mapping[str, Any], str]:
    """The sections of a file, and how errors name it."""
    from pathlib import Path

    file = Path(path)
    where = str(file)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror}") from None
    tree = (_parse_yaml if file.suffix in {".yaml", ".yml"} else _parse_toml)(content, where)
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{where}: holds {type(tree).__name__}, not sections with settings")
    return tree, where


def _read_file(tree: Mapping[str, Any], where: str) -> _Assignments:
    yield from _read_tree({name: table for name, table in tree.items() if name != AGENTS}, where)
    for name, own in _list_agents(tree, where):
        yield from _read_tree(own, where, name)


def _list_agents(tree: Mapping[str, Any], where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    agents = tree.get(AGENTS)
    if agents is not None and not isinstance(agents, Mapping):
        raise ConfigError(f"{where}: {AGENTS} holds a table for each agent, not {agents!r}")
    for name, own in (agents or {}).items():
        if not isinstance(own, Mapping):
            raise ConfigError(f"{where}: {AGENTS}.{name} holds sections with settings, not {own!r}")
        yield check_agent_name(name), own


def find_preset(path: str | PathLike[str] | None, env: Mapping[str, str]) -> str | None:
    """The name of the preset that the environment or the file chooses."""
    name, where = _name_preset(env, None)
    if name is None and path is not None:
        tree, where = _load_file(path)
        name = tree.get(PRESET)
    if name is not None:
        get_preset(name, where)
    return name


def _name_preset(env: Mapping[str, str], preset: str | None) -> tuple[str | None, str]:
    """The preset that takes the place of the file's, and how errors name it."""
    return (preset, PRESET) if preset is not None else (env.get(PRESET_VARIABLE), "environment")


def _read_presets(tree: Mapping[str, Any], where: str, other: tuple[str | None, str]) -> _Assignments:
    """The settings of the general preset, and of those of single agents."""
    general = other if other[0] is not None else (tree.get(PRESET), where)
    chosen = [(None, *general), *((agent, own.get(PRESET), where) for agent, own in _list_agents(tree, where))]
    for agent, name, place in chosen:
        for setting, value in get_preset(name, place).items() if name is not None else ():
            section, _, key = setting.partition(".")
            yield f"preset {name}", agent, section, key, value


def _read_tree(tree: Mapping[Any, Any], where: str, agent: str | None = None) -> _Assignments:
    for section, table in tree.items():
        if section == PRESET:
            continue
        name = _check_section(section, where)
        settings = {} if table is None else table  # a YAML section may have all its settings commented out
        if not isinstance(settings, Mapping):
            raise ConfigError(f"{where}: {name} is a section that holds settings, not {table!r}")
        yield from ((where, agent, name, str(key), value) for key, value in settings.items())


def _parse_toml(content: bytes, where: str) -> object:
    import tomllib

    try:
        return tomllib.loads(content.decode())
    except ValueError as error:
        raise ConfigError(f"{where}: is not TOML: {error}") from None


def _parse_yaml(content: bytes, where: str) -> object:
    try:
        import yaml
    except ImportError:
        raise ConfigError(f"{where}: reading YAML needs PyYAML: pip install 'limpet[yaml]', or write TOML") from None
    try:
        return yaml.safe_load(content) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: is not YAML: {error}") from None


_AGENT_PREFIX = "LIMPET_AGENTS_"
_AGENT_PATTERN = f"{_AGENT_PREFIX}NAME_SECTION_KEY"
# Where the store and the settings are, whose memory it is, and a key.
_RESERVED_VARIABLES = (PRESET_VARIABLE, "LIMPET_DATA", "LIMPET_CONFIG", "LIMPET_USER", "LIMPET_KEY", "LIMPET_API_KEY")


def _read_env(env: Mapping[str, str], agents: Iterable[str] = ()) -> _Assignments:
    """LIMPET_SEARCH_K is search.k, LIMPET_AGENTS_CODER_SEARCH_K is agents.coder.search.k.

    Variables of other names belong to others, unless they look like a slip of one.
    """
    variables = {f"LIMPET_{key.replace('.', '_').upper()}": key for key in KEYS}
    prefixes = tuple(f"LIMPET_{section.upper()}_" for section in SETTINGS)
    names = {re.sub(r"[\W_]", "_", agent).upper(): agent for agent in agents}
    for name, text in env.items():
        if name in _RESERVED_VARIABLES:
            continue
        agent = None
        if name.startswith(_AGENT_PREFIX):
            agent, variable = _split_agent_variable(name, variables)
            agent = names.get(agent, agent.lower())
        elif name in variables:
            variable = name
        elif name.startswith("LIMPET_") and (name.startswith(prefixes) or suggest(name, variables, 0.9)):
            raise ConfigError(f"environment: {name} is not a setting{suggest(name, variables)}")
        elif meant := _find_agent_variable(name, variables):
            raise ConfigError(f"environment: {name} is not a setting; did you mean {meant}?")
        else:
            continue
        section, _, key = variables[variable].partition(".")
        yield name, agent, section, key, SETTINGS[section][key].parse(text)


def _split_agent_variable(name: str, variables: Iterable[str]) -> tuple[str, str]:
    """The agent, as the variable spells it, and the variable that sets the same for every agent."""
    rest = name.removeprefix(_AGENT_PREFIX)
    endings = {variable.removeprefix("LIMPET"): variable for variable in variables}
    known = [ending for ending in endings if rest.endswith(ending) and rest != ending]
    if not known:
        agent = rest.partition("_")[0]
        meant = suggest(name, [f"{_AGENT_PREFIX}{agent}{ending}" for ending in endings])
        raise ConfigError(f"environment: {name} is not a setting of an agent{meant or f'; write {_AGENT_PATTERN}'}")
    ending = max(known, key=len)
    return rest.removesuffix(ending), endings[ending]


def _find_agent_variable(name: str, variables: Iterable[str]) -> str | None:
    """What a name was meant to be that begins nearly as those of agents do, or ends as they do."""
    if not name.startswith("LIMPET_"):
        return None
    first, _, rest = name.removeprefix("LIMPET_").partition("_")
    if suggest(first, ["AGENTS"], 0.8):
        return f"{_AGENT_PREFIX}{rest}" if rest else _AGENT_PATTERN
    is_setting = any(name.endswith(variable.removeprefix("LIMPET")) for variable in variables)
    return f"{_AGENT_PREFIX}{first}_{rest}" if is_setting else None


def _read_overrides(overrides: Mapping[str, Any]) -> _Assignments:
    """``section.key``, or ``agents.NAME.section.key`` for one agent, whose name may have dots too."""
    for name, value in overrides.items():
        agent, setting_name = None, name
        if name.startswith(f"{AGENTS}.") and name.count(".") >= 3:
            agent, section, key = name.removeprefix(f"{AGENTS}.").rsplit(".", 2)
            agent, setting_name = check_agent_name(agent), f"{section}.{key}"
        section, _, key = setting_name.partition(".")
        yield "override", agent, _check_section(section, "override"), key, value


def _check_section(section: object, where: str) -> str:
    if section == AGENTS:
        raise ConfigError(f"{where}: a setting of an agent is {AGENTS}.NAME.SECTION.KEY, such as agents.coder.search.k")
    if section not in SETTINGS:
        raise ConfigError(f"{where}: {section} is not a section{suggest(str(section), (*SETTINGS, AGENTS, PRESET))}")
    return str(section)
