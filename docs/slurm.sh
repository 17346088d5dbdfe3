#!/bin/bash
#SBATCH --job-name=cvflows
#SBATCH --array=0-9
#SBATCH --cpus-per-task=4
#SBATCH --time=24:00:00
#SBATCH --requeue
# One job per seed; a job that is requeued goes on from the checkpoints. OUT is a folder that all nodes share.
set -euo pipefail
OUT=${OUT:-$HOME/cvflows-runs}
cvflows suite suites/paper.toml --seed-list "$SLURM_ARRAY_TASK_ID" --workers "$SLURM_CPUS_PER_TASK" --out "$OUT"
