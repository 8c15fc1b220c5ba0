from sympy import symbols

# The square of a number, in the bare form: an expression with a name  (Euclid, Elements, II).
x = symbols("x")
square = x**2
