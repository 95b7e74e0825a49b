"""Random problems: `stranger(seed)` is one of them, always the same for the same seed.

What is drawn: the objective, the constraints, the domain, the sizes, the noise, which constraints bind and how tightly,
and the units. How a level is chosen: an anchor x_a is drawn, and a point x_f where F is lower is found by a few steps.
Constraint i is signed so that it grows from x_a to x_f, and its level lies in between: x_a is strictly feasible, and what
the objective wants is not. Others have a level above both.

A problem without a feasible point is made so by a proof. Constraints i in a set are mixed with weights w, and one more
constraint is linear with the slope nu - sum_i w_i grad H_i(x_a), where x_a minimises <nu, x> over X (or nu = 0). By
convexity that constraint plus the mixture is nowhere below its value at x_a. With every level of them tau scales below the
value at x_a, no point violates all of them by less than tau, and x_a violates them by tau.
"""

import dataclasses
from functools import cached_property, partial
from typing import Any

import numpy as np

import tightrope as tr
from studies.strangers.domains import Domain, Leaf
from studies.strangers.model import LINKS, Model, draw_row, link_values

OBJECTIVES = ("least squares", "logistic", "quadratic", "log-sum-exp", "hinge", "absolute", "linear", "cvar", "mixture")
CONSTRAINTS = ("linear", "quadratic", "hinge", "logistic", "cvar", "two-sided", "mixture")
DOMAINS = ("box", "wide box", "l2 ball", "simplex", "l1 ball", "product", "nuclear ball")
DOMAIN_SHARES = (0.2, 0.1, 0.2, 0.15, 0.15, 0.16, 0.04)
ROWS = (200, 5_000)
NUMBERS = 2e7  # products a pass: rows x scores x coordinates
LINKED = 10_000, 4_000  # rows x scores that the reference sees one by one: all, and those with exponentials
MOST_LINKED = 20  # constraints that are not linear or quadratic: the reference needs a cone for each row of each
RISE = 0.01  # in scales of h: a constraint that rises less on the way to a low F cannot cut it off
MARGIN = 0.002  # in scales of h: the least Slater margin at the anchor
ALL_SLACK = 0.06  # the share of problems whose multipliers are zero
QUANTILES = 8  # of CVaR, each a coordinate more


@dataclasses.dataclass
class Score:
    """A score and the link it goes through; `tail` is for CVaR: which quantile, and the share of worst cases."""

    link: str
    A: np.ndarray
    M: np.ndarray
    offset: float
    b: np.ndarray
    weight: float = 1.0
    tail: tuple[int, float] | None = None


@dataclasses.dataclass
class Function:
    """The objective or a constraint: its kind in words, its scores, a diagonal quadratic form."""

    kind: str
    scores: list[Score]
    Q: np.ndarray

    def value(self, x: np.ndarray, xi: np.ndarray) -> float:
        """The mean over the rows; a quantile that belongs to it is the best one, whatever x says."""
        total = self.Q @ (x * x) / 2
        for group in self._groups():
            s = np.stack([(xi @ (one.M * x[: xi.shape[1]])) + one.A @ x + one.offset + one.b for one in group], axis=-1)
            total += group[0].weight * link_values(group[0].link, s, np).mean(axis=0).sum()
        return float(total)

    def _groups(self) -> list[list[Score]]:
        """Scores one by one, those of log-sum-exp together."""
        joint = [one for one in self.scores if one.link == "log-sum-exp"]
        return [[one] for one in self.scores if one.link != "log-sum-exp"] + ([joint] if joint else [])


@dataclasses.dataclass(frozen=True, eq=False)
class Stranger:
    """A random problem.

    Attributes:
        seed: what it is made from.
        family: objective / constraints / domain.
        description: one line.
        problem: what a user would write.
        table: its rows, features "xi" and shifts "b"; the expectation is their mean.
        smooth: whether f and h have continuous gradients.
        feasible: whether there is a feasible point.
        model: the same in natural units, in float64.
        x_units, f_unit, h_units: what x, f and h were multiplied by.
        h_scales: in natural units, how far each H_i ranges over the domain: the width of the domain along the gradient
            at the anchor, at the start and where F is low, or the difference between these points, whichever is largest.
        anchor: in natural units, a strictly feasible point; without a feasible point, one of least violation.
        least_violation: in scales of h; 0 where there is a feasible point.
    """

    seed: int
    family: str
    description: str
    problem: tr.Problem
    table: dict[str, np.ndarray]
    smooth: bool
    feasible: bool
    model: Model
    x_units: np.ndarray
    f_unit: float
    h_units: np.ndarray
    h_scales: np.ndarray
    anchor: np.ndarray
    least_violation: float

    @property
    def d(self) -> int:
        """How many coordinates x has."""
        return self.model.domain.d

    @property
    def N(self) -> int:
        """How many constraints there are."""
        return len(self.h_units)

    @property
    def n(self) -> int:
        """How many rows there are."""
        return len(self.table["b"])

    @cached_property
    def samples(self) -> tr.Generator:
        """A stream: rows drawn with replacement."""
        return tr.Generator(partial(draw_row, self.table))

    @cached_property
    def reference(self) -> Any:
        """The solution (`studies.strangers.reference.Reference`), solved when it is first asked for."""
        from studies.strangers.reference import solve

        return solve(self)

    def natural(self, x: Any) -> np.ndarray:
        """A point of the user's domain as a vector in natural units, in float64."""
        return self.model.domain.vector(x) / self.x_units

    def in_units(self, v: np.ndarray) -> Any:
        """A vector in natural units as a point of the user's domain."""
        return self.model.domain.tree(v * self.x_units)


def stranger(seed: int) -> Stranger:
    """The random problem of this seed: even ones are to develop on, odd ones are held out.

    Example:
        >>> from studies.strangers.generate import stranger
        >>> one = stranger(0)
        >>> one.problem.domain.start().shape == (one.d,)
        True
    """
    return _Maker(np.random.Generator(np.random.Philox(key=seed)), seed).make()


class _Maker:
    """Draws the parts of a problem one after the other."""

    def __init__(self, rng: np.random.Generator, seed: int):
        self.rng, self.seed = rng, seed
        self.infeasible = bool(rng.random() < 1 / 8)
        self.tau = float(_log_uniform(rng, 0.01, 0.3)) if self.infeasible else 0.0
        self.has_units = bool(rng.random() < 0.5)
        self.noise = float(_log_uniform(rng, 0.03, 10.0))
        if self.infeasible:  # five standard errors of 10,000 samples are less than tau
            self.noise = min(self.noise, 5 * self.tau)
        self.objective = str(rng.choice(OBJECTIVES))
        self.constraint = str(rng.choice(CONSTRAINTS))
        self.domain_kind = str(rng.choice(DOMAINS, p=DOMAIN_SHARES))
        self.kinds = self._constraint_kinds(round(float(_log_uniform(rng, 1, 50))))
        self.parts = self._objective_parts()
        self.quantiles = self.kinds.count("cvar") + self.parts.count("cvar")

    # ---- sizes -----------------------------------------------------------------------------------------------------

    def _constraint_kinds(self, count: int) -> list[str]:
        """One kind for each constraint; a two-sided one counts twice."""
        rng, kinds = self.rng, []
        pool = [kind for kind in CONSTRAINTS if kind != "mixture"]
        while len(kinds) < count:
            kind = str(rng.choice(pool)) if self.constraint == "mixture" else self.constraint
            linked = sum(k in ("hinge", "logistic", "cvar") for k in kinds)
            too_many = kind in ("hinge", "logistic", "cvar") and linked >= MOST_LINKED
            too_many = too_many or (kind == "cvar" and kinds.count("cvar") >= QUANTILES - 1)
            if too_many or (kind == "two-sided" and len(kinds) + 2 > count):
                kind = "linear"
            kinds += [kind, "other side"] if kind == "two-sided" else [kind]
        return kinds

    def _objective_parts(self) -> list[str]:
        if self.objective != "mixture":
            return [self.objective]
        pool = [kind for kind in OBJECTIVES if kind != "mixture"]
        return [str(kind) for kind in self.rng.choice(pool, size=int(self.rng.integers(2, 4)), replace=False)]

    def _domain(self, d: int) -> tuple[Leaf, ...]:
        """Leaves of d coordinates together; few for matrices."""
        rng, kind = self.rng, self.domain_kind
        if kind == "nuclear ball":
            shape = tuple(int(k) for k in rng.integers(2, 9, size=2))
            return (Leaf("x", kind, shape, radius=float(rng.uniform(0.5, 3))),)
        if kind == "product":
            first = int(rng.integers(1, d)) if d > 1 else 1
            pool = ["box", "l2 ball", "simplex", "l1 ball"]
            sizes = [first, d - first] if d > 1 else [1]
            return tuple(self._leaf(name, str(rng.choice(pool)), size) for name, size in zip("xy", sizes, strict=False))
        return (self._leaf("x", kind, d),)

    def _leaf(self, name: str, kind: str, size: int) -> Leaf:
        rng = self.rng
        if kind in ("box", "wide box") or (kind == "simplex" and size == 1):  # a simplex of one coordinate is a point
            lower = rng.uniform(-1.5, 0.5, size)
            return Leaf(name, "box", (size,), lower=lower, upper=lower + rng.uniform(0.5, 2.0, size))
        return Leaf(name, kind, (size,), radius=float(rng.uniform(0.5, 3.0)))

    def _rows(self, scores: int, d: int) -> int:
        """How many rows: log-uniform, within what a pass and the reference may cost."""
        size = {"logistic": 1, "hinge": 1, "absolute": 1, "cvar": 1, "log-sum-exp": 5}
        kinds = self.kinds + self.parts
        linked = sum(size.get(kind, 0) for kind in kinds)
        with_exponentials = sum(size[kind] for kind in kinds if kind in ("logistic", "log-sum-exp"))
        most = min(NUMBERS / (scores * d), LINKED[0] / max(linked, 1), LINKED[1] / max(with_exponentials, 1))
        low, high = ROWS
        return round(min(float(_log_uniform(self.rng, low, high)), max(low, most)))

    # ---- the parts -------------------------------------------------------------------------------------------------

    def make(self) -> Stranger:
        """All of it."""
        rng = self.rng
        wanted = round(float(_log_uniform(rng, 2, 200)))
        leaves = self._domain(min(wanted, 200 - self.quantiles))
        self.inner = Domain(leaves)
        self.features = self.inner.d
        self.d = self.features + self.quantiles
        self.n = self._rows(2 * len(self.kinds) + 6, self.d)
        self.points = [self._mixture_of_vertices() for _ in range(4)]  # the first is the anchor
        self.nu = np.zeros(self.features)
        if self.infeasible and (rng.random() < 0.5 or not self._able(self.kinds)):
            self.nu = self._direction()
            self.points[0] = self.inner.lmo(self.nu)
        self.xi = self._features()
        self.used = 0  # quantiles given to CVaR so far
        objective = self._objective_function()
        low = self._lower(objective)
        functions = self._constraint_functions(low)
        functions, levels, scales, binding = self._levels(functions, low)
        return self._assemble(objective, functions, levels, scales, binding)

    def _mixture_of_vertices(self) -> np.ndarray:
        """A point inside: three vertices and the middle, mixed."""
        vertices = [self.inner.lmo(self._normal(self.inner.d)) for _ in range(3)]
        weights = self.rng.dirichlet(np.ones(4))
        return weights @ np.stack([*vertices, self.inner.start()])

    def _normal(self, size: int) -> np.ndarray:
        return self.rng.normal(size=size)

    def _direction(self) -> np.ndarray:
        """A slope, dense or sparse, along which the domain has width one."""
        a = self._normal(self.features)
        if self.rng.random() < 0.3:
            a *= self.rng.random(self.features) < max(0.2, 2 / self.features)
        a = a if self.inner.width(a) > 0 else self._normal(self.features)
        return a / self.inner.width(a)

    def _noise(self, shape: Any) -> np.ndarray:
        """Centred numbers of variance about one: normal, with heavy tails, or mostly zero."""
        kind = self.rng.integers(3)
        if kind == 0:
            made = self.rng.normal(size=shape)
        elif kind == 1:
            made = self.rng.standard_t(5, size=shape) * np.sqrt(3 / 5)
        else:
            made = self.rng.normal(size=shape) * (self.rng.random(shape) < 0.2) * np.sqrt(5)
        return made - made.mean(axis=0)

    def _features(self) -> np.ndarray:
        """The features: independent or with common factors, columns of different sizes. For classification, rows point
        where a label says."""
        xi = self._noise((self.n, self.features))
        if self.rng.random() < 0.5:
            factors = self._noise((self.n, 2))
            xi = 0.6 * xi + 0.8 * factors @ self._normal(2 * self.features).reshape(2, -1) / np.sqrt(2)
        xi *= 10 ** self.rng.uniform(-self.rng.uniform(0, 1.5), 0, size=self.features)
        if {"logistic", "hinge"} & set(self.parts):
            truth = self._direction()
            margin = xi @ truth
            flip = self.rng.random(self.n) < 1 / (1 + np.exp(-3 * margin / max(float(margin.std()), 1e-12)))
            xi = np.where(flip[:, None], -xi, xi)  # a row times minus its label
        return xi

    def _wide(self, a: np.ndarray) -> np.ndarray:
        """A slope in the features' coordinates, with zeros for the quantiles."""
        return np.append(a, np.zeros(self.d - self.features))

    def _full(self, x: np.ndarray) -> np.ndarray:
        return self._wide(x)

    def _score(self, link: str, slope: np.ndarray, offset: float, noise: float, weight: float = 1.0) -> Score:
        """A score with noise in slopes and shifts, of this standard deviation at the most distant of the points."""
        share = float(self.rng.uniform(0.2, 0.95))
        M = self._normal(self.features)
        size = max(float((self.xi @ (M * x)).std()) for x in self.points)
        M *= noise * share / max(size, 1e-12)
        b = noise * np.sqrt(1 - share**2) * self._noise(self.n)
        return Score(link, self._wide(slope), M, offset, b, weight)

    def _fit_score(self, link: str, offset: float, sharpness: float) -> Score:
        """<xi, x> against a target that some x in the domain would explain but for noise."""
        sizes = [float((self.xi @ x).std()) for x in self.points]
        M = np.full(self.features, sharpness / max(*sizes, 1e-12))
        if link in ("logistic", "hinge"):  # rows have been turned by their labels
            return Score(link, np.zeros(self.d), M, offset, np.zeros(self.n))
        truth = 1.5 * self.inner.lmo(self._normal(self.features))
        y = self.xi @ (M * truth) + float(_log_uniform(self.rng, 0.03, 3.0)) * self._noise(self.n)
        return Score(link, np.zeros(self.d), M, offset, -y)

    def _tail(self, score: Score, share: float) -> list[Score]:
        """u + [score - u]_+ / share."""
        at = self.features + self.used
        unit = np.zeros(self.d)
        unit[at] = 1.0
        none = np.zeros(self.n), np.zeros(self.features)
        score = dataclasses.replace(score, link="hinge", A=score.A - unit, weight=1 / share, tail=(self.used, share))
        self.used += 1
        return [Score("identity", unit, none[1], 0.0, none[0]), score]

    # ---- the objective ---------------------------------------------------------------------------------------------

    def _objective_function(self) -> Function:
        """Parts of spread one over the points, mixed."""
        made = [self._objective_part(kind) for kind in self.parts]
        for part in made:
            values = [self._value(part, x) for x in self.points]
            _scale(part, float(self.rng.uniform(0.3, 1.0)) / max(np.ptp(values), 1e-6))
        return Function(self.objective, [s for part in made for s in part.scores], np.sum([p.Q for p in made], axis=0))

    def _objective_part(self, kind: str) -> Function:
        rng, Q = self.rng, np.zeros(self.d)
        if kind == "least squares":
            return Function(kind, [self._fit_score("square", 0.0, 1.0)], Q)
        if kind in ("logistic", "hinge"):
            return Function(kind, [self._fit_score(kind, float(kind == "hinge"), rng.uniform(1.0, 4.0))], Q)
        if kind == "absolute":
            return Function(kind, [self._fit_score("absolute", 0.0, 1.0)], Q)
        if kind == "quadratic":
            Q[: self.features] = 10 ** rng.uniform(-2, 0, size=self.features)
            target = 1.5 * self.inner.lmo(self._normal(self.features))
            pull = self._score("identity", -Q[: self.features] * target, 0.0, 0.3 * self.noise)
            slope = self._direction()
            return Function(kind, [pull, self._score("square", slope, -float(slope @ target), 0.3 * self.noise)], Q)
        if kind == "log-sum-exp":
            sharp, noise = rng.uniform(1.0, 6.0), min(self.noise, 2.0)
            count = int(rng.integers(3, 7))
            scores = [self._score("log-sum-exp", sharp * self._direction(), rng.normal(), noise) for _ in range(count)]
            return Function(kind, scores, Q)
        loss = self._score("identity", self._direction(), 0.0, self.noise)
        if kind == "cvar":
            return Function(kind, self._tail(loss, float(_log_uniform(rng, 0.05, 0.5))), Q)
        return Function(kind, [loss], Q)

    def _lower(self, objective: Function) -> np.ndarray:
        """A point where F is lower than at the anchor, by a dozen Frank-Wolfe steps with a coarse line search.

        Few steps, so that what is drawn does not depend on rounding.
        """
        x = self.points[0]
        for _ in range(12):
            vertex = self.inner.lmo(self._slope(objective, x))
            line = [x + a * (vertex - x) for a in (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)]
            x = line[int(np.argmin([self._value(objective, point) for point in line]))]
        return x

    # ---- constraints -----------------------------------------------------------------------------------------------

    def _constraint_functions(self, low: np.ndarray) -> list[Function]:
        """Each signed so that it grows from the anchor to the point of low F, where a sign makes a difference."""
        made: list[Function] = []
        for kind in self.kinds:
            if kind == "other side":
                made.append(Function(kind, [_turned(made[-1].scores[0])], np.zeros(self.d)))
                continue
            noise = self.noise * float(_log_uniform(self.rng, 0.3, 1.0))
            made.append(self._constraint_function(kind, noise, low))
        return made

    def _constraint_function(self, kind: str, noise: float, low: np.ndarray) -> Function:
        rng, anchor, Q = self.rng, self.points[0], np.zeros(self.d)
        slope = self._direction()
        slope = slope if slope @ (low - anchor) >= 0 else -slope
        centred = -float(slope @ anchor)  # scores are zero in the mean at the anchor
        if kind == "quadratic":
            centre = anchor + 0.3 * (self.points[1] - anchor)
            weights = 10 ** rng.uniform(-1, 0, size=self.features)
            if rng.random() < 0.5:
                Q[: self.features] = weights * 2 / np.mean([weights @ (x - centre) ** 2 for x in self.points])
                return Function(kind, [self._score("identity", -Q[: self.features] * centre, 0.0, noise)], Q)
            return Function(kind, [self._score("square", 2 * slope, 2 * centred + rng.uniform(0, 1), noise)], Q)
        if kind == "hinge":  # the kink lies between the anchor and the point of low F, but for noise
            kink = rng.uniform() * float(slope @ (low - anchor)) + 0.7 * noise * rng.normal()
            kink = -0.1 * rng.uniform() if self.infeasible else kink  # at the anchor, where conflicts are
            hinge = Function(kind, [self._score("hinge", slope, centred - kink, noise)], Q)
            if np.ptp([hinge.value(self._wide(x), self.xi) for x in (anchor, low)]) > 0:
                return hinge
            kind = "linear"  # the hinge was flat
        if kind == "logistic":
            sharp = float(_log_uniform(rng, 1.0, 8.0))
            return Function(kind, [self._score("logistic", sharp * slope, sharp * centred + rng.normal(), noise)], Q)
        score = self._score("identity", slope, centred, noise)
        if kind == "cvar":
            return Function(kind, self._tail(score, float(_log_uniform(rng, 0.05, 0.5))), Q)
        return Function(kind, [score], Q)

    def _levels(self, functions: list[Function], low: np.ndarray) -> tuple[list[Function], np.ndarray, np.ndarray, int]:
        """Constraints (with the one that conflicts), levels, scales, and how many were made to bind."""
        rng, anchor = self.rng, self.points[0]
        places = [anchor, low, self.inner.start()]
        if self.infeasible:
            functions, conflict = self._with_conflict(functions)
        else:
            conflict = []
        at = np.array([[self._value(one, x) for x in places] for one in functions])
        widths = [[self.inner.width(self._slope(one, x)) for x in places] for one in functions]
        scales = np.maximum(np.max(widths, axis=1), np.ptp(at, axis=1))
        rise = at[:, 1] - at[:, 0]
        share, tight = rng.uniform(0.4, 1.0), _log_uniform(rng, 0.02, 0.9)
        cut = (rng.random(len(functions)) < share) & (rise > RISE * scales)
        cut[np.argmax(rise / scales)] |= np.max(rise / scales) > RISE  # one at least
        if self.infeasible or rng.random() < ALL_SLACK:
            cut[:] = False
        margins = np.maximum(tight * rng.uniform(0.5, 1.4, len(functions)) * rise, MARGIN * scales)
        slack = at[:, :2].max(axis=1) + rng.uniform(0.05, 0.5, len(functions)) * scales
        levels = np.where(cut, at[:, 0] + margins, slack)
        levels[conflict] = at[conflict, 0] - self.tau * scales[conflict]
        return functions, levels, scales, int(cut.sum())

    def _with_conflict(self, functions: list[Function]) -> tuple[list[Function], list[int]]:
        """The last constraint replaced by one that conflicts with up to three others (and the domain, where nu says)."""
        rng, anchor = self.rng, self.points[0]
        chosen = [int(i) for i in rng.permutation(self._able(self.kinds))[: int(rng.integers(1, 4))]]
        slope = self.nu.copy()
        for i in chosen:
            slope -= rng.uniform(0.3, 1.0) * self._slope(functions[i], anchor)
        last = self._score("identity", slope, 0.0, self.noise * self.inner.width(slope))
        return [*functions[:-1], Function("linear", [last], np.zeros(self.d))], [*chosen, len(functions) - 1]

    @staticmethod
    def _able(kinds: list[str]) -> list[int]:
        """The constraints that can be part of a conflict; those of CVaR would put their quantiles into it."""
        return [i for i, kind in enumerate(kinds[:-1]) if kind not in ("cvar", "other side")]

    # ---- values of functions while they are made -------------------------------------------------------------------

    def _settled(self, one: Function, x: np.ndarray) -> np.ndarray:
        """x with the quantiles of this function's CVaR where they are best."""
        full = self._full(x)
        for score in one.scores:
            if score.tail is not None:
                place, share = score.tail
                loss = self.xi @ (score.M * x) + score.A @ full + score.offset + score.b
                full[self.features + place] = np.quantile(loss, 1 - share, method="higher")
        return full

    def _value(self, one: Function, x: np.ndarray) -> float:
        return one.value(self._settled(one, x), self.xi)

    def _slope(self, one: Function, x: np.ndarray) -> np.ndarray:
        """The gradient in the coordinates with features."""
        full = self._settled(one, x)
        model = _model(Domain(()), one, [], np.zeros(0), self.xi)
        return model.gradients(full)[0, : self.features]

    # ---- together --------------------------------------------------------------------------------------------------

    def _assemble(self, objective: Function, functions: list[Function], levels, scales, binding: int) -> Stranger:
        rng = self.rng
        _scale(objective, float(_log_uniform(rng, 1.0, 300.0)) if rng.random() < 0.4 else 1.0)  # large multipliers
        domain = Domain((*self.inner.leaves, *self._quantile_box([objective, *functions])))
        model = _model(domain, objective, functions, levels, self.xi)
        x_units, f_unit, h_units = self._units(objective, functions)
        problem, table = model.in_units(x_units, f_unit, h_units)
        anchor = self._full(self.points[0])
        for one in (objective, *functions):
            anchor = np.where(np.arange(self.d) < self.features, anchor, anchor + self._settled(one, self.points[0]))
        constraint = self.constraint if self.constraint in ("mixture", *self.kinds) else "linear"
        family = f"{self.objective} / {constraint} / {domain.said}"
        description = (
            f"{'+'.join(self.parts)}; {len(functions)} constraints ({constraint}), "
            f"{'no feasible point' if self.infeasible else f'{binding} made to bind'}; {domain.said}, d = {self.d}; "
            f"{self.n} rows, noise {self.noise:.2g}{'; units' if self.has_units else ''}"
        )
        return Stranger(
            self.seed, family, description, problem, table, model.smooth, not self.infeasible, model, x_units, f_unit,
            h_units, scales, anchor, self.tau,
        )  # fmt: skip

    def _quantile_box(self, functions: list[Function]) -> list[Leaf]:
        """Bounds for the quantiles: wherever the losses are at the points, and a third more."""
        if not self.quantiles:
            return []
        lower, upper = np.zeros(self.quantiles), np.zeros(self.quantiles)
        for score in (score for one in functions for score in one.scores if score.tail is not None):
            assert score.tail is not None
            slope = score.A[: self.features]
            losses = [self.xi @ (score.M * x) + slope @ x + score.offset + score.b for x in self.points]
            low, high = float(np.min(losses)), float(np.max(losses))
            lower[score.tail[0]], upper[score.tail[0]] = low - (high - low) / 3, high + (high - low) / 3
        return [Leaf("u", "box", (self.quantiles,), lower=lower, upper=upper)]

    def _units(self, objective: Function, functions: list[Function]) -> tuple[np.ndarray, float, np.ndarray]:
        """Powers of ten between 1e-6 and 1e6, not whole ones; quantiles have the units of their function."""
        rng = self.rng

        def power(*size: int) -> Any:
            return 10 ** rng.uniform(-6, 6, size=size) if self.has_units else np.ones(size)

        f_unit, h_units = float(power()), power(len(functions))
        units = [np.full(leaf.size, float(power())) for leaf in self.inner.leaves]
        if self.domain_kind == "wide box":
            units = [np.clip(one * 10 ** rng.uniform(-3, 3, size=one.size), 1e-6, 1e6) for one in units]
        tails = np.ones(self.quantiles)
        for one, unit in zip((objective, *functions), (f_unit, *h_units), strict=True):
            for score in one.scores:
                if score.tail is not None:
                    tails[score.tail[0]] = unit
        return np.concatenate([*units, tails]), f_unit, h_units


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _scale(one: Function, factor: float) -> None:
    one.Q *= factor
    for score in one.scores:
        score.weight *= factor


def _turned(score: Score) -> Score:
    """The same score with the other sign."""
    return dataclasses.replace(score, A=-score.A, M=-score.M, offset=-score.offset, b=-score.b)


def _model(domain: Domain, objective: Function, functions: list[Function], levels: np.ndarray, xi: np.ndarray) -> Model:
    """The functions' scores sorted by link."""
    every = [objective, *functions]
    owned = [(k, score) for k, one in enumerate(every) for score in one.scores]
    owned.sort(key=lambda pair: LINKS.index(pair[1].link))
    names = [score.link for _, score in owned]
    links = tuple((name, names.count(name)) for name in LINKS if name in names)
    columns = [pair for pair in owned if pair[1].link != "log-sum-exp"]
    columns += [pair for pair in owned if pair[1].link == "log-sum-exp"][:1]  # one value for all of them
    W = np.zeros((len(every), len(columns)))
    for v, (k, score) in enumerate(columns):
        W[k, v] = score.weight
    scores = [score for _, score in owned]
    return Model(
        domain, links, np.stack([s.A for s in scores]), np.stack([s.M for s in scores]),
        np.array([s.offset for s in scores]), W, np.stack([one.Q for one in every]), levels, xi,
        np.stack([s.b for s in scores], axis=1),
    )  # fmt: skip
