// The simulator's side of the kernel dialect: a kernel is compiled by the host's
// C++ compiler and run by sim.cc, one block or cluster at a time, each thread as a fiber.
//
// prelude.h includes this file when TOKITAI_SIM is defined, before anything else,
// and defines for the other platforms the names that stand here in capitals:
//   KERNEL(name, bound)               head of a kernel; one struct by value follows
//   SHARED(type, name, count)         an array shared by the block
//   SHARED_DYN(type, name)            the shared memory whose size the launch gives
//   BARRIER(), WARP_BARRIER()         __syncthreads, __syncwarp
//   SHFL_DOWN/UP/XOR/IDX(v, d, width) shuffles within groups of width lanes
//   ATOMIC_ADD, ATOMIC_MIN, ATOMIC_MAX(pointer, value)   on integers
// threadIdx, blockIdx, blockDim, gridDim and warpSize are spelled as in CUDA.
#ifndef TOKITAI_SIM_H
#define TOKITAI_SIM_H

#define SIM_INTERNAL __attribute__((visibility("hidden")))

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
};

// The thread that runs now.
extern SIM_INTERNAL dim3 threadIdx, blockIdx, blockDim, gridDim;
extern SIM_INTERNAL int warpSize;

namespace sim {

// A kernel's parameters as bytes. They turn into whatever struct the kernel takes,
// provided that it has their size.
struct Bytes {
    const void* data;
    unsigned long size;
};

SIM_INTERNAL void check_size(unsigned long got, unsigned long want);

template <class Tag>
struct Parameters {
    Bytes bytes;
    template <class T>
    operator T() const {
        check_size(bytes.size, sizeof(T));
        T value;
        __builtin_memcpy(&value, bytes.data, sizeof(T));
        return value;
    }
};

// Entries form a list, in which a launch finds its kernel by name.
struct SIM_INTERNAL Entry {
    const char* name;
    unsigned bound;   // threads of the largest block
    unsigned cluster; // blocks that run together
    void (*run)(Bytes);
    Entry* next;
    Entry(const char* name, unsigned bound, unsigned cluster, void (*run)(Bytes));
};

SIM_INTERNAL void barrier(const char* file, int line);
SIM_INTERNAL void warp_barrier(unsigned long long mask, const char* file, int line);

enum Shuffle { DOWN, UP, XOR, IDX };
SIM_INTERNAL unsigned long long shuffle(Shuffle kind, unsigned long long mask, unsigned long long value, int distance, int width, const char* file, int line);
SIM_INTERNAL unsigned long long ballot(unsigned long long mask, bool predicate, const char* file, int line);

// shared_array is the memory of a SHARED array. It lies on the heap, where
// AddressSanitizer sees its bounds. The first time a block meets it, it is filled with
// ones: NaN in every format, so that nothing is left over from another block.
const int MAX_CLUSTER = 4;
struct SIM_INTERNAL Array {
    void* memory[MAX_CLUSTER]; // one for each block that runs at the same time
    unsigned long block[MAX_CLUSTER]; // that has met it
    unsigned long bytes;
    unsigned address; // in shared memory
    Array* next;
};
SIM_INTERNAL void* shared_array(Array* array, unsigned long bytes);
SIM_INTERNAL void* dynamic_shared();

SIM_INTERNAL void atomic_access(const void* at, unsigned bytes, const char* file, int line);

const unsigned long long ALL_LANES = ~0ull;

// Inlined, so that the call of shuffle tells where it stands.
template <class T>
__forceinline__ T shuffled(Shuffle kind, unsigned long long mask, T value, int distance, int width, const char* file, int line) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most eight bytes");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    bits = shuffle(kind, mask, bits, distance, width, file, line);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}

// Not instrumented: atomic_access tells the race detector of it.
template <class T>
__attribute__((noinline, no_sanitize("thread"))) T atomic_add(T* at, T value, const char* file, int line) {
    atomic_access(at, sizeof(T), file, line);
    T old;
    __builtin_memcpy(&old, at, sizeof(T));
    T sum = old + value;
    __builtin_memcpy(at, &sum, sizeof(T));
    return old;
}

template <class T>
__attribute__((noinline, no_sanitize("thread"))) T atomic_min(T* at, T value, const char* file, int line) {
    atomic_access(at, sizeof(T), file, line);
    T old;
    __builtin_memcpy(&old, at, sizeof(T));
    if (value < old) __builtin_memcpy(at, &value, sizeof(T));
    return old;
}

template <class T>
__attribute__((noinline, no_sanitize("thread"))) T atomic_max(T* at, T value, const char* file, int line) {
    atomic_access(at, sizeof(T), file, line);
    T old;
    __builtin_memcpy(&old, at, sizeof(T));
    if (value > old) __builtin_memcpy(at, &value, sizeof(T));
    return old;
}

} // namespace sim

// The call in NAME##_run is found by the tag's namespace, which is the kernel's, when
// the whole file has been read: the kernel follows after the macro.
#define KERNEL(NAME, BOUND) SIM_KERNEL(NAME, BOUND, 1)
#define SIM_KERNEL(NAME, BOUND, CLUSTER)                                                                               \
    struct NAME##_tag {};                                                                                 \
    template <class Tag>                                                                                  \
    static void NAME##_run(sim::Bytes bytes) {                                                            \
        NAME(sim::Parameters<Tag>{bytes});                                                                \
    }                                                                                                     \
    static sim::Entry NAME##_entry(#NAME, BOUND, CLUSTER, NAME##_run<NAME##_tag>);                        \
    extern "C" __global__ void NAME

#define SHARED(TYPE, NAME, COUNT)   \
    static sim::Array NAME##_array; \
    TYPE* const NAME = static_cast<TYPE*>(sim::shared_array(&NAME##_array, sizeof(TYPE) * (COUNT)))
#define SHARED_DYN(TYPE, NAME) TYPE* const NAME = static_cast<TYPE*>(sim::dynamic_shared())

#define BARRIER() sim::barrier(__FILE__, __LINE__)
#define WARP_BARRIER() sim::warp_barrier(sim::ALL_LANES, __FILE__, __LINE__)
#define SHFL_DOWN(VALUE, DISTANCE, WIDTH) sim::shuffled(sim::DOWN, sim::ALL_LANES, VALUE, DISTANCE, WIDTH, __FILE__, __LINE__)
#define SHFL_UP(VALUE, DISTANCE, WIDTH) sim::shuffled(sim::UP, sim::ALL_LANES, VALUE, DISTANCE, WIDTH, __FILE__, __LINE__)
#define SHFL_XOR(VALUE, DISTANCE, WIDTH) sim::shuffled(sim::XOR, sim::ALL_LANES, VALUE, DISTANCE, WIDTH, __FILE__, __LINE__)
#define SHFL_IDX(VALUE, LANE, WIDTH) sim::shuffled(sim::IDX, sim::ALL_LANES, VALUE, LANE, WIDTH, __FILE__, __LINE__)
#define ATOMIC_ADD(POINTER, VALUE) sim::atomic_add(POINTER, VALUE, __FILE__, __LINE__)
#define ATOMIC_MIN(POINTER, VALUE) sim::atomic_min(POINTER, VALUE, __FILE__, __LINE__)
#define ATOMIC_MAX(POINTER, VALUE) sim::atomic_max(POINTER, VALUE, __FILE__, __LINE__)

// CUDA's own spellings. A mask that does not name the calling lane is an error.
#define __syncthreads() sim::barrier(__FILE__, __LINE__)
#define __syncwarp() sim::warp_barrier(sim::ALL_LANES, __FILE__, __LINE__)
#define __shfl_down_sync(MASK, VALUE, DISTANCE) sim::shuffled(sim::DOWN, MASK, VALUE, DISTANCE, warpSize, __FILE__, __LINE__)
#define __shfl_up_sync(MASK, VALUE, DISTANCE) sim::shuffled(sim::UP, MASK, VALUE, DISTANCE, warpSize, __FILE__, __LINE__)
#define __shfl_xor_sync(MASK, VALUE, DISTANCE) sim::shuffled(sim::XOR, MASK, VALUE, DISTANCE, warpSize, __FILE__, __LINE__)
#define __shfl_sync(MASK, VALUE, LANE) sim::shuffled(sim::IDX, MASK, VALUE, LANE, warpSize, __FILE__, __LINE__)
#define __ballot_sync(MASK, PREDICATE) sim::ballot(MASK, PREDICATE, __FILE__, __LINE__)

// What follows stays inside its library. Otherwise libraries that are loaded together
// would share the arrays of function templates, that is, shared memory.
#pragma GCC visibility push(hidden)

#endif
