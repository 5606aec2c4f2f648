// forward.c is a libamdhip64 whose devices are in another process: it sends each call over a
// Unix socket, which TOKITAI_STANDIN names, and returns the answer. Memory from hipHostMalloc
// is shared with that process; all other memory stays there. hiprtc* are here too.
//
// Each thread has a connection, so that a thread that waits holds up no other. The process at
// the other end knows a process by its number, and frees what it leaves behind.
//
// package standin has the other end. A call is a request, followed by its bytes, and a reply,
// followed by its bytes.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#define API __attribute__((visibility("default"))) int
#define COUNT(a) (sizeof(a) / sizeof *(a))
typedef uint64_t u64;

enum {
	SUCCESS = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NO_DEVICE = 100,
	INVALID_HANDLE = 400,
	LAUNCH_FAILURE = 719,
};

static const struct { int code; const char *name, *text; } errors[] = {
	{SUCCESS, "hipSuccess", "no error"},
	{INVALID_VALUE, "hipErrorInvalidValue", "invalid argument"},
	{OUT_OF_MEMORY, "hipErrorOutOfMemory", "out of memory"},
	{NO_DEVICE, "hipErrorNoDevice", "no ROCm-capable device is detected"},
	{101, "hipErrorInvalidDevice", "invalid device ordinal"},
	{200, "hipErrorInvalidImage", "device kernel image is invalid"},
	{209, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
	{INVALID_HANDLE, "hipErrorInvalidHandle", "invalid resource handle"},
	{500, "hipErrorNotFound", "named symbol not found"},
	{600, "hipErrorNotReady", "device not ready"},
	{700, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
	{LAUNCH_FAILURE, "hipErrorLaunchFailure", "unspecified launch failure"},
	{999, "hipErrorUnknown", "unknown error"},
};

__attribute__((visibility("default"))) const char *hipGetErrorName(int code) {
	for (size_t i = 0; i < COUNT(errors); i++)
		if (errors[i].code == code) return errors[i].name;
	return "hipErrorUnknown";
}
__attribute__((visibility("default"))) const char *hipGetErrorString(int code) {
	for (size_t i = 0; i < COUNT(errors); i++)
		if (errors[i].code == code) return errors[i].text;
	return "unknown error";
}

// --- Connections.

struct request {
	char call[40];
	u64 arg[12];
	u64 bytes; // that follow
};
struct reply {
	int64_t code;
	u64 out[12];
	u64 bytes; // that follow
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t connection; // a thread's socket, plus 1
static int first = -1;           // stays open as long as the process lives
static volatile int is_lost;     // the other process has ended

static void disconnect(void *value) { close((int)(intptr_t)value - 1); }

static int dial(void) {
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = getenv("TOKITAI_STANDIN");
	if (!path || strlen(path) >= sizeof to.sun_path) return -1;
	strcpy(to.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to)) {
		close(fd);
		fd = -1;
	}
	return fd;
}
static void begin(void) {
	pthread_key_create(&connection, disconnect);
	first = dial();
}

static int receive(int fd, void *to, size_t bytes) {
	while (bytes) {
		ssize_t n = read(fd, to, bytes);
		if (n <= 0) return 0;
		to = (char *)to + n;
		bytes -= n;
	}
	return 1;
}

// transmit sends bytes, and a descriptor with the first of them unless it is negative.
static int transmit(int fd, const void *from, size_t bytes, int descriptor) {
	while (bytes) {
		char control[CMSG_SPACE(sizeof(int))] = {0};
		struct iovec part = {(void *)from, bytes};
		struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
		if (descriptor >= 0) {
			m.msg_control = control;
			m.msg_controllen = sizeof control;
			struct cmsghdr *c = CMSG_FIRSTHDR(&m);
			c->cmsg_level = SOL_SOCKET;
			c->cmsg_type = SCM_RIGHTS;
			c->cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(c), &descriptor, sizeof descriptor);
		}
		ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL);
		if (n <= 0) return 0;
		from = (const char *)from + n;
		bytes -= n;
		descriptor = -1;
	}
	return 1;
}

// exchange makes a call. It fills r, and returns its bytes in memory for the caller to free,
// or, if into is not null, there: at most limit of them. The result is the call's.
static int exchange(struct request *q, const void *bytes, int descriptor, struct reply *r, void **made, void *into, size_t limit) {
	pthread_once(&once, begin);
	if (is_lost) return LAUNCH_FAILURE;
	if (first < 0) return NO_DEVICE;
	int fd = (int)(intptr_t)pthread_getspecific(connection) - 1;
	if (fd < 0) {
		if ((fd = dial()) < 0) goto lost;
		pthread_setspecific(connection, (void *)(intptr_t)(fd + 1));
	}
	if (!transmit(fd, q, sizeof *q, descriptor) || !transmit(fd, bytes, q->bytes, -1) || !receive(fd, r, sizeof *r)) goto lost;
	if (r->bytes) {
		void *to = into;
		if (made) to = *made = malloc(r->bytes);
		if (!to || (!made && r->bytes > limit) || !receive(fd, to, r->bytes)) goto lost;
	}
	return (int)r->code;
lost:
	is_lost = 1;
	return LAUNCH_FAILURE;
}

// call makes a call of up to eight numbers. It fills out, if that is not null.
static int call(const char *name, struct reply *out, int count, ...) {
	struct request q = {0};
	struct reply r;
	strncpy(q.call, name, sizeof q.call - 1);
	va_list list;
	va_start(list, count);
	for (int i = 0; i < count; i++) q.arg[i] = va_arg(list, u64);
	va_end(list);
	return exchange(&q, NULL, -1, out ? out : &r, NULL, NULL, 0);
}
#define CALL(out, count, ...) call(__func__, out, count, ##__VA_ARGS__)
#define N(x) ((u64)(x))

// --- The library and its devices.

API hipInit(unsigned flags) { return CALL(NULL, 1, N(flags)); }
API hipRuntimeGetVersion(int *v) {
	struct reply r;
	int code = CALL(&r, 0);
	if (!code) *v = (int)r.out[0];
	return code;
}
API hipGetDeviceCount(int *n) {
	struct reply r;
	int code = CALL(&r, 0);
	*n = code ? 0 : (int)r.out[0];
	return code;
}
API hipSetDevice(int d) { return CALL(NULL, 1, N(d)); }

// What the other process tells of a device.
struct properties {
	char name[64], architecture[64];
	u64 memory, units, wave, shared, threads, cache, clock_khz;
};
static int properties(struct properties *p, int d) {
	struct request q = {.call = "properties", .arg = {d}};
	struct reply r;
	return exchange(&q, NULL, -1, &r, NULL, p, sizeof *p);
}
API hipDeviceGetName(char *s, int n, int d) {
	struct properties p;
	int code = properties(&p, d);
	if (!code) snprintf(s, n, "%s", p.name);
	return code;
}
API hipDeviceTotalMem(size_t *n, int d) {
	struct properties p;
	int code = properties(&p, d);
	if (!code) *n = p.memory;
	return code;
}
API hipDeviceGetAttribute(int *v, int which, int d) {
	struct properties p;
	int code = properties(&p, d);
	if (code) return code;
	switch (which) { // hipDeviceAttribute_t
	case 5: *v = (int)p.clock_khz; return SUCCESS;
	case 19: *v = (int)p.cache; return SUCCESS;
	case 56: *v = (int)p.threads; return SUCCESS;
	case 63: *v = (int)p.units; return SUCCESS;
	case 67: case 68: case 69: *v = 0; return SUCCESS; // on the PCI bus: the kernel lists no such device
	case 74: *v = (int)p.shared; return SUCCESS;
	case 87: *v = (int)p.wave; return SUCCESS;
	}
	return INVALID_VALUE;
}

// hipDeviceProp_t has two layouts: before version 6 and since.
static int fill(char *to, int d, size_t bytes, size_t memory, size_t shared, size_t wave, size_t threads, size_t units, size_t architecture) {
	struct properties p;
	int code = properties(&p, d);
	if (code) return code;
	memset(to, 0, bytes);
	strcpy(to, p.name);
	*(u64 *)(to + memory) = p.memory;
	*(u64 *)(to + shared) = p.shared;
	*(int *)(to + wave) = (int)p.wave;
	*(int *)(to + threads) = (int)p.threads;
	*(int *)(to + units) = (int)p.units;
	strcpy(to + architecture, p.architecture);
	return SUCCESS;
}
API hipGetDeviceProperties(void *to, int d) { return fill(to, d, 792, 256, 264, 276, 280, 336, 396); }
API hipGetDevicePropertiesR0600(void *to, int d) { return fill(to, d, 1472, 288, 296, 308, 320, 388, 1160); }

// --- Memory.

API hipMalloc(void **p, size_t n) {
	struct reply r;
	int code = CALL(&r, 1, N(n));
	*p = code ? NULL : (void *)r.out[0];
	return code;
}
API hipFree(void *p) { return p ? CALL(NULL, 1, N(p)) : SUCCESS; }
API hipMemGetInfo(size_t *free, size_t *total) {
	struct reply r;
	int code = CALL(&r, 0);
	if (!code) *free = r.out[0], *total = r.out[1];
	return code;
}

// Host memory that the other process has mapped too.
struct region { char *at; size_t bytes; struct region *next; };
static struct region *regions;
static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;

static int is_shared(const char *at, size_t bytes) {
	int found = 0;
	pthread_mutex_lock(&regions_lock);
	for (struct region *r = regions; r && !found; r = r->next)
		found = at >= r->at && at + bytes <= r->at + r->bytes;
	pthread_mutex_unlock(&regions_lock);
	return found;
}
API hipHostMalloc(void **p, size_t n, unsigned flags) {
	struct request q = {.call = "hipHostMalloc", .arg = {0, n, flags}};
	struct reply r;
	*p = NULL;
	int fd = memfd_create("tokitai-standin", MFD_CLOEXEC);
	if (fd < 0) return OUT_OF_MEMORY;
	void *at = ftruncate(fd, n) ? MAP_FAILED : mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		close(fd);
		return OUT_OF_MEMORY;
	}
	q.arg[0] = N(at);
	int code = exchange(&q, NULL, fd, &r, NULL, NULL, 0);
	close(fd);
	if (code) {
		munmap(at, n);
		return code;
	}
	struct region *new = malloc(sizeof *new);
	pthread_mutex_lock(&regions_lock);
	*new = (struct region){at, n, regions};
	regions = new;
	pthread_mutex_unlock(&regions_lock);
	*p = at;
	return SUCCESS;
}
API hipHostFree(void *p) {
	struct region *found = NULL;
	pthread_mutex_lock(&regions_lock);
	for (struct region **at = &regions; *at && !found; )
		if ((*at)->at == p) {
			found = *at;
			*at = found->next;
		} else {
			at = &(*at)->next;
		}
	pthread_mutex_unlock(&regions_lock);
	if (!found) return INVALID_VALUE;
	int code = CALL(NULL, 1, N(p));
	munmap(found->at, found->bytes);
	free(found);
	return code;
}

API hipMemcpyHtoDAsync(void *to, const void *from, size_t n, void *stream) {
	if (is_shared(from, n)) return CALL(NULL, 4, N(to), N(from), N(n), N(stream));
	struct request q = {.call = "hipMemcpyHtoDAsync", .arg = {N(to), 0, n, N(stream)}, .bytes = n};
	struct reply r;
	return exchange(&q, from, -1, &r, NULL, NULL, 0);
}
API hipMemcpyDtoHAsync(void *to, void *from, size_t n, void *stream) {
	if (is_shared(to, n)) return CALL(NULL, 4, N(to), N(from), N(n), N(stream));
	struct request q = {.call = "hipMemcpyDtoHAsync", .arg = {0, N(from), n, N(stream)}};
	struct reply r;
	return exchange(&q, NULL, -1, &r, NULL, to, n);
}
API hipMemcpyDtoDAsync(void *to, void *from, size_t n, void *stream) { return CALL(NULL, 4, N(to), N(from), N(n), N(stream)); }
API hipMemsetD8Async(void *to, unsigned char v, size_t n, void *stream) { return CALL(NULL, 4, N(to), N(v), N(n), N(stream)); }

// --- Streams and events.

static int create(const char *name, void **made, unsigned flags) {
	struct reply r;
	int code = call(name, &r, 1, N(flags));
	*made = code ? NULL : (void *)r.out[0];
	return code;
}
API hipStreamCreateWithFlags(void **s, unsigned flags) { return create(__func__, s, flags); }
API hipStreamDestroy(void *s) { return CALL(NULL, 1, N(s)); }
API hipStreamSynchronize(void *s) { return CALL(NULL, 1, N(s)); }
API hipStreamQuery(void *s) { return CALL(NULL, 1, N(s)); }
API hipStreamWaitEvent(void *s, void *e, unsigned flags) { return CALL(NULL, 3, N(s), N(e), N(flags)); }
API hipEventCreateWithFlags(void **e, unsigned flags) { return create(__func__, e, flags); }
API hipEventDestroy(void *e) { return CALL(NULL, 1, N(e)); }
API hipEventRecord(void *e, void *s) { return CALL(NULL, 2, N(e), N(s)); }
API hipEventSynchronize(void *e) { return CALL(NULL, 1, N(e)); }
API hipEventQuery(void *e) { return CALL(NULL, 1, N(e)); }
API hipEventElapsedTime(float *ms, void *start, void *end) {
	struct reply r;
	int code = CALL(&r, 2, N(start), N(end));
	if (!code) memcpy(ms, &r.out[0], sizeof *ms);
	return code;
}

// --- Modules and launches.

enum { MAX_ARGUMENTS = 32 };
struct function {
	u64 handle, bytes; // of all arguments
	unsigned count;
	struct { uint32_t offset, size; } argument[MAX_ARGUMENTS];
	struct function *next;
};
struct module { u64 handle; struct function *functions; };

API hipModuleLoadData(struct module **m, const void *image) {
	// The size is in the ELF header: the section headers come last.
	const unsigned char *elf = image;
	*m = NULL;
	if (memcmp(elf, "\177ELF", 4)) return 200;
	struct request q = {.call = "hipModuleLoadData"};
	struct reply r;
	q.bytes = *(const u64 *)(elf + 40) + *(const uint16_t *)(elf + 58) * *(const uint16_t *)(elf + 60);
	int code = exchange(&q, image, -1, &r, NULL, NULL, 0);
	if (code) return code;
	*m = calloc(1, sizeof **m);
	(*m)->handle = r.out[0];
	return SUCCESS;
}
API hipModuleUnload(struct module *m) {
	int code = CALL(NULL, 1, m->handle);
	for (struct function *f = m->functions, *next; f; f = next) {
		next = f->next;
		free(f);
	}
	free(m);
	return code;
}
API hipModuleGetFunction(struct function **f, struct module *m, const char *name) {
	struct request q = {.call = "hipModuleGetFunction", .arg = {m->handle}, .bytes = strlen(name)};
	struct reply r;
	struct function *new = calloc(1, sizeof *new);
	*f = NULL;
	int code = exchange(&q, name, -1, &r, NULL, new->argument, sizeof new->argument);
	if (code) {
		free(new);
		return code;
	}
	new->handle = r.out[0];
	new->bytes = r.out[1];
	new->count = r.bytes / sizeof *new->argument;
	new->next = m->functions;
	*f = m->functions = new;
	return SUCCESS;
}

// pack returns the bytes of a launch's arguments, for the caller to free.
static char *pack(const struct function *f, void **params, void **extra, size_t *bytes) {
	*bytes = 0;
	if (extra) {
		const void *from = NULL;
		for (; *extra != (void *)3; extra += 2)
			if (*extra == (void *)1) from = extra[1];
			else if (*extra == (void *)2) *bytes = *(size_t *)extra[1];
		return memcpy(malloc(*bytes + 1), from, *bytes);
	}
	char *made = calloc(1, f->bytes + 1);
	if (!params) return made;
	*bytes = f->bytes;
	for (unsigned i = 0; i < f->count; i++) memcpy(made + f->argument[i].offset, params[i], f->argument[i].size);
	return made;
}

API hipModuleLaunchKernel(const struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **params, void **extra) {
	struct request q = {.call = "hipModuleLaunchKernel", .arg = {f->handle, gx, gy, gz, bx, by, bz, shared, N(stream)}};
	struct reply r;
	size_t bytes;
	char *packed = pack(f, params, extra, &bytes);
	q.bytes = bytes;
	int code = exchange(&q, packed, -1, &r, NULL, NULL, 0);
	free(packed);
	return code;
}

// --- hipRTC: the other process compiles.

struct text { char *at; size_t bytes; };
static void append(struct text *t, const void *from, size_t bytes) {
	t->at = realloc(t->at, t->bytes + bytes);
	memcpy(t->at + t->bytes, from, bytes);
	t->bytes += bytes;
}
static void append_number(struct text *t, u64 n) { append(t, &n, sizeof n); }

struct program {
	struct text source; // strings, each after its length: name, text, and names and texts of headers
	struct text code, log;
};
static void append_string(struct text *t, const char *s) {
	append_number(t, strlen(s));
	append(t, s, strlen(s));
}
API hiprtcVersion(int *major, int *minor) {
	*major = 9, *minor = 0; // as all versions of the library say
	return 0;
}
__attribute__((visibility("default"))) const char *hiprtcGetErrorString(int code) { return code == 6 ? "HIPRTC_ERROR_COMPILATION" : code ? "HIPRTC_ERROR_INTERNAL_ERROR" : "HIPRTC_SUCCESS"; }
API hiprtcCreateProgram(struct program **p, const char *text, const char *name, int count, const char *const *headers, const char *const *names) {
	*p = calloc(1, sizeof **p);
	append_string(&(*p)->source, name ? name : "");
	append_string(&(*p)->source, text);
	for (int i = 0; i < count; i++) {
		append_string(&(*p)->source, names[i]);
		append_string(&(*p)->source, headers[i]);
	}
	return 0;
}
API hiprtcCompileProgram(struct program *p, int count, const char *const *options) {
	struct text t = {0};
	append_number(&t, count);
	for (int i = 0; i < count; i++) append_string(&t, options[i]);
	append(&t, p->source.at, p->source.bytes);
	struct request q = {.call = "hiprtcCompileProgram", .bytes = t.bytes};
	struct reply r = {0};
	void *made = NULL;
	int code = exchange(&q, t.at, -1, &r, &made, NULL, 0);
	free(t.at);
	if (!made) return code ? 11 : 0;
	if (code) append(&p->log, made, r.bytes);
	else append(&p->code, made, r.bytes);
	free(made);
	return code;
}
API hiprtcGetProgramLogSize(struct program *p, size_t *n) { *n = p->log.bytes + 1; return 0; }
API hiprtcGetProgramLog(struct program *p, char *to) {
	if (p->log.bytes) memcpy(to, p->log.at, p->log.bytes);
	to[p->log.bytes] = 0;
	return 0;
}
API hiprtcGetCodeSize(struct program *p, size_t *n) { *n = p->code.bytes; return 0; }
API hiprtcGetCode(struct program *p, char *to) { memcpy(to, p->code.at, p->code.bytes); return 0; }
API hiprtcDestroyProgram(struct program **p) {
	free((*p)->source.at);
	free((*p)->code.at);
	free((*p)->log.at);
	free(*p);
	*p = NULL;
	return 0;
}
