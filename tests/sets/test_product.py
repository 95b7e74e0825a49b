"""A product asks its parts for everything, so that it may hold parts whose points are not vectors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope._errors import MissingOracleError
from tightrope.sets import Box, ConvexSet, L2Ball, NuclearBall, Product
from tightrope.sets.low_rank import LowRankBall

M, N = 7, 5
RNG = np.random.default_rng(0)
FACTORED = Product({"x": LowRankBall(3.0, size=(M, N), rank=N, rounds=N), "b": Box(-1.0, 1.0, shape=2)})
DENSE = Product({"x": NuclearBall(3.0, shape=(M, N), rounds=N), "b": Box(-1.0, 1.0, shape=2)})


def direction():
    return {"x": jnp.asarray(RNG.normal(size=(M, N))), "b": jnp.asarray(RNG.normal(size=2))}


def dense(point):
    return point | {"x": point["x"].dense()}


def assert_close(p, q, atol=1e-10):
    for name in ("x", "b"):
        np.testing.assert_allclose(p[name], q[name], atol=atol)


def test_a_product_overrides_whatever_its_parts_may_decide():
    """A new member of a set is a question for the parts, unless it is about the product as a whole."""
    own = {"name", "_shape", "project_in", "has_metrics"}  # of metrics a product has Euclid's alone
    members = {name for name in vars(ConvexSet) if not name.startswith("__") and not name.startswith("_abc")}
    assert members - own <= set(vars(Product)) | set(Product.__dataclass_fields__)


def test_points_of_a_product_are_vectors_where_all_parts_say_so():
    assert DENSE.additive
    assert not FACTORED.additive
    assert not Product((L2Ball(1.0, shape=2), FACTORED)).additive


@pytest.mark.parametrize("a", [0.0, 0.3, 1.0])
def test_mixtures_and_directions_are_those_of_the_parts(a):
    x, s = (FACTORED.lmo(direction()) for _ in range(2))
    middle = FACTORED.mix(x, s, 0.5)
    for start in (x, middle):
        p, q = dense(start), dense(s)
        assert_close(dense(FACTORED.mix(start, s, a)), DENSE.mix(p, q, a))
        assert_close(dense(FACTORED.between(start, s)), DENSE.between(p, q))
    assert bool(FACTORED.contains(middle))


def test_vertices_supports_and_memories_are_those_of_the_parts():
    g = direction()
    assert_close(dense(FACTORED.lmo(g)), DENSE.lmo(g), atol=1e-8)
    np.testing.assert_allclose(FACTORED.support(g), DENSE.support(g))
    vertex, memory = FACTORED.warm_lmo(g, FACTORED.lmo_memory())
    assert_close(dense(vertex), DENSE.lmo(g), atol=1e-8)
    assert jax.tree.structure(memory) == jax.tree.structure(FACTORED.lmo_memory())


def test_records_say_which_part_they_are_about():
    nested = Product({"a": (NuclearBall(1.0, shape=(4, 3)), L2Ball(1.0, shape=2)), "x": FACTORED})
    memory = nested.lmo_memory()
    record = nested.lmo_record(memory)
    assert list(record) == ["['a'][0] lmo residual", "['x'] ['x'] lmo residual"]
    assert all(float(value) == 1.0 for value in record.values())  # before the first search
    assert Product((L2Ball(1.0), Box(0.0, 1.0))).lmo_record(((), ())) == {}


def test_a_trace_has_the_records_of_every_part():
    def distance(x, theta):
        return sum(jnp.sum((part - 1) ** 2) for part in x)

    balls = Product((NuclearBall(1.0, shape=(4, 3), rounds=3), NuclearBall(1.0, shape=(3, 2), rounds=2)))
    result = tr.minimize(tr.Problem(distance, None, balls), np.zeros(3), method="fw-csoa", steps=20, progress=False)
    for name in ("[0] lmo residual", "[1] lmo residual"):
        assert result.trace[name].between(0, 1e-6).all()


# ---- corrective steps ------------------------------------------------------------------------------------------------


def coupled(product, target):
    """f(x, y) = |x + y - target|^2 / 2 on two matrices, which pulls both to the same place; and a corrective step."""

    def matrix(part):
        return part.dense() if hasattr(part, "dense") else part

    def f(point):
        return jnp.sum((sum(map(matrix, point)) - target) ** 2) / 2

    @jax.jit
    def step(point):
        slope = sum(map(matrix, point)) - target
        g = (slope, slope)
        s = product.lmo(g)

        def line(d):
            whole = sum(map(matrix, d))
            size = jnp.sum(whole**2)
            return jnp.maximum(-jnp.sum(slope * whole), 0) / jnp.where(size == 0, 1, size)

        def alone(i):
            def along(d):
                size = jnp.sum(matrix(d) ** 2)
                return jnp.maximum(-jnp.sum(slope * matrix(d)), 0) / jnp.where(size == 0, 1, size)

            return product.sets[i].corrective(point[i], s[i], slope, along)

        return product.corrective(point, s, g, line), (alone(0), alone(1))

    return f, step


@pytest.mark.parametrize("first", [LowRankBall(4.0, size=(M, N), rank=N, rounds=N), NuclearBall(4.0, shape=(M, N))])
def test_a_corrective_step_is_inside_and_no_worse_than_the_mean_of_its_parts_alone(first):
    product = Product((first, NuclearBall(4.0, shape=(M, N))))
    f, step = coupled(product, jnp.asarray(0.5 * RNG.normal(size=(M, N))))
    x, too_far = product.start(), False
    assert product.has_corrective
    for _ in range(4):
        better, (left, right) = step(x)
        before, after = float(f(x)), float(f(better))
        assert bool(product.contains(better, tol=1e-9))
        assert after <= (f((left, x[1])) + f((x[0], right))) / 2 + 1e-9 <= before + 1e-9
        too_far |= float(f((left, right))) > before
        x = better
    assert too_far  # all parts at once would have gone up somewhere: that is why there is a search along the segment


def test_a_product_is_corrected_only_where_every_part_can_be():
    both = Product({"x": NuclearBall(1.0, shape=(3, 2)), "b": Box(-1.0, 1.0, shape=())})
    assert not both.has_corrective
    x = both.start()
    with pytest.raises(MissingOracleError, match=r"no corrective step.*\['b'\], Box, has none"):
        both.corrective(x, x, x, lambda d: jnp.zeros(()))
