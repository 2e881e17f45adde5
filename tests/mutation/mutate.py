"""Mutants: the small faults that a source file could have, one at a time.

What is mutated, and into what:

| kind       | mutation                                                                                        |
|------------|-------------------------------------------------------------------------------------------------|
| compare    | `<` to `<=` and `>=`, `==` to `!=`, `in` to `not in`, `is` to `is not`, and so on               |
| boolean    | `and` to `or`, and back                                                                         |
| not        | `not x` to `x`                                                                                  |
| arithmetic | `+` to `-`, `*` to `//`, `|` to `&` and so on; the minus before a value is left out             |
| constant   | a number to the one above and below, a text to the empty one (the empty one to `~`), True to    |
|            | False, None to 0, an empty list, tuple or mapping to None                                       |
| condition  | the condition of `if`, `while`, a conditional expression or a comprehension, negated            |
| return     | the returned value, as its annotation has it: negated, empty, 0 or None                         |
| remove     | a call, `yield`, `raise`, `del`, an augmented assignment or an assignment to an attribute or an |
|            | item, left out                                                                                  |
| jump       | `break` to `continue`, and back                                                                 |
| default    | the default of a parameter that is no constant, to None                                         |
| slice      | a bound of a slice, left out                                                                    |

Not mutated, because nothing that a test sees depends on it:

- docstrings and other bare texts, annotations, `Literal[...]`, the type that `cast` names, type variables, `__all__`,
  `if TYPE_CHECKING`;
- `__repr__`;
- `assert`, `raise AssertionError` and `strict=` of `zip`: they check the code itself, and never fail;
- `frozen=`, `slots=`, `kw_only=`, `repr=`, `eq=` and `order=` of a dataclass or a model, and `init=` of a field: they
  limit how code may use it;
- `maxsplit` where only the first part is taken, as in `text.split(":", maxsplit=1)[0]`;
- the size of a cache;
- the None that something is compared with by `is` (the comparison itself is mutated);
- what Python computes to the same syntax tree, does not compile, or warns of.
"""

import ast
import copy
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitAnd,
}
_EMPTY = {
    "str": "''",
    "bytes": "b''",
    "int": "0",
    "float": "0.0",
    "list": "[]",
    "tuple": "()",
    "dict": "{}",
    "set": "set()",
    "frozenset": "frozenset()",
    "Sequence": "()",
    "Mapping": "{}",
    "Iterable": "()",
    "Iterator": "iter(())",
}
_LIMITS_ITS_USE = {"frozen", "slots", "kw_only", "repr", "eq", "order"}
_SHAPED = {"dataclass", "field", "Field", "ConfigDict", "class"}
_UNSEEN = {"zip": {"strict"}, "lru_cache": {"maxsize"}} | dict.fromkeys(_SHAPED, _LIMITS_ITS_USE)
_UNSEEN["field"] = _LIMITS_ITS_USE | {"init"}
"""Arguments by the name of what is called."""
_TYPES = {"TypeVar", "ParamSpec", "NewType"}


@dataclass(frozen=True)
class Mutant:
    """One change of one file: its bytes from `start` to `end` become `text`."""

    path: str
    line: int
    column: int
    kind: str
    number: int
    """Among those of its kind at this very place."""
    start: int
    end: int
    text: str
    lines: tuple[int, int]
    """The first and last line that are run when the mutated code is."""
    around: tuple[int, int]
    """The first and last line of the function that the mutated code is in, or of the code itself."""
    at_import: bool
    """Whether the mutated code runs when the module is imported."""
    names: tuple[str, ...] = ()
    """What the mutated code gives a value to, if it runs at import: whoever uses these sees the change."""
    literal: str = ""
    """The text that the mutant takes away, if it does."""

    @property
    def name(self) -> str:
        """What repeats this mutant as long as the file stays as it is."""
        return f"{self.path}:{self.line}:{self.column}:{self.kind}:{self.number}"

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def shown(self, source: bytes) -> tuple[list[str], list[str]]:
        """Return the lines that change, as they are and as they become."""
        first = source.rfind(b"\n", 0, self.start) + 1
        last = source.find(b"\n", self.end)
        last = len(source) if last < 0 else last
        before = source[first:last].decode()
        after = (source[first : self.start] + self.text.encode() + source[self.end : last]).decode()
        return before.splitlines(), after.splitlines()


def is_valid(mutant: Mutant, source: bytes) -> bool:
    """Whether a mutant compiles without a warning and differs from the original in more than its text."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            changed = ast.parse(mutant.apply(source))
            compile(changed, mutant.path, "exec")
        except (SyntaxError, SyntaxWarning, ValueError):
            return False
    return ast.dump(changed) != _dump(source)


@lru_cache(maxsize=1)
def _dump(source: bytes) -> str:
    return ast.dump(ast.parse(source))  # the same for all mutants of a file


def mutants(path: str, source: bytes) -> list[Mutant]:
    """Return all mutants of a file, in the order of its lines."""
    walk = _Walk(path, source)
    walk.body(ast.parse(source).body, _Scope())
    return sorted(walk.mutants, key=lambda one: (one.start, one.end, one.kind, one.number))


@dataclass(frozen=True)
class _Scope:
    """Where in the file a node is."""

    lines: tuple[int, int] = (0, 0)
    function: tuple[int, int] | None = None
    at_import: bool = True
    names: tuple[str, ...] = ()
    returns: ast.expr | None = None
    literal: str = ""
    outer: ast.expr | None = None
    """The whole f-string around a node: Python 3.11 does not know positions within it."""


@dataclass
class _Walk:
    path: str
    source: bytes
    mutants: list[Mutant] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.numbers: Counter[tuple[int, str]] = Counter()
        self.starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def add(self, node: ast.expr | ast.stmt, kind: str, text: str, scope: _Scope) -> None:
        """Add the mutant that has `text` instead of a node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[node.end_lineno - 1] + node.end_col_offset
        number = self.numbers[start, kind]
        self.numbers[start, kind] += 1
        place = (node.lineno, node.col_offset, kind, number)
        around = scope.function or scope.lines
        self.mutants.append(
            Mutant(
                self.path, *place, start, end, text, scope.lines, around, scope.at_import, scope.names, scope.literal
            )
        )

    def put(self, node: ast.expr, new: ast.expr | str, kind: str, scope: _Scope) -> None:
        """Add the mutant that has `new` instead of an expression, which may be within an f-string."""
        text = new if isinstance(new, str) else ast.unparse(new)
        if scope.outer is None:
            self.add(node, kind, text, scope)
            return
        within = ast.parse(f"_[{text}]", mode="eval").body
        assert isinstance(within, ast.Subscript)
        try:
            changed = ast.unparse(_with_other(scope.outer, node, within.slice))
        except ValueError:  # what cannot be written within an f-string
            return
        self.add(scope.outer, kind, f"({changed})", scope)

    def body(self, body: list[ast.stmt], scope: _Scope) -> None:
        for node in body:
            self.statement(node, replace(scope, lines=_lines(node)))

    def statement(self, node: ast.stmt, scope: _Scope) -> None:
        if scope.at_import:
            scope = replace(scope, names=_names(node) or scope.names)
        match node:
            case ast.Assert() | ast.Import() | ast.ImportFrom():
                return
            case ast.Raise(exc=ast.Name(id="AssertionError") | ast.Call(func=ast.Name(id="AssertionError"))):
                return
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                self.body(node.orelse, scope)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.function(node, scope)
            case ast.ClassDef():
                self.arguments(node.decorator_list, [], "", scope)
                self.arguments(node.bases, node.keywords, "class", scope)
                self.body(node.body, scope)
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                return
            case ast.AnnAssign():
                if node.value is not None and ast.unparse(node.annotation) != "TypeAlias":
                    self.expression(node.value, scope)
            case ast.Return(value=ast.expr() as value):
                self.returned(value, scope)
                self.expression(value, scope)
            case ast.Expr(value=ast.Constant()):
                return  # a docstring, or the three dots of a protocol
            case _:
                self.left_out(node, scope)
                self.inner(node, scope)

    def left_out(self, node: ast.stmt, scope: _Scope) -> None:
        """Add the mutants in which a whole statement is another one."""
        match node:
            case ast.Break():
                self.add(node, "jump", "continue", scope)
            case ast.Continue():
                self.add(node, "jump", "break", scope)
            case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
                self.add(node, "remove", "yield from ()", scope)
            case ast.Expr(value=ast.Call()) | ast.Raise() | ast.Delete():
                self.add(node, "remove", "pass", scope)
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                self.add(node, "remove", "pass", scope)
            case ast.AugAssign():
                self.add(node, "remove", "pass", scope)
                if other := _COMPUTED.get(type(node.op)):
                    text = ast.unparse(ast.AugAssign(node.target, other(), node.value))
                    self.add(node, "arithmetic", text, scope)
            case ast.If() | ast.While():
                self.condition(node.test, scope)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: _Scope) -> None:
        if node.name == "__repr__":
            return
        called = (node.body[0].lineno, node.end_lineno or node.lineno)
        inside = replace(scope, lines=called, function=called, at_import=False, names=(), returns=node.returns)
        self.arguments(node.decorator_list, [], "", inside)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None and not isinstance(default, ast.Constant):
                self.put(default, "None", "default", inside)
            if default is not None:
                self.expression(default, inside)
        self.body(node.body, inside)

    def returned(self, value: ast.expr, scope: _Scope) -> None:
        if isinstance(value, ast.Constant):
            return
        returns = ast.unparse(scope.returns) if scope.returns is not None else ""
        if returns == "bool":
            self.put(value, f"(not ({ast.unparse(value)}))", "return", scope)
            return
        empty = _EMPTY.get(returns.partition("[")[0], "None") if "|" not in returns else "None"
        if ast.unparse(value) != empty:
            self.put(value, empty, "return", scope)

    def inner(self, node: ast.AST, scope: _Scope) -> None:
        """Mutate what is within a statement, an expression or a pattern."""
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.stmt():
                    self.statement(child, replace(scope, lines=_lines(child)))
                case ast.expr():
                    self.expression(child, scope)
                case ast.match_case():
                    inside = replace(scope, lines=(child.pattern.lineno, child.body[0].lineno))
                    if child.guard is not None:
                        self.condition(child.guard, inside)
                    self.inner(child, inside)
                case ast.comprehension():
                    for test in child.ifs:
                        self.condition(test, scope)
                    self.inner(child, scope)
                case ast.AST() if not isinstance(child, ast.expr_context | ast.operator | ast.cmpop):
                    self.inner(child, scope)

    def condition(self, test: ast.expr, scope: _Scope) -> None:
        match test:
            case ast.UnaryOp(op=ast.Not()):
                return  # the `not` is left out by another mutant
            case ast.Compare(ops=[operator]) if len(_COMPARED[type(operator)]) == 1:
                return  # another mutant has the opposite
        self.put(test, f"(not ({ast.unparse(test)}))", "condition", scope)

    def expression(self, node: ast.expr, scope: _Scope) -> None:
        match node:
            case ast.Constant():
                self.constant(node, scope)
            case ast.Compare():
                self.comparison(node, scope)
            case ast.Subscript(value=ast.Name(id="Literal")):
                return
            case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="split")) as call, slice=ast.Constant(value=0)):
                self.arguments([call.func, *call.args, node.slice], [], "", scope)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                if name not in _TYPES:
                    self.arguments([node.func], [], "", scope)
                    self.arguments(node.args[name == "cast" :], node.keywords, name, scope)
            case ast.JoinedStr() if scope.outer is None:
                self.inner(node, replace(scope, outer=node))
            case _:
                self.changed(node, scope)
                self.inner(node, scope)

    def changed(self, node: ast.expr, scope: _Scope) -> None:
        """Add the mutants in which an expression computes something else."""
        match node:
            case ast.BoolOp():
                other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                self.put(node, f"({ast.unparse(ast.BoolOp(other, node.values))})", "boolean", scope)
            case ast.UnaryOp(op=ast.Not()):
                self.put(node, f"({ast.unparse(node.operand)})", "not", scope)
            case ast.UnaryOp(op=ast.USub()):
                self.put(node, f"({ast.unparse(node.operand)})", "arithmetic", scope)
            case ast.BinOp() if computed := _COMPUTED.get(type(node.op)):
                new = ast.BinOp(node.left, computed(), node.right)
                self.put(node, f"({ast.unparse(new)})", "arithmetic", scope)
            case ast.IfExp():
                self.condition(node.test, scope)
            case ast.Tuple(elts=[], ctx=ast.Load()) | ast.List(elts=[]) | ast.Dict(keys=[]):
                self.put(node, "None", "constant", scope)
            case ast.Slice():
                if node.lower is not None:
                    self.put(node, ast.Slice(None, node.upper, node.step), "slice", scope)
                if node.upper is not None:
                    self.put(node, ast.Slice(node.lower, None, node.step), "slice", scope)

    def comparison(self, node: ast.Compare, scope: _Scope) -> None:
        for number, operator in enumerate(node.ops):
            for other in _COMPARED[type(operator)]:
                ops = [*node.ops[:number], other(), *node.ops[number + 1 :]]
                new = ast.Compare(node.left, ops, node.comparators)
                self.put(node, f"({ast.unparse(new)})", "compare", scope)
        self.expression(node.left, scope)
        for operator, other_side in zip(node.ops, node.comparators, strict=True):
            if not (isinstance(operator, ast.Is | ast.IsNot) and isinstance(other_side, ast.Constant)):
                self.expression(other_side, scope)

    def arguments(self, values: list[ast.expr], words: list[ast.keyword], called: str, scope: _Scope) -> None:
        kept = [word.value for word in words if word.arg not in _UNSEEN.get(called, ())]
        for one in (*values, *kept):
            self.expression(one, scope)

    def constant(self, node: ast.Constant, scope: _Scope) -> None:
        match node.value:
            case bool() as value:
                texts = [repr(not value)]
            case int() | float() as value:
                texts = [repr(value + 1), repr(value - 1)]
            case str() as value:
                texts, scope = ["''" if value else "'~'"], replace(scope, literal=value)
            case bytes() as value:
                texts = ["b''" if value else "b'~'"]
            case None:
                texts = ["0"]
            case _:
                texts = []
        for text in texts:
            self.put(node, f"({text})" if text.startswith("-") else text, "constant", scope)


def _lines(node: ast.stmt) -> tuple[int, int]:
    """Return the lines of a statement, without those of the statements within it."""
    within = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.match_case)]
    first = min((one.pattern.lineno if isinstance(one, ast.match_case) else one.lineno for one in within), default=0)
    end = node.end_lineno or node.lineno
    return node.lineno, max(node.lineno, first - 1) if within else end


def _names(node: ast.stmt) -> tuple[str, ...]:
    """Return the names that a statement gives values to."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return tuple(
        one.id for target in targets if target is not None for one in ast.walk(target) if isinstance(one, ast.Name)
    )


def _with_other(whole: ast.expr, old: ast.expr, new: ast.expr) -> ast.expr:
    """Return a copy of an expression with something else instead of one node in it."""
    number = next(number for number, node in enumerate(ast.walk(whole)) if node is old)
    changed = copy.deepcopy(whole)
    target = next(node for place, node in enumerate(ast.walk(changed)) if place == number)

    class Put(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is target else self.generic_visit(node)

    result = Put().visit(changed)
    assert isinstance(result, ast.expr)
    return result
