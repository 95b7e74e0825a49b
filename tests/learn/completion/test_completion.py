"""The completion of a matrix, against CVXPY and NumPy.

All matrices are 20 x 15 and mostly observed, so that one program is compiled for all of them.
"""

import dataclasses
import pickle
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import jax
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks

import tightrope as tr
from tightrope._limits import KEPT
from tightrope.files import FileError
from tightrope.learn.completion import estimator as completion
from tightrope.learn.completion import training as completion_training
from tightrope.learn.completion.choice import _Path
from tightrope.learn.completion.page import completion_page
from tightrope.learn.completion.training import SHRINKAGE, Effects, fit_in_turn, never_reached
from tightrope.learn.datasets.structured import entries_of
from tightrope.learn.problems.observed import Observed
from tightrope.result import Status
from tightrope.sets.low_rank import LowRank

M, N = 20, 15
_rng = np.random.default_rng(3)
TRUE = _rng.normal(size=(M, 2)) @ _rng.normal(size=(2, N))
SEEN = _rng.random((M, N)) < 0.6
NOISY = np.where(SEEN, TRUE + 0.1 * _rng.normal(size=(M, N)), np.nan)
STARS = np.where(SEEN, 3 + TRUE + np.linspace(-1, 1, M)[:, None], np.nan)  # with effects of users
ALPHA, BETA = 25.0, 30.0


def model(**parameters: Any) -> Any:
    """With bounds given, unless told otherwise."""
    given: dict[str, Any] = {"nuclear_norm": ALPHA, "unobserved_energy": BETA, "steps": 40} | parameters
    return tr.StructuredMatrixCompletion(**given)


@pytest.fixture(scope="module")
def fitted() -> Any:
    return model().fit(STARS)


def penalised_error(model) -> float:
    """What the turns of effects and completion lower."""
    off = model.transform()[SEEN] - STARS[SEEN]
    return off @ off + SHRINKAGE * (
        model.row_effects_ @ model.row_effects_ + model.column_effects_ @ model.column_effects_
    )


def energy(model, seen=SEEN) -> float:
    left, right = model.factors_
    return float(np.sum((left @ right.T)[~seen] ** 2) / 2)


# ---- the optimum -----------------------------------------------------------------------------------------------------


def test_it_is_cvxpys_optimum_with_its_multiplier():
    X = cp.Variable((M, N))
    inside, outside = SEEN.astype(float), (~SEEN).astype(float)
    target = np.where(SEEN, NOISY, 0.0)
    bound = cp.sum_squares(cp.multiply(outside, X)) / 2 <= BETA
    error = cp.sum_squares(cp.multiply(inside, X) - target) / 2
    problem = cp.Problem(cp.Minimize(error), [cp.normNuc(X) <= ALPHA, bound])
    best = float(problem.solve(solver=cp.SCS, eps=1e-7, max_iters=20_000))  # pyright: ignore[reportArgumentType]
    assert bound.dual_value is not None
    multiplier = np.asarray(bound.dual_value).item()
    assert multiplier > 0.01  # the constraint matters
    found = model(centre=False, steps=400).fit(NOISY)
    left, right = found.factors_
    ours = np.sum((left @ right.T - target)[SEEN] ** 2) / 2
    assert ours == pytest.approx(best, rel=2e-4)
    assert found.dual_ == pytest.approx(multiplier, rel=0.02)
    assert energy(found) <= BETA
    assert np.linalg.svd(left @ right.T, compute_uv=False).sum() <= ALPHA * (1 + 1e-12)
    assert found.result_.objective == pytest.approx(2 * ours / np.sum(target**2), rel=1e-9)
    np.testing.assert_allclose(left @ right.T, np.asarray(X.value), atol=0.05)


def test_a_low_rank_matrix_is_recovered():
    seen = np.random.default_rng(0).random((M, N)) < 0.75
    beta, alpha = np.sum(TRUE[~seen] ** 2) / 2, np.linalg.svd(TRUE, compute_uv=False).sum()
    found = model(nuclear_norm=alpha, unobserved_energy=beta, centre=False, steps=400).fit(np.where(seen, TRUE, np.nan))
    assert np.linalg.norm(found.transform() - TRUE) < 0.05 * np.linalg.norm(TRUE)
    assert energy(found, seen) <= beta


def test_bounds_are_chosen_by_held_out_entries():
    found: Any = tr.StructuredMatrixCompletion(centre=False).fit(np.where(SEEN, TRUE, np.nan))
    assert np.linalg.norm((found.transform() - TRUE)[~SEEN]) < 0.3 * np.linalg.norm(TRUE[~SEEN])
    assert found.held_out_error_ <= 1.001 * found.path_["held_out_error"].min()
    (chosen,) = np.flatnonzero(found.path_["held_out_error"] == found.held_out_error_)
    chosen = found.path_.iloc[chosen]
    assert (chosen["nuclear_norm"], chosen["unobserved_energy"]) == (found.nuclear_norm_, found.unobserved_energy_)
    assert energy(found) <= found.unobserved_energy_
    given: Any = tr.StructuredMatrixCompletion(nuclear_norm=found.nuclear_norm_, steps=40).fit(STARS)
    assert set(given.path_["nuclear_norm"]) == {found.nuclear_norm_}  # only the other bound was chosen
    assert len(given.path_) > 1


def test_a_matrix_of_nothing_but_observed_entries_keeps_any_bound_on_the_others():
    """Noise alone has such completions; the energy of what was not observed is then zero but for rounding."""
    one = np.zeros((M, 1)), np.zeros((N, 1))
    one[0][0], one[1][0] = 1.0, 1.0
    seen = Observed(np.array([0]), np.array([0]), np.array([1.0]), (M, N))
    left, right, _, energy = completion_training._factors(LowRank(one[0], np.ones((1, 1)), one[1]), seen, 1e-30)  # pyright: ignore
    assert energy == 0
    assert np.all(np.isfinite(left @ right.T))


def test_the_page_promises_no_error_of_what_is_handed_out():
    """The error held out is that of other completions, and the smallest of several; the page says so."""
    found: Any = tr.StructuredMatrixCompletion(nuclear_norm=ALPHA, steps=40).fit(STARS)
    said = str(completion_page(found))
    assert f"about the smallest of {len(found.path_)} tried" in said
    assert "of a completion of 90% of the entries; not of this one" in said


def test_of_equal_errors_the_largest_nuclear_norm_is_chosen():
    path = object.__new__(_Path)
    errors = [(2.0, 0.93), (4.0, 0.9008), (8.0, 0.9), (16.0, 0.9008), (32.0, 0.9011)]
    path.rows = [{"nuclear_norm": alpha, "held_out_error": error} for alpha, error in errors]
    assert (path.best(), path._largest_of_the_best()) == (2, 3)


@pytest.mark.parametrize("beta", [1.0, 10.0])
def test_the_bound_holds_as_stored(beta):
    found = model(unobserved_energy=beta, steps=5).fit(STARS)
    assert 0.1 * beta < energy(found) <= beta
    assert found.unobserved_energy_ == beta


# ---- what is subtracted ----------------------------------------------------------------------------------------------


def test_effects_are_a_penalised_least_squares_fit():
    rows, columns = np.nonzero(SEEN)
    values = STARS[SEEN]
    design = np.zeros((len(values), M + N))
    design[np.arange(len(values)), rows] = design[np.arange(len(values)), M + columns] = 1
    penalty = SHRINKAGE * np.eye(M + N)
    best = np.linalg.solve(design.T @ design + penalty, design.T @ (values - values.mean()))
    effects = Effects.fit(Observed(rows, columns, values, (M, N)))
    assert effects.mean == pytest.approx(values.mean())
    np.testing.assert_allclose(np.concatenate([effects.rows, effects.columns]), best, atol=1e-6)


def test_every_turn_lowers_the_penalised_error():
    rows, columns = np.nonzero(SEEN)
    seen = Observed(rows, columns, STARS[SEEN], (M, N))

    def objective(turns):
        options = {"centre": True, "steps": 40 * turns, "start": None, "rank": None}
        effects, made, steps = fit_in_turn(seen, ALPHA, BETA, turns=turns, **options)
        assert steps == 40 * turns
        off = effects.at(rows, columns) + entries_of(made.left, made.right, rows, columns) - seen.values
        return off @ off + SHRINKAGE * (effects.rows @ effects.rows + effects.columns @ effects.columns)

    values = [objective(turns) for turns in (1, 2, 4)]
    assert values[1] < 0.99 * values[0]
    assert values[2] < values[1]


def test_a_turn_ends_when_its_error_has_settled():
    """Means over four steps: 10, 6 and 5.9999, which is about the same; not while a multiplier is being found."""
    for dual, ends in ((0.0, [False, False, False, True]), (0.1, [False] * 4)):
        settled = completion_training._settles()
        said = [
            settled(SimpleNamespace(step=step, row={"objective": mean}, dual=np.array([dual])))
            for step, mean in ((2, 11.0), (4, 10.0), (8, 8.0), (12, (64 + 4 * 5.9999) / 12))
        ]
        assert said == ends
    rows, columns = np.nonzero(SEEN)
    seen = Observed(rows, columns, STARS[SEEN], (M, N))
    errors = {}
    for method in ("auto", "cfw-csoa"):
        options = {"centre": False, "start": None, "rank": None, "method": method}
        _, made, steps = fit_in_turn(seen, ALPHA, never_reached(ALPHA), steps=400, **options, record=60)
        errors[method] = made.result.objective
        assert (steps < 100) == (method == "auto") != (steps == 400)
        assert made.result.status is (tr.Status.SETTLED if method == "auto" else tr.Status.FINISHED)
        assert made.result.pull is None  # nothing of this norm exceeds the bound
    assert errors["auto"] == pytest.approx(errors["cfw-csoa"], rel=1e-2)


def test_without_centring_nothing_is_subtracted():
    found = model(centre=False).fit(NOISY)
    left, right = found.factors_
    np.testing.assert_allclose(found.transform(), left @ right.T)
    assert found.mean_ == 0
    assert not found.row_effects_.any()


def test_an_empty_row_is_predicted_by_the_effects():
    given = STARS.copy()
    given[4], given[:, [2, 9]] = np.nan, np.nan
    with pytest.warns(UserWarning, match="in 1 of 20 rows and 2 of 15 columns;"):
        found = model().fit(given)
    np.testing.assert_array_equal(found.transform(4)[0], found.mean_ + found.column_effects_)
    np.testing.assert_array_equal(found.predict(np.arange(M), 9), found.mean_ + found.row_effects_)
    assert found.row_effects_[4] == 0


# ---- what goes in and comes out --------------------------------------------------------------------------------------


def test_every_kind_of_matrix_gives_the_same(fitted):
    rows, columns = np.nonzero(SEEN)
    values = STARS[SEEN]
    kinds = [
        scipy.sparse.csr_array((values, (rows, columns)), shape=(M, N)),
        scipy.sparse.coo_matrix((values, (rows, columns)), shape=(M, N)),
        (rows, columns, values),
        pd.DataFrame(STARS),
    ]
    for given in kinds:
        np.testing.assert_array_equal(model().fit(given).factors_[0], fitted.factors_[0])
        assert fitted.score(given) == fitted.score(STARS)
    assert model(steps=1).fit(kinds[2], shape=(M, N)).shape_ == (M, N)


def test_predictions_by_hand(fitted):
    left, right = fitted.factors_
    full = fitted.mean_ + fitted.row_effects_[:, None] + fitted.column_effects_[None, :] + left @ right.T
    np.testing.assert_allclose(fitted.transform(), full)
    np.testing.assert_allclose(fitted.transform([3, 0]), full[[3, 0]])
    np.testing.assert_allclose(fitted.predict([[1], [7]], [0, 14, 2]), full[np.ix_([1, 7], [0, 14, 2])])
    assert fitted.predict(2, 3).shape == ()
    assert fitted.score(STARS) == pytest.approx(-np.sqrt(np.mean((full - STARS)[SEEN] ** 2)))
    assert fitted.score(full + 1.0) == pytest.approx(-1.0)  # a matrix that is complete
    np.testing.assert_allclose(np.linalg.svd(left @ right.T, compute_uv=False)[:2], fitted.singular_values_[:2])
    assert fitted.singular_values_.sum() <= ALPHA * (1 + 1e-12)
    assert fitted.n_iter_ == 40
    assert "observed entries" in str(fitted.result_)


def test_float64_whatever_jax_is_set_to(fitted):
    with jax.enable_x64(False):
        again = model().fit(STARS)
    assert again.factors_[0].dtype == again.result_.x.u.dtype == np.float64
    np.testing.assert_array_equal(again.factors_[0], fitted.factors_[0])


# ---- more ratings ----------------------------------------------------------------------------------------------------


def test_partial_fit_reaches_what_fit_finds(fitted):
    later = SEEN & (np.random.default_rng(0).random((M, N)) < 0.3)
    first = np.where(later, np.nan, STARS)
    first[0, np.flatnonzero(SEEN[0])[0]] = 99.0  # a mistake, corrected later
    found = model(steps=80).fit(first)
    correction = np.where(later, STARS, np.nan)
    correction[0, np.flatnonzero(SEEN[0])[0]] = STARS[0, np.flatnonzero(SEEN[0])[0]]
    rows, columns = np.nonzero(~np.isnan(correction))
    found.partial_fit((rows, columns, correction[rows, columns]))
    assert found.n_iter_ == 40
    assert penalised_error(found) < 1.1 * penalised_error(fitted)
    assert energy(found) <= BETA
    for _ in range(2):
        found.partial_fit((rows, columns, correction[rows, columns]))
    assert penalised_error(found) < 1.01 * penalised_error(fitted)
    assert np.std(found.transform() - fitted.transform()) < 0.1 * np.std(fitted.transform())


def test_partial_fit_alone_is_fit(fitted):
    np.testing.assert_array_equal(model().partial_fit(STARS).factors_[0], fitted.factors_[0])


def test_partial_fit_with_new_rows_and_columns(fitted):
    found = pickle.loads(pickle.dumps(fitted)).set_params(steps=80)
    known = (found._seen.rows < M - 1) & (found._seen.columns < N - 2)
    found._seen = found._seen._replace(  # as if nobody had heard of the last row and columns
        **{name: getattr(found._seen, name)[known] for name in ("rows", "columns", "values")}, shape=(M - 1, N - 2)
    )
    left, right = found.factors_
    found.factors_ = left[: M - 1], right[: N - 2]
    new = STARS.copy()
    new[: M - 1, : N - 2] = np.nan
    found.partial_fit(scipy.sparse.coo_array((new[~np.isnan(new)], np.nonzero(~np.isnan(new))), shape=(M, N)))
    assert found.shape_ == (M, N)
    assert penalised_error(found) < 1.1 * penalised_error(fitted)
    assert np.std(found.transform() - fitted.transform()) < 0.2 * np.std(fitted.transform())


def test_partial_fit_refuses_what_cannot_be_meant(fitted):
    found = pickle.loads(pickle.dumps(fitted))
    with pytest.raises(ValueError, match=r"row 1, column 0 is given more than once"):
        found.partial_fit(([1, 1], [0, 0], [3.0, 4.0]))
    with pytest.raises(ValueError, match="row number -1 is out of range; expected 0 or more"):
        found.partial_fit(([-1], [0], [3.0]))
    with pytest.raises(ValueError, match="all 20 x 15 entries are observed"):
        found.partial_fit(np.ones((M, N)))


# ---- on disk ---------------------------------------------------------------------------------------------------------


def test_saved_and_loaded_bit_for_bit(fitted, tmp_path):
    path = tmp_path / "completion.safetensors"
    fitted.save(path)
    again = tr.StructuredMatrixCompletion.load(path)
    for found in (again, pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(found.transform(), fitted.transform())
        assert found.get_params() == fitted.get_params()
        for name in ("mean_", "dual_", "nuclear_norm_", "unobserved_energy_", "held_out_error_", "n_iter_", "shape_"):
            assert getattr(found, name) == getattr(fitted, name)
    assert again.report_ == str(fitted.result_)  # pyright: ignore[reportAttributeAccessIssue]
    new = ([0, 1], [0, 1], [1.0, 5.0])
    np.testing.assert_array_equal(
        again.partial_fit(new).factors_[0], pickle.loads(pickle.dumps(fitted)).partial_fit(new).factors_[0]
    )


def test_a_file_without_ratings_predicts_and_takes_no_more_of_them(fitted, tmp_path):
    path = tmp_path / "completion.safetensors"
    fitted.save(path, ratings=False)
    again = tr.StructuredMatrixCompletion.load(path)
    np.testing.assert_array_equal(again.transform(), fitted.transform())
    assert not any(name.startswith("seen") for name in again._form.read(path)[0])
    with pytest.raises(ValueError, match="saved without its ratings"):
        again.partial_fit(([0], [0], [1.0]))
    with pytest.raises(FileError, match="there is no folder"):
        fitted.save(tmp_path / "no" / "file")


# ---- sentences -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (np.full((M, N), np.nan), "no entry was observed"),
        (np.ones((M, N)), "all 20 x 15 entries are observed"),
        (np.where(SEEN, 3.0, np.nan), "explain the observed values altogether"),
    ],
)
def test_bad_matrices(given, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        model().fit(given)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"nuclear_norm": 0.0}, "nuclear_norm is 0.0; expected a positive number"),
        ({"unobserved_energy": -1}, "unobserved_energy is -1"),
        ({"unobserved_energy": np.nan}, "unobserved_energy is nan"),
        ({"rank": 0}, "rank is 0; expected a whole number of at least 1"),
        ({"steps": 2.5}, "steps is 2.5"),
        ({"random_state": -1}, "random_state is -1"),
        ({"held_out": 1.0}, "held_out is 1.0; expected a share"),
        ({"method": "nonsense"}, "method is 'nonsense'"),
        ({"nuclear_norm": None, "held_out": 1e-6}, "is 0; expected at least one to hold out"),
    ],
)
def test_bad_parameters(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        model(**parameters).fit(STARS)


def test_bad_places(fitted, monkeypatch):
    with pytest.raises(ValueError, match=r"row number 20 is out of range; expected 0 to 19 \(1 such places\)"):
        fitted.predict([0, 20], [0, 0])
    with pytest.raises(ValueError, match="column number -1 is out of range"):
        fitted.predict(0, -1)
    with pytest.raises(ValueError, match="row number 99 is out of range"):
        fitted.transform([99])
    with pytest.raises(ValueError, match="rows have dtype float64"):
        fitted.predict([0.5], [0])
    with pytest.raises(ValueError, match="column number 15 is out of range"):
        fitted.score(np.ones((M, N + 1)))
    monkeypatch.setattr(completion, "beyond_memory", lambda size: size > 8 * KEPT * 100)
    assert fitted.transform(np.arange(6)).shape == (6, N)
    with pytest.raises(ValueError, match="20 rows of 15 columns are 300 entries; expected what this machine has the"):
        fitted.transform()


# ---- scikit-learn ----------------------------------------------------------------------------------------------------

CHECKS = (
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_parameters_default_constructible,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_set_params,
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_estimator_tags_renamed,
    estimator_checks.check_valid_tag_types,
    estimator_checks.check_mixin_order,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_checks_of_scikit_learn_that_apply(check):
    check("StructuredMatrixCompletion", tr.StructuredMatrixCompletion())


def test_clone_and_unfitted(fitted):
    bare: Any = clone(fitted)
    bare.set_params(steps=7)
    assert bare.get_params() == fitted.get_params() | {"steps": 7}
    for call in (lambda: bare.predict(0, 0), bare.transform, lambda: bare.score(STARS), lambda: bare.save("x")):
        with pytest.raises(NotFittedError):
            call()


def test_an_interrupt_leaves_what_was_learnt(fitted, monkeypatch):
    found, before = pickle.loads(pickle.dumps(fitted)), vars(fitted).keys()
    real = completion_training.minimize

    def interrupted(*args: Any, **options: Any):
        return dataclasses.replace(real(*args, **options), status=Status.INTERRUPTED)

    monkeypatch.setattr(completion_training, "minimize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        found.partial_fit(([0], [0], [1.0]))
    with pytest.raises(KeyboardInterrupt):
        found.set_params(nuclear_norm=None).fit(STARS)
    assert vars(found).keys() == before
    np.testing.assert_array_equal(found.transform(), fitted.transform())
