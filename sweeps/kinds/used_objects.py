"""What functions and classes of a program use of it: the source of each, the variables, and modules.

Their source says whether a sweep is resumed with the same code; a variable that can't be sent is named.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import importlib.util
import inspect
import pickle
import sys
import textwrap
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from sweeps.common import project
from sweeps.common.errors import UserError, reason_of
from sweeps.common.formatting import size
from sweeps.kinds.source_files import MOST_BYTES, OUR_ROOT, Source

MOST_SHOWN = 500
"""Characters of the value of a variable that is noted as it is; of a longer one, a checksum."""
PLAIN = (str, int, float, bool, bytes, type(None))
NAMED = ("LOAD_GLOBAL", "LOAD_NAME")
"""Instructions that read a variable of the module."""


@dataclass
class UsedObjects:
    """What some objects use of their program, found by reading their code."""

    texts: dict[str, str] = field(default_factory=dict)
    """Name to the source of a function or a class, or the value of a variable."""
    modules: list[Source] = field(default_factory=list)
    """Those of the project, which are imported and not sent."""
    variables: dict[str, Any] = field(default_factory=dict)
    """All others, by name."""
    _seen: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def by(cls, **objects: Any) -> UsedObjects:
        """What these objects use, and they themselves by these names."""
        found = cls()
        found.add(objects)
        return found

    def add(self, objects: Mapping[str, Any]) -> None:
        """Note objects by name, with all that they use."""
        waiting = deque(objects.items())
        while waiting:
            name, each = waiting.popleft()
            if id(each) not in self._seen:
                self._seen[id(each)] = each
                waiting += self._take(name, each)

    def _take(self, name: str, each: Any) -> Iterator[tuple[str, Any]]:
        """Note an object; what it uses itself, by name."""
        if isinstance(each, ModuleType):
            self._note_module(each.__name__)
        elif isinstance(each, FunctionType | type):
            if not _is_sent(each):
                self._note_module(each.__module__)
                return
            self.texts[name] = _text_of(each)
            for function in [each] if isinstance(each, FunctionType) else _methods(each):
                yield from _used_in(function)
                for module in _imported_in(function):
                    self._note_module(module)
            if isinstance(each, type):
                yield from ((base.__name__, base) for base in each.__bases__)
                yield from ((f"{name}.{attribute}", value) for attribute, value in _attributes(each))
        elif isinstance(each, functools.partial):
            yield from ((name, part) for part in (each.func, *each.args, *each.keywords.values()))
        elif isinstance(each, MethodType):
            yield from ((name, each.__func__), (_name_of_type(each.__self__), each.__self__))
        else:
            if name == _name_of_type(each) and _is_sent(type(each)):
                name = f"an instance of {name}"
            self.texts[name] = _value_of(each)
            self.variables[name] = each
            yield _name_of_type(each), type(each)
            yield from _code_in(name, each, set())

    def _note_module(self, name: str) -> None:
        """Note a module of the user's own; it need not be imported."""
        path = Path(str(_file_of(name))).absolute()
        if path.suffix == ".py" and not _is_installed(path) and (name, path) not in self.modules:
            self.modules.append((name, path))


def pickled(objects: Mapping[str, Any], used: UsedObjects, dumps: Callable[[Any], bytes]) -> bytes:
    """The objects, pickled with all that they use.

    Raises:
        UserError: one can't be pickled, or all together are too large; it names the variable.
    """
    called = next(iter(used.texts), "train")
    try:
        content = dumps(dict(objects))
    except Exception as error:  # pickle raises many kinds
        unfit = [name for name, variable in used.variables.items() if not _can_be_sent(variable, dumps)]
        is_named = unfit and unfit != [called]
        what = f"uses {', '.join(unfit)}, which" if is_named else "uses something that"
        raise UserError(
            f"{called} {what} can't be sent to the processes of the trials ({reason_of(error)}). Make it "
            "inside the function"
        ) from None
    if len(content) > MOST_BYTES:
        sizes = {name: len(dumps(variable)) for name, variable in used.variables.items()}
        largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
        listed = ", ".join(f"{name} ({size(sizes[name])})" for name in largest)
        raise UserError(
            f"{called} uses {listed}: it is sent to each trial with all that it uses, which may take at "
            f"most {size(MOST_BYTES)}. Load such data inside the function, as from a file"
        )
    return content


def _can_be_sent(variable: Any, dumps: Callable[[Any], bytes]) -> bool:
    with contextlib.suppress(Exception):
        dumps(variable)
        return True
    return False


class _Checksum(pickle.Pickler):
    """Pickles into a checksum that is the same in each process, for an equal value.

    No checksum of a tensor, a set or of code is: they are written as what they hold, or by name.
    """

    def __init__(self, has_cycles: bool) -> None:
        self._sum = hashlib.sha256()
        super().__init__(self, protocol=5)
        self.fast = not has_cycles  # then it does not count whether two parts are one object

    def write(self, content: Any) -> None:
        """Take a part of the pickle."""
        self._sum.update(content)

    def persistent_id(self, each: Any) -> Any:
        """What is written in place of a part; None: the part."""
        if type(each) in PLAIN:
            return None
        if isinstance(each, type | FunctionType | ModuleType):
            is_module = isinstance(each, ModuleType)
            return "code", each.__name__ if is_module else f"{each.__module__}.{each.__qualname__}"
        if isinstance(each, set | frozenset):
            return "set", sorted(map(_checksum, each))
        if "torch" in sys.modules:
            import torch

            if isinstance(each, torch.Tensor):
                flat = each.detach().cpu().contiguous().reshape(-1)
                return "tensor", str(each.dtype), tuple(each.shape), flat.view(torch.uint8).numpy()
        return None

    def of(self, value: Any) -> str:
        """The checksum of a value."""
        self.dump(value)
        return self._sum.hexdigest()[:16]


def _checksum(value: Any) -> str:
    try:
        return _Checksum(has_cycles=False).of(value)
    except ValueError:  # it has
        return _Checksum(has_cycles=True).of(value)


def _value_of(each: Any) -> str:
    """The value where it is short and plain; else the type with a checksum, where that can be had."""
    if type(each) in PLAIN and len(shown := repr(each)) <= MOST_SHOWN:
        return shown
    kind = f"of {type(each).__qualname__}"
    with contextlib.suppress(Exception):  # pickle raises many kinds
        return f"{kind}, {_checksum(each)}"
    return kind


def _code_in(name: str, each: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """The code that a container holds, or an object of a class of the program."""
    if id(each) in seen:
        return
    seen.add(id(each))
    held: Mapping[Any, Any] = {}
    if isinstance(each, dict):
        held = each
    elif isinstance(each, list | tuple):
        held = dict(enumerate(each))
    elif isinstance(each, set | frozenset):  # in an order of their own in each process
        held = {part.__qualname__: part for part in each if isinstance(part, FunctionType | type)}
    elif _is_sent(type(each)):
        with contextlib.suppress(TypeError):  # it has slots
            held = vars(each)
    for number, (key, value) in enumerate(held.items()):
        called = f"{name}[{key!r}]" if isinstance(key, str | int) else f"{name}, value {number + 1}"
        if isinstance(value, FunctionType | MethodType | functools.partial | type | ModuleType):
            yield called, value
        elif isinstance(value, dict | list | tuple | set | frozenset) or _is_sent(type(value)):
            if _is_sent(type(value)):
                yield _name_of_type(value), type(value)
            yield from _code_in(called, value, seen)


def _file_of(module: str) -> str | Path | None:
    """The file of a module, also of one that is not imported yet."""
    if module in sys.modules:
        found: ModuleType | None = sys.modules[module]  # None: its import is forbidden
        return None if found is None else vars(found).get("__file__")
    places = (Path(entry).absolute() for entry in sys.path)
    is_relative = module[:1] in ("", ".")  # in no package: see `_absolute`
    return None if is_relative else project.module_file(module, places)


def _is_installed(path: Path) -> bool:
    """Whether a file is of a library, of Python or of this program."""
    places = (sys.prefix, sys.base_prefix, OUR_ROOT / "sweeps")
    is_among_packages = not {"site-packages", "dist-packages"}.isdisjoint(path.parts)
    return is_among_packages or any(path.is_relative_to(place) for place in places)


def _is_sent(each: FunctionType | type) -> bool:
    """Whether an object is pickled by value: one of the program itself, or of no module that is there."""
    return each.__module__ == "__main__" or each.__module__ not in sys.modules


def _methods(cls: type) -> Iterator[FunctionType]:
    yield from (inner for each in vars(cls).values() if isinstance(inner := _inner(each), FunctionType))


def _inner(each: Any) -> Any:
    """The function of an attribute of a class that is one for Python; any other as it is."""
    if isinstance(each, staticmethod | classmethod):
        return each.__func__
    if isinstance(each, property):
        return each.fget
    return each.func if isinstance(each, functools.cached_property) else each


def _attributes(cls: type) -> Iterator[tuple[str, Any]]:
    """Those that are no functions and no plain values, which count with the text of the class."""
    for name, each in vars(cls).items():
        is_pythons = (name.startswith("_") and name.endswith("_")) or name == "_abc_impl"
        is_noted = isinstance(_inner(each), FunctionType | bool | int | float | str)
        if not is_pythons and not is_noted and not inspect.isdatadescriptor(each):
            yield name, each


def _name_of_type(each: Any) -> str:
    return (each if isinstance(each, type) else type(each)).__name__


def _used_in(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables of the module and of functions around it that a function reads."""
    inside = function.__globals__
    names = (str(each.argval) for each in _instructions(function) if each.opname in NAMED)
    yield from ((name, inside[name]) for name in names if name in inside)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it has no value yet
            yield name, cell.cell_contents
    for number, default in enumerate(function.__defaults__ or ()):
        yield f"{function.__name__}, default {number + 1}", default
    for name, default in (function.__kwdefaults__ or {}).items():
        yield f"{function.__name__}, default of {name}", default


def _imported_in(function: FunctionType) -> Iterator[str]:
    """The modules that a function imports when it is called; some are none, but a name of one."""
    module, package = "", str(function.__globals__.get("__package__") or "")
    before = deque[Any](maxlen=2)  # values of two instructions; of an import its number of points, and names
    for each in _instructions(function):
        if each.opname == "IMPORT_NAME":
            module = _absolute("." * before[0] + str(each.argval), package)
            yield module
        elif each.opname == "IMPORT_FROM":
            yield f"{module}.{each.argval}"
        if each.opname != "EXTENDED_ARG":
            before.append(each.argval)


def _absolute(module: str, package: str) -> str:
    """The name of a module that is imported in a package; "" of a relative one that can't be."""
    with contextlib.suppress(ImportError):
        return importlib.util.resolve_name(module, package)
    return ""


def _instructions(function: FunctionType) -> Iterator[dis.Instruction]:
    """Those of a function, and of the functions and classes that it makes."""
    for code in _codes(function.__code__):
        yield from dis.get_instructions(code)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _text_of_codes(function: FunctionType) -> str:
    """What a function without a source does."""
    found: list[str] = []
    for code in _codes(function.__code__):
        consts = [each for each in code.co_consts if not isinstance(each, CodeType)]
        shown = [repr(sorted(map(repr, each)) if isinstance(each, frozenset) else each) for each in consts]
        found += [code.co_code.hex(), *code.co_names, *shown]
    return " ".join(found)


def _text_of(each: FunctionType | type) -> str:
    """The source; of a class that of its methods, with its other plain attributes: Python finds no source of
    a class of a notebook."""
    if isinstance(each, FunctionType):
        try:
            return textwrap.dedent(inspect.getsource(each.__code__))
        except (OSError, TypeError):  # typed into Python itself, say
            return _text_of_codes(each)
    bases = ", ".join(base.__name__ for base in each.__bases__)
    plain = {name: value for name, value in vars(each).items() if isinstance(value, bool | int | float | str)}
    own = {name: value for name, value in plain.items() if not name.startswith("__")}
    return "\n".join([f"class {each.__qualname__}({bases}): {own}", *map(_text_of, _methods(each))])
