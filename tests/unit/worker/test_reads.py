# SPDX-License-Identifier: BSD-3-Clause
"""Which names a cell reads before it assigns them."""

import gc
import sys
import tracemalloc

import pytest

from cellspan._capture import by_name
from cellspan._capture.bindings import NOTHING, Bindings
from cellspan._capture.reads import analyse
from cellspan._capture.reducers import code_globals

CASES = [
    ("from __main__ import x as xx\nxx", "x"),
    ("import __main__\n__main__.x + __main__.y.z", "x y"),
    ("import __main__\n__main__.x = 1", ""),
    ("import sys\nsys.modules['__main__'].x", "x"),
    ("globals()['x'], get_ipython().user_ns['y']", "globals x get_ipython y"),
    ("import __main__, sys\nvars(__main__)['x'], __main__.__dict__['y'], sys.modules['__main__'].__dict__['z']", "vars x y z"),
    ("vars(a)['x'], b.__dict__['x'], sys.modules['other'].x", "vars a b sys"),
    ("vars()['x'], locals()['y'], globals().get('z', 0)", "vars x locals y globals z"),
    ("def f(): return vars()['x'], locals()['y']", "vars locals"),
    ("import __main__ as m\nm.x, m.y.z", "* x y"),
    ("m = sys.modules['__main__']\nm.x, n.y", "* sys x n"),
    ("import importlib\nm = importlib.import_module('__main__')\ngetattr(m, 'x')", "* getattr x"),
    ("import __main__\ngetattr(__main__, 'x'), hasattr(__main__, 'y')", "getattr hasattr x"),
    ("ns = globals()\nns['x'], a.y", "* globals x a"),
    ("globals()[name]", "* globals name"),
    ("for n in ('x', 'y'): globals()[n]", "* globals x y"),
    ("globals()[name] = 1; globals().update(a=1); 'x' in globals()", "globals name"),
    ("globals()['x'] += 1", "globals x"),
    ("ip = get_ipython()\nip.user_ns.get('x')", "* get_ipython x"),
    ("x = 1\nns = globals()\nns['x']", "* globals"),
    ("__name__ == '__main__' and f('x')", "__name__ f"),
    ("eval('x + y'), exec('z'), model.eval()", "eval x y exec z model"),
    ("eval(text), eval(other, {})", "* eval text other"),
    ("df.query('a > @x and b < @y'), df.b", "df x y"),
    ("df.query('(a > 1) & (b < @x)'), df.eval(expr='(a) + @y')", "df x y"),
    ("q = '(a) > @x'\ndf.query(q), df.eval('b > @y')", "df x y"),
    ("q = f'a > @x {n}'\ndf.query(q)", "df x n"),
    ("df.query('a > 1'), send('me@there')", "df send"),
    ("eval(' x')", "eval x"),
    ("sys.modules[__name__].x, getattr(sys.modules[__name__], 'y')", "getattr sys __name__ x y"),
    ("from __main__ import *\nx", "* x"),
    ("globals()['x'] = 1", "globals"),
    ("x = 1\nglobals()['x']", "globals"),
    ("def f(): return globals()['x']\nf()", "globals x"),
    ("x = 1\nx", ""),
    ("x = x + 1", "x"),
    ("x += 1", "x"),
    ("x.a = 1; y[z] = w", "x y z w"),
    ("del x", "x"),
    ("(y := x) + y", "x"),
    ("(a, *b) = c\na, b", "c"),
    ("x: T = v", "T v"),
    ("if a: x = 1\nx", "a x"),
    ("if a: x = 1\nelse: x = 2\nx", "a"),
    ("if a: raise E\nelse: x = 2\nx", "a E"),
    ("for i in xs: y = i\ny", "xs y"),
    ("for t in r:\n  if t: acc\n  acc = t", "r acc"),
    ("while c:\n  x = 1\nx", "c x"),
    ("with o as w: w", "o"),
    ("try: m\nexcept NameError: m = N()\nm", "m NameError N"),
    ("try: x = f()\nexcept E as e: e; raise\nx", "f E"),
    ("try: x = f()\nexcept E: pass\nx", "f E x"),
    ("try:\n  x = 1\nfinally:\n  y = x\ny", "x"),
    ("import a.b as c, d.e\nc, d, a", "a"),
    ("from m import n, o as p\nn, p, o", "o"),
    ("from m import *\nz", "z"),
    ("[a * b for a in xs if a > c]", "xs c b"),
    ("[a for a in a]", "a"),
    ("{k: v for k, v in d.items() for q in k if w}", "d w"),
    ("[y := 1 for _ in q]; y", "q y"),
    ("f'{x:{w}} {y!r}'", "x w y"),
    ("lambda q=z: q + w", "z w"),
    ("def f(a, b=c, *d, e=g) -> h: return a, b, d, e, i", "c g h i"),
    ("def f(): return x\nx = 3\nf()", ""),
    ("def f(): return x\nf()\nx = 3", "x"),
    ("def f(): return x", "x"),
    ("def f(): return x\nif a:\n  x = 1\n  f()\nelse:\n  f()", "a x"),
    ("def f(): return x\ndef g(): return f()\nif a:\n  x = 1\n  g()\nelse:\n  g()", "a x"),
    ("def f(): return g()\ndef g(): return x\nx = 1\nf()", ""),
    ("def f(): return g()\ndef g(): return x\nf()\nx = 1", "x"),
    ("@dec\ndef f(): return x\nx = 1", "dec x"),
    ("def f(n): return f(n - 1)\nf(1)", ""),
    ("def f():\n  x = 1\n  def g():\n    nonlocal x\n    x = y\n  return g", "y"),
    ("def f():\n  global g\n  g = h\n  return g", "h g"),
    ("def f():\n  import os\n  for a in os.b: c\n  with a as d: d\n  try: e\n  except E as x: x\n  return x", "c e E"),
    ("class A(B, metaclass=M):\n  q = 1\n  z = q\n  def f(self): return q, w, A", "B M q w"),
    ("class A:\n  x = x", "x"),
    ("class A:\n  def m(self): return late\nlate = 1\nA().m()", ""),
    ("async def f():\n  async with a as b: await b\n  async for c in d: c\nawait f()", "a d"),
    ("await x", "x"),
    ("async for a in b: a", "b"),
    ("assert p, q", "p q"),
    ("x if y else z", "y x z"),
    ("a and (b := 1)\nb", "a b"),
    ("print(x", None),
    ("return", ""),
    ("", ""),
    ("x\0", None),
]


@pytest.mark.parametrize("code, wanted", CASES)
def test_the_reads_of(code, wanted):
    found = analyse(code)
    assert (found and set(found.reads) - {"print"}) == (None if wanted is None else set(wanted.split()))


@pytest.mark.skipif(sys.version_info < (3, 10), reason="match")
def test_match_binds_what_its_patterns_capture():
    code = "match p:\n case {'a': q, **r}: q, r\n case [A(x=1), *rest]: rest\n case B.c: 1\n case whole: whole"
    assert set(analyse(code).reads) == {"p", "A", "B"}


@pytest.mark.skipif(sys.version_info < (3, 10), reason="match")
def test_match_with_a_wildcard_assigns_for_certain():
    assert set(analyse("match p:\n case 1: x = 1\n case _: x = 2\nx").reads) == {"p"}
    assert set(analyse("match p:\n case 1: x = 1\nx").reads) == {"p", "x"}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="except*")
def test_except_star_is_followed():
    assert set(analyse("try: a\nexcept* E as e: e").reads) == {"a", "E"}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters")
def test_type_parameters_are_no_reads():
    code = "def f[T: X](a: T) -> Y: return z, T\nclass A[U](B[U]):\n  v: U\ntype L[V] = list[V] | W"
    assert set(analyse(code).reads) == {"X", "Y", "z", "B", "list", "W"}


@pytest.fixture(scope="module")
def transform():
    return pytest.importorskip("IPython.core.inputtransformer2").TransformerManager().transform_cell


@pytest.mark.parametrize(
    "code, wanted",
    [
        ("!ls {d} $e $$f {len(g)} {h.i}", "d e g h len"),
        ("out = !ls {d}\nout", "d"),
        ("%cd $where", "where"),
        ("%time train(model)", "train model"),
        ("%timeit -n 3 -r 2 s(t)", "s t"),
        ("%%time\nq = 1\ntrain(model, q)", "train model"),
        ("%%timeit -n 3 s\nfoo(s)", "s foo"),
        ("%%capture out\n!echo {x}\ny", "out x y"),
        ("%%bash -s $a\necho $b {c}", "a"),
        ("%%writefile x.py\nprint(nope)", ""),
        ("?x", "x"),
        ("!echo ${HOME} {", ""),
        ("%matplotlib inline\nx, f('y')", "x f"),
        ("%time globals()['x']", "globals x"),
    ],
)
def test_ipythons_syntax_reads(transform, code, wanted):
    assert set(analyse(code, transform).reads) - {"get_ipython"} == set(wanted.split())


def test_lines_count_as_in_the_text_that_was_given(transform):
    assert analyse("\n\n\nfoo", transform).reads == {"foo": 4}
    assert analyse("a\n%%time", None) is None
    assert analyse("%%time\n1\nfoo", transform).reads["foo"] == 3


def test_what_the_cell_assigns_is_known():
    found = analyse("import os\nfor i in r: x = 1\ndef f():\n  global g\n  g = 1\n  y = 2\nclass A: z = 1")
    assert found.functions == {}
    assert analyse("def f(): return g()\nclass A:\n  def m(self): return f() + h").functions == {"f": {"g": 1}, "A": {"f": 3, "h": 3}}
    assert found.assigned == {"os": True, "i": False, "x": False, "f": True, "g": False, "A": True}


def test_what_timeit_assigns_is_its_own(transform):
    for code in ("%timeit x = y", "%%timeit\nx = y"):
        found = analyse(code, transform)
        assert not found.assigned and not found.bound and "y" in found.reads
    assert analyse("%time x = y", transform).assigned == {"x": True}


def test_many_elif_are_followed():
    found = analyse("".join(f"{'elif' if i else 'if'} a{i}:\n    x = b{i}\n" for i in range(400)) + "else:\n    x = c\nx, y")
    assert set(found.reads) == {"c", "y", *(f"{name}{i}" for name in "ab" for i in range(400))}
    assert found.assigned == {"x": True}
    assert analyse("if a: x = 1\nelif b: pass\nelse: x = 2").assigned == {"x": False}
    assert analyse("if a: x = 1\nelif (y := b): x = 3\nelse: raise Bad").assigned == {"x": True, "y": False}


def test_the_names_of_what_is_nested_too_deeply_count_as_read(transform):
    found = analyse("class A:\n    __p = q\nimport m as n\nv = " + "w" + ".f(x)" * 400 + "\n%time late\n", transform)
    assert {"w", "x", "q", "n", "v", "late"} <= set(found.reads) and found.reads["x"] == 4
    assert found.assigned["v"] is False and found.assigned["n"] is False and "x" not in found.assigned
    assert "f" in found.mentioned and all("w" not in bound for bound in found.before.values())


def test_deep_nesting_is_given_up_quietly():
    assert analyse("(" * 5000 + ")" * 5000) is None


# -- how much work it is: counted, since times depend on the machine

SHAPES = {
    "functions": lambda n: "".join(f"def f{i}():\n    return f{i - 1}() + g{i}\n" for i in range(n)),
    "a chain that is used": lambda n: "".join(f"def f{i}():\n    return f{i - 1}() + g{i}\n" for i in range(n)) + f"f{n - 1}()",
    "functions that are used": lambda n: "".join(f"def f{i}(x=g{i}): return h{i}\nx{i} = f{i}()\n" for i in range(n)),
    "classes": lambda n: "".join(f"class C{i}(C{i - 1}):\n    a = g{i}\n    def m(self): return h{i}\n" for i in range(n)),
    "reads": lambda n: "".join(f"x{i} = y{i}\n" for i in range(n)),
    "branches": lambda n: "".join(f"if a: x{i} = 1\nelse: x{i} = y{i}\n" for i in range(n)),
    "tries": lambda n: "".join(f"try: x{i} = y{i}\nfinally: z{i} = 1\n" for i in range(n)),
    "comprehensions": lambda n: "".join(f"x{i} = [q for q in y{i}]\n" for i in range(n)),
    "magics": lambda n: "".join(f"get_ipython().run_line_magic('timeit', 'x{i} = y{i}')\nz{i} = 1\n" for i in range(n)),
}


def steps(code):
    """How many steps of Python's the analysis takes."""
    count = 0

    def step(frame, event, arg):
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        analyse(code)
    finally:
        sys.settrace(before)
    return count


def held(code):
    """How many bytes the analysis holds at most, with its cycles."""
    analyse(code)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        analyse(code)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.parametrize("measure", [steps, held])
def test_the_work_grows_with_the_text_and_no_faster(measure, shape):
    some, many = (measure(SHAPES[shape](n)) for n in (40, 160))
    assert many < 6 * some, (some, many)


@pytest.mark.parametrize("code, before", [
    ("a = 1\nx\nb = 2", "a"),
    ("a = 1\nx\nb = 2\nx", "a"),
    ("if c:\n    a = 1\n    x\nelse:\n    a = 2\n    b = 3\nx", "a"),
    ("if c:\n    a = b = 1\n    x\nelse:\n    b = 2\n    x", "b"),
    ("a = 1\ndef f():\n    return x\nb = 2\nf()\nc = 3", "a f b"),
    ("def f():\n    return x\nif c:\n    a = 1\n    f()\nf()", "f"),
    ("def f():\n    return x\nif c:\n    a = 1\n    f()\nelse:\n    a = b = 1\nf()", "f a"),
    ("try:\n    a = 1\nfinally:\n    x\nb = 2", ""),
    ("a = 1\n[x for y in z]", "a"),
])
def test_what_a_cell_has_bound_whenever_it_reads_a_name(code, before):
    bound = analyse(code).before["x"]
    assert {name for name in ("a", "b", "c", "f", "x", "y", "z") if name in bound} == set(before.split())


def test_bound_names_are_compared_and_joined():
    bindings = Bindings()
    bindings.add((None, "a"))
    one = bindings.bound()
    mark = bindings.mark()
    bindings.add((None, "b"))
    two = bindings.bound()
    assert bindings.undo(mark) == ({(None, "b")}, set()) and (None, "b") not in bindings
    bindings.add((None, "c"))
    three, both = bindings.bound(), two & bindings.bound()
    assert [[name in each for name in "abc"] for each in (NOTHING, one, two, three, both, NOTHING & one, one & NOTHING)] == [
        [False] * 3, [True, False, False], [True, True, False], [True, False, True], [True, False, False], [False] * 3, [False] * 3]
    assert NOTHING <= one <= one and both <= two and both <= three and not two <= three and not one <= NOTHING
    assert not bindings.has_grown_since(max(two._moments)) and bindings.has_grown_since(max(one._moments))


# -- what a text assigns, and what it only changes


@pytest.mark.parametrize(
    "code, fresh",
    [
        ("x = 5", True),
        ("x = y = []", True),
        ("x, y = 1, 2", True),
        ("print(x); x = 5", True),
        ("x = 0\nx += 1", True),
        ("if c:\n    x = 1\nelse:\n    x = 2", True),
        ("try:\n    x = f()\nexcept E:\n    x = 1", True),
        ("with a as b:\n    x = b", True),
        ("def x(): return 1", True),
        ("x = [x for x in y]", True),
        ("x: int = 1", True),
        ("x += 1", False),
        ("x = f(x)", False),
        ("x, y = y, x", False),
        ("x = x.eval()", False),
        ("def f(): return x\nx = f()", False),
        ("def f(): return x\nf()\nx = f()", False),
        ("def g(): return x\ndef f(): return g()\nprint(f(), g())\nx = f()", False),
        ("def f(): return g()\ndef g(): return f() or x\nf()\nx = g()", False),
        ("def f(): return y\ndef g(): return x\nf(), g()\nx = f()", True),
        ("if c:\n    x = 1", False),
        ("for x in y: pass", False),
        ("try:\n    x\nexcept NameError:\n    x = 1", False),
        ("x = 1\ndel x", False),
        ("with contextlib.suppress(E):\n    f()\n    x = 1", False),
        ("with open(f), ExitStack() as s:\n    x = 1", False),
        ("with torch.no_grad():\n    x = 1", True),
        ("for i in y:\n    break\nelse:\n    x = 1", False),
        ("while y:\n    if i: break\nelse:\n    x = 1", False),
        ("for i in y: pass\nelse:\n    x = 1", True),
        ("def f():\n    global x\n    x = 1", None),
        ("x.append(1)", None),
        ("x[0] = 1", None),
    ],
)
def test_what_a_text_gives_a_value_of_its_own(code, fresh):
    assert analyse(code).bound.get("x") is fresh


@pytest.mark.parametrize(
    "code, reads",
    [
        ("class A:\n    def m(self): return __x", "_A__x"),
        ("class __A:\n    def m(self): return __x", "_A__x"),
        ("class _:\n    def m(self): return __x", "__x"),
        ("class A:\n    def m(self): return __x__, _x, self.__x", "__x__ _x"),
        ("class A:\n    class _B:\n        def m(self): return __x\n    y = __z", "_B__x _A__z"),
        ("class A:\n    y: __T = 1\n    def m(self, a: __U = __d) -> __R: pass", "_A__T _A__U _A__d _A__R"),
        ("class A:\n    def m(self):\n        global __x\n        __x = 1\nA().m()", ""),
        ("class A:\n    def m(self):\n        global __x\n        __x += 1", "_A__x"),
        ("class A:\n    y = [__v for __v in __xs if __c]", "_A__xs _A__c"),
        ("class A:\n    @__deco\n    def m(self): pass", "_A__deco"),
        ("@__deco\nclass A(__Base, metaclass=__Meta): pass", "__deco __Base __Meta"),
        ("class A:\n    __x = 1\n    y = __x", ""),
        ("class A:\n    import __m\n    from n import __o, p as __q\n    y = __m, __o, __q", ""),
        ("class A:\n    def m(self, __p):\n        try: __p()\n        except E as __e: __e\n        def __f(): return __f\n        return lambda __k: __k", "E"),
        ("def f(): return __x\nf()", "__x"),
        ("_A__x = 1\nclass A:\n    def m(self): return __x\nA().m()", ""),
    ],
)
def test_names_with_two_underscores_in_a_class_are_read_under_the_names_that_the_compiler_gives_them(code, reads):
    assert set(analyse(code).reads) == set(reads.split())


def test_a_variable_that_is_the_notebooks_module_reads_its_attributes():
    assert set(analyse("m.x, m.y.z, n.w", modules=["m"]).reads) == {"m", "x", "y", "n"}


def test_a_name_that_may_lead_to_the_namespace_means_any_name_when_a_later_cell_uses_it():
    found = analyse("import __main__ as m\nns = globals()\nx = globals()['y']\nk = 1")
    assert {name for name, reads in found.functions.items() if "*" in reads} == {"m", "ns"}


def test_a_cell_without_such_words_is_not_looked_at_twice(monkeypatch, transform):
    monkeypatch.setattr(by_name, "_Finder", None)
    code = "%time f(x)\nmodel.eval()\ndb.execute('x', y.values)\nout = !ls\n@jit\ndef g(): return q"
    assert set(analyse(code, transform).reads) - {"get_ipython"} == {"f", "x", "model", "db", "y", "jit", "q"}


def functions_reads(text):
    names = {}
    exec(text, names)
    return set(code_globals(names["f"].__code__)[0])


@pytest.mark.parametrize("body, wanted", [
    ("return globals()['x']", "globals x *"),
    ("import __main__; return (lambda: __main__.x)()", "__main__ x *"),
    ("m = sys.modules['__main__']; return [m.x for _ in r][0]", "sys modules x r __main__ *"),
    ("return get_ipython().user_ns.get('x')", "get_ipython x *"),
    ("return eval('x + y')", "eval x y *"),
    ("return vars(a)['x'], locals()['y'], a.eval()", "vars a locals"),
    ("return a.query('b > @x')", "a x"),
    ("return getattr(sys.modules[__name__], 'x')", "getattr sys modules __name__ x *"),
])
def test_functions_have_the_same_rule(body, wanted):
    assert functions_reads(f"def f():\n    {body}") - {"<listcomp>"} == set(wanted.split())
