// Barriers, and what the lanes of a SIMD group do together. Every operation is one exchange of values between the
// lanes that have not ended (fiber.h), after which each lane computes its own result.
#pragma once

namespace metal {
enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((int)a | (int)b); }

inline void threadgroup_barrier(mem_flags) { emulation::group_barrier(); }

// The values of all lanes; those of lanes that have ended are not in the mask.
template <class T>
struct lanes {
    T values[emulation::WIDTH];
    unsigned long mask;
    uint own;

    explicit lanes(const char* operation, T value) : own(emulation::lane()) {
        mask = emulation::exchange(operation, &value, values, sizeof(T));
    }
    bool has(uint i) const { return i < emulation::WIDTH && (mask >> i & 1); }
    // What Metal leaves undefined is the lane's own value here.
    T from(uint i) const { return values[has(i) ? i : own]; }
};

inline void simdgroup_barrier(mem_flags) { lanes<int>("simdgroup_barrier", 0); }

#define REDUCTION(name, combined)                                                                                      \
    template <class T>                                                                                                 \
    T name(T value) {                                                                                                  \
        lanes<T> all(#name, value);                                                                                    \
        bool first = true;                                                                                             \
        T a{};                                                                                                         \
        for (uint i = 0; i < emulation::WIDTH; i++) {                                                                  \
            if (!all.has(i)) continue;                                                                                 \
            T b = all.values[i];                                                                                       \
            a = first ? b : (T)(combined);                                                                             \
            first = false;                                                                                             \
        }                                                                                                              \
        return a;                                                                                                      \
    }
REDUCTION(simd_sum, a + b) REDUCTION(simd_product, a * b) REDUCTION(simd_min, min(a, b))
REDUCTION(simd_max, max(a, b)) REDUCTION(simd_and, a & b) REDUCTION(simd_or, a | b) REDUCTION(simd_xor, a ^ b)
#undef REDUCTION

#define SHUFFLE(name, source)                                                                                          \
    template <class T>                                                                                                 \
    T name(T value, ushort by) {                                                                                       \
        lanes<T> all(#name, value);                                                                                    \
        uint own = all.own;                                                                                            \
        return all.from(source);                                                                                       \
    }
SHUFFLE(simd_broadcast, by + 0 * own) SHUFFLE(simd_shuffle, by + 0 * own) SHUFFLE(simd_shuffle_xor, own ^ by)
SHUFFLE(simd_shuffle_up, own - by) SHUFFLE(simd_shuffle_down, own + by)
SHUFFLE(simd_shuffle_rotate_up, (own - by) % emulation::WIDTH)
SHUFFLE(simd_shuffle_rotate_down, (own + by) % emulation::WIDTH)
SHUFFLE(quad_broadcast, (own & ~3u) + by) SHUFFLE(quad_shuffle, (own & ~3u) + by) SHUFFLE(quad_shuffle_xor, own ^ by)
#undef SHUFFLE
template <class T>
T simd_broadcast_first(T value) {
    lanes<T> all("simd_broadcast_first", value);
    return all.from((uint)__builtin_ctzl(all.mask));
}

#define SCAN(name, start, last, combined)                                                                              \
    template <class T>                                                                                                 \
    T name(T value) {                                                                                                  \
        lanes<T> all(#name, value);                                                                                    \
        T a = start;                                                                                                   \
        for (uint i = 0; i last all.own; i++) {                                                                        \
            if (!all.has(i)) continue;                                                                                 \
            T b = all.values[i];                                                                                       \
            a = (T)(combined);                                                                                         \
        }                                                                                                              \
        return a;                                                                                                      \
    }
SCAN(simd_prefix_inclusive_sum, 0, <=, a + b) SCAN(simd_prefix_exclusive_sum, 0, <, a + b)
SCAN(simd_prefix_inclusive_product, 1, <=, a * b) SCAN(simd_prefix_exclusive_product, 1, <, a * b)
#undef SCAN

struct simd_vote {
    unsigned long bits;
    explicit constexpr operator unsigned long() const { return bits; }
};
inline simd_vote simd_ballot(bool value) {
    lanes<bool> all("simd_ballot", value);
    unsigned long bits = 0;
    for (uint i = 0; i < emulation::WIDTH; i++) bits |= (unsigned long)(all.has(i) && all.values[i]) << i;
    return {bits};
}
inline bool simd_any(bool value) { return simd_or<int>(value) != 0; }
inline bool simd_all(bool value) { return simd_and<int>(value) != 0; }
inline bool simd_is_first() { return simd_broadcast_first(emulation::lane()) == emulation::lane(); }

// A lane has a part of a row of a matrix: two elements side by side of 8x8, eight of 16x16. Metal has 8x8 alone; naga writes the
// same functions for 16x16, so kernels for such matrices run here. Loads and stores touch a lane's elements alone, and order nothing:
// who lacks a barrier reads what is not there yet.
template <class T, int C, int R>
struct simdgroup_matrix {
    static_assert(C == R && (C == 8 || C == 16), "matrices are 8x8 or 16x16");
    static constexpr int COUNT = C * R / (int)emulation::WIDTH;
    // Lanes that share a row.
    static constexpr int ACROSS = C / COUNT;
    T e[COUNT];

    // Metal leaves it open what is in there: not a number, then.
    simdgroup_matrix() { __builtin_memset(e, 0xff, sizeof(e)); }
    explicit simdgroup_matrix(T diagonal) {
        for (int i = 0; i < COUNT; i++) e[i] = row() == column(i) ? diagonal : T(0);
    }
    static int row() { return (int)emulation::lane() / ACROSS; }
    static int column(int i) { return (int)emulation::lane() % ACROSS * COUNT + i; }
    static ulong place(int i, ulong pitch, ulong2 origin, bool transposed) {
        ulong r = (ulong)row(), c = (ulong)column(i);
        return transposed ? (origin.x + r) + (origin.y + c) * pitch : (origin.x + c) + (origin.y + r) * pitch;
    }
};
using simdgroup_float8x8 = simdgroup_matrix<float, 8, 8>;
using simdgroup_half8x8 = simdgroup_matrix<half, 8, 8>;
using simdgroup_float16x16 = simdgroup_matrix<float, 16, 16>;
using simdgroup_half16x16 = simdgroup_matrix<half, 16, 16>;

template <class T, int C, int R>
simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T value) {
    simdgroup_matrix<T, C, R> m;
    for (T& x : m.e) x = value;
    return m;
}
template <class T, int S>
void simdgroup_load(simdgroup_matrix<T, S, S>& to, const T* from, ulong pitch = S, ulong2 origin = 0,
                    bool transposed = false) {
    for (int i = 0; i < to.COUNT; i++) to.e[i] = from[to.place(i, pitch, origin, transposed)];
    lanes<int>("simdgroup_load", 0);
}
template <class T, int S>
void simdgroup_store(const simdgroup_matrix<T, S, S>& from, T* to, ulong pitch = S, ulong2 origin = 0,
                     bool transposed = false) {
    lanes<int>("simdgroup_store", 0);
    for (int i = 0; i < from.COUNT; i++) to[from.place(i, pitch, origin, transposed)] = from.e[i];
}
template <class A, class B>
struct matrix_factors {
    A a;
    B b;
};
template <class T, class A, class B, int S>
void simdgroup_multiply_accumulate(simdgroup_matrix<T, S, S>& to, const simdgroup_matrix<A, S, S>& a,
                                   const simdgroup_matrix<B, S, S>& b, const simdgroup_matrix<T, S, S>& c) {
    constexpr int COUNT = S * S / (int)emulation::WIDTH, ACROSS = S / COUNT;
    using factors = matrix_factors<simdgroup_matrix<A, S, S>, simdgroup_matrix<B, S, S>>;
    lanes<factors> all("simdgroup_multiply_accumulate", {a, b});
    for (int i = 0; i < COUNT; i++) {
        T sum = c.e[i];
        for (int k = 0; k < S; k++) {
            A left = all.values[to.row() * ACROSS + k / COUNT].a.e[k % COUNT];
            B right = all.values[k * ACROSS + to.column(i) / COUNT].b.e[to.column(i) % COUNT];
            sum = (T)(sum + (T)left * (T)right);
        }
        to.e[i] = sum;
    }
}
template <class T, class A, class B, int S>
void simdgroup_multiply(simdgroup_matrix<T, S, S>& to, const simdgroup_matrix<A, S, S>& a,
                        const simdgroup_matrix<B, S, S>& b) {
    simdgroup_multiply_accumulate(to, a, b, make_filled_simdgroup_matrix<T, S, S>(T(0)));
}
}  // namespace metal
