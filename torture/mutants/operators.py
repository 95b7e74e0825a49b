"""The mutants of a source file: what small mistakes could be made in it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
FUNCTIONS = {
    **{"min": "max", "minimum": "maximum", "argmin": "argmax", "any": "all", "floor": "ceil", "fmin": "fmax"},
    **{"max": "min", "maximum": "minimum", "argmax": "argmin", "all": "any", "ceil": "floor", "fmax": "fmin"},
    **{"zeros_like": "ones_like", "zeros": "ones", "ones_like": "zeros_like", "ones": "zeros", "mean": "sum"},
}
CAPS = {"min", "max", "minimum", "maximum", "clip"}  # f(a, b): the mutant is a


@dataclass(frozen=True)
class Mutant:
    """One node in the place of another; statements as they are and as they become."""

    file: str
    line: int
    lines: frozenset[int]  # of the statement: a test that ran any of them may see the mutant
    kind: str
    original: str
    mutant: str
    source: str  # of the whole file, mutated

    @property
    def key(self) -> tuple[str, str, str]:
        """What names a mutant where lines have moved."""
        return self.file, self.original, self.mutant


@dataclass(frozen=True)
class Site:
    """A place in the tree of a file, and what would stand there."""

    file: str
    tree: ast.Module
    statement: ast.stmt
    parent: ast.AST
    field: str
    index: int | None
    kind: str
    new: ast.AST

    def mutant(self) -> Mutant | None:
        """The mutant; none where its bytecode is that of the original."""
        before, code = head(self.statement), _bytecode(self.tree)
        old = self._put(self.new)
        try:
            statement = self.new if old is self.statement else self.statement
            after, source, same = head(statement), ast.unparse(self.tree), _bytecode(self.tree) == code
        finally:
            self._put(old)
        line = getattr(old, "lineno", self.statement.lineno)
        return None if same else Mutant(self.file, line, _lines(self.statement), self.kind, before, after, source)

    def _put(self, node: ast.AST | None) -> ast.AST:
        """Put a node into the place, and give what was there."""
        if self.index is None:
            old = getattr(self.parent, self.field)
            setattr(self.parent, self.field, node)
            return old
        entries = getattr(self.parent, self.field)
        old, entries[self.index] = entries[self.index], node
        return old


def sites(root: Path, file: str) -> list[Site]:
    """Every mutant of a file of the package, not yet made."""
    tree = ast.parse((root / file).read_text())
    return [Site(file, tree, *place) for place in _walk(tree, tree.body[0])]


def _walk(node: ast.AST, statement: ast.stmt) -> Iterator[tuple[ast.stmt, ast.AST, str, int | None, str, ast.AST]]:
    """Statement, parent, field, index, kind and new node of every mutant below a node. Annotations, decorators, strings
    and what errors say are left out: no run depends on them, or every run does."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr | ast.Raise | ast.Assert | ast.Import):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if _asserts(child):
                continue
            inside = child if isinstance(child, ast.stmt) else statement
            for kind, new in _replacements(child):
                yield inside, node, field, index, kind, ast.copy_location(new, child)
            yield from _walk(child, inside)


def _replacements(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What a node is replaced by."""
    match node:
        case ast.Compare(left, [op], others) if type(op) in COMPARISONS:
            yield "comparison", ast.Compare(left, [COMPARISONS[type(op)]()], others)
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
            yield "arithmetic", ast.BinOp(left, ARITHMETIC[type(op)](), right)
            if isinstance(op, ast.Add | ast.Sub):
                yield "dropped term", left
        case ast.AugAssign(target, op, value) if type(op) in ARITHMETIC:
            yield "arithmetic", ast.AugAssign(target, ARITHMETIC[type(op)](), value)
        case ast.BoolOp(op, values):
            yield "logic", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not() | ast.USub() | ast.Invert(), operand):
            yield "dropped sign", operand
        case ast.Constant(bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield "constant", ast.Constant(value + 1)
        case ast.If(test, body, orelse):
            yield "branch", ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.IfExp(test, body, orelse):
            yield "branch", ast.IfExp(test, orelse, body)
        case ast.Expr(ast.Call()):
            yield "dropped call", ast.Pass()
        case ast.Call():
            yield from _calls(node)


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    """What a call is replaced by."""
    function, args = node.func, node.args
    name = (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
    if name in FUNCTIONS:
        new = FUNCTIONS[name]
        renamed = (
            ast.Attribute(function.value, new, ast.Load()) if isinstance(function, ast.Attribute) else ast.Name(new)
        )
        yield "function", ast.Call(renamed, args, node.keywords)
    if name in CAPS and len(args) > 1:
        yield "dropped cap", args[0]
    if name == "where" and len(args) == 3:
        yield "branch", ast.Call(function, [args[0], args[2], args[1]], node.keywords)
    for k, keyword in enumerate(node.keywords):
        if keyword.arg and not _asserts(keyword):
            yield "dropped argument", ast.Call(function, args, node.keywords[:k] + node.keywords[k + 1 :])


def _asserts(node: ast.AST) -> bool:
    """Whether it is the `strict=True` of a zip: it raises where lengths differ that the code around makes equal, as an
    `assert` would, and else no run depends on it."""
    return isinstance(node, ast.keyword) and ast.unparse(node) == "strict=True"


def head(statement: ast.AST) -> str:
    """A statement on one line; of one with a body, what stands before it."""
    text = ast.unparse(statement)
    if hasattr(statement, "body"):
        text = next(line for line in text.splitlines() if not line.startswith("@"))
    return " ".join(text.split())


def _lines(statement: ast.stmt) -> frozenset[int]:
    """The lines of a statement; of one with a body, those before it."""
    body = getattr(statement, "body", None)
    end = max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno or statement.lineno
    return frozenset(range(statement.lineno, end + 1))


def _bytecode(tree: ast.Module) -> object:
    """What Python makes of a tree, wherever its lines are."""

    def plain(code: object) -> object:
        if not hasattr(code, "co_code"):
            return type(code), repr(code)
        return code.co_code, code.co_names, code.co_varnames, [plain(c) for c in code.co_consts]  # pyright: ignore

    return plain(compile(ast.unparse(tree), "", "exec"))
