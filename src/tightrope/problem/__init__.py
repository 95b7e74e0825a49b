"""The problem: objective, constraints and domain; what can be made of it, measured on data and checked."""

from tightrope.problem.at_most import conditional_mean_at_most as conditional_mean_at_most
from tightrope.problem.at_most import entropic_risk_at_most as entropic_risk_at_most
from tightrope.problem.at_most import ratio_at_most as ratio_at_most
from tightrope.problem.at_most import variance_at_most as variance_at_most
from tightrope.problem.check import check_problem as check_problem
from tightrope.problem.constraints import equality as equality
from tightrope.problem.constraints import penalised as penalised
from tightrope.problem.constraints import stack as stack
from tightrope.problem.constraints import two_sided as two_sided
from tightrope.problem.cvar import lift_cvar as lift_cvar
from tightrope.problem.full_data import full_constraints as full_constraints
from tightrope.problem.full_data import full_jacobian as full_jacobian
from tightrope.problem.full_data import full_mean as full_mean
from tightrope.problem.full_data import full_values as full_values
from tightrope.problem.problem import Problem as Problem
