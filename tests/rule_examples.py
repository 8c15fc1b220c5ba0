"""For each rule a formula and an input at which it is the rule that saves the result."""

from __future__ import annotations

import math

from gradgen.rules import RULES, Rule


class Example:
    """A formula, and an input at which a rule saves its result.

    Attributes:
        text: the formula, of tensors x, y, z and a hyper-parameter k.
        by: by what it is differentiated: "" for the value, "x" for the gradient, "xx" for the second derivative.
        after: the name of the form, of a rule that is tried or a rational one, that alone has need of the rule.
        at: the input.
    """

    def __init__(self, text: str, by: str = "", after: str = "", **at: float) -> None:
        self.text, self.by, self.after, self.at = text, by, after, at


def named(rule: Rule) -> str:
    """A rule's pattern, with what becomes of it where there are several."""
    several = sum(other.pattern == rule.pattern for other in RULES) > 1
    return f"{rule.pattern} = {rule.replacement}" if several else rule.pattern


_BELOW_3, _ABOVE_3 = math.nextafter(3, 0), math.nextafter(3, 4)

EXAMPLES = {
    # Exponentials against one another
    "log(v*exp(u))": Example("log(exp(x)/(1 + exp(y)))", x=3000.0, y=1.0),
    "exp(log(u))": Example("exp(log(x))", x=1e300),
    "exp(u)**a": Example("exp(x)*exp(y)**-3", x=900.0, y=300.5),
    "exp(u)*exp(v)": Example("exp(x)*exp(-y)", x=800.0, y=790.0),
    "damp(w, exp(u))*exp(v)": Example("(1 + exp(x))**k", by="x", after="(1 + exp(u))**v", x=1000.0, k=-1.5),
    "damp(a, u)": Example("1 - (1 + k*exp(x))**(-1/k)", by="x", after="exp(t)*(1 + w*exp(u))**v", x=800.0, k=2.0),
    "u*damp(v, u**(v - 1))": Example(
        "x*(1 + abs(x)**k)**(-1/k)", by="x", after="t*u**v + w*damp(v, u**(v - 1))", x=1100.3, k=3.0
    ),
    "exp(u) - 1": Example("exp(x) - 1", x=1e-10),
    "v*exp(u) - v": Example("k*exp(x) - k", x=1e-10, k=1.67),
    "expm1(u) + 1": Example("1 + (exp(x) - 1)", x=-50.0),
    "1/(a + b*exp(u))": Example("1/(1 + exp(-x))", by="x", x=-800.0),
    "exp(u)*sigmoid(-u)": Example("exp(x)/(1 + exp(x))", x=800.0),
    "exp(u)*sigmoid(a - u)": Example("exp(x)/(3 + exp(x))", x=800.0),
    "sigmoid(-u)**v*exp(v*u)": Example("exp(k*x)*(1/(1 + exp(x)))**k", x=800.0, k=1.5),
    **{
        f"exp({n}*u/2)*sqrt(1 + exp(u))**-{n}": Example(f"exp({n}*x/2)/sqrt(1 + exp(x))**{n}", x=1500.0)
        for n in (1, 3, 5)
    },
    "exp(u)/(exp(u) + exp(v))": Example("exp(k*x)/(exp(k*x) + exp(k*y))", x=800.0, y=799.0, k=1.5),
    "exp(w)/(exp(w) + (exp(u) + exp(v)))": Example("exp(x)/(exp(x) + exp(y) + exp(z))", x=800.0, y=799.0, z=798.0),
    "exp(t)/(exp(t) + (exp(u) + (exp(v) + exp(w))))": Example(
        "exp(x)/(exp(x) + exp(y) + exp(z) + exp(k*z))", x=800.0, y=799.0, z=798.0, k=0.5
    ),
    "1/(1 + (exp(u) + exp(v)))": Example("exp(-x)/(1 + exp(-x) + exp(-y))", x=-800.0, y=-799.0),
    "exp(u)*sigmoid(-logaddexp(u, v))": Example("exp(x)/(1 + exp(x) + exp(y))", x=800.0, y=799.0),
    "expm1(u)*sigmoid(-u)": Example("(exp(2*x) - 1)/(exp(2*x) + 1)", x=400.0),
    "exp(u) - exp(-u)": Example("(exp(x) - exp(-x))/2", x=1e-10),
    "exp(u) + exp(-u)": Example("(exp(x) - exp(-x))/(exp(x) + exp(-x))", x=800.0),
    "exp(u)/expm1(u)": Example("exp(x)/(exp(x) - 1)", x=800.0),
    "expm1(u)/expm1(v)": Example("(1 - exp(2*x))/(1 - exp(5*x))", after="expm1(u)/expm1(v)", x=400.0),
    "sigmoid(u) - sigmoid(-u)": Example("1/(1 + exp(-x)) - 1/(1 + exp(x))", x=1e-10),
    "sigmoid(u) + sigmoid(-u)": Example("log(1/(1 + exp(-x)) + 1/(1 + exp(x)))", x=-0.9),
    "log(cosh(u))": Example("log(cosh(x))", x=800.0),
    "log(sinh(u))": Example("log(sinh(x))", x=800.0),
    "log(2*sinh(u))": Example("log(exp(x) - exp(-x))", x=800.0),
    "log(2*cosh(u))": Example("log(exp(x) + exp(-x))", x=800.0),
    "sinh(u)*sech(u)": Example("sinh(x)/cosh(x)", x=800.0),
    "sinh(u)*csch(u)": Example("log(sinh(x)/x)", by="x", x=800.0),
    "cosh(u)*csch(u)": Example("cosh(x)/sinh(x)", x=800.0),
    "1/cosh(u)": Example("1/cosh(x)", by="x", x=800.0),
    "1/sinh(u)": Example("1/sinh(x)", by="x", x=800.0),
    # Circular functions
    "sin(u)*cos(u)": Example("1 + 2*sin(x)*cos(x)", x=-0.78539, after="1 + sin(u)"),
    # Circular functions of half turns
    "sin(a*u)": Example("sin(pi*x)", x=1e10 + 0.5),
    "cos(a*u)": Example("cos(2*pi*x)", x=1e10),
    "sinc(a*u)": Example("sinc(pi*x)", x=1e10 + 0.5),
    "sin_pi(v*u)/u": Example("sin(pi*x)/(pi*x)", x=0.0),
    "cos_pi(sigmoid(u)/2)": Example("cos(pi/2/(1 + exp(-x)))", x=50.0),
    # Quotients that are 0/0
    "sin(v*u)/u": Example("sin(k*x)/x", x=0.0, k=1.5),
    "sin(v*u)/sin(u)": Example("sin(k*x)/sin(x)", x=0.0, k=7.0),
    "expm1(v*u)/u": Example("(exp(k*x) - 1)/k", x=2.5, k=0.0),
    "log1p(v*u)/u": Example("log(1 + k*x)/k", x=2.5, k=0.0),
    "exprel(u, v)/v": Example("(exp(x*y) - 1)/(x*y)", x=2.0, y=0.0),
    "exprel(u, -v)/v": Example("(1 - exp(-x*y))/(x*y)", x=2.0, y=0.0),
    "logrel(u, v)/v": Example("log(1 + x*y)/(x*y)", x=2.0, y=0.0),
    "(maximum(1 + u, 0)**v - 1)/v": Example("(maximum(1 + x, 0)**k - 1)/k", x=1e-10, k=0.0),
    "(u**v - 1)/v": Example("(x**k - 1)/k", x=2.5, k=0.0),
    # Quotients that are 0/0 where two inputs meet
    **{
        f"({f}({scale}u) - {f}({scale}v))/({order})": Example(
            f"({f}({written}x) - {f}({written}y))/({order.replace('u', 'x').replace('v', 'y')})",
            x=0.5,
            y=0.5 + 2.0**-30,
        )
        for f in ("exp", "sin", "cos")
        for scale, written in (("", ""), ("a*", "3*"))
        for order in ("u - v", "v - u")
    },
    # 1 - f and 1 + f
    "1 - sigmoid(u)": Example("1 - 1/(1 + exp(-x))", x=50.0),
    "2*sigmoid(u) - 1": Example("2/(1 + exp(-x)) - 1", x=1e-10),
    "1 - tanh(u)**2": Example("log(1 - tanh(x)**2)", x=400.0),
    "1 + tanh(u)": Example("x/2*(1 + tanh(sqrt(2/pi)*(x + 0.044715*x**3)))", x=-6.0),
    "1 - tanh(u)": Example("1 - tanh(x)", x=30.0),
    "1 - sqrt(pi)*(u*erfcx(u))": Example("1 - sqrt(pi)*x*exp(x**2)*erfc(x)", after="erfc(u)", x=1e5),
    "erfcx(u) - 2*(u*ierfcx(u))": Example("erfcx(x) - 2*x*ierfcx(x)", x=1e5),
    "erfc(-sqrt(2)/2*u)/2 + sqrt(2)/(2*sqrt(pi))*(u*exp(-u**2/2))": Example(
        "x/2*(1 + erf(x/sqrt(2)))", by="x", x=-1.25
    ),
    "sigmoid(u) + u*logistic_density(u)": Example("x*sigmoid(x)", by="x", x=-2.062),
    "sigmoid(-u) - u*logistic_density(u)": Example("x*sigmoid(-x)", by="x", x=2.062),
    "sigmoid(u) + w*logistic_density(u)": Example("(x + 1)*sigmoid(x)", by="x", x=-2.9956),
    "dgate(u, w) + v*logistic_density(u)": Example(
        "x*sigmoid(sqrt(8/pi)*(x + 0.044715*x**3))", by="x", after="sigmoid(u) + w*logistic_density(u)", x=-1.615
    ),
    "erfc(a*u)": Example("erfc(x/sqrt(2))*erfc(y/sqrt(2))*erfc(z/sqrt(2))", x=0.7, y=0.7, z=0.9),
    "1 + erf(u)": Example("x/2*(1 + erf(x/sqrt(2)))", x=-8.0),
    "1 - erf(u)": Example("1 - erf(x)", x=6.0),
    "2 - erfc(u)": Example("1 - (1 + erf(x))/2", after="1 + erf(u)", x=9.0),
    "1 - erfc(u)": Example("1 - erfc(x)", x=1e-9),
    "1 - cos(u)": Example("1 - cos(x)", x=1e-5),
    "1 + cos(u)": Example("1 + cos(x)", x=3.141592),
    "1 - cos_pi(u)": Example("1 - cos(pi*x)", x=1e-5),
    "1 + cos_pi(u)": Example("(1 + cos(pi*x))/2", x=0.999999),
    "1 - u**2": Example("sqrt(1 - cos(x)**2)", x=1e-5),
    "u**2 + (1 - u)*(1 + u)": Example("sqrt(x**2 + 1) - sqrt(x**2 - 1)", after="hypot(u, v) - sqrt(w)", x=1e100),
    "1/(u + v) - u/(u + v)**2": Example("x/2/(1 + abs(x))", by="xx", x=1e12),
    "t/(u + v) - t*u/(u + v)**2": Example(
        "x**k/(1 + abs(x)**k)", by="x", after="t*u**v + w*damp(v, u**(v - 1))", x=1e10, k=3.0
    ),
    # Logarithms of sums
    "log(sigmoid(u))": Example("log(1/(1 + exp(-x)))", x=-800.0),
    "log(sigmoid(u)/sigmoid(v))": Example(
        "1/(1 + exp(-x))*log((1 + exp(-y))/(1 + exp(-x)))"
        " + (1 - 1/(1 + exp(-x)))*log((1 - 1/(1 + exp(-x)))/(1 - 1/(1 + exp(-y))))",
        x=800.0,
        y=790.0,
    ),
    "log(a + b*exp(u))": Example("log(3 + exp(x))", x=800.0),
    "log1p(exp(u))": Example("log1p(exp(x))", x=800.0),
    "log((1 + exp(u))*sigmoid(v))": Example("log((1 + exp(x))/(1 + exp(x - 1)))", by="x", x=1000.0),
    "log1p(exp(u) + exp(v))": Example("log(1 + exp(x) + exp(y))", x=800.0, y=790.0),
    "log(a*exp(u) + b*exp(v))": Example("log(2*exp(x) + 3*exp(y))", x=800.0, y=790.0),
    **{
        pattern.format(base): Example(text.format(base), x=3000.0, y=2999.0)
        for base in (2, 10)
        for pattern, text in (
            ("log{0}(v*exp(u))", "log{0}(exp(x)*(1 + y**2))"),
            ("log{0}(a + b*exp(u))", "log{0}(3 + exp(x))"),
            ("log{0}(a*exp(u) + b*exp(v))", "log{0}(exp(x) + 2*exp(y))"),
        )
    },
    "log2(exp2(u) + exp2(v))": Example("log2(exp2(x) + exp2(y))", x=3000.0, y=2999.0),
    "log(exp(u) - exp(v))": Example("log(exp(x) - exp(y))", x=800.0, y=790.0),
    "log(sigmoid(u) - sigmoid(v))": Example("log(1/(1 + exp(-x - k)) - 1/(1 + exp(-x + k)))", x=50.0, k=0.1),
    "log(exp(w) + (exp(u) + exp(v)))": Example("log(exp(x) + exp(y) + exp(z))", x=800.0, y=790.0, z=780.0),
    "log(exp(t) + (exp(u) + (exp(v) + exp(w))))": Example(
        "log(exp(x) + exp(y) + exp(z) + exp(k*z))", x=800.0, y=799.0, z=798.0, k=0.5
    ),
    "u - logaddexp(u, v)": Example("x - log(exp(x) + exp(y))", x=800.0, y=760.0),
    "u - logaddexp(logaddexp(u, v), w)": Example("y - log(exp(x) + exp(y) + exp(z))", x=760.0, y=800.0, z=750.0),
    "log(u**a) = a*log(abs(u))": Example("log(x**2)", x=-1e200),
    "log(u**a) = a*log(u)": Example("log(x**3)", x=1e150),
    "cbrt(u)**3": Example("cbrt(2 + x)**60", x=1e-30),
    "cbrt(u)**-3": Example("cbrt(2 + x)**-60", x=1e-30),
    "sqrt(1/u)": Example("sqrt(1/x)*erf(sqrt(x))", x=1e-310),
    "v/sqrt(u*v)": Example("x/sqrt(x*y)", x=1e200, y=1e200),
    "log(sqrt(u))": Example("log(sqrt(1 + x))", x=1e-10),
    "log(1 + u)": Example("log(1 + x)", x=1e-10),
    "log1p(expm1(u))": Example("log1p(exp(x) - 1)", x=800.0),
    "u + maximum(v, t - u)": Example("y + maximum(-k, x - y)", x=1e-10, y=0.1, k=0.2),
    "u + minimum(v, t - u)": Example("y + minimum(k, x - y)", x=1e-10, y=-0.1, k=0.2),
    "u + maximum(v, minimum(w, t - u))": Example("y + maximum(-k, minimum(k, x - y))", x=1e-10, y=0.1, k=0.2),
    "u + minimum(v, maximum(w, t - u))": Example("y + minimum(k, maximum(-k, x - y))", x=1e-10, y=0.1, k=0.2),
    "maximum(u, 0) + softplus(-abs(u))": Example("maximum(x, 0) + log(1 + exp(-abs(x)))", by="x", x=0.0),
    "u - softplus(u)": Example(
        "y*(x - log(1 + exp(x))) - (1 - y)*log(1 + exp(x))", after="v*softplus(u) + w*softplus(-u)", x=-0.01, y=100.0
    ),
    "v*softplus(u/v) - u": Example("k*log(1 + exp(x/k)) - x", x=100.0, k=1.67),
    "softplus(u) - v*u": Example("log(1 + exp(x)) - k*x", x=50.0, k=1.0),
    "softplus(v*u)/u": Example("log(1 + exp(k*x))/k", after="softplus(v*u)/u", x=1e308, k=40.0),
    "w + softplus(u - w)": Example("y + log(1 + exp(x - y))", after="w + softplus(u - w)", x=0.25, y=-1e19),
    "w + softplus(v*(u - w))/v": Example(
        "y + log(1 + exp(k*(x - y)))/k", after="w + softplus(v*(u - w))/v", x=0.25, y=-1e19, k=1.67
    ),
    "w + v*softplus((u - w)/v)": Example(
        "y + k*log(1 + exp((x - y)/k))", after="w + v*softplus((u - w)/v)", x=0.25, y=-1e19, k=1.67
    ),
    "softplus(a*u)": Example("log(1 + exp(40*x))/40", after="softplus(a*u)", x=1e308),
    "softplus(u) - maximum(u, 0)": Example("log(1 + exp(x)) - maximum(x, 0)", x=60.0),
    "softplus(-u) - softplus(u)": Example("log(1 + exp(-x)) - log(1 + exp(x))", x=1e-10),
    "sigmoid(u)*sigmoid(-v) - sigmoid(v)*sigmoid(-u)": Example(
        "1/(1 + exp(-x))/(1 + exp(y)) - 1/(1 + exp(x))/(1 + exp(-y))", after="sigmoid(u) - sigmoid(v)", x=1e-9, y=-1e-9
    ),
    "abs(u)*sign(u)": Example("abs(x)*sign(x)", by="x", x=0.0),
    "u*sign(u)": Example("x/(1 + abs(x))", by="x", after="as one fraction", x=1e20),
    # Comparisons with what is no input itself
    **{
        f"{relation}(a + u, b)": Example(f"where({relation}(x + 3, 6), 1 + x, -x)", x=x)
        for relation, x in (("gt", _ABOVE_3), ("ge", _BELOW_3), ("lt", _BELOW_3), ("le", _ABOVE_3))
    },
    **{
        f"{relation}(a*u, b) = {after}(u, b/a)": Example(f"where({relation}((x + 3)*({a}), 6*({a})), 1 + x, -x)", x=x)
        for relation, opposite, x, y in (
            ("gt", "lt", _ABOVE_3, _BELOW_3),
            ("ge", "le", _BELOW_3, _ABOVE_3),
            ("lt", "gt", _BELOW_3, _ABOVE_3),
            ("le", "ge", _ABOVE_3, _BELOW_3),
        )
        for after, a, x in ((relation, "2", x), (opposite, "-2", y))
    },
    **{
        f"{relation}(u**2, v**2)": Example(f"where({relation}(x**2, y**2), 1 + x, -x)", x=x, y=y)
        for relation, x, y in (
            ("gt", 2e200, 1e200),
            ("ge", 1e200, 2e200),
            ("lt", 1e200, 2e200),
            ("le", 2e200, 1e200),
        )
    },
    "gt(maximum(u, a), b)": Example("maximum(maximum(x + 3, 5), 6)", by="x", x=_ABOVE_3),
    "gt(minimum(u, a), b)": Example("maximum(minimum(x + 3, 7), 6)", by="x", x=_ABOVE_3),
    "lt(maximum(u, a), b)": Example("minimum(maximum(x + 3, 0), 6)", by="x", x=_BELOW_3),
    "lt(minimum(u, a), b)": Example("minimum(minimum(x + 3, 7), 6)", by="x", x=_BELOW_3),
    # Inverse functions, written out
    "log(u + hypot(1, u))": Example("log(x + sqrt(x**2 + 1))", x=-1e10),
    "log(u + sqrt(-(1 - u)*(1 + u)))": Example("log(x + sqrt(x**2 - 1))", x=1e200),
    "acosh(1 + u)": Example("acosh(1 + x**2)", x=1e200),
    "acos(1 - u)": Example("acos(1 - x)", x=1e-10),
    "asin(a*sqrt(u))": Example("asin(sqrt(x/2))", x=2.0),
    "acos(a*sqrt(u))": Example("acos(sqrt(x/2))", x=2.0),
    "log((1 + u)/(1 - u))": Example("log((1 + x)/(1 - x))/2", x=1e-10),
    "log((u + v)/(u - v))": Example("log((x + y)/(x - y))", x=1.0, y=1e-20),
    "atan(u) + pi/2": Example("1/2 + atan(x)/pi", x=-1e10),
    "pi - atan2(1, u)": Example("pi - (pi/2 - atan(x))", x=-1e10),
    "pi/2 - atan(u)": Example("pi/2 - atan(x)", x=1e10),
    "asin(tanh(u))": Example("asin(tanh(x))", x=15.0),
    "atanh(sin(u))": Example("atanh(sin(x))", x=1.5707963267949),
    "sin(acos(u))": Example("sin(acos(x - 1))", x=1e-20),
    "cos(asin(u))": Example("cos(asin(1 - x))", x=1e-20),
    "acos(tanh(u))": Example("acos(tanh(x))", x=30.0),
    "atan(sinh(u))": Example("atan(sinh(x))", by="x", x=800.0),
    "asin(unit(u, hypot(1, u)))": Example("asin(x/sqrt(1 + x**2))", x=1e5),
    # Norms
    "sqrt(w**2 + (u**2 + v**2))": Example("sqrt(x**2 + y**2 + z**2)", x=3e200, y=4e200, z=5e200),
    "sqrt(a*u**2 + b*v**2)": Example("sqrt(3*x**2 + 2*y**2)", x=3e200, y=4e200),
    "(u**2 + v**2)**a": Example("(x**2 + y**2)**0.375", x=3e200, y=4e200),
    "u**2*v**-2": Example("x**2/y**2", x=1e200, y=1e190),
    "u/hypot(u, v)": Example("x/sqrt(x**2 + y**2)", x=math.inf, y=1.0),
    "unit(u, hypot(u, v))*unit(hypot(u, v), hypot(hypot(u, v), w))": Example(
        "sqrt(x**2 + y**2 + z**2)", by="z", x=2.624619351150642, y=1.4927824662382696, z=70.89070078218954
    ),
    "(1 - unit(u, hypot(u, v)))*(1 + unit(u, hypot(u, v)))": Example(
        "sqrt(1 - (x/sqrt(x**2 + y**2))**2)", x=1.0, y=1e-10
    ),
    "sqrt(a + b*u**2)": Example("sqrt(1 + x**2)", x=1e200),
    # Quotients that are 0/0, tried
    "t*u**v + w*damp(v, u**(v - 1))": Example("x*(1 + x**2)**(-k)", by="x", x=1e6, k=0.5),
    "(w + u**v)**-2*damp(v, u**(v - 1))": Example("1/(1 + x**(-k))", by="x", x=1e-300, k=20.0),
    "(w + u**v)**-2*u**v": Example("x**k/(1 + x**k)**2", x=1e300, k=20.0),
    "(w + (t/u)**v)**-2*damp(v, (t/u)**(v - 1))*t*u**-2": Example("1/(1 + (y/x)**k)", by="x", x=1e-300, y=2.0, k=4.0),
    "sqrt(u*v)": Example("sqrt(x*y)", x=1e200, y=1e200),
    "sqrt(v/u)": Example("sqrt(x/y)", x=1e200, y=1e-200),
    "expm1(u)/u": Example("(exp(x) - 1)/x", x=0.0),
    "log1p(u)/u": Example("log(1 + x)/x", x=0.0),
    "log(expm1(u)/u)": Example("log((exp(x) - 1)/x)", after="log(expm1(u)/u)", x=800.0),
    "log(u/expm1(u))": Example("log(x/(exp(x) - 1))", after="log(u/expm1(u))", x=800.0),
    "log(-expm1(-u)/u)": Example("log((1 - exp(-x))/x)", after="log(-expm1(-u)/u)", x=-800.0),
    "log(-u/expm1(-u))": Example("log(x/(1 - exp(-x)))", after="log(-u/expm1(-u))", x=-800.0),
    "1/tanh(u)": Example("1/tanh(x) - 1/x", x=1e-5),
    "v/tanh(u)": Example("(2*k + 1)/(2*k)/tanh((2*k + 1)/(2*k)*x) - 1/(2*k)/tanh(x/(2*k))", x=1e-5, k=1.5),
    # Differences, tried
    "v - sqrt(u)": Example("x + y + k - sqrt((x + y + k)**2 - 4*x*y)", x=1e-18, y=1.0, k=0.01),
    "v + sqrt(u)": Example("x + y + k + sqrt((x + y + k)**2 - 4*x*y)", x=-1e-18, y=-1.0, k=0.01),
    "sqrt(u) - sqrt(v)": Example("sqrt(x + 1) - sqrt(x)", x=1e15),
    "hypot(u, v) - sqrt(w)": Example("sqrt(x**2 + 1) - sqrt(x**2 - 1)", x=1e6 + 0.1),
    "hypot(u, v) - hypot(u, w)": Example(
        "sqrt(x**2 + y**2) - sqrt(x**2 + z**2)", after="hypot(u, v) - hypot(u, w)", x=1e10, y=1.5, z=1.25
    ),
    "hypot(u, v) - abs(u)": Example("sqrt(x**2 + y**2) - abs(x)", after="hypot(u, v) - abs(u)", x=-1e10, y=1.5),
    "unit(u, hypot(v, u)) - unit(w, hypot(v, w))": Example(
        "sqrt((x - 1)**2 + 1) - sqrt((x + 1)**2 + 1)",
        by="x",
        after="unit(u, hypot(v, u)) - unit(w, hypot(v, w))",
        x=1e5,
    ),
    "unit(u, hypot(v, u)) - unit(u, hypot(w, u))": Example(
        "sqrt((x - 1)**2 + y**2) - sqrt((x + 1)**2 + y**2)",
        by="y",
        after="unit(u, hypot(v, u)) - unit(u, hypot(w, u))",
        x=1.5,
        y=1e5,
    ),
    "unit(u, hypot(v, u)) - u/sqrt(w)": Example("x/sqrt(x**2 + 1) - x/sqrt(x**2 + y**2 + 1)", x=3.0, y=1e-9),
    "unit(u, hypot(u, v)) - sign(u)": Example(
        "sqrt(x**2 + y**2) - abs(x)", by="x", after="unit(u, hypot(u, v)) - sign(u)", x=1e5, y=1.5
    ),
    "sqrt(a + exp(2*u)) - exp(u)": Example("sqrt(4 + exp(2*x)) - exp(x)", after="sqrt(a + exp(2*u)) - exp(u)", x=400.0),
    "sqrt(exp(2*u) + w*exp(u)) - exp(u)": Example(
        "sqrt(exp(2*x) + 4*exp(x)) - exp(x)", after="sqrt(exp(2*u) + w*exp(u)) - exp(u)", x=400.0
    ),
    "sqrt(exp(u)*(exp(u) + w)) - exp(u)": Example(
        "sqrt(exp(x)*(exp(x) + 4)) - exp(x)", after="sqrt(exp(u)*(exp(u) + w)) - exp(u)", x=400.0
    ),
    "(sqrt(1 + w*exp(u)) - 1)*exp(-u)": Example(
        "(sqrt(1 + 4*exp(x)) - 1)/(2*exp(x))", after="(sqrt(1 + w*exp(u)) - 1)*exp(-u)", x=-100.0
    ),
    "1 + exp(u) - sqrt(exp(u)*(2 + exp(u)))": Example(
        "1 + exp(x) - sqrt((1 + exp(x))**2 - 1)", after="1 + exp(u) - sqrt(exp(u)*(2 + exp(u)))", x=400.0
    ),
    "1 + v - sqrt(v*(2 + v))": Example("1 + x - sqrt((1 + x)**2 - 1)", after="1 + v - sqrt(v*(2 + v))", x=1e10),
    "sqrt(1 + u**4) - u**2": Example("sqrt(1 + x**4) - x**2", after="sqrt(1 + u**4) - u**2", x=1e4),
    "1/sqrt(u) - 1/sqrt(v)": Example("1/sqrt(x) - 1/sqrt(x + 1)", x=1e6),
    "1/hypot(u, v) - 1/sqrt(w)": Example("1/sqrt(x**2 + 1) - 1/sqrt(x**2 + y**2 + 1)", x=3.0, y=1e-9),
    "1/hypot(u, v) - 1/hypot(u, w)": Example("1/sqrt(x**2 + 1) - 1/sqrt(y**2 + 1)", x=0.1, y=0.1 + 1e-15),
    "cbrt(u) - cbrt(v)": Example("cbrt(x + 1) - cbrt(x)", x=1e6),
    "cbrt(u)**-2 - cbrt(v)**-2": Example("1/cbrt(x + 1)**2 - 1/cbrt(x)**2", after="cbrt(u)**-2 - cbrt(v)**-2", x=1e10),
    "sqrt(1 + u) - 1": Example("sqrt(1 + x) - 1", x=1e-10),
    "hypot(1, u) - 1": Example("sqrt(1 + x**2) - 1", x=1e-5),
    "sqrt(u) - v": Example("sqrt(x**2 + k) - x", x=1e8, k=1.5),
    "sqrt(u) + v": Example("(x + sqrt(x**2 + k))/2", x=-1e8, k=1.5),
    "hypot(u, v) - u": Example("sqrt(x**2 + y**2) - x", x=1e8, y=1.5),
    "1/(hypot(1, u) - u)": Example("1/(sqrt(1 + x**2) - x)", x=1e8),
    "1/(hypot(1, u) + u)": Example("1/(sqrt(1 + x**2) + x)", x=-1e8),
    "hypot(u, v) + u": Example("sqrt(x**2 + y**2) + x", x=-1e8, y=1.5),
    "u + v - hypot(u, v)": Example("x + y - sqrt(x**2 + y**2)", x=5e-29, y=300.0),
    "u + v + hypot(u, v)": Example("x + y + sqrt(x**2 + y**2)", x=-5e-29, y=-300.0),
    "1 + u/sqrt(v)": Example("(1 + x/sqrt(x**2 + k))/2", x=-1e8, k=1.5),
    "1 - u/sqrt(v)": Example("1 - x/sqrt(x**2 + k)", x=1e8, k=1.5),
    "1 + unit(u, hypot(v, u))": Example("1 + x/sqrt(x**2 + y**2)", x=-1e8, y=1.5),
    "1 - unit(u, hypot(v, u))": Example("1 - x/sqrt(x**2 + y**2)", x=1e8, y=1.5),
    "1 + sin(u)": Example("1 + sin(x)", x=-1.570795),
    "1 - sin(u)": Example("1 - sin(x)", x=1.570795),
    "1 + sin_pi(u)": Example("1 + sin(pi*x)", x=-0.499999),
    "1 - sin_pi(u)": Example("1 - sin(pi*x)", x=0.499999),
    "u**2 - v**2": Example("(x + k)**2 - x**2", x=1e10, k=0.001),
    "u**2 + v**2 - 2*w*(u*v)": Example("sqrt(x**2 + y**2 - 2*x*y*cos(z))", x=1.0, y=1.0, z=1e-9),
    "1 + u**2 - 2*v*u": Example("1/(1 + x**2 - 2*x*y)", x=1 - 2.0**-47, y=1.0),
    "1/u - 1/v": Example("1/x - 1/(x + 1)", x=1e10),
    "(1 + u)**v - 1": Example("1 - x**k - (1 - x)**k", x=1e-10, k=2.5),
    "u**v - 1": Example("x**k - 1", x=2.5, k=1e-10),
    "maximum(1 + u, 0)**v - 1": Example("maximum(1 + x, 0)**k - 1", x=1e-10, k=1.5),
    "exp(u) - exp(v)": Example("exp(-x) - exp(-2*x)", x=1e-10),
    "cosh(u) - 1": Example("cosh(x) - 1", x=1e-5),
    "log(u) - log(v) = where(lt(2*abs(u - v), v), log1p((u - v)/v), 2*log(sqrt(u)/sqrt(v)))": Example(
        "log(x + k) - log(x)", x=1e15, k=1.5
    ),
    "log1p(u) - log1p(v)": Example("log(1 + x + k) - log(1 + x)", x=1e15, k=1.5),
    "log1p(u**v) - v*log(u)": Example("log(1 + x**k) - k*log(x)", x=1e6, k=2.5),
    "log1p(u**v) - v*log(abs(u))": Example("log(1 + x**2) - log(x**2)", x=-1e10),
    "log1p(u) - log(v)": Example("log(1 + x) - log(x)", x=1e15),
    "(1 + u)*log1p(u) - u*log(u)": Example("(1 + x)*log(1 + x) - x*log(x)", x=1e15),
    "(1 + 1/u)*log1p(1/u) + log(u)/u": Example("(1 + 1/x)*log(1 + 1/x) + log(x)/x", x=1e-10),
    "log1p(1/u) + log(u)": Example("log(1 + 1/x) + log(x)", x=1e-10),
    "sigmoid(u) - sigmoid(v)": Example("1/(1 + exp(-x)) - 1/(1 + exp(-y))", x=1e-20, y=-1e-21),
    "logistic_density(u) - logistic_density(v)": Example(
        "1/(1 + exp(-x - y)) - 1/(1 + exp(y - x))", by="x", x=1e-5, y=3e-5
    ),
    "sigmoid(u)*sigmoid(-u) - sigmoid(v)*sigmoid(-v)": Example(
        "exp(-x)/(1 + exp(-x))**2 - exp(-y)/(1 + exp(-y))**2", x=1e-5, y=1.5e-5
    ),
    "tanh(u) - tanh(v)": Example("tanh(x) - tanh(y)", x=25.0, y=23.0),
    "erf(u) - erf(v)": Example("erf(x) - erf(y)", x=6.0, y=5.9),
    "atan(u) - atan(v)": Example("atan(x) - atan(y)", x=1e100, y=2e100),
    "abs(u) - abs(v)": Example("abs(k*x + 1) - abs(k*x - 1)", after="abs(u) - abs(v)", x=1e30, k=1.67),
    "asinh(u) - asinh(v)": Example("asinh(x) - asinh(y)", x=1e150, y=1.0001e150),
    "sin(u) - sin(v)": Example("sin(x) - sin(y)", x=1.5707, y=1.5706),
    "cos(u) - cos(v)": Example("cos(x) - cos(y)", x=1e-5, y=2e-5),
    "softplus(u)**2 - softplus(v)**2": Example(
        "log(1 + exp(x))**2 - log(1 + exp(x - y))**2", after="softplus(u)**2 - softplus(v)**2", x=0.5, y=1e-12
    ),
    "atanh(1 - u)": Example("atanh(1 - x)", after="atanh(1 - u)", x=1e-20),
    "tan(u) - sin(u)": Example("tan(x) - sin(x)", x=6.283185307179586),
    "sinh(u) - sinh(v)": Example("sinh(x) - sinh(y)", x=800.0, y=750.0),
    "cosh(u) - cosh(v)": Example("cosh(x) - cosh(y)", x=1e-5, y=2e-5),
    "softplus(u) - log(2)": Example("log(1 + exp(x)) - log(2)", x=1e-10),
    "softplus(u) - softplus(v) = where(lt(abs(u - v), 1), log1p(expm1(u - v)*sigmoid(v)), "
    "where(gt(minimum(u, v), 0), u - v + (softplus(-u) - softplus(-v)), softplus(u) - softplus(v)))": Example(
        "log(1 + exp(x + k)) - log(1 + exp(x))", x=20.0, k=1e-10
    ),
    "softplus(u) - softplus(v) = where(lt(abs(u - v), 32), where(gt(u - v, 0), log1p(expm1(u - v)*sigmoid(v)), "
    "-log1p(expm1(v - u)*sigmoid(u))), softplus(u) - softplus(v))": Example(
        "log(1 + exp(k*x + 1)) - log(1 + exp(k*x))",
        after="softplus(u) - softplus(v) = where(lt(abs(u - v), 32), where(gt(u - v, 0), log1p(expm1(u - v)*"
        "sigmoid(v)), -log1p(expm1(v - u)*sigmoid(u))), softplus(u) - softplus(v))",
        x=1e20,
        k=1.67,
    ),
    "softplus(u + v) - softplus(u - v) - v": Example(
        "log(1 + exp(x + k)) - log(1 + exp(x - k)) - k", after="softplus(u + v) - softplus(u - v) - v", x=1e-10, k=1.67
    ),
    "(softplus(v*(u + w)) - softplus(v*(u - w)))/v - w": Example(
        "(log(1 + exp(k*(x + y))) - log(1 + exp(k*(x - y))))/k - y",
        after="(softplus(v*(u + w)) - softplus(v*(u - w)))/v - w",
        x=1e-10,
        y=1.3,
        k=1.67,
    ),
    "v*exp(u) - w*expm1(u)": Example(
        "exp(-z)*x + (1 - exp(-z))*y", after="v*exp(u) - w*expm1(u)", x=5.0, y=6.0, z=-709.5
    ),
    "v*softplus(u) + w*softplus(-u)": Example("y*log(1 + exp(-x)) + (1 - y)*log(1 + exp(x))", x=-0.01, y=100.0),
    "erfc(u)": Example("exp(x**2)*erfc(x)", x=30.0),
    "1/erfcx(u) - sqrt(pi)*u": Example("1/erfcx(x) - sqrt(pi)*x", after="1/erfcx(u) - sqrt(pi)*u", x=1e5),
    "bessel_i(a, u)": Example("log(bessel_i(0, x))", x=800.0),
    "log(u) = log1p(u - 1)": Example("log(2 - cos(x))", x=1e-5),
    "log(u) = where(lt(2*abs(u - 1), 1), log1p(u - 1), log(u))": Example("log(2/(1 + exp(-x)))", x=1e-10),
    "logaddexp(u, -u)": Example("log(cosh(x))", x=1e-5),
    "u**a - v**a": Example("x**(3/10) - y**(3/10)", x=2.5, y=2.5 + 2.0**-40),
    "u**w - v**w": Example("x**k - y**k", x=2.5, y=3.5, k=1e-10),
    "ierfcx(u)*erfcx(u)**-2": Example("ierfcx(x)*erfcx(x)**-2", after="ierfcx(u)*erfcx(u)**-2", x=-30.0),
    "exp(v*cos(u))/bessel_i(a, v)": Example(
        "exp(y*cos(x))/bessel_i(0, y)", after="exp(v*cos(u))/bessel_i(a, v)", x=0.1, y=800.0
    ),
    "exp(u)/bessel_i(a, v)": Example("exp(x)/bessel_i(0, y)", after="exp(u)/bessel_i(a, v)", x=800.0, y=801.0),
    "log(expm1(u))": Example("log(exp(x) - 1)", x=800.0),
    "log(u) - log(v) = where(gt(v, 0), log(u/v), log(u) - log(v))": Example("log(x) - log(y)", x=1e290, y=1e300),
    "log1p(v*exp(u))": Example("log(1 + exp(x)*y)", x=800.0, y=0.4),
    "log1p(v*exp(u)**2)": Example("log(1 + (x/exp(y))**2/k)", x=7e-4, y=-800.0, k=4.0),
    "log1p(-u**v)": Example("log(1 - x**y)", x=0.5, y=1e-10),
    "v - hypot(u, w)": Example("(x + y)/2 - sqrt((x/2 - y/2)**2 + k**2)", x=1.0, y=1e10, k=0.5),
    "v + hypot(u, w)": Example("(x + y + sqrt((x - y)**2 + 4*k**2))/2", x=-1.0, y=-1e10, k=0.5),
    **{
        named(rule): Example("(exp(-2*x) - 1)/(exp(-4*k*x) - 1)", x=0.0, k=100.0)
        for rule in RULES
        if rule.pattern == "expm1(t*u)/expm1(v*u)"
    },
    "log(t*exp(u) + w*exp(v))": Example("log(k*exp(-(x - 2)**2/2) + (1 - k)*exp(-(x + 2)**2/2))", x=60.0, k=0.3),
    "log(u*v)": Example("log(x*y)", x=1e200, y=1e200),
    "log(u/v)": Example("log(x/y)", x=1e200, y=1e-200),
    "log(sigmoid(u) + sigmoid(-u)*exp(v))": Example(
        "log(1/(1 + exp(-x)) + (1 - 1/(1 + exp(-x)))*exp(-exp(y)))", x=-800.0, y=7.0
    ),
    "(-expm1(b*exp(u)))**a": Example("sqrt(1 - exp(-2*exp(x)))", x=-760.0),
    "u/expm1(u*v)": Example("x/(exp(x*y) - 1)", x=0.0, y=0.5),
    "u/expm1(u/v)": Example("x/(exp(x/y) - 1)", x=0.0, y=0.5),
    "log(u/(u + v))": Example("log(x/(x + y))", x=1.0, y=1e-20),
    "u/(a + abs(u))": Example("x*log(1 + exp(x))/(1 + abs(x))", after="u/(a + abs(u))", x=1e200),
    "u**-2*v**-1": Example("1/(x**2*y)", x=1e200, y=1e-200),
    "log(v*sinh(u))": Example("log(sinh(x)/x)", x=800.0),
    "log(-expm1(u))": Example("log(1 - exp(x))", x=-50.0),
    "log(-expm1(-exp(u)))": Example("log(1 - exp(-exp(x)))", x=-800.0),
    "exp(u)*softplus(v)": Example("exp(x)*log(1 + exp(-2*x))", after="exp(u)*softplus(v)", x=720.0),
    "log(softplus(u))": Example("log(log(1 + exp(x)))", after="log(softplus(u))", x=-800.0),
    "log(softplus(exp(u)))": Example("log(log(1 + exp(exp(x))))", after="log(softplus(exp(u)))", x=800.0),
    "softplus(u)**v": Example("sqrt(log(1 + exp(x)))", after="softplus(u)**v", x=-760.0),
    "asinh(v*exp(u))": Example("asinh(exp(x))", after="asinh(v*exp(u))", x=800.0),
    "asinh(v*sinh(u))": Example("asinh(sinh(x)/2)", after="asinh(v*sinh(u))", x=-800.0),
    "sqrt(v*u**2)": Example("sqrt(x**2/(1 + x**2))", after="sqrt(v*u**2)", x=1e-200),
    "expm1(u)*exp(-u)": Example("exp(-x)*(exp(x) - 1)", after="expm1(u)*exp(-u)", x=800.0),
    "exp(u)/expm1(exp(u))": Example("log(1 - exp(-exp(x)))", by="x", after="exp(u)/expm1(exp(u))", x=800.0),
    "log1p(v*expm1(u))": Example("log(1 + k*(exp(x) - 1))", x=800.0, k=0.5),
    "logrel(v, expm1(u))": Example("log(1 + k*(exp(x) - 1))/k", x=800.0, k=0.5),
    "cosh(u)*exp(v)": Example("cosh(x)*exp(-x**2/1000)", x=800.0),
    "sinh(u)*exp(v)": Example("sinh(x)*exp(-x**2/1000)", x=800.0),
    "w*cosh(u)*exp(v)": Example("x*cosh(x)*exp(-x**2/1000)", x=800.0),
    "w*sinh(u)*exp(v)": Example("x*sinh(x)*exp(-x**2/1000)", x=800.0),
    "(1 + u)**v": Example("(1 + x)**k", x=1e-10, k=1e12),
    "(1 + u)**(1/u)": Example("(1 + x)**(1/x)", x=1e-10),
    "log1p(u**v)": Example("log(1 + x**k)", after="log1p(u**v)", x=1e200, k=2.1),
    "log(u**2 + v**2)": Example("log(x**2 + y**2)", x=1e200, y=1.0),
    "log1p(w*u**2)": Example("log(1 + x**2/k)", after="log1p(w*u**2)", x=1e200, k=2.0),
    "u**2*log1p(u**-2)": Example("x**2*log(1 + 1/x**2)", after="u**2*log1p(u**-2)", x=1e-170),
    "log1p(w*u**-2)": Example("log(1 + k/x**2)", after="log1p(w*u**-2)", x=1e-170, k=1.5),
    "log1p(w*(u/v)**2)": Example("log(1 + (x/y)**2/k)", after="log1p(w*(u/v)**2)", x=1e200, y=1e-200, k=2.0),
    "log(w*(v*(1 + (u/v)**2)))": Example("log(y*(1 + (x/y)**2))", after="log(w*(v*(1 + (u/v)**2)))", x=1e200, y=2.0),
    "log(w*((u**2 + v**2)/v))": Example("log((x**2 + y**2)/y)", after="log(w*((u**2 + v**2)/v))", x=1e200, y=2.0),
    "log(abs(tanh(u)))": Example("log(abs(tanh(x)))", x=-30.0),
    "log(tanh(u))": Example("-log(tanh(x/2))", x=60.0),
    "log(erfc(u))": Example("log(erfc(x))", x=30.0),
    "log(erfc(u)/2)": Example("log(erfc(-x/sqrt(2))/2)", x=-50.0),
    "exp(t)*(1 + w*exp(u))**v": Example("1 - (1 + k*exp(x))**(-1/k)", by="x", x=800.0, k=2.0),
    "exp(t)/sqrt(1 + exp(u))": Example("exp(x)/sqrt(1 + exp(3*x))", x=800.0),
    "exp(t)*(sqrt(1 + exp(u)) - 1)": Example(
        "(sqrt(1 + exp(2*x)) - 1)/exp(x)", after="exp(t)*(sqrt(1 + exp(u)) - 1)", x=400.0
    ),
    "v*(t*expm1(u) + w)": Example("(exp(x) - 1 - x)/x**2", x=712.0),
    "cbrt(1 + exp(u))": Example("cbrt(1 + exp(x))", x=800.0),
    "(1 + exp(u))**v": Example("(1 + exp(x))**k", x=800.0, k=0.5),
    "cbrt(exp(u) + exp(v))": Example("cbrt(exp(x) + exp(y))", x=1000.0, y=990.0),
    "cbrt(exp(u) + exp(v))**-2*exp(t)": Example("cbrt(exp(x) + exp(y))", by="x", x=1000.0, y=990.0),
    "(exp(u) + exp(v))**w": Example("(exp(x) + exp(y))**k", x=1000.0, y=990.0, k=0.4),
    "(1 + w*exp(u))**v": Example("(1 + k*exp(-x))**(-1/k)", x=-800.0, k=2.5),
    "exp(u)*sigmoid(v)": Example("exp(x/k)/(1 + exp(8*x*k))", after="exp(u)*sigmoid(v)", x=1500.0, k=2.0),
    "(t*exp(u) + w*exp(v))/(exp(u) + exp(v))": Example(
        "(x*exp(k*x) + y*exp(k*y))/(exp(k*x) + exp(k*y))",
        after="(t*exp(u) + w*exp(v))/(exp(u) + exp(v))",
        x=90.0,
        y=-1.0,
        k=10.0,
    ),
    "sigmoid(u)**v": Example("(1/(1 + exp(-x)))**k", x=-800.0, k=0.5),
}
