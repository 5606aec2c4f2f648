// What is used of libamdhip64 and of hipRTC, with the host as the device. Each function checks
// its arguments and answers code 1 where they are not what the caller must give.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#define API extern "C" int
#define DEVICES 2
#define VERSION 60443484
#define INIT 0
#define NAME "stub %d"
#define ARCH "gfx942:sramecc+:xnack-"
#define WARP 64
#define MEMORY (1ull << 37)
#define LOADED 0 // what loading a program answers
typedef unsigned long long u64;

static int current = -1;
static char* last; // allocated last: where the kernel writes
static int check(bool ok) { return current < 0 || !ok; }

API hipInit(unsigned flags) { return flags ? 1 : INIT; }
API hipRuntimeGetVersion(int* v) { *v = VERSION; return 0; }
extern "C" const char* hipGetErrorName(int code) { static char b[64]; snprintf(b, sizeof b, "hipError%d", code); return b; }
extern "C" const char* hipGetErrorString(int code) { static char b[64]; snprintf(b, sizeof b, "description of %d", code); return b; }

API hipGetDeviceCount(int* n) { *n = DEVICES; return 0; }
API hipDeviceGetName(char* s, int n, int d) { snprintf(s, n, NAME, d); return 0; }
API hipDeviceTotalMem(size_t* n, int d) { *n = MEMORY; return d < 0; }
API hipDeviceGetAttribute(int* v, int which, int d) {
	switch (which) {
	case 5: *v = 2100000; return 0;
	case 19: *v = 4 << 20; return 0;
	case 56: *v = 1024; return 0;
	case 63: *v = 304; return 0;
	case 67: *v = 0x23 + d; return 0;
	case 68: *v = 2; return 0;
	case 69: *v = 1; return 0;
	case 74: *v = 65536; return 0;
	case 87: *v = WARP; return 0;
	}
	return 1;
}
API hipSetDevice(int d) { current = d; return d < 0 || d >= DEVICES; }

// The layout before version 6 has the name of the architecture at byte 396 of 792, the one
// since then at byte 1160 of 1472.
API hipGetDeviceProperties(char* p, int d) { memset(p, 0x5a, 792); strcpy(p + 396, "gfx1101"); return d < 0; }
API hipGetDevicePropertiesR0600(char* p, int d) { memset(p, 0x5a, 1472); strcpy(p + 1160, ARCH); return d < 0; }

API hipMalloc(u64* p, size_t n) {
	if (n > MEMORY) return 2;
	*p = (u64)(last = (char*)malloc(n));
	return check(true);
}
API hipFree(u64 p) { free((void*)p); return check(true); }
API hipMemGetInfo(size_t* f, size_t* t) { *f = 1ull << 36; *t = 1ull << 37; return check(true); }
API hipHostMalloc(void** p, size_t n, unsigned flags) { *p = malloc(n); return check(!flags); }
API hipHostFree(void* p) { free(p); return check(true); }
API hipMemcpyHtoDAsync(u64 d, void* s, size_t n, void* stream) { memcpy((void*)d, s, n); return check(stream == (void*)5); }
API hipMemcpyDtoHAsync(void* d, u64 s, size_t n, void* stream) { memcpy(d, (void*)s, n); return check(stream == (void*)5); }
API hipMemcpyDtoDAsync(u64 d, u64 s, size_t n, void* stream) { memcpy((void*)d, (void*)s, n); return check(stream == (void*)5); }
API hipMemsetD8Async(u64 d, unsigned char v, size_t n, void* stream) { memset((void*)d, v, n); return check(stream == (void*)5); }

API hipStreamCreateWithFlags(void** s, unsigned flags) { *s = (void*)5; return check(flags == 1); }
API hipStreamDestroy(void* s) { return check(s == (void*)5); }
API hipStreamSynchronize(void* s) { return check(s == (void*)5); }
API hipStreamQuery(void* s) { return check(s == (void*)5); }
API hipStreamWaitEvent(void* s, void* e, unsigned flags) { return check(s == (void*)5 && e && !flags); }

API hipEventCreateWithFlags(void** e, unsigned flags) { *e = (void*)(u64)(100 + flags); return check(flags == 0 || flags == 2); }
API hipEventDestroy(void* e) { return check(e >= (void*)100); }
API hipEventRecord(void* e, void* s) { return check(e >= (void*)100 && s == (void*)5); }
API hipEventSynchronize(void* e) { return check(e >= (void*)100); }
API hipEventQuery(void* e) { return e == (void*)102 ? 600 : check(e == (void*)100); }
API hipEventElapsedTime(float* ms, void* a, void* b) { *ms = 1.5; return check(a == (void*)100 && b == (void*)102); }

API hipModuleLoadData(void** m, const void* image) { *m = (void*)7; return LOADED ? LOADED : check(!memcmp(image, "image", 5)); }
API hipModuleUnload(void* m) { return check(m == (void*)7); }
API hipModuleGetFunction(void** f, void* m, const char* name) { *f = (void*)9; return strcmp(name, "kernel") ? 500 : check(m == (void*)7); }
API hipModuleLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void* s, void** params, void** extra) {
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

// The compiler makes what it was given. It aborts for an architecture that it does not know,
// as releases of hipRTC do.
struct Program { char* text; char* headers; char* log; };
extern "C" const char* hiprtcGetErrorString(int code) { static char b[64]; snprintf(b, sizeof b, "HIPRTC_ERROR_%d", code); return b; }
API hiprtcCreateProgram(Program** p, const char* text, const char* name, int count, const char** headers, const char** names) {
	if (!text || !*text || !name) return 3;
	*p = new Program{strdup(text), strdup(count ? headers[count - 1] : ""), strdup("")};
	return count && strcmp(names[count - 1], "last.h") ? 3 : 0;
}
API hiprtcDestroyProgram(Program** p) { return (*p)->text ? 0 : 4; }
API hiprtcCompileProgram(Program* p, int count, const char** options) {
	if (!strcmp(options[0], "--offload-arch=gfx9999")) { fprintf(stderr, "free(): invalid pointer\n"); abort(); }
	if (strstr(p->text, "wrong")) { p->log = strdup("k.hip:2:1: error: unknown type name 'wrong'\n"); return 6; }
	if (strstr(p->text, "silent")) return 11;
	p->log = strdup(strstr(p->text, "warned") ? "k.hip:1:1: warning: careful\n" : "");
	return count < 2;
}
API hiprtcGetProgramLogSize(Program* p, size_t* n) { *n = strlen(p->log) + 1; return 0; }
API hiprtcGetProgramLog(Program* p, char* to) { strcpy(to, p->log); return 0; }
API hiprtcGetCodeSize(Program* p, size_t* n) { *n = strlen(p->text) + strlen(p->headers) + 4; return 0; }
API hiprtcGetCode(Program* p, char* to) {
	memcpy(to, strstr(p->text, "bundled") ? "BUND" : "\x7f" "ELF", 4);
	memcpy(to + 4, p->text, strlen(p->text));
	memcpy(to + 4 + strlen(p->text), p->headers, strlen(p->headers));
	return 0;
}
