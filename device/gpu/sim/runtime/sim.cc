// The simulator's scheduler: blocks one after another, or the blocks of a cluster
// together, their threads as fibers on stacks of their own. A fiber runs until it has to wait for others; what
// it waits for is resolved here. Whatever a GPU leaves undefined is an error: a
// barrier or a shuffle that not all threads reach, memory that two threads use
// without order between them (if the kernel, but not this file, is compiled with
// -fsanitize=thread, whose hooks stand at the end; the sanitizer's own library is not linked).
//
// tokitai_sim_order shuffles the order of blocks, warps and lanes.
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unordered_map>

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif
#ifdef SIM_ASAN
extern "C" void __sanitizer_start_switch_fiber(void** fake, const void* bottom, size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void* fake, const void** bottom, size_t* size);
extern "C" void __asan_unpoison_memory_region(void const volatile*, size_t);
#endif

#include "scheduler.h" // after the system's headers: it hides what follows

#define SIM_EXPORT extern "C" __attribute__((visibility("default")))

dim3 threadIdx, blockIdx, blockDim, gridDim;
int warpSize;

// is_coordinate reports whether an address is that of a variable above, which only the
// scheduler writes.
static bool is_coordinate(uintptr_t at) {
    auto lies_in = [at](const void* variable, size_t bytes) { return at - reinterpret_cast<uintptr_t>(variable) < bytes; };
    return lies_in(&threadIdx, sizeof(dim3)) || lies_in(&blockIdx, sizeof(dim3)) || lies_in(&blockDim, sizeof(dim3)) || lies_in(&gridDim, sizeof(dim3)) ||
           lies_in(&warpSize, sizeof(int));
}

namespace sim {

// ---- switching stacks ----

// sim_switch keeps what a function call must keep, leaves the stack's address in
// *save and goes on at the stack `to`.
extern "C" SIM_INTERNAL void sim_switch(void** save, void* to);
extern "C" SIM_INTERNAL void sim_start();

#if defined(__x86_64__)
__asm__(R"(
    .text
    .globl sim_switch
    .hidden sim_switch
    .type sim_switch, @function
sim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size sim_switch, .-sim_switch
)");
const int SAVED_WORDS = 7; // six registers and the address to return to
const int RETURN_WORD = 6;
#elif defined(__aarch64__)
__asm__(R"(
    .text
    .globl sim_switch
    .hidden sim_switch
    .type sim_switch, %function
sim_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size sim_switch, .-sim_switch
)");
const int SAVED_WORDS = 20;
const int RETURN_WORD = 11; // x30
#else
#error "the simulator knows x86-64 and arm64"
#endif

// ---- fibers ----

const int MAX_WARPS = MAX_FIBERS / 32;
#ifdef SIM_ASAN
const size_t STACK = 256 << 10;
#else
const size_t STACK = 64 << 10;
#endif

static pthread_mutex_t one_launch = PTHREAD_MUTEX_INITIALIZER;
Fiber fibers[MAX_FIBERS];
Block blocks[MAX_CLUSTER];
Extension extension;
static char* stacks; // of all fibers, in one piece
static int built;    // fibers that have a stack with a beginning on it
static void* scheduler;
int cluster, current, threads, warps;

const Entry* entry;
Bytes parameters;
size_t dynamic_bytes;

bool failed;
static char* message;
static size_t message_bytes;

static uint64_t block_serial; // counts all blocks of this process, from 1

// Times of the race detector: two accesses of a block with a barrier between them
// have different epochs, two of a warp with a warp barrier different warp epochs.
static uint32_t last_epoch, launch_epoch;
static uint32_t warp_epoch[MAX_WARPS];
static bool has_fences; // of this launch: blocks may order their accesses among each other

static Entry* entries;
static Array* arrays; // that have memory

Entry::Entry(const char* name, unsigned bound, unsigned cluster, void (*run)(Bytes))
    : name(name), bound(bound), cluster(cluster), run(run), next(entries) {
    entries = this;
}

#ifdef SIM_ASAN
static const void* caller_bottom;
static size_t caller_size;
#endif

static void to_scheduler() {
#ifdef SIM_ASAN
    void* fake;
    __sanitizer_start_switch_fiber(&fake, caller_bottom, caller_size);
    sim_switch(&fibers[current].sp, scheduler);
    __sanitizer_finish_switch_fiber(fake, &caller_bottom, &caller_size);
#else
    sim_switch(&fibers[current].sp, scheduler);
#endif
}

static void to_fiber(int thread) {
    current = thread;
    threadIdx = fibers[thread].index;
    blockIdx = own_block().index;
#ifdef SIM_ASAN
    void* fake;
    __sanitizer_start_switch_fiber(&fake, stacks + thread * STACK, STACK);
    sim_switch(&scheduler, fibers[thread].sp);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
    sim_switch(&scheduler, fibers[thread].sp);
#endif
}

static void say(const char* format, va_list arguments) {
    if (!failed && message_bytes > 0) {
        vsnprintf(message, message_bytes, format, arguments);
    }
    failed = true;
}

void report(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

void stop(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    to_scheduler();
    abort();
}

// sim_start is where every fiber begins: it runs the kernel, block after block.
extern "C" void sim_start() {
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &caller_bottom, &caller_size);
#endif
    for (;;) {
        entry->run(parameters);
        if (extension.end_thread != nullptr) extension.end_thread();
        fibers[current].state = DONE;
        to_scheduler();
    }
}

const int WATCHED = 64;

static void drop_pages();
static void shrink_pages();

// drop_memory runs when the program is unloaded.
__attribute__((destructor)) static void drop_memory() {
    if (stacks != nullptr) munmap(stacks, STACK * MAX_FIBERS);
    stacks = nullptr;
    for (; arrays != nullptr; arrays = arrays->next) {
        for (void* memory : arrays->memory) {
            free(memory);
        }
    }
    drop_pages();
}

static bool build_fibers(int count) {
    if (stacks == nullptr) {
        void* all = mmap(nullptr, STACK * MAX_FIBERS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (all == MAP_FAILED) {
            report("no memory for the stacks of the simulator");
            return false;
        }
        stacks = static_cast<char*>(all);
    }
    for (; built < count; built++) {
        char* low = stacks + built * STACK;
        // A stack that overflows stops the process. All threads run one program, so it is
        // enough to watch some: a process may have few mappings, and many programs.
        if (built < WATCHED) mprotect(low, getpagesize(), PROT_NONE);
#ifdef SIM_ASAN
        __asan_unpoison_memory_region(low, STACK);
#endif
        void** sp = reinterpret_cast<void**>(low + STACK - 64) - SAVED_WORDS - 1 + (SAVED_WORDS + 1) % 2;
        memset(sp, 0, SAVED_WORDS * sizeof(void*));
        sp[RETURN_WORD] = reinterpret_cast<void*>(sim_start);
        fibers[built].sp = sp;
    }
    return true;
}

// ---- what kernels call ----

void check_size(unsigned long got, unsigned long want) {
    if (got != want) {
        stop("%s: got %lu bytes of parameters, want %lu", entry->name, got, want);
    }
}

static bool line_of(const void* pc, char* text, size_t size);

Text::Text(const Place& p) {
    const char* name = strrchr(p.file, '/');
    name = name == nullptr ? p.file : name + 1;
    if (strcmp(name, "prelude.h") != 0 || !line_of(p.pc, text, sizeof(text))) {
        snprintf(text, sizeof(text), "%s:%d", name, p.line);
    }
}

static void wait(State state, const Place& place) {
    fibers[current].state = state;
    fibers[current].place = place;
    to_scheduler();
}

#define SIM_PC __builtin_return_address(0)

void barrier(const char* file, int line) { wait(AT_BARRIER, {file, line, SIM_PC}); }

// Warp is a warp of the blocks that run together, by its number among them.
struct Warp {
    Fiber* lanes;
    int count; // of lanes: the last warp of a block may be cut off
    explicit Warp(int number) {
        int rank = number / warps, first = number % warps * warpSize;
        lanes = &fibers[rank * threads + first];
        count = threads - first < warpSize ? threads - first : warpSize;
    }
    uint64_t existing() const { return count == 64 ? ~0ull : (1ull << count) - 1; }
};

static int warp_of(const Fiber& f) { return f.rank * warps + thread_of(f) / warpSize; }

static void wait_in_warp(State state, uint64_t mask, const Place& place) {
    Fiber& f = self();
    int lane = thread_of(f) % warpSize;
    if (!(mask >> lane & 1)) {
        stop("%s: lane %d is not in its own mask %llx (warp of %d)", Text(place).text, lane, (unsigned long long)mask, warpSize);
    }
    f.mask = mask & Warp(warp_of(f)).existing();
    wait(state, place);
}

void together(Collective collective, void* operands, const Place& place) {
    self().collective = collective, self().operands = operands;
    wait_in_warp(AT_COLLECTIVE, ALL_LANES, place);
}

void wait_elsewhere(bool (*passes)(const Fiber&), void (*describe)(const Fiber&, char*, size_t), void* operands, const Place& place) {
    self().passes = passes, self().describe = describe, self().operands = operands;
    wait(ELSEWHERE, place);
}

void warp_barrier(unsigned long long mask, const char* file, int line) { wait_in_warp(AT_WARP_BARRIER, mask, {file, line, SIM_PC}); }

unsigned long long shuffle(Shuffle kind, unsigned long long mask, unsigned long long value, int distance, int width, const char* file, int line) {
    if (width < 1 || width > warpSize || (width & (width - 1)) != 0) {
        stop("%s: shuffle of width %d in a warp of %d", Text({file, line, SIM_PC}).text, width, warpSize);
    }
    Fiber& f = fibers[current];
    f.kind = kind, f.value = value, f.distance = distance, f.width = width;
    wait_in_warp(AT_SHUFFLE, mask, {file, line, SIM_PC});
    return f.value;
}

unsigned long long ballot(unsigned long long mask, bool predicate, const char* file, int line) {
    fibers[current].value = predicate;
    wait_in_warp(AT_BALLOT, mask, {file, line, SIM_PC});
    return fibers[current].value;
}

static void forget(const void* at, size_t bytes);

void* shared_array(Array* array, unsigned long bytes) {
    int rank = self().rank;
    if (array->bytes == 0) {
        array->address = arrays == nullptr ? STATIC_ADDRESS : arrays->address + (unsigned)(arrays->bytes + 15) / 16 * 16;
        array->bytes = bytes, array->next = arrays, arrays = array;
    }
    void*& memory = array->memory[rank];
    if (memory == nullptr) {
        memory = malloc(bytes);
        if (memory == nullptr) {
            stop("%s: no memory for %lu bytes of shared memory", entry->name, bytes);
        }
    }
    if (array->block[rank] != own_block().serial) {
        array->block[rank] = own_block().serial;
        memset(memory, 0xff, bytes);
        forget(memory, bytes);
    }
    return memory;
}

void* dynamic_shared() { return own_block().dynamic; }

unsigned address_of(const void* pointer) {
    auto offset_in = [&](const void* memory, size_t bytes, uintptr_t& offset) {
        offset = reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(memory);
        return memory != nullptr && offset < bytes;
    };
    uintptr_t offset;
    if (offset_in(own_block().dynamic, dynamic_bytes, offset)) {
        return DYNAMIC_ADDRESS + (unsigned)offset;
    }
    for (const Array* a = arrays; a != nullptr; a = a->next) {
        if (offset_in(a->memory[self().rank], a->bytes, offset)) {
            return a->address + (unsigned)offset;
        }
    }
    return 0;
}

unsigned char* memory_at(int rank, unsigned address, size_t bytes) {
    auto lies_in = [&](unsigned begin, size_t size) { return address >= begin && address - begin + bytes <= size; };
    if (lies_in(DYNAMIC_ADDRESS, dynamic_bytes)) {
        return blocks[rank].dynamic + (address - DYNAMIC_ADDRESS);
    }
    for (const Array* a = arrays; a != nullptr; a = a->next) {
        if (a->memory[rank] != nullptr && lies_in(a->address, a->bytes)) {
            return static_cast<unsigned char*>(a->memory[rank]) + (address - a->address);
        }
    }
    return nullptr;
}

void new_epoch(Block& block) { block.epoch = ++last_epoch; }

// ---- the scheduler ----

// Order visits 0..n-1 in an order that the seed decides; seed 0 leaves it.
struct Order {
    uint64_t n, step, first;
    static uint64_t seed;

    static uint64_t random() {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        return seed >> 8;
    }
    explicit Order(uint64_t n) : n(n), step(1), first(0) {
        if (seed == 0 || n < 2) {
            return;
        }
        first = random() % n;
        for (step = random() % n; gcd(step, n) != 1;) {
            step = (step + 1) % n;
        }
    }
    static uint64_t gcd(uint64_t a, uint64_t b) { return b == 0 ? a : gcd(b, a % b); }
    uint64_t operator[](uint64_t i) const { return step == 1 ? (i + first) % n : (uint64_t)(((unsigned __int128)i * step + first) % n); }
};
uint64_t Order::seed;

uint64_t random_below(uint64_t n) { return Order::seed == 0 ? 0 : Order::random() % n; }

static const char* verb(const Fiber& f) {
    switch (f.state) {
    case AT_BARRIER: return "waits at the barrier";
    case AT_WARP_BARRIER: return "waits at the warp barrier";
    case AT_SHUFFLE: return "waits at the shuffle";
    case AT_BALLOT: return "waits at the ballot";
    case AT_COLLECTIVE: return "waits at the instruction of its warp";
    case ELSEWHERE: return "waits";
    default: return "has ended";
    }
}

static const char* noun(State s) {
    return s == AT_SHUFFLE ? "shuffle" : s == AT_BALLOT ? "ballot" : s == AT_COLLECTIVE ? "instruction" : "warp barrier";
}

// counts_as_there reports whether a thread that has ended need not come any more.
static bool counts_as_there(const Fiber& f) { return f.state == DONE && extension.ended_threads_count; }

static bool waits_in_warp(const Fiber& f) { return f.state >= AT_WARP_BARRIER && f.state <= AT_COLLECTIVE; }

static bool waits_with(const Fiber& f, const Fiber& o) {
    return f.state == o.state && f.mask == o.mask && f.place == o.place && (f.state != AT_COLLECTIVE || f.collective == o.collective);
}

// exchange gives every lane of a shuffle its value. A lane whose source lies outside
// its group keeps its own.
static void exchange(Fiber* lanes, uint64_t mask) {
    uint64_t given[64];
    for (int i = 0; i < warpSize; i++) {
        given[i] = mask >> i & 1 ? lanes[i].value : 0;
    }
    for (int i = 0; i < warpSize; i++) {
        if (!(mask >> i & 1)) {
            continue;
        }
        Fiber& f = lanes[i];
        int base = i & ~(f.width - 1), from = i;
        switch (f.kind) {
        case DOWN: from = i + f.distance; break;
        case UP: from = i - f.distance; break;
        case XOR: from = i ^ f.distance; break;
        case IDX: from = base + (f.distance & (f.width - 1)); break;
        }
        if (from < base || from >= base + f.width) {
            from = i;
        }
        if (!(mask >> from & 1)) {
            report("divergent shuffle at %s: lane %d reads lane %d, which takes no part", Text(f.place).text, i, from);
            return;
        }
        f.value = given[from];
    }
}

// resolve completes what the lanes of a warp wait for together, and reports whether a
// lane can go on.
static bool resolve(int number) {
    Warp warp(number);
    Fiber* lanes = warp.lanes;
    int n = warp.count;
    bool moved = false;
    for (int i = 0; i < n && !failed; i++) {
        Fiber& f = lanes[i];
        if (!waits_in_warp(f)) {
            continue;
        }
        uint64_t present = 0, votes = 0, mask = f.mask;
        for (int j = 0; j < n; j++) {
            if (waits_with(lanes[j], f)) {
                present |= 1ull << j;
                votes |= (uint64_t)(lanes[j].value & 1) << j;
            } else if (counts_as_there(lanes[j])) {
                mask &= ~(1ull << j);
            }
        }
        if ((present & mask) != mask) {
            continue;
        }
        if (f.state == AT_SHUFFLE) {
            exchange(lanes, mask);
        }
        if (f.state == AT_WARP_BARRIER) {
            warp_epoch[number]++;
        }
        if (f.state == AT_COLLECTIVE) {
            f.collective(lanes, n);
        }
        bool is_ballot = f.state == AT_BALLOT;
        for (int j = 0; j < n; j++) {
            if (mask >> j & 1) {
                lanes[j].state = READY;
                if (is_ballot) {
                    lanes[j].value = votes;
                }
            }
        }
        moved = true;
    }
    return moved;
}

// check_warp reports lanes that wait for lanes of their warp that will not come.
static void check_warp(const Warp& warp) {
    Fiber* lanes = warp.lanes;
    for (int i = 0; i < warp.count; i++) {
        Fiber& f = lanes[i];
        if (!waits_in_warp(f)) {
            continue;
        }
        uint64_t present = 0;
        int other = -1;
        for (int j = 0; j < warp.count; j++) {
            if (waits_with(lanes[j], f)) {
                present |= 1ull << j;
            } else if (f.mask >> j & 1 && other < 0 && !counts_as_there(lanes[j])) {
                other = j;
            }
        }
        const Fiber& o = lanes[other];
        const char* what = o.state == DONE || o.state == AT_BARRIER ? "divergent" : "deadlock:";
        if (o.state == DONE) {
            report("%s %s at %s: lanes %llx of %llx arrived, lane %d has ended", what, noun(f.state), Text(f.place).text,
                   (unsigned long long)present, (unsigned long long)f.mask, other);
        } else {
            report("%s %s at %s: lanes %llx of %llx arrived, lane %d %s at %s", what, noun(f.state), Text(f.place).text,
                   (unsigned long long)present, (unsigned long long)f.mask, other, verb(o), Text(o.place).text);
        }
        return;
    }
}

// run_warp runs the lanes of a warp until none can go on without other warps, and reports
// whether any has run.
static bool run_warp(int number) {
    Warp warp(number);
    bool has_run = false;
    Order order(warp.count);
    do {
        for (int i = 0; i < warp.count; i++) {
            Fiber& f = warp.lanes[order[i]];
            if (f.state == READY) {
                has_run = true;
                to_fiber((int)(&f - fibers));
                if (failed) {
                    return true;
                }
            }
        }
    } while (resolve(number));
    return has_run;
}

// open_barrier lets all threads of a block pass, if all have come to the same barrier.
static bool open_barrier(int rank) {
    Fiber *all = &fibers[rank * threads], *first = nullptr;
    for (int i = 0; i < threads; i++) {
        if (counts_as_there(all[i])) {
            continue;
        }
        if (first == nullptr) first = &all[i];
        if (all[i].state != AT_BARRIER || all[i].place != first->place) {
            return false;
        }
    }
    if (first == nullptr) {
        return false;
    }
    for (int i = 0; i < threads; i++) {
        if (all[i].state == AT_BARRIER) all[i].state = READY;
    }
    new_epoch(blocks[rank]);
    return true;
}

// pass_elsewhere lets threads of a block go on for which what they wait for has come.
static bool pass_elsewhere(int rank) {
    bool has_passed = false;
    for (int i = 0; i < threads; i++) {
        Fiber& f = fibers[rank * threads + i];
        if (f.state == ELSEWHERE && f.passes != nullptr && f.passes(f)) {
            f.state = READY, has_passed = true;
        }
    }
    return has_passed;
}

// check_barrier reports threads of a block that do not meet at one barrier.
static void check_barrier(int rank) {
    const Fiber* all = &fibers[rank * threads];
    int waiting = 0, ended = 0, first = -1, elsewhere = -1;
    for (int i = 0; i < threads; i++) {
        if (all[i].state == DONE) {
            ended++;
        }
        if (all[i].state != AT_BARRIER) {
            continue;
        }
        waiting++;
        if (first < 0) {
            first = i;
        } else if (elsewhere < 0 && all[i].place != all[first].place) {
            elsewhere = i;
        }
    }
    if (waiting == 0) {
        return;
    }
    const Place& p = all[first].place;
    if (elsewhere >= 0) {
        report("barrier divergence: thread %d waits at %s, thread %d at %s", first, Text(p).text, elsewhere, Text(all[elsewhere].place).text);
    } else if (ended > 0) {
        report("barrier divergence at %s: %d threads wait, %d have ended", Text(p).text, waiting, ended);
    }
}

// check_end reports why a cluster does not go on, unless all of its threads have ended.
static void check_end() {
    for (int w = 0; w < cluster * warps && !failed; w++) {
        check_warp(Warp(w));
    }
    for (int rank = 0; rank < cluster && !failed; rank++) {
        check_barrier(rank);
    }
    for (int i = 0; i < cluster * threads && !failed; i++) {
        const Fiber& f = fibers[i];
        if (f.state == ELSEWHERE) {
            char what[400];
            f.describe(f, what, sizeof(what));
            report("deadlock: thread %d of block %u waits at %s for %s", thread_of(f), blocks[f.rank].index.x, Text(f.place).text, what);
        }
    }
}

// run_block runs the threads of a block until none can go on without other blocks, and
// reports whether any has run. So a block of a cluster is as far ahead of others as it may be.
static bool run_block(int rank) {
    bool has_run = false;
    do {
        Order order(warps);
        for (int w = 0; w < warps; w++) {
            has_run |= run_warp(rank * warps + (int)order[w]);
            if (failed) {
                return true;
            }
        }
    } while (open_barrier(rank) || pass_elsewhere(rank));
    return has_run;
}

static void run_cluster() {
    for (int rank = 0; rank < cluster; rank++) {
        Block& b = blocks[rank];
        b.serial = ++block_serial;
        new_epoch(b);
        if (dynamic_bytes > 0) {
            memset(b.dynamic, 0xff, dynamic_bytes);
            forget(b.dynamic, dynamic_bytes);
        }
    }
    for (int i = 0; i < cluster * threads; i++) {
        fibers[i].state = READY;
    }
    if (extension.begin != nullptr) extension.begin();
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        Order ranks(cluster);
        for (int i = 0; i < cluster && !failed; i++) {
            goes_on |= run_block((int)ranks[i]);
        }
        for (int i = 0; i < cluster && !goes_on && extension.complete_late != nullptr; i++) {
            goes_on = extension.complete_late((int)ranks[i]);
        }
        if (failed) {
            return;
        }
    }
    check_end();
    if (!failed && extension.end != nullptr) extension.end();
}

static void run_grid(const unsigned grid[3]) {
    uint64_t clusters = (uint64_t)grid[0] * grid[1] * grid[2] / cluster;
    Order order(clusters);
    for (uint64_t i = 0; i < clusters && !failed; i++) {
        for (int rank = 0; rank < cluster; rank++) { // a cluster's blocks are neighbours in x
            uint64_t b = order[i] * cluster + rank;
            blocks[rank].index = {(unsigned)(b % grid[0]), (unsigned)(b / grid[0] % grid[1]), (unsigned)(b / grid[0] / grid[1])};
        }
        run_cluster();
    }
}

static int launch(const char* name, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes, Bytes bytes, unsigned warp) {
    uint64_t count = (uint64_t)block[0] * block[1] * block[2];
    for (entry = entries; entry != nullptr && strcmp(entry->name, name) != 0; entry = entry->next) {
    }
    if (entry == nullptr) {
        report("no kernel named %s", name);
    } else if (warp != 32 && warp != 64) {
        report("%s: got a warp of %u lanes, want 32 or 64", name, warp);
    } else if (count == 0 || count > MAX_THREADS || count > entry->bound) {
        report("%s: got a block of %u×%u×%u threads, want 1 to %u", name, block[0], block[1], block[2], entry->bound);
    } else if ((uint64_t)grid[0] * grid[1] * grid[2] == 0) {
        report("%s: got a grid of %u×%u×%u blocks, want 1 at least", name, grid[0], grid[1], grid[2]);
    } else if (entry->cluster < 1 || entry->cluster > MAX_CLUSTER || entry->cluster * count > MAX_FIBERS) {
        report("%s: got clusters of %u blocks of %u threads, want at most %d blocks and %d threads", name, entry->cluster, (unsigned)count, MAX_CLUSTER, MAX_FIBERS);
    } else if (grid[0] % entry->cluster != 0) {
        report("%s: got a grid of %u blocks along x, want a multiple of the cluster's %u", name, grid[0], entry->cluster);
    }
    if (failed || !build_fibers((int)(count * entry->cluster))) {
        return 1;
    }
    cluster = (int)entry->cluster;
    threads = (int)count, warpSize = (int)warp, warps = (threads + warpSize - 1) / warpSize;
    for (unsigned i = 0; i < count * cluster; i++) {
        unsigned t = i % (unsigned)count;
        fibers[i].index = {t % block[0], t / block[0] % block[1], t / block[0] / block[1]};
        fibers[i].rank = (int)(i / count);
    }
    gridDim = {grid[0], grid[1], grid[2]}, blockDim = {block[0], block[1], block[2]};
    parameters = bytes;
    dynamic_bytes = shared_bytes;
    for (int rank = 0; rank < cluster && shared_bytes > 0; rank++) {
        // Aligned to 16 bytes, as on a GPU: kernels move four words at once.
        blocks[rank].dynamic = static_cast<unsigned char*>(malloc(shared_bytes));
        if (blocks[rank].dynamic == nullptr) {
            report("%s: no memory for %u bytes of shared memory", name, shared_bytes);
        }
    }
    launch_epoch = ++last_epoch, has_fences = false;
    if (!failed) {
        run_grid(grid);
    }
    for (Block& b : blocks) {
        free(b.dynamic);
        b.dynamic = nullptr;
    }
    shrink_pages();
    if (failed) {
        built = 0; // fibers that never ended are begun anew
    }
    return failed;
}

} // namespace sim

// tokitai_sim_launch runs a kernel to its end and returns 0, or writes what went
// wrong to message. Launches of one library exclude each other.
SIM_EXPORT int tokitai_sim_launch(const char* name, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes, const void* parameters,
                                  unsigned long parameter_bytes, unsigned warp, char* message, unsigned long message_bytes) {
    pthread_mutex_lock(&sim::one_launch);
    sim::failed = false, sim::message = message, sim::message_bytes = message_bytes;
    int result = sim::launch(name, grid, block, shared_bytes, sim::Bytes{parameters, parameter_bytes}, warp);
    pthread_mutex_unlock(&sim::one_launch);
    return result;
}

// tokitai_sim_order sets the seed of the order of blocks, warps and lanes; with 0 it is
// ascending.
SIM_EXPORT void tokitai_sim_order(unsigned long seed) {
    pthread_mutex_lock(&sim::one_launch);
    sim::Order::seed = seed * 0x9e3779b97f4a7c15u;
    pthread_mutex_unlock(&sim::one_launch);
}

// ---- the race detector ----

namespace sim {

// Cells are two bytes, the smallest element: neighbours of a word may have different
// owners. A cell remembers its last write and its last reads.
enum Spread : unsigned char { NOBODY, THREAD, WARP, BLOCK, GRID };

struct Access {
    const void* pc;
    uint64_t block;
    uint32_t epoch, warp_epoch;
    short thread;
    bool atomic;
    int line; // 0, or that of an access of the runtime, whose pc is the name of a file

    bool is_same_thread(const Access& o) const { return thread == o.thread && block == o.block; }
};

// History is what is remembered of the accesses of one kind. They may have been many,
// with no order between them; two are remembered.
struct History {
    Spread spread; // of those that have no order with the latest, and of that one
    Access latest, other;
};

struct Cell {
    History write, read;
};

const int PAGE = 4096;
struct Page {
    Cell cells[PAGE / 2];
};

static std::unordered_map<uintptr_t, Page*>* pages; // of any order of construction
static const size_t KEPT_PAGES = 64;                // after a launch

// The last pages, each where its key belongs.
const int RECENT = 64;
static struct {
    uintptr_t key; // plus one
    Page* page;
} recent[RECENT];

static Cell* cell_at(uintptr_t at) {
    uintptr_t key = at / PAGE;
    auto& slot = recent[key % RECENT];
    if (slot.key != key + 1) {
        if (pages == nullptr) {
            pages = new std::unordered_map<uintptr_t, Page*>;
        }
        Page*& p = (*pages)[key];
        if (p == nullptr) {
            p = static_cast<Page*>(calloc(1, sizeof(Page)));
        }
        slot.key = key + 1, slot.page = p;
    }
    return &slot.page->cells[at % PAGE / 2];
}

// forget drops what is known of memory that begins anew.
static void forget(const void* at, size_t bytes) {
    if (pages == nullptr) {
        return;
    }
    for (uintptr_t a = reinterpret_cast<uintptr_t>(at) & ~(uintptr_t)1, end = reinterpret_cast<uintptr_t>(at) + bytes; a < end; a += 2) {
        memset(cell_at(a), 0, sizeof(Cell));
    }
}

static void drop_pages() {
    if (pages != nullptr) {
        for (auto& page : *pages) {
            free(page.second);
        }
    }
    delete pages;
    pages = nullptr;
    memset(recent, 0, sizeof(recent));
}

// shrink_pages gives memory back when a launch, after which nothing matters, took much.
static void shrink_pages() {
    if (pages != nullptr && pages->size() > KEPT_PAGES) {
        drop_pages();
    }
}

// is_ordered reports whether an earlier access comes before the present one in every
// order of execution. spread is who else has done the same at that time.
static bool is_ordered(const Access& was, Spread spread, const Access& now) {
    if (spread == NOBODY || was.epoch < launch_epoch) {
        return true;
    }
    if (was.block != now.block || spread == GRID) {
        return has_fences;
    }
    if (was.epoch != now.epoch) {
        return true;
    }
    if (spread == BLOCK) {
        return false;
    }
    if (spread == THREAD && was.thread == now.thread) {
        return true;
    }
    return was.thread / warpSize == now.thread / warpSize && was.warp_epoch != now.warp_epoch;
}

static bool is_ordered(const History& was, const Access& now) { return is_ordered(was.latest, was.spread, now); }

// add lets an access stand for the earlier ones too. Of these it remembers one of
// another thread, from as far away as there was any.
static void add(History& h, const Access& now) {
    Spread spread = THREAD;
    if (!is_ordered(h, now)) {
        if (h.latest.block != now.block || h.spread == GRID) {
            spread = GRID;
        } else {
            spread = h.spread == BLOCK || h.latest.thread / warpSize != now.thread / warpSize ? BLOCK : WARP;
        }
        if (spread > h.spread || h.other.is_same_thread(now)) {
            h.other = h.latest;
        }
    }
    h.spread = spread, h.latest = now;
}

static bool in_race; // a race is being reported

void fence() { has_fences = true; }

void renew(void* at, size_t bytes) {
    memset(at, 0xff, bytes);
    forget(at, bytes);
}

void source_line(const void* pc, int line, char* text, size_t size) {
    if (line > 0) {
        const char* file = static_cast<const char*>(pc);
        const char* name = strrchr(file, '/');
        snprintf(text, size, "%s:%d", name == nullptr ? file : name + 1, line);
    } else if (!line_of(pc, text, size)) {
        snprintf(text, size, "an unknown line");
    }
}

static void line_of(const Access& a, char* text, size_t size) { source_line(a.pc, a.line, text, size); }

// race reports an access that has no order with earlier ones, and names one of them.
static void race(const History& was, const char* earlier, const Access& now, const char* later, const void* at) {
    const Access* named = nullptr;
    if (!is_ordered(was.latest, THREAD, now)) {
        named = &was.latest;
    } else if (was.spread > THREAD && !is_ordered(was.other, THREAD, now)) {
        named = &was.other;
    }
    char who[300] = "by other threads", line[256], memory[128];
    snprintf(memory, sizeof(memory), "at %p", at);
    if (extension.describe != nullptr) extension.describe(at, memory, sizeof(memory));
    in_race = true;
    if (named != nullptr) {
        line_of(*named, line, sizeof(line));
        snprintf(who, sizeof(who), "by thread %d%s at %s", named->thread, named->block != now.block ? " of another block" : "", line);
    }
    line_of(now, line, sizeof(line));
    in_race = false;
    stop("race %s: %s %s, %s by thread %d at %s", memory, earlier, who, later, now.thread, line);
}

static void access(const void* at, size_t bytes, bool is_write, bool is_atomic, const void* pc, int line) {
    uintptr_t a = reinterpret_cast<uintptr_t>(at);
    if (is_coordinate(a) || entry == nullptr || in_race || failed || a - reinterpret_cast<uintptr_t>(stacks) < STACK * MAX_FIBERS) {
        return;
    }
    if (extension.access != nullptr) extension.access(at, bytes, is_write, pc, line);
    const Fiber& f = self();
    Access now{pc, own_block().serial, own_block().epoch, warp_epoch[warp_of(f)], (short)thread_of(f), is_atomic, line};
    const char* what = is_atomic ? "atomic update" : is_write ? "written" : "read";
    for (uintptr_t end = a + bytes, i = a & ~(uintptr_t)1; i < end; i += 2) {
        Cell* c = cell_at(i);
        bool was_atomic = c->write.latest.atomic;
        if (!(is_atomic && was_atomic) && !is_ordered(c->write, now)) {
            race(c->write, was_atomic ? "atomic update" : "written", now, what, at);
        }
        if (is_write && !is_ordered(c->read, now)) {
            race(c->read, "read", now, what, at);
        }
        add(is_write ? c->write : c->read, now);
    }
}

static bool instrumented; // the kernel file calls the hooks below

void atomic_access(const void* at, unsigned bytes, const char* file, int line) {
    if (instrumented) {
        access(at, bytes, true, true, file, line);
    }
}

void memory_access(const void* at, size_t bytes, bool is_write, const char* file, int line) {
    if (instrumented) {
        access(at, bytes, is_write, false, file, line);
    }
}

} // namespace sim

#define SIM_HOOK SIM_INTERNAL __attribute__((used)) void
#define SIM_HOOKS(BYTES)                                                                                                 \
    SIM_HOOK __tsan_read##BYTES(void* at) { sim::access(at, BYTES, false, false, SIM_PC, 0); }                           \
    SIM_HOOK __tsan_write##BYTES(void* at) { sim::access(at, BYTES, true, false, SIM_PC, 0); }                           \
    SIM_HOOK __tsan_unaligned_read##BYTES(void* at) { sim::access(at, BYTES, false, false, SIM_PC, 0); }                 \
    SIM_HOOK __tsan_unaligned_write##BYTES(void* at) { sim::access(at, BYTES, true, false, SIM_PC, 0); }
extern "C" {
SIM_HOOKS(1)
SIM_HOOKS(2)
SIM_HOOKS(4)
SIM_HOOKS(8)
SIM_HOOKS(16)
SIM_HOOK __tsan_read_range(void* at, unsigned long bytes) { sim::access(at, bytes, false, false, SIM_PC, 0); }
SIM_HOOK __tsan_write_range(void* at, unsigned long bytes) { sim::access(at, bytes, true, false, SIM_PC, 0); }
SIM_HOOK* __tsan_memcpy(void* to, const void* from, unsigned long bytes) {
    sim::access(from, bytes, false, false, SIM_PC, 0);
    sim::access(to, bytes, true, false, SIM_PC, 0);
    return memcpy(to, from, bytes);
}
SIM_HOOK* __tsan_memset(void* to, int value, unsigned long bytes) {
    sim::access(to, bytes, true, false, SIM_PC, 0);
    return memset(to, value, bytes);
}
SIM_HOOK __tsan_func_entry(void*) {}
SIM_HOOK __tsan_func_exit() {}
SIM_HOOK __tsan_init() { sim::instrumented = true; }
}

// line_of finds the source line of a call, of those that are inlined into each other the
// first of the kernel's own.
static bool sim::line_of(const void* pc, char* text, size_t size) {
    Dl_info module;
    if (dladdr(pc, &module) == 0 || module.dli_fname == nullptr) {
        return false;
    }
    char command[1024];
    uintptr_t at = reinterpret_cast<uintptr_t>(pc) - 1 - reinterpret_cast<uintptr_t>(module.dli_fbase);
    snprintf(command, sizeof(command), "addr2line -i -e '%s' 0x%lx 2>/dev/null", module.dli_fname, (unsigned long)at);
    FILE* pipe = popen(command, "r");
    if (pipe == nullptr) {
        return false;
    }
    bool is_found = false;
    for (char found[512]; !is_found && fgets(found, sizeof(found), pipe) != nullptr;) {
        found[strcspn(found, " \n")] = 0;
        const char* name = strrchr(found, '/');
        name = name == nullptr ? found : name + 1;
        is_found = name[0] != '?' && strncmp(name, "prelude.h:", 10) != 0 && strncmp(name, "sim.h:", 6) != 0 && strncmp(name, "tokitai_cuda.h:", 15) != 0;
        snprintf(text, size, "%s", name);
    }
    pclose(pipe);
    return is_found;
}

// ---- a program of its own ----

#ifdef TOKITAI_SIM_MAIN

// main runs the launches of a file and writes the buffers to another. Integers are
// little-endian words of eight bytes. The file holds the warp width, the seed of the order
// and the number of buffers; each buffer's size and bytes; one more than the number of the
// buffer that is a table, or 0; the number of launches; and each launch's length of name,
// name, grid, block, shared bytes, size of parameters and parameters. Buffer i counts as if
// it lay at (i+1)·2^40: words of the parameters and of the table that point there are moved.
// The table is read only, and is written to the results as it was.
static FILE* input;

static uint64_t word() {
    uint64_t w = 0;
    if (fread(&w, sizeof(w), 1, input) != 1) {
        fprintf(stderr, "sim: the description ends too early\n");
        exit(2);
    }
    return w;
}

static void* bytes(uint64_t n) {
    void* b = malloc(n);
    if (n > 0 && (b == nullptr || fread(b, 1, n, input) != n)) {
        fprintf(stderr, "sim: the description ends too early\n");
        exit(2);
    }
    return b;
}

static uint64_t buffers;
static uint64_t* sizes;
static char** data;

// Moves words that point to buffers to where the buffers are.
static void move_words(char* words, uint64_t size) {
    for (uint64_t at = 0; at + 8 <= size; at += 8) {
        uint64_t w;
        memcpy(&w, words + at, 8);
        uint64_t buffer = (w >> 40) - 1, offset = w & ((1ull << 40) - 1);
        if (w >> 40 != 0 && buffer < buffers && offset <= sizes[buffer]) {
            w = reinterpret_cast<uint64_t>(data[buffer]) + offset;
            memcpy(words + at, &w, 8);
        }
    }
}

int main(int argc, char** argv) {
    if (argc != 3 || (input = fopen(argv[1], "rb")) == nullptr) {
        fprintf(stderr, "usage: %s description results\n", argv[0]);
        return 2;
    }
    unsigned warp = (unsigned)word();
    tokitai_sim_order(word());
    buffers = word();
    sizes = static_cast<uint64_t*>(malloc(buffers * sizeof(uint64_t)));
    data = static_cast<char**>(malloc(buffers * sizeof(char*)));
    for (uint64_t i = 0; i < buffers; i++) {
        sizes[i] = word();
        data[i] = static_cast<char*>(bytes(sizes[i]));
    }
    uint64_t table = word() - 1;
    char *unmoved = nullptr, *moved = nullptr;
    if (table < buffers) {
        unmoved = static_cast<char*>(malloc(sizes[table]));
        moved = static_cast<char*>(malloc(sizes[table]));
        memcpy(unmoved, data[table], sizes[table]);
        move_words(data[table], sizes[table]);
        memcpy(moved, data[table], sizes[table]);
    }
    for (uint64_t launches = word(); launches > 0; launches--) {
        uint64_t length = word();
        char* name = static_cast<char*>(malloc(length + 1));
        char* text = static_cast<char*>(bytes(length));
        memcpy(name, text, length);
        name[length] = 0;
        unsigned grid[3], block[3];
        for (unsigned& g : grid) {
            g = (unsigned)word();
        }
        for (unsigned& b : block) {
            b = (unsigned)word();
        }
        unsigned shared = (unsigned)word();
        uint64_t size = word();
        char* parameters = static_cast<char*>(bytes(size));
        move_words(parameters, size);
        char message[1024];
        if (tokitai_sim_launch(name, grid, block, shared, parameters, size, warp, message, sizeof(message)) != 0) {
            fprintf(stderr, "sim: %s\n", message);
            return 3;
        }
        free(text), free(name), free(parameters);
    }
    if (table < buffers) {
        if (memcmp(data[table], moved, sizes[table]) != 0) {
            fprintf(stderr, "sim: a kernel has written to the table\n");
            return 3;
        }
        memcpy(data[table], unmoved, sizes[table]);
    }
    FILE* output = fopen(argv[2], "wb");
    for (uint64_t i = 0; output != nullptr && i < buffers; i++) {
        fwrite(data[i], 1, sizes[i], output);
    }
    return output != nullptr && fclose(output) == 0 ? 0 : 2;
}

#endif
