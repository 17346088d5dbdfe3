"""One file per claim about speed or quality; `python -m benchmarks` lists them."""
