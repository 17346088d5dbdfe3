"""Learners: values and policies that are known, densities by change of variables, and the same numbers every time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cases import map_case
from cvflows.agents.decoders import BoxDecoder, MapDecoder
from cvflows.agents.experience import Table
from cvflows.agents.exploring import Exploration
from cvflows.agents.learner import Learner
from cvflows.agents.methods import METHODS, Method
from cvflows.agents.networks import Perceptron
from cvflows.agents.offpolicy import Batch, values
from cvflows.agents.problem import Problem
from cvflows.agents.sac import SAC

SMALL = {"hidden": (32, 32), "batch": 64, "learning_rate": 3e-3, "tau": 0.05, "learning_starts": 0}
BOX = Problem(1, cv.Box(1), lambda o: o[..., :0])
BOXED = ("SAC", "TD3", "DDPG")


def learner_of(name, problem=BOX, map_=None, seed=0, **changes):
    method = METHODS[name] if isinstance(name, str) else name
    return Learner(method, method.configure({**SMALL, **changes}), problem, map_, seed=seed)


def update(learner, batches, rng):
    """Learn from batches of rows (count, batch, width)."""
    learner.rng = rng
    return learner.update(batches)


def rows(observation, taken, reward, following, terminal):
    parts = (observation, taken, reward, following, terminal)
    return np.concatenate([np.asarray(part, np.float32).reshape(len(observation), -1) for part in parts], axis=1)


def train(learner, draw, updates=400, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(updates // 10):
        update(learner, np.stack([draw(rng).astype(np.float32) for _ in range(10)]), rng)


def value(learner, observation, taken):
    critic, parameters = learner.algorithm.critic, learner.state.critics
    found = values(critic, parameters, jnp.asarray([[observation]]), jnp.asarray([[taken]]))
    return float(min(entry[0] for entry in found))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", BOXED)
def test_a_last_reward_is_its_value(name, precision):
    learner = learner_of(name, precision=precision)

    def draw(rng):
        o, a = rng.uniform(-1, 1, (2, 64))
        return rows(o, a, np.sign(o), o, np.ones(64))

    train(learner, draw, 800)
    assert value(learner, 0.8, 0.0) == pytest.approx(1.0, abs=0.15)
    assert value(learner, -0.8, 0.0) == pytest.approx(-1.0, abs=0.15)


@pytest.mark.parametrize("name", ["TD3", "DDPG"])
def test_a_reward_one_step_ahead_is_discounted(name):
    """Observation -1 leads to 1, which pays 1 and ends: worth 0.99 and 1."""
    learner = learner_of(name)

    def draw(rng):
        o = rng.choice([-1.0, 1.0], 64)
        return rows(o, rng.uniform(-1, 1, 64), (o > 0) * 1.0, np.ones(64), o > 0)

    train(learner, draw, 800)
    assert value(learner, 1.0, 0.0) == pytest.approx(1.0, abs=0.05)
    assert value(learner, -1.0, 0.0) == pytest.approx(0.99, abs=0.06)


@pytest.mark.parametrize("name", BOXED)
def test_the_policy_finds_the_best_action(name):
    """The reward -(a - o/2)² is best at a = o/2."""
    learner = learner_of(name)

    def draw(rng):
        o, a = rng.uniform(-1, 1, (2, 64))
        return rows(o, a, -4 * (a - o / 2) ** 2, o, np.ones(64))

    train(learner, draw, 2000)
    for o in (-0.8, 0.0, 0.8):
        acted = learner.decide(np.array([[o]], np.float32))
        assert float(acted.action[0, 0]) == pytest.approx(o / 2, abs=0.12)


DISC = cv.task("R+L2").constraint


@pytest.fixture(scope="module")
def disc_map():
    return cv.make_map("gauge", DISC, cv.Uniform(0, -1, 1), splines=False)


@pytest.mark.parametrize("name", ["SAC+CVFlow", "DDPG+CVFlow"])
def test_a_policy_in_the_latent_finds_the_best_allowed_action(name, disc_map):
    """Reward along the first action: best at the right end of the disc, seen through latents or executed actions."""
    problem = Problem(1, DISC, lambda o: o[..., :0])
    learner = learner_of(name, problem, disc_map)
    decoder = learner.algorithm.decoder
    act = jax.jit(lambda o, noise: decoder.act(learner.frozen, decoder.random(noise), o))

    def draw(rng):
        o = rng.uniform(-1, 1, (64, 1)).astype(np.float32)
        noise = rng.standard_normal((64, 2), np.float32)
        acted = act(o, noise)
        taken = acted.latent if name.startswith("SAC") else acted.action
        return rows(o, taken, 20 * np.asarray(acted.action[:, 0]), o, np.ones(64))

    train(learner, draw, 1500)
    acted = learner.decide(np.zeros((1, 1), np.float32))
    radius = DISC.radius
    assert float(acted.largest[0]) <= 1e-6
    assert float(acted.action[0, 0]) > 0.8 * radius


def test_entropy_terms_are_what_they_say(disc_map):
    """`prior` adds ‖â‖²/2 to log μ; `exact` is the density of the action, by the determinant of its Jacobian."""
    problem = Problem(1, DISC, lambda o: o[..., :0])
    observation, noise = jnp.asarray([[0.3]]), jax.random.normal(jax.random.key(4), (1, 2))
    found = {}
    for entropy in ("plain", "prior", "exact"):
        learner = learner_of("SAC+CVFlow", problem, disc_map, entropy=entropy)
        output = learner.algorithm.actor(learner.state.actor, observation)
        latent, density = learner.algorithm.sample(output, learner.frozen, observation, noise)
        found[entropy] = float(density[0])
    latent = latent[0]
    jacobian = jax.jacobian(lambda z: disc_map.forward(z, jnp.zeros(0))[0])(latent)
    assert found["prior"] - found["plain"] == pytest.approx(float(latent @ latent) / 2, abs=1e-5)
    log_det = float(jnp.linalg.slogdet(jacobian)[1])
    assert found["exact"] - found["plain"] == pytest.approx(-log_det, abs=1e-3)


def test_squashed_density_integrates_to_one():
    learner = learner_of("SAC")
    rule, observation = learner.algorithm, jnp.full((4000, 1), 0.2)
    noise = jax.random.normal(jax.random.key(0), (4000, 1))
    action, density = rule.sample(rule.actor(learner.state.actor, observation), [], observation, noise)
    counts, edges = np.histogram(np.asarray(action[:, 0]), 20, (-1, 1), density=True)
    middle = (edges[1:] + edges[:-1]) / 2
    order = np.argsort(np.asarray(action[:, 0]))
    expected = np.interp(middle, np.asarray(action[:, 0])[order], np.exp(np.asarray(density))[order])
    np.testing.assert_allclose(counts[2:-2], expected[2:-2], atol=0.12)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("activation", ["relu", "tanh", "elu", "silu"])
def test_networks_agree_on_host_and_device(activation, layer_norm):
    rng, network = np.random.default_rng(0), Perceptron((3, 8, 8, 2), activation, layer_norm, input_clip=4.0, free=2)
    parameters, x = network.init(rng), jnp.asarray(rng.normal(2, [1, 5, 0.1], (50, 3)), jnp.float32)
    assert network(parameters, x).shape == (50, 4)
    on_host = network.on_host(np.asarray(parameters), np.asarray(x))
    np.testing.assert_allclose(network(parameters, x), on_host, atol=1e-5)


def test_networks_see_standardised_inputs():
    rng, network = np.random.default_rng(0), Perceptron((3, 8, 2))
    parameters, x = network.init(rng), jnp.asarray(rng.normal(2, [1, 5, 0.1], (50, 3)), jnp.float32)
    changed = network.standardised(parameters, np.asarray(x[:, :2]))
    seen = np.asarray(x)
    z = np.concatenate([(seen[:, :2] - seen[:, :2].mean(axis=0)) / seen[:, :2].std(axis=0), seen[:, 2:]], axis=1)
    np.testing.assert_allclose(network(changed, x), network(parameters, jnp.asarray(z)), atol=1e-4)
    slope = jax.grad(lambda parameters: jnp.sum(network(parameters, x)))(changed)
    assert not np.any(slope[:6])
    assert np.any(slope[6:])


def test_orthogonal_weights_are_orthogonal():
    network = Perceptron((4, 8, 2), "tanh")
    parameters = np.asarray(network.init_orthogonal(np.random.default_rng(0), last=0.5))
    first, last = parameters[8:40].reshape(4, 8), parameters[48:64].reshape(8, 2)
    np.testing.assert_allclose(first @ first.T, 2 * np.eye(4), atol=1e-5)
    np.testing.assert_allclose(last.T @ last, 0.25 * np.eye(2), atol=1e-5)


def test_the_same_numbers_every_time_and_in_one_call_or_many():
    rng = np.random.default_rng(0)
    batches = rng.uniform(-1, 1, (4, 64, 5)).astype(np.float32)
    together, apart, other = (learner_of("SAC", seed=seed) for seed in (0, 0, 1))
    update(together, batches, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    for batch in batches:
        update(apart, batch[None], rng)
    first, second, third = (np.asarray(learner.state.actor) for learner in (together, apart, other))
    np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)
    assert not np.array_equal(first, third)
    o = jnp.zeros((1, 1))
    output = together.algorithm.actor(together.state.actor, o)
    chosen = [together.algorithm.choose(output, [], o, jnp.full((1, 1), noise)) for noise in (1.0, 1.0, -1.0)]
    one, same, other = (float(acted.action[0, 0]) for acted in chosen)
    assert one == same != other


def test_exploration_is_normal_and_correlated_within_an_episode():
    rng, exploration = np.random.default_rng(0), Exploration(1000, 1, correlation=0.8)
    first = exploration.draw(rng)[:, 0]
    for _ in range(5):
        before, after = first, exploration.draw(rng)[:, 0]
        assert np.corrcoef(before, after)[0, 1] == pytest.approx(0.8, abs=0.06)
        assert after.std() == pytest.approx(1, abs=0.08)
        first = after
    exploration.restart(3)
    assert abs(np.corrcoef(first, exploration.draw(rng)[:, 0])[0, 1]) > 0.7
    alone = Exploration(1, 1, correlation=1.0)
    held = [float(alone.draw(rng)[0, 0]) for _ in range(3)]
    alone.restart(0)
    assert held[0] == held[1] == held[2] != float(alone.draw(rng)[0, 0])


@pytest.mark.parametrize("name", ["SAC+CVFlow", "DDPG+CVFlow", "PPO+CVFlow"])
def test_many_observations_are_decided_as_each_alone(name, disc_map):
    """Few observations are computed on the host, many in a compiled function."""
    problem = Problem(3, DISC, lambda o: o[..., :0])
    method = METHODS[name]
    learner = Learner(method, method.configure({"hidden": (16, 16)}), problem, disc_map)
    observations = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    together = learner.decide(observations)
    for index in range(20):
        alone = learner.decide(observations[index : index + 1])
        np.testing.assert_allclose(alone.action[0], together.action[index], atol=1e-6)
        np.testing.assert_allclose(alone.latent[0], together.latent[index], atol=1e-5)


def test_a_map_where_the_method_needs_one():
    with pytest.raises(ValueError, match="`map_`: expected a map"):
        learner_of("SAC+CVFlow")
    with pytest.raises(ValueError, match="`map_`: expected None"):
        learner_of("SAC", map_=map_case("orb R+L2").map)


@pytest.mark.parametrize(
    "parts", [("sac", MapDecoder), (SAC, "mapp"), (MapDecoder, SAC), (SAC, BoxDecoder, "", {"entropi": "prior"})]
)
def test_what_is_no_method_cannot_be_built(parts):
    with pytest.raises((ValueError, LookupError)):
        Method("trial", *parts)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("learning_rate", float("nan"), r"`learning_rate`: expected a number in \(0, 1\], got nan"),
        ("batch", 0, r"`batch`: expected a whole number in \[1, 1e\+06\], got 0"),
        ("discount", 5, "`discount`"),
        ("tau", -1, "`tau`"),
        ("hidden", "64,x", "`hidden`: expected whole numbers as in 64,64"),
        ("hidden", (), "`hidden`"),
        ("standardise", 3, "`standardise`: expected true or false"),
        ("train_every", 0, "`train_every`: expected a whole number ≥ 1, or none"),
        ("buffer", 10**30, "`buffer`"),
        ("entropy", "prir", "unknown entropy 'prir': did you mean 'prior'"),
        ("learning_rat", 1, "unknown setting 'learning_rat': did you mean 'learning_rate'"),
    ],
)
def test_settings_are_checked_by_name(name, value, message):
    with pytest.raises((ValueError, LookupError), match=message):
        METHODS["SAC+CVFlow"].configure({name: value})


def test_numbers_beyond_all_bounds_are_refused_by_name():
    for name, value, message in (
        ("learning_rate", 10**400, "`learning_rate`: expected a number"),
        ("batch", 10**400, "`batch`: expected a whole number"),
        ("hidden", (10**5000,), "`hidden`: expected whole numbers .* that cannot be printed"),
        ("standardise", 10**5000, "`standardise`: expected true or false"),
        ("entropy", 10**5000, "unknown entropy 'a number of thousands of digits'"),
    ):
        with pytest.raises((ValueError, LookupError), match=message):
            METHODS["SAC+CVFlow"].configure({name: value})


def test_settings_are_read_from_text():
    text = {"hidden": "64,32", "learning_rate": "1e-3", "target_entropy": "none", "standardise": "true", "batch": "1e3"}
    found = METHODS["SAC+CVFlow"].configure({**text, "entropy": "exact"})
    assert (found.hidden, found.learning_rate, found.target_entropy) == ((64, 32), 1e-3, None)
    assert (found.standardise, found.batch, found.entropy) == (True, 1000, "exact")
    assert found.differences(found.changed({"batch": 7})) == {"batch": 1000}


def test_replay_overwrites_the_oldest_and_draws_from_what_is_there():
    replay = Table(5, 2)
    replay.add(np.arange(6.0).reshape(3, 2))
    assert set(replay.sample(np.random.default_rng(0), (50,))[:, 0]) == {0.0, 2.0, 4.0}
    replay.add(np.arange(6.0, 14.0).reshape(4, 2))
    assert len(replay) == 5
    assert sorted(replay.rows[:, 0]) == [4.0, 6.0, 8.0, 10.0, 12.0]
    batch = Batch.unpack(jnp.arange(14.0).reshape(2, 7), 2)
    np.testing.assert_array_equal(batch.taken[0], [2.0])
    np.testing.assert_array_equal(batch.next_observation[1], [11.0, 12.0])
    assert (float(batch.reward[0]), float(batch.terminal[0])) == (3.0, 6.0)


@pytest.mark.parametrize("name", ["SAC+CVFlow", "PPO+CVFlow", "DDPG+CVFlow", "SAC", "PPO", "ARAM"])
def test_one_decision_in_python_is_the_compiled_one(name):
    """Through a ray map of a power limit, or in the box: the same actions within rounding."""
    task = cv.task("H+O+S")
    method = METHODS[name]
    problem = Problem(task.observation_dim, task.constraint, lambda o: o[..., jnp.asarray([8, 9, 10, 2, 3, 4])])
    map_ = cv.make_map("ray", task.constraint, task.contexts) if method.needs_map else None
    learner = Learner(method, method.configure({"hidden": (16, 16)}), problem, map_)
    seen = np.random.default_rng(0).normal(0, 3, (20, task.observation_dim)).astype(np.float32)
    expected = np.concatenate([learner.decide(row[None]).action for row in seen])
    found = np.stack([learner.decide_alone(row) for row in seen])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=3e-6)
    assert np.unique(found[:, 0]).size == 20
    assert learner.written is not None


def test_what_cannot_be_written_in_python_is_left_to_jax():
    method, problem = METHODS["SAC+CVFlow"], Problem(3, cv.Ball(3, 0.5), lambda o: o[..., :0])
    map_ = cv.make_map("orb", problem.constraint, cv.Uniform(0, -1, 1))  # an incomplete gamma function
    learner = Learner(method, method.configure({"hidden": (16, 16)}), problem, map_)
    assert learner.written is None
    seen = np.array([0.1, 2.0, -1.0], np.float32)
    np.testing.assert_array_equal(learner.decide_alone(seen), learner.decide(seen[None]).action[0])
