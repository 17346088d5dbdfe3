"""Traces written as ONNX graphs, array by array, with a free batch axis in front.

jax2onnx 0.17 mistakes the batch axis of a ray map's concatenations and refuses splines; the traces that C is written
from need some forty operations, so they are written directly. Numbers are double between the actor and the action.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

from cvflows.constraints.writing import CALLS, MOVES, UnwritableError, Writer, dtype_of
from cvflows.errors import MissingExtraError

SIMPLE = {
    "add": "Add",
    "add_any": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "neg": "Neg",
    "abs": "Abs",
    "max": "Max",
    "min": "Min",
    "sign": "Sign",
    "floor": "Floor",
    "ceil": "Ceil",
    "sqrt": "Sqrt",
    "exp": "Exp",
    "log": "Log",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "tanh": "Tanh",
    "erf": "Erf",
    "logistic": "Sigmoid",
    "pow": "Pow",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "eq": "Equal",
    "le_to": "LessOrEqual",
    "and": "And",
    "or": "Or",
    "not": "Not",
    "xor": "Xor",
}
REDUCTIONS = {
    "reduce_sum": "ReduceSum",
    "reduce_prod": "ReduceProd",
    "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin",
}
SINGLE = {"Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh"}
"""Operations that onnxruntime has for single precision only, or may have."""
SAME = {"copy", "copy_p", "stop_gradient"}
TYPES = {"f": np.dtype(np.float64), "i": np.dtype(np.int64), "u": np.dtype(np.int64), "b": np.dtype(bool)}


class Tensor(NamedTuple):
    """An array of the graph: its shape without the batch axis, and its dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype


Value = Tensor | np.ndarray
"""Of the graph, or constant."""


class Graph:
    """Nodes and constants; every tensor has the batch axis first."""

    def __init__(self, batch_of: str) -> None:
        self.onnx = _library()
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._names: dict[Hashable, str] = {}
        self._sources: dict[str, tuple[str, tuple[int, ...]]] = {}  # what was reshaped, so that it is once only
        self._batch_of, self._rows = batch_of, ""

    def node(self, operation: str, *inputs: str, **attributes: object) -> str:
        """The name of a node's output; what is computed twice is written once."""
        key = (operation, inputs, tuple(sorted(attributes.items())))
        if key not in self._names:
            self._names[key] = f"v{len(self.nodes)}"
            self.nodes.append(self.onnx.helper.make_node(operation, list(inputs), [self._names[key]], **attributes))
        return self._names[key]

    def constant(self, array: np.ndarray) -> str:
        """The name of a constant; equal ones share it."""
        whole = np.ascontiguousarray(array).reshape(array.shape)
        key = (whole.dtype.str, whole.shape, whole.tobytes())
        if key not in self._names:
            self._names[key] = f"c{len(self.constants)}"
            self.constants.append(self.onnx.numpy_helper.from_array(whole, self._names[key]))
        return self._names[key]

    def whole(self, *values: int) -> str:
        """A constant of whole numbers."""
        return self.constant(np.array(values, np.int64))

    def name_of(self, value: Value) -> str:
        """A value's name; a constant broadcasts against the batch."""
        return value.name if isinstance(value, Tensor) else self.constant(as_wide(value))

    def batched(self, value: Value) -> Tensor:
        """A value with the batch axis, repeated along it where it is constant."""
        if isinstance(value, Tensor):
            return value
        if not self._rows:
            self._rows = self.node("Slice", self.node("Shape", self._batch_of), self.whole(0), self.whole(1))
        wide = as_wide(value)
        shape = self.node("Concat", self._rows, self.whole(*wide.shape), axis=0) if wide.ndim else self._rows
        return Tensor(self.node("Expand", self.constant(wide[None]), shape), wide.shape, wide.dtype)

    def shaped(self, value: Tensor, shape: Sequence[int]) -> Tensor:
        """The same elements in another shape."""
        if tuple(shape) == value.shape:
            return value
        source, source_shape = self._sources.get(value.name, (value.name, value.shape))
        if source_shape == tuple(shape):
            return Tensor(source, source_shape, value.dtype)
        name = self.node("Reshape", source, self.whole(-1, *shape))
        self._sources[name] = source, source_shape
        return Tensor(name, tuple(shape), value.dtype)

    # ------------------------------------------------------------------ traces

    def run(self, jaxpr: Jaxpr, consts: Sequence[np.ndarray], arguments: Sequence[Value]) -> list[Value]:
        """The values of a trace's outputs."""
        known: dict[Any, Value] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))

        def read(variable: Var | Literal) -> Value:
            return np.asarray(variable.val) if isinstance(variable, Literal) else known[variable]

        wanted = {id(variable) for variable in jaxpr.outvars}
        kept = []
        for equation in reversed(jaxpr.eqns):
            if any(id(variable) in wanted for variable in equation.outvars):
                wanted |= {id(variable) for variable in equation.invars}
                kept.append(equation)
        for equation in reversed(kept):
            outputs = self.apply(equation, [read(variable) for variable in equation.invars])
            known.update(zip(equation.outvars, outputs, strict=True))
        return [read(variable) for variable in jaxpr.outvars]

    def apply(self, equation: JaxprEqn, inputs: list[Value]) -> list[Value]:
        """The outputs of one operation."""
        name, parameters = equation.primitive.name, equation.params
        if name in CALLS:
            inner: Any = parameters.get("jaxpr") or parameters.get("call_jaxpr")
            return self.run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs)
        if not any(isinstance(value, Tensor) for value in inputs):
            found = equation.primitive.bind(*map(jnp.asarray, inputs), **parameters)
            return [np.asarray(array) for array in (found if equation.primitive.multiple_results else [found])]
        if name == "scan":
            return self._unrolled(parameters, inputs)
        if name == "dynamic_slice" and any(isinstance(value, Tensor) for value in inputs[1:]):
            return [self._taken(inputs, parameters["slice_sizes"])]
        shape, dtype = tuple(equation.outvars[0].aval.shape), TYPES[dtype_of(equation.outvars[0]).kind]  # type: ignore[attr-defined]
        if name in ("reshape", "squeeze", "expand_dims") and isinstance(inputs[0], Tensor):
            return [self.shaped(inputs[0], shape)]
        if name == "broadcast_in_dim" and isinstance(inputs[0], Tensor):
            return [self._repeated(inputs[0], shape, list(map(int, parameters["broadcast_dimensions"])))]
        if name == "concatenate":
            parts = [self.batched(value).name for value in inputs]
            return [Tensor(self.node("Concat", *parts, axis=parameters["dimension"] + 1), shape, dtype)]
        if name in MOVES:
            return list(self._moved(equation, inputs))
        return [Tensor(self._computed(name, parameters, inputs, dtype), shape, dtype)]

    def _computed(self, name: str, parameters: Any, inputs: list[Value], dtype: np.dtype) -> str:
        if name == "dot_general":
            return self._product(inputs, parameters["dimension_numbers"])
        rank = max(len(value.shape) for value in inputs)
        names = [self.name_of(self._ranked(value, rank)) for value in inputs]
        if name in SAME:
            return names[0]
        if name in SIMPLE:
            return self._simple(SIMPLE[name], names)
        if name in REDUCTIONS:
            axes = self.whole(*(int(axis) + 1 for axis in parameters["axes"]))
            return self.node(REDUCTIONS[name], names[0], axes, keepdims=0)
        match name:
            case "ne":
                return self.node("Not", self.node("Equal", *names))
            case "square":
                return self.node("Mul", names[0], names[0])
            case "rsqrt":
                return self.node("Reciprocal", self.node("Sqrt", names[0]))
            case "integer_pow" if parameters["y"] == 2:
                return self.node("Mul", names[0], names[0])
            case "integer_pow":
                return self.node("Pow", names[0], self.constant(np.array(float(parameters["y"]))))
            case "expm1":
                return self.node("Sub", self.node("Exp", names[0]), self.constant(np.array(1.0)))
            case "log1p":
                return self.node("Log", self.node("Add", names[0], self.constant(np.array(1.0))))
            case "clamp":
                return self.node("Min", self.node("Max", names[1], names[0]), names[2])
            case "select_n" if len(names) == 3:
                return self.node("Where", names[0], names[2], names[1])
            case "convert_element_type":
                return self.node("Cast", names[0], to=self.onnx.helper.np_dtype_to_tensor_dtype(dtype))
            case "cumsum":
                return self.node(
                    "CumSum", names[0], self.whole(parameters["axis"] + 1), reverse=int(parameters["reverse"])
                )
        raise UnwritableError(f"{name} has no form in ONNX here")

    def _ranked(self, value: Value, rank: int) -> Value:
        """A single number of each sample, with the axes of the arrays that it meets."""
        return self.shaped(value, (1,) * rank) if isinstance(value, Tensor) and not value.shape else value

    def _simple(self, operation: str, names: Sequence[str]) -> str:
        if operation not in SINGLE:
            return self.node(operation, *names)
        single = [self.node("Cast", name, to=self.onnx.TensorProto.FLOAT) for name in names]
        return self.node("Cast", self.node(operation, *single), to=self.onnx.TensorProto.DOUBLE)

    def _repeated(self, value: Tensor, shape: tuple[int, ...], dimensions: Sequence[int]) -> Tensor:
        inner = [1] * len(shape)
        for size, place in zip(value.shape, dimensions, strict=True):
            inner[place] = size
        found = self.shaped(value, inner)
        if tuple(inner) == shape:
            return found
        return Tensor(self.node("Expand", found.name, self.whole(1, *shape)), shape, value.dtype)

    def _moved(self, equation: JaxprEqn, inputs: list[Value]) -> list[Tensor]:
        """Elements of all inputs side by side, and where each output element comes from among them."""
        labels, flat, start = [], [], 0
        for value in inputs:
            if not isinstance(value, Tensor) and value.dtype.kind in "iu":  # an index
                labels.append(value)
                continue
            size = int(np.prod(value.shape))
            labels.append(np.array([str(start + i) for i in range(size)], object).reshape(value.shape))
            flat.append(self.shaped(self.batched(value), (size,)))
            start += size
        pool = flat[0].name if len(flat) == 1 else self.node("Concat", *(one.name for one in flat), axis=1)
        outputs = []
        for places in Writer().moved(equation, labels):
            chosen = np.array([int(label) for label in places.ravel().tolist()], np.int64)
            taken = Tensor(self.node("Gather", pool, self.constant(chosen), axis=1), (chosen.size,), flat[0].dtype)
            outputs.append(self.shaped(taken, places.shape))
        return outputs

    def _taken(self, inputs: list[Value], sizes: tuple[int, ...]) -> Tensor:
        """One entry of a vector, at a computed place that is brought into range."""
        value, place = self.batched(inputs[0]), inputs[1]
        if len(value.shape) != 1 or sizes != (1,) or not isinstance(place, Tensor):
            raise UnwritableError("a computed index of more than one axis has no form in ONNX here")
        most = self.node("Min", self.node("Max", place.name, self.whole(0)), self.whole(value.shape[0] - 1))
        index = self.node("Reshape", most, self.whole(-1, 1))
        return Tensor(self.node("GatherElements", value.name, index, axis=1), (1,), value.dtype)

    def _product(self, inputs: list[Value], numbers: Any) -> str:
        (left_axes, right_axes), (batch, _) = numbers
        left, right = inputs
        if not batch and len(left_axes) == 1 and isinstance(left, Tensor) != isinstance(right, Tensor):
            table, axis, vector = (
                (right, right_axes[0], left) if isinstance(left, Tensor) else (left, left_axes[0], right)
            )
            if (
                isinstance(vector, Tensor)
                and not isinstance(table, Tensor)
                and len(vector.shape) == 1
                and table.ndim <= 2
            ):
                wide = np.moveaxis(as_wide(table), axis, 0)
                found = self.node("MatMul", vector.name, self.constant(wide.reshape(len(wide), -1)))
                return self.node("Reshape", found, self.whole(-1)) if table.ndim == 1 else found
        if not batch and len(left.shape) == len(right.shape) == 1:
            both = self.node("Mul", self.name_of(left), self.name_of(right))
            return self.node("ReduceSum", both, self.whole(1), keepdims=0)
        raise UnwritableError("a product of these shapes has no form in ONNX here")

    def _unrolled(self, parameters: Any, inputs: list[Value]) -> list[Value]:
        inner, fixed, carried = parameters["jaxpr"], parameters["num_consts"], parameters["num_carry"]
        carry, rest = inputs[fixed : fixed + carried], inputs[fixed + carried :]
        turns = list(range(parameters["length"]))
        collected: list[list[Value]] = []
        for turn in reversed(turns) if parameters["reverse"] else turns:
            found = self.run(
                inner.jaxpr, inner.consts, [*inputs[:fixed], *carry, *(self._at(one, turn) for one in rest)]
            )
            carry = found[:carried]
            collected.append(found[carried:])
        if parameters["reverse"]:
            collected.reverse()
        stacked: list[Value] = []
        for values in zip(*collected, strict=True):
            parts = [self.shaped(self.batched(value), (1, *value.shape)) for value in values]
            name = self.node("Concat", *(part.name for part in parts), axis=1)
            stacked.append(Tensor(name, (len(parts), *parts[0].shape[1:]), parts[0].dtype))
        return [*carry, *stacked]

    def _at(self, value: Value, index: int) -> Value:
        if not isinstance(value, Tensor):
            return np.asarray(value[index])
        return Tensor(
            self.node("Gather", value.name, self.constant(np.array(index)), axis=1), value.shape[1:], value.dtype
        )


def _library() -> Any:
    try:
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise MissingExtraError("writing ONNX", "the package onnx", "export") from None
    return onnx


def as_wide(array: np.ndarray) -> np.ndarray:
    """A constant in the dtype that the graph uses for its kind."""
    return np.asarray(array).astype(TYPES[np.asarray(array).dtype.kind])
