"""How many threads a process may use: what XLA, OpenMP and OpenBLAS read when they are loaded."""

from __future__ import annotations

import os


def variables(threads: int) -> dict[str, str]:
    """Environment variables of a process with that many threads, added to the flags of XLA that are set here.

    NPROC is the size of XLA's pools. Where only Eigen was told, the threads of a pool waited for each other with a busy
    core each: two processes with one thread each then ran at half their speed on two cores.
    """
    count = str(threads)
    eigen = f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()}"
    flags = f"{os.environ.get('XLA_FLAGS', '')} {eigen}".strip()
    limits = dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), count)
    return {"XLA_FLAGS": flags, **limits}
