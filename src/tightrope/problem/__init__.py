"""The problem: objective, constraints and domain; what can be made of it, measured on data and checked."""

from tightrope.problem.full_data import full_values as full_values
from tightrope.problem.problem import Problem as Problem
from tightrope.problem.problem import Split as Split
