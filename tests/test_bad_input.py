"""Every mistake is a sentence, said before the first step."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import BALL, ROWS, constraints, draw, objective

import tightrope as tr
from tightrope._limits import refuse_points_beyond_memory

RAN = []


def spied(x, theta):
    """The objective; notes when it is run on numbers and not merely traced."""
    jax.debug.callback(lambda _: RAN.append(1), x)
    return objective(x, theta)


def call(problem=None, data: Any = ROWS, objective=spied, constraints=constraints, domain: Any = BALL, **options):
    RAN.clear()
    made = {k: options.pop(k) for k in ("levels", "names", "params", "exact_constraints") if k in options}
    problem = tr.Problem(objective, constraints, domain, **made) if problem is None else problem
    settings = {"method": "csoa", "steps": 3} | options
    return tr.minimize(problem, data, **settings)


def test_the_good_call_works_and_the_spy_sees_it():
    call()
    jax.effects_barrier()
    assert RAN


NAN, INF = ROWS.copy(), ROWS.copy()
NAN[5, 1], INF[7, 0] = np.nan, np.inf
POLYTOPE = tr.Polytope(np.vstack([np.eye(3), -np.eye(3)]), np.ones(6))


@tr.pytree
class NoLmo(tr.ConvexSet):
    """A ball that can only project."""

    def project(self, x):
        return BALL.project(x)

    @property
    def diameter(self):
        return BALL.diameter

    def contains(self, x, tol=None):
        return BALL.contains(x, tol)

    def start(self, dtype=None):
        return BALL.start(dtype)


@tr.pytree
class NeedsExact(tr.CSOA):
    needs = frozenset({"project", "exact_constraints"})


TABLE: dict[str, tuple[dict[str, Any], type[Exception], list[str]]] = {
    # shapes
    "a constraint that returns a scalar": ({"constraints": lambda x, t: x[0]}, ValueError, ["scalar", "h[None]"]),
    "a constraint that returns a matrix": ({"constraints": lambda x, t: jnp.eye(3)}, ValueError, ["shape (3, 3)"]),
    "a constraint that returns a list": ({"constraints": lambda x, t: [x[0], x[1]]}, ValueError, ["a list", "vector"]),
    "a vector objective": ({"objective": lambda x, t: x - t}, ValueError, ["shape (3,)", "scalar", "ONE sample"]),
    "an objective that returns nothing": ({"objective": lambda x, t: None}, ValueError, ["NoneType", "scalar"]),
    "x and theta that do not fit": ({"data": np.ones((9, 4))}, ValueError, ["objective fails", "(3,), (4,)"]),
    "an objective without theta": ({"objective": lambda x: x[0]}, ValueError, ["objective fails"]),
    "an objective of whole numbers": ({"objective": lambda x, t: jnp.asarray(3)}, TypeError, ["int", "no gradient"]),
    "an objective of truth values": ({"objective": lambda x, t: x[0] > 0}, TypeError, ["bool", "no gradient"]),
    "a complex objective": ({"objective": lambda x, t: 1j * x[0]}, TypeError, ["complex", "no gradient"]),
    "a constraint of whole numbers": ({"constraints": lambda x, t: jnp.array([1])}, TypeError, ["no gradient"]),
    "levels beyond all floats": ({"levels": 10**400}, ValueError, ["levels is not a number", "too large"]),
    "a warm start of another type": ({"warm_start": 3}, TypeError, ["warm_start is 3", "Result of an earlier run"]),
    "a checkpoint that is no path": ({"checkpoint": 3}, TypeError, ["checkpoint is 3", "path of a file"]),
    "a callback that is none": ({"callback": 3}, TypeError, ["callback is 3", "function of a Snapshot"]),
    "a track that is none": ({"track": 3}, TypeError, ["track is 3", "dict of numbers"]),
    "a time limit in words": ({"time_limit": "soon"}, ValueError, ["time_limit is 'soon'", "positive number"]),
    "a trace of more rows than memory has": ({"record": 10**9}, ValueError, ["record is 1000000000", "at most"]),
    "more passes than can be counted": ({"steps": None, "passes": 2**31}, ValueError, ["fewer than 2^31"]),
    "a feasible point that is not finite": (
        {"output": "feasible", "feasible_point": np.full(3, np.nan)},
        ValueError,
        ["feasible_point has NaN"],
    ),
    "a feasible point of another shape": (
        {"output": "feasible", "feasible_point": np.zeros(4)},
        ValueError,
        ["feasible_point has shape (4,)", "expected (3,)"],
    ),
    "a complex starting point": ({"x0": np.zeros(3) + 1j}, TypeError, ["x0 is", "real numbers"]),
    "a starting point in words": ({"x0": "here"}, TypeError, ["x0 is 'here'", "real numbers"]),
    "lists in the place of arrays": ({"data": [[1.0, 2.0, 3.0]] * 2}, ValueError, ["np.array(data)"]),
    "levels of the wrong length": ({"levels": (0.1, 0.2, 0.3)}, ValueError, ["levels has 3 values for 2"]),
    "levels of too many axes": ({"levels": np.ones((2, 2))}, ValueError, ["levels has shape (2, 2)"]),
    "levels that are not finite": ({"levels": np.nan}, ValueError, ["levels is nan"]),
    "names of the wrong length": ({"names": ("a",)}, ValueError, ["names has 1 entries for 2"]),
    "names that are one string": ({"names": "ab"}, TypeError, ["list of strings"]),
    "names that repeat": ({"names": ("a", "a")}, ValueError, ["another column"]),
    "names of columns": ({"names": ("a", "objective")}, ValueError, ["'objective'", "another column"]),
    "a name that is another's multiplier": ({"names": ("a", "dual a")}, ValueError, ["'dual a'", "another column"]),
    "exact constraints of another number": (
        {"exact_constraints": lambda x: x},
        ValueError,
        ["constraints returns 2 values and exact_constraints 3"],
    ),
    # the problem
    "a problem that is none": ({"problem": objective}, TypeError, ["expected a tightrope.Problem"]),
    "an objective that is no function": ({"objective": 3.0}, TypeError, ["objective is 3.0", "function"]),
    "constraints that are no function": ({"constraints": 3.0}, TypeError, ["constraints is 3.0", "or None"]),
    "a domain that is none": ({"domain": "ball"}, TypeError, ["convex set", "tr.L2Ball"]),
    "a domain without a shape": ({"domain": tr.L2Ball(2.0)}, ValueError, ["does not know the shape", "x0"]),
    # data
    "NaN data": ({"data": NAN}, ValueError, ["NaN or infinite", "row 5"]),
    "infinite data": ({"data": INF}, ValueError, ["NaN or infinite", "row 7"]),
    "data of unequal lengths": ({"data": (ROWS, np.ones(36))}, ValueError, ["36, 37 rows", "same number"]),
    "an empty data set": ({"data": np.zeros((0, 3))}, ValueError, ["no rows"]),
    "no data at all": ({"data": ()}, ValueError, ["data is empty"]),
    "a single number": ({"data": 3.0}, ValueError, ["single number"]),
    "text": ({"data": np.array(["a", "b"])}, TypeError, ["Encode text"]),
    "a function": ({"data": draw}, TypeError, ["tr.Generator", "tr.Stream"]),
    "an iterator": ({"data": iter([ROWS])}, TypeError, ["tr.Stream"]),
    "a generator that is no function": ({"data": lambda: tr.Generator(3)}, TypeError, ["function of a random key"]),  # pyright: ignore
    "an empty stream": ({"data": lambda: tr.Stream([])}, ValueError, ["stream is empty"]),
    "a stream of other shapes": ({"data": lambda: tr.Stream([np.ones((5, 4))])}, ValueError, ["objective fails"]),
    # how long
    "a batch larger than the data": ({"batch_size": 38}, ValueError, ["38", "37 rows", "replace=True"]),
    "a batch of none": ({"batch_size": 0}, ValueError, ["batch_size is 0"]),
    "a batch of three sizes": ({"batch_size": (1, 2, 3)}, ValueError, ["a pair"]),
    "no steps": ({"steps": 0}, ValueError, ["steps is 0", "at least 1"]),
    "negative steps": ({"steps": -5}, ValueError, ["steps is -5"]),
    "a fraction of a step": ({"steps": 2.5}, ValueError, ["steps is 2.5", "whole number"]),
    "too many steps": ({"steps": 2**31}, ValueError, ["fewer than 2^31"]),
    "steps and passes": ({"passes": 1}, ValueError, ["either steps or passes"]),
    "neither steps nor passes": ({"steps": None}, ValueError, ["either steps or passes"]),
    "no passes": ({"steps": None, "passes": 0}, ValueError, ["passes is 0"]),
    "passes on a generator": ({"steps": None, "passes": 1, "data": tr.Generator(draw)}, ValueError, ["give steps"]),
    # coefficients and methods
    "a negative coefficient": ({"method": lambda: tr.CSOA(eta0=-1.0)}, ValueError, ["CSOA: eta0 is -1.0"]),
    "a NaN coefficient": ({"method": lambda: tr.CSOA(delta=np.nan)}, ValueError, ["delta is nan", "finite"]),
    "an infinite coefficient": ({"method": lambda: tr.FWCSOA(rho0=np.inf)}, ValueError, ["FWCSOA: rho0 is inf"]),
    "a coefficient in words": ({"method": lambda: tr.CSOA(eta0="big")}, TypeError, ["eta0 is 'big'"]),
    "an unknown schedule": ({"method": lambda: tr.FWCSOA(schedule="fast")}, ValueError, ["'fast'", "two_scale"]),  # pyright: ignore[reportArgumentType]
    "multipliers wiped out": ({"method": tr.CSOA(eta0=10.0, delta=0.5)}, ValueError, ["eta^2 delta", "less than 1"]),
    "a grid": ({"method": tr.CSOA(eta0=np.array([1.0, 2.0]))}, ValueError, ["eta0 has several values", "tr.sweep"]),
    "a misspelt method": ({"method": "csoaa"}, ValueError, ["'csoaa'", 'Did you mean "csoa"?']),
    "an unknown method": ({"method": "zzz"}, ValueError, ["expected auto, ", "csoa", "fw-csoa"]),
    "a class for a method": ({"method": tr.CSOA}, ValueError, ["method object"]),
    "a method without its projection": ({"domain": POLYTOPE}, TypeError, ["needs a projection", "fw-csoa"]),
    "a method without its lmo": ({"domain": NoLmo(), "method": "fw-csoa"}, TypeError, ["linear minimisation", "csoa"]),
    "a method without exact constraints": ({"method": NeedsExact()}, TypeError, ["exact_constraints"]),
    # where to start, and the rest
    "x0 of another shape": ({"x0": np.zeros(4)}, ValueError, ["x0 has shape (4,)", "expected (3,)"]),
    "x0 with NaN": ({"x0": np.array([0.0, np.nan, 0.0])}, ValueError, ["x0 has NaN"]),
    "x0 outside a set without projection": (
        {"x0": np.full(3, 9.0), "domain": POLYTOPE, "method": "fw-csoa"},
        ValueError,
        ["x0 is outside the domain Polytope", "no projection"],
    ),
    "x0 outside": ({"x0": np.full(3, 9.0)}, UserWarning, ["x0 is outside the domain L2Ball", "projection"]),
    "a seed in words": ({"seed": "zero"}, ValueError, ["seed is 'zero'"]),
    "a negative seed": ({"seed": -1}, ValueError, ["seed is -1"]),
    "a fraction of a seed": ({"seed": 0.5}, ValueError, ["seed is 0.5"]),
    "an unknown output": ({"output": "best"}, ValueError, ["'best'", '"average"']),
    "a negative record": ({"record": -1}, ValueError, ["record is -1"]),
    "a time limit of nothing": ({"time_limit": 0}, ValueError, ["time_limit is 0"]),
    "a chunk of nothing": ({"chunk": 0}, ValueError, ["chunk is 0"]),
    "a checkpoint every no steps": ({"checkpoint_every": 0}, ValueError, ["checkpoint_every is 0"]),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_mistake_is_a_sentence_before_the_first_step(name):
    options, error, words = TABLE[name]
    expect = pytest.warns(error) if issubclass(error, Warning) else pytest.raises(error)
    with expect as caught:
        # what fails when it is made is made here
        made = {k: v() if callable(v) and k in ("data", "method") and _is_maker(v) else v for k, v in options.items()}
        call(**made)
    said = str(caught[0].message if isinstance(caught, pytest.WarningsRecorder) else caught.value)
    assert all(word in said for word in words), said
    assert said[-1] in ".?" or "fails on" in said
    if not issubclass(error, Warning):
        jax.effects_barrier()
        assert not RAN


def _is_maker(value):
    return getattr(value, "__name__", "") == "<lambda>"


def test_points_that_fit_into_no_memory_are_refused_with_their_size():
    with pytest.raises(ValueError, match="281,474,976,710,656 coordinates, 2,097,152 GiB each"):
        refuse_points_beyond_memory(jax.ShapeDtypeStruct((2**48,), np.float64))


def test_x0_outside_starts_at_its_projection():
    with pytest.warns(UserWarning, match="outside"):
        result = call(x0=np.full(3, 9.0), steps=1)
    np.testing.assert_allclose(result.average, np.full(3, 2 / np.sqrt(3)))


def test_a_batch_larger_than_the_data_is_fine_with_replacement():
    assert call(data=tr.Rows(ROWS, replace=True), batch_size=38).cost.samples == 3 * 38


def test_a_stream_that_ends_early_is_a_status():
    result = call(data=tr.Stream([ROWS]), steps=100)
    assert result.status is tr.Status.STREAM_ENDED
    assert result.cost.steps == 37
