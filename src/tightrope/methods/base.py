"""What a method is: an initial state and a step that sees a sample. Averaging, batches and the loop live elsewhere."""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args, get_origin

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._errors import coefficient, one_of, whole_number
from tightrope.precision import in_full_precision
from tightrope.problem import Problem
from tightrope.sets import ConvexSet
from tightrope.tree import Array, Tree, add_scaled, pytree, set_field, static, subtract

Need = Literal["project", "lmo", "exact_constraints", "rows", "unconstrained", "conic", "values", "curvature"]
Output = Literal["average", "last", "own"]


class State(NamedTuple):
    """What the next step of most methods needs.

    Example:
        >>> import jax.numpy as jnp, tightrope as tr
        >>> state = tr.State(x=jnp.zeros(2), lam=jnp.zeros(1), t=jnp.array(1), horizon=jnp.array(10))
        >>> int(state.after(jnp.ones(2), jnp.ones(1)).t)
        2
    """

    x: Tree  # x_t
    lam: Array  # lambda_t
    t: Array  # step number, from 1
    horizon: Array  # T

    def after(self, x: Tree, lam: Array) -> "State":
        """The state after a step to x_{t+1} and lambda_{t+1}."""
        return State(x, lam, self.t + 1, self.horizon)


class Info(NamedTuple):
    """What a reader wants of a step: the point that counts in the average, and what was seen there.

    Example:
        >>> import jax.numpy as jnp, tightrope as tr
        >>> info = tr.Info(x=jnp.zeros(2), lam=jnp.zeros(1), f=jnp.array(3.0), h=jnp.array([-0.5]))
        >>> float(info.weight), info.record
        (1.0, {})
    """

    x: Tree  # the iterate that enters the average
    lam: Array  # its multipliers
    f: Array  # sampled objective
    h: Array  # sampled constraints, minus levels
    weight: Any = 1.0  # in the average
    record: dict[str, Array] = {}  # noqa: RUF012 (never changed) scalars that the trace shows as they are after a step


class Cost(NamedTuple):
    """What a step of a batch of one costs; samples and gradients grow with the batch.

    Example:
        >>> import tightrope as tr
        >>> tr.FWCSOA.cost
        Cost(samples=1, gradients=2, projections=0, lmos=1)
    """

    samples: int = 1  # independent ones; with 2, a step sees a pair of batches
    gradients: int = 1
    projections: int = 0
    lmos: int = 0


Standing = Literal["proven", "claimed, proof fails"]


class Rates(NamedTuple):
    """What is published about the output after T samples: exponents p of T^-p."""

    gap: float | None = None  # None: nothing is proven
    violation: float | None = None  # inf where the average violation is proven to be zero
    proof: str = ""  # what the proof is of, where that is not the method as it runs by default
    standing: Standing = "proven"  # whether the proof is one


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """What is true of some algorithms only; a default is what is true of the others.

    Args:
        takes_nested: whether objective and constraints may be functions of means.
        positive: coefficients that must not be zero.
        below_one: coefficients that must be less than one.
        output: which point a run gives back, the mean of the iterates, the last one, or "own", the state's `answer`.
        vertices: whether iterates are vertices of X, so that their mean alone is near a solution.
        averages: False where a mean of iterates makes no sense; the loop then keeps none.
        multipliers: False for methods that know constraints but estimate no multipliers.
        full_batch: whether a step is meant to see all rows at once.
        margin: the coefficient of the tightening.
        margin_power: p, where a run of T steps tightens by margin/T^p at its end.
        published: what is proven of the output.
        published_by_steps: where that depends on the steps: of each, the default first.

    Example:
        >>> import tightrope as tr
        >>> tr.CSOA.facts.margin, tr.CSOA.facts.output
        ('upsilon0', 'average')
    """

    takes_nested: bool = False
    positive: tuple[str, ...] = ()
    below_one: tuple[str, ...] = ()
    output: Output = "average"
    vertices: bool = False
    averages: bool = True
    multipliers: bool = True
    full_batch: bool = False
    margin: str | None = None
    margin_power: float | None = None
    published: Rates = dataclasses.field(default_factory=Rates)
    published_by_steps: Mapping[str, Rates] = dataclasses.field(default_factory=dict)


class Inner(NamedTuple):
    """A strictly feasible point that a run came upon."""

    x: Tree
    gap: float  # about how far above F* the answer is once it is pulled towards x
    scale: float  # of F, as that of a `Certificate`


class Algorithm(ABC):  # noqa: B024 (its kinds have the abstract methods)
    """What a `Method`, which sees samples, and a `Solver`, which sees all rows, have in common: a name and coefficients.

    A subclass decorated with `tightrope.pytree` has its coefficients as fields. They are leaves, so new values never
    compile again, and each is checked to be finite and not negative; its `facts` may ask for more. A field
    made with `static()` changes the program: a Literal is checked against its options, an int to be at least one.
    """

    name: ClassVar[str] = ""  # in the registry
    needs: ClassVar[frozenset[Need]] = frozenset()  # of the domain, the problem and the data
    tuned: ClassVar[tuple[str, ...]] = ()  # the coefficients worth tuning, the most important first
    facts: ClassVar[Facts] = Facts()

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        for fact in dataclasses.fields(Facts):
            if fact.name in vars(cls):
                raise TypeError(
                    f"{cls.__name__} says `{fact.name}` by itself; expected facts = Facts({fact.name}=...)."
                )

    def __post_init__(self) -> None:
        owner, facts = title_of(self), self.facts
        for field in dataclasses.fields(self):  # pyright: ignore[reportArgumentType]
            name, value = field.name, getattr(self, field.name)
            if value is None and field.default is None:  # the method chooses it
                continue
            if not field.metadata.get("static"):
                above, below = (0 if name in facts.positive else None), (1 if name in facts.below_one else None)
                set_field(self, name, coefficient(owner, name, value, above=above, below=below))
            elif get_origin(field.type) is Literal:
                one_of(owner, name, value, get_args(field.type))
            elif field.type is bool:
                one_of(owner, name, value, (False, True))
            elif int in (field.type, *get_args(field.type)):
                set_field(self, name, whole_number(owner, name, value, field.metadata["least"]))


class Method(Algorithm):
    """A stochastic method: `init` and `step`, both pure, and coefficients as its fields (see `Algorithm`).

    A state is a NamedTuple with at least the fields x (the current point) and lam (its multipliers): a `State`, or one of
    the method's own, which `init` then makes.

    Example:
        One step of CSOA by hand, on a batch of two samples:

        >>> import jax.numpy as jnp, tightrope as tr
        >>> problem = tr.Problem(lambda x, theta: ((x - theta) ** 2).sum(), None, tr.L2Ball(1.0, shape=2))
        >>> method = tr.CSOA(eta0=0.5)
        >>> state = method.init(problem, jnp.zeros(2), jnp.zeros(0), horizon=1)
        >>> state, info = method.step(problem, state, jnp.ones((2, 2)))
        >>> int(state.t), float(info.f)
        (2, 2.0)
    """

    cost: ClassVar[Cost] = Cost()
    anytime: bool = False  # True where no step depends on the horizon, so that a run needs no end

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        in_full_precision(cls, ("init", "step", "refresh"))

    @property
    def steps(self) -> "Steps":
        """What follows for a run from what the steps are made of."""
        return Steps(self)

    def fitted(self, problem: Problem, x: Tree, theta: Tree) -> "Method":
        """The method fitted to a problem, its point x and the shapes of a sample: the place to set what depends on them."""
        return self

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> Any:
        """The state before the first of `horizon` steps, at x with multipliers lam."""
        return State(x, lam, jnp.ones((), jnp.int32), horizon)

    @abstractmethod
    def step(self, problem: Problem, state: Any, theta: Tree) -> tuple[Any, Info]:
        """One step on one sample (or batch) theta."""


class Steps:
    """What follows for a run of a method from what its steps are made of; here, of coefficients that all work.

    Example:
        >>> import tightrope as tr
        >>> tr.CSOA(upsilon0=2.0).steps.tightening(100), tr.CSOA().steps.cost(100).projections
        (0.2, 101)
    """

    def __init__(self, method: Method):
        self.method = method

    def check(self, horizon: int) -> None:
        """Refuse coefficients that cannot work at this horizon."""

    def tightening(self, horizon: int) -> float:
        """The upsilon that a run of `horizon` steps ends with; 0 for methods that do not tighten."""
        facts = self.method.facts
        if facts.margin is None or facts.margin_power is None:
            return 0.0
        return float(np.max(np.asarray(getattr(self.method, facts.margin)))) / horizon**facts.margin_power

    def batch(self, n: int) -> int:
        """The batch size for n rows where the user gives none."""
        return n if self.method.facts.full_batch else 1

    def cost(self, steps: int, domain: ConvexSet | None = None) -> Cost:
        """What so many steps cost with a batch of one, in this set where it matters; looks at all rows aside."""
        return Cost(*(steps * one for one in self.method.cost))

    def looks(self, steps: int, n: int, domain: ConvexSet | None = None) -> Cost:
        """What the looks at all of n rows cost that so many steps take, in this set where it matters."""
        return Cost(samples=0, gradients=0)

    def said(self, state: Any, names: list[str]) -> str | None:
        """A line for the report on what the run chose for itself; None for methods that choose nothing."""
        return None

    def at_start(self, state: Any) -> float:
        """What the run has seen of f at x_1; NaN where it has chosen nothing by that."""
        return math.nan

    def least_errors(self, state: Any) -> Any:
        """What two standard errors of every constraint are at least, by what the run saw; 0 where it knows no better."""
        return 0.0


@pytree
class Power:
    """A step size c / T^p, constant over a run of T steps; with `anytime`, c / t^p at step t.

    Example:
        >>> from tightrope.methods.base import Power
        >>> float(Power(1.0, 0.5)(t=1, horizon=100))
        0.1...
        >>> float(Power(1.0, 0.5, anytime=True)(t=4, horizon=100))
        0.5
    """

    c: Any
    p: Any
    anytime: bool = static(default=False)

    def __call__(self, t: Any, horizon: Any) -> Array:
        """The value at step t = 1, 2, ... of a run of `horizon` steps."""
        dtype = jnp.result_type(self.c, float)
        base = jnp.asarray(t if self.anytime else horizon, dtype)
        return self.c / base**self.p


class Powers(Steps):
    """Steps eta = eta0/T^p with a margin upsilon0/T^q, whose dual shrinks multipliers by eta^2 delta a step.

    Args:
        method: with these coefficients, and dual_scale where the dual step is dual_scale^2 eta; where it is `anytime`, t
            takes the place of T.
        p, q: the powers.
    """

    method: Any

    def __init__(self, method: Method, p: float = 1 / 2, q: float = 1 / 2):
        super().__init__(method)
        self.p, self.q = p, q

    def check(self, horizon: int) -> None:
        """The dual step must not overshoot: eta^2 delta < 1."""
        method = self.method
        shrink = float(method.eta0**2 * method.delta) / (1 if method.anytime else horizon ** (2 * self.p))
        where = "at the first step" if method.anytime else f"at {horizon:,} steps"
        refuse_overshoot(method, "eta^2 delta", shrink, where, "eta0 or delta")

    def begin(self, x: Tree, lam: Array, horizon: Array) -> Any:
        """What `taken` remembers from step to step: nothing."""
        return ()

    def pressing(self, memory: Any, lam: Array) -> Array:
        """The multipliers that a step takes its gradient with."""
        return lam

    def taken(
        self, domain: ConvexSet, memory: Any, x: Tree, lam: Array, f: Array, g: Tree, h: Array, t: Array, horizon: Array
    ) -> tuple[Any, Tree, Array, Array]:
        """After step t from x and lam against the gradient g, where f and h were seen: what is remembered, the next point
        and multipliers, and the weight of x in the output."""
        method = self.method
        eta = Power(method.eta0, self.p, method.anytime)(t, horizon)
        upsilon = Power(method.upsilon0, self.q, method.anytime)(t, horizon)
        x_next = domain.project(add_scaled(x, -eta, g))
        gamma = getattr(method, "dual_scale", 1.0) ** 2 * eta
        lam_next = dual_step(lam, h, gamma=gamma, shrink=eta**2 * method.delta, upsilon=upsilon)
        return memory, x_next, lam_next, eta if method.anytime else jnp.ones_like(eta)


class Refreshing(Method):
    """A method that looks at all the data from time to time: `refresh`, every `refresh_every` steps.

    Example:
        >>> import tightrope as tr
        >>> issubclass(tr.SVRGCSOA, tr.Refreshing), issubclass(tr.CSOA, tr.Refreshing)
        (True, False)
    """

    refresh_every: int | None = None  # None until `for_rows` has seen how many rows there are

    @property
    def steps(self) -> Steps:
        """With what refreshes cost."""
        return Refreshes(self)

    @abstractmethod
    def refresh(self, problem: Problem, state: Any, data: Tree) -> Any:
        """A look at all the data, before steps 1, 1 + refresh_every, 1 + 2 refresh_every, ..."""

    def for_rows(self, n: int, batch_size: int) -> Self:
        """The method fitted to data of n rows: the place to set what depends on its size."""
        return self

    def snapshot(self, state: Any) -> Any:
        """After a refresh, the `Snapshot` of the answer, from which a bound on its gap is made; None for methods that take
        none."""
        return None

    def inner(self, state: Any) -> Inner | None:
        """A strictly feasible point among those looked at, towards which an output may be pulled; None without one."""
        return None


class Refreshes(Steps):
    """What follows for a run of a method that looks at all rows from time to time: a pass each, where nothing else is
    said."""

    method: Any

    def number(self, steps: int) -> int:
        """How many looks so many steps take."""
        every = self.method.refresh_every
        return -(-steps // every) if every else 0

    def looks(self, steps: int, n: int, domain: ConvexSet | None = None) -> Cost:
        return Cost(samples=0, gradients=self.number(steps) * n)


def title_of(algorithm: Algorithm | type[Algorithm]) -> str:
    """What an algorithm is called in reports and errors: its class or, where fitting it to a problem has made another one of
    it, whose name begins with an underscore, the class by which users know it."""
    kind = algorithm if isinstance(algorithm, type) else type(algorithm)
    return next(known.__name__ for known in kind.__mro__ if not known.__name__.startswith("_"))


def refuse_overshoot(method: Method, what: str, shrink: float, where: str, remedy: str) -> None:
    """Refuse a dual step that takes as much of the multipliers as there is, or more."""
    if shrink >= 1:
        raise ValueError(
            f"{title_of(method)}: {what} is {shrink:.3g} {where}; expected less than 1, or the multipliers are wiped "
            f"out at every step. Use a smaller {remedy}."
        )


def dual_step(lam: Array, h: Array, *, gamma: Any, shrink: Any, upsilon: Any) -> Array:
    """The regularised, tightened ascent shared by the family: [ (1 - shrink) lam + gamma (h + upsilon) ]_+.

    Example:
        >>> import jax.numpy as jnp, tightrope as tr
        >>> tr.dual_step(jnp.array([0.0, 1.0]), jnp.array([0.5, -4.0]), gamma=0.5, shrink=0.0, upsilon=0.5).tolist()
        [0.5, 0.0]
    """
    return jnp.maximum((1 - shrink) * lam + gamma * (h + upsilon), 0)


def look_ahead(problem: Problem, x: Tree, x_next: Tree, h: Array, theta: Tree) -> Array:
    """h(x) + <grad h(x), x_next - x> on one batch: what the queues of drift-plus-penalty methods see."""
    return h + jax.jvp(lambda p: problem.constraint_values(p, theta), (x,), (subtract(x_next, x),))[1]
