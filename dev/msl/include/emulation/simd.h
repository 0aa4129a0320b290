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

// Each lane has two elements of a matrix, side by side in a row. Loads and stores touch these alone, and order nothing: who
// lacks a barrier reads what is not there yet.
inline int matrix_row() { return (int)emulation::lane() / 4; }
inline int matrix_column(int i) { return (int)emulation::lane() % 4 * 2 + i; }

template <class T, int C, int R>
struct simdgroup_matrix {
    static_assert(C == 8 && R == 8, "Metal has 8x8 matrices only");
    T e[2];

    // Metal leaves it open what is in there: not a number, then.
    simdgroup_matrix() { __builtin_memset(e, 0xff, sizeof(e)); }
    explicit simdgroup_matrix(T diagonal) {
        for (int i = 0; i < 2; i++) e[i] = matrix_row() == matrix_column(i) ? diagonal : T(0);
    }
};
using simdgroup_float8x8 = simdgroup_matrix<float, 8, 8>;
using simdgroup_half8x8 = simdgroup_matrix<half, 8, 8>;

template <class T, int C, int R>
simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T value) {
    simdgroup_matrix<T, C, R> m;
    for (T& x : m.e) x = value;
    return m;
}
inline ulong matrix_place(int i, ulong pitch, ulong2 origin, bool transposed) {
    ulong row = (ulong)matrix_row(), column = (ulong)matrix_column(i);
    return transposed ? (origin.x + row) + (origin.y + column) * pitch : (origin.x + column) + (origin.y + row) * pitch;
}
template <class T>
void simdgroup_load(simdgroup_matrix<T, 8, 8>& to, const T* from, ulong pitch = 8, ulong2 origin = 0,
                    bool transposed = false) {
    for (int i = 0; i < 2; i++) to.e[i] = from[matrix_place(i, pitch, origin, transposed)];
    lanes<int>("simdgroup_load", 0);
}
template <class T>
void simdgroup_store(const simdgroup_matrix<T, 8, 8>& from, T* to, ulong pitch = 8, ulong2 origin = 0,
                     bool transposed = false) {
    lanes<int>("simdgroup_store", 0);
    for (int i = 0; i < 2; i++) to[matrix_place(i, pitch, origin, transposed)] = from.e[i];
}
template <class A, class B>
struct matrix_factors {
    A a[2];
    B b[2];
};
template <class T, class A, class B>
void simdgroup_multiply_accumulate(simdgroup_matrix<T, 8, 8>& to, const simdgroup_matrix<A, 8, 8>& a,
                                   const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<T, 8, 8>& c) {
    lanes<matrix_factors<A, B>> all("simdgroup_multiply_accumulate", {{a.e[0], a.e[1]}, {b.e[0], b.e[1]}});
    for (int i = 0; i < 2; i++) {
        T sum = c.e[i];
        for (int k = 0; k < 8; k++) {
            A left = all.values[matrix_row() * 4 + k / 2].a[k % 2];
            B right = all.values[k * 4 + matrix_column(i) / 2].b[i];
            sum = (T)(sum + (T)left * (T)right);
        }
        to.e[i] = sum;
    }
}
template <class T, class A, class B>
void simdgroup_multiply(simdgroup_matrix<T, 8, 8>& to, const simdgroup_matrix<A, 8, 8>& a,
                        const simdgroup_matrix<B, 8, 8>& b) {
    simdgroup_multiply_accumulate(to, a, b, make_filled_simdgroup_matrix<T, 8, 8>(T(0)));
}
}  // namespace metal
