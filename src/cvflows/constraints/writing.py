"""Traced functions written as plain Python on floats, in double precision, for one sample at a time.

Calling a compiled JAX function costs tens of microseconds, whatever it computes; a few dozen operations on Python
floats cost two or three. So a trace, taken in float64, is written out element by element as Python source.

Only operations whose meaning on Python floats is JAX's are written, each for the dtypes listed here. Everything else
(casts, integers, single precision, loops, sorting, random numbers) and traces that are too long give None: JAX decides
then. Where Python raises an error and JAX would give NaN or infinity, such as 1/0, callers ask JAX too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var
from jaxtyping import Array

from cvflows.constraints.precision import double_precision, trace_in_double

LONGEST = 2500
"""Operations beyond which a compiled function is as fast."""
NAME = re.compile(r"\bt\d+\b")
"""Of what a line computes."""
FLOAT, BOOL = np.dtype(np.float64), np.dtype(bool)

# A NaN must survive: of two numbers that compare as neither, the first is kept.
ON_FLOATS = {
    "add": "{0} + {1}",
    "add_any": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "rem": "fmod({0}, {1})",
    "neg": "-{0}",
    "abs": "abs({0})",
    "max": "{1} if {0} < {1} or {1} != {1} else {0}",
    "min": "{1} if {0} > {1} or {1} != {1} else {0}",
    "sign": "float(({0} > 0) - ({0} < 0)) if {0} == {0} else {0}",
    "floor": "float(floor({0}))",
    "ceil": "float(ceil({0}))",
    "square": "{0} * {0}",
    "sqrt": "sqrt({0})",
    "rsqrt": "1 / sqrt({0})",
    "cbrt": "cbrt({0})",
    "exp": "exp({0})",
    "exp2": "exp2({0})",
    "expm1": "expm1({0})",
    "log": "log({0})",
    "log1p": "log1p({0})",
    "sin": "sin({0})",
    "cos": "cos({0})",
    "tan": "tan({0})",
    "asin": "asin({0})",
    "acos": "acos({0})",
    "atan": "atan({0})",
    "atan2": "atan2({0}, {1})",
    "sinh": "sinh({0})",
    "cosh": "cosh({0})",
    "tanh": "tanh({0})",
    "erf": "erf({0})",
    "logistic": "1 / (1 + exp(-{0}))",
    "pow": "pow({0}, {1})",  # of `math`: a negative base with a fractional exponent is an error, not a complex number
    "copy": "{0}",
    "copy_p": "{0}",
    "stop_gradient": "{0}",
}
"""Floats to a float."""
COMPARISONS = {
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "is_finite": "isfinite({0})",
}
"""Floats to a truth value."""
LOGIC = {"and": "{0} and {1}", "or": "{0} or {1}", "not": "not {0}", "xor": "{0} != {1}"}
"""Truth values to a truth value."""
REDUCTIONS = {
    "reduce_sum": ON_FLOATS["add"],
    "reduce_prod": ON_FLOATS["mul"],
    "reduce_max": ON_FLOATS["max"],
    "reduce_min": ON_FLOATS["min"],
    "reduce_and": LOGIC["and"],
    "reduce_or": LOGIC["or"],
}
MOVES = {
    *("reshape", "broadcast_in_dim", "slice", "squeeze", "expand_dims", "transpose", "rev", "concatenate"),
    *("gather", "dynamic_slice", "split", "stack"),
}
ONE = "(1.0)"
CALLS = {"pjit", "jit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat"}


class _UnwritableError(Exception):
    """An operation that has no form on plain floats."""


class Program(NamedTuple):
    """Lines of Python that compute `results`, expressions, from sequences of floats of these names."""

    arguments: tuple[str, ...]
    lines: list[str]
    results: list[str]

    def define(self, title: str, ending: str) -> Callable[..., Any]:
        """The function that returns the expression `ending`, with the lines that it needs."""
        needed, kept = set(re.findall(NAME, ending)), []
        for line in reversed(self.lines):
            name, _, expression = line.partition(" = ")
            if name in needed:
                needed.update(re.findall(NAME, expression))
                kept.append(line)
        source = "\n    ".join([f"def written({', '.join(self.arguments)}):", *reversed(kept), f"return {ending}"])
        scope: dict[str, Any] = {name: getattr(math, name) for name in dir(math) if not name.startswith("_")}
        # The source is made of the templates above and of numbers; nothing in it comes from outside.
        exec(compile(source, f"<{title}>", "exec"), scope)
        written: Callable[..., Any] = scope["written"]
        return written


def write(function: Callable[..., Array], **sizes: int) -> Program | None:
    """A JAX function of vectors of these sizes, by their names, in Python; None where it cannot be written."""
    names = [np.array([f"{name}[{i}]" for i in range(size)], object) for name, size in sizes.items()]
    writer = _Writer()
    try:
        trace = trace_in_double(function, *sizes.values())
        with double_precision():
            (results,) = writer.run(trace.jaxpr, trace.constants, names)
        return Program(tuple(sizes), writer.lines, _written(results).ravel().tolist())
    except (TypeError, _UnwritableError):  # of the first kind: a function that insists on single precision
        return None


Axes = tuple[int, ...]
DotDimensions = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]
"""Of both arguments: the axes that are summed over, the axes of a batch."""


class _Writer:
    """Turns a trace into lines of Python; an array holds expressions, or numbers where it is constant."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[str, str] = {}  # of expressions: what is computed twice is written once

    def run(self, jaxpr: Jaxpr, consts: Sequence[np.ndarray], arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The expressions of a trace's outputs."""
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
                raise _UnwritableError(name)
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
        template = _template(name, parameters, taken, given)
        written = [_written(array) for array in inputs]
        if name in REDUCTIONS:
            return [self._reduce(template, written[0], parameters["axes"])]
        if name == "dot_general":
            return [self._contract(written[0], written[1], parameters["dimension_numbers"])]
        if name == "clamp":
            least, value, most = written
            return [self._each(ON_FLOATS["min"], [self._each(ON_FLOATS["max"], [least, value]), most])]
        return [self._each(template, written)]

    def _name(self, expression: str) -> str:
        if expression in self._names:
            return self._names[expression]
        if len(self.lines) >= LONGEST:
            raise _UnwritableError("too long")
        name = self._names[expression] = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        return name

    def _each(self, template: str, inputs: list[np.ndarray]) -> np.ndarray:
        inputs = list(np.broadcast_arrays(*inputs))
        if template == "{0}":
            return inputs[0]
        result = np.empty(inputs[0].shape, object)
        for index in np.ndindex(result.shape):
            result[index] = self._value(template, [str(array[index]) for array in inputs])
        return result

    def _value(self, template: str, inputs: list[str]) -> str:
        """The name of an expression, or what it is the same as: x·1 and x/1 are x, whatever x is."""
        if template == ON_FLOATS["mul"] and ONE in inputs:
            return inputs[0] if inputs[1] == ONE else inputs[1]
        if template == ON_FLOATS["div"] and inputs[1] == ONE:
            return inputs[0]
        return self._name(template.format(*inputs))

    def _reduce(self, template: str, array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        kept = [axis for axis in range(array.ndim) if axis not in axes]
        if not all(array.shape[axis] for axis in axes):
            raise _UnwritableError("nothing to reduce")
        moved = array.transpose([*kept, *axes]).reshape(*(array.shape[axis] for axis in kept), -1)
        result = moved[..., :1].reshape(moved.shape[:-1])
        for index in range(1, moved.shape[-1]):
            result = self._each(template, [result, moved[..., index : index + 1].reshape(result.shape)])
        return result

    def _contract(self, left: np.ndarray, right: np.ndarray, numbers: DotDimensions) -> np.ndarray:
        (left_axes, right_axes), (left_batch, _) = numbers
        if left_batch:
            raise _UnwritableError("batched product")
        a = np.moveaxis(left, left_axes, range(-len(left_axes), 0))
        b = np.moveaxis(right, right_axes, range(-len(right_axes), 0))
        a_free, b_free = a.shape[: a.ndim - len(left_axes)], b.shape[: b.ndim - len(right_axes)]
        a, b = a.reshape(*a_free, *(1 for _ in b_free), -1), b.reshape(*(1 for _ in a_free), *b_free, -1)
        products = self._each(ON_FLOATS["mul"], [a, b])
        return self._reduce(ON_FLOATS["add"], products, (products.ndim - 1,))


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


def _template(name: str, parameters: Mapping[str, object], taken: list[np.dtype], given: np.dtype | None) -> str:
    """How an operation on these dtypes is written, or an error that says it cannot be."""
    kinds = (*taken, given)
    floats, truths = all(kind == FLOAT for kind in kinds), all(kind == BOOL for kind in kinds)
    if name in REDUCTIONS and (truths if name in ("reduce_and", "reduce_or") else floats):
        return REDUCTIONS[name]
    if name in ON_FLOATS and floats:
        return ON_FLOATS[name]
    if name in COMPARISONS and all(kind == FLOAT for kind in taken) and given == BOOL:
        return COMPARISONS[name]
    if name in LOGIC and truths:
        return LOGIC[name]
    if name == "integer_pow" and floats:
        return f"{{0}} ** {parameters['y']}"
    if name == "select_n" and len(taken) == 3 and taken[0] == BOOL and taken[1] == taken[2] == given in (FLOAT, BOOL):
        return "{2} if {0} else {1}"
    if name == "convert_element_type":
        if given == FLOAT and taken[0] == BOOL:
            return "1.0 if {0} else 0.0"
        if given == taken[0] and given in (FLOAT, BOOL):
            return "{0}"
    if name in ("dot_general", "clamp") and floats:
        return ""
    raise _UnwritableError(f"{name} on {', '.join(map(str, taken))}")


def _moved(equation: JaxprEqn, inputs: list[np.ndarray]) -> list[np.ndarray]:
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
    parameters = equation.params
    if parameters.get("fill_value") is not None:
        parameters = {**parameters, "fill_value": None}  # filled entries are out of range below
    result = equation.primitive.bind(*numbers, *rest, **parameters)
    results = [np.asarray(places) for places in (result if equation.primitive.multiple_results else [result])]
    if any((places < 0).any() or (places >= len(pool)).any() for places in results):
        raise _UnwritableError("an entry that is filled in")
    return [pool[places.ravel()].reshape(places.shape) for places in results]


def _written(array: np.ndarray) -> np.ndarray:
    """An array of numbers as an array of literals; one of expressions as it is."""
    if array.dtype == object:
        return array
    if array.dtype not in (FLOAT, BOOL):
        raise _UnwritableError(f"a constant of {array.dtype}")
    literals = np.empty(array.shape, object)
    for index in np.ndindex(array.shape):
        literals[index] = f"({array[index].item()!r})"  # `inf` and `nan` are names of the scope
    return literals
