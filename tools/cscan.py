# SPDX-License-Identifier: Apache-2.0
"""Just enough of a C scanner for lint: code without comments and literals, includes, functions.

Line numbers are kept by putting a newline for every newline that is taken out.  Of an #if with
#else only the first branch is looked at, so that braces stay balanced.
"""

import re
from dataclasses import dataclass

_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)
_CONDITION = re.compile(r"\s*#\s*(ifdef|ifndef|if|else|elif|endif)\b")
# What may stand between a name and its parameter list, or after it, without being the function.
_NOT_A_NAME = re.compile(r"^(?:__attribute__|__declspec|_Alignas|alignas|STK_[A-Z_]+)$")


@dataclass
class Include:
    line: int
    angle: bool
    path: str


@dataclass
class Function:
    name: str
    line: int
    lines: int
    params: int
    head: str = ""


def _blank(match):
    text = match.group()
    if text[0] in "\"'":
        return text[0] * 2
    return " " + "\n" * text.count("\n")


def strip(text):
    """Code without comments; string and character literals are left as empty ones."""
    return _TOKENS.sub(_blank, text)


def includes(text):
    # Literals must stay here, since a quoted include is one; comments are blanked.
    code = _TOKENS.sub(lambda m: _blank(m) if m.group()[0] == "/" else m.group(), text)
    return [Include(code.count("\n", 0, m.start()) + 1, m.group(1) == "<", m.group(2))
            for m in _INCLUDE.finditer(code)]


def _without_preprocessor(code):
    out, hidden, continued = [], [], False
    for line in code.split("\n"):
        directive = continued or line.lstrip().startswith("#")
        condition = None if continued else _CONDITION.match(line)
        if condition:
            word = condition.group(1)
            if word.startswith("if"):
                hidden.append(False)
            elif word == "endif":
                hidden[-1:] = []
            elif hidden:
                hidden[-1] = True
        continued = directive and line.rstrip().endswith("\\")
        out.append("" if directive or any(hidden) else line)
    return "\n".join(out)


def _closing(text, start):
    """Index of the parenthesis that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return -1


def _count_params(inside):
    inside = inside.strip()
    if inside in ("", "void"):
        return 0
    depth, count = 0, 1
    for c in inside:
        depth += (c in "([{") - (c in ")]}")
        count += c == "," and depth == 0
    return count


def _signature(head):
    """(name, params) if `head`, the text before a brace, begins a function; else None."""
    if ")" not in head or "=" in head or re.match(r"\s*(typedef|struct|union|enum)\b[^()]*$", head):
        return None
    for m in re.finditer(r"(\w+)\s*\(", head):
        if _NOT_A_NAME.match(m.group(1)):
            continue
        end = _closing(head, m.end() - 1)
        if end > 0:
            return m.group(1), _count_params(head[m.end():end])
    return None


@dataclass
class Struct:
    name: str
    line: int
    fields: int


def _plain(text):
    """Code without preprocessor, and without the brace of extern "C"."""
    code = _without_preprocessor(strip(text))
    return re.sub(r'\bextern\s*""\s*\{', lambda m: "\n" * m.group().count("\n") + ";", code)


def prototypes(text):
    """(name, line) of the functions that a header declares for others: not static, not inline."""
    code, found, depth, start = _plain(text), [], 0, 0
    for m in re.finditer(r"[{};]", code):
        head, c = code[start:m.start()], m.group()
        depth = max(0, depth + (c == "{") - (c == "}"))
        if depth == 0:
            signature = _signature(head) if c == ";" else None
            if signature and not re.search(r"\b(static|typedef)\b", head):
                found.append((signature[0], code.count("\n", 0, start + len(head) - len(head.lstrip())) + 1))
            start = m.end()
    return found


def _count_fields(body):
    while "{" in body:                      # an inner struct or union is one field
        body = re.sub(r"\{[^{}]*\}", "", body)
    while "(" in body:                      # parameters of functions, which may have functions among them
        body = re.sub(r"\([^()]*\)", "", body)
    fields = [re.sub(r"\[[^\]]*\]", "", d) for d in body.split(";") if d.strip()]
    return sum(1 + d.count(",") for d in fields)


def structs(text):
    """Structs with a body: how many fields each has."""
    code, found = _plain(text), []
    for m in re.finditer(r"\bstruct\s+(?:STK_[A-Z_]+\([^{]*?\)\s*)?(\w+)\s*\{", code):
        depth, end = 0, m.end() - 1
        for end in range(m.end() - 1, len(code)):
            depth += (code[end] == "{") - (code[end] == "}")
            if depth == 0:
                break
        found.append(Struct(m.group(1), code.count("\n", 0, m.start()) + 1, _count_fields(code[m.end():end])))
    return found


def functions(text):
    """Function definitions: lines are counted from the first of the signature to the brace."""
    code = _plain(text)
    found, depth, head_start, open_at = [], 0, 0, 0
    for m in re.finditer(r"[{};]", code):
        at, c = m.start(), m.group()
        if c == "{":
            if depth == 0:
                open_at = at
            depth += 1
        elif c == "}" and depth:
            depth -= 1
            if depth == 0:
                head = code[head_start:open_at]
                signature = _signature(head)
                if signature:
                    first = code.count("\n", 0, head_start + len(head) - len(head.lstrip())) + 1
                    last = code.count("\n", 0, at) + 1
                    found.append(Function(signature[0], first, last - first + 1, signature[1], head))
        if depth == 0:
            head_start = at + 1
    return found
