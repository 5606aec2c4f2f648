// What tensorcore.cc and hopper.cc know of the threads and blocks that run: what is under way,
// and what the asynchronous proxy sees of shared memory.
#ifndef TOKITAI_ASYNC_H
#define TOKITAI_ASYNC_H

#include <string.h>
#include <vector>

#include "mma.h"
#include "scheduler.h"
#include "prelude.h"
#include "sim_tensorcore.h"

namespace sim {

inline Place place(Where w) { return {w.file, w.line, nullptr}; }

// Groups counts the groups of what a thread has asked for. A wait leaves the last ones.
struct Groups {
    long open; // the number of the group that the next commit closes
    bool is_over(long group, int left) const { return group + left < open; }
};

// Copy is a cp.async under way.
struct Copy {
    unsigned to;
    const void* from;
    int bytes;
    long group;
    Where where;
};

// Map is what a TensorMap holds on the simulator. device/gpu/sim writes it.
struct Map {
    uint64_t address;
    uint16_t element_bytes, rank, swizzle_bytes;
    uint16_t mark; // MAP_MARK
    uint64_t sizes[5];
    uint64_t strides[4]; // in bytes, of all dimensions but the first
    uint64_t box[5];
};
const uint16_t MAP_MARK = 0x706d;
static_assert(sizeof(Map) == sizeof(TensorMap), "a map fits");

// swizzled returns where 16 bytes of a line lie that would be at an address: the pieces of a
// line of 128 bytes change places by the line's number, and so do those of two neighbouring
// lines of 64 bytes.
inline unsigned swizzled(unsigned at, unsigned line_bytes) { return at ^ (at >> 7 & (line_bytes / 16 - 1)) << 4; }

// Box is a place in a tensor.
struct Box {
    Map map;
    int at[5];
    unsigned line_bytes() const { return (unsigned)map.box[0] * map.element_bytes; }
    unsigned lines() const {
        unsigned n = 1;
        for (unsigned i = 1; i < map.rank; i++) {
            n *= (unsigned)map.box[i];
        }
        return n;
    }
    unsigned bytes() const { return lines() * line_bytes(); }

    // piece returns the address of 16 bytes of the box in shared memory.
    unsigned piece(unsigned begin, unsigned offset) const {
        unsigned at = begin + offset;
        return map.swizzle_bytes == 0 ? at : swizzled(at, map.swizzle_bytes);
    }
};

// Load is a tensor_load under way, to one block.
struct Load {
    Box box;
    int rank;
    unsigned to, barrier;
    Where where;
};

// Store is a tensor_store under way.
struct Store {
    Box box;
    unsigned from;
    long group;
    Where where;
    std::vector<unsigned char> bytes; // as they were when it was asked for
};

// Chain is accumulators that products under way write to. They are in the thread's own
// registers again when the last of them is over.
struct Chain {
    float* d;
    int count, pending;
    float value[MMA_COLUMNS / 2];
};

// Multiplication is a wgmma under way, as one thread has it.
struct Multiplication {
    Wgmma w;
    int chain;
    long group;
    Where where;
    u32 left[4]; // a, if it is in registers
};

struct ThreadState {
    std::vector<Copy> copies;
    std::vector<Store> stores;
    std::vector<Multiplication> products;
    std::vector<Chain> chains;
    std::vector<unsigned> unfenced; // words of shared memory that this thread has written
    Groups copy_groups, store_groups, product_groups;
    bool is_fenced;     // wgmma_fence since the accumulators were in registers
    uint64_t issued;    // products
    uint64_t signature; // of all of them
    int registers;
    Where registers_where;

    void reset() { *this = ThreadState{}; }
};

struct Mbarrier {
    unsigned at;
    int count, pending; // arrivals of a phase, and those of this one that have not come
    long missing;       // bytes that have not come
    uint64_t phases;    // that are complete
    int waiting;        // threads
    bool is_visible;    // to copies and to other blocks
    Where where;        // it was initialised
};

struct NamedBarrier {
    int expected, arrived, phase;
};

const int NAMED_BARRIERS = 16;
const size_t UNFENCED_BYTES = 8;

struct BlockState {
    std::vector<Mbarrier> mbarriers;
    NamedBarrier barriers[NAMED_BARRIERS];
    std::vector<unsigned char> view; // dynamic shared memory as the asynchronous proxy sees it
    std::vector<short> unfenced;     // for each UNFENCED_BYTES the thread that has to fence them, from 1; 0 if none
    bool is_fenced;                  // by any thread, since the last publish
    int alive;                       // threads that have not ended

    void reset() {
        *this = BlockState{};
        alive = threads;
    }

    unsigned char* async_view();

    // publish shows the asynchronous proxy what was fenced.
    void publish(int rank);

    // read returns bytes as the asynchronous proxy sees them, or reports that they are not
    // those that the threads see.
    const unsigned char* read(int rank, unsigned at, unsigned bytes, const char* what, const Place& where);

    // write is a write of the asynchronous proxy.
    void write(int rank, unsigned at, const void* from, unsigned bytes);
};

extern SIM_INTERNAL ThreadState thread_states[MAX_FIBERS];
extern SIM_INTERNAL BlockState block_states[MAX_CLUSTER];
extern SIM_INTERNAL std::vector<Load> loads;

inline ThreadState& own_state() { return thread_states[current]; }
inline ThreadState& state_of(const Fiber& f) { return thread_states[&f - fibers]; }

// shared_bytes returns memory at an address, or fails the launch.
unsigned char* shared_bytes(int rank, unsigned at, size_t bytes, size_t alignment, const char* what, Where where);

void check_model(int step, int bits, Where where);

// complete_late completes something that is under way in a block, and reports whether it has.
bool complete_late(int rank);
void check_thread_end();
void check_cluster_end();

} // namespace sim

#endif
