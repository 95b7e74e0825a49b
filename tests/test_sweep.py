import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import BALL, METHODS, PROBLEM, ROWS, SAMPLERS, FullGradient, constraints, objective
from slow import quick_first

import tightrope as tr
from tightrope.loop.prepare import tightening_ceiling

sweeping = importlib.import_module("tightrope._sweep")  # the attribute is the function

GRIDS = {"csoa": tr.CSOA(eta0=np.array([0.3, 0.8]), upsilon0=0.3), "fw-csoa": tr.FWCSOA(eta0=np.array([0.5, 1.0]))}


def first(x):
    return {"first": x[0]}


def one_run(method, row, data, **options):
    """The single run that a row of the table claims to be."""
    chosen = jax.tree.map(lambda v: v if np.ndim(v) == 0 else row["eta0"], GRIDS[method])
    return tr.minimize(PROBLEM, data, method=chosen, seed=int(row["seed"]), **options)


# for streams see test_all_seeds_share_a_stream
@pytest.mark.parametrize("sampler", quick_first(["generator", "rows"], 1))
def test_a_sweep_equals_minimize_run_by_run(sampler):
    size = 2 if sampler == "rows" else 1
    table = tr.sweep(PROBLEM, SAMPLERS[sampler](), GRIDS, steps=300, seeds=(0, 7), batch_size=size, track=first)
    assert len(table) == 2 * 2 * 2
    for _, row in table.iterrows():
        run = one_run(row["method"], row, SAMPLERS[sampler](), steps=300, batch_size=size)
        last = run.trace.iloc[-1]
        for name in ("step", "samples", "objective", "h[0]", "h[1]", "dual h[0]", "dual h[1]"):
            assert row[name] == pytest.approx(last[name], rel=1e-9), name
        assert row["first"] == pytest.approx(float(run.average[0]), rel=1e-9)
        if sampler == "rows":
            assert row["full objective"] == pytest.approx(run.objective, rel=1e-9)
            np.testing.assert_allclose(row[["full h[0]", "full h[1]"]].astype(float), run.constraints, rtol=1e-9)


def test_grids_and_levels_and_seeds_are_combined_in_a_tidy_table():
    method = tr.FWCSOA(eta0=np.array([0.5, 1.0]), delta=np.array([0.1, 0.2, 0.3]), upsilon0=0.1)
    kinds = set()

    def kind(x):
        kinds.add(x.dtype)
        return {"sum": jnp.sum(x)}

    with jax.enable_x64(False):
        table = tr.sweep(PROBLEM, ROWS, method, steps=20, seeds=range(4), levels=[0.3, 0.6], track=kind)
    assert kinds == {jnp.dtype("float64")}  # whatever the switch says
    assert len(table) == 2 * 3 * 2 * 4
    assert set(table["method"]) == {"FWCSOA"}
    assert set(table["delta"]) == {0.1, 0.2, 0.3}  # as written, also in float32
    assert set(table["level"]) == {0.3, 0.6}
    assert len(table[["eta0", "delta", "level", "seed"]].drop_duplicates()) == len(table)
    assert table[["eta0", "delta", "rho0", "upsilon0", "objective", "h[0]", "full h[0]"]].dtypes.eq("float64").all()


@pytest.mark.parametrize("levels", [[0.3, 0.6], [[0.3, 0.2], [0.6, 0.1]]])
def test_a_grid_of_levels_is_that_of_problems(levels):
    table = tr.sweep(PROBLEM, ROWS, METHODS["csoa"], steps=50, levels=levels)
    for level, (_, row) in zip(levels, table.iterrows(), strict=True):
        problem = tr.Problem(objective, constraints, BALL, level)
        run = tr.minimize(problem, ROWS, method=METHODS["csoa"], steps=50)
        assert row["level"] == (tuple(level) if isinstance(level, list) else level)
        np.testing.assert_allclose(row[["full h[0]", "full h[1]"]].astype(float), run.constraints, rtol=1e-9)
        np.testing.assert_allclose(row[["dual h[0]", "dual h[1]"]].astype(float), run.dual, rtol=1e-9)


def test_slices_that_fit_little_memory_give_the_same_table():
    def table(memory):
        made = tr.sweep(PROBLEM, ROWS, GRIDS["csoa"], steps=50, seeds=range(3), levels=[0.3, 0.5, 0.7], memory=memory)
        keys = ["method", "eta0", "level", "seed"]
        return made.sort_values(keys, ignore_index=True)

    whole = table(2**30)
    sliced = table(memory=4000)  # not enough for the seeds side by side
    assert list(sliced) == list(whole)
    numbers = whole.select_dtypes(float).columns
    np.testing.assert_allclose(sliced[numbers], whole[numbers], rtol=1e-9)


def test_one_compilation_serves_all_combinations_of_a_method():
    problem = tr.Problem(lambda x, theta: objective(x, theta), constraints, BALL, 0.5)

    def compiled(**options):
        before = sweeping._advance_many.programs()
        tr.sweep(problem, ROWS, GRIDS, seeds=range(3), levels=[0.3, 0.5, 0.7], **{"steps": 50, **options})
        return sweeping._advance_many.programs() - before

    assert compiled(memory=4000) == 2  # one for each method, also in several slices
    assert compiled(memory=4000, steps=123, record=3) == 0


@pytest.mark.parametrize(
    ("record", "steps"), [(1, [50]), (4, [12, 25, 38, 50]), ([5, 20], [5, 20]), (1000, list(range(1, 51)))]
)
def test_steps_are_recorded_where_asked_for(record, steps):
    table = tr.sweep(PROBLEM, ROWS, METHODS["csoa"], steps=50, record=record)
    assert table["step"].tolist() == steps
    run = tr.minimize(PROBLEM, ROWS, method=METHODS["csoa"], steps=50, record=100)
    wanted = run.trace.set_index("step").loc[steps, "objective"]
    np.testing.assert_allclose(table["objective"], wanted, rtol=1e-9)


def test_all_seeds_share_a_stream():
    table = tr.sweep(PROBLEM, SAMPLERS["stream"](), METHODS["csoa"], steps=50, seeds=range(3))
    assert len(table) == 3
    assert table["objective"].nunique() == 1


def test_a_look_at_all_the_data_happens_in_a_sweep_too():
    method = FullGradient(rate=np.array([0.1, 0.3]))
    table = tr.sweep(PROBLEM, ROWS, method, steps=14, record=[3, 14], seeds=(0, 1))
    last = table[table["step"] == 14]
    for _, row in last.iterrows():
        run = tr.minimize(PROBLEM, ROWS, method=FullGradient(rate=row["rate"]), steps=14, seed=int(row["seed"]))
        assert row["full objective"] == pytest.approx(run.objective, rel=1e-9)


def test_a_progress_bar_counts_the_steps_of_all_runs(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    tr.sweep(PROBLEM, ROWS, METHODS["csoa"], steps=50, seeds=range(3), progress=True)
    assert "150/150 steps of all runs" in capfd.readouterr().err


TWO_SIDED = tr.Problem(objective, tr.two_sided(lambda x, theta: x[0]), BALL, levels=1.0)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"methods": {}}, ValueError, "no methods"),
        ({"methods": "csoa"}, TypeError, "a method, or several by name"),
        ({"methods": {"a": "csoaa"}}, ValueError, 'Did you mean "csoa"'),
        ({"methods": tr.CSOA(eta0=np.ones((2, 2)))}, ValueError, "grid of eta0 has shape (2, 2)"),
        ({"seeds": ()}, ValueError, "no seeds"),
        ({"seeds": 5}, TypeError, "range(20)"),
        ({"seeds": (-1,)}, ValueError, "seed is -1"),
        ({"record": 0}, ValueError, "record is 0"),
        ({"record": [10, 60]}, ValueError, "steps from 1 to 50"),
        ({"levels": [np.nan]}, ValueError, "finite"),
        ({"levels": []}, ValueError, "levels has shape (0,)"),
        ({"levels": [[0.1, 0.2, 0.3]]}, ValueError, "3 values for 2 constraints"),
        ({"steps": 0}, ValueError, "steps is 0"),
        ({"data": tr.Stream(list(np.ones((4, 5, 3))))}, ValueError, "ended after 20 steps"),
        ({"problem": TWO_SIDED, "levels": [1.0, 0.01]}, ValueError, "no feasible point"),
    ],
)
def test_mistakes_are_sentences(change, error, words):
    given = {"problem": PROBLEM, "data": ROWS, "methods": METHODS["csoa"], "steps": 50} | change
    with pytest.raises(error) as caught:
        tr.sweep(given.pop("problem"), given.pop("data"), given.pop("methods"), **given)
    assert words in str(caught.value)


def test_a_swept_level_replaces_one_that_leaves_no_room():
    problem = tr.Problem(objective, tr.equality(lambda x, theta: x[0]), BALL)  # levels=0 alone is refused
    assert len(tr.sweep(problem, ROWS, METHODS["csoa"], steps=50, levels=[0.5, 1.0])) == 2


@pytest.mark.slow
def test_points_are_the_outputs_that_minimize_gives():
    method = tr.SVRGCSOA()  # whose output is neither the average nor the last
    levels = [0.0, 0.2]
    table = tr.sweep(PROBLEM, ROWS, method, passes=9, levels=levels, points=True, batch_size=2)
    for level, (_, row) in zip(levels, table.iterrows(), strict=True):
        problem = tr.Problem(objective, constraints, BALL, levels=level)
        alone = tr.minimize(problem, ROWS, method=method, passes=9, batch_size=2)
        np.testing.assert_allclose(row["x"], alone.x, rtol=1e-10)
        assert row["full objective"] == pytest.approx(alone.objective, rel=1e-10)


def test_all_levels_are_checked_in_one_look(monkeypatch):
    """256 levels took ten times as long to check as to run; the tightest of them decides."""
    looks, look = [], sweeping.prepare
    monkeypatch.setattr(sweeping, "prepare", lambda *args, **options: looks.append(1) or look(*args, **options))
    levels = np.linspace(0.5, 1.0, 256)
    assert len(tr.sweep(TWO_SIDED, ROWS, tr.CSOA(eta0=0.1, upsilon0=0.1), steps=2, levels=levels)) == 256
    assert len(looks) == 1
    both = tr.stack(lambda x, theta: x[:1], tr.two_sided(lambda x, theta: x[0]))
    problem = tr.Problem(objective, both, BALL, levels=1.0)
    rows = np.array([[-5.0, 0.1, 0.9], [-5.0, 0.9, 0.3], [-5.0, 2.0, 2.0]])
    assert tightening_ceiling(problem, jnp.zeros(3), ROWS[0], rows) == pytest.approx(0.5)
    with pytest.raises(ValueError, match=r"levels is \[-2.0, 2.0\]"):
        tightening_ceiling(problem, jnp.zeros(3), ROWS[0], np.array([[0.0, 1.0, 1.0], [0.0, -2.0, 2.0]]))
