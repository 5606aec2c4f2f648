// What is used of libcuda, with the host as the device. Each function checks its arguments
// and answers code 1 where they are not what the caller must give.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#define API extern "C" int
#define DEVICES 2
#define VERSION 13000
#define INIT 0
typedef unsigned long long u64;

static void* const context = (void*)0x1234;
static void* current;
static char* last; // allocated last: where the kernel writes
static int shared_limit;
static int check(bool ok) { return !current || !ok; }

API cuInit(unsigned flags) { return flags ? 1 : INIT; }
API cuDriverGetVersion(int* v) { *v = VERSION; return 0; }
API cuGetErrorName(int code, const char** s) { static char b[64]; snprintf(b, sizeof b, "CUDA_ERROR_%d", code); *s = b; return 0; }
API cuGetErrorString(int code, const char** s) { static char b[64]; snprintf(b, sizeof b, "description of %d", code); *s = b; return 0; }

API cuDeviceGetCount(int* n) { *n = DEVICES; return 0; }
API cuDeviceGet(int* d, int i) { *d = 10 + i; return i < 0 || i >= DEVICES; }
API cuDeviceGetName(char* s, int n, int d) { snprintf(s, n, "stub %d", d - 10); return 0; }
API cuDeviceTotalMem_v2(size_t* n, int d) { *n = 1ull << 37; return d < 10; }
API cuDeviceGetAttribute(int* v, int which, int d) {
	if (d < 10) return 1;
	switch (which) {
	case 1: *v = 1024; return 0;
	case 8: *v = 49152; return 0;
	case 10: *v = 32; return 0;
	case 13: *v = 2000000; return 0;
	case 16: *v = 132; return 0;
	case 36: *v = 3000000; return 0;
	case 37: *v = 5120; return 0;
	case 38: *v = 1 << 26; return 0;
	case 75: *v = 9; return 0;
	case 76: *v = 0; return 0;
	case 97: *v = 232448; return 0;
	}
	return 1;
}

API cuDevicePrimaryCtxRetain(void** c, int d) { *c = context; return d < 10; }
API cuDevicePrimaryCtxRelease_v2(int d) { return d < 10; }
API cuCtxSetCurrent(void* c) { current = c; return c != context; }

API cuMemAlloc_v2(u64* p, size_t n) {
	if (n > 1ull << 37) return 2;
	*p = (u64)(last = (char*)malloc(n));
	return check(true);
}
API cuMemFree_v2(u64 p) { free((void*)p); return check(true); }
API cuMemGetInfo_v2(size_t* f, size_t* t) { *f = 1ull << 36; *t = 1ull << 37; return check(true); }
API cuMemAllocHost_v2(void** p, size_t n) { *p = malloc(n); return check(true); }
API cuMemFreeHost(void* p) { free(p); return check(true); }
API cuMemcpyHtoDAsync_v2(u64 d, const void* s, size_t n, void* stream) { memcpy((void*)d, s, n); return check(stream == (void*)5); }
API cuMemcpyDtoHAsync_v2(void* d, u64 s, size_t n, void* stream) { memcpy(d, (void*)s, n); return check(stream == (void*)5); }
API cuMemcpyDtoDAsync_v2(u64 d, u64 s, size_t n, void* stream) { memcpy((void*)d, (void*)s, n); return check(stream == (void*)5); }
API cuMemsetD8Async(u64 d, unsigned char v, size_t n, void* stream) { memset((void*)d, v, n); return check(stream == (void*)5); }

API cuStreamCreate(void** s, unsigned flags) { *s = (void*)5; return check(flags == 1); }
API cuStreamDestroy_v2(void* s) { return check(s == (void*)5); }
API cuStreamSynchronize(void* s) { return check(s == (void*)5); }
API cuStreamQuery(void* s) { return check(s == (void*)5); }
API cuStreamWaitEvent(void* s, void* e, unsigned flags) { return check(s == (void*)5 && e && !flags); }

API cuEventCreate(void** e, unsigned flags) { *e = (void*)(u64)(100 + flags); return check(flags == 0 || flags == 2); }
API cuEventDestroy_v2(void* e) { return check(e >= (void*)100); }
API cuEventRecord(void* e, void* s) { return check(e >= (void*)100 && s == (void*)5); }
API cuEventSynchronize(void* e) { return check(e >= (void*)100); }
API cuEventQuery(void* e) { return e == (void*)102 ? 600 : check(e == (void*)100); }
API cuEventElapsedTime(float* ms, void* a, void* b) { *ms = 1.5; return check(a == (void*)100 && b == (void*)102); }

API cuModuleLoadData(void** m, const void* image) { *m = (void*)7; return check(!memcmp(image, "image", 5)); }
API cuModuleUnload(void* m) { return check(m == (void*)7); }
API cuModuleGetFunction(void** f, void* m, const char* name) { *f = (void*)9; return strcmp(name, "kernel") ? 500 : check(m == (void*)7); }
API cuFuncSetAttribute(void* f, int which, int v) { shared_limit = v; return check(f == (void*)9 && which == 8 && v == 100000); }
API cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void* s, void** params, void** extra) {
	if (gx >= 700) return gx;
	if (check(f == (void*)9 && s == (void*)5 && !extra)) return 1;
	if (!params) return 0;
	const unsigned char* p = (const unsigned char*)params[0];
	unsigned values[] = {gx, gy, gz, bx, by, bz, shared};
	char* to = last + 16 * (p[3] & 3); // the last of the struct's four bytes says where
	for (int i = 0; i < 7; i++) to[i] = values[i];
	to[7] = 0;
	for (int i = 0; i < 4; i++) to[7] += p[i];
	return 0;
}

struct Attribute { int id, pad; unsigned char value[64]; };
struct Config { unsigned gx, gy, gz, bx, by, bz, shared; void* stream; Attribute* attributes; unsigned count; };
API cuLaunchKernelEx(const Config* c, void* f, void** params, void** extra) {
	if (check(c->count == 1 && c->attributes[0].id == 6 && c->attributes[0].value[0] == 1)) return 1; // programmatic stream serialization
	return cuLaunchKernel(f, c->gx, c->gy, c->gz, c->bx, c->by, c->bz, c->shared, c->stream, params, extra);
}

API cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* at, const unsigned long long* sizes, const unsigned long long* strides,
                           const unsigned* box, const unsigned* steps, int interleave, int swizzle, int promotion, int fill) {
	if ((size_t)map % 64 || interleave || fill || swizzle != 3) return 1;
	unsigned char* to = (unsigned char*)map;
	for (int i = 0; i < 128; i++) to[i] = 0;
	to[0] = type;
	to[1] = rank;
	to[2] = (size_t)at;
	for (unsigned i = 0; i < rank; i++) {
		to[8 + i] = sizes[i];
		if (i > 0) to[16 + i] = strides[i - 1];
		to[24 + i] = box[i] * steps[i];
	}
	return 0;
}

struct Node { // CUDA_KERNEL_NODE_PARAMS_v2
	void* f;
	unsigned gx, gy, gz, bx, by, bz, shared;
	void **params, **extra;
	void *kernel, *context;
};
struct Graph { int nodes; Node node[4]; char bytes[4][4]; };
static void copy_node(Graph* g, int i, const Node* n) {
	g->node[i] = *n;
	memcpy(g->bytes[i], n->params[0], 4); // the size of the kernel's struct
}
static int live; // graphs
API cuGraphCreate(Graph** g, unsigned flags) { *g = new Graph(); live++; return check(!flags); }
API cuGraphDestroy(Graph* g) { live--; delete g; return check(true); }
API cuGraphAddKernelNode_v2(int** node, Graph* g, const u64* after, size_t count, const Node* n) {
	int i = g->nodes++;
	*node = (int*)(u64)(1000 + i);
	if (check(n->f == (void*)9 && !n->extra && !n->kernel && !n->context && count == (size_t)i)) return 1;
	for (size_t k = 0; k < count; k++) // after all nodes before it, the last first
		if (after[k] != 1000 + i - 1 - k) return 1;
	copy_node(g, i, n);
	return n->gx >= 700 ? n->gx : 0;
}
API cuGraphInstantiateWithFlags(Graph** x, const Graph* g, u64 flags) { *x = new Graph(*g); live++; return check(!flags); }
API cuGraphExecKernelNodeSetParams_v2(Graph* x, u64 node, const Node* n) { copy_node(x, node - 1000, n); return check(n->f == (void*)9); }
API cuGraphExecDestroy(Graph* x) { live--; delete x; return check(true); }
API cuGraphLaunch(Graph* x, void* s) {
	for (int i = 0; i < x->nodes; i++) {
		Node* n = &x->node[i];
		void* params[] = {x->bytes[i]};
		if (int code = cuLaunchKernel(n->f, n->gx, n->gy, n->gz, n->bx, n->by, n->bz, n->shared, s, params, nullptr)) return code;
	}
	return check(live == 2);
}
