// What the parts of the simulator's runtime share: fibers, the blocks that run together, and
// what a fiber waits for. sim.cc implements it, tensorcore.cc adds to it.
#ifndef TOKITAI_SCHEDULER_H
#define TOKITAI_SCHEDULER_H

#include <stddef.h>
#include <stdint.h>

#include "sim.h" // after the system's headers: it hides what follows

namespace sim {

const int MAX_THREADS = 1024;           // of a block
const int MAX_FIBERS = 2 * MAX_THREADS; // of the blocks that run together

// A fiber waits with all threads of its block (AT_BARRIER), with lanes of its warp (from
// AT_WARP_BARRIER to AT_COLLECTIVE), or ELSEWHERE, until `passes` says so or something
// else makes it READY.
enum State : unsigned char { READY, AT_BARRIER, AT_WARP_BARRIER, AT_SHUFFLE, AT_BALLOT, AT_COLLECTIVE, ELSEWHERE, DONE };

// Place is where a thread waits.
struct Place {
    const char* file;
    int line;
    const void* pc;
    bool operator==(const Place& o) const { return line == o.line && (file == o.file || __builtin_strcmp(file, o.file) == 0); }
    bool operator!=(const Place& o) const { return !(*this == o); }
};

struct Fiber;

// Collective is what the lanes of a warp do together, once all have come.
typedef void (*Collective)(Fiber* lanes, int count);

struct Fiber {
    void* sp;
    dim3 index;
    int rank; // of its block
    State state;
    Place place;
    uint64_t mask;  // lanes that take part, of those that exist
    uint64_t value; // brought to a shuffle, and taken away
    Shuffle kind;
    int distance, width;

    void* operands; // of a collective or of what it waits for, on its stack
    Collective collective;
    bool (*passes)(const Fiber&);                             // whether what it waits for ELSEWHERE has come; null if others decide
    void (*describe)(const Fiber&, char* text, size_t bytes); // what it waits for
};

// Block is one of the blocks that run together: the blocks of a cluster, or a single one.
struct Block {
    dim3 index;
    uint64_t serial; // counts all blocks of this process, from 1
    uint32_t epoch;  // of the race detector
    unsigned char* dynamic;
};

extern SIM_INTERNAL Fiber fibers[MAX_FIBERS]; // those of a block in one piece
extern SIM_INTERNAL Block blocks[MAX_CLUSTER];
extern SIM_INTERNAL int cluster;        // blocks that run together
extern SIM_INTERNAL int current;        // the fiber that runs now
extern SIM_INTERNAL int threads, warps; // of a block
extern SIM_INTERNAL size_t dynamic_bytes;
extern SIM_INTERNAL bool failed;
extern SIM_INTERNAL const Entry* entry;
extern SIM_INTERNAL Bytes parameters; // of the launch

inline Fiber& self() { return fibers[current]; }
inline Block& own_block() { return blocks[fibers[current].rank]; }
inline int thread_of(const Fiber& f) { return (int)(&f - fibers) - f.rank * threads; } // within its block

// report fails the launch, from the scheduler.
__attribute__((format(printf, 1, 2))) void report(const char* format, ...);

// stop fails the launch, from a fiber, which is never resumed.
__attribute__((format(printf, 1, 2), noreturn)) void stop(const char* format, ...);

// Text is a place in words. The prelude's functions are inlined: the line of the kernel
// that calls them says more, if it can be found.
struct Text {
    char text[256];
    explicit Text(const Place& p);
};

// together lets a collective work on all lanes of the calling fiber's warp.
void together(Collective collective, void* operands, const Place& place);

// wait_elsewhere stops the calling fiber until `passes` says that it may go on.
void wait_elsewhere(bool (*passes)(const Fiber&), void (*describe)(const Fiber&, char*, size_t), void* operands, const Place& place);

// new_epoch orders, for the race detector, what a block has done before what follows.
void new_epoch(Block& block);

// memory_access tells the race detector of an access that the kernel's own code does not make.
void memory_access(const void* at, size_t bytes, bool is_write, const char* file, int line);

// fence orders, for the race detector, what blocks do before it and after it with what other
// blocks do: after a fence a kernel may use memory of other blocks, by rules of its own.
void fence();

// renew begins memory anew: with ones in every bit, and no accesses.
void renew(void* at, size_t bytes);

// source_line finds the line of an access: pc is an address in the code, or, if line is not 0,
// the name of a file.
void source_line(const void* pc, int line, char* text, size_t size);

// random_below returns a number that the seed decides, 0 without one.
uint64_t random_below(uint64_t n);

// Shared memory has addresses: the dynamic part from DYNAMIC_ADDRESS on, arrays from STATIC_ADDRESS.
const unsigned DYNAMIC_ADDRESS = 1024, STATIC_ADDRESS = 1u << 20;
unsigned address_of(const void* pointer);                           // 0 if it is not in the calling block's shared memory
unsigned char* memory_at(int rank, unsigned address, size_t bytes); // null if not all of it exists

// Extension is what else the scheduler does. Where there is none, all are null.
struct Extension {
    void (*begin)();                 // a cluster begins
    bool (*complete_late)(int rank); // when no fiber can go on: completes something for a block, and reports whether it has
    void (*end)();                   // a cluster's threads have ended
    void (*end_thread)();            // of the calling fiber

    // access checks an access of the kernel's own code, before it is made. pc and line say where
    // the access is, as for source_line.
    void (*access)(const void* at, size_t bytes, bool is_write, const void* pc, int line);

    // describe names memory in a report of a race; null leaves the address.
    void (*describe)(const void* at, char* text, size_t bytes);

    // Threads that have ended are not waited for at barriers and shuffles, as on NVIDIA's
    // GPUs from compute capability 7.0 on.
    bool ended_threads_count;
};
extern SIM_INTERNAL Extension extension;

} // namespace sim

#endif
