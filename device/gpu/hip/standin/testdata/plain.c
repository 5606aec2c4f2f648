// plain.c is a libamdhip64 whose device is host memory and which runs no kernel. It checks
// how it is called, counts what is alive, and does wrong what the environment asks for:
//
//	STANDIN_FAIL=CALL=CODE      CALL returns CODE; with CALL=CODE@3, only its third call does
//	STANDIN_RTC=WHAT            hiprtcCompileProgram: abort, crash, hang, exit, garbage, empty or reject
//
// What destroys something fails after it has done so, as calls do that report the failure of
// earlier work. standin_live tells what is alive, standin_failed whether a call has failed as
// asked since it was called before.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define API __attribute__((visibility("default"))) int
#define DEVICES 2

// --- Failing on request.

static int is_asked(const char *variable, const char *what) {
	const char *text = getenv(variable);
	return text && !strcmp(text, what);
}

static int calls, has_failed;

// fails returns the code with which a call is to fail, or 0.
static int fails(const char *call) {
	const char *text = getenv("STANDIN_FAIL");
	size_t n = strlen(call);
	if (!text || strncmp(text, call, n) || text[n] != '=') return 0;
	const char *at = strchr(text, '@');
	if (at && __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) != atoi(at + 1)) return 0;
	has_failed = 1;
	return atoi(text + n + 1);
}
#define FAIL_AFTER(result) do { int done = result, code = fails(__func__); return code ? code : done; } while (0)
#define FAIL do { int code = fails(__func__); if (code) return code; } while (0)

API standin_failed(void) {
	int result = has_failed;
	calls = has_failed = 0;
	return result;
}

// --- What is alive.

enum kind { MEMORY, HOST_MEMORY, STREAM, EVENT, MODULE, PROGRAM, KINDS };
static const char *const kinds[] = {"allocations", "host allocations", "streams", "events", "modules", "programs"};
struct thing { enum kind kind; void *at; struct thing *next; };
static struct thing *things;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *make(enum kind kind, void *at) {
	struct thing *t = malloc(sizeof *t);
	pthread_mutex_lock(&lock);
	*t = (struct thing){kind, at ? at : t, things};
	things = t;
	pthread_mutex_unlock(&lock);
	return t->at;
}
static int is(enum kind kind, const void *at) {
	int found = 0;
	pthread_mutex_lock(&lock);
	for (struct thing *t = things; t && !found; t = t->next) found = t->kind == kind && t->at == at;
	pthread_mutex_unlock(&lock);
	return found;
}
static int destroy(enum kind kind, const void *at) { // returns a code
	struct thing *found = NULL;
	pthread_mutex_lock(&lock);
	for (struct thing **p = &things; *p && !found; )
		if ((*p)->kind == kind && (*p)->at == at) {
			found = *p;
			*p = found->next;
		} else {
			p = &(*p)->next;
		}
	pthread_mutex_unlock(&lock);
	if (!found) return 400; // hipErrorInvalidHandle
	if (found->at != found) free(found->at);
	free(found);
	return 0;
}
API standin_live(char *to, int n) {
	int counts[KINDS] = {0}, used = 0;
	pthread_mutex_lock(&lock);
	for (struct thing *t = things; t; t = t->next) counts[t->kind]++;
	pthread_mutex_unlock(&lock);
	*to = 0;
	for (int i = 0; i < KINDS; i++)
		if (counts[i] && used < n) used += snprintf(to + used, n - used, "%s%d %s", used ? ", " : "", counts[i], kinds[i]);
	return used;
}
API standin_forget(void) {
	pthread_mutex_lock(&lock);
	things = NULL;
	pthread_mutex_unlock(&lock);
	return 0;
}

// --- The library and its devices.

static __thread int current = -1;
static int check(int ok) { return current < 0 ? 201 : !ok; } // hipErrorInvalidContext, hipErrorInvalidValue

// create makes something, if the call is right. It takes at, which may be null.
static int create(void **made, enum kind kind, void *at, int ok) {
	int code = check(ok);
	if (code) free(at);
	else *made = make(kind, at);
	return code;
}

__attribute__((visibility("default"))) const char *hipGetErrorName(int code) {
	static __thread char text[64];
	snprintf(text, sizeof text, "hipError%d", code);
	return text;
}
__attribute__((visibility("default"))) const char *hipGetErrorString(int code) {
	static __thread char text[64];
	snprintf(text, sizeof text, "description of %d", code);
	return text;
}
API hipInit(unsigned flags) { FAIL; return flags != 0; }
API hipRuntimeGetVersion(int *v) { FAIL; *v = 60443484; return 0; }
API hipGetDeviceCount(int *n) { FAIL; *n = DEVICES; return 0; }
static int is_device(int d) { return d >= 0 && d < DEVICES; }
API hipSetDevice(int d) {
	FAIL;
	if (!is_device(d)) return 101;
	current = d;
	return 0;
}
API hipDeviceGetName(char *s, int n, int d) { FAIL; snprintf(s, n, "plain %d", d); return is_device(d) ? 0 : 101; }
API hipDeviceTotalMem(size_t *n, int d) { FAIL; *n = 1ull << 34; return is_device(d) ? 0 : 101; }
API hipDeviceGetAttribute(int *v, int which, int d) {
	FAIL;
	if (!is_device(d)) return 101;
	switch (which) {
	case 5: *v = 2482000; return 0;  // clock, kHz
	case 19: *v = 4 << 20; return 0; // cache
	case 56: *v = 1024; return 0;    // threads in a block
	case 63: *v = 54; return 0;      // processors
	case 67: *v = 3 + d; return 0;   // PCI bus
	case 68: *v = 0; return 0;       // PCI device
	case 69: *v = 0; return 0;       // PCI domain
	case 74: *v = 65536; return 0;   // shared memory of a block
	case 87: *v = 32; return 0;      // lanes
	}
	return 1;
}
static int fill(char *to, int d, size_t bytes, size_t architecture) {
	if (!is_device(d)) return 101;
	memset(to, 0, bytes);
	snprintf(to, 64, "plain %d", d);
	strcpy(to + architecture, "gfx1101");
	return 0;
}
API hipGetDeviceProperties(void *to, int d) { FAIL; return fill(to, d, 792, 396); }
API hipGetDevicePropertiesR0600(void *to, int d) { FAIL; return fill(to, d, 1472, 1160); }

// --- Memory.

API hipMalloc(void **p, size_t n) {
	FAIL;
	return n > 1ull << 34 ? 2 : create(p, MEMORY, malloc(n), 1);
}
API hipFree(void *p) { FAIL_AFTER(destroy(MEMORY, p)); }
API hipMemGetInfo(size_t *free, size_t *total) { FAIL; *free = 1ull << 33; *total = 1ull << 34; return check(1); }
API hipHostMalloc(void **p, size_t n, unsigned flags) { FAIL; return create(p, HOST_MEMORY, malloc(n), flags <= 1); }
API hipHostFree(void *p) { FAIL_AFTER(destroy(HOST_MEMORY, p)); }
static int copy(void *to, const void *from, size_t n, void *stream) {
	if (check(is(STREAM, stream))) return 400;
	memmove(to, from, n);
	return 0;
}
API hipMemcpyHtoDAsync(void *to, const void *from, size_t n, void *stream) { FAIL; return copy(to, from, n, stream); }
API hipMemcpyDtoHAsync(void *to, void *from, size_t n, void *stream) { FAIL; return copy(to, from, n, stream); }
API hipMemcpyDtoDAsync(void *to, void *from, size_t n, void *stream) { FAIL; return copy(to, from, n, stream); }
API hipMemsetD8Async(void *to, unsigned char v, size_t n, void *stream) {
	FAIL;
	if (check(is(STREAM, stream))) return 400;
	memset(to, v, n);
	return 0;
}

// --- Streams and events.

API hipStreamCreateWithFlags(void **s, unsigned flags) { FAIL; return create(s, STREAM, NULL, flags <= 1); }
API hipStreamDestroy(void *s) { FAIL_AFTER(destroy(STREAM, s)); }
API hipStreamSynchronize(void *s) { FAIL; return check(is(STREAM, s)); }
API hipStreamQuery(void *s) { FAIL; return check(is(STREAM, s)); }
API hipStreamWaitEvent(void *s, void *e, unsigned flags) { FAIL; return check(is(STREAM, s) && is(EVENT, e) && !flags); }
API hipEventCreateWithFlags(void **e, unsigned flags) { FAIL; return create(e, EVENT, NULL, flags <= 3); }
API hipEventDestroy(void *e) { FAIL_AFTER(destroy(EVENT, e)); }
API hipEventRecord(void *e, void *s) { FAIL; return check(is(EVENT, e) && is(STREAM, s)); }
API hipEventSynchronize(void *e) { FAIL; return check(is(EVENT, e)); }
API hipEventQuery(void *e) { FAIL; return check(is(EVENT, e)); }
API hipEventElapsedTime(float *ms, void *start, void *end) { FAIL; *ms = 1.5; return check(is(EVENT, start) && is(EVENT, end)); }

// --- Modules and launches. There is one program, and one kernel.

#define PROGRAM_TEXT "\177ELF plain"

static char kernel;

API hipModuleLoadData(void **m, const void *image) {
	FAIL;
	if (memcmp(image, PROGRAM_TEXT, strlen(PROGRAM_TEXT))) return 200; // hipErrorInvalidImage
	return create(m, MODULE, NULL, 1);
}
API hipModuleUnload(void *m) { FAIL_AFTER(destroy(MODULE, m)); }
API hipModuleGetFunction(void **f, void *m, const char *name) { FAIL; *f = &kernel; return strcmp(name, "kernel") ? 500 : check(is(MODULE, m)); }
API hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **params, void **extra) {
	(void)shared, (void)params, (void)extra;
	FAIL;
	return check(f == &kernel && gx && gy && gz && bx && by && bz && is(STREAM, stream));
}

// --- hipRTC. Every source compiles to the same program.

API hiprtcVersion(int *major, int *minor) { FAIL; *major = 9, *minor = 0; return 0; }
__attribute__((visibility("default"))) const char *hiprtcGetErrorString(int code) {
	static __thread char text[64];
	snprintf(text, sizeof text, "HIPRTC_ERROR_%d", code);
	return text;
}
API hiprtcCreateProgram(void **p, const char *text, const char *name, int count, const char *const *headers, const char *const *names) {
	(void)name;
	FAIL;
	for (int i = 0; i < count; i++)
		if (!*headers[i] || !*names[i]) return 3;
	*p = make(PROGRAM, NULL);
	return text ? 0 : 3;
}
API hiprtcCompileProgram(void *p, int count, const char *const *options) {
	FAIL;
	int has_architecture = 0;
	for (int i = 0; i < count; i++) has_architecture |= !strncmp(options[i], "--offload-arch=gfx", 18) || !strncmp(options[i], "--gpu-architecture=gfx", 22);
	if (is_asked("STANDIN_RTC", "abort")) abort();
	if (is_asked("STANDIN_RTC", "crash")) *(volatile int *)8 = 1;
	if (is_asked("STANDIN_RTC", "exit")) _exit(0);
	while (is_asked("STANDIN_RTC", "hang")) pause();
	if (is_asked("STANDIN_RTC", "reject")) return 6;
	return is(PROGRAM, p) && has_architecture ? 0 : 3;
}
static const char *result(void) { return is_asked("STANDIN_RTC", "garbage") ? "no ELF at all" : is_asked("STANDIN_RTC", "empty") ? "" : PROGRAM_TEXT; }
static const char *said(void) { return is_asked("STANDIN_RTC", "reject") ? "kernel.hip:7:3: error: refused as asked" : ""; }
API hiprtcGetProgramLogSize(void *p, size_t *n) { FAIL; *n = strlen(said()) + 1; return !is(PROGRAM, p); }
API hiprtcGetProgramLog(void *p, char *to) { FAIL; strcpy(to, said()); return !is(PROGRAM, p); }
API hiprtcGetCodeSize(void *p, size_t *n) { FAIL; *n = strlen(result()); return !is(PROGRAM, p); }
API hiprtcGetCode(void *p, char *to) { FAIL; memcpy(to, result(), strlen(result())); return !is(PROGRAM, p); }
API hiprtcDestroyProgram(void **p) { FAIL_AFTER(destroy(PROGRAM, *p)); }
