"""How many trials run at a time on which PCs."""

from __future__ import annotations

import pytest

from sweeps import flags, placement
from sweeps.cluster import PC
from training.values import UserError


def test_slots_are_what_the_pcs_hold_each_by_itself() -> None:
    config = flags.parse(["--cpus-per-trial", "2", "--gpus-per-trial", "0.5"])
    assert placement.slots(config, [PC(16, 2)]) == 4
    assert placement.slots(config, [PC(6, 2)]) == 3
    assert placement.slots(config, [PC(16, 2), PC(2, 1)]) == 5
    assert placement.slots(flags.parse(["--gpus-per-trial", "0.4"]), [PC(16, 2)]) == 4
    assert placement.slots(flags.parse(["--max-concurrent", "3"]), [PC(16, 0)]) == 3


def test_a_trial_that_fits_on_no_pc_is_refused() -> None:
    config = flags.parse(["--cpus-per-trial", "3"])
    with pytest.raises(UserError, match=r"3 CPUs and 0 GPUs .* no PC has that: 2 CPUs, 0 GPUs; 2 CPUs"):
        placement.slots(config, [PC(2, 0), PC(2, 0)])


def test_a_gpu_is_taken_where_there_is_one() -> None:
    config = flags.parse([])
    assert placement.gpus_per_trial(config, [PC(16, 0)]) == 0
    assert placement.gpus_per_trial(config, [PC(4, 0), PC(16, 2)]) == 1
    assert placement.slots(config, [PC(16, 2)]) == 2


def test_the_resources_of_a_trial_are_one_bundle() -> None:
    config = flags.parse(["--cpus-per-trial", "2"])
    assert placement.of_trial(config, [PC(16, 2)]).bundles == [{"CPU": 2, "GPU": 1}]
    assert placement.of_trial(config, [PC(16, 0)]).bundles == [{"CPU": 2}]
