"""Prepare a trainable's raw data once: `python -m training.prepare NAME`

All flags: `python -m training.prepare NAME --help`. Exit status: 0; 1, it could not be prepared; 2, a
mistake in what was asked; 130, Ctrl-C (what is prepared is kept, and the same command goes on).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from training import flags, knob_flags, plugins
from training.config import MAX_BAD_PCT, CannotPrepare
from training.single import TRAINABLE
from training.values import Knob, UserError, nearest
from training.words import command

if TYPE_CHECKING:
    from training.prepared import DataSet

COMMAND = "python -m training.prepare"
ALIAS = "--raw"
"""Of --data-dir."""
KINDS = {"max_bad_pct": float, "address": str, "check": bool, "data_dir": str, "prepared_dir": str}


@dataclass(frozen=True)
class Asked:
    """A preparation that is asked for."""

    trainable: str
    module: ModuleType
    knobs: Mapping[str, Knob]
    max_bad_pct: float
    address: str | None
    check: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    try:
        return prepare(parse(arguments))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except CannotPrepare as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        again = command("training.prepare", *(sys.argv[1:] if arguments is None else arguments))
        print(f"\nInterrupted. What is prepared is kept.\nGo on      {again}", file=sys.stderr)
        return 130


def prepare(asked: Asked) -> int:
    """Prepare what is not prepared yet, or check what is; the exit status."""
    from training import preparation, prepared

    data_set = prepared.look(asked.trainable, asked.module, asked.knobs)
    if asked.check:
        return check(data_set)
    preparation.ensure(data_set, asked.max_bad_pct, asked.address, has_to_say=True)
    return 0


def check(data_set: DataSet) -> int:
    """Compare each shard with its checksum; the exit status."""
    from training.shards import NotPrepared, checksum_faults

    try:
        manifest = data_set.manifest()
        if manifest is None:
            raise NotPrepared(f"{data_set.folder} is not there: it is still to be prepared")
        faults = checksum_faults(data_set.folder, manifest)
    except NotPrepared as error:
        faults = [str(error)]
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    if not faults:
        print(f"whole: {data_set.in_a_line()}")
    return 1 if faults else 0


def parse(arguments: Sequence[str] | None = None) -> Asked:
    """What is asked for.

    Raises:
        UserError: every fault found, one a line.
        SystemExit: after `--help` (status 0).
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    name = tokens.pop(0) if tokens and not tokens[0].startswith("-") else None
    if name is None and not {"-h", "--help"} & set(tokens):
        raise UserError(f"give whose data to prepare first: {', '.join(_with_preparation()) or 'none here'}")
    module = None if name is None else plugins.find(TRAINABLE, name)
    if module is not None and not hasattr(module, "prepare"):
        known = _with_preparation()
        raise UserError(
            f"{name}: its data needs no preparation (it defines no prepare).{nearest(str(name), known)} "
            f"Trainables that define it: {', '.join(known) or 'none here'}"
        )
    names = _knobs(module)
    tokens, of_files, typed = knob_flags.take(tokens, names)
    known = [*map(flags.flag, [*names, *KINDS]), ALIAS]
    flags.refuse_unknown(tokens, known, f"{COMMAND} {name}")
    values = _parser(name, module).values_of(tokens, KINDS)
    assert name is not None
    assert module is not None
    flags.use_machine(values)
    knobs, faults = _checked(module, of_files, typed)
    if not 0 <= values.max_bad_pct <= 100:
        faults.append(f"--max-bad-pct {values.max_bad_pct:g}: from 0 to 100")
    if faults:
        raise UserError("\n".join(faults))
    return Asked(name, module, knobs, values.max_bad_pct, values.address, values.check)


def _checked(
    module: ModuleType, of_files: Mapping[str, Knob], typed: Mapping[str, Knob]
) -> tuple[dict[str, Knob], list[str]]:
    """The knobs that prepared rows depend on, and what is wrong with those that were given."""
    faults = [
        f"--params {knob}: prepared rows do not depend on it.{nearest(knob, module.PREPARE_KNOBS)} "
        f"Knobs that they depend on: {', '.join(module.PREPARE_KNOBS) or 'none'}"
        for knob in typed
        if knob not in module.PREPARE_KNOBS
    ]
    # A file may be of a sweep's winner, and then has all knobs.
    given = {knob: value for knob, value in {**of_files, **typed}.items() if knob in module.PREPARE_KNOBS}
    knobs, wrong = knob_flags.checked(module.Params, given)
    return knobs, [*faults, *wrong]


def _parser(name: str | None, module: ModuleType | None) -> flags.Parser:
    parser = flags.Parser(
        prog=f"{COMMAND} {name or 'NAME'}",
        usage="%(prog)s [flags]",
        description=(
            "Prepare raw data once, for all that train on it. "
            + (f"NAME: {', '.join(_with_preparation()) or 'a trainable of yours'}." if name is None else "")
        ),
    )
    if module is not None and _knobs(module):
        knob_flags.add(parser, f"Knobs of {name} that rows depend on", module.Params, _knobs(module))
    group: Any = parser.add_argument_group("How")
    flags.add(
        group,
        "max_bad_pct",
        float,
        "Share of raw files, in percent, that may be left out as corrupt.",
        MAX_BAD_PCT,
    )
    flags.add(group, "address", str | None, "Ray cluster to join (default: start one on this PC).", None)
    group.add_argument("--check", action="store_true", help="Compare prepared data with its checksums.")
    flags.add_machine(parser, ALIAS)
    return parser


def _knobs(module: ModuleType | None) -> list[str]:
    """Knobs with a flag of their own."""
    if module is None:
        return []
    return [knob for knob in knob_flags.free(module.Params, [*KINDS, "raw"]) if knob in module.PREPARE_KNOBS]


def _with_preparation() -> list[str]:
    found = []
    for name in plugins.choices(TRAINABLE):
        try:
            if hasattr(plugins.find(TRAINABLE, name), "prepare"):
                found.append(name)
        except UserError:
            continue  # it does not keep the contract: its own command says how
    return found


if __name__ == "__main__":
    sys.exit(main())
