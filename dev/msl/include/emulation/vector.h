// Vectors with the layout, constructors, components and operators of MSL.
#pragma once

typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
typedef unsigned long ulong;
typedef _Float16 half;

constexpr half operator""h(long double value) { return (half)value; }

#if __clang_major__ >= 17
typedef __bf16 bfloat;
#endif

namespace metal {
using ::half;
using ::uchar;
using ::uint;
using ::ulong;
using ::ushort;

template <class T, int N>
struct vec;

template <class T>
inline constexpr bool is_scalar = __is_arithmetic(T) || __is_same(T, half);
#if __clang_major__ >= 17
template <>
inline constexpr bool is_scalar<::bfloat> = true;
#endif
template <class T>
inline constexpr bool is_integer = __is_integral(T);

template <class T>
struct components {
    static constexpr int count = 1;
};
template <class T, int N>
struct components<vec<T, N>> {
    static constexpr int count = N;
};

// A component, readable and writable. Using one that the vector does not have is an error.
#define COMPONENT(name, i)                                                                                             \
    __declspec(property(get = get_##name, put = put_##name)) T name;                                                   \
    constexpr T get_##name() const {                                                                                   \
        static_assert(i < N, "the vector has no such component");                                                      \
        return e[i];                                                                                                   \
    }                                                                                                                  \
    constexpr void put_##name(T value) {                                                                               \
        static_assert(i < N, "the vector has no such component");                                                      \
        e[i] = value;                                                                                                  \
    }
#define PAIR(name, i, j)                                                                                               \
    __declspec(property(get = get_##name, put = put_##name)) vec<T, 2> name;                                           \
    constexpr vec<T, 2> get_##name() const {                                                                           \
        static_assert(i < N && j < N, "the vector has no such component");                                             \
        return {e[i], e[j]};                                                                                           \
    }                                                                                                                  \
    constexpr void put_##name(vec<T, 2> value) {                                                                       \
        static_assert(i < N && j < N && i != j, "these components can't be written");                                  \
        e[i] = value.e[0];                                                                                             \
        e[j] = value.e[1];                                                                                             \
    }
#define TRIPLE(name, i, j, k)                                                                                          \
    __declspec(property(get = get_##name, put = put_##name)) vec<T, 3> name;                                           \
    constexpr vec<T, 3> get_##name() const {                                                                           \
        static_assert(i < N && j < N && k < N, "the vector has no such component");                                    \
        return {e[i], e[j], e[k]};                                                                                     \
    }                                                                                                                  \
    constexpr void put_##name(vec<T, 3> value) {                                                                       \
        static_assert(i < N && j < N && k < N, "the vector has no such component");                                    \
        e[i] = value.e[0];                                                                                             \
        e[j] = value.e[1];                                                                                             \
        e[k] = value.e[2];                                                                                             \
    }

// As in Metal, a vector of three lies like one of four.
template <class T, int N>
struct alignas(N == 3 ? sizeof(T) * 4 : sizeof(T) * N) vec {
    T e[N];

    constexpr vec() : e{} {}
    template <class U>
        requires is_scalar<U>
    constexpr vec(U all) : e{} {
        for (T& x : e) x = (T)all;
    }
    template <class U>
    explicit constexpr vec(const vec<U, N>& other) : e{} {
        for (int i = 0; i < N; i++) e[i] = (T)other.e[i];
    }
    template <class A, class B, class... Rest>
    constexpr vec(const A& a, const B& b, const Rest&... rest) : e{} {
        static_assert(components<A>::count + components<B>::count + (0 + ... + components<Rest>::count) == N,
                      "a vector is made of one value or of as many as it has components");
        int next = 0;
        add(next, a);
        add(next, b);
        (add(next, rest), ...);
    }
    constexpr T& operator[](uint i) { return e[i]; }
    constexpr T operator[](uint i) const { return e[i]; }

    COMPONENT(x, 0) COMPONENT(y, 1) COMPONENT(z, 2) COMPONENT(w, 3)
    COMPONENT(r, 0) COMPONENT(g, 1) COMPONENT(b, 2) COMPONENT(a, 3)
    PAIR(xx, 0, 0) PAIR(xy, 0, 1) PAIR(xz, 0, 2) PAIR(xw, 0, 3) PAIR(yx, 1, 0) PAIR(yy, 1, 1) PAIR(yz, 1, 2)
    PAIR(yw, 1, 3) PAIR(zx, 2, 0) PAIR(zy, 2, 1) PAIR(zz, 2, 2) PAIR(zw, 2, 3) PAIR(wx, 3, 0) PAIR(wy, 3, 1)
    PAIR(wz, 3, 2) PAIR(ww, 3, 3)
    TRIPLE(xyz, 0, 1, 2) TRIPLE(yzw, 1, 2, 3) TRIPLE(zyx, 2, 1, 0)

private:
    template <class A>
    constexpr void add(int& next, const A& part) {
        if constexpr (components<A>::count == 1) {
            e[next++] = (T)part;
        } else {
            for (int i = 0; i < components<A>::count; i++) e[next++] = (T)part.e[i];
        }
    }
};
#undef COMPONENT
#undef PAIR
#undef TRIPLE

// Vector with vector, vector with scalar, scalar with vector, and the assignment.
#define BINARY(op, condition)                                                                                          \
    template <class T, int N>                                                                                          \
        requires(condition)                                                                                            \
    constexpr vec<T, N> operator op(vec<T, N> a, vec<T, N> b) {                                                        \
        for (int i = 0; i < N; i++) a.e[i] = (T)(a.e[i] op b.e[i]);                                                    \
        return a;                                                                                                      \
    }                                                                                                                  \
    template <class T, int N, class U>                                                                                 \
        requires(is_scalar<U> && (condition))                                                                          \
    constexpr vec<T, N> operator op(vec<T, N> a, U b) {                                                                \
        return a op vec<T, N>(b);                                                                                      \
    }                                                                                                                  \
    template <class T, int N, class U>                                                                                 \
        requires(is_scalar<U> && (condition))                                                                          \
    constexpr vec<T, N> operator op(U a, vec<T, N> b) {                                                                \
        return vec<T, N>(a) op b;                                                                                      \
    }                                                                                                                  \
    template <class T, int N, class U>                                                                                 \
        requires(condition)                                                                                            \
    constexpr vec<T, N>& operator op##=(vec<T, N>& a, U b) {                                                           \
        return a = a op b;                                                                                             \
    }
BINARY(+, true) BINARY(-, true) BINARY(*, true) BINARY(/, true)
BINARY(%, is_integer<T>) BINARY(&, is_integer<T>) BINARY(|, is_integer<T>) BINARY(^, is_integer<T>)
#undef BINARY

#define SHIFT(op)                                                                                                      \
    template <class T, int N, class U>                                                                                 \
        requires(is_integer<T> && is_integer<U>)                                                                       \
    constexpr vec<T, N> operator op(vec<T, N> a, vec<U, N> b) {                                                        \
        for (int i = 0; i < N; i++) a.e[i] = (T)(a.e[i] op b.e[i]);                                                    \
        return a;                                                                                                      \
    }                                                                                                                  \
    template <class T, int N, class U>                                                                                 \
        requires(is_integer<T> && is_integer<U>)                                                                       \
    constexpr vec<T, N> operator op(vec<T, N> a, U b) {                                                                \
        return a op vec<U, N>(b);                                                                                      \
    }
SHIFT(<<) SHIFT(>>)
#undef SHIFT

#define COMPARISON(op)                                                                                                 \
    template <class T, int N>                                                                                          \
    constexpr vec<bool, N> operator op(vec<T, N> a, vec<T, N> b) {                                                     \
        vec<bool, N> result;                                                                                           \
        for (int i = 0; i < N; i++) result.e[i] = a.e[i] op b.e[i];                                                    \
        return result;                                                                                                 \
    }                                                                                                                  \
    template <class T, int N, class U>                                                                                 \
        requires is_scalar<U>                                                                                          \
    constexpr vec<bool, N> operator op(vec<T, N> a, U b) {                                                             \
        return a op vec<T, N>(b);                                                                                      \
    }
COMPARISON(<) COMPARISON(<=) COMPARISON(>) COMPARISON(>=) COMPARISON(==) COMPARISON(!=)
#undef COMPARISON

#define UNARY(op, condition)                                                                                           \
    template <class T, int N>                                                                                          \
        requires(condition)                                                                                            \
    constexpr vec<T, N> operator op(vec<T, N> a) {                                                                     \
        for (T& x : a.e) x = (T)(op x);                                                                                \
        return a;                                                                                                      \
    }
UNARY(-, true) UNARY(+, true) UNARY(~, is_integer<T>) UNARY(!, (__is_same(T, bool)))
#undef UNARY

// A vector with the alignment of its elements.
template <class T, int N>
struct packed {
    T e[N];

    packed() = default;
    constexpr packed(vec<T, N> v) : e{} {
        for (int i = 0; i < N; i++) e[i] = v.e[i];
    }
    constexpr operator vec<T, N>() const {
        vec<T, N> v;
        for (int i = 0; i < N; i++) v.e[i] = e[i];
        return v;
    }
    constexpr T operator[](uint i) const { return e[i]; }
    constexpr T& operator[](uint i) { return e[i]; }
};

// Columns of R rows.
template <class T, int C, int R>
struct matrix {
    vec<T, R> columns[C];

    constexpr matrix() : columns{} {}
    template <class... Column>
        requires(sizeof...(Column) == C && (__is_same(Column, vec<T, R>) && ...))
    constexpr matrix(Column... column) : columns{column...} {}
    constexpr vec<T, R> operator[](uint i) const { return columns[i]; }
    constexpr vec<T, R>& operator[](uint i) { return columns[i]; }
};
template <class T, int C, int R>
constexpr matrix<T, C, R> operator+(matrix<T, C, R> a, matrix<T, C, R> b) {
    for (int i = 0; i < C; i++) a.columns[i] += b.columns[i];
    return a;
}
template <class T, int C, int R>
constexpr matrix<T, C, R> operator-(matrix<T, C, R> a, matrix<T, C, R> b) {
    for (int i = 0; i < C; i++) a.columns[i] -= b.columns[i];
    return a;
}
template <class T, int C, int R>
constexpr matrix<T, C, R> operator*(matrix<T, C, R> a, T b) {
    for (auto& column : a.columns) column *= b;
    return a;
}
template <class T, int C, int R>
constexpr matrix<T, R, C> transpose(matrix<T, C, R> a) {
    matrix<T, R, C> turned;
    for (int c = 0; c < C; c++)
        for (int r = 0; r < R; r++) turned.columns[r].e[c] = a.columns[c].e[r];
    return turned;
}
template <class T, int C, int R>
constexpr vec<T, R> operator*(matrix<T, C, R> a, vec<T, C> b) {
    vec<T, R> sum;
    for (int i = 0; i < C; i++) sum += a.columns[i] * b.e[i];
    return sum;
}
template <class T, int C, int R>
constexpr vec<T, C> operator*(vec<T, R> a, matrix<T, C, R> b) {
    vec<T, C> sums;
    for (int c = 0; c < C; c++)
        for (int r = 0; r < R; r++) sums.e[c] += a.e[r] * b.columns[c].e[r];
    return sums;
}
}  // namespace metal

// Types are known without the namespace too, as in Metal.
#define VECTORS(name, T)                                                                                               \
    using name##2 = metal::vec<T, 2>;                                                                                  \
    using name##3 = metal::vec<T, 3>;                                                                                  \
    using name##4 = metal::vec<T, 4>;                                                                                  \
    using packed_##name##2 = metal::packed<T, 2>;                                                                      \
    using packed_##name##3 = metal::packed<T, 3>;                                                                      \
    using packed_##name##4 = metal::packed<T, 4>;                                                                      \
    namespace metal {                                                                                                  \
    using ::name##2;                                                                                                   \
    using ::name##3;                                                                                                   \
    using ::name##4;                                                                                                   \
    using ::packed_##name##2;                                                                                          \
    using ::packed_##name##3;                                                                                          \
    using ::packed_##name##4;                                                                                          \
    }
VECTORS(float, float) VECTORS(half, half) VECTORS(int, int) VECTORS(uint, uint) VECTORS(short, short)
VECTORS(ushort, ushort) VECTORS(char, signed char) VECTORS(uchar, uchar) VECTORS(bool, bool) VECTORS(long, long)
VECTORS(ulong, ulong)
#undef VECTORS
#define MATRICES(name, T)                                                                                              \
    using name##2x2 = metal::matrix<T, 2, 2>;                                                                          \
    using name##2x3 = metal::matrix<T, 2, 3>;                                                                          \
    using name##2x4 = metal::matrix<T, 2, 4>;                                                                          \
    using name##3x2 = metal::matrix<T, 3, 2>;                                                                          \
    using name##3x3 = metal::matrix<T, 3, 3>;                                                                          \
    using name##3x4 = metal::matrix<T, 3, 4>;                                                                          \
    using name##4x2 = metal::matrix<T, 4, 2>;                                                                          \
    using name##4x3 = metal::matrix<T, 4, 3>;                                                                          \
    using name##4x4 = metal::matrix<T, 4, 4>;                                                                          \
    namespace metal {                                                                                                  \
    using ::name##2x2;                                                                                                 \
    using ::name##2x3;                                                                                                 \
    using ::name##2x4;                                                                                                 \
    using ::name##3x2;                                                                                                 \
    using ::name##3x3;                                                                                                 \
    using ::name##3x4;                                                                                                 \
    using ::name##4x2;                                                                                                 \
    using ::name##4x3;                                                                                                 \
    using ::name##4x4;                                                                                                 \
    }
MATRICES(float, float) MATRICES(half, half)
#undef MATRICES

template <class To, class From>
constexpr To as_type(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "as_type between types of different sizes");
    To to;
    __builtin_memcpy((void*)&to, (const void*)&from, sizeof(To));
    return to;
}
namespace metal {
using ::as_type;
}
