"""Traced functions written as programs on plain doubles, for one sample at a time.

Calling a compiled JAX function costs tens of microseconds, whatever it computes; a few dozen operations on Python
floats cost two or three. So a trace, taken in float64, is written out element by element.

Only operations whose meaning on Python floats is JAX's are written, each for the dtypes listed here. Everything else
(casts, integers, single precision, loops, sorting, random numbers) and traces that are too long give None: JAX decides
then. Where Python raises an error and JAX would give NaN or infinity, such as 1/0, callers ask JAX too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var
from jaxtyping import Array

from cvflows.constraints.precision import double_precision, trace_in_double
from cvflows.constraints.programs import COMPARISONS, LOGIC, ON_FLOATS, Program, Step
from cvflows.errors import what

LONGEST = 2500
"""Operations beyond which a compiled function is as fast."""
FLOAT, BOOL = np.dtype(np.float64), np.dtype(bool)
SAME = {"copy", "copy_p", "stop_gradient"}
"""Operations that change nothing."""
REDUCTIONS = {
    "reduce_sum": "add",
    "reduce_prod": "mul",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
}
MOVES = {
    *("reshape", "broadcast_in_dim", "slice", "squeeze", "expand_dims", "transpose", "rev", "concatenate"),
    *("gather", "dynamic_slice", "split", "stack"),
}
ONE = "1.0"
CALLS = {"pjit", "jit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat"}


class UnwritableError(Exception):
    """An operation that has no form on plain floats."""


def write(function: Callable[..., Array], **sizes: int) -> Program | None:
    """A JAX function of vectors of these sizes, by their names, as a program; None where it cannot be written."""
    try:
        return write_out(function, **sizes)
    except UnwritableError:
        return None


def write_out(function: Callable[..., Array], *, longest: int = LONGEST, **sizes: int) -> Program:
    """The same, of at most `longest` steps; an error that says why it cannot be written."""
    names = [np.array([f"{name}[{i}]" for i in range(size)], object) for name, size in sizes.items()]
    writer = _Writer(longest)
    try:
        trace = trace_in_double(function, *sizes.values())
        with double_precision():
            (results,) = writer.run(trace.jaxpr, trace.constants, names)
        return Program(sizes, writer.steps, _written(results).ravel().tolist())
    except TypeError as error:  # a function that insists on single precision
        raise UnwritableError(f"it cannot be traced in double precision ({what(error)})") from None


Axes = tuple[int, ...]
DotDimensions = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]
"""Of both arguments: the axes that are summed over, the axes of a batch."""


class _Writer:
    """Turns a trace into steps; an array holds operands, or numbers where it is constant."""

    def __init__(self, longest: int) -> None:
        self.steps: list[Step] = []
        self._longest = longest
        self._names: dict[Step, str] = {}  # what is computed twice is written once

    def run(self, jaxpr: Jaxpr, consts: Sequence[np.ndarray], arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The operands of a trace's outputs."""
        known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*map(np.asarray, consts), *arguments), strict=True))

        def read(variable: Var | Literal) -> np.ndarray:
            return np.asarray(variable.val) if isinstance(variable, Literal) else known[variable]

        for equation in _needed(jaxpr):
            outputs = self._apply(equation, [read(variable) for variable in equation.invars])
            known.update(zip(equation.outvars, outputs, strict=True))
        return [read(variable) for variable in jaxpr.outvars]

    def _apply(self, equation: JaxprEqn, inputs: list[np.ndarray]) -> list[np.ndarray]:
        name, parameters = equation.primitive.name, equation.params
        if name in CALLS:
            inner = parameters.get("jaxpr") or parameters.get("call_jaxpr")
            if inner is None:
                raise UnwritableError(name)
            return self.run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs)
        if not any(array.dtype == object for array in inputs):
            found = equation.primitive.bind(*map(jnp.asarray, inputs), **parameters)
            return [np.asarray(array) for array in (found if equation.primitive.multiple_results else [found])]
        if name in MOVES:
            return _moved(equation, inputs)
        if name == "dot_general":  # which multiplies single by double precision; a constant is the same in both
            inputs = [array.astype(FLOAT) if array.dtype == np.float32 else array for array in inputs]
        pairs = zip(inputs, equation.invars, strict=True)
        taken = [FLOAT if array.dtype == FLOAT else _dtype(variable) for array, variable in pairs]
        (given,) = (_dtype(variable) for variable in equation.outvars) if len(equation.outvars) == 1 else (None,)
        operation = _operation(name, taken, given)
        written = [_written(array) for array in inputs]
        if name in REDUCTIONS:
            return [self._reduce(operation, written[0], parameters["axes"])]
        if name == "dot_general":
            return [self._contract(written[0], written[1], parameters["dimension_numbers"])]
        if name == "clamp":
            least, value, most = written
            return [self._each("min", [self._each("max", [least, value]), most])]
        if name == "integer_pow":
            written.append(np.array(str(parameters["y"]), object))
        return [self._each(operation, written)]

    def _each(self, operation: str, inputs: list[np.ndarray]) -> np.ndarray:
        inputs = list(np.broadcast_arrays(*inputs))
        if operation in SAME:
            return inputs[0]
        result = np.empty(inputs[0].shape, object)
        for index in np.ndindex(result.shape):
            result[index] = self._value(Step(operation, tuple(str(array[index]) for array in inputs)))
        return result

    def _value(self, step: Step) -> str:
        """The name of a step, or what it is the same as: x·1 and x/1 are x, whatever x is."""
        if step.operation == "mul" and ONE in step.inputs:
            return step.inputs[0] if step.inputs[1] == ONE else step.inputs[1]
        if step.operation == "div" and step.inputs[1] == ONE:
            return step.inputs[0]
        if step not in self._names:
            if len(self.steps) >= self._longest:
                raise UnwritableError(f"it takes more than {self._longest:,} operations")
            self._names[step] = f"t{len(self.steps)}"
            self.steps.append(step)
        return self._names[step]

    def _reduce(self, operation: str, array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        kept = [axis for axis in range(array.ndim) if axis not in axes]
        if not all(array.shape[axis] for axis in axes):
            raise UnwritableError("nothing to reduce")
        moved = array.transpose([*kept, *axes]).reshape(*(array.shape[axis] for axis in kept), -1)
        result = moved[..., :1].reshape(moved.shape[:-1])
        for index in range(1, moved.shape[-1]):
            result = self._each(operation, [result, moved[..., index : index + 1].reshape(result.shape)])
        return result

    def _contract(self, left: np.ndarray, right: np.ndarray, numbers: DotDimensions) -> np.ndarray:
        (left_axes, right_axes), (left_batch, _) = numbers
        if left_batch:
            raise UnwritableError("batched product")
        a = np.moveaxis(left, left_axes, range(-len(left_axes), 0))
        b = np.moveaxis(right, right_axes, range(-len(right_axes), 0))
        a_free, b_free = a.shape[: a.ndim - len(left_axes)], b.shape[: b.ndim - len(right_axes)]
        a, b = a.reshape(*a_free, *(1 for _ in b_free), -1), b.reshape(*(1 for _ in a_free), *b_free, -1)
        products = self._each("mul", [a, b])
        return self._reduce("add", products, (products.ndim - 1,))


def _needed(jaxpr: Jaxpr) -> list[JaxprEqn]:
    """The operations that a trace's outputs depend on: others need not be writable."""
    wanted = {id(variable) for variable in jaxpr.outvars}
    kept = []
    for equation in reversed(jaxpr.eqns):
        if any(id(variable) in wanted for variable in equation.outvars):
            wanted |= {id(variable) for variable in equation.invars}
            kept.append(equation)
    return kept[::-1]


def _dtype(variable: Var | Literal) -> np.dtype:
    dtype: np.dtype = getattr(variable.aval, "dtype")  # noqa: B009 - traces of arrays only
    return dtype


def _operation(name: str, taken: list[np.dtype], given: np.dtype | None) -> str:
    """The operation of a program that does this on these dtypes, or an error that says there is none."""
    kinds = (*taken, given)
    floats, truths = all(kind == FLOAT for kind in kinds), all(kind == BOOL for kind in kinds)
    name = "add" if name == "add_any" else name
    if name in REDUCTIONS and (truths if name in ("reduce_and", "reduce_or") else floats):
        return REDUCTIONS[name]
    if floats and (name in ON_FLOATS or name in SAME or name in ("integer_pow", "dot_general", "clamp")):
        return name
    if name in COMPARISONS and all(kind == FLOAT for kind in taken) and given == BOOL:
        return name
    if name in LOGIC and truths:
        return name
    if name == "select_n" and len(taken) == 3 and taken[0] == BOOL and taken[1] == taken[2] == given in (FLOAT, BOOL):
        return "select" if given == FLOAT else "select_truth"
    if name == "convert_element_type":
        if given == FLOAT and taken[0] == BOOL:
            return "number"
        if given == taken[0] and given in (FLOAT, BOOL):
            return "copy"
    raise UnwritableError(f"{name} on {', '.join(map(str, taken))} has no form on plain numbers")


def _moved(equation: JaxprEqn, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of an operation that only moves elements: run on their numbers, it says where they go."""
    fixed = 1 if equation.primitive.name in ("gather", "dynamic_slice") else len(inputs)
    if any(array.dtype == object for array in inputs[fixed:]):
        raise UnwritableError("an index that is computed")
    pool = np.concatenate([_written(array).ravel() for array in inputs[:fixed]])
    ends = np.cumsum([array.size for array in inputs[:fixed]])
    numbers = [
        jnp.arange(end - array.size, end, dtype=jnp.int32).reshape(array.shape)
        for array, end in zip(inputs[:fixed], ends, strict=True)
    ]
    rest = [jnp.asarray(array) for array in inputs[fixed:]]
    parameters = equation.params
    if parameters.get("fill_value") is not None:
        parameters = {**parameters, "fill_value": None}  # filled entries are out of range below
    result = equation.primitive.bind(*numbers, *rest, **parameters)
    results = [np.asarray(places) for places in (result if equation.primitive.multiple_results else [result])]
    if any((places < 0).any() or (places >= len(pool)).any() for places in results):
        raise UnwritableError("an entry that is filled in")
    return [pool[places.ravel()].reshape(places.shape) for places in results]


def _written(array: np.ndarray) -> np.ndarray:
    """An array of numbers as an array of literals; one of operands as it is."""
    if array.dtype == object:
        return array
    if array.dtype not in (FLOAT, BOOL):
        raise UnwritableError(f"a constant of {array.dtype}")
    literals = np.empty(array.shape, object)
    for index in np.ndindex(array.shape):
        literals[index] = repr(array[index].item())
    return literals
