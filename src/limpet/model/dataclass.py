"""``dataclass`` of the standard library, with frozen classes compiled when they are first used.

The standard library compiles six methods for each class while its module is imported. That took half of the time in
which Limpet is imported, and most programs use few of the classes. Here those that are called often are
compiled when one of them is first used, and the others are closures.

A frozen object with slots is filled while it is of an open class with the same slots: setting a field there is an
assignment, three times as quick as a call of ``object.__setattr__``. A recall makes hundreds of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass, replace  # type checkers know what they do
else:
    import dataclasses
    from collections.abc import Iterable
    from types import MethodType
    from typing import Any

    _LATE = ("__init__", "__eq__", "__hash__")
    _REPLACE = "__replace__"
    _SET = object.__setattr__
    _UNSET = object()  # stands for a default that a function makes

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, **more: Any) -> Any:
        """As ``dataclasses.dataclass``. The methods that the class defines itself stay."""

        def decorate(cls: type) -> type:
            if not frozen:
                return dataclasses.dataclass(cls, slots=slots, **more)
            cls.__doc__ = cls.__doc__ or f"{cls.__name__}(…)"  # a signature would have to be compiled
            own = cls.__dict__.keys() - ({"__hash__"} if cls.__dict__.get("__hash__", ...) is None else set())
            made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, **more)
            for name, method in _create_methods(made, slots=slots).items():
                if name not in own:
                    setattr(made, name, method)
            return made

        return decorate if cls is None else decorate(cls)

    def replace(noun: Any, /, **changes: Any) -> Any:
        """As ``dataclasses.replace``, quicker for the classes that are made here."""
        copy = getattr(noun, "__replace__", None)
        return dataclasses.replace(noun, **changes) if copy is None else copy(**changes)

    class _Late:
        """A method of a class until it is first looked up."""

        def __init__(self, cls: type, name: str) -> None:
            self.cls, self.name = cls, name

        def __get__(self, instance: object | None, owner: type | None = None) -> Any:
            method = _compile_replace(self.cls) if self.name == _REPLACE else _compile(self.cls)[self.name]
            return method if instance is None else MethodType(method, instance)

    def _compile_replace(cls: type) -> Any:
        """A method that makes a copy with some fields changed, by the name that Python 3.13 gave it."""
        fields = sorted((each for each in dataclasses.fields(cls) if each.init), key=lambda each: each.kw_only)
        taken = ", ".join(["self", "/", *(["*"] if fields else []), *(f"{each.name}=_UNSET" for each in fields)])
        given = (
            f"{f'{each.name}=' * each.kw_only}self.{each.name} if {each.name} is _UNSET else {each.name}"
            for each in fields
        )
        names: dict[str, Any] = {"_UNSET": _UNSET}
        exec(f"def {_REPLACE}({taken}): return self.__class__({', '.join(given)})", names)  # noqa: S102
        setattr(cls, _REPLACE, names[_REPLACE])
        return names[_REPLACE]

    def _compile(cls: type) -> dict[str, Any]:
        """Put the compiled methods in the place of the late ones."""
        fields = dataclasses.fields(cls)
        compared = [field.name for field in fields if field.compare]
        hashed = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
        source, names = _write_init(cls)
        source += (
            f"def __eq__(self, other):\n"
            f" if other.__class__ is not self.__class__: return NotImplemented\n"
            f" return {_write_tuple('self', compared)} == {_write_tuple('other', compared)}\n"
            f"def __hash__(self): return hash({_write_tuple('self', hashed)})\n"
        )
        exec(source, names)  # noqa: S102
        methods = {name: names[name] for name in _LATE}
        methods["__init__"].__annotations__ = {f.name: f.type for f in fields if f.init} | {"return": None}
        for name, method in methods.items():
            method.__qualname__, method.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
            if isinstance(cls.__dict__[name], _Late):
                setattr(cls, name, method)
        return methods

    def _write_tuple(of: str, names: Iterable[str]) -> str:
        return f"({''.join(f'{of}.{name},' for name in names)})"

    def _write_init(cls: type) -> tuple[str, dict[str, Any]]:
        """It sets each field to its argument or its default, then calls ``__post_init__``."""
        names: dict[str, Any] = {"_SET": _SET, "_UNSET": _UNSET}
        positional, named, values = ["self"], [], {}
        for field in dataclasses.fields(cls):
            name, default, factory = field.name, f"_default_{field.name}", f"_make_{field.name}"
            names |= {default: field.default, factory: field.default_factory}
            makes, has_default = (each is not dataclasses.MISSING for each in (field.default_factory, field.default))
            if field.init:
                usual = "=_UNSET" if makes else f"={default}" if has_default else ""
                (named if field.kw_only else positional).append(name + usual)
                value = f"{factory}() if {name} is _UNSET else {name}" if makes else name
            elif makes or has_default:
                value = f"{factory}()" if makes else default
            else:
                continue  # __post_init__ sets it
            values[name] = value
        body = _write_open(cls, values, names) or [f" _SET(self, {name!r}, {value})" for name, value in values.items()]
        if hasattr(cls, "__post_init__"):
            body.append(" self.__post_init__()")
        arguments = ", ".join([*positional, *(("*", *named) if named else ())])
        return f"def __init__({arguments}):\n" + ("\n".join(body) or " pass") + "\n", names

    def _write_open(cls: type, values: dict[str, str], names: dict[str, Any]) -> list[str]:
        """The lines that set the fields of an object with slots; none where its class has another base."""
        slots = cls.__dict__.get("__slots__")
        if slots is None or cls.__bases__ != (object,) or not values:
            return []
        names |= {"_CLASS": cls, "_OPEN": type(cls.__name__, (), {"__slots__": slots}), "_fill": _fill}
        given = ", ".join(f"({name!r}, {value})" for name, value in values.items())
        return [
            f" if self.__class__ is not _CLASS: _fill(self, {given})",
            " else:",
            "  _SET(self, '__class__', _OPEN)",
            *(f"  self.{name} = {value}" for name, value in values.items()),
            "  self.__class__ = _CLASS",
        ]

    def _fill(self: Any, *values: tuple[str, Any]) -> None:
        """Set the fields of an object of a derived class."""
        for name, value in values:
            _SET(self, name, value)

    def _create_methods(cls: type, *, slots: bool) -> dict[str, Any]:
        fields = dataclasses.fields(cls)
        names = frozenset(field.name for field in fields)
        shown = [field.name for field in fields if field.repr]

        def show(self: Any) -> str:
            return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

        def refuse_set(self: Any, name: str, value: object) -> None:
            if type(self) is cls or name in names:
                raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
            super(cls, self).__setattr__(name, value)

        def refuse_delete(self: Any, name: str) -> None:
            if type(self) is cls or name in names:
                raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
            super(cls, self).__delattr__(name)

        def get_state(self: Any) -> list[Any]:
            return [getattr(self, field.name) for field in fields]

        def set_state(self: Any, state: list[Any]) -> None:
            for field, value in zip(fields, state, strict=True):
                _SET(self, field.name, value)

        methods = {name: _Late(cls, name) for name in (*_LATE, _REPLACE)}
        methods |= {"__repr__": show, "__setattr__": refuse_set, "__delattr__": refuse_delete}
        return methods | ({"__getstate__": get_state, "__setstate__": set_state} if slots else {})
