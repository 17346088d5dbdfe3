"""Agents of another library train on allowed actions without knowing it."""

import numpy as np
import pytest

import cvflows as cv
from cases import map_case

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]


def latent_task():
    return cv.LatentActions(cv.task("R+L2").make_env(), map_case("slice R+L2, uniform base").map)


def guarded_task():
    return cv.task("H+O+S").make_env(guard=True)


@pytest.mark.parametrize("make", [latent_task, guarded_task])
@pytest.mark.parametrize("algorithm", ["SAC", "PPO"])
def test_trains_on_allowed_actions(make, algorithm):
    sb3 = pytest.importorskip("stable_baselines3", reason="pip install 'cvflows[sb3]'")
    env = make()
    executed = []

    def record(_locals, _globals):
        executed.extend(info["executed"] for info in _locals["infos"])
        return True

    agent = getattr(sb3, algorithm)("MlpPolicy", env, seed=0, policy_kwargs={"net_arch": [32, 32]})
    agent.learn(2000, callback=record)
    assert len(executed) >= 2000
    if env.constraint.context_dim == 0:
        assert np.asarray(env.constraint.contains(None, np.array(executed))).all()
    else:
        observation, _ = env.reset(seed=1)
        for _ in range(50):
            x = cv.task("H+O+S").context(observation)
            action, _ = agent.predict(observation)
            observation, _, terminated, truncated, info = env.step(action)
            assert bool(env.constraint.contains(x, info["executed"]))
            if terminated or truncated:
                observation, _ = env.reset()
