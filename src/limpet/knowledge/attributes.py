"""The attributes of people and things: how many values each has, how long they last, and the words people use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from limpet.model.dataclass import dataclass
from limpet.model.late import load_modules


@dataclass(frozen=True, slots=True)
class Attribute:
    label: str
    values: str = "many"
    lasts: str = "lasting"
    standing: bool = False
    says: str = ""
    denies: str = ""
    words: str = ""

    @property
    def is_single(self) -> bool:
        """One value at a time: a new one takes the place of the old one."""
        return self.values == "one"


@cache
def load_attributes() -> Mapping[str, Attribute]:
    load_modules("tomllib")
    import tomllib  # late: only what learns or asks needs the table

    table = tomllib.loads(Path(__file__).with_name("attributes.toml").read_text("utf-8"))
    return {label: Attribute(label, **fields) for label, fields in table.items()}


def get_attribute(label: str | None) -> Attribute:
    """The attribute of this label. One that is not in the table has many values, and they last."""
    known = load_attributes().get(label or "")
    return known or Attribute(label or "")


def find_label(name: str | None) -> str | None:
    """The canonical label for somebody's name of an attribute: "city" is home. One that fits none stays as it is."""
    if not name:
        return None
    plain = name.strip().replace(" ", "_").replace("-", "_")
    known = load_attributes()
    if plain in known or ":" in name:
        return plain if plain in known else name
    if plain.removesuffix("s") in known or f"{plain}s" in known:
        return plain.removesuffix("s") if plain.removesuffix("s") in known else f"{plain}s"
    labels = [label for label, attribute in known.items() if plain in attribute.words.split()]
    return labels[0] if len(labels) == 1 else name
