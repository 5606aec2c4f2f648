// The simulator's side of the tensor-core dialect but for what Hopper alone has (hopper.cc):
// copies in groups, matrices between shared memory and registers, mma.sync, barriers of some
// threads and of clusters.
//
// The asynchronous proxy, through which TMA and wgmma access shared memory, has a view of its
// own. A thread's ordinary writes are in it once the thread has passed fence_async_shared.
#include <stdio.h>

#include "async.h"

namespace sim {

ThreadState thread_states[MAX_FIBERS];
BlockState block_states[MAX_CLUSTER];
static int alive;         // threads of the cluster that have not ended
static int at_cluster;    // threads that have arrived at the cluster barrier
static int cluster_phase; // how often it has opened

// ---- shared memory ----

unsigned shared_address(const void* at, Where where) {
    unsigned address = address_of(at);
    if (address == 0) {
        stop("%s: %p does not lie in the block's shared memory", Text(place(where)).text, at);
    }
    return address;
}

unsigned char* shared_bytes(int rank, unsigned at, size_t bytes, size_t alignment, const char* what, Where where) {
    unsigned char* memory = memory_at(rank, at, bytes);
    if (memory == nullptr) {
        stop("%s: %s of %d bytes at %u of shared memory, which ends at %u", Text(place(where)).text, what, (int)bytes, at, DYNAMIC_ADDRESS + (unsigned)dynamic_bytes);
    }
    if (at % alignment != 0) {
        stop("%s: %s at %u of shared memory, want a multiple of %d", Text(place(where)).text, what, at, (int)alignment);
    }
    return memory;
}

static size_t offset_of(unsigned at) { return at - DYNAMIC_ADDRESS; }
static bool is_dynamic(unsigned at) { return at >= DYNAMIC_ADDRESS && offset_of(at) < dynamic_bytes; }

unsigned char* BlockState::async_view() {
    if (view.size() != dynamic_bytes) {
        view.assign(dynamic_bytes, 0xff); // as the block found it
        unfenced.assign((dynamic_bytes + UNFENCED_BYTES - 1) / UNFENCED_BYTES, 0);
    }
    return view.data();
}

// note_write remembers that the calling thread has to fence what it has written.
static void note_write(unsigned at, unsigned bytes) {
    BlockState& b = block_states[self().rank];
    if (!is_dynamic(at)) {
        return;
    }
    b.async_view();
    for (size_t i = offset_of(at) / UNFENCED_BYTES, end = (offset_of(at) + bytes - 1) / UNFENCED_BYTES; i <= end; i++) {
        short writer = (short)(thread_of(self()) + 1);
        if (b.unfenced[i] != writer) {
            b.unfenced[i] = writer;
            own_state().unfenced.push_back((unsigned)i);
        }
    }
}

// A fence publishes what its thread has written by functions of the dialect. Of ordinary
// assignments nothing is known: whatever has changed by the next asynchronous access counts as
// fenced, if any thread has passed a fence.
void fence_async_shared() {
    BlockState& b = block_states[self().rank];
    unsigned char* view = b.async_view();
    for (unsigned i : own_state().unfenced) {
        if (b.unfenced[i] == thread_of(self()) + 1) {
            size_t at = (size_t)i * UNFENCED_BYTES, bytes = dynamic_bytes - at < UNFENCED_BYTES ? dynamic_bytes - at : UNFENCED_BYTES;
            memcpy(view + at, own_block().dynamic + at, bytes);
            b.unfenced[i] = 0;
        }
    }
    own_state().unfenced.clear();
    b.is_fenced = true;
    for (Mbarrier& m : b.mbarriers) {
        m.is_visible = true;
    }
}

void BlockState::publish(int rank) {
    unsigned char* to = async_view();
    if (!is_fenced) {
        return;
    }
    is_fenced = false;
    const unsigned char* from = blocks[rank].dynamic;
    for (size_t i = 0; i < unfenced.size(); i++) {
        size_t at = i * UNFENCED_BYTES, bytes = dynamic_bytes - at < UNFENCED_BYTES ? dynamic_bytes - at : UNFENCED_BYTES;
        if (unfenced[i] == 0) {
            memcpy(to + at, from + at, bytes);
        }
    }
}

const unsigned char* BlockState::read(int rank, unsigned at, unsigned bytes, const char* what, const Place& where) {
    size_t offset = offset_of(at);
    if (!is_dynamic(at) || offset + bytes > dynamic_bytes) {
        report("%s: %s at %u of shared memory, which ends at %u", Text(where).text, what, at, DYNAMIC_ADDRESS + (unsigned)dynamic_bytes);
        return nullptr;
    }
    const unsigned char* seen = async_view() + offset;
    if (memcmp(seen, blocks[rank].dynamic + offset, bytes) != 0) {
        int writer = unfenced[offset / UNFENCED_BYTES];
        char who[64] = "";
        if (writer != 0) {
            snprintf(who, sizeof(who), " by thread %d", writer - 1);
        }
        report("%s: %s at %u of shared memory, which was written%s without fence_async_shared", Text(where).text, what, at, who);
        return nullptr;
    }
    return seen;
}

void BlockState::write(int rank, unsigned at, const void* from, unsigned bytes) {
    size_t offset = offset_of(at);
    memcpy(async_view() + offset, from, bytes);
    memcpy(blocks[rank].dynamic + offset, from, bytes);
    for (size_t i = offset / UNFENCED_BYTES; i <= (offset + bytes - 1) / UNFENCED_BYTES; i++) {
        unfenced[i] = 0;
    }
}

void shared_store(unsigned at, const void* from, unsigned bytes, Where where) {
    unsigned char* to = shared_bytes(self().rank, at, bytes, bytes, "a store", where);
    memory_access(to, bytes, true, where.file, where.line);
    memcpy(to, from, bytes);
    note_write(at, bytes);
}

// ---- copies in groups ----

void copy_async_16(unsigned to, const void* from, int bytes, Where where) {
    unsigned char* memory = shared_bytes(self().rank, to, 16, 16, "a copy", where);
    if (bytes < 0 || bytes > 16) {
        stop("%s: a copy of %d bytes, want 0 to 16", Text(place(where)).text, bytes);
    }
    if (bytes > 0 && reinterpret_cast<uintptr_t>(from) % 16 != 0) {
        stop("%s: a copy from %p, want a multiple of 16", Text(place(where)).text, from);
    }
    memory_access(memory, 16, true, where.file, where.line);
    memset(memory, 0xff, 16);
    ThreadState& t = own_state();
    t.copies.push_back({to, from, bytes, t.copy_groups.open, where});
}

void copy_async_commit() { own_state().copy_groups.open++; }

void copy_async_wait(int left) {
    ThreadState& t = own_state();
    size_t done = 0;
    for (; done < t.copies.size() && t.copy_groups.is_over(t.copies[done].group, left); done++) {
        const Copy& c = t.copies[done];
        unsigned char* to = memory_at(self().rank, c.to, 16);
        memory_access(to, 16, true, c.where.file, c.where.line);
        memory_access(c.from, (size_t)c.bytes, false, c.where.file, c.where.line);
        memset(to, 0, 16);
        memcpy(to, c.from, (size_t)c.bytes);
        note_write(c.to, 16);
    }
    t.copies.erase(t.copies.begin(), t.copies.begin() + (ptrdiff_t)done);
}

// ---- matrices of 8x8 elements ----

// Row j of matrix i lies where lane 8i + j says. Lane l has elements 2(l % 4) and the next of
// row l / 4; transposed, of column l / 4.
template <bool IS_TRANSPOSED>
static void load_matrices(Fiber* lanes, int) {
    for (int i = 0; i < 4; i++) {
        unsigned short m[8][8];
        for (int row = 0; row < 8; row++) {
            const Fiber& f = lanes[8 * i + row];
            memcpy(m[row], memory_at(f.rank, static_cast<Matrices*>(f.operands)->at, 16), 16);
        }
        for (int l = 0; l < 32; l++) {
            int row = l / 4, col = l % 4 * 2;
            unsigned low = IS_TRANSPOSED ? m[col][row] : m[row][col], high = IS_TRANSPOSED ? m[col + 1][row] : m[row][col + 1];
            static_cast<Matrices*>(lanes[l].operands)->r[i] = low | high << 16;
        }
    }
}

static void store_matrices(Fiber* lanes, int) {
    for (int i = 0; i < 4; i++) {
        for (int l = 0; l < 32; l++) {
            const Fiber& f = lanes[8 * i + l / 4];
            unsigned char* row = memory_at(f.rank, static_cast<Matrices*>(f.operands)->at, 16);
            memcpy(row + l % 4 * 4, &static_cast<Matrices*>(lanes[l].operands)->r[i], 4);
        }
    }
}

// check_warp_of_32 refuses an instruction of warps of 32 lanes where there are others.
static void check_warp_of_32(Where where) {
    if (warpSize != 32 || threads % 32 != 0) {
        stop("%s: a matrix instruction in a block of %d threads and warps of %d, want whole warps of 32", Text(place(where)).text, threads, warpSize);
    }
}

void load_matrix_4(Matrices m, bool is_transposed, Where where) {
    check_warp_of_32(where);
    memory_access(shared_bytes(self().rank, m.at, 16, 16, "a row of a matrix", where), 16, false, where.file, where.line);
    together(is_transposed ? load_matrices<true> : load_matrices<false>, &m, place(where));
}

void store_matrix_4(Matrices m, Where where) {
    check_warp_of_32(where);
    memory_access(shared_bytes(self().rank, m.at, 16, 16, "a row of a matrix", where), 16, true, where.file, where.line);
    note_write(m.at, 16);
    together(store_matrices, &m, place(where));
}

// ---- mma.sync.m16n8k16 ----

// Lane l has of a row l / 4 (a[0], a[2]) and 8 more (a[1], a[3]), the 4 bytes at 4(l % 4) along the summed index
// (a[0], a[1]) and 16 bytes further (a[2], a[3]); of column l / 4 of b the same; of d rows l / 4
// and 8 more, columns 2(l % 4) and the next.
static void multiply_fragments(Fiber* lanes, int) {
    static Left left[16];
    static Right right;
    static float acc[16][MMA_COLUMNS];
    const Product& first = *static_cast<Product*>(lanes[0].operands);
    Format f((FormatName)first.format);
    const int bits = 256 / f.depth, per_word = 32 / bits; // of an element, and elements of a word
    for (int l = 0; l < 32; l++) {
        const Product& p = *static_cast<Product*>(lanes[l].operands);
        int row = l / 4, k = l % 4 * per_word;
        for (int i = 0; i < per_word; i++) {
            for (int word = 0; word < 4; word++) {
                left[row + word % 2 * 8].pattern[k + i + word / 2 * 4 * per_word] = (uint16_t)(p.a[word] >> i * bits & ((1u << bits) - 1));
            }
            for (int word = 0; word < 2; word++) {
                right.pattern[k + i + word * 4 * per_word][row] = (uint16_t)(p.b[word] >> i * bits & ((1u << bits) - 1));
            }
        }
        for (int i = 0; i < 4; i++) {
            memcpy(&acc[row + i / 2 * 8][l % 4 * 2 + i % 2], static_cast<char*>(p.d) + i * 4, 4);
        }
    }
    if (first.format == I8) {
        multiply_bytes(left, 16, right, 8, acc);
    } else {
        for (Left& l : left) {
            unpack(l, f);
        }
        unpack(right, f, 8);
        multiplication(first.step, first.bits)(f, left, 16, right, 8, Model{first.bits, 23}, acc);
    }
    for (int l = 0; l < 32; l++) {
        const Product& p = *static_cast<Product*>(lanes[l].operands);
        for (int i = 0; i < 4; i++) {
            memcpy(static_cast<char*>(p.d) + i * 4, &acc[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2], 4);
        }
    }
}

void check_model(int step, int bits, Where where) {
    if (multiplication(step, bits) == nullptr) {
        stop("%s: no model mma(%d,%d) in the simulator, want steps of 4, 8, 16 or 32 and at most 26 bits", Text(place(where)).text, step, bits);
    }
}

void multiply(Product p, Where where) {
    check_warp_of_32(where);
    check_model(p.step, p.bits, where);
    together(multiply_fragments, &p, place(where));
}

// ---- barriers of some threads, and of a cluster ----

struct Meeting {
    int number, phase;
};

static bool is_opened(const Fiber& f) {
    const Meeting& m = *static_cast<Meeting*>(f.operands);
    return block_states[f.rank].barriers[m.number].phase != m.phase;
}

static void describe_named(const Fiber& f, char* text, size_t bytes) {
    const Meeting& m = *static_cast<Meeting*>(f.operands);
    const NamedBarrier& b = block_states[f.rank].barriers[m.number];
    snprintf(text, bytes, "named barrier %d: %d of %d threads have come", m.number, b.arrived, b.expected);
}

// come counts a thread at a named barrier, and reports whether it was the last.
static bool come(int number, int count, Where where) {
    if (number < 0 || number >= NAMED_BARRIERS || count < warpSize || count % warpSize != 0 || count > threads) {
        stop("%s: named barrier %d of %d threads, want 0 to %d and whole warps of the block's %d threads", Text(place(where)).text, number, count, NAMED_BARRIERS - 1, threads);
    }
    NamedBarrier& b = block_states[self().rank].barriers[number];
    if (b.arrived > 0 && b.expected != count) {
        stop("%s: named barrier %d of %d threads, for others of %d", Text(place(where)).text, number, count, b.expected);
    }
    b.expected = count;
    if (++b.arrived < count) {
        return false;
    }
    b.arrived = 0, b.phase++;
    new_epoch(own_block());
    return true;
}

void named_barrier(int number, int count, Where where) {
    if (!come(number, count, where)) {
        Meeting m{number, block_states[self().rank].barriers[number].phase};
        wait_elsewhere(is_opened, describe_named, &m, place(where));
    }
}

void named_barrier_arrive(int number, int count, Where where) { come(number, count, where); }

static bool is_cluster_there(const Fiber& f) {
    if (*static_cast<int*>(f.operands) == cluster_phase && at_cluster == alive) {
        at_cluster = 0, cluster_phase++;
        for (int rank = 0; rank < cluster; rank++) {
            new_epoch(blocks[rank]);
        }
    }
    return *static_cast<int*>(f.operands) != cluster_phase;
}

static void describe_cluster(const Fiber&, char* text, size_t bytes) {
    snprintf(text, bytes, "the cluster: %d of %d threads have come", at_cluster, alive);
}

unsigned cluster_rank() { return (unsigned)self().rank; }

void cluster_barrier(Where where) {
    at_cluster++;
    int phase = cluster_phase;
    wait_elsewhere(is_cluster_there, describe_cluster, &phase, place(where));
}

// ---- beginning and end ----

static void begin() {
    alive = cluster * threads, at_cluster = 0;
    for (int i = 0; i < cluster * threads; i++) {
        thread_states[i].reset();
    }
    for (int rank = 0; rank < cluster; rank++) {
        block_states[rank].reset();
    }
    loads.clear();
}

static void end_thread() {
    alive--;
    check_thread_end();
}

static bool is_extended = (extension = {begin, complete_late, check_cluster_end, end_thread}, true);

} // namespace sim
