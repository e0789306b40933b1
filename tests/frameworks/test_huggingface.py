# SPDX-License-Identifier: BSD-3-Clause
"""Accelerate, Transformers' Trainer and PEFT train on ranks as under torchrun. Models are made from a configuration: nothing is downloaded."""

from __future__ import annotations

import ast

import pytest

ACCELERATE = """
import torch
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
data = torch.utils.data.DataLoader(torch.arange(16.0).reshape(16, 1) / 16, batch_size=2)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
steps = 0
for x in data:
    loss = (model(x) - x).pow(2).mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    steps += 1
accelerator.num_processes, steps, round(accelerator.unwrap_model(model).weight.item(), 5)
"""
TRAINER = """
import torch, logging, transformers
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
transformers.logging.set_verbosity_error()
config = BertConfig(vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_position_embeddings=16)
torch.manual_seed(0)
model = BertForSequenceClassification(config)
data = [{"input_ids": torch.randint(0, 64, (8,)), "labels": torch.tensor(k %% 2)} for k in range(16)]
arguments = TrainingArguments(output_dir=%r, per_device_train_batch_size=2, max_steps=4, report_to=[], use_cpu=True, save_strategy="no",
                              logging_strategy="no", disable_tqdm=True)
trainer = Trainer(model=model, args=arguments, train_dataset=data)
trainer.train()
arguments.world_size, trainer.state.global_step, round(sum(p.sum().item() for p in model.parameters()), 3)
"""
LORA = """
from peft import LoraConfig, get_peft_model
torch.manual_seed(0)
lora = get_peft_model(BertForSequenceClassification(config), LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"]))
trainer = Trainer(model=lora, args=arguments, train_dataset=data)
trainer.train()
trainable, every = lora.get_nb_trainable_parameters()
trainer.state.global_step, trainable < every, round(sum(p.sum().item() for p in lora.parameters() if p.requires_grad), 4)
"""
INTO_HOME = """
weights = {name: tensor for name, tensor in lora.state_dict().items() if "lora_" in name}
len(weights)
"""


MADE_AT_HOME = TRAINER + """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
net = torch.nn.Linear(1, 1)
loader = torch.utils.data.DataLoader(torch.arange(8.0).reshape(8, 1), batch_size=2)
net, optimizer, loader, schedule = accelerator.prepare(
    net, torch.optim.SGD(net.parameters(), 0.1), loader, torch.optim.lr_scheduler.ConstantLR(torch.optim.SGD(net.parameters(), 0.1)))
state = accelerator.state
"""
TRAINED = """
trainer = Trainer(model=model, args=arguments, train_dataset=data)
trainer.train()
type(trainer.model_wrapped).__name__, arguments.process_index, arguments.world_size, round(sum(p.sum().item() for p in model.parameters()), 3)
"""


def of_ranks(nb, code, options="", limit=180):
    return ast.literal_eval(nb.ok("%%%%distribute %s --gather\n%s" % (options, code), limit=limit).value)


@pytest.mark.limit(400)
def test_accelerate_trains_on_all_ranks_also_after_the_world_changed(nb):
    alone = {}
    for options, world in (("-n 1", 1), ("-n 2", 2), ("-n 3", 3), ("-n 2", 2), ("--fresh -n 2", 2)):
        found = of_ranks(nb, ACCELERATE, options)
        assert [row[:2] for row in found] == [(world, -(-8 // world))] * world, found
        assert len({row[2] for row in found}) == 1, "all ranks have the same weights"
        alone.setdefault(world, found[0])
        assert alone[world] == found[0]


@pytest.mark.limit(400)
def test_a_cell_that_ends_training_is_run_again(nb):
    """As the examples of Accelerate end: accelerator.end_training() destroys the process group."""
    code, rows = ACCELERATE.splitlines(), {}
    cell = "\n".join([*code[:-1], "result = " + code[-1], "accelerator.end_training()", "(accelerator.is_main_process, *result)"])
    for options, world in (("--fresh -n 2", 2), ("-n 2", 2), ("-n 3", 3), ("-n 1", 1), ("-n 2", 2)):
        found = of_ranks(nb, cell, options)
        assert [row[:2] for row in found] == [(rank == 0, world) for rank in range(world)], found
        assert rows.setdefault(world, found) == found
    assert of_ranks(nb, "accelerator.is_main_process", "-n 2") == [True, False]
    found = of_ranks(nb, "from accelerate import PartialState\nstate = PartialState(cpu=True)\nstate.wait_for_everyone()\nstate.process_index", "-n 2")
    assert found == [0, 1]


@pytest.mark.limit(400)
def test_transformers_trainer_and_lora(nb, tmp_path):
    for options in ("--fresh -n 2", ""):
        found = of_ranks(nb, TRAINER % str(tmp_path), options)
        assert [row[:2] for row in found] == [(2, 4)] * 2 and found[0] == found[1], found
    found = of_ranks(nb, LORA)
    assert found[0] == found[1] and found[0][:2] == (4, True), found
    assert int(nb.ok("%%distribute\n" + INTO_HOME).value) > 0
    nb.ok("%pull weights -r 0")
    assert int(nb.ok("sum('lora_B' in name for name in weights)").value) == 2


@pytest.mark.limit(400)
def test_what_was_made_at_home_does_not_train_alone(nb, tmp_path):
    nb.ok("%ranks stop")
    nb.ok(MADE_AT_HOME % str(tmp_path), limit=180)
    for name in ("accelerator", "state", "optimizer", "loader", "schedule", "trainer"):
        told = nb.run("%%%%distribute -n 2\n%s" % name, limit=180).assert_error("CaptureError").error["evalue"]
        assert told.startswith(name + " was not sent: ") and told.endswith("make it in the distributed cell"), told
    (first, *_), (second, *_) = found = of_ranks(nb, TRAINED, "-n 2")
    assert first == second == "DistributedDataParallel" and found[0][2:] == found[1][2:], "also a model that home has trained"
    assert [row[1:3] for row in found] == [(0, 2), (1, 2)], "arguments find out where they are, although the Trainer is the first to ask"
    assert nb.ok("%%distribute -n 2 --gather\nimport cellspan\narguments.world_size, arguments.process_index == cellspan.rank()", limit=180).value == (
        "[(2, True), (2, True)]"
    )
    nb.ok("arguments.learning_rate = 0.5")
    assert nb.ok("%%distribute -n 2 --gather\narguments.learning_rate, arguments.world_size", limit=60).value == "[(0.5, 2), (0.5, 2)]", "no conflict"
    code = "import accelerate\nmine = accelerate.Accelerator(cpu=True)\ntype(mine.prepare(net)).__name__"
    assert of_ranks(nb, code, "-n 2") == ["DistributedDataParallel"] * 2, "what home has prepared is prepared again"
    nb.ok("%pull arguments -r 1")
    assert nb.ok("arguments.world_size, arguments.process_index").value == "(1, 0)"


FROM_STATE = "from accelerate import Accelerator, PartialState\nfrom accelerate.state import AcceleratorState\n"
AGAIN = "make the Accelerator again in this cell"
ERRORS = {  # the code that raises it: (the error, what is in its text, what our line says)
    "AcceleratorState()": ("ValueError", "properly initialize your accelerator via", AGAIN),
    "state = Accelerator(cpu=True).state\nAcceleratorState._reset_state()\nstate.num_processes": (
        "AttributeError", "`AcceleratorState` object has no attribute `num_processes`", AGAIN),
    "state = PartialState(cpu=True)\nPartialState._reset_state()\nstate.backend": (
        "AttributeError", "`PartialState` object has no attribute `backend`", AGAIN),
}  # fmt: skip
FORGET = FROM_STATE + "AcceleratorState._reset_state(reset_partial_state=True)"


@pytest.mark.limit(400)
def test_accelerates_own_errors_end_with_what_to_do(nb):
    """The rows of the table in _worker/torch_errors.py, with the errors that this version of Accelerate really raises. The table's
    other texts are tried in tests/unit/worker: those of torch and gloo with real errors, and NCCL's, which needs GPUs, as copies."""
    for code, (ename, says, line) in ERRORS.items():
        error = nb.run("%%distribute -n 2\n" + FORGET + "\n" + code, limit=180).assert_error(ename).error["evalue"]
        assert says in error and line in error, error
    nb.ok("%%distribute\n" + FORGET, limit=60)
    told = nb.run(FROM_STATE + "from accelerate import notebook_launcher\nmine = Accelerator(cpu=True)\nnotebook_launcher(print, (), num_processes=2)", limit=180)
    assert "should only be initialized inside your training function" in told.assert_error("ValueError").error["evalue"], told.shown
    assert "and call the function itself" in told.traceback.splitlines()[-1], told.traceback
    nb.ok(FORGET + "\ndel mine")
