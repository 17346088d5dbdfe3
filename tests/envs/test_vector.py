"""Vector environments: what one wrapper each promises, one for all of them keeps, in every autoreset mode."""

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import cvflows as cv
from cases import map_case
from cvflows.errors import EmptySetError, FaultyEnvironmentError

MODES = list(AutoresetMode)
LIMIT = cv.Orthoplex(2, 1.0)  # Σ |xᵢ aᵢ| ≤ 1


class Counter(gymnasium.Env):
    """Observation (t + `start`, 1, 7); episodes of `length` steps end where little is allowed."""

    def __init__(self, start=0, length=3, dtype=np.float32, reward=1.0, named=False, broken=False):
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        box = spaces.Box(-np.inf, np.inf, (3,), dtype)
        self.observation_space = spaces.Dict({"state": box, "goal": spaces.Box(-1, 1, (1,))}) if named else box
        self.start, self.length, self.dtype, self.reward = start, length, dtype, reward
        self.named, self.broken, self.told = named, broken, []

    def _observation(self, ended=False):
        value = np.nan if self.broken else 1e3 if ended else self.time + self.start
        state = np.array([value, 1.0, 7.0], self.dtype)
        return {"state": state, "goal": np.zeros(1, np.float32)} if self.named else state

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, broken, self.broken = 0, self.broken, False
        observation, self.broken = self._observation(), broken
        return observation, {"cost": 100.0}  # belongs to no step

    def step(self, action):
        self.time += 1
        self.told.append((self.time, action.copy()))
        action *= 0  # an environment that writes to its argument must not reach ours
        ended = self.time == self.length
        return self._observation(ended), self.reward, ended, False, {"cost": 10.0 * self.time}


def vector(mode=AutoresetMode.NEXT_STEP, **options):
    lengths = (2, 3, 50)
    makers = [lambda s=s, n=n: Counter(s, n, **options) for s, n in enumerate(lengths)]
    return SyncVectorEnv(makers, autoreset_mode=mode)


def reset_ended(envs, ended):
    if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
        envs.reset(options={"reset_mask": ended})


@pytest.mark.parametrize("mode", MODES)
def test_environments_get_what_one_wrapper_each_would_give_them(mode):
    """Whatever row, episode and mode: the same executed actions as `FeasibleActions`, which a plain loop drives."""
    envs = cv.FeasibleVectorActions(vector(mode), LIMIT, context=[0, 1])
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    alone = [cv.FeasibleActions(env, LIMIT, context=[0, 1]) for env in (Counter(0, 2), Counter(1, 3), Counter(2, 50))]
    for env in alone:
        env.reset()
    over = np.zeros(3, bool)
    for _ in range(12):
        actions = rng.uniform(-1, 1, (3, 2)).astype(np.float32)
        kept = actions.copy()
        _, _, terminated, truncated, infos = envs.step(actions)
        np.testing.assert_array_equal(actions, kept)
        for row, env in enumerate(alone):
            if over[row] and mode is AutoresetMode.NEXT_STEP:
                env.reset()
                assert not any(infos[f"_{name}"][row] for name in ("cv", "cost", "executed", "outcome"))
                continue
            if over[row]:
                env.reset()
            *_, ended, _, info = env.step(actions[row])
            assert ended == terminated[row]
            np.testing.assert_array_equal(infos["executed"][row], info["executed"])
            assert infos["_executed"][row]
            for name in ("cv", "cost", "projected", "projection_distance", "executed_cv", "outcome"):
                assert infos[name][row] == pytest.approx(info[name], abs=1e-6), name
        over = terminated | truncated
        reset_ended(envs, over)
    inner = [env.told for env in envs.unwrapped.envs]
    for told, env in zip(inner, alone, strict=True):
        assert len(told) == len(env.unwrapped.told) > 5
        for (time, action), (expected_time, expected) in zip(told, env.unwrapped.told, strict=True):
            assert time == expected_time
            np.testing.assert_array_equal(action, expected)


@pytest.mark.parametrize("mode", MODES)
def test_only_allowed_actions_reach_any_row(mode):
    envs = cv.FeasibleVectorActions(vector(mode), LIMIT, context=[0, 1])
    envs.reset(seed=0)
    for _ in range(10):
        _, _, terminated, truncated, _ = envs.step(np.ones((3, 2), np.float32))
        reset_ended(envs, terminated | truncated)
    for start, env in enumerate(envs.unwrapped.envs):
        for time, action in env.told:
            assert bool(LIMIT.contains(np.array([time - 1 + start, 1.0]), action))


def test_latents_become_allowed_actions_in_every_row():
    map_ = map_case("shell R+D").map
    envs = cv.LatentVectorActions(gymnasium.make_vec("cvflows/R-D-v0", num_envs=3, guard=False), map_)
    assert envs.single_action_space == spaces.Box(-3.0, 3.0, (2,), np.float32)
    assert envs.action_space.shape == (3, 2)
    envs.reset(seed=0)
    latents = np.random.default_rng(0).uniform(-4, 4, (3, 2)).astype(np.float32)
    infos = envs.step(latents)[-1]
    assert np.asarray(map_.constraint.contains(None, infos["executed"])).all()
    expected = map_.forward(jnp.clip(latents[1], -3, 3), jnp.zeros(0))[0]
    np.testing.assert_allclose(infos["executed"][1], expected, atol=1e-5)


def test_dictionaries_are_read_by_a_function_of_one_row():
    envs = cv.FeasibleVectorActions(vector(named=True), LIMIT, context=lambda seen: seen["state"][:2])
    envs.reset()
    infos = envs.step(np.full((3, 2), 0.6))[-1]
    assert infos["projected"].tolist() == [False, True, True]  # at x₀ = 0, 1 and 2
    with pytest.raises(ValueError, match="or a function `context`"):
        cv.FeasibleVectorActions(vector(named=True), LIMIT)
    single = cv.FeasibleActions(Counter(2, named=True), LIMIT, context=lambda seen: seen["state"][:2])
    single.reset()
    assert single.step(np.full(2, 0.6))[-1]["projected"]


def test_contexts_keep_double_precision():
    """a ≤ x - 16777216, of which float32 does not know the last digit."""
    limit = cv.Constraint(lambda x, a: a[0] - (x[0] - 2.0**24), action_dim=2, context_dim=1, convex=True)
    envs = SyncVectorEnv([lambda: Counter(2**24 + 0.5, dtype=np.float64)])
    envs = cv.FeasibleVectorActions(envs, limit, context=[0])
    envs.reset()
    assert not envs.step(np.array([[0.4, 0.0]]))[-1]["projected"][0]
    one = cv.FeasibleActions(Counter(2**24 + 0.5, dtype=np.float64), limit, context=[0])
    one.reset()
    assert not one.step(np.array([0.4, 0.0]))[-1]["projected"]


def test_an_empty_set_stops_every_row_before_any_step():
    rows = cv.HalfSpaces(2, 2, lambda x: (jnp.array([x[0], x[0]]), jnp.array([[1.0, 0.0], [-1.0, 0.0]])), 1)
    envs = cv.FeasibleVectorActions(vector(), rows, context=[0])
    envs.reset()
    with pytest.raises(EmptySetError, match="no action is allowed at context"):
        envs.step(np.zeros((3, 2)))
    assert not any(env.told for env in envs.unwrapped.envs)
    told = cv.FeasibleVectorActions(vector(), rows, context=[0], on_empty=[0.5, 0.0])
    told.reset()
    infos = told.step(np.zeros((3, 2)))[-1]
    assert infos["outcome"].tolist() == [cv.Outcome.EXACT, cv.Outcome.EMPTY, cv.Outcome.EMPTY]
    assert infos["executed_cv"][2] > 0
    np.testing.assert_array_equal(infos["executed"][2], np.float32([0.5, 0.0]))


def test_rows_that_have_ended_are_reset_first():
    envs = cv.FeasibleVectorActions(vector(AutoresetMode.DISABLED), LIMIT, context=[0, 1])
    with pytest.raises(gymnasium.error.ResetNeeded, match="without reset_mask"):
        envs.reset(options={"reset_mask": np.array([True, False, False])})
    with pytest.raises(gymnasium.error.ResetNeeded, match="before step"):
        envs.step(np.zeros((3, 2)))
    envs.reset()
    envs.step(np.zeros((3, 2)))
    envs.step(np.zeros((3, 2)))
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"rows \[0\] have ended"):
        envs.step(np.zeros((3, 2)))
    envs.reset(options={"reset_mask": np.array([True, False, False])})
    infos = envs.step(np.array([[1.0, 0.9]] * 3))[-1]
    assert infos["projected"].tolist() == [False, True, True]  # the first row is at x₀ = 0 again, the others go on


def without_a_mode():
    envs = vector()
    envs.metadata = {}
    return envs


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cv.FeasibleVectorActions(gymnasium.make_vec("CartPole-v1"), LIMIT), "expected a Box action space"),
        (lambda: cv.FeasibleVectorActions(gymnasium.make_vec("Pendulum-v1"), cv.Ball(1, 0.5)), "RescaleAction"),
        (lambda: cv.FeasibleVectorActions(vector(), cv.Ball(3, 0.5)), "expected action_dim 2"),
        (lambda: cv.FeasibleVectorActions(vector(), LIMIT), "indices of the 2 observation entries"),
        (lambda: cv.FeasibleVectorActions(without_a_mode(), LIMIT, [0, 1]), 'metadata\\["autoreset_mode"\\], got None'),
    ],
)
def test_refuses_what_does_not_fit(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros((2, 2)), r"shape \(3, 2\)"),
        (np.full((3, 2), np.nan), "finite"),
        ("left", "numbers"),
        (None, "numbers"),
    ],
)
def test_refuses_bad_actions(actions, message):
    envs = cv.FeasibleVectorActions(vector(), LIMIT, [0, 1])
    envs.reset()
    with pytest.raises(ValueError, match=f"`actions`: expected .*{message}"):
        envs.step(actions)


def test_faulty_environments_are_named():
    envs = cv.FeasibleVectorActions(vector(reward=np.nan), LIMIT, [0, 1])
    envs.reset()
    with pytest.raises(FaultyEnvironmentError, match="SyncVectorEnv returned the rewards"):
        envs.step(np.zeros((3, 2)))
    envs = cv.FeasibleVectorActions(vector(broken=True), LIMIT, [0, 1])
    envs.reset()
    with pytest.raises(FaultyEnvironmentError, match=r"NaN or infinity in the observations of rows \[0, 1, 2\]"):
        envs.step(np.zeros((3, 2)))
