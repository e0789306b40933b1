# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.tensorflow.MirroredStrategyRunner with the real TensorFlow."""

from __future__ import annotations

import ast

import pytest

TRAIN = """
def train(steps=30):
    import numpy as np, tensorflow as tf
    strategy = tf.distribute.get_strategy()
    x = np.linspace(-1, 1, 32, dtype='float32').reshape(-1, 1)
    data = tf.data.Dataset.from_tensor_slices((x, 3 * x + 1)).batch(32).repeat()
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    batches = iter(strategy.experimental_distribute_dataset(data.with_options(options)))
    weights = [tf.Variable([[0.0]], aggregation=tf.VariableAggregation.SUM), tf.Variable([0.0], aggregation=tf.VariableAggregation.SUM)]

    def part(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ weights[0] + weights[1] - y) ** 2) / 32
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.1 * gradient)
        return loss

    @tf.function
    def step(batch):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(part, args=batch), axis=None)

    for _ in range(steps):
        loss = step(next(batches))
    return strategy.num_replicas_in_sync, [float(weight.numpy().ravel()[0]) for weight in weights], float(loss)
"""
ALONE = """
import numpy as np
x = np.linspace(-1, 1, 32)
w = b = 0.0
for _ in range(30):
    error = w * x + b - (3 * x + 1)
    w, b = w - 0.1 * 2 * (error * x).mean(), b - 0.1 * 2 * error.mean()
"""


@pytest.fixture
def runner(nb):
    nb.ok("from cellspan.tensorflow import MirroredStrategyRunner\n" + TRAIN)
    return nb


def test_a_custom_loop_trains_as_one_process_does(runner):
    replicas, weights, loss = ast.literal_eval(runner.ok("MirroredStrategyRunner(num_slots=2, use_gpu=False).run(train)", limit=240).value)
    runner.ok(ALONE)
    alone = ast.literal_eval(runner.ok("float(w), float(b)").value)
    assert replicas == 2 and weights == pytest.approx(alone, abs=1e-4) and loss < 1.0
    assert runner.ok("'tensorflow' in __import__('sys').modules").value == "False"


def test_the_second_run_and_a_strategy_of_the_functions_own(runner):
    runner.ok("def own():\n    import tensorflow as tf\n    with tf.distribute.MultiWorkerMirroredStrategy().scope():\n        return train(3)")
    for _ in range(2):
        said = runner.ok("MirroredStrategyRunner(num_slots=2, use_gpu=False, use_custom_strategy=True).run(own)", limit=240).value
        assert ast.literal_eval(said)[0] == 2


def test_local_mode_and_an_error_leave_home_alive(runner):
    assert ast.literal_eval(runner.ok("MirroredStrategyRunner(num_slots=1, local_mode=True, use_gpu=False).run(train)", limit=240).value)[0] == 1
    runner.ok("def bad():\n    import tensorflow as tf\n    tf.constant([1.0]) @ tf.constant(['x'])")
    assert runner.run("MirroredStrategyRunner(num_slots=2, use_gpu=False).run(bad)", limit=240).status == "error"
    assert runner.ok("1 + 1").value == "2"
