// Atomics. Threads of a group take turns, but groups may run at once, so these are the host's own.
#pragma once

namespace metal {
enum memory_order { memory_order_relaxed };

template <class T>
struct atomic {
    T value;
};
using atomic_uint = atomic<uint>;
using atomic_int = atomic<int>;
using atomic_float = atomic<float>;

template <class T>
T atomic_load_explicit(const volatile atomic<T>* a, memory_order) {
    T value;
    __atomic_load((const T*)&a->value, &value, __ATOMIC_RELAXED);
    return value;
}
template <class T, class U>
void atomic_store_explicit(volatile atomic<T>* a, U value, memory_order) {
    T stored = value;
    __atomic_store((T*)&a->value, &stored, __ATOMIC_RELAXED);
}
#define FETCH(name, combined)                                                                                          \
    template <class T, class U>                                                                                        \
    T name(volatile atomic<T>* a, U given, memory_order) {                                                             \
        T* cell = (T*)&a->value;                                                                                       \
        T value = given, old, next;                                                                                    \
        __atomic_load(cell, &old, __ATOMIC_RELAXED);                                                                   \
        do next = combined;                                                                                            \
        while (!__atomic_compare_exchange(cell, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));               \
        return old;                                                                                                    \
    }
FETCH(atomic_fetch_add_explicit, old + value) FETCH(atomic_fetch_sub_explicit, old - value)
FETCH(atomic_fetch_min_explicit, value < old ? value : old) FETCH(atomic_fetch_max_explicit, old < value ? value : old)
FETCH(atomic_fetch_and_explicit, old & value) FETCH(atomic_fetch_or_explicit, old | value)
FETCH(atomic_fetch_xor_explicit, old ^ value) FETCH(atomic_exchange_explicit, value)
#undef FETCH
template <class T, class U>
bool atomic_compare_exchange_weak_explicit(volatile atomic<T>* a, T* expected, U desired, memory_order, memory_order) {
    T next = desired;
    return __atomic_compare_exchange((T*)&a->value, expected, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
}  // namespace metal
