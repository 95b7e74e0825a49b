"""Sets as they are written down for a solver: the same set, by linear minimisation and by what lies in it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from set_cases import CASES, Case

import tightrope as tr
from tightrope._errors import MissingOracleError
from tightrope.solvers.programmes import region_of, solve
from tightrope.tree import as_vector, ravel

WITH = [case for case in CASES if case.set.has_conic]


def test_no_set_has_lost_its_description():
    bare = {case.set.name for case in CASES} - {case.set.name for case in WITH}
    assert not bare & {
        "Box",
        "L1Ball",
        "L2Ball",
        "LinfBall",
        "Simplex",
        "Polytope",
        "GroupBall",
        "NuclearBall",
        "Product",
    }
    assert "Spectraplex" not in bare


@pytest.mark.parametrize("case", WITH, ids=lambda c: c.name)
def test_a_linear_function_is_least_where_the_linear_minimisation_says(case: Case):
    x = case.set.start()
    conic, back = case.set.conic(x), ravel(x)[1]
    n = as_vector(x).size
    assert conic.A.shape == (len(conic.b), n)
    assert sum(size for _, size in conic.cones) == len(conic.b)
    centre, rng = (conic.lower + conic.upper) / 2, np.random.default_rng(0)
    region = region_of(conic, centre)
    widths = conic.upper - conic.lower
    for g in rng.normal(size=(3, n)) / np.where(widths > 0, widths, 1.0):
        answer = solve(region, g * region.widths, np.zeros((0, n)), np.zeros(0))
        assert answer is not None
        v = region.point(answer.v)
        least = -float(case.set.support(jax.tree.map(jnp.negative, back(jnp.asarray(g)))))
        assert g @ v == pytest.approx(least, rel=1e-6, abs=1e-6 * max(1.0, np.abs(g) @ np.abs(centre)))
        assert bool(case.set.contains(back(jnp.asarray(v)), 1e-6))
        assert np.all(v >= conic.lower - 1e-6 * region.widths)
        assert np.all(v <= conic.upper + 1e-6 * region.widths)


def test_a_set_without_a_description_says_so():
    @tr.pytree
    class Nameless(tr.L2Ball):
        conic = tr.ConvexSet.conic

    domain = Nameless(1.0, shape=2)
    assert not domain.has_conic
    assert not tr.Product({"a": domain, "b": tr.Simplex(shape=2)}).has_conic
    with pytest.raises(MissingOracleError, match="Nameless has no description"):
        domain.conic(jnp.zeros(2))
    problem = tr.Problem(lambda x, theta: jnp.dot(x, theta), None, domain)
    with pytest.raises(TypeError, match="Nameless has no description for them"):
        tr.minimize(problem, np.ones((5, 2)), method="bundle", passes=3)
