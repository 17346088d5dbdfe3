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
    *("gather", "dynamic_slice", "split", "stack", "pad", "scatter"),
}
INDICES = {"gather": slice(1, 2), "dynamic_slice": slice(1, None), "scatter": slice(1, 2)}
"""Which inputs of a move say where to."""
ONE = "1.0"
CALLS = {"pjit", "jit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat"}


class UnwritableError(Exception):
    """An operation that has no form on plain floats."""


def write(function: Callable[..., Array], **sizes: int) -> Program | None:
    """A JAX function of vectors of these sizes, by their names, as a program; None where it cannot be written."""
    try:
        return write_out(function, Writer(), **sizes)
    except UnwritableError:
        return None


def write_out(function: Callable[..., Array], writer: Writer, **sizes: int) -> Program:
    """The same, by a new writer, or an error that says why it cannot be written."""
    names = [np.array([f"{name}[{i}]" for i in range(size)], object) for name, size in sizes.items()]
    try:
        trace = trace_in_double(function, *sizes.values())
        with double_precision():
            (results,) = writer.run(trace.jaxpr, trace.constants, names)
        return Program(sizes, writer.steps, writer.written(results).ravel().tolist(), writer.tables)
    except TypeError as error:  # a function that insists on single precision
        raise UnwritableError(f"it cannot be traced in double precision ({what(error)})") from None


Axes = tuple[int, ...]
DotDimensions = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]
"""Of both arguments: the axes that are summed over, the axes of a batch."""


class Writer:
    """Turns a trace into at most `longest` steps; an array holds operands, or numbers where it is constant."""

    def __init__(self, longest: int = LONGEST) -> None:
        self.steps: list[Step] = []
        self.tables: list[np.ndarray] = []
        self._longest = longest
        self._names: dict[Step, str] = {}  # what is computed twice is written once

    def run(self, jaxpr: Jaxpr, consts: Sequence[np.ndarray], arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The operands of a trace's outputs."""
        known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*map(np.asarray, consts), *arguments), strict=True))

        def read(variable: Var | Literal) -> np.ndarray:
            return np.asarray(variable.val) if isinstance(variable, Literal) else known[variable]

        for equation in _needed(jaxpr):
            outputs = self.apply(equation, [read(variable) for variable in equation.invars])
            known.update(zip(equation.outvars, outputs, strict=True))
        return [read(variable) for variable in jaxpr.outvars]

    def apply(self, equation: JaxprEqn, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """The operands of one operation's outputs."""
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
            return self.moved(equation, inputs)
        if name == "select_n" and inputs[0].dtype == BOOL and len(inputs) == 3:  # it is known which
            return [np.where(inputs[0], self.written(inputs[2]), self.written(inputs[1]))]
        if name == "dot_general":  # which multiplies single by double precision; a constant is the same in both
            inputs = [array.astype(FLOAT) if array.dtype == np.float32 else array for array in inputs]
        pairs = zip(inputs, equation.invars, strict=True)
        taken = [self.kind(FLOAT if array.dtype == FLOAT else dtype_of(variable)) for array, variable in pairs]
        (given,) = (dtype_of(variable) for variable in equation.outvars) if len(equation.outvars) == 1 else (None,)
        operation = _operation(name, taken, None if given is None else self.kind(given))
        if name == "dot_general":
            return [self.contract(inputs[0], inputs[1], parameters["dimension_numbers"])]
        written = [self.written(array) for array in inputs]
        if name in REDUCTIONS:
            return [self.reduce(operation, written[0], list(map(int, parameters["axes"])))]
        if name == "clamp":
            least, value, most = written
            return [self.each("min", [self.each("max", [least, value]), most])]
        if name == "integer_pow":
            written.append(np.array(str(parameters["y"]), object))
        return [self.each(operation, written)]

    def each(self, operation: str, inputs: list[np.ndarray]) -> np.ndarray:
        """An operation on every element of arrays that broadcast."""
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
            self._names[step] = self.add(step)
        return self._names[step]

    def add(self, step: Step) -> str:
        """A new step's name."""
        self.steps.append(step)
        return f"t{len(self.steps) - 1}"

    def reduce(self, operation: str, array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        """An operation between all elements along axes, from the first on."""
        kept = [axis for axis in range(array.ndim) if axis not in axes]
        if not all(array.shape[axis] for axis in axes):
            raise UnwritableError("nothing to reduce")
        moved = array.transpose([*kept, *axes]).reshape(*(array.shape[axis] for axis in kept), -1)
        result = moved[..., :1].reshape(moved.shape[:-1])
        for index in range(1, moved.shape[-1]):
            result = self.each(operation, [result, moved[..., index : index + 1].reshape(result.shape)])
        return result

    def contract(self, left: np.ndarray, right: np.ndarray, numbers: DotDimensions) -> np.ndarray:
        """A product of two arrays that is summed over axes of both."""
        (left_axes, right_axes), (left_batch, _) = numbers
        if left_batch:
            raise UnwritableError("batched product")
        a = np.moveaxis(left, left_axes, range(-len(left_axes), 0))
        b = np.moveaxis(right, right_axes, range(-len(right_axes), 0))
        a_free, b_free = a.shape[: a.ndim - len(left_axes)], b.shape[: b.ndim - len(right_axes)]
        a, b = a.reshape(*a_free, *(1 for _ in b_free), -1), b.reshape(*(1 for _ in a_free), *b_free, -1)
        products = self.each("mul", [self.written(a), self.written(b)])
        return self.reduce("add", products, (products.ndim - 1,))

    def moved(self, equation: JaxprEqn, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """The outputs of an operation that only moves elements: run on their numbers, it says where they go."""
        indices = INDICES.get(equation.primitive.name, slice(0))
        if any(array.dtype == object for array in inputs[indices]):
            raise UnwritableError("an index that is computed")
        known = range(len(inputs))[indices]
        moving = [array for index, array in enumerate(inputs) if index not in known]
        pool = np.concatenate([self.written(array).ravel() for array in moving])
        numbers = iter(np.split(np.arange(len(pool), dtype=np.int32), np.cumsum([array.size for array in moving])))
        given = [
            jnp.asarray(array if index in known else next(numbers).reshape(array.shape))
            for index, array in enumerate(inputs)
        ]
        parameters = equation.params
        if parameters.get("fill_value") is not None:
            parameters = {**parameters, "fill_value": None}  # filled entries are out of range below
        result = equation.primitive.bind(*given, **parameters)
        results = [np.asarray(places) for places in (result if equation.primitive.multiple_results else [result])]
        if any((places < 0).any() or (places >= len(pool)).any() for places in results):
            raise UnwritableError("an entry that is filled in")
        return [pool[places.ravel()].reshape(places.shape) for places in results]

    def written(self, array: np.ndarray) -> np.ndarray:
        """An array of numbers as an array of literals; one of operands as it is."""
        if array.dtype == object:
            return array
        if array.dtype not in (FLOAT, BOOL):
            raise UnwritableError(f"a constant of {array.dtype}")
        literals = np.empty(array.shape, object)
        for index in np.ndindex(array.shape):
            literals[index] = repr(array[index].item())
        return literals

    def kind(self, dtype: np.dtype) -> np.dtype:
        """The dtype that numbers of this one are written as."""
        return dtype


def _needed(jaxpr: Jaxpr) -> list[JaxprEqn]:
    """The operations that a trace's outputs depend on: others need not be writable."""
    wanted = {id(variable) for variable in jaxpr.outvars}
    kept = []
    for equation in reversed(jaxpr.eqns):
        if any(id(variable) in wanted for variable in equation.outvars):
            wanted |= {id(variable) for variable in equation.invars}
            kept.append(equation)
    return kept[::-1]


def dtype_of(variable: Var | Literal) -> np.dtype:
    """That of a variable of a trace."""
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
