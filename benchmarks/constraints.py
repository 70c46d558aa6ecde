"""Constraint expressions of algorithm cards, such as `efSearch >= k` or `dtype == 'float32' or distance != 'ip'`.

A small part of Python's grammar, read with `ast` and never given to `eval`.
"""

import ast
import operator
from collections.abc import Mapping

_COMPARE = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: lambda base, exponent: base ** min(exponent, 64),  # a slip of the pen must not fill the memory
}


def check_constraint(text: str, known: set[str]) -> None:
    """Raises ValueError unless `text` compares names that are in `known`."""
    tree = _parse(text)
    unknown = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - known
    if unknown:
        raise ValueError(f"constraint '{text}' names unknown {', '.join(sorted(unknown))}")
    try:
        _evaluate(tree, dict.fromkeys(known, 1), text)
    except ZeroDivisionError:
        pass  # of the ones that stand for every name
    except TypeError:
        raise ValueError(f"constraint '{text}' compares a number with a text") from None


def holds(text: str, values: Mapping[str, float | None]) -> bool:
    """Whether the constraint holds; True where it names a value that is not known yet (None)."""
    tree = _parse(text)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if any(values.get(name) is None for name in names):
        return True
    try:
        return bool(_evaluate(tree, values, text))
    except ZeroDivisionError:
        return False


def _parse(text: str) -> ast.Compare | ast.BoolOp:
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        tree = None
    if not isinstance(tree, (ast.Compare, ast.BoolOp)):
        raise ValueError(f"constraint '{text}' is not a comparison")
    return tree


def _evaluate(node: ast.AST, values: Mapping, text: str):
    if isinstance(node, ast.BoolOp) and all(isinstance(value, (ast.Compare, ast.BoolOp)) for value in node.values):
        sides = [_evaluate(side, values, text) for side in node.values]
        return all(sides) if isinstance(node.op, ast.And) else any(sides)
    if isinstance(node, ast.Compare) and all(type(compare) in _COMPARE for compare in node.ops):
        sides = [_evaluate(side, values, text) for side in (node.left, *node.comparators)]
        return all(_COMPARE[type(op)](a, b) for op, a, b in zip(node.ops, sides, sides[1:], strict=False))
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return _ARITHMETIC[type(node.op)](_evaluate(node.left, values, text), _evaluate(node.right, values, text))
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str, bool)):
        return node.value
    raise ValueError(f"constraint '{text}': only names, numbers, + - * / % **, comparisons, and, or are understood")
