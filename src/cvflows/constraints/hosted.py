"""A constraint's rows as plain Python on floats, for one action at a time.

Calling a compiled JAX function costs tens of microseconds, whatever it computes; a few dozen operations on Python
floats cost two or three. So the trace of `rows` is written out, element by element, as Python source. Operations that
cannot be written so (loops, sorting, random numbers), or a trace that is too long, give None, and callers use JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from cvflows.constraints.base import AbstractConstraint, all_rows


class Hosted(NamedTuple):
    """Functions of a context and an action, both sequences of floats."""

    rows: Callable[[Sequence[float], Sequence[float]], list[float]]
    """Every row, the action box's among them."""
    inside: Callable[[Sequence[float], Sequence[float]], bool]
    """Whether every row is ≤ 0; never true where one is NaN."""


LONGEST = 1000
"""Operations beyond which a compiled function is as fast."""

# A NaN must survive: of two numbers that compare as neither, the first is kept.
ELEMENTWISE = {
    "add": "{0} + {1}",
    "add_any": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "abs": "abs({0})",
    "max": "{1} if {0} < {1} or {1} != {1} else {0}",
    "min": "{1} if {0} > {1} or {1} != {1} else {0}",
    "sign": "({0} > 0) - ({0} < 0) if {0} == {0} else {0}",
    "square": "{0} * {0}",
    "sqrt": "sqrt({0})",
    "rsqrt": "1 / sqrt({0})",
    "exp": "exp({0})",
    "log": "log({0})",
    "log1p": "log1p({0})",
    "sin": "sin({0})",
    "cos": "cos({0})",
    "tan": "tan({0})",
    "tanh": "tanh({0})",
    "logistic": "1 / (1 + exp(-{0}))",
    "atan2": "atan2({0}, {1})",
    "pow": "{0} ** {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "and": "{0} and {1}",
    "or": "{0} or {1}",
    "not": "not {0}",
    "clamp": "min(max({1}, {0}), {2})",
    "convert_element_type": "{0}",
    "copy": "{0}",
    "copy_p": "{0}",
    "stop_gradient": "{0}",
}
REDUCTIONS = {"reduce_sum": "add", "reduce_max": "max", "reduce_min": "min", "reduce_and": "and", "reduce_or": "or"}
MOVES = {
    *("reshape", "broadcast_in_dim", "slice", "squeeze", "expand_dims", "transpose", "rev", "concatenate"),
    *("gather", "dynamic_slice", "split", "stack"),
}
CALLS = {"pjit", "jit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat"}


class _UnwritableError(Exception):
    """An operation that has no form on plain floats."""


@lru_cache
def hosted(constraint: AbstractConstraint) -> Hosted | None:
    """The rows of a constraint in Python; None where they cannot be written."""
    x, a = jnp.zeros(constraint.context_dim), jnp.zeros(constraint.action_dim)
    closed = jax.make_jaxpr(lambda x, a: all_rows(constraint, x, a))(x, a)
    writer = _Writer()
    names = [np.array([f"{name}[{i}]" for i in range(len(value))], object) for name, value in (("x", x), ("a", a))]
    try:
        (rows,) = writer.run(closed.jaxpr, closed.consts, names)
    except _UnwritableError:
        return None
    results = _written(rows).ravel()
    endings = {"rows": f"[{', '.join(results)}]", "inside": " and ".join(f"{row} <= 0" for row in results)}
    scope: dict[str, Any] = {name: getattr(math, name) for name in dir(math) if not name.startswith("_")}
    for name, ending in endings.items():
        source = "\n    ".join([f"def {name}(x, a):", *writer.lines, f"return {ending}"])
        # The source is made of our own templates and of numbers; nothing in it comes from outside.
        exec(compile(source, f"<{name} of {type(constraint).__name__}>", "exec"), scope)
    return Hosted(scope["rows"], scope["inside"])


class _Writer:
    """Turns a trace into lines of Python; an array holds expressions, or numbers where it is constant."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def run(self, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The expressions of a trace's outputs."""
        known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*map(np.asarray, consts), *arguments), strict=True))

        def read(variable: Any) -> np.ndarray:
            return np.asarray(variable.val) if isinstance(variable, Literal) else known[variable]

        for equation in jaxpr.eqns:
            outputs = self._apply(equation, [read(variable) for variable in equation.invars])
            known.update(zip(equation.outvars, outputs, strict=True))
        return [read(variable) for variable in jaxpr.outvars]

    def _apply(self, equation: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
        name, parameters = equation.primitive.name, equation.params
        if not any(array.dtype == object for array in inputs) and name not in CALLS:
            found = equation.primitive.bind(*map(jnp.asarray, inputs), **parameters)
            return [np.asarray(array) for array in (found if equation.primitive.multiple_results else [found])]
        if name in MOVES:
            return _moved(equation, inputs)
        if name in CALLS:
            inner = parameters.get("jaxpr") or parameters.get("call_jaxpr")
            return self.run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs)
        inputs = [_written(array) for array in inputs]
        if name in ELEMENTWISE:
            return [self._each(ELEMENTWISE[name], inputs)]
        if name == "integer_pow":
            return [self._each(f"{{0}} ** {parameters['y']}", inputs)]
        if name == "select_n" and len(inputs) == 3:
            return [self._each("{2} if {0} else {1}", inputs)]
        if name in REDUCTIONS:
            return [self._reduce(ELEMENTWISE[REDUCTIONS[name]], inputs[0], parameters["axes"])]
        if name == "dot_general":
            return [self._contract(inputs[0], inputs[1], parameters["dimension_numbers"])]
        raise _UnwritableError(name)

    def _name(self, expression: str) -> str:
        if len(self.lines) >= LONGEST:
            raise _UnwritableError("too long")
        self.lines.append(f"t{len(self.lines)} = {expression}")
        return f"t{len(self.lines) - 1}"

    def _each(self, template: str, inputs: list[np.ndarray]) -> np.ndarray:
        inputs = list(np.broadcast_arrays(*inputs))
        if template == "{0}":
            return inputs[0]
        result = np.empty(inputs[0].shape, object)
        for index in np.ndindex(result.shape):
            result[index] = self._name(template.format(*(array[index] for array in inputs)))
        return result

    def _reduce(self, template: str, array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        kept = [axis for axis in range(array.ndim) if axis not in axes]
        moved = array.transpose([*kept, *axes]).reshape(*(array.shape[axis] for axis in kept), -1)
        result = moved[..., :1].reshape(moved.shape[:-1])
        for index in range(1, moved.shape[-1]):
            result = self._each(template, [result, moved[..., index : index + 1].reshape(result.shape)])
        return result

    def _contract(self, left: np.ndarray, right: np.ndarray, numbers: Any) -> np.ndarray:
        (left_axes, right_axes), (left_batch, _) = numbers
        if left_batch:
            raise _UnwritableError("batched product")
        a = np.moveaxis(left, left_axes, range(-len(left_axes), 0))
        b = np.moveaxis(right, right_axes, range(-len(right_axes), 0))
        a_free, b_free = a.shape[: a.ndim - len(left_axes)], b.shape[: b.ndim - len(right_axes)]
        a, b = a.reshape(*a_free, *(1 for _ in b_free), -1), b.reshape(*(1 for _ in a_free), *b_free, -1)
        products = self._each("{0} * {1}", [a, b])
        return self._reduce("{0} + {1}", products, (products.ndim - 1,))


def _moved(equation: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of an operation that only moves elements: run on their numbers, it says where they go."""
    fixed = 1 if equation.primitive.name in ("gather", "dynamic_slice") else len(inputs)
    if any(array.dtype == object for array in inputs[fixed:]):
        raise _UnwritableError("an index that is computed")
    pool = np.concatenate([_written(array).ravel() for array in inputs[:fixed]])
    ends = np.cumsum([array.size for array in inputs[:fixed]])
    numbers = [
        jnp.arange(end - array.size, end, dtype=jnp.int32).reshape(array.shape)
        for array, end in zip(inputs[:fixed], ends, strict=True)
    ]
    rest = [jnp.asarray(array) for array in inputs[fixed:]]
    result = equation.primitive.bind(*numbers, *rest, **equation.params)
    results = result if equation.primitive.multiple_results else [result]
    return [pool[np.ravel(places)].reshape(np.shape(places)) for places in results]


def _written(array: np.ndarray) -> np.ndarray:
    """An array of numbers as an array of literals; one of expressions as it is."""
    if array.dtype == object:
        return array
    literals = np.empty(array.shape, object)
    for index in np.ndindex(array.shape):
        entry = array[index].item()
        if not math.isfinite(entry):
            raise _UnwritableError("a constant that is not finite")
        literals[index] = f"({entry!r})" if entry < 0 else repr(entry)
    return literals
