// The simulator's side of what Hopper has: barriers in shared memory, boxes of tensors, and
// products of warpgroups. Loads arrive, products are computed and stores read shared memory when
// no thread can go on without them.
#include <stdio.h>
#include <algorithm>

#include "async.h"

namespace sim {

std::vector<Load> loads;

// ---- barriers in shared memory ----

const uint64_t MBARRIER_MARK = 0x7265697272616264; // what the memory of a barrier holds

static Mbarrier* find(int rank, unsigned at) {
    for (Mbarrier& m : block_states[rank].mbarriers) {
        if (m.at == at) {
            return &m;
        }
    }
    return nullptr;
}

// mbarrier_of returns an initialised barrier, or fails the launch.
static Mbarrier& mbarrier_of(int rank, unsigned at, const char* what, Where where) {
    unsigned char* memory = shared_bytes(rank, at, 8, 8, "an mbarrier", where);
    Mbarrier* m = find(rank, at);
    if (m == nullptr) {
        stop("%s: %s the mbarrier at %u, which was not initialised", Text(place(where)).text, what, at);
    }
    if (memcmp(memory, &MBARRIER_MARK, 8) != 0) {
        stop("%s: %s the mbarrier at %u, initialised at %s, whose memory was overwritten", Text(place(where)).text, what, at, Text(place(m->where)).text);
    }
    return *m;
}

static void check_visible(const Mbarrier& m, const char* what, Where where) {
    if (!m.is_visible) {
        stop("%s: %s the mbarrier at %u before mbarrier_fence_init", Text(place(where)).text, what, m.at);
    }
}

void mbarrier_init(unsigned at, unsigned arrivals, Where where) {
    unsigned char* memory = shared_bytes(self().rank, at, 8, 8, "an mbarrier", where);
    if (arrivals < 1 || arrivals >= 1u << 20) {
        stop("%s: an mbarrier of %u arrivals, want 1 to %u", Text(place(where)).text, arrivals, (1u << 20) - 1);
    }
    if (const Mbarrier* m = find(self().rank, at)) {
        stop("%s: the mbarrier at %u was initialised at %s", Text(place(where)).text, at, Text(place(m->where)).text);
    }
    memory_access(memory, 8, true, where.file, where.line);
    memcpy(memory, &MBARRIER_MARK, 8);
    block_states[self().rank].mbarriers.push_back({at, (int)arrivals, (int)arrivals, 0, 0, 0, false, where});
}

void mbarrier_fence_init() {
    for (Mbarrier& m : block_states[self().rank].mbarriers) {
        m.is_visible = true;
    }
}

static void complete_if_over(Mbarrier& m, int rank) {
    if (m.pending == 0 && m.missing == 0) {
        m.pending = m.count, m.phases++;
        new_epoch(blocks[rank]);
    }
}

void mbarrier_arrive(unsigned at, unsigned block, unsigned bytes, Where where) {
    if (block >= (unsigned)cluster) {
        stop("%s: block %u in a cluster of %d", Text(place(where)).text, block, cluster);
    }
    if (block_states[block].alive == 0) {
        stop("%s: block %u of the cluster, at whose mbarrier this thread arrives, has ended", Text(place(where)).text, block);
    }
    Mbarrier& m = mbarrier_of((int)block, at, "arrives at", where);
    if ((int)block != self().rank) {
        check_visible(m, "arrives at", where);
    }
    if (m.pending == 0) {
        stop("%s: one arrival more than the %d of the mbarrier at %u, initialised at %s", Text(place(where)).text, m.count, at, Text(place(m.where)).text);
    }
    if ((int)block == self().rank) {
        atomic_access(memory_at(self().rank, at, 8), 8, where.file, where.line);
    }
    m.missing += bytes;
    m.pending--;
    complete_if_over(m, (int)block);
}

struct Phase {
    unsigned at, parity;
};

static bool is_phase_over(const Fiber& f) {
    const Phase& p = *static_cast<Phase*>(f.operands);
    return (find(f.rank, p.at)->phases & 1) != p.parity;
}

static void describe_phase(const Fiber& f, char* text, size_t bytes) {
    const Phase& p = *static_cast<Phase*>(f.operands);
    const Mbarrier& m = *find(f.rank, p.at);
    snprintf(text, bytes, "the phase of parity %u of the mbarrier at %u, initialised at %s: %llu phases are complete, of the next %d of %d arrivals and %ld bytes are missing", p.parity,
             p.at, Text(place(m.where)).text, (unsigned long long)m.phases, m.pending, m.count, m.missing);
}

void mbarrier_wait(unsigned at, unsigned parity, Where where) {
    if (parity > 1) {
        stop("%s: parity %u, want 0 or 1", Text(place(where)).text, parity);
    }
    mbarrier_of(self().rank, at, "waits at", where).waiting++;
    atomic_access(memory_at(self().rank, at, 8), 8, where.file, where.line);
    Phase p{at, parity};
    self().operands = &p;
    if (!is_phase_over(self())) {
        wait_elsewhere(is_phase_over, describe_phase, &p, place(where));
    }
    find(self().rank, at)->waiting--;
}

// ---- boxes of tensors ----

static Box box_of(const TensorMap* map, int rank, const int* at, Where where) {
    Box box;
    memcpy(&box.map, map, sizeof(box.map));
    memcpy(box.at, at, sizeof(box.at));
    if (box.map.mark != MAP_MARK) {
        stop("%s: the tensor map was not encoded", Text(place(where)).text);
    }
    if ((int)box.map.rank != rank) {
        stop("%s: got %d indices for a tensor map of rank %u", Text(place(where)).text, rank, box.map.rank);
    }
    return box;
}

// Line is the part of a box's line that lies in the tensor.
struct Line {
    unsigned char* memory; // null if nothing does
    unsigned offset, bytes;
};

static Line line_of(const Box& box, unsigned number) {
    const Map& m = box.map;
    uint64_t address = m.address;
    for (unsigned i = 1; i < m.rank; i++) {
        int64_t at = (int64_t)box.at[i] + (int64_t)(number % m.box[i]);
        number /= (unsigned)m.box[i];
        if (at < 0 || at >= (int64_t)m.sizes[i]) {
            return {nullptr, 0, 0};
        }
        address += (uint64_t)at * m.strides[i - 1];
    }
    int64_t begin = box.at[0] < 0 ? -(int64_t)box.at[0] : 0, end = (int64_t)m.sizes[0] - box.at[0];
    end = end > (int64_t)m.box[0] ? (int64_t)m.box[0] : end;
    if (begin >= end) {
        return {nullptr, 0, 0};
    }
    address += (uint64_t)(box.at[0] + begin) * m.element_bytes;
    return {reinterpret_cast<unsigned char*>(address), (unsigned)begin * m.element_bytes, (unsigned)(end - begin) * m.element_bytes};
}

// check_races tells the race detector of a box's elements.
static void check_races(const Box& box, bool is_write, Where where) {
    for (unsigned i = 0; i < box.lines(); i++) {
        Line line = line_of(box, i);
        if (line.memory != nullptr) {
            memory_access(line.memory, line.bytes, is_write, where.file, where.line);
        }
    }
}

struct Range {
    unsigned begin, end;
    bool meets(const Range& o) const { return begin < o.end && o.begin < end; }
};

static Range range_of(unsigned begin, const Box& box) { return {begin, begin + box.bytes()}; }

// line_bytes_of a descriptor's operand.
static unsigned line_bytes_of(uint64_t descriptor) { return descriptor >> 62 == 2 ? 64 : 128; }

// range_of an operand of a product: whole groups of eight lines.
static Range range_of(uint64_t descriptor, bool is_transposed, int elements) {
    unsigned line = line_bytes_of(descriptor);
    unsigned at = (unsigned)(descriptor & 0x3fff) << 4, next = (unsigned)(descriptor >> 16 & 0x3fff) << 4, group = (unsigned)(descriptor >> 32 & 0x3fff) << 4;
    unsigned begin = at / (8 * line) * (8 * line);
    if (is_transposed) {
        return {begin, begin + (unsigned)(elements - 1) / (line / 2) * next + group + 8 * line};
    }
    return {begin, begin + (unsigned)(elements / 8 - 1) * group + 8 * line};
}

static Range left_of(const Wgmma& w) { return range_of(w.a, w.transposes_a, 64); }
static Range right_of(const Wgmma& w) { return range_of(w.b, w.transposes_b, w.columns); }

// check_unused fails the launch if bytes that a load is going to write are still in use.
static void check_unused(int rank, const Range& to, Where where) {
    for (const Load& l : loads) {
        if (l.rank == rank && range_of(l.to, l.box).meets(to)) {
            stop("%s: a load into shared memory at %u, which the load at %s has not filled yet", Text(place(where)).text, to.begin, Text(place(l.where)).text);
        }
    }
    for (int i = rank * threads; i < (rank + 1) * threads; i++) {
        for (const Store& s : thread_states[i].stores) {
            if (range_of(s.from, s.box).meets(to)) {
                stop("%s: a load into shared memory at %u, which the store at %s has not read yet", Text(place(where)).text, to.begin, Text(place(s.where)).text);
            }
        }
        for (const Multiplication& m : thread_states[i].products) {
            if ((m.w.left == nullptr && left_of(m.w).meets(to)) || right_of(m.w).meets(to)) {
                stop("%s: a load into shared memory at %u, which the product at %s of thread %d has not read yet", Text(place(where)).text, to.begin, Text(place(m.where)).text,
                     i - rank * threads);
            }
        }
    }
}

// tensor_load asks for a box. The lower 16 bits of destinations are blocks of the cluster, if
// any higher bit is set; otherwise the box goes to the calling block.
void tensor_load(unsigned to, const TensorMap* map, unsigned barrier, unsigned destinations, int rank, const int* at, Where where) {
    Box box = box_of(map, rank, at, where);
    check_races(box, false, where);
    if (destinations >> 16 == 0) {
        destinations = 1u << self().rank;
    }
    destinations &= 0xffff;
    if (destinations == 0 || destinations >> cluster != 0) {
        stop("%s: a load to the blocks %x in a cluster of %d", Text(place(where)).text, destinations, cluster);
    }
    for (int block = 0; block < cluster; block++) {
        if (!(destinations >> block & 1)) {
            continue;
        }
        if (block_states[block].alive == 0) {
            stop("%s: a load to block %d of the cluster, which has ended", Text(place(where)).text, block);
        }
        shared_bytes(block, to, box.bytes(), 128, "a load", where);
        check_visible(mbarrier_of(block, barrier, "a load for", where), "a load for", where);
        check_unused(block, range_of(to, box), where);
        std::vector<unsigned char> unknown(box.bytes(), 0xff);
        block_states[block].write(block, to, unknown.data(), box.bytes());
        loads.push_back({box, block, to, barrier, where});
    }
}

static void land(const Load& l) {
    std::vector<unsigned char> bytes(l.box.line_bytes());
    for (unsigned i = 0; i < l.box.lines(); i++) {
        std::fill(bytes.begin(), bytes.end(), 0);
        Line line = line_of(l.box, i);
        if (line.memory != nullptr) {
            memcpy(bytes.data() + line.offset, line.memory, line.bytes);
        }
        for (unsigned b = 0; b < bytes.size(); b += 16) {
            block_states[l.rank].write(l.rank, l.box.piece(l.to, i * l.box.line_bytes() + b), bytes.data() + b, 16);
        }
    }
    Mbarrier& m = *find(l.rank, l.barrier);
    m.missing -= l.box.bytes();
    complete_if_over(m, l.rank);
}

// land_late lets one load of a block arrive, of those that somebody waits for if there are any.
static bool land_late(int rank) {
    std::vector<size_t> all, awaited;
    for (size_t i = 0; i < loads.size(); i++) {
        if (loads[i].rank != rank) {
            continue;
        }
        all.push_back(i);
        if (find(rank, loads[i].barrier)->waiting > 0) {
            awaited.push_back(i);
        }
    }
    if (all.empty()) {
        return false;
    }
    size_t i = awaited.empty() ? all[0] : awaited[random_below(awaited.size())];
    Load l = loads[i];
    loads.erase(loads.begin() + (ptrdiff_t)i);
    land(l);
    return true;
}

// gather reads a box from shared memory, or reports what is wrong with it.
static bool gather(int rank, const Store& s, std::vector<unsigned char>& bytes) {
    bytes.resize(s.box.bytes());
    for (unsigned b = 0; b < bytes.size(); b += 16) {
        const unsigned char* from = block_states[rank].read(rank, s.box.piece(s.from, b), 16, "a store reads", place(s.where));
        if (from == nullptr) {
            return false;
        }
        memcpy(bytes.data() + b, from, 16);
    }
    return true;
}

void tensor_store(const TensorMap* map, unsigned from, int rank, const int* at, Where where) {
    ThreadState& t = own_state();
    Store s{box_of(map, rank, at, where), from, t.store_groups.open, where, {}};
    check_races(s.box, true, where);
    shared_bytes(self().rank, from, s.box.bytes(), 128, "a store", where);
    block_states[self().rank].publish(self().rank);
    if (!gather(self().rank, s, s.bytes)) {
        stop("%s: a store", Text(place(where)).text); // gather has said why
    }
    t.stores.push_back(s);
}

void tensor_store_commit() { own_state().store_groups.open++; }

static void describe_store(const Fiber&, char* text, size_t bytes) { snprintf(text, bytes, "its stores"); }

void tensor_store_wait(int left, Where where) {
    ThreadState& t = own_state();
    if (!t.stores.empty() && t.store_groups.is_over(t.stores[0].group, left)) {
        wait_elsewhere(nullptr, describe_store, &left, place(where));
    }
}

static void complete_stores(Fiber& f) {
    ThreadState& t = state_of(f);
    size_t done = 0;
    std::vector<unsigned char> bytes;
    for (; done < t.stores.size() && t.store_groups.is_over(t.stores[done].group, *static_cast<int*>(f.operands)); done++) {
        const Store& s = t.stores[done];
        if (!gather(f.rank, s, bytes)) {
            return;
        }
        if (bytes != s.bytes) {
            report("%s: the store's shared memory at %u was overwritten before it was read", Text(place(s.where)).text, s.from);
            return;
        }
        for (unsigned i = 0; i < s.box.lines(); i++) {
            Line line = line_of(s.box, i);
            if (line.memory != nullptr) {
                memcpy(line.memory, bytes.data() + i * s.box.line_bytes() + line.offset, line.bytes);
            }
        }
    }
    t.stores.erase(t.stores.begin(), t.stores.begin() + (ptrdiff_t)done);
    f.state = READY;
}

// ---- products of warpgroups ----

const int WARPGROUP = 128;
static const uint32_t UNKNOWN = 0xffffffff; // an accumulator under way

void wgmma_fence() { own_state().is_fenced = true; }

// check_operand fails the launch if an operand cannot be read.
static void check_operand(uint64_t descriptor, bool is_transposed, const Range& range, const char* name, Where where) {
    unsigned at = (unsigned)(descriptor & 0x3fff) << 4;
    if ((descriptor >> 62 != 1 && (descriptor >> 62 != 2 || !is_transposed)) || (descriptor >> 49 & 7) != 0) {
        stop("%s: operand %s of layout %d with base offset %d, want 1 (lines of 128 bytes, swizzled), or transposed 2 (of 64), and 0", Text(place(where)).text, name,
             (int)(descriptor >> 62), (int)(descriptor >> 49 & 7));
    }
    unsigned group = 8 * line_bytes_of(descriptor);
    if (at % group > (is_transposed ? 0u : 96u)) {
        stop("%s: operand %s at %u of shared memory, which is not in the first line of a group at a multiple of %u", Text(place(where)).text, name, at, group);
    }
    if (range.begin < DYNAMIC_ADDRESS || range.end > DYNAMIC_ADDRESS + dynamic_bytes) {
        stop("%s: operand %s from %u to %u of shared memory, which ends at %u", Text(place(where)).text, name, range.begin, range.end, DYNAMIC_ADDRESS + (unsigned)dynamic_bytes);
    }
    for (const Load& l : loads) {
        if (l.rank == self().rank && range_of(l.to, l.box).meets(range)) {
            stop("%s: operand %s at %u of shared memory, which the load at %s has not filled yet", Text(place(where)).text, name, at, Text(place(l.where)).text);
        }
    }
}

static bool is_untouched(const Chain& c) {
    return std::all_of(c.d, c.d + c.count, [](const float& d) { return memcmp(&d, &UNKNOWN, sizeof(d)) == 0; });
}

static int chain_of(ThreadState& t, const Wgmma& w, Where where) {
    int count = w.columns / 2;
    for (size_t i = 0; i < t.chains.size(); i++) {
        Chain& c = t.chains[i];
        if (c.pending == 0 || c.d != w.d) {
            continue;
        }
        if (!is_untouched(c)) {
            stop("%s: the accumulators were changed while a product that writes to them was under way", Text(place(where)).text);
        }
        if (c.count != count) {
            stop("%s: a product of %d columns after one of %d that writes to the same accumulators", Text(place(where)).text, w.columns, 2 * c.count);
        }
        return (int)i;
    }
    if (!t.is_fenced) {
        stop("%s: a product whose accumulators were in registers, without wgmma_fence", Text(place(where)).text);
    }
    size_t i = 0;
    for (; i < t.chains.size() && t.chains[i].pending > 0; i++) {
    }
    if (i == t.chains.size()) {
        t.chains.emplace_back();
    }
    Chain& c = t.chains[i];
    c.d = w.d, c.count = count, c.pending = 0;
    memcpy(c.value, w.d, sizeof(float) * (size_t)count);
    memset(w.d, 0xff, sizeof(float) * (size_t)count);
    return (int)i;
}

void wgmma(const Wgmma& w, Where where) {
    int thread = thread_of(self());
    if (warpSize != 32 || thread / WARPGROUP * WARPGROUP + WARPGROUP > threads) {
        stop("%s: a product of a warpgroup by thread %d of %d in warps of %d, want four whole warps of 32", Text(place(where)).text, thread, threads, warpSize);
    }
    ThreadState& t = own_state();
    if (thread % 32 == 0) {
        check_model(w.step, w.bits, where);
        block_states[self().rank].publish(self().rank);
        if (w.left == nullptr) {
            check_operand(w.a, w.transposes_a, left_of(w), "a", where);
        }
        check_operand(w.b, w.transposes_b, right_of(w), "b", where);
    }
    int chain = chain_of(t, w, where);
    t.chains[(size_t)chain].pending++;
    Multiplication m{w, chain, t.product_groups.open, where, {}};
    if (w.left != nullptr) {
        memcpy(m.left, w.left, sizeof(m.left));
    }
    t.products.push_back(m);
    t.issued++;
    t.signature = (t.signature ^ w.a ^ w.b << 7 ^ (uint64_t)w.columns << 50 ^ (uint64_t)(w.left != nullptr) << 1 ^ w.accumulates) * 0x9e3779b97f4a7c15u;
}

void wgmma_commit() { own_state().product_groups.open++; }

static void describe_products(const Fiber&, char* text, size_t bytes) { snprintf(text, bytes, "products of its warpgroup, at which not all lanes of its warp wait"); }

void wgmma_wait(int left, Where where) {
    ThreadState& t = own_state();
    if (!t.products.empty() && t.product_groups.is_over(t.products[0].group, left)) {
        wait_elsewhere(nullptr, describe_products, &left, place(where));
    }
}

static bool waits_for_products(const Fiber& f) { return f.state == ELSEWHERE && f.describe == describe_products; }

static bool is_same(const Multiplication& x, const Multiplication& y) {
    return x.w.a == y.w.a && x.w.b == y.w.b && x.w.columns == y.w.columns && x.w.accumulates == y.w.accumulates && x.w.format == y.w.format &&
           (x.w.left == nullptr) == (y.w.left == nullptr);
}

// Operand reads the 16-byte pieces of an operand.
struct Operand {
    int rank;
    unsigned at, next, group, line;
    bool is_transposed, has_bytes;
    Place where;

    Operand(const Fiber& f, uint64_t d, bool is_transposed, bool has_bytes, Where where)
        : rank(f.rank), at((unsigned)(d & 0x3fff) << 4), next((unsigned)(d >> 16 & 0x3fff) << 4), group((unsigned)(d >> 32 & 0x3fff) << 4), line(line_bytes_of(d)),
          is_transposed(is_transposed), has_bytes(has_bytes), where(place(where)) {}

    // read calls put(i, k, pattern) for all summed indices, 32 bytes of them, of eight elements
    // from i on.
    template <class Put>
    bool read(int i, Put put) const {
        uint16_t piece[8];
        if (is_transposed) {
            unsigned across = line / 2, along = (unsigned)i;
            for (unsigned k = 0; k < 16; k++) {
                if (!fetch(at + along / across * next + k / 8 * group + k % 8 * line + along % across * 2, piece)) {
                    return false;
                }
                for (int j = 0; j < 8; j++) {
                    put(i + j, (int)k, piece[j]);
                }
            }
            return true;
        }
        for (int j = 0; j < 8; j++) {
            for (int half = 0; half < 2; half++) {
                if (!fetch(at + (unsigned)(i / 8) * group + (unsigned)(j * 128 + half * 16), piece)) {
                    return false;
                }
                for (int n = 0; n < 16 && has_bytes; n++) {
                    put(i + j, half * 16 + n, (uint16_t)(piece[n / 2] >> n % 2 * 8 & 0xff));
                }
                for (int n = 0; n < 8 && !has_bytes; n++) {
                    put(i + j, half * 8 + n, piece[n]);
                }
            }
        }
        return true;
    }

    bool fetch(unsigned address, uint16_t* piece) const {
        const unsigned char* from = block_states[rank].read(rank, swizzled(address, line), 16, "a product reads", where);
        if (from != nullptr) {
            memcpy(piece, from, 16);
        }
        return from != nullptr;
    }
};

// read_left reads the rows of a that the lanes of a warp have in registers, or reports that they were changed.
static bool read_left(Fiber* lanes, Left (&left)[16]) {
    for (int l = 0; l < 32; l++) {
        const Multiplication& m = state_of(lanes[l]).products[0];
        if (memcmp(m.left, m.w.left, sizeof(m.left)) != 0) {
            report("%s: the operand in registers of thread %d was changed while the product was under way", Text(place(m.where)).text, thread_of(lanes[l]));
            return false;
        }
        for (int i = 0; i < 4; i++) {
            for (int half = 0; half < 2; half++) {
                left[l / 4 + i % 2 * 8].pattern[l % 4 * 2 + i / 2 * 8 + half] = (uint16_t)(m.left[i] >> 16 * half);
            }
        }
    }
    return true;
}

// multiply_late computes the first product under way for a warp, which has 16 rows of it.
static void multiply_late(Fiber* lanes) {
    static Left left[16];
    static Right right;
    static float acc[16][MMA_COLUMNS];
    const Multiplication m = state_of(*lanes).products[0];
    Format f((FormatName)m.w.format);
    bool has_bytes = f.depth == 32;
    Operand a(*lanes, m.w.a, m.w.transposes_a, has_bytes, m.where), b(*lanes, m.w.b, m.w.transposes_b, has_bytes, m.where);
    for (int n = 0; n < m.w.columns; n += 8) {
        if (!b.read(n, [&](int n, int k, uint16_t pattern) { right.pattern[k][n] = pattern; })) {
            return;
        }
    }
    int first = thread_of(*lanes) % WARPGROUP / 32 * 16;
    if (m.w.left != nullptr && !read_left(lanes, left)) {
        return;
    }
    for (int row = first; m.w.left == nullptr && row < first + 16; row += 8) {
        if (!a.read(row, [&](int row, int k, uint16_t pattern) { left[row - first].pattern[k] = pattern; })) {
            return;
        }
    }
    for (int l = 0; l < 32; l++) {
        ThreadState& t = state_of(lanes[l]);
        const float* value = t.chains[(size_t)t.products[0].chain].value;
        for (int j = 0; j < m.w.columns / 2; j++) {
            acc[l / 4 + j / 2 % 2 * 8][j / 4 * 8 + l % 4 * 2 + j % 2] = m.w.accumulates ? value[j] : 0;
        }
    }
    if (m.w.format == I8) {
        multiply_bytes(left, 16, right, m.w.columns, acc);
    } else {
        unpack(right, f, m.w.columns);
        for (Left& l : left) {
            unpack(l, f);
        }
        multiplication(m.w.step, m.w.bits)(f, left, 16, right, m.w.columns, Model{m.w.bits, m.w.result}, acc);
    }
    for (int l = 0; l < 32; l++) {
        ThreadState& t = state_of(lanes[l]);
        Chain& c = t.chains[(size_t)t.products[0].chain];
        for (int j = 0; j < c.count; j++) {
            c.value[j] = acc[l / 4 + j / 2 % 2 * 8][j / 4 * 8 + l % 4 * 2 + j % 2];
        }
        if (--c.pending == 0) {
            if (!is_untouched(c)) {
                report("%s: the accumulators of thread %d were changed while the product was under way", Text(place(m.where)).text, thread_of(lanes[l]));
            }
            memcpy(c.d, c.value, sizeof(float) * (size_t)c.count);
        }
        t.products.erase(t.products.begin());
    }
}

// is_ready reports whether all lanes of a warp wait for the same products.
static bool is_ready(Fiber* lanes) {
    for (int l = 0; l < 32; l++) {
        if (!waits_for_products(lanes[l]) || state_of(lanes[l]).products.empty()) {
            return false;
        }
        if (!is_same(state_of(lanes[l]).products[0], state_of(lanes[0]).products[0])) {
            report("%s: lanes 0 and %d of a warp have different products", Text(place(state_of(lanes[l]).products[0].where)).text, l);
            return false;
        }
    }
    return true;
}

// complete_products lets a warp go on that waits for products.
static bool complete_products(Fiber* lanes) {
    if (!is_ready(lanes)) {
        return false;
    }
    int left = *static_cast<int*>(lanes->operands);
    while (!failed && is_ready(lanes) && state_of(*lanes).product_groups.is_over(state_of(*lanes).products[0].group, left)) {
        multiply_late(lanes);
    }
    for (int l = 0; l < 32; l++) {
        lanes[l].state = READY;
        state_of(lanes[l]).is_fenced = false;
    }
    return true;
}

// ---- registers ----

void set_registers(int count, Where where) {
    if (count < 24 || count > 256 || count % 8 != 0) {
        stop("%s: %d registers, want a multiple of 8 from 24 to 256", Text(place(where)).text, count);
    }
    own_state().registers = count, own_state().registers_where = where;
}

// check_registers reports a warpgroup whose threads have not all set the same number, and a
// block that has more than there are.
static void check_registers(int rank) {
    int sum = 0;
    bool is_known = true;
    for (int i = 0; i < threads && !failed; i++) {
        const ThreadState &t = thread_states[rank * threads + i], &first = thread_states[rank * threads + i / WARPGROUP * WARPGROUP];
        if (t.registers != first.registers) {
            report("%s: thread %d has %d registers, thread %d of its warpgroup %d", Text(place(t.registers != 0 ? t.registers_where : first.registers_where)).text, i, t.registers,
                   i / WARPGROUP * WARPGROUP, first.registers);
        }
        sum += t.registers, is_known &= t.registers != 0;
    }
    if (is_known && sum > 65536 && !failed) {
        report("%s: the threads of a block have %d registers, want at most 65536", Text(place(thread_states[rank * threads].registers_where)).text, sum);
    }
}

// ---- late and last ----

bool complete_late(int rank) {
    if (land_late(rank)) {
        return true;
    }
    Fiber* all = &fibers[rank * threads];
    for (int i = 0; i + 32 <= threads && warpSize == 32; i += 32) {
        if (complete_products(all + i) || failed) {
            return !failed;
        }
    }
    for (int i = 0; i < threads; i++) {
        if (all[i].state == ELSEWHERE && all[i].describe == describe_store) {
            complete_stores(all[i]);
            return true;
        }
    }
    return false;
}

void check_thread_end() {
    block_states[self().rank].alive--;
    const ThreadState& t = own_state();
    if (!t.products.empty()) {
        stop("%s: the product was under way when thread %d ended", Text(place(t.products[0].where)).text, thread_of(self()));
    }
    if (!t.stores.empty()) {
        stop("%s: the store was under way when thread %d ended", Text(place(t.stores[0].where)).text, thread_of(self()));
    }
}

void check_cluster_end() {
    if (!loads.empty()) {
        report("%s: the load was under way when block %u ended", Text(place(loads[0].where)).text, blocks[loads[0].rank].index.x);
    }
    for (int rank = 0; rank < cluster && !failed; rank++) {
        check_registers(rank);
        for (int i = 0; i < threads && !failed; i += warpSize) {
            const ThreadState &t = thread_states[rank * threads + i], &first = thread_states[rank * threads + i / WARPGROUP * WARPGROUP];
            if (t.signature != first.signature) {
                report("thread %d has made %llu products, thread %d of its warpgroup %llu or others", i, (unsigned long long)t.issued, i / WARPGROUP * WARPGROUP,
                       (unsigned long long)first.issued);
            }
        }
    }
}

} // namespace sim
