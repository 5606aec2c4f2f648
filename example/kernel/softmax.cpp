// A kernel process in C++: softmax of the rows of a matrix in f32.
//
//     g++ -O2 -std=c++17 -o softmax softmax.cpp
//     tokitai check softmax.forward --exec ./softmax
//
// It serves the kernel profile of docs/protocol.md with the standard library alone.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include <unistd.h>
using Bytes = std::string;

template <class T> void put(Bytes &b, T v) { b.append(reinterpret_cast<char *>(&v), sizeof v); }
void put(Bytes &b, const char *text) { put(b, uint32_t(strlen(text))); b += text; }

struct Reader {
    const char *at;
    template <class T> T get() { T v; memcpy(&v, at, sizeof v); at += sizeof v; return v; }
    Bytes text() { uint32_t n = get<uint32_t>(); Bytes s(at, n); at += n; return s; }
};

uint32_t error(Bytes &b, uint32_t code, const char *message) { put(b, code); put(b, message); put(b, uint32_t(0)); return 257; }

void softmax(const float *x, float *y, size_t cols) {
    double top = -INFINITY, total = 0;
    for (size_t c = 0; c < cols; c++) top = std::isnan(x[c]) ? x[c] : std::max(top, double(x[c]));
    for (size_t c = 0; c < cols; c++) total += std::exp(x[c] - top);
    for (size_t c = 0; c < cols; c++) y[c] = float(std::exp(x[c] - top) / total);
}

uint32_t call(const Bytes &body, Bytes &reply) {
    Reader r{body.data() + 4};                          // after the number of calls, which is 1
    r.text(), r.get<uint32_t>(), r.text();              // the definition, options, the lowering
    for (uint32_t n = r.get<uint32_t>(); n; n--) r.text(), r.get<double>(); // parameters
    uint64_t rows = 0, cols = 0;
    for (uint32_t n = r.get<uint32_t>(); n; n--) {      // operands: x and y, of the same shape
        r.text();
        uint8_t dtype = r.get<uint8_t>();
        r.get<uint16_t>();                              // place and data
        if (r.get<uint32_t>(), dtype != 3) return error(reply, 2, "softmax.cpp computes f32 (dtype 3) alone");
        rows = r.get<uint64_t>(), cols = r.get<uint64_t>();
    }
    std::vector<float> x(rows * cols), y(rows * cols);
    memcpy(x.data(), r.at, 4 * x.size());
    for (uint64_t i = 0; i < rows; i++) softmax(&x[i * cols], &y[i * cols], cols);
    put(reply, uint64_t(0)), put(reply, uint32_t(1)), put(reply, "softmax.cpp");
    reply.append(reinterpret_cast<char *>(y.data()), 4 * y.size());
    return 256;
}

bool all(int fd, char *at, size_t n, bool isRead) {
    for (ssize_t k; n > 0; at += k, n -= size_t(k))
        if ((k = isRead ? read(fd, at, n) : write(fd, at, n)) <= 0) return false;
    return true;
}

int main() {
    int fd = atoi(getenv("TOKITAI_FD"));
    struct { uint64_t length, request; uint32_t kind, descriptors; } head;
    while (all(fd, reinterpret_cast<char *>(&head), 24, true)) {
        Bytes body(head.length, 0), b;
        if (!all(fd, body.data(), body.size(), true)) return 1;
        uint32_t kind = 256;
        if (head.kind == 1)                             // HELLO: version, generation, build, device, description, limits, no arenas
            put(b, uint32_t(1)), put(b, uint64_t(1)), put(b, "softmax.cpp"), put(b, "cpu"), put(b, "C++"), put(b, uint64_t(1) << 30), put(b, uint64_t(1) << 30), put(b, uint32_t(0));
        else if (head.kind == 10)                       // LIST: one definition, its operands and parameters left out
            put(b, uint32_t(1)), put(b, "softmax.forward"), put(b, uint64_t(0));
        else if (head.kind == 2)
            kind = call(body, b);
        else
            kind = error(b, 10, "not supported");
        head.length = b.size(), head.kind = kind, head.descriptors = 0;
        if (!all(fd, reinterpret_cast<char *>(&head), 24, false) || !all(fd, b.data(), b.size(), false)) return 1;
    }
}
