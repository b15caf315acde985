"""Frozen dataclasses compiled at their first use behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from limpet.model.dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    tags: tuple[str, ...] = field(default_factory=lambda: ("made",))
    note: str = field(default="", compare=False, repr=False)
    total: int = field(init=False)
    scale: int = field(default=1, kw_only=True)
    label: str = field(default="fixed", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.x + self.y)


@dataclasses.dataclass(frozen=True, slots=True)
class Usual:
    x: int
    y: int = 2
    tags: tuple[str, ...] = field(default_factory=lambda: ("made",))
    note: str = field(default="", compare=False, repr=False)
    total: int = field(init=False)
    scale: int = field(default=1, kw_only=True)
    label: str = field(default="fixed", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.x + self.y)


@dataclass(frozen=True, slots=True)
class Late:
    word: str


@dataclass(frozen=True)
class Named(Point):
    name: str = "none"

    def __repr__(self) -> str:
        return self.name


class Subclass(Named):
    """Not a dataclass itself: it may have attributes of its own."""


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((1,), {}), ((1, 5), {"note": "n"}), ((1,), {"tags": (), "scale": 3}), ((1, 2, ("a",), "b"), {})],
)
def test_values_repr_and_hash_equal_those_of_the_standard_library(args: Any, kwargs: Any) -> None:
    mine, usual = Point(*args, **kwargs), Usual(*args, **kwargs)
    assert dataclasses.asdict(mine) == dataclasses.asdict(usual)
    assert repr(mine) == repr(usual).replace("Usual", "Point")
    assert hash(mine) == hash(usual)
    assert mine == Point(*args, **kwargs | {"scale": mine.scale})


def test_equality_compares_fields_and_class() -> None:
    assert Point(1, note="a") == Point(1, note="b")
    assert Point(1) != Point(2)
    assert Point(1) != Usual(1)  # type: ignore[comparison-overlap]
    assert Point(1) != Named(1)


@pytest.mark.parametrize("wrong", [{}, {"x": 1, "z": 1}, {"x": 1, "total": 3}])
def test_wrong_arguments_are_type_errors_that_name_the_class(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"Point\.__init__\(\)"):
        Point(**wrong)
    with pytest.raises(TypeError, match="positional"):
        Point(1, 2, (), "", 4)  # type: ignore[call-arg]


def test_fields_cannot_be_set_or_deleted() -> None:
    point = Point(1)
    for name in ("x", "other"):
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(point, name, 3)
        with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(point, name)
    subclass = Subclass(1)
    subclass.extra = 1  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        subclass.name = "b"  # type: ignore[misc]


def test_replace_copy_and_pickle_return_equal_objects() -> None:
    point = Point(1, 4, scale=2)
    assert dataclasses.replace(point, x=2) == Point(2, 4, scale=2)
    for again in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert (again, again.total) == (point, 5)


def test_signature_has_every_argument_before_the_first_use() -> None:
    @dataclass(frozen=True, slots=True)
    class Unused:
        a: int
        b: str = "b"
        c: int = field(default=1, kw_only=True)

    assert str(inspect.signature(Unused)) == "(a: 'int', b: 'str' = 'b', *, c: 'int' = 1) -> None"


def test_unpickled_object_of_an_unused_class_compares_by_value() -> None:
    first, second = (object.__new__(Late) for _ in range(2))
    for each in (first, second):
        each.__setstate__(["a"])  # type: ignore[attr-defined]
    assert first == second
    assert hash(first) == hash(second) == hash(("a",))


def test_methods_of_the_class_stay_and_a_subclass_has_its_own_init() -> None:
    assert repr(Named(1, name="own")) == "own"
    assert (Subclass(1, name="sub").name, Subclass(1).total) == ("sub", 3)
    match Named(1, 2):
        case Named(x, y):
            assert (x, y) == (1, 2)


def test_replace_changes_fields_as_the_standard_library_does() -> None:
    ours, usual = replace(Point(1, scale=3), y=5, note="n"), dataclasses.replace(Usual(1, scale=3), y=5, note="n")
    assert repr(ours) == repr(usual).replace("Usual", "Point")
    assert (ours.note, ours.total) == (usual.note, usual.total)
    assert replace(usual, x=2) == dataclasses.replace(usual, x=2), "others are replaced too"
    assert type(replace(Subclass(1), name="Ana")) is Subclass
    with pytest.raises(TypeError, match="nothing"):
        replace(ours, nothing=1)  # type: ignore[call-arg]


def test_object_stays_frozen_after_it_was_filled() -> None:
    made = Late("one")
    assert type(made) is Late
    with pytest.raises(FrozenInstanceError):
        made.word = "two"  # type: ignore[misc]


def test_subclass_keeps_its_class_when_its_base_fills_it() -> None:
    class Marked(Late):
        __slots__ = ()

    assert type(Marked("one")) is Marked
    assert Marked("one").word == "one"
