// The bounds of kernels that were written elsewhere: every access of the kernel's own code is
// held to the operands of the launch, to shared memory and to the program's own variables,
// before it is made.
//
// The parameters of a launch are the number of argument bytes, the arguments, the number of
// regions, and the regions.
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "scheduler.h"

// The shared memory whose size the launch gives. The kernel's declarations of it are bound to
// this name.
extern "C" {
SIM_INTERNAL alignas(1024) unsigned char tokitai_dynamic_shared[232448];
}

namespace sim {

// Region is memory that a kernel may use. Rows of it may be apart.
struct Region {
    uint64_t begin, end;
    uint64_t row, stride; // bytes
    uint64_t element;     // bytes
    uint64_t is_writable;
    char name[32];

    bool has(uintptr_t at, size_t bytes) const { return at >= begin && at < end && bytes <= end - at; }
    bool is_in_row(uintptr_t at, size_t bytes) const { return stride == row || (at - begin) % stride + bytes <= row; }
};

static const Region* regions;
static uint64_t region_count;
static uintptr_t image_begin, image_end; // of the program's segments
static uintptr_t shared_begin, shared_end;
static __thread volatile char shared_anchor; // in the memory of shared variables
static volatile char* known_anchor;         // of the thread that ran the last block

static int find_image(dl_phdr_info* info, size_t, void*) {
    uintptr_t own = reinterpret_cast<uintptr_t>(&tokitai_dynamic_shared), low = ~(uintptr_t)0, high = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto& header = info->dlpi_phdr[i];
        if (header.p_type == PT_LOAD) {
            uintptr_t begin = info->dlpi_addr + header.p_vaddr, end = begin + header.p_memsz;
            low = begin < low ? begin : low, high = end > high ? end : high;
        }
    }
    if (own < low || own >= high) {
        return 0;
    }
    image_begin = low, image_end = high;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto& header = info->dlpi_phdr[i];
        if (header.p_type == PT_TLS) {
            shared_begin = reinterpret_cast<uintptr_t>(info->dlpi_tls_data), shared_end = shared_begin + header.p_memsz;
        }
    }
    return 1;
}

// begin prepares a block: shared memory is NaN in every format.
static void begin() {
    if (parameters.size >= 16) {
        const unsigned char* data = static_cast<const unsigned char*>(parameters.data);
        uint64_t arguments;
        memcpy(&arguments, data, 8);
        memcpy(&region_count, data + 8 + arguments, 8);
        regions = reinterpret_cast<const Region*>(data + 16 + arguments);
    }
    shared_anchor = 0; // makes the memory of this thread
    if (&shared_anchor != known_anchor) {
        dl_iterate_phdr(find_image, nullptr);
        known_anchor = &shared_anchor;
    }
    if (shared_begin != 0) renew(reinterpret_cast<void*>(shared_begin), shared_end - shared_begin);
    renew(tokitai_dynamic_shared, dynamic_bytes < sizeof(tokitai_dynamic_shared) ? dynamic_bytes : sizeof(tokitai_dynamic_shared));
}

// place is where an access is: thread, block and line.
struct Where {
    char text[400];
    Where(const void* pc, int line) {
        char at[256];
        source_line(pc, line, at, sizeof(at));
        snprintf(text, sizeof(text), "by thread (%u,%u,%u) of block (%u,%u,%u) at %s", threadIdx.x, threadIdx.y, threadIdx.z, blockIdx.x, blockIdx.y,
                 blockIdx.z, at);
    }
};

static void refuse(uintptr_t at, size_t bytes, bool is_write, const void* pc, int line) {
    const char* verb = is_write ? "writes" : "reads";
    Where where(pc, line);
    if (at < 4096) {
        stop("out of bounds: %s %zu bytes at address %zu, through a null pointer, %s", verb, bytes, (size_t)at, where.text);
    }
    uintptr_t dynamic = reinterpret_cast<uintptr_t>(&tokitai_dynamic_shared);
    const uintptr_t NEAR = 1 << 16;
    if (at + bytes > dynamic && at < dynamic + sizeof(tokitai_dynamic_shared) + NEAR) {
        stop("out of bounds: %s %zu bytes at offset %zu of the dynamic shared memory, of which the launch has %zu, %s", verb, bytes, (size_t)(at - dynamic),
             dynamic_bytes, where.text);
    }
    const Region* nearest = nullptr;
    uintptr_t least = ~(uintptr_t)0;
    for (uint64_t i = 0; i < region_count; i++) {
        const Region& r = regions[i];
        uintptr_t distance = at < r.begin ? r.begin - at : at >= r.end ? at - r.end : 0;
        if (distance < least) nearest = &r, least = distance;
    }
    if (nearest == nullptr || least > (1u << 24)) {
        stop("out of bounds: %s %zu bytes far from every operand, %s", verb, bytes, where.text);
    }
    long long index = ((long long)at - (long long)nearest->begin) / (long long)nearest->element;
    if (((long long)at - (long long)nearest->begin) % (long long)nearest->element < 0) index--;
    stop("out of bounds: %s %zu bytes at element %lld of %s, whose elements are 0 to %llu, %s", verb, bytes, index, nearest->name,
         (unsigned long long)((nearest->end - nearest->begin) / nearest->element - 1), where.text);
}

static void check(const void* pointer, size_t bytes, bool is_write, const void* pc, int line) {
    uintptr_t at = reinterpret_cast<uintptr_t>(pointer);
    for (uint64_t i = 0; i < region_count; i++) {
        const Region& r = regions[i];
        if (!r.has(at, bytes)) {
            continue;
        }
        if (!is_write || r.is_writable && r.is_in_row(at, bytes)) {
            return;
        }
        bool is_elsewhere = false; // an output in the place of an input
        for (uint64_t j = i + 1; j < region_count; j++) {
            is_elsewhere |= regions[j].has(at, bytes) && regions[j].is_writable && regions[j].is_in_row(at, bytes);
        }
        if (is_elsewhere) {
            return;
        }
        unsigned long long element = (at - r.begin) / r.element;
        if (!r.is_writable) {
            stop("writes %zu bytes at element %llu of %s, which is an input, %s", bytes, element, r.name, Where(pc, line).text);
        }
        stop("out of bounds: writes %zu bytes at element %llu of %s, between two rows, %s", bytes, element, r.name, Where(pc, line).text);
    }
    uintptr_t dynamic = reinterpret_cast<uintptr_t>(&tokitai_dynamic_shared);
    if (at - dynamic < sizeof(tokitai_dynamic_shared) ? at + bytes <= dynamic + dynamic_bytes
                                                      : at >= image_begin && at < image_end || at >= shared_begin && at + bytes <= shared_end) {
        return;
    }
    if (!is_write && at - reinterpret_cast<uintptr_t>(parameters.data) < parameters.size) {
        return; // the arguments
    }
    refuse(at, bytes, is_write, pc, line);
}

// describe names the operand and element at an address, or the kind of memory.
static void describe(const void* pointer, char* text, size_t size) {
    uintptr_t at = reinterpret_cast<uintptr_t>(pointer), dynamic = reinterpret_cast<uintptr_t>(&tokitai_dynamic_shared);
    for (uint64_t i = 0; i < region_count; i++) {
        if (regions[i].has(at, 1)) {
            snprintf(text, size, "on element %llu of %s", (unsigned long long)((at - regions[i].begin) / regions[i].element), regions[i].name);
            return;
        }
    }
    bool is_shared = at - shared_begin < shared_end - shared_begin || at - dynamic < sizeof(tokitai_dynamic_shared);
    snprintf(text, size, "%s", is_shared ? "on shared memory" : "on a variable of the program");
}

void fault(const char* file, int line, const char* what) { stop("%s, %s", what, Where(file, line).text); }

static bool is_extended = (extension.begin = begin, extension.access = check, extension.describe = describe, extension.ended_threads_count = true, true);

} // namespace sim

// ---- what the compiler's own checks call ----

namespace {
struct SourceLocation {
    const char* file;
    uint32_t line, column;
};
struct TypeDescriptor {
    uint16_t kind, info;
    char name[1];
};
} // namespace

#define SIM_HANDLER extern "C" SIM_INTERNAL __attribute__((used)) void

struct OutOfBounds {
    SourceLocation location;
    TypeDescriptor *array, *index;
};
SIM_HANDLER __ubsan_handle_out_of_bounds(OutOfBounds* data, uintptr_t index) {
    bool is_signed = data->index->info & 1;
    unsigned width = 1u << (data->index->info >> 1);
    long long value = is_signed && width <= 32 ? (long long)(int32_t)index : (long long)index;
    sim::stop("out of bounds: index %lld of an array of type %s, %s", value, data->array->name, sim::Where(data->location.file, (int)data->location.line).text);
}

struct TypeMismatch {
    SourceLocation location;
    TypeDescriptor* type;
    unsigned char log_alignment, kind;
};
SIM_HANDLER __ubsan_handle_type_mismatch_v1(TypeMismatch* data, uintptr_t pointer) {
    char memory[128];
    sim::describe(reinterpret_cast<const void*>(pointer), memory, sizeof(memory));
    sim::stop("misaligned address: an access of type %s %s, whose address is no multiple of %u, %s", data->type->name, memory, 1u << data->log_alignment,
              sim::Where(data->location.file, (int)data->location.line).text);
}

struct Overflow {
    SourceLocation location;
    TypeDescriptor* type;
};
SIM_HANDLER __ubsan_handle_divrem_overflow(Overflow* data, uintptr_t, uintptr_t divisor) {
    sim::stop("integer division %s, %s", divisor == 0 ? "by zero" : "that overflows", sim::Where(data->location.file, (int)data->location.line).text);
}
