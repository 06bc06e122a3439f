"""Pairs of texts of one definition: which ones are the same to a fingerprint, and which are not."""

import pytest

from tap.provenance.definitions import Project
from tap.provenance.modules import read_module
from tap.provenance.normal_form import normal_form

SAME = {
    "comment": ("def f(a):\n    return a", "def f(a):\n    # why\n    return a"),
    "docstring": ("def f(a):\n    return a", 'def f(a):\n    """What."""\n    return a'),
    "string of an attribute": ("class A:\n    x = 1", 'class A:\n    x = 1\n    """What x is."""'),
    "only a docstring": ('def f():\n    """Doc."""', "def f():\n    pass"),
    "annotation": ("def f(a):\n    b = a\n    return b", "def f(a: int) -> int:\n    b: int = a\n    return b"),
    "bare annotation": ("def f(a):\n    b = a\n    return b", "def f(a):\n    b: int\n    b = a\n    return b"),
    "annotation of a constant": ("X = 1", "X: int = 1"),
    "message": ("def f(a):\n    raise ValueError('a')", "def f(a):\n    raise ValueError('b')"),
    "message with values": (
        "def f(a):\n    raise ValueError(f'{a} b')",
        "def f(a):\n    raise ValueError('no ' + str(a))",
    ),
    "message of an assertion": ("def f(a):\n    assert a, 'x'", "def f(a):\n    assert a"),
    "local": ("def f(a):\n    b = a\n    return b", "def f(a):\n    c = a\n    return c"),
    "positional parameter": ("def f(a, /):\n    return a", "def f(b, /):\n    return b"),
    "rest": ("def f(*a, **b):\n    return a, b", "def f(*c, **d):\n    return c, d"),
    "comprehension": ("def f(a):\n    return [b for b in a if b]", "def f(a):\n    return [c for c in a if c]"),
    "loop, with, except": (
        "def f(a):\n for b in a:\n  with b as c:\n   try:\n    c()\n   except E as e:\n    e",
        "def f(a):\n for x in a:\n  with x as y:\n   try:\n    y()\n   except E as z:\n    z",
    ),
    "pattern": (
        "def f(a):\n    match a:\n        case [b, *c]:\n            return b, c",
        "def f(a):\n    match a:\n        case [x, *y]:\n            return x, y",
    ),
    "captured": (
        "def f(a):\n    b = a\n    def g():\n        nonlocal b\n        b = 2\n    return b",
        "def f(a):\n    c = a\n    def g():\n        nonlocal c\n        c = 2\n    return c",
    ),
    "name of an import": (
        "import numpy as np\ndef f():\n    return np.ones",
        "import numpy\ndef f():\n    return numpy.ones",
    ),
    "place of an import": (
        "from math import pi\ndef f():\n    return pi",
        "import math\ndef f():\n    return math.pi",
    ),
    "annotation of a module": (
        "from torch import nn\nclass A(nn.Module):\n    x: int = 1",
        "from torch import nn\nclass A(nn.Module):\n    x: float = 1",
    ),
    "type of a field": (
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: float",
    ),
}
OTHER = {
    "sign": ("def f(a):\n    return a", "def f(a):\n    return -a"),
    "constant": ("X = 1", "X = 1.0"),
    "default": ("def f(a=1):\n    return a", "def f(a=2):\n    return a"),
    "parameter": ("def f(a):\n    return a", "def f(b):\n    return b"),
    "keyword parameter": ("def f(*, a):\n    return a", "def f(*, b):\n    return b"),
    "order of parameters": ("def f(a, b):\n    return a", "def f(b, a):\n    return a"),
    "type of an error": ("def f():\n    raise ValueError('a')", "def f():\n    raise KeyError('a')"),
    "call in a message": ("def f(a):\n    raise ValueError(f'{g(a)}')", "def f(a):\n    raise ValueError(f'{h(a)}')"),
    "code of an exit": ("def f():\n    raise SystemExit(1)", "def f():\n    raise SystemExit(2)"),
    "condition of an assertion": ("def f(a):\n    assert a, 'x'", "def f(a):\n    assert not a, 'x'"),
    "two locals exchanged": (
        "def f(a):\n    b, c = a\n    return b - c",
        "def f(a):\n    b, c = a\n    return c - b",
    ),
    "local and global": ("def f():\n    X = 1\n    return X", "def f():\n    global X\n    X = 1\n    return X"),
    "captured or own": (
        "def f(a):\n    b = a\n    def g():\n        nonlocal b\n        b = 2\n    g()\n    return b",
        "def f(a):\n    b = a\n    def g():\n        b = 2\n    g()\n    return b",
    ),
    "what is imported": (
        "from math import sin as g\ndef f(a):\n    return g(a)",
        "from math import cos as g\ndef f(a):\n    return g(a)",
    ),
    "import inside": (
        "def f():\n    from math import sin as g\n    return g",
        "def f():\n    from math import cos as g\n    return g",
    ),
    "decorator": ("@a\ndef f():\n    return 1", "@b\ndef f():\n    return 1"),
    "annotation under an unknown decorator": ("@a\ndef f(b: int):\n    return 1", "@a\ndef f(b: str):\n    return 1"),
    "base": ("class A(B):\n    x = 1", "class A(C):\n    x = 1"),
    "class attribute": ("class A:\n    x = 1", "class A:\n    x = 2"),
    "name of a class attribute": ("class A:\n    x = 1", "class A:\n    y = 1"),
    "order of fields": (
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n    y: int",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    y: int\n    x: int",
    ),
    "a field or none": (
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 1",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x = 1",
    ),
    "class variable": (
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 1",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: ClassVar[int] = 1",
    ),
    "named tuple": (
        "from typing import NamedTuple\nclass A(NamedTuple):\n    x: int\n    y: int",
        "from typing import NamedTuple\nclass A(NamedTuple):\n    y: int\n    x: int",
    ),
    "type of a pydantic field": (
        "from pydantic import BaseModel\nclass A(BaseModel):\n    x: int",
        "from pydantic import BaseModel\nclass A(BaseModel):\n    x: float",
    ),
    "locals are read": ("def f(a):\n    b = a\n    return locals()", "def f(a):\n    c = a\n    return locals()"),
    "locals in a query": (
        "def f(a):\n    b = 1\n    return a.query('x > @b')",
        "def f(a):\n    c = 1\n    return a.query('x > @b')",
    ),
    "a string that is used": ("def f():\n    return 'a'", "def f():\n    return 'b'"),
    "statements exchanged": ("def f(a):\n    a.b()\n    a.c()", "def f(a):\n    a.c()\n    a.b()"),
    "late branch": ("def f(a):\n    return a", "def f(a):\n    if a > 9:\n        return 9\n    return a"),
}


def digest(folder, text):
    """Of the last statement; annotations of classes count as in a project of this one module."""
    file = folder / f"m{abs(hash(text))}.py"
    file.write_text(text)
    module = read_module("m", file)
    statement = module.statements[-1]
    return normal_form(module, statement.node, Project({"m": file}).annotations(module, statement.node)).digest


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_what_decides_nothing_is_the_same(tmp_path, pair):
    assert digest(tmp_path, pair[0]) == digest(tmp_path, pair[1])


@pytest.mark.parametrize("pair", OTHER.values(), ids=OTHER)
def test_what_may_decide_something_is_not_the_same(tmp_path, pair):
    assert digest(tmp_path, pair[0]) != digest(tmp_path, pair[1])
