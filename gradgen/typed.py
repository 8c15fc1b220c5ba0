"""What a user typed, of the text of a spec file."""

from __future__ import annotations

import ast
import textwrap

from gradgen.load import Formula


def formula(written: Formula) -> str:
    """A formula; with what it is made of where its function has more than one statement."""
    whole = body(written.text, written.line)
    try:
        return whole if len(ast.parse(whole).body) > 1 else written.source
    except SyntaxError:  # more than a body is on its lines
        return written.source


def body(text: str, line: int) -> str:
    """The body of the function that holds a line, without its docstring; else the statement that does."""
    tree = ast.parse(text)
    holding = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or 0)]
    functions = [node for node in holding if isinstance(node, ast.FunctionDef)]
    if functions:
        function = max(functions, key=lambda node: node.lineno)
        statements = function.body[1 if ast.get_docstring(function) is not None else 0 :]
    else:
        statements = holding[:1]
    if not statements:
        return ""
    return textwrap.dedent("\n".join(text.split("\n")[statements[0].lineno - 1 : statements[-1].end_lineno]))
