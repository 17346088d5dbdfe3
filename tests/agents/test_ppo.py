"""PPO in a latent space: estimates against plain loops, ratios against action densities, probes with known answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cvflows.agents.experience import Steps
from cvflows.agents.learner import Learner
from cvflows.agents.methods import METHODS
from cvflows.agents.ppo import Moments
from cvflows.agents.problem import Problem
from cvflows.agents.rollout import Trajectories

DISC = cv.Ball(2, 0.5)
PROBLEM = Problem(1, DISC, lambda o: o[..., :0])
ENVIRONMENTS = 8
SMALL = {"hidden": (16, 16), "rollout": 32, "minibatches": 4, "epochs": 4, "learning_rate": 3e-3, "final_rate": 1.0}


def learner_of(**changes):
    method = METHODS["PPO+CVFlow"]
    map_ = cv.make_map("orb", DISC, cv.Uniform(0, -1, 1))
    settings = method.configure({**SMALL, **changes})
    return Learner(method, settings, PROBLEM, map_, environments=ENVIRONMENTS)


def step(learner, observation, reward_of, following, *, terminal=0.0, ended=False):
    """One step of every environment, of which the probe says what it pays and where it leads."""
    acted = learner.explore(observation)
    n = len(observation)
    reward = np.asarray(reward_of(acted.action), np.float32)
    flags = np.full(n, terminal, np.float32), np.full(n, ended)
    learner.add(Steps(observation, acted, acted.action, np.zeros(n, bool), reward, following, *flags))
    learner.learn()


def constant(value):
    return np.full((ENVIRONMENTS, 1), value, np.float32)


def test_a_bandit_is_solved():
    """One step, reward -‖a - g‖²: the mean action goes to g."""
    goal, learner = np.array([0.2, -0.3]), learner_of()
    for _ in range(32 * 40):
        step(learner, constant(0.5), lambda a: -np.sum((a - goal) ** 2, axis=1), constant(0.5), terminal=1, ended=True)
    acted = learner.decide(constant(0.5))
    np.testing.assert_allclose(acted.action[0], goal, atol=0.05)
    assert acted.largest[0] <= 1e-6


def test_values_look_beyond_a_cut_and_not_beyond_an_end():
    """A reward of 1 at every step is worth 1/(1-γ) where episodes are cut off, 1 where they end at once."""
    for terminal, expected in ((0.0, 10.0), (1.0, 1.0)):
        learner = learner_of(discount=0.9, normalise_rewards=False, learning_rate=1e-2)
        for _ in range(32 * 60):
            step(learner, constant(0.5), lambda a: np.ones(len(a)), constant(0.5), terminal=terminal, ended=True)
        algorithm = learner.algorithm
        value = algorithm.critic(learner.state.critic, jnp.full((1, 1), 0.5))
        assert float(value[0, 0]) == pytest.approx(expected, rel=0.1)


def test_a_state_tells_what_to_do():
    """The reward's sign depends on the observation; so does the action."""
    learner, rng = learner_of(), np.random.default_rng(0)
    for _ in range(32 * 40):
        seen = rng.choice([-1.0, 1.0], (ENVIRONMENTS, 1)).astype(np.float32)
        step(learner, seen, lambda a, seen=seen: seen[:, 0] * a[:, 0], constant(0.0), terminal=1, ended=True)
    right, left = (float(learner.decide(constant(value)).action[0, 0]) for value in (1.0, -1.0))
    assert right > 0.2
    assert left < -0.2


def test_advantages_are_those_of_a_plain_loop():
    learner, rng = learner_of(discount=0.97, trace=0.9), np.random.default_rng(3)
    steps, n = 12, ENVIRONMENTS
    data = Trajectories(
        rng.normal(size=(steps, n, 1)),
        rng.normal(size=(steps, n, 2)),
        rng.normal(size=(steps, n)),
        rng.normal(size=(steps, n, 1)),
        terminal := (rng.random((steps, n)) < 0.1).astype(float),
        np.maximum(terminal, rng.random((steps, n)) < 0.1),
    )
    algorithm, critic = learner.algorithm, learner.state.critic
    table = Trajectories(*(jnp.asarray(part, jnp.float32) for part in data))
    advantage, target = (
        np.asarray(part).reshape(steps, n) for part in algorithm.advantages(critic, table, table.reward)
    )

    def value(observation):
        return np.asarray(algorithm.critic(critic, jnp.asarray(observation.reshape(-1, 1), jnp.float32)))[:, 0]

    for environment in range(n):
        later = 0.0
        for t in reversed(range(steps)):
            here, following = (value(part[t, environment])[0] for part in (data.observation, data.next_observation))
            end, cut = data.terminal[t, environment], data.ended[t, environment]
            surprise = data.reward[t, environment] + 0.97 * (1 - end) * following - here
            later = surprise + 0.97 * 0.9 * (1 - cut) * later
            assert advantage[t, environment] == pytest.approx(later, abs=1e-4)
            assert target[t, environment] == pytest.approx(later + here, abs=1e-4)


def test_the_ratio_of_latents_is_the_ratio_of_action_densities():
    """π(a|s) = μ(z|s)/|det ∂f/∂z|: the determinant, here by finite differences, cancels in a ratio of policies."""
    learner = learner_of()
    algorithm, map_ = learner.algorithm, learner.map
    rng = np.random.default_rng(0)
    actor = learner.state.actor
    other = actor + 0.1 * jax.random.normal(jax.random.key(1), actor.shape)
    observation = jnp.asarray(rng.normal(size=(20, 1)), jnp.float32)
    latent = jnp.asarray(rng.normal(size=(20, 2)), jnp.float32)
    ratio = jnp.exp(
        algorithm.log_density(other, observation, latent) - algorithm.log_density(actor, observation, latent)
    )
    small = 1e-2

    def action(z):
        return np.asarray(map_.forward(jnp.asarray(z, jnp.float32), jnp.zeros(0))[0], float)

    for index in range(20):
        z = np.asarray(latent[index])
        columns = [(action(z + small * axis) - action(z - small * axis)) / (2 * small) for axis in np.eye(2)]
        log_det = np.log(abs(np.linalg.det(np.stack(columns, axis=1))))
        back = map_.inverse(map_.forward(latent[index], jnp.zeros(0))[0], jnp.zeros(0))
        assert float(back[1]) == pytest.approx(-log_det, abs=2e-2)  # the map's own density agrees
        densities = [
            float(algorithm.log_density(policy, observation[index : index + 1], back[0][None])[0]) - log_det
            for policy in (actor, other)
        ]
        assert np.exp(densities[1] - densities[0]) == pytest.approx(float(ratio[index]), rel=2e-2)


def test_entropy_is_minus_the_divergence_from_the_base():
    """-KL(N(m, σ²) ‖ N(0, 1)), against an average of log-densities."""
    learner = learner_of()
    algorithm = learner.algorithm
    mean, log_std = jnp.asarray([[0.4, -1.0]]), jnp.asarray([[-0.5, 0.3]])
    noise = jax.random.normal(jax.random.key(0), (200_000, 2))
    drawn = mean + jnp.exp(log_std) * noise
    own = -jnp.sum(noise**2 / 2 + log_std, axis=1)
    base = -jnp.sum(drawn**2 / 2, axis=1)
    assert float(algorithm.entropy(mean, log_std)) == pytest.approx(float(jnp.mean(base - own)), abs=0.01)


def test_the_entropy_bonus_fades_over_the_run():
    """None of it is left at the end, nor after it."""
    rng = np.random.default_rng(5)

    def learned(weight, left, done, fading=1.0):
        learner = learner_of(entropy_weight=weight, final_entropy=left, epochs=1, fading=fading)
        rollouts = learner.algorithm.rollouts
        state = learner.state._replace(updates=jnp.asarray(round(done * rollouts), jnp.int32))
        found, _ = learner.algorithm.learn(state, learner.frozen, data, draws)
        return np.asarray(found.actor)

    shape = (32, ENVIRONMENTS)
    parts = [rng.normal(size=(*shape, *rest)).astype(np.float32) for rest in ((1,), (2,), (), (1,), (), ())]
    data = Trajectories(*parts[:4], *(np.zeros(shape, np.float32) for _ in range(2)))
    draws = learner_of(epochs=1).algorithm.draw(rng, data)
    without = learned(0.0, 1.0, 0)
    np.testing.assert_allclose(learned(0.5, 0.0, 2), without, atol=1e-6)
    np.testing.assert_allclose(learned(0.5, 0.2, 0.5), learned(0.3, 1.0, 0.5), atol=1e-5)
    np.testing.assert_allclose(learned(0.5, 0.0, 0.5, fading=0.5), without, atol=1e-6)
    assert np.abs(learned(0.5, 0.0, 0) - without).max() > 1e-4


def test_running_moments_are_those_of_all_samples():
    rng = np.random.default_rng(0)
    parts = [rng.normal(3, 2, (size, 2)).astype(np.float32) for size in (10, 1, 200)]
    moments = Moments(jnp.zeros(2), jnp.ones(2), jnp.zeros(()))
    for part in parts:
        moments = moments.updated(jnp.asarray(part))
    whole = np.concatenate(parts)
    np.testing.assert_allclose(moments.mean, whole.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(moments.variance, whole.var(axis=0), rtol=1e-4)


def test_updates_stop_where_the_policy_has_moved_too_far():
    """With a bound on the divergence, a large rate changes the policy less."""
    moved = {}
    for bound in (None, 1e-3):
        learner = learner_of(learning_rate=0.05, target_kl=bound)
        before = np.asarray(learner.state.actor)
        for _ in range(32):
            step(learner, constant(0.5), lambda a: a[:, 0], constant(0.5), terminal=1, ended=True)
        moved[bound] = float(np.abs(np.asarray(learner.state.actor) - before)[2:].max())
    assert 0 < moved[1e-3] < moved[None] / 2


def test_observations_are_seen_relative_to_their_running_mean_and_spread():
    learner, rng = learner_of(), np.random.default_rng(0)
    seen = []
    for _ in range(64):
        observation = rng.normal(100, 5, (ENVIRONMENTS, 1)).astype(np.float32)
        seen.append(observation)
        step(learner, observation, lambda a: a[:, 0], observation, terminal=1, ended=True)
    every = np.concatenate(seen)
    assert float(learner.state.actor[0]) == pytest.approx(every.mean(), rel=1e-4)
    assert float(learner.state.actor[1]) == pytest.approx(1 / every.std(), rel=1e-3)


def test_with_executed_actions_what_replaced_a_draw_is_learned_from():
    """PPO keeps the draw; PPO+Projection keeps what was executed, where that was another action."""
    for name in ("PPO", "PPO+Projection"):
        method = METHODS[name]
        learner = Learner(method, method.configure(SMALL), PROBLEM, environments=ENVIRONMENTS)
        acted = learner.explore(constant(0.5))
        np.testing.assert_allclose(acted.action, np.clip(acted.latent, -1, 1))
        replaced = np.arange(ENVIRONMENTS) % 2 == 0
        executed = np.where(replaced[:, None], 0.25, acted.action).astype(np.float32)
        nothing = np.zeros(ENVIRONMENTS, np.float32)
        learner.add(Steps(constant(0.5), acted, executed, replaced, nothing, constant(0.5), nothing, nothing > 0))
        kept = learner.experience.data.latent[0]
        np.testing.assert_array_equal(kept[~replaced], acted.latent[~replaced])
        np.testing.assert_array_equal(kept[replaced], acted.latent[replaced] if name == "PPO" else executed[replaced])


def test_the_ray_mask_scales_the_box_onto_the_set():
    """Stolz et al.: a point at share s of the way to the edge of the box goes to share s in the set."""
    map_ = cv.make_map(METHODS["PPO+RayMask"].map, DISC, cv.Uniform(0, -1, 1))
    for latent in ([0.3, -0.9], [2.0, 0.1], [-0.2, -0.2]):
        action, _ = map_.forward(jnp.asarray(latent), jnp.zeros(0))
        box = np.tanh(latent)
        direction = box / np.linalg.norm(box)
        share = np.abs(box).max()
        np.testing.assert_allclose(action, share * 0.5 * direction, atol=1e-5)


@pytest.mark.optimised
@pytest.mark.thorough
def test_learns_the_ball_in_seconds():
    """The best policy that sees the noisy target gets 69; staying in the middle, 53."""
    task = cv.task("Ball1D").learn(episodes=100, self_test=0).task
    agent = cv.Agent("PPO+CVFlow", task, seed=3)
    agent.learn(80_000, progress=False)
    figures = agent.evaluate(20)
    assert figures["return"] > 64
    assert figures["cv_count"] == figures["left_percent"] == 0
    assert sum(episode.violations + episode.left for episode in agent.episodes) == 0
