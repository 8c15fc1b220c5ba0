"""Texts of error-free transformations, which compensated arithmetic is made of; see `special` for the conventions.

Sums and products are exact as the computed result and what it lacks, which is a number of the type as well. The
kernel's prelude tells by `GG_PLAIN` where nothing need be corrected.
"""

from __future__ import annotations

C: dict[str, str] = {}
TORCH: dict[str, str] = {}
NEEDS: dict[str, tuple[str, ...]] = {}

C["sum_error"] = """\
/* What `sum`, computed as a + b, lacks (Knuth, The Art of Computer Programming 2, section 4.2.2). */
FN real sum_error(real a, real b, real sum) {
    real part = sum - a;
    return (a - (sum - part)) + (b - part);
}
"""
TORCH["sum_error"] = '''\
def sum_error(a: Tensor, b: Tensor, sum: Tensor) -> Tensor:
    """What `sum`, computed as a + b, lacks (Knuth, The Art of Computer Programming 2, section 4.2.2)."""
    part = sum - a
    return (a - (sum - part)) + (b - part)
'''

C["product_error"] = """\
/* What `product`, computed as a * b, lacks. */
FN real product_error(real a, real b, real product) { return fma(a, b, -product); }
"""
TORCH["product_error"] = '''\
def product_error(a: Tensor, b: Tensor, product: Tensor) -> Tensor:
    """What `product`, computed as a * b, lacks (Dekker, A Floating-Point Technique, 1971)."""
    if product.dtype is not torch.float64:
        return (a.double() * b.double() - product.double()).to(product.dtype)
    # Two factors of 27 and 26 bits each, whose products are exact.
    a_high = 134217729.0 * a - (134217729.0 * a - a)
    b_high = 134217729.0 * b - (134217729.0 * b - b)
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
'''

C["quotient_error"] = """\
/* What `quotient`, computed as a / b, lacks of (a + more) / b. */
FN real quotient_error(real a, real b, real quotient, real more) { return (fma(-quotient, b, a) + more) / b; }
"""
TORCH["quotient_error"] = '''\
def quotient_error(a: Tensor, b: Tensor, quotient: Tensor, more: Tensor | float) -> Tensor:
    """What `quotient`, computed as a / b, lacks of (a + more) / b."""
    return (more - product_error(quotient, b, a)) / b
'''
NEEDS["quotient_error"] = ("product_error",)

C["corrected"] = """\
/* A value and what it lacks, where that is a number, and not far below what is stored; -0 lacks nothing. */
FN real corrected(real value, real error) {
    return !GG_PLAIN && error != 0 && error - error == 0 ? value + error : value;
}
"""
TORCH["corrected"] = '''\
def corrected(value: Tensor, error: Tensor | float) -> Tensor:
    """A value and what it lacks, where that is a number; in exact arithmetic 0, so that autograd need not look."""
    error = error if isinstance(error, Tensor) else value.new_full((), error)
    return torch.where(error.isfinite() & (error != 0), value + detached(error), value)  # -0 lacks nothing
'''

C["rest"] = """\
/* What a constant lacks: as a float, and as a double. */
FN real rest(double narrow, double wide) { return sizeof(real) == 4 ? narrow : wide; }
"""
TORCH["rest"] = '''\
def rest(x: Tensor, narrow: float, wide: float) -> float:
    """What a constant lacks of its exact value in the type of x: in float32, and in float64."""
    return wide if x.dtype is torch.float64 else narrow
'''
