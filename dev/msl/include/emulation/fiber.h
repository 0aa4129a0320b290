// The threads of a threadgroup as fibers: they take turns on one thread of the host, each until it has to wait for
// others, at a barrier or at an operation of its SIMD group.
//
// This is stricter than a GPU: threads that wait for different things, or for threads that have ended, are reported
// instead of hanging. And it is unkind: every other launch takes threads and groups in reverse, so that a kernel which
// lacks a barrier gives two different results.
#pragma once
#include <setjmp.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>

namespace emulation {
// Lanes of a SIMD group. All Apple GPUs have 32.
constexpr unsigned WIDTH = 32;
// The most threads of a threadgroup.
constexpr unsigned MOST = 1024;
constexpr unsigned long STACK = 256 << 10;
constexpr unsigned long GUARD = 4 << 10;
// The largest value that lanes exchange.
constexpr unsigned long LARGEST = 64;

enum class State { ready, at_barrier, at_exchange, ended };

struct Fiber {
    jmp_buf here;
    State state;
    // What it waits at.
    const char* operation;
    // Which of two sets of cells its next exchange uses: lanes may reach an exchange while others still read the last.
    unsigned parity;
};

struct Group {
    Fiber fibers[MOST];
    alignas(16) unsigned char cells[2][MOST][LARGEST];
    unsigned long masks[MOST / WIDTH];
    jmp_buf scheduler;
    ucontext_t home;
    unsigned threads;
    unsigned current;
    void (*body)();
    const char* fault;
};

// Of the host's thread that runs a launch.
inline thread_local Group* group = nullptr;

inline unsigned lane() { return group->current % WIDTH; }

// Back to the scheduler, until it is this fiber's turn again.
__attribute__((noinline)) inline void pause(State state, const char* operation) {
    Fiber& own = group->fibers[group->current];
    own.state = state;
    own.operation = operation;
    if (_setjmp(own.here) == 0) _longjmp(group->scheduler, 1);
}

inline void group_barrier() { pause(State::at_barrier, "threadgroup_barrier"); }

// Gives a value to the other lanes and takes theirs. Returns which lanes took part.
inline unsigned long exchange(const char* operation, const void* given, void* taken, unsigned long size) {
    unsigned own = group->current, first = own - own % WIDTH;
    unsigned parity = group->fibers[own].parity ^= 1;
    __builtin_memcpy(group->cells[parity][own], given, size);
    pause(State::at_exchange, operation);
    for (unsigned i = 0; i < WIDTH; i++)
        __builtin_memcpy((char*)taken + i * size, group->cells[parity][first + i], size);
    return group->masks[own / WIDTH];
}

// What a fiber does: the body once for each group, for ever.
inline void fiber() {
    for (;;) {
        group->body();
        pause(State::ended, "end");
    }
}

// Runs one fiber until it waits.
__attribute__((noinline)) inline void resume(unsigned i) {
    group->current = i;
    if (_setjmp(group->scheduler) == 0) _longjmp(group->fibers[i].here, 1);
}

// Lets the lanes of a SIMD group go on that all stand at the same exchange. False if some stand elsewhere.
inline bool release_lanes(unsigned first, unsigned end) {
    const char* operation = nullptr;
    unsigned long mask = 0;
    for (unsigned i = first; i < end; i++) {
        Fiber& fiber = group->fibers[i];
        if (fiber.state == State::ended) continue;
        if (fiber.state != State::at_exchange) return false;
        if (operation != nullptr && operation != fiber.operation) {
            group->fault = "lanes of a SIMD group stand at different operations";
            return false;
        }
        operation = fiber.operation;
        mask |= 1ul << (i - first);
    }
    if (mask == 0) return false;
    group->masks[first / WIDTH] = mask;
    for (unsigned i = first; i < end; i++)
        if (mask >> (i - first) & 1) group->fibers[i].state = State::ready;
    return true;
}

// Lets everything go on that can. False if nothing can.
inline bool release() {
    bool moved = false;
    for (unsigned first = 0; first < group->threads; first += WIDTH) {
        unsigned end = first + WIDTH < group->threads ? first + WIDTH : group->threads;
        moved |= release_lanes(first, end);
    }
    unsigned waiting = 0;
    for (unsigned i = 0; i < group->threads; i++) waiting += group->fibers[i].state == State::at_barrier;
    if (waiting == group->threads) {
        for (unsigned i = 0; i < group->threads; i++) group->fibers[i].state = State::ready;
        return true;
    }
    return moved;
}

// Runs all threads of one group to their end. False when they can't get there.
inline bool run_group(bool reversed) {
    for (unsigned i = 0; i < group->threads; i++) group->fibers[i].state = State::ready;
    for (;;) {
        unsigned ended = 0;
        for (unsigned k = 0; k < group->threads; k++) {
            unsigned i = reversed ? group->threads - 1 - k : k;
            if (group->fibers[i].state == State::ready) resume(i);
            ended += group->fibers[i].state == State::ended;
        }
        if (ended == group->threads) return true;
        bool moved = release();
        if (group->fault != nullptr) return false;
        if (!moved) {
            group->fault = "threads wait at a barrier or a SIMD operation that others never reach";
            return false;
        }
    }
}

// Where a fiber begins: it stops at once, and waits there for its first turn. From then on jumps carry it.
inline void enter() {
    if (_setjmp(group->fibers[group->current].here) == 0) setcontext(&group->home);
    fiber();
}

constexpr unsigned long HEAD = (sizeof(Group) + GUARD - 1) / GUARD * GUARD;

// Makes a group with the fibers of its threads. False without memory for them.
inline bool begin(unsigned threads, void (*body)()) {
    unsigned long bytes = HEAD + threads * STACK;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (threads == 0 || threads > MOST || memory == MAP_FAILED) return false;
    group = (Group*)memory;
    group->threads = threads;
    group->body = body;
    for (unsigned i = 0; i < threads; i++) {
        char* stack = (char*)memory + HEAD + i * STACK;
        // An overflow ends in the guard, not in the neighbour.
        mprotect(stack, GUARD, PROT_NONE);
        group->current = i;
        ucontext_t start;
        getcontext(&start);
        start.uc_stack.ss_sp = stack + GUARD;
        start.uc_stack.ss_size = STACK - GUARD;
        start.uc_link = nullptr;
        makecontext(&start, enter, 0);
        swapcontext(&group->home, &start);
    }
    return true;
}

inline void end() {
    munmap(group, HEAD + group->threads * STACK);
    group = nullptr;
}
}  // namespace emulation
