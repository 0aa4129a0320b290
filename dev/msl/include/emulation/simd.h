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

// Every lane keeps the whole matrix; only the first writes it out.
template <class T, int C, int R>
struct simdgroup_matrix {
    static_assert(C == 8 && R == 8, "Metal has 8x8 matrices only");
    T e[64];

    simdgroup_matrix() : e{} {}
    explicit simdgroup_matrix(T diagonal) : e{} {
        for (int i = 0; i < 8; i++) e[9 * i] = diagonal;
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
inline ulong matrix_place(int row, int column, ulong pitch, ulong2 origin, bool transposed) {
    return transposed ? (origin.x + (ulong)row) + (origin.y + (ulong)column) * pitch
                      : (origin.x + (ulong)column) + (origin.y + (ulong)row) * pitch;
}
template <class T>
void simdgroup_load(simdgroup_matrix<T, 8, 8>& to, const T* from, ulong pitch = 8, ulong2 origin = 0,
                    bool transposed = false) {
    simdgroup_barrier(mem_flags::mem_none);
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++) to.e[r * 8 + c] = from[matrix_place(r, c, pitch, origin, transposed)];
    simdgroup_barrier(mem_flags::mem_none);
}
template <class T>
void simdgroup_store(const simdgroup_matrix<T, 8, 8>& from, T* to, ulong pitch = 8, ulong2 origin = 0,
                     bool transposed = false) {
    simdgroup_barrier(mem_flags::mem_none);
    if (emulation::lane() == 0)
        for (int r = 0; r < 8; r++)
            for (int c = 0; c < 8; c++) to[matrix_place(r, c, pitch, origin, transposed)] = from.e[r * 8 + c];
    simdgroup_barrier(mem_flags::mem_none);
}
template <class T, class A, class B>
void simdgroup_multiply_accumulate(simdgroup_matrix<T, 8, 8>& to, const simdgroup_matrix<A, 8, 8>& a,
                                   const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<T, 8, 8>& c) {
    simdgroup_matrix<T, 8, 8> result = c;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 8; k++)
                result.e[i * 8 + j] = (T)(result.e[i * 8 + j] + (T)a.e[i * 8 + k] * (T)b.e[k * 8 + j]);
    to = result;
}
template <class T, class A, class B>
void simdgroup_multiply(simdgroup_matrix<T, 8, 8>& to, const simdgroup_matrix<A, 8, 8>& a,
                        const simdgroup_matrix<B, 8, 8>& b) {
    simdgroup_multiply_accumulate(to, a, b, simdgroup_matrix<T, 8, 8>());
}
}  // namespace metal
