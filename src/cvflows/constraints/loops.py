"""A writer that also unrolls loops: for the maps that fill intervals one after the other, by splines.

Loops of a known length are written out turn by turn, whole numbers as doubles, which do not wrap around, a computed
index as a chain of choices, and a product with a large constant table stays one step. What is written so is a map,
whose actions are checked in any case; a constraint's rows are written by the stricter `Writer` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
from jax.extend.core import JaxprEqn, Literal, Var

from cvflows.constraints.programs import PRODUCT, Step
from cvflows.constraints.writing import CALLS, FLOAT, MOVES, DotDimensions, UnwritableError, Writer, dtype_of

LARGE = 64
"""Entries of a constant table from which a product stays a product."""
ON_WHOLE = {
    *("add", "sub", "mul", "max", "min", "neg", "clamp", "select_n", "convert_element_type", "copy", "stop_gradient"),
    *("lt", "le", "gt", "ge", "eq", "ne", "reduce_sum", "reduce_max", "reduce_min", "dynamic_slice", "scatter", *MOVES),
}
"""What whole numbers may be in: nothing that rounds, or that would show that they are doubles."""


REASONS = {
    "while": "a loop whose length depends on its input",
    "sort": "sorting",
    "argmax": "an index of the largest entry",
    "argmin": "an index of the smallest entry",
}
"""Why some operations cannot be written."""


def kind_of(variable: Var | Literal) -> str:
    """`f`, `i`, `u` or `b`."""
    return dtype_of(variable).kind


class LoopWriter(Writer):
    """Writes loops too."""

    def apply(self, equation: JaxprEqn, inputs: list[np.ndarray]) -> list[np.ndarray]:
        name, parameters = equation.primitive.name, equation.params
        if not any(array.dtype == object for array in inputs):
            return super().apply(equation, inputs)
        if name == "scan":
            return self._unrolled(parameters, inputs)
        if name == "cond":
            return self._branched(parameters, inputs[0], inputs[1:], [kind_of(one) for one in equation.outvars])
        if name in REASONS:
            raise UnwritableError(REASONS[name])
        if name == "dynamic_slice" and any(array.dtype == object for array in inputs[1:]):
            return [self._chosen(self.written(inputs[0]), inputs[1:], parameters["slice_sizes"])]
        if name == "cumsum":
            return [self._running(self.written(inputs[0]), parameters["axis"], parameters["reverse"])]
        if name == "le_to":  # as numbers are ordered, save that it knows where to put NaN
            return [self.each("le", [self.written(array) for array in inputs])]
        taken, given = ([kind_of(variable) for variable in some] for some in (equation.invars, equation.outvars))
        if name == "div" and set(taken) == {"u"}:
            return [self.each("floor", [self.each("div", [self.written(array) for array in inputs])])]
        if name not in CALLS and not {"i", "u"}.isdisjoint({*taken, *given}):
            casts = name == "convert_element_type" and taken == ["f"]
            if name not in ON_WHOLE or casts:
                raise UnwritableError(f"{name} on whole numbers")
        return super().apply(equation, inputs)

    def kind(self, dtype: np.dtype) -> np.dtype:
        return FLOAT if dtype.kind in "iu" else dtype

    def written(self, array: np.ndarray) -> np.ndarray:
        return super().written(array.astype(float) if array.dtype.kind in "iu" else array)

    def contract(self, left: np.ndarray, right: np.ndarray, numbers: DotDimensions) -> np.ndarray:
        """With a constant table on one side and a vector on the other, as layers of networks are: one step."""
        (left_axes, right_axes), (batch, _) = numbers
        table, axes, vector = (right, right_axes, left) if left.ndim == 1 else (left, left_axes, right)
        plain = table.ndim == 2 and vector.ndim == 1 and len(axes) == 1 and not batch
        if not plain or table.dtype == object or table.size < LARGE:
            return super().contract(left, right, numbers)
        table = np.moveaxis(table, axes[0], 0).astype(float)
        self.tables.append(table)
        if not np.array_equal(table.astype(np.float32), table):
            raise UnwritableError("a table that is not of single precision")
        name = self.add(Step(PRODUCT, (f"m{len(self.tables) - 1}", *self.written(vector).tolist())))
        return np.array([f"{name}[{index}]" for index in range(table.shape[1])], object)

    def _unrolled(self, parameters: Mapping[str, Any], inputs: list[np.ndarray]) -> list[np.ndarray]:
        inner, fixed, carried = parameters["jaxpr"], parameters["num_consts"], parameters["num_carry"]
        constants, carry, rest = inputs[:fixed], inputs[fixed : fixed + carried], inputs[fixed + carried :]
        turns = range(parameters["length"])
        collected: list[list[np.ndarray]] = []
        for turn in reversed(turns) if parameters["reverse"] else turns:
            taken = [array[turn : turn + 1].reshape(array.shape[1:]) for array in rest]
            found = self.run(inner.jaxpr, inner.consts, [*constants, *carry, *taken])
            carry = found[:carried]
            collected.append(found[carried:])
        if parameters["reverse"]:
            collected.reverse()
        return [*carry, *(self._stacked(list(arrays)) for arrays in zip(*collected, strict=True))]

    def _branched(
        self, parameters: Mapping[str, Any], index: np.ndarray, inputs: list[np.ndarray], kinds: list[str]
    ) -> list[np.ndarray]:
        """Every branch, and a choice between what they give; the one that is meant where that is known."""
        branches = parameters["branches"]
        if index.dtype != object:
            taken = branches[min(max(int(index), 0), len(branches) - 1)]
            return self.run(taken.jaxpr, taken.consts, inputs)
        results = [[self.written(one) for one in self.run(each.jaxpr, each.consts, inputs)] for each in branches]
        chosen = results[0]
        for number, others in enumerate(results[1:], 1):
            here = self.each("ge", [index, np.array(repr(float(number)), object)])
            triples = zip(kinds, chosen, others, strict=True)
            chosen = [
                self.each("select_truth" if kind == "b" else "select", [here, before, after])
                for kind, before, after in triples
            ]
        return chosen

    def _stacked(self, arrays: list[np.ndarray]) -> np.ndarray:
        constant = all(array.dtype != object for array in arrays)
        return np.stack(arrays if constant else [self.written(array) for array in arrays])

    def _chosen(self, array: np.ndarray, starts: list[np.ndarray], sizes: tuple[int, ...]) -> np.ndarray:
        """A slice that starts where it is computed: the first one, unless the start is at least 1, 2 and so on."""
        most = [length - size for length, size in zip(array.shape, sizes, strict=True)]
        ranges = [
            range(last + 1) if start.dtype == object else (min(max(int(start), 0), last),)
            for start, last in zip(starts, most, strict=True)
        ]
        result: np.ndarray | None = None
        for corner in product(*ranges):
            part = array[tuple(slice(begin, begin + size) for begin, size in zip(corner, sizes, strict=True))]
            if result is None:
                result = part
                continue
            reached = [
                self.each("ge", [np.asarray(start), np.array(repr(float(begin)), object)])
                for start, begin in zip(starts, corner, strict=True)
                if start.dtype == object and begin
            ]
            here = reached[0]
            for also in reached[1:]:
                here = self.each("and", [here, also])
            result = self.each("select", [here, result, part])
        assert result is not None
        return result

    def _running(self, array: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
        lines = list(np.moveaxis(array, axis, 0))
        lines = [np.asarray(line, object) for line in (lines[::-1] if reverse else lines)]
        for index in range(1, len(lines)):
            lines[index] = self.each("add", [lines[index - 1], lines[index]])
        return np.moveaxis(np.stack(lines[::-1] if reverse else lines), 0, axis)
