# SPDX-License-Identifier: BSD-3-Clause
"""Hydra: a script with @hydra.main runs on ranks with overrides, and a cell composes a configuration."""

from __future__ import annotations

import ast
import os
import subprocess

import pytest
from client import by_rank

PYTHON = os.path.join(os.environ["CELLSPAN_TEST_PREFIX"], "bin", "python")
CONFIG = """
seed: 1
optimizer:
  lr: 0.1
  name: sgd
"""
SCRIPT = """
import os
import hydra, torch, torch.distributed as dist
from omegaconf import DictConfig
from hydra.core.hydra_config import HydraConfig

@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig) -> None:
    dist.init_process_group("gloo")
    total = torch.ones(1) * cfg.optimizer.lr
    dist.all_reduce(total)
    print("=", cfg.optimizer.name, cfg.seed, round(total.item(), 4), HydraConfig.get().job.name)
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
"""
COMPOSE = """
from hydra import compose, initialize_config_dir
with initialize_config_dir(version_base=None, config_dir=%r):
    cfg = compose(config_name="config", overrides=["optimizer.lr=0.25"])
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text(CONFIG)
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def said(text):
    return [[line for line in by_rank(text)[rank] if line.startswith("=")] for rank in range(2)]


@pytest.mark.limit(300)
def test_a_script_with_overrides_twice_and_from_the_shell(nb, jupyter_env, script, tmp_path):
    words = "%s optimizer.lr=0.5 seed=7 hydra.run.dir=%s/out" % (script, tmp_path)
    for options in ("-n 2", ""):
        cell = nb.ok("%%distribute %s %s" % (options, words), limit=120)
        assert said(cell.stdout) == [["= sgd 7 1.0 train"]] * 2, cell.shown
    assert (tmp_path / "out" / ".hydra" / "overrides.yaml").read_text().split() == ["-", "optimizer.lr=0.5", "-", "seed=7"]
    run = subprocess.run(["cellspan", "run", "--python", PYTHON, "-n", "2", *words.split()], env=jupyter_env, cwd=tmp_path, stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and said(run.stdout) == [["= sgd 7 1.0 train"]] * 2, run.stdout + run.stderr


@pytest.mark.limit(300)
def test_an_override_that_is_wrong_is_hydras_error(nb, script, tmp_path):
    cell = nb.run("%%distribute -n 2 %s optimiser.lr=0.5 hydra.run.dir=%s/out" % (script, tmp_path), 120)
    assert cell.status == "error" and "optimiser" in cell.shown, cell.shown


@pytest.mark.limit(300)
def test_a_configuration_composed_at_home_or_on_ranks(nb, script):
    composed = COMPOSE % str(script.parent / "conf")
    nb.ok(composed)
    for code in ("", composed, composed):
        cell = nb.ok("%%distribute -n 2 --gather\n" + code + "\ncfg.optimizer.lr, cfg.optimizer.name", limit=120)
        assert ast.literal_eval(cell.value) == [(0.25, "sgd")] * 2
