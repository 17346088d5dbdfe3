"""Shapes and types are checked at run time, in float32, with no silent broadcasting of ranks."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("MUJOCO_GL", "egl")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

from jaxtyping import install_import_hook

install_import_hook(["cvflows.constraints", "cvflows.maps"], "typecheck.checked")

import hypothesis
import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
hypothesis.settings.register_profile("cvflows", deadline=None, max_examples=6, derandomize=True)
hypothesis.settings.load_profile("cvflows")
