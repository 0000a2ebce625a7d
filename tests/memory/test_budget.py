"""Budgets as they are given, and what is free of a machine and of the control groups of a process."""

import pytest
import torch

from hires.interfaces import ConfigError
from hires.memory.budget import budget_bytes, check_budget, free_on_cpu
from hires.settings import SettingError

GIB = 2**30


@pytest.mark.parametrize(("said", "bytes_"), [("8GiB", 8 * 2**30), ("1.5 GiB", 3 * 2**29), ("512MiB", 2**29)])
def test_sizes(said, bytes_):
    check_budget(said)
    assert budget_bytes(said, "cuda") == bytes_


def test_a_fraction_of_what_is_free():
    free = free_on_cpu()
    assert 0 < budget_bytes(0.5, "cpu") < free
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="no CUDA device"):
            budget_bytes(0.5, "cuda")


@pytest.mark.parametrize("said", ["8GB", "8", "much", 0.0, 1.5, -1.0, True])
def test_wrong_budgets(said):
    with pytest.raises(SettingError):
        check_budget(said)


def machine(folder, available, group="/", **groups):
    """Files of a system: the group of the process, and (limit, used, idle pages of files) by group, in bytes."""
    texts = {"proc/self/cgroup": f"1:name=systemd:/other\n0::{group}\n"}
    texts["proc/meminfo"] = f"MemTotal: 1 kB\nMemAvailable:   {available // 1024} kB\n"
    for name, (limit, used, idle) in groups.items():
        inside = f"sys/fs/cgroup/{name.replace('_', '/')}"
        texts[f"{inside}/memory.max"] = f"{limit}\n"
        texts[f"{inside}/memory.current"] = f"{used}\n"
        texts[f"{inside}/memory.stat"] = f"anon 1\ninactive_file {idle}\nfile 3\n"
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_the_machine_has_less_than_the_group(tmp_path):
    assert free_on_cpu(machine(tmp_path, 3 * GIB, "/job", job=(8 * GIB, GIB, 0))) == 3 * GIB


def test_the_group_has_less_than_the_machine(tmp_path):
    assert free_on_cpu(machine(tmp_path, 64 * GIB, "/job", job=(8 * GIB, GIB, 0))) == 7 * GIB


def test_pages_of_files_that_nobody_uses_are_free(tmp_path):
    assert free_on_cpu(machine(tmp_path, 64 * GIB, "/job", job=(8 * GIB, 7 * GIB, 5 * GIB))) == 6 * GIB


def test_a_group_around_that_of_the_process_has_least(tmp_path):
    groups = {"job": (4 * GIB, GIB, 0), "job_step": ("max", GIB, 0), "other": (GIB, GIB, 0)}
    assert free_on_cpu(machine(tmp_path, 64 * GIB, "/job/step", **groups)) == 3 * GIB


def test_the_root_is_that_of_a_container(tmp_path):
    groups = machine(tmp_path, 64 * GIB, "/", job=(GIB, 0, 0))
    for name in ("memory.max", "memory.current"):
        (tmp_path / "sys/fs/cgroup" / name).write_text(f"{2 * GIB if 'max' in name else GIB}\n")
    assert free_on_cpu(groups) == GIB


def test_a_system_that_does_not_tell(tmp_path):
    with pytest.raises(ConfigError, match="give a size"):
        free_on_cpu(tmp_path)
