"""What the results of a sweep depend on, kept in its record, so that a resume sees what has changed."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib.util
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sweeps import domains, environment
from sweeps.config import OF_ONE_RUN, SweepConfig, flag
from sweeps.plan import Plan
from sweeps.words import short

Identity = Mapping[str, Mapping[str, Any]]
"""settings, space (knob to its domain in words), code (file to checksum) and versions."""

WITHOUT_EFFECT = frozenset(
    {
        *("name", "results_dir", "address", "dashboard"),
        *("min_free_gb", "keep_checkpoints", "checkpoint_epochs"),
    }
)
"""Where a sweep runs, and what it keeps there: no result depends on it."""


def identity(plan: Plan) -> Identity:
    """What `plan` would train with, here and now."""
    return {
        "settings": settings(plan.config),
        "space": {name: _in_words(domain) for name, domain in plan.space.domains.items()},
        "code": _code(plan),
        "versions": environment.versions(),
    }


def settings(config: SweepConfig) -> dict[str, Any]:
    """The settings that results depend on."""
    without = OF_ONE_RUN | WITHOUT_EFFECT
    return {name: value for name, value in dataclasses.asdict(config).items() if name not in without}


def changes(before: Identity, now: Identity, but: frozenset[str] = frozenset()) -> list[str]:
    """What differs, a line each; settings in `but` may."""
    lines = []
    for part, titled in (("settings", flag), ("space", "knob {}".format), ("versions", str)):
        for name, old, new in _differing(before[part], now[part]):
            if not (part == "settings" and name in but):
                lines.append(f"{titled(name)}: {_shown(old)} -> {_shown(new)}")
    lines += [f"{name}: its code" for name, _, _ in _differing(before["code"], now["code"])]
    return lines


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    names = dict.fromkeys([*before, *now])
    return [(n, before.get(n), now.get(n)) for n in names if before.get(n) != now.get(n)]


def _shown(value: Any) -> str:
    return "not set" if value is None else short(value)


def _in_words(domain: Any) -> str:
    form = domains.form(domain)
    if form == "sample_from":
        return f"sample_from {_checksum(inspect.getsource(domain.func).encode())}"
    if form == "normal":
        return f"normal {vars(domain.get_sampler())}"
    if isinstance(domain, Mapping) or hasattr(domain, "categories"):
        return domains.describe(domain)
    (low, high), step = domains.bounds(domain), domains.step_of(domain)
    by = f" in steps of {step}" if step else ""
    return f"{low} to {high}{by}" + (", log scale" if domains.is_log(domain) else "")


def _code(plan: Plan) -> dict[str, str]:
    """File to checksum: what trains, proposes and prunes, and what the trainable uses of its package."""
    own = Path(__file__).parents[1] / "training"
    files = {f"training/{path.name}": path for path in sorted(own.glob("*.py"))}
    for module in (plan.searcher, plan.scheduler):
        files[_file_name(module.__name__)] = Path(str(module.__file__))
    files |= _with_what_it_imports(plan.trainable.__name__)
    return {name: _checksum(path.read_bytes()) for name, path in files.items()}


def _with_what_it_imports(trainable: str) -> dict[str, Path]:
    """The files of a module and of all that it imports of its own package, wherever the import stands;
    by the text alone, so that it is the same in every process."""
    package = trainable.partition(".")[0]
    files: dict[str, Path] = {}
    seen: set[str] = set()
    waiting = [trainable]
    while waiting:
        name = waiting.pop()
        if name.partition(".")[0] != package or name in seen:
            continue
        seen.add(name)
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            continue  # a name that is no module: `from package.module import thing`
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            continue
        path = Path(spec.origin)
        is_package = path.stem == "__init__"
        files[_file_name(f"{name}.__init__" if is_package else name)] = path
        home = name if is_package else name.rpartition(".")[0]
        waiting += [name.rpartition(".")[0], *_imports(ast.parse(path.read_bytes()), home)]
    return dict(sorted(files.items()))


def _imports(tree: ast.AST, home: str) -> Iterator[str]:
    """Dotted names that a file in the package `home` imports; some are no modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(relative, home) if node.level else relative
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _file_name(module: str) -> str:
    return module.replace(".", "/") + ".py"


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
