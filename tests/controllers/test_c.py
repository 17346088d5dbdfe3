"""The C code: compiled with warnings as errors, it decides as the agent does, and lets no forbidden action out."""

import shutil
import subprocess

import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cvflows.constraints.base import all_rows
from cvflows.constraints.judge import judge_of
from cvflows.constraints.programs import Program
from cvflows.constraints.writing import Writer, write_out
from cvflows.controllers.c import header, source
from cvflows.controllers.checking import check
from cvflows.controllers.compiling import STRICT, CompilerError, Library, compile_library, compile_with, compiler
from cvflows.controllers.parity import adversarial, perturbed, play_observations, read_parity
from cvflows.controllers.plan import Layer, Network, Plan
from cvflows.controllers.status import Status, Used
from cvflows.errors import ExportError, StoreError
from cvflows.runs.acting import episode_seed
from cvflows.runs.train import EVALUATION
from exports import agent_of

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
CASES = [
    ("H+M", "PPO+CVFlow", "ray"),
    ("HC+O", "SAC+CVFlow", "ray"),
    ("HC+O", "PPO+CVFlow", "ray"),
    ("W+O+S", "SAC+CVFlow", "ray"),
    ("R+L2", "SAC+CVFlow", "orb"),
    ("H+M", "SAC+CVFlow", "slice"),
    ("R+L2", "PPO+CVFlow", "gauge"),
    pytest.param("W+O+S", "SAC+CVFlow", "gauge", marks=pytest.mark.thorough),
    pytest.param("H+D", "SAC+CVFlow", "shell", marks=pytest.mark.thorough),
    ("H+M", "DPre", None),
    ("H+M", "ARAM", None),
    ("H+M", "PPO", None),
]


def compared(folder, agent):
    """C beside the agent at ordinary inputs: the largest difference where the policy acts, and all actions judged."""
    trainer = agent._trainer
    library = Library(compile_library(folder, folder))
    played = play_observations(trainer, 60)
    seen = np.concatenate([played, next(perturbed(played, 60, seed=3))])
    run = library.run(seen)
    asked = np.stack([trainer.learner.decide_alone(one) for one in seen])
    contexts = trainer.task.context(seen.astype(float))
    promised = run.statuses != Status.UNSAFE
    rows = judge_of(trainer.task.constraint).many(contexts[promised], run.actions[promised])
    assert rows.max() <= 1e-6
    policy = run.statuses == Status.OK
    return np.abs(run.actions - asked)[policy].max(), policy.mean()


@pytest.mark.parametrize(("task", "method", "kind"), CASES)
def test_decides_as_the_agent_does(task, method, kind, exported):
    folder, agent = exported(task, method, kind)
    difference, share = compared(folder, agent)
    assert difference <= 1e-5
    assert share == 1 if kind else share > 0.3


def test_decides_as_the_agent_does_under_learned_limits(ball, exported):
    folder, agent = exported(ball, "SAC+CVFlow", "ray")
    difference, share = compared(folder, agent)
    assert difference <= 1e-5
    assert share > 0.8


@pytest.mark.parametrize("activation", ["relu", "elu", "silu", "tanh"])
def test_every_activation(activation, exported):
    difference, _ = compared(*exported("R+L2", "SAC+CVFlow", "ray", activation=activation))
    assert difference <= 1e-5


@pytest.mark.parametrize("options", [{"fallback": "last"}, {"fallback": "anchor"}, {"fallback": (0.1, -0.05)}])
def test_the_check_passes(options, exported):
    folder, _ = exported("R+L2", "SAC+CVFlow", "ray", **options)
    report = check(folder, 12_000)
    assert report.problem is None
    assert (report.forbidden, report.inputs, report.statuses_differ) == (0, 12_000, 0)
    assert report.fallbacks > 100
    assert report.as_json()["ok"]


def test_statuses_and_fallbacks(exported):
    """What every fault gives, and from where; `last` needs a last action."""
    limits = ((-50.0,) * 11, (50.0,) * 11)
    folder, agent = exported("H+M", "PPO+CVFlow", "ray", limits=limits)
    good = play_observations(agent._trainer, 1)[0]
    reads = [index for index, _ in agent.task.reads]
    other = next(index for index in range(11) if index not in reads)

    def faulty(index, value):
        wrong = good.copy()
        wrong[index] = value
        return wrong

    library = Library(compile_library(folder, folder), max_age=1.0)
    run = library.run(np.stack([faulty(other, np.nan), good, faulty(other, np.inf)]))
    assert run.statuses.tolist() == [Status.FALLBACK_INPUT, Status.OK, Status.FALLBACK_INPUT]
    assert run.used.tolist() == [Used.ANCHOR, Used.POLICY, Used.LAST]
    np.testing.assert_array_equal(run.actions[1], run.actions[2])
    run = library.run(np.stack([faulty(other, 51.0), good, good, good]), np.array([0.0, 1.5, -0.1, 1.0]))
    stale = Status.FALLBACK_STALE
    assert run.statuses.tolist() == [Status.FALLBACK_RANGE, stale, stale, Status.OK]
    run = library.run(faulty(reads[0], np.nan)[None])  # the context cannot be read: nothing is promised
    assert (run.statuses[0], run.used[0]) == (Status.UNSAFE, Used.LAST)
    library.reset()
    assert library.run(faulty(reads[0], np.nan)[None]).used[0] == Used.ANCHOR


def test_a_forbidden_policy_is_replaced(exported):
    """Nothing keeps SPre's actions inside: the check does."""
    folder, agent = exported("R+L2", "SPre", None, fallback=(0.1, -0.05))
    library = Library(compile_library(folder, folder))
    seen = play_observations(agent._trainer, 50)
    run = library.run(seen)
    checked = run.statuses == Status.FALLBACK_CHECK
    assert checked.mean() > 0.5
    assert set(run.used[checked]) == {Used.FIXED}
    np.testing.assert_array_equal(run.actions[checked][0], np.array([0.1, -0.05], np.float32))


def test_the_least_bad_action_where_nothing_is_allowed(tmp_path):
    """a ≥ 0.6 - x beside a ≤ -x - ½ is empty: the status says so."""

    def cuts(x):
        return jnp.stack([x[0] + 0.5, 0.6 - x[0]]), jnp.asarray([[1.0], [-1.0]])

    one = np.ones((1, 1), np.float32)
    network = Network(one[0] * 0, one[0], np.inf, "relu", (Layer(one, one[0] * 0),), one[0][:0])
    about = dict.fromkeys(("task", "method", "constraint_words", "fingerprint", "cvflows"), "*/ int evil; \\ ??/")
    cut = cv.HalfSpaces(1, 2, cuts, context_dim=1)
    rows = write_out(lambda x, a: all_rows(cut, x, a), Writer(), x=1, a=1)
    context, action = Program({"obs": 1}, [], ["obs[0]"]), Program({"output": 1, "obs": 1}, [], ["output[0]"])
    plan = Plan(about, network, context, action, rows, None, np.array([-np.inf]), np.array([np.inf]), "last", (0.25,))
    (tmp_path / "controller.h").write_text(header(plan))
    (tmp_path / "controller.c").write_text(source(plan))
    run = Library(compile_library(tmp_path, tmp_path)).run(np.array([[0.2], [5.0]], np.float32))
    assert run.statuses.tolist() == [Status.UNSAFE, Status.UNSAFE]
    assert run.used.tolist() == [Used.FIXED, Used.FIXED]  # 0.25 violates by 0.95 + 0.15, the policy's 0.2 by 0.9 + 0.2
    np.testing.assert_allclose(run.actions[:, 0], [0.25, 0.25])


def test_compiles_as_cpp_and_with_every_optimisation(exported, tmp_path):
    folder, _ = exported("R+L2", "SAC+CVFlow", "ray")
    if shutil.which("g++"):
        flags = [
            "-x",
            "c++",
            *STRICT[1:],
            "-std=c++11",
            "-c",
            str(folder / "controller.c"),
            "-o",
            str(tmp_path / "x.o"),
        ]
        compile_with(["g++", *flags])
    for level in ("-O0", "-O3"):
        assert Library(compile_library(folder, tmp_path, (level,))).observation_dim == 9
    with pytest.raises(CompilerError, match="removes checks for NaN"):
        compile_library(folder, tmp_path, ("-O2", "-ffast-math"))
    with pytest.raises(CompilerError, match="install gcc"):
        compiler("no-such-compiler")


SANITISED = """
#include <stdio.h>
#include "controller.h"

int main(void)
{
    cv_state state;
    float obs[CV_OBS], action[CV_ACT];
    int statuses[7] = {0};
    cv_init(&state);
    while (fread(obs, sizeof obs, 1, stdin) == 1) {
        statuses[cv_act(&state, obs, action)]++;
        (void)cv_fallback(&state, obs, action);
        (void)cv_largest_row(obs, action);
    }
    printf("%d %d\\n", statuses[0], statuses[0] + statuses[1] + statuses[4] + statuses[6]);
    return 0;
}
"""


@pytest.mark.parametrize(("task", "method", "kind"), CASES[1:5:3])
def test_sanitisers_find_nothing(task, method, kind, exported, tmp_path):
    folder, agent = exported(task, method, kind)
    (tmp_path / "main.c").write_text(SANITISED)
    sources = [str(folder / "controller.c"), str(tmp_path / "main.c")]
    flags = [*STRICT, "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I", str(folder)]
    compile_with(["cc", *flags, *sources, "-o", str(tmp_path / "main"), "-lm"])
    seen = next(adversarial(play_observations(agent._trainer, 50), 3000, seed=5))
    done = subprocess.run([str(tmp_path / "main")], input=seen.tobytes(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    policy, all_of_them = map(int, done.stdout.split())
    assert 0 < policy < all_of_them == 3000


def test_what_cannot_be_written_says_why(tmp_path):
    agent = agent_of("H+M", "DOpt", None)
    with pytest.raises(ExportError, match=r"DOpt on H\+M cannot be exported: its LayerDecoder .* length depends"):
        agent.export(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("given", ["first", (0.0,), (0.0, 2.0), (0.9, 0.9), (float("nan"), 0.0)])
def test_a_fallback_that_is_none_is_refused(given, tmp_path):
    with pytest.raises(ValueError, match="`fallback`: expected"):
        agent_of("R+L2", "SAC+CVFlow").export(tmp_path / "out", fallback=given)


@pytest.mark.parametrize("limits", [((0.0,), (1.0,)), ((1.0,) * 9, (1.0,) * 9)])
def test_limits_that_are_none_are_refused(limits, tmp_path):
    with pytest.raises(ValueError, match="`limits`: expected 9 lower limits"):
        agent_of("R+L2", "SAC+CVFlow").export(tmp_path / "out", limits=limits)


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="`out`: expected a new folder"):
        agent_of("R+L2", "SAC+CVFlow").export(tmp_path)


def test_code_that_was_changed_is_refused(exported, tmp_path):
    folder, _ = exported("R+L2", "SAC+CVFlow", "ray")
    shutil.copytree(folder, tmp_path / "copy")
    code = (tmp_path / "copy" / "controller.c").read_text()
    (tmp_path / "copy" / "controller.c").write_text(code.replace("1e-06", "1e+06"))
    with pytest.raises(StoreError, match=r"controller\.c was changed after it was exported"):
        check(tmp_path / "copy", 100)


def test_parity_covers_every_kind_of_input(exported):
    folder, _ = exported("H+M", "PPO+CVFlow", "ray", limits=((-50.0,) * 11, (50.0,) * 11))
    parity = read_parity(folder, cv.Controller.load(folder).plan)
    assert {0, 1, 2, 3, 6} <= set(parity.statuses.tolist())
    assert np.isnan(parity.observations).any()


@pytest.mark.thorough
def test_a_trained_policy_earns_the_same_through_c(tmp_path):
    """Whole episodes driven by the C library, beside those of `agent.evaluate`."""
    agent = cv.Agent("PPO+CVFlow", "R+L2", map="ray", num_envs=4)
    agent.learn(20_000, progress=False)
    folder = agent.export(tmp_path / "out")
    library = Library(compile_library(folder, tmp_path))
    expected = agent.evaluate(5)["return"]
    seed, total = episode_seed(agent.config.seed, EVALUATION, 20_000), 0.0
    for episode in range(5):
        env = agent.task.make_env()
        observation, _ = env.reset(seed=episode_seed(seed, episode))
        ended = False
        while not ended:
            run = library.run(np.asarray(observation, np.float32)[None])
            assert run.statuses[0] == Status.OK
            observation, reward, terminated, truncated, _ = env.step(run.actions[0])
            total += reward
            ended = terminated or truncated
    assert total / 5 == pytest.approx(expected, rel=1e-3)
