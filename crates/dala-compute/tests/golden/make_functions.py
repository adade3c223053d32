"""Makes `functions.safetensors`: arguments of functions and their results.

The results come from mpmath, computed with so many digits that they are
correctly rounded to f32 and f64. Run it with

    pip install -r requirements.txt && python make_functions.py

Running it again writes the same bytes. The file holds tensors
`<function>/<type>/x`, `<function>/<type>/y` for those of two arguments, and
`<function>/<type>/out`.

Arguments are of the whole range of the type, of both signs, with more of
them where a function changes quickly or meets a special value. Angles of
f64 stay below a million, and divisions stay where their remainder is exact:
the documentation promises no more.
"""

import math
from pathlib import Path

import mpmath as mp
import numpy as np
from safetensors.numpy import save_file

SEED = 20240601
INF, NAN = math.inf, math.nan
# Per type: NumPy's type, bits of a fraction, smallest and largest exponent.
TYPES = {"f32": (np.float32, 24, -149, 127), "f64": (np.float64, 53, -1074, 1023)}


def rounded(value, ty):
    """The nearest number of a type, ties to even."""
    numpy_type, digits, least, most = TYPES[ty]
    if value == 0:
        return numpy_type(0)
    sign, magnitude = (-1, -value) if value < 0 else (1, value)
    exponent = int(mp.floor(mp.log(magnitude, 2)))
    if mp.ldexp(1, exponent) > magnitude:
        exponent -= 1
    unit = max(exponent - digits + 1, least)
    whole = int(mp.nint(mp.ldexp(magnitude, -unit)))
    if whole.bit_length() + unit > most + 1:
        return numpy_type(sign * INF)
    return numpy_type(sign * math.ldexp(whole, unit))


def erf_inv(x):
    """By Newton's method on the side where digits are kept."""
    rest = 1 - abs(x)
    if rest < mp.mpf("0.5"):
        y = mp.sqrt(-mp.log(rest))
        for _ in range(80):
            step = (mp.erfc(y) - rest) * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
            step /= 1 - y * step
            y += step
            if abs(step) < mp.mpf(10) ** -45:
                break
        return mp.sign(x) * y
    y = abs(x) * mp.sqrt(mp.pi) / 2
    for _ in range(80):
        step = (mp.erf(y) - abs(x)) * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        y -= step
        if abs(step) < abs(y) * mp.mpf(10) ** -45:
            break
    return mp.sign(x) * y


# Name: function, results at -inf and inf, result at zero (None: the zero
# itself), arguments that are special, domain.
FUNCTIONS = {
    "sqrt": (mp.sqrt, NAN, INF, None, [1, 4, 2], (0, INF)),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), -INF, INF, None, [1, 8, 27, -8, 1000], (-INF, INF)),
    "exp": (mp.exp, 0.0, INF, 1.0, [1, 88.7, -87.3, 709.7, -708.3, -103.9, -745.1, 0.3465], (-INF, INF)),
    "expm1": (mp.expm1, -1.0, INF, None, [1, -1, 0.3465, -0.3465, 88.7, 709.7, 18, -18, 37, -37], (-INF, INF)),
    "log": (mp.log, NAN, INF, -INF, [1, 2, 0.5, math.sqrt(0.5), math.sqrt(2), math.e], (0, INF)),
    "log1p": (mp.log1p, NAN, INF, None, [-1, 1, -0.5, -0.2929, 0.4142, 0.5], (-1, INF)),
    "sin": (mp.sin, NAN, NAN, None, [k * math.pi / 4 for k in range(-40, 41)], (-INF, INF)),
    "cos": (mp.cos, NAN, NAN, 1.0, [k * math.pi / 4 for k in range(-40, 41)], (-INF, INF)),
    "tan": (mp.tan, NAN, NAN, None, [k * math.pi / 4 for k in range(-40, 41)], (-INF, INF)),
    "asin": (mp.asin, NAN, NAN, None, [1, -1, 0.5, -0.5], (-1, 1)),
    "acos": (mp.acos, NAN, NAN, math.pi / 2, [1, -1, 0.5, -0.5], (-1, 1)),
    "atan": (mp.atan, -math.pi / 2, math.pi / 2, None, [1, -1, 0.41421356, 2.41421356], (-INF, INF)),
    "sinh": (mp.sinh, -INF, INF, None, [1, -1, 9, 20, 22, 89.4, 710.4, 0.3465], (-INF, INF)),
    "cosh": (mp.cosh, INF, INF, 1.0, [1, -1, 9, 20, 22, 89.4, 710.4], (-INF, INF)),
    "tanh": (mp.tanh, -1.0, 1.0, None, [0.5, -0.5, 9, 20, 0.1732, 1], (-INF, INF)),
    "asinh": (mp.asinh, -INF, INF, None, [1, -1, 0.5, 16384, 536870912.0], (-INF, INF)),
    "acosh": (mp.acosh, NAN, INF, NAN, [1, 2, 1.5, 16384, 536870912.0], (1, INF)),
    "atanh": (mp.atanh, NAN, NAN, None, [1, -1, 0.5, -0.5, 0.3], (-1, 1)),
    "erf": (mp.erf, -1.0, 1.0, None, [1, -1, 4, 6, 3.9, 5.9, 0.5], (-INF, INF)),
    "erf_inv": (erf_inv, NAN, NAN, None, [1, -1, 0.5, 0.99, 0.9966], (-1, 1)),
    "round_away": (lambda x: mp.sign(x) * mp.floor(abs(x) + mp.mpf("0.5")), -INF, INF, None, [0.5, -0.5, 1.5, 2.5, -2.5], (-INF, INF)),
    "trunc": (lambda x: mp.sign(x) * mp.floor(abs(x)), -INF, INF, None, [0.5, -0.5, 1, -1, 2.5], (-INF, INF)),
}
POLES = {("log1p", -1.0): -INF, ("atanh", 1.0): INF, ("atanh", -1.0): -INF, ("erf_inv", 1.0): INF, ("erf_inv", -1.0): -INF}


def spread(ty, rng, count, low=None, high=None):
    """Numbers of all sizes from 2**low to 2**high, of both signs."""
    numpy_type, digits, least, most = TYPES[ty]
    low, high = least if low is None else low, most if high is None else high
    exponents = np.linspace(low, high, count)
    values = [math.ldexp(1 + rng.random(), int(math.floor(e))) for e in exponents]
    signs = rng.choice([-1.0, 1.0], count)
    return [numpy_type(sign * value) for sign, value in zip(signs, values)]


def neighbours(ty, value):
    """The number, and those right below and above it."""
    numpy_type = TYPES[ty][0]
    own = numpy_type(value)
    return [own, np.nextafter(own, numpy_type(-INF)), np.nextafter(own, numpy_type(INF))]


def edges(ty):
    """Zeros, the smallest and the largest numbers, infinities, NaN."""
    numpy_type = TYPES[ty][0]
    info = np.finfo(numpy_type)
    some = [0.0, info.tiny, info.smallest_subnormal, 5 * info.smallest_subnormal, info.tiny / 3, info.max, info.eps, 1.0]
    both = [numpy_type(sign * value) for value in some for sign in (1.0, -1.0)]
    return both + [numpy_type(INF), numpy_type(-INF), numpy_type(NAN)]


def unary(name, ty, rng):
    numpy_type = TYPES[ty][0]
    function, at_minus_infinity, at_infinity, at_zero, special, (low, high) = FUNCTIONS[name]
    xs = edges(ty) + [x for value in special for x in neighbours(ty, value)]
    most = 19 if ty == "f64" and name in ("sin", "cos", "tan") else None
    xs += spread(ty, rng, 150, high=most) + spread(ty, rng, 260, low=-12, high=10 if ty == "f64" else 7)
    # Close to 1 from both sides, where many of them turn.
    xs += [numpy_type(sign * (1 + side * math.ldexp(1 + rng.random(), -k))) for k in range(1, 53, 2) for sign in (1, -1) for side in (1, -1)]
    outs = []
    for x in xs:
        if np.isnan(x):
            out = NAN
        elif np.isinf(x):
            out = at_infinity if x > 0 else at_minus_infinity
        elif x == 0:
            out = float(x) if at_zero is None else at_zero
        elif (name, float(x)) in POLES:
            out = POLES[name, float(x)]
        elif not low <= x <= high:
            out = NAN
        else:
            outs.append(evaluated(function, (x,), ty, zero=float(x)))
            continue
        outs.append(numpy_type(out))
    return {"x": np.array(xs, numpy_type), "out": np.array(outs, numpy_type)}


def evaluated(function, arguments, ty, zero):
    """Correctly rounded; the sign of `zero` where the result is zero."""
    exact = function(*(mp.mpf(float(x)) for x in arguments))
    out = rounded(exact, ty)
    return TYPES[ty][0](math.copysign(0.0, exact or zero)) if out == 0 else out


def pow_of(x, y):
    """C's rules for finite numbers."""
    if y == 0 or x == 1:
        return mp.mpf(1)
    whole = mp.floor(y) == y
    odd = whole and int(y) % 2 == 1
    if x < 0 and not whole:
        return None
    size = y * mp.log(abs(x)) if x != 0 else None
    if x == 0:
        return mp.inf if y < 0 else mp.mpf(0)
    if size > 2000:
        result = mp.mpf(2) ** 3000
    elif size < -2000:
        result = mp.mpf(2) ** -3000
    else:
        result = mp.exp(size)
    return -result if x < 0 and odd else result


def binary(name, ty, rng):
    numpy_type = TYPES[ty][0]
    pairs = []
    ends = [numpy_type(v) for v in (0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3.0, -3.0, INF, -INF, NAN)]
    pairs += [(a, b) for a in ends for b in ends]
    if name == "pow":
        for x in spread(ty, rng, 300):
            # Results of all sizes.
            y = rng.uniform(-1.02, 1.02) * (88.0 if ty == "f32" else 709.0) / max(abs(math.log(abs(float(x)) or 1e-300)), 1e-30)
            pairs.append((abs(x), numpy_type(y)))
        for k in range(1, 24 if ty == "f32" else 52):
            x = 1 + rng.choice([-1, 1]) * math.ldexp(1 + rng.random(), -k)
            pairs.append((numpy_type(x), numpy_type(rng.uniform(-1, 1) * (88 if ty == "f32" else 709) / math.log(x) if x != 1 else 1)))
        for _ in range(120):
            pairs.append((numpy_type(rng.uniform(-10, 10)), numpy_type(rng.integers(-30, 30))))
            pairs.append((numpy_type(rng.uniform(0, 10)), numpy_type(rng.uniform(-20, 20))))
    elif name == "atan2":
        pairs += list(zip(spread(ty, rng, 150), rng.permutation(spread(ty, rng, 150))))
        pairs += list(zip(spread(ty, rng, 300, -8, 8), rng.permutation(spread(ty, rng, 300, -8, 8))))
        pairs += [(x, x * numpy_type(f)) for x in spread(ty, rng, 60, -100, 100) for f in (1, -1, 2.414, 0.4142)]
    else:
        most = 32 if ty == "f32" else 74
        for x in spread(ty, rng, 500):
            y = float(x) * math.ldexp(1 + rng.random(), -int(rng.integers(-2, most))) * rng.choice([-1, 1])
            pairs.append((x, numpy_type(y)))
        for _ in range(100):
            y = numpy_type(rng.uniform(0.1, 9))
            pairs.append((numpy_type(y * rng.integers(1, 2000)), y))
    outs = []
    for x, y in pairs:
        a, b = float(x), float(y)
        special = any(math.isnan(v) or math.isinf(v) or v == 0 for v in (a, b))
        if special:
            # The C library has these by the letter.
            own = {"pow": np.power, "atan2": np.arctan2, "rem": np.fmod}[name]
            outs.append(numpy_type(own(np.float64(a), np.float64(b))))
            continue
        if name == "pow":
            exact = pow_of(mp.mpf(a), mp.mpf(b))
            outs.append(numpy_type(NAN) if exact is None else evaluated(lambda *_: exact, (), ty, 1.0))
        elif name == "atan2":
            outs.append(evaluated(mp.atan2, (x, y), ty, a))
        else:
            exact = mp.mpf(abs(a)) - abs(mp.mpf(b)) * mp.floor(mp.mpf(abs(a)) / abs(mp.mpf(b)))
            outs.append(evaluated(lambda *_: exact if a > 0 else -exact, (), ty, a))
    columns = np.array([p[0] for p in pairs], numpy_type), np.array([p[1] for p in pairs], numpy_type)
    return {"x": columns[0], "y": columns[1], "out": np.array(outs, numpy_type)}


def clipped(function, limit):
    """Large arguments of exponentials, cut where results are infinite or zero."""
    return lambda x: function(mp.mpf(min(max(x, -limit), limit)))


def main():
    np.seterr(all="ignore")
    for name in ("exp", "expm1", "sinh", "cosh", "tanh", "erf"):
        FUNCTIONS[name] = (clipped(FUNCTIONS[name][0], 3000), *FUNCTIONS[name][1:])
    tensors = {}
    for number, name in enumerate([*FUNCTIONS, "pow", "atan2", "rem"]):
        for ty in TYPES:
            rng = np.random.default_rng([SEED, number])
            # More than the bits between the largest and the smallest number; Newton's method stops at fewer.
            mp.mp.prec = 300 if name == "erf_inv" else 2400
            made = unary(name, ty, rng) if name in FUNCTIONS else binary(name, ty, rng)
            tensors.update({f"{name}/{ty}/{part}": values for part, values in made.items()})
    save_file(tensors, Path(__file__).parent / "functions.safetensors")


if __name__ == "__main__":
    main()
