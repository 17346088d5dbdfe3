"""Arrays of the solvers. "Columns" hold one sample per column: the last axis is the batch."""

from jaxtyping import Array, Bool, Float, Int

Vector = Float[Array, "_"]
Scalar = Float[Array, ""]
Columns = Float[Array, "dim batch"]
Contexts = Float[Array, "context batch"]
Rows = Float[Array, "rows batch"]
Slopes = Float[Array, "rows dim batch"]
Matrices = Float[Array, "dim dim batch"]
Scalars = Float[Array, "batch"]
Flags = Bool[Array, "batch"]
Codes = Int[Array, "batch"]
