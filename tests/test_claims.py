"""The paper's claims: verdicts on runs whose figures are known."""

import math

from benchmarks.claims import at, grouped, returns, table, verdicts


def run(task, method, steps, last, asked=0.0, seed=0):
    """A run whose return rises by a tenth of the last at every tenth of its steps."""
    curve = [[steps * tenth // 10, last * tenth / 10] for tenth in range(1, 11)]
    training = {"cv_percent": asked, "cv_magnitude": asked / 100, "left_percent": asked}
    return {"task": task, "method": method, "steps": steps, "seed": seed, "curve": curve} | {
        "training": training,
        "final": {"return": last},
        "metric": "episodes" if task.startswith("Ball") else "actions",
    }


def test_runs_of_other_budgets_are_compared_at_the_smaller_one():
    long, short = run("H+M", "SAC+CVFlow", 300, 3000.0), run("H+M", "DPre+", 150, 1000.0)
    assert at(short, 150) == 1000
    assert at(long, 150) == (900 + 1200 + 1500) / 3
    assert returns(grouped([long, short]), "H+M", "SAC+CVFlow", "DPre+") == [1200, 1000]
    assert returns(grouped([long]), "H+M", "SAC+CVFlow", "DPre+") == []
    assert math.isnan(at(long, 29))  # before the first evaluation
    assert returns(grouped([long, run("H+M", "DPre+", 20, 1000.0)]), "H+M", "SAC+CVFlow", "DPre+") == []


def test_verdicts_count_the_tasks_that_a_claim_holds_on():
    runs = [run("H+M", "SAC+CVFlow", 100, 1000.0), run("W+M", "SAC+CVFlow", 100, 500.0, asked=2.0)]
    for method in ("DPre+", "SPre+"):
        runs += [run("H+M", method, 100, 1100.0, asked=1.0), run("W+M", method, 100, 1000.0, asked=1.0)]
    comparable, fewer, nearer, worlds, left, entropy = verdicts(runs)
    assert (comparable.holds, comparable.tasks) == (1, 2)
    assert (fewer.holds, fewer.tasks) == (1, 2)
    assert (nearer.holds, nearer.tasks) == (1, 2)
    assert worlds.tasks == left.tasks == entropy.tasks == 0
    assert "holds on 1 of 2 tasks" in table(runs)
    assert "not measured yet" in table(runs)
    runs.append(run("W+M", "SAC+CVFlow-plain", 50, 100.0))
    entropy = verdicts(runs)[-1]
    assert (entropy.holds, entropy.tasks) == (1, 1)
    assert "W+M 0.50" in entropy.evidence  # 100, and (150 + 200 + 250) / 3
