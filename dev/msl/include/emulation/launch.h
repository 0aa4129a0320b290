// How a kernel gets its arguments: by what the attributes of its parameters ask for. The caller is generated
// (src/entry.rs) and puts one of these in the place of each parameter.
#pragma once

namespace emulation {
// A dispatch, as the host describes it.
struct Launch {
    uint groups[3];
    uint reversed;
    void* const* buffers;
};

// A position or a size, in as many dimensions as the parameter wants.
struct Extent : uint3 {
    using uint3::vec;
    Extent(uint3 all) : uint3(all) {}
    operator uint2() const { return get_xy(); }
    operator uint() const { return get_x(); }
};

// Where a thread is.
struct Place {
    Extent group, groups, size;
    uint index;

    Extent position() const { return uint3(index % size.x, index / size.x % size.y, index / (size.x * size.y)); }
    Extent in_grid() const { return uint3(group) * uint3(size) + uint3(position()); }
    uint simd_groups() const { return (size.x * size.y * size.z + WIDTH - 1) / WIDTH; }
};

// What is bound to a slot, as whatever the parameter wants: a reference or a pointer.
struct Bound {
    void* start;
    template <class T>
    operator T&() const {
        return *(T*)start;
    }
    template <class T>
    operator T*() const {
        return (T*)start;
    }
};
// The same, but the type has exactly so many bytes: parameter words and the sizes of buffers.
template <unsigned long BYTES>
struct Exactly {
    void* start;
    template <class T>
    operator T&() const {
        static_assert(sizeof(T) == BYTES, "the host gives this argument another size");
        return *(T*)start;
    }
};
// Threadgroup memory, which the host makes so large.
template <unsigned long BYTES>
struct Within {
    void* start;
    template <class T>
    operator T&() const {
        static_assert(sizeof(T) <= BYTES, "the host makes this threadgroup memory too small");
        return *(T*)start;
    }
    template <class T>
    operator T*() const {
        return (T*)start;
    }
};

inline thread_local const Launch* launch = nullptr;
inline thread_local Place place;

// The place of the thread whose turn it is.
inline Place here() {
    Place own = place;
    own.index = group->current;
    return own;
}

// Runs a kernel over its grid. `body` runs one thread, `spoil` makes threadgroup memory what it is on a GPU: anything.
// Says what went wrong, or null.
inline const char* run(const Launch* asked, uint3 size, void (*body)(), void (*spoil)()) {
    if (!begin(size.x * size.y * size.z, body)) return "no memory for the threads of a group";
    launch = asked;
    uint3 groups(asked->groups[0], asked->groups[1], asked->groups[2]);
    ulong count = (ulong)groups.x * groups.y * groups.z;
    const char* fault = nullptr;
    for (ulong k = 0; k < count && fault == nullptr; k++) {
        ulong i = asked->reversed ? count - 1 - k : k;
        place.group = uint3(i % groups.x, i / groups.x % groups.y, i / groups.x / groups.y);
        place.groups = groups;
        place.size = size;
        spoil();
        if (!run_group(asked->reversed)) fault = group->fault;
    }
    end();
    return fault;
}
}  // namespace emulation
