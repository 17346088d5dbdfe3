"""A policy as one ONNX file: observation → action, allowed. Normalisation, actor, map and check are inside.

`allowed` says of every action whether all rows, in double precision, are at most 1e-6. There is no fallback in it: what
to do with an action that is not allowed is the caller's, or `controller.c`'s and `cv.Controller`'s.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Array

from cvflows.constraints.base import all_rows
from cvflows.constraints.precision import double_precision, trace_in_double
from cvflows.constraints.writing import UnwritableError
from cvflows.controllers.building import policy_of, reader
from cvflows.controllers.onnx_graph import Graph, Tensor, Value, as_wide
from cvflows.controllers.plan import NORM_EPSILON, TOLERANCE, Network, Plan, number
from cvflows.errors import ExportError
from cvflows.runs.train import Trainer

OPSET = 18
DOUBLE = np.dtype(np.float64)


def write_onnx(plan: Plan, trainer: Trainer) -> bytes:
    """The file of a plan's policy; an error that says why where an operation has no form in ONNX."""
    o, d, constraint, read = plan.network.inputs, len(plan.fixed), trainer.task.constraint, reader(trainer.task)
    graph = Graph("observation")
    onnx = graph.onnx
    output = Tensor(_actor(graph, plan.network), (plan.network.outputs,), DOUBLE)
    seen = Tensor(graph.node("Cast", "observation", to=onnx.TensorProto.DOUBLE), (o,), DOUBLE)
    try:
        found = graph.batched(_traced(graph, policy_of(trainer.learner), output, seen))
        single = graph.node("Cast", found.name, to=onnx.TensorProto.FLOAT)
        ends = (graph.constant(np.array(end, np.float32)) for end in (-1, 1))
        graph.nodes.append(onnx.helper.make_node("Clip", [single, *ends], ["action"]))
        action = Tensor(graph.node("Cast", "action", to=onnx.TensorProto.DOUBLE), (d,), DOUBLE)
        rows = graph.batched(_traced(graph, lambda obs, a: all_rows(constraint, read(obs), a), seen, action))
    except (TypeError, UnwritableError) as error:
        raise ExportError(f"{plan.about['method']} on {plan.about['task']} has no ONNX form: {error}") from None
    within = graph.node("LessOrEqual", rows.name, graph.constant(np.array(TOLERANCE)))  # false where a row is NaN
    least = graph.node("ReduceMin", graph.node("Cast", within, to=onnx.TensorProto.INT32), graph.whole(1), keepdims=0)
    graph.nodes.append(onnx.helper.make_node("Cast", [least], ["allowed"], to=onnx.TensorProto.BOOL))
    return _model(graph, plan, o, d)


def _traced(graph: Graph, function: Callable[..., Array], *arguments: Tensor) -> Value:
    trace = trace_in_double(function, *(argument.shape[0] for argument in arguments))
    with double_precision():
        (found,) = graph.run(trace.jaxpr, trace.constants, arguments)
    return found


def _model(graph: Graph, plan: Plan, inputs: int, outputs: int) -> bytes:
    """The file, checked, with where it comes from among its properties."""
    onnx = graph.onnx
    info, single = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    given = [info("observation", single, ["batch", inputs])]
    results = [info("action", single, ["batch", outputs]), info("allowed", onnx.TensorProto.BOOL, ["batch"])]
    whole = onnx.helper.make_graph(graph.nodes, "controller", given, results, graph.constants)
    opset = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(whole, opset_imports=opset, producer_name="cvflows")
    model.ir_version = 10  # what an onnxruntime reads that is two years old
    about = {name: value if isinstance(value, str) else json.dumps(value) for name, value in plan.about.items()}
    limits = {name: json.dumps([number(end) for end in getattr(plan, name).tolist()]) for name in ("low", "high")}
    onnx.helper.set_model_props(model, {**about, **limits})
    onnx.checker.check_model(model)
    found: bytes = model.SerializeToString()
    return found


def _actor(graph: Graph, network: Network) -> str:
    """The network in single precision, its output in double."""
    x = graph.node("Sub", "observation", graph.constant(network.mean))
    x = graph.node("Mul", x, graph.constant(network.factor))
    if math.isfinite(network.clip):
        ends = (graph.constant(np.array(end, np.float32)) for end in (-network.clip, network.clip))
        x = graph.node("Clip", x, *ends)
    for index, layer in enumerate(network.layers):
        x = graph.node("Gemm", x, graph.constant(layer.weight), graph.constant(layer.bias))
        if layer.scale is not None and layer.shift is not None:
            norm = (graph.constant(layer.scale), graph.constant(layer.shift))
            x = graph.node("LayerNormalization", x, *norm, axis=-1, epsilon=NORM_EPSILON)
        if index < len(network.layers) - 1:
            x = _activated(graph, network.activation, x)
    wide = Tensor(graph.node("Cast", x, to=graph.onnx.TensorProto.DOUBLE), (len(network.layers[-1].bias),), DOUBLE)
    if not len(network.free):
        return wide.name
    return graph.node("Concat", wide.name, graph.batched(as_wide(network.free)).name, axis=1)


def _activated(graph: Graph, activation: str, x: str) -> str:
    if activation == "silu":
        return graph.node("Mul", x, graph.node("Sigmoid", x))
    return graph.node({"relu": "Relu", "tanh": "Tanh", "elu": "Elu"}[activation], x)
