// Functions of scalars, and component by component of vectors. Everything is as exact as the host's own functions:
// Metal's fast forms differ in the last bits, which the tolerances of ops allow for.
#pragma once

namespace metal {
#define EACH(name)                                                                                                     \
    template <class T, int N>                                                                                          \
    auto name(vec<T, N> a) {                                                                                           \
        vec<decltype(name(T())), N> result;                                                                            \
        for (int i = 0; i < N; i++) result.e[i] = name(a.e[i]);                                                        \
        return result;                                                                                                 \
    }
#define FLOATS(name, value)                                                                                            \
    inline float name(float a) { return value; }                                                                       \
    inline half name(half b) {                                                                                         \
        float a = b;                                                                                                   \
        return (half)(value);                                                                                          \
    }                                                                                                                  \
    EACH(name)                                                                                                         \
    namespace precise {                                                                                                \
    using metal::name;                                                                                                 \
    }                                                                                                                  \
    namespace fast {                                                                                                   \
    using metal::name;                                                                                                 \
    }
FLOATS(exp, __builtin_expf(a)) FLOATS(exp2, __builtin_exp2f(a)) FLOATS(log, __builtin_logf(a))
FLOATS(log2, __builtin_log2f(a)) FLOATS(sqrt, __builtin_sqrtf(a)) FLOATS(rsqrt, 1.0f / __builtin_sqrtf(a))
FLOATS(sin, __builtin_sinf(a)) FLOATS(cos, __builtin_cosf(a)) FLOATS(tan, __builtin_tanf(a))
FLOATS(asin, __builtin_asinf(a)) FLOATS(acos, __builtin_acosf(a)) FLOATS(atan, __builtin_atanf(a))
FLOATS(sinh, __builtin_sinhf(a)) FLOATS(cosh, __builtin_coshf(a)) FLOATS(tanh, __builtin_tanhf(a))
FLOATS(floor, __builtin_floorf(a)) FLOATS(ceil, __builtin_ceilf(a)) FLOATS(trunc, __builtin_truncf(a))
FLOATS(round, __builtin_roundf(a)) FLOATS(rint, __builtin_rintf(a)) FLOATS(fabs, __builtin_fabsf(a))
FLOATS(fract, a - __builtin_floorf(a)) FLOATS(saturate, a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f)
FLOATS(sign, a > 0.0f ? 1.0f : (a < 0.0f ? -1.0f : 0.0f))
#undef FLOATS

inline bool isnan(float a) { return __builtin_isnan(a); }
inline bool isinf(float a) { return __builtin_isinf(a); }
EACH(isnan) EACH(isinf)

inline int popcount(int a) { return __builtin_popcount((uint)a); }
inline uint popcount(uint a) { return (uint)__builtin_popcount(a); }
inline uint clz(uint a) { return a == 0 ? 32 : (uint)__builtin_clz(a); }
inline int clz(int a) { return (int)clz((uint)a); }
inline uint ctz(uint a) { return a == 0 ? 32 : (uint)__builtin_ctz(a); }
inline int ctz(int a) { return (int)ctz((uint)a); }
inline uint reverse_bits(uint a) { return __builtin_bitreverse32(a); }
inline int reverse_bits(int a) { return (int)__builtin_bitreverse32((uint)a); }
EACH(popcount) EACH(clz) EACH(ctz) EACH(reverse_bits)

template <class T>
    requires is_scalar<T>
T abs(T a) {
    return a < T(0) ? T(-a) : a;
}
EACH(abs)
inline float abs(float a) { return __builtin_fabsf(a); }

#define EACH_PAIR(name)                                                                                                \
    template <class T, int N>                                                                                          \
    vec<T, N> name(vec<T, N> a, vec<T, N> b) {                                                                         \
        for (int i = 0; i < N; i++) a.e[i] = name(a.e[i], b.e[i]);                                                     \
        return a;                                                                                                      \
    }                                                                                                                  \
    template <class T, int N, class U>                                                                                 \
        requires is_scalar<U>                                                                                          \
    vec<T, N> name(vec<T, N> a, U b) {                                                                                 \
        return name(a, vec<T, N>(b));                                                                                  \
    }
// Of a number and NaN, the number: as fmin and fmax.
template <class T>
    requires is_scalar<T>
T min(T a, T b) {
    return b < a || a != a ? b : a;
}
template <class T>
    requires is_scalar<T>
T max(T a, T b) {
    return a < b || a != a ? b : a;
}
inline float pow(float a, float b) { return __builtin_powf(a, b); }
inline float powr(float a, float b) { return __builtin_powf(a, b); }
inline float atan2(float a, float b) { return __builtin_atan2f(a, b); }
inline float fmod(float a, float b) { return __builtin_fmodf(a, b); }
inline float step(float edge, float a) { return a < edge ? 0.0f : 1.0f; }
inline float ldexp(float a, int b) { return __builtin_ldexpf(a, b); }
EACH_PAIR(min) EACH_PAIR(max) EACH_PAIR(pow) EACH_PAIR(powr) EACH_PAIR(atan2) EACH_PAIR(fmod) EACH_PAIR(step)
#undef EACH_PAIR
#undef EACH
template <class T>
T fmin(T a, T b) {
    return min(a, b);
}
template <class T>
T fmax(T a, T b) {
    return max(a, b);
}

template <class T>
T clamp(T a, T low, T high) {
    return min(max(a, low), high);
}
template <class T, int N, class U>
    requires is_scalar<U>
vec<T, N> clamp(vec<T, N> a, U low, U high) {
    return min(max(a, low), high);
}
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline half fma(half a, half b, half c) { return (half)__builtin_fmaf(a, b, c); }
template <class T, int N>
vec<T, N> fma(vec<T, N> a, vec<T, N> b, vec<T, N> c) {
    for (int i = 0; i < N; i++) a.e[i] = fma(a.e[i], b.e[i], c.e[i]);
    return a;
}
template <class T, class U>
T mix(T a, T b, U t) {
    return a + (b - a) * t;
}
// `b` where the condition holds.
template <class T>
    requires is_scalar<T>
T select(T a, T b, bool condition) {
    return condition ? b : a;
}
template <class T, int N>
vec<T, N> select(vec<T, N> a, vec<T, N> b, vec<bool, N> condition) {
    for (int i = 0; i < N; i++) a.e[i] = condition.e[i] ? b.e[i] : a.e[i];
    return a;
}
template <int N>
bool all(vec<bool, N> a) {
    bool result = true;
    for (bool x : a.e) result = result && x;
    return result;
}
template <int N>
bool any(vec<bool, N> a) {
    bool result = false;
    for (bool x : a.e) result = result || x;
    return result;
}
template <class T, int N>
T dot(vec<T, N> a, vec<T, N> b) {
    T sum = 0;
    for (int i = 0; i < N; i++) sum = (T)(sum + a.e[i] * b.e[i]);
    return sum;
}
template <class T, int N>
T length(vec<T, N> a) {
    return sqrt(dot(a, a));
}
template <class T, int N>
vec<T, N> normalize(vec<T, N> a) {
    return a * rsqrt(dot(a, a));
}
template <class T>
    requires is_integer<T>
T extract_bits(T a, uint offset, uint bits) {
    if (bits == 0) return 0;
    // Up to the top and down again, so that signed numbers keep their sign.
    return (T)((T)(a << (32 - offset - bits)) >> (32 - bits));
}
template <class T>
    requires is_integer<T>
T insert_bits(T base, T inserted, uint offset, uint bits) {
    if (bits == 0) return base;
    uint mask = (bits >= 32 ? ~0u : (1u << bits) - 1u) << offset;
    return (T)(((uint)base & ~mask) | (((uint)inserted << offset) & mask));
}
template <class T, int N>
vec<T, N> extract_bits(vec<T, N> a, uint offset, uint bits) {
    for (T& x : a.e) x = extract_bits(x, offset, bits);
    return a;
}
}  // namespace metal
