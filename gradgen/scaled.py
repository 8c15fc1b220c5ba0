"""Texts of products r * f(t) with a function f that vanishes exponentially; see `special` for the conventions.

Where f(t) falls below the smallest normal number it has lost digits that a large r would bring back into sight, and
where it is 0 an infinite r would make it NaN. So r is multiplied by an exponential in factors, which neither overflow
nor vanish: in C and CUDA those that our own exponential consists of, with torch four times its fourth root.
"""

from __future__ import annotations

from gradgen import normal

SIGNED = ("dswish", "dgelu")  # negative where they vanish, the others are positive
VANISHING = ("exp", "sigmoid", "logistic_density", "sech", "erfc", "ndtr", *SIGNED)

C: dict[str, str] = {}
TORCH: dict[str, str] = {}
NEEDS: dict[str, tuple[str, ...]] = {
    "mul_sigmoid": ("mul_exp",),
    "mul_logistic_density": ("mul_exp",),
    "mul_sech": ("mul_exp",),
    "mul_erfc": ("mul_exp", "product_error"),
    "mul_dswish": ("product_error",),
    **normal.NEEDS,
}

C["mul_exp"] = """\
/* r * exp(t), 0 where it is for every number r. */
FN real mul_exp(real r, real t) { return gg_mul_exp(r, t); }
"""
TORCH["mul_exp"] = '''\
def mul_exp(r: Tensor, t: Tensor) -> Tensor:
    """r * exp(t), 0 where it is for every number r."""
    least, most, gone = (-708.0, 709.0, 1456.0) if t.dtype is torch.float64 else (-87.0, 88.0, 194.0)
    far = (t < least) | (t > most)
    e = torch.exp(torch.where(far, torch.clamp(t, -gone, gone) / 4, t))
    product = torch.where(far, r * e * e * e * e, r * e)
    return torch.where((t < -gone) & (r.abs() == math.inf), 0, torch.where(t == math.inf, r * t, product))
'''

C["mul_sigmoid"] = """\
/* r * sigmoid(t), 0 where sigmoid(t) is. */
FN real mul_sigmoid(GG_OPERAND r, GG_OPERAND t) { return GG_SELF(gg_swish, r, t, gg_mul_sigmoid(r, t)); }
"""
TORCH["mul_sigmoid"] = '''\
def mul_sigmoid(r: Tensor, t: Tensor) -> Tensor:
    """r * sigmoid(t), 0 where sigmoid(t) is."""
    d = torch.where(t >= 0, -t, t)
    return torch.where(t >= 0, r, mul_exp(r, d)) / (1 + torch.exp(d))
'''

C["mul_logistic_density"] = """\
/* r * logistic_density(t), 0 where the density is. */
FN real mul_logistic_density(real r, real t) { return gg_mul_logistic_density(r, t); }
"""
TORCH["mul_logistic_density"] = '''\
def mul_logistic_density(r: Tensor, t: Tensor) -> Tensor:
    """r * logistic_density(t), 0 where the density is."""
    d = torch.where(t >= 0, -t, t)
    e = torch.exp(d)
    return mul_exp(r, d) / (1 + e * (2 + e))
'''

C["mul_sech"] = """\
/* r * sech(t), 0 where sech(t) is. */
FN real mul_sech(real r, real t) {
    const real d = -fabs(t), e = exp(d);
    return GG_OVER(2 * mul_exp(r, d), 1 + e * e);
}
"""
TORCH["mul_sech"] = '''\
def mul_sech(r: Tensor, t: Tensor) -> Tensor:
    """r * sech(t), 0 where sech(t) is."""
    d = torch.where(t >= 0, -t, t)
    e = torch.exp(d)
    return 2 * mul_exp(r, d) / (1 + e * e)
'''

# For t > 8 in float32 and t > 20 in float64, the first eight terms of A&S 7.1.23
_SERIES = "1 - w * (1 - 3 * w * (1 - 5 * w * (1 - 7 * w * (1 - 9 * w * (1 - 11 * w * (1 - 13 * w))))))"
C["mul_erfc"] = """\
/* r * erfc(t), 0 where it is for every number r. */
FN real mul_erfc(real r, real t) { return gg_mul_erfc(r, t); }
"""
TORCH["mul_erfc"] = f'''\
def mul_erfc(r: Tensor, t: Tensor) -> Tensor:
    """r * erfc(t), 0 where erfc(t) is; in the tail by its asymptotic series (A&S 7.1.23)."""
    threshold = 20 if t.dtype is torch.float64 else 8
    far = torch.clamp(t, min=threshold)
    q = far * far
    more = 1 - product_error(far, far, q).nan_to_num(0)
    w = 1 / (2 * far * far)
    series = {_SERIES}
    product = mul_exp(r, -q) * more * series / (far * math.sqrt(math.pi))
    return torch.where(t < threshold, r * torch.special.erfc(t), product)
'''

C["mul_dswish"] = """\
/* r * dswish(t), 0 where it is for every number r. */
FN real mul_dswish(real r, real t) { return gg_mul_dswish(r, t); }
"""
TORCH["mul_dswish"] = '''\
def mul_dswish(r: Tensor, t: Tensor) -> Tensor:
    """r * dswish(t), 0 where it is for every number r."""
    s, r = t.double(), r.double()
    d = torch.where(s >= 0, -s, s).clamp(min=-1464)  # what is no number stays none
    less, x = 1 + d, torch.exp(d)
    n, total = less + x, 1 + x
    square = total * total
    lost = product_error(total, total, square) + 2 * total * (x - (total - 1))
    q = n / square
    more = (n - q * square) - product_error(q, square, q * square) + ((x - (n - less)) - q * lost)
    q = q + more / square
    u, e = torch.where(s < 0, r, 1.0), torch.exp(d / 4)
    near = torch.where(u.abs() > 1, u * x * q, u * q * x)  # which of the products on the way is no subnormal number
    tail = torch.where(d < -700, u * e * q * e * e * e, near)
    tail = torch.where((s < -1464) & (r.abs() == math.inf), 0, tail)
    return torch.where(s < 0, tail, r * (1 - tail)).to(t.dtype)
'''
C["dswish"] = """\
/* The derivative of t sigmoid(t). */
FN real dswish(real t) { return gg_dswish(t); }
"""
NEEDS["dswish"] = ("product_error", "mul_dswish")
TORCH["dswish"] = '''\
def dswish(t: Tensor) -> Tensor:
    """The derivative of t sigmoid(t)."""
    return mul_dswish(torch.ones_like(t), t)
'''

C["dgate"] = """\
/* sigmoid(u) + w * logistic_density(u), 0 where the density is for every number w. */
FN real dgate(real u, real w) { return gg_dgate(u, w); }
"""
NEEDS["dgate"] = ("product_error", "sum_error")
TORCH["dgate"] = '''\
def dgate(u: Tensor, w: Tensor) -> Tensor:
    """sigmoid(u) + w * logistic_density(u), 0 where the density is for every number w."""
    s, v = u.double(), w.double()
    d = torch.where(s >= 0, -s, s).clamp(min=-1464)  # what is no number stays none
    x, less = torch.exp(d), 1 + v
    product, total = less * x, 1 + x
    n = torch.where(s < 0, less + x, 1 + product)
    one, less_lost = torch.ones_like(v), sum_error(torch.ones_like(v), v, less)
    above = sum_error(one, product, n) + product_error(less, x, product) + less_lost * x
    n_lost = torch.where(s < 0, sum_error(less, x, n) + less_lost, above)
    square = total * total
    lost = product_error(total, total, square) + 2 * total * (x - (total - 1))
    q = n / square
    more = (n - q * square) - product_error(q, square, q * square) + (n_lost - q * lost)
    q = torch.where(n.abs() < math.inf, q + more / square, q)
    e = torch.exp(d / 4)
    below = torch.where(d < -700, e * q * e * e * e, q * x)
    gone = torch.where(s > 0, 1.0, torch.copysign(torch.zeros_like(n), n))
    return torch.where((d <= -1464) & (w == w), gone, torch.where(s < 0, below, q)).to(u.dtype)
'''

# Where r is another input, an infinite one stays infinite, with the sign of the product; no number stays none.
for _name in VANISHING:
    _of_number = f"gg_lift_{_name}" if _name in normal.FUNCTIONS else f"mul_{_name}"
    NEEDS[f"lift_{_name}"] = (*NEEDS.get(f"mul_{_name}", ()), f"mul_{_name}")
    _one_for_infinity = "isinf(r) ? copysign(real(1), r) : r" if _name in SIGNED else "r"
    _kept = "product + copysign(real(INFINITY), product)" if _name in SIGNED else "t == t ? r : t"
    C[f"lift_{_name}"] = f"""\
/* r * {_name}(t), infinite where r is. */
FN real lift_{_name}(real r, real t) {{
    const real product = {_of_number}({_one_for_infinity}, t), kept = {_kept};
    return isinf(r) ? kept : product;
}}
"""
    _one_for_infinity = "torch.where(r.abs() == math.inf, torch.sgn(r), r)" if _name in SIGNED else "r"
    _signed = "product + torch.copysign(torch.full_like(product, math.inf), product)"
    _kept = _signed if _name in SIGNED else "torch.where(t == t, r, t)"
    TORCH[f"lift_{_name}"] = f'''\
def lift_{_name}(r: Tensor, t: Tensor) -> Tensor:
    """r * {_name}(t), infinite where r is."""
    product = mul_{_name}({_one_for_infinity}, t)
    return torch.where(r.abs() == math.inf, {_kept}, product)
'''
