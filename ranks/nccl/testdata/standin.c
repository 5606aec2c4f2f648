// A stand-in for NCCL, for tests: the same functions, between processes of one machine, on memory of the host. Bytes go through a file
// that all ranks map. It checks every call against NCCL's documentation: what breaks a rule is refused, and written to the file that
// STANDIN_LOG names, as are all calls.
//
// STANDIN_FAULT plants a fault: "async" has the communicator report an error behind the third call that moves bytes, "call" has that call fail, "exit"
// the process end in it, all on the rank STANDIN_FAULTY.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef enum { ncclSuccess, ncclUnhandledCudaError, ncclSystemError, ncclInternalError, ncclInvalidArgument, ncclInvalidUsage, ncclRemoteError, ncclInProgress } ncclResult_t;
typedef struct { char internal[128]; } ncclUniqueId;
enum { maxRanks = 8, chunkBytes = 1 << 14, maxOps = 64, types = 12 };

enum kind { opSend = 1, opRecv, opAllGather, opBroadcast };
static const char *names[] = {"", "ncclSend", "ncclRecv", "ncclAllGather", "ncclBroadcast"};

// head is what goes before the bytes of a call: both ends have to agree on it.
struct head { uint64_t kind, count, type, root; };

// lane carries bytes from one rank to another, a chunk at a time.
struct lane { _Atomic uint32_t isFull; uint32_t bytes; char data[chunkBytes]; };

struct world {
	_Atomic int32_t pid[maxRanks];  // of each rank that has come
	_Atomic int32_t size[maxRanks]; // that it takes the group to have
	char gpu[maxRanks][64];
	_Atomic int32_t isChecked; // ranks that have seen all others
	_Atomic int32_t left[maxRanks];
	struct lane lanes[maxRanks][maxRanks];
};

enum state { alive = 1, finalized, gone };
struct comm { enum state state; int rank, size; struct world *world; ncclResult_t async; int calls; };
typedef struct comm *ncclComm_t;

static char lastError[256];
static int depth;          // of groups
static ncclResult_t inGroup; // the first error of the group

static void note(const char *format, ...) {
	const char *path = getenv("STANDIN_LOG");
	if (!path) return;
	char line[400];
	va_list list;
	va_start(list, format);
	int n = vsnprintf(line, sizeof line - 1, format, list);
	va_end(list);
	line[n++] = '\n';
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (fd >= 0) { if (write(fd, line, n) < 0) abort(); close(fd); }
}

// refuse notes that a rule is broken.
static ncclResult_t refuse(ncclResult_t code, const char *rule) {
	snprintf(lastError, sizeof lastError, "%s", rule);
	note("BROKEN %s", rule);
	if (depth > 0 && inGroup == ncclSuccess) inGroup = code;
	return code;
}

static ncclResult_t fail(ncclResult_t code, const char *why) {
	snprintf(lastError, sizeof lastError, "%s", why);
	return code;
}

int tokitaiTakesHostMemory(void) { return 1; }

ncclResult_t ncclGetVersion(int *version) {
	if (!version) return refuse(ncclInvalidArgument, "ncclGetVersion without a place for it");
	*version = 22899;
	return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t code) {
	switch (code) {
	case ncclInvalidArgument: return "invalid argument";
	case ncclInvalidUsage: return "invalid usage";
	case ncclRemoteError: return "remote process exited or there was a network error";
	default: return "unhandled error";
	}
}

const char *ncclGetLastError(ncclComm_t comm) { return lastError; }

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
	if (!id) return refuse(ncclInvalidArgument, "ncclGetUniqueId without a place for it");
	note("ncclGetUniqueId");
	memset(id, 0x5a, sizeof *id); // all of it has to arrive
	snprintf(id->internal, sizeof id->internal, "/tokitai-standin-%d", (int)getpid());
	int fd = shm_open(id->internal, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct world)) != 0) return fail(ncclSystemError, strerror(errno));
	close(fd);
	return ncclSuccess;
}

static int isDead(struct comm *c, int rank) {
	int pid = c->world->pid[rank];
	return pid != 0 && kill(pid, 0) != 0;
}

static ncclResult_t join(ncclComm_t *out, int size, const ncclUniqueId *id, int rank, const char *by) {
	note("%s rank %d of %d", by, rank, size);
	if (!out || !id) return refuse(ncclInvalidArgument, "a communicator without an id or a place for it");
	if (size < 1 || size > maxRanks || rank < 0 || rank >= size) return refuse(ncclInvalidArgument, "a rank that is not between 0 and the number of ranks");
	for (size_t i = strlen(id->internal) + 1; i < sizeof *id; i++)
		if (id->internal[i] != 0x5a) return refuse(ncclInvalidArgument, "an id of which not all bytes are those of ncclGetUniqueId");
	int fd = shm_open(id->internal, O_RDWR, 0600);
	if (fd < 0) return refuse(ncclInvalidArgument, "an id that ncclGetUniqueId has not given");
	struct world *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (w == MAP_FAILED) return fail(ncclSystemError, strerror(errno));
	struct comm *c = calloc(1, sizeof *c);
	c->state = alive, c->rank = rank, c->size = size, c->world = w;
	const char *gpu = getenv("CUDA_VISIBLE_DEVICES");
	snprintf(w->gpu[rank], sizeof w->gpu[rank], "%s", gpu ? gpu : "");
	w->size[rank] = size;
	int32_t none = 0;
	if (!__atomic_compare_exchange_n((int32_t *)&w->pid[rank], &none, (int32_t)getpid(), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return refuse(ncclInvalidUsage, "two processes with the same rank");
	for (int r = 0; r < size; r++)
		while (!w->pid[r]) usleep(100);
	ncclResult_t code = ncclSuccess;
	for (int r = 0; r < size; r++) {
		if (w->size[r] != size) code = refuse(ncclInvalidUsage, "ranks with different numbers of ranks");
		if (r != rank && gpu && !strcmp(w->gpu[r], gpu)) code = fail(ncclInvalidUsage, "Duplicate GPU detected");
	}
	if (__atomic_add_fetch((int32_t *)&w->isChecked, 1, __ATOMIC_SEQ_CST) == size) shm_unlink(id->internal);
	*out = code ? NULL : c;
	return code;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank) { return join(comm, size, &id, rank, "ncclCommInitRank"); }

#ifndef WITHOUT_SCALABLE
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int size, int rank, int ids, ncclUniqueId *id, void *config) {
	if (ids != 1 || config) return refuse(ncclInvalidArgument, "ncclCommInitRankScalable with several ids or a config");
	return join(comm, size, id, rank, "ncclCommInitRankScalable");
}
#endif

// op is a call that moves bytes. Its parts go through the lanes to, and from, each rank.
struct op {
	struct head head;
	struct comm *comm;
	const char *send;
	char *receive;
	int peer;
	// What is done, for each rank. A head goes first.
	uint64_t sent[maxRanks], taken[maxRanks];
	int headSent[maxRanks], headTaken[maxRanks];
};
static struct op ops[maxOps];
static int count;

static uint64_t toSend(struct op *o, int r) {
	struct comm *c = o->comm;
	if (r == c->rank) return 0;
	switch (o->head.kind) {
	case opSend: return r == o->peer ? o->head.count : 0;
	case opRecv: return 0;
	case opBroadcast: return (int)o->head.root == c->rank ? o->head.count : 0;
	}
	return o->head.count;
}

static uint64_t toTake(struct op *o, int r) {
	struct comm *c = o->comm;
	if (r == c->rank) return 0;
	switch (o->head.kind) {
	case opRecv: return r == o->peer ? o->head.count : 0;
	case opSend: return 0;
	case opBroadcast: return (int)o->head.root == r ? o->head.count : 0;
	}
	return o->head.count;
}

static int sendsHead(struct op *o, int r) { return r != o->comm->rank && (o->head.kind >= opAllGather || (o->head.kind == opSend && r == o->peer)); }
static int takesHead(struct op *o, int r) { return r != o->comm->rank && (o->head.kind >= opAllGather || (o->head.kind == opRecv && r == o->peer)); }

// advance moves what can be moved between this rank and another. It returns whether the call is done with that rank.
static int advance(struct op *o, int r, ncclResult_t *code) {
	struct comm *c = o->comm;
	struct lane *out = &c->world->lanes[c->rank][r], *in = &c->world->lanes[r][c->rank];
	if (sendsHead(o, r) && !o->headSent[r] && !out->isFull) {
		memcpy(out->data, &o->head, sizeof o->head);
		out->bytes = sizeof o->head, o->headSent[r] = 1, out->isFull = 1;
	}
	if (o->headSent[r] && o->sent[r] < toSend(o, r) && !out->isFull) {
		uint64_t n = toSend(o, r) - o->sent[r];
		if (n > chunkBytes) n = chunkBytes;
		memcpy(out->data, o->send + o->sent[r], n);
		out->bytes = n, o->sent[r] += n, out->isFull = 1;
	}
	if (takesHead(o, r) && !o->headTaken[r] && in->isFull) {
		struct head h;
		memcpy(&h, in->data, sizeof h);
		if (h.kind == opSend) h.kind = opRecv;
		if (in->bytes != sizeof h || h.kind != o->head.kind) *code = refuse(ncclInvalidUsage, "ranks that make different calls");
		else if (h.count != o->head.count) *code = refuse(ncclInvalidUsage, "ranks with different counts");
		else if (h.type != o->head.type) *code = refuse(ncclInvalidUsage, "ranks with different types");
		else if (h.root != o->head.root) *code = refuse(ncclInvalidUsage, "ranks with different roots");
		o->headTaken[r] = 1, in->isFull = 0;
	}
	if (o->headTaken[r] && o->taken[r] < toTake(o, r) && in->isFull) {
		char *at = o->receive + (o->head.kind == opAllGather ? r * o->head.count : 0);
		memcpy(at + o->taken[r], in->data, in->bytes);
		o->taken[r] += in->bytes, in->isFull = 0;
	}
	return (!sendsHead(o, r) || o->headSent[r]) && (!takesHead(o, r) || o->headTaken[r]) && o->sent[r] == toSend(o, r) && o->taken[r] == toTake(o, r);
}

// run does the calls of a group at the same time.
static ncclResult_t run(void) {
	ncclResult_t code = ncclSuccess;
	for (int isDone = 0, rounds = 0; !isDone && !code; rounds++) {
		isDone = 1;
		for (int i = 0; i < count && !code; i++) {
			struct comm *c = ops[i].comm;
			for (int r = 0; r < c->size && !code; r++)
				if (!advance(&ops[i], r, &code)) {
					isDone = 0;
					if (isDead(c, r)) code = fail(ncclRemoteError, "a rank has ended");
				}
		}
		if (!isDone && rounds < 100) sched_yield();
		else if (!isDone) usleep(50);
	}
	count = 0;
	return code;
}

static const char *isWrong(struct comm *c) {
	if (!c) return "a call without a communicator";
	if (c->state == gone) return "use of a communicator after it was aborted or destroyed";
	if (c->state == finalized) return "a call after ncclCommFinalize";
	if (c->async) return "a call after an asynchronous error";
	return NULL;
}

static ncclResult_t begin(enum kind kind, const void *send, void *receive, size_t n, int type, int peer, int root, struct comm *c, void *stream) {
	note("%s count %zu type %d peer %d root %d group %d", names[kind], n, type, peer, root, depth);
	const char *wrong = isWrong(c);
	if (wrong) return refuse(ncclInvalidArgument, wrong);
	if (type < 0 || type >= types) return refuse(ncclInvalidArgument, "an unknown type");
	if (type != 0 && type != 1) return refuse(ncclInvalidArgument, "a type that is not one of bytes");
	if (peer < 0 || peer >= c->size || root < 0 || root >= c->size) return refuse(ncclInvalidArgument, "a rank that is not between 0 and the number of ranks");
	if (n && ((kind != opRecv && !send) || (kind != opSend && !receive))) return refuse(ncclInvalidArgument, "a call without a buffer");
	if (kind == opAllGather && send != (char *)receive + c->rank * n && (char *)send < (char *)receive + c->size * n && (char *)receive < (char *)send + n)
		return refuse(ncclInvalidArgument, "buffers of ncclAllGather that overlap, and are not in place");
	if (kind == opBroadcast && send != receive && (char *)send < (char *)receive + n && (char *)receive < (char *)send + n)
		return refuse(ncclInvalidArgument, "buffers of ncclBroadcast that overlap, and are not in place");
	if ((kind == opSend || kind == opRecv) && depth == 0) note("ALONE %s", names[kind]); // allowed, and a rank that does the same waits for ever
	const char *fault = getenv("STANDIN_FAULT"), *faulty = getenv("STANDIN_FAULTY");
	if (fault && faulty && atoi(faulty) == c->rank && ++c->calls == 3) {
		if (!strcmp(fault, "async")) c->async = ncclRemoteError;
		if (!strcmp(fault, "call")) return fail(ncclSystemError, "planted");
		if (!strcmp(fault, "exit")) _exit(9);
	}
	if (count == maxOps) return refuse(ncclInternalError, "more calls in a group than the stand-in has room for");
	struct op *o = &ops[count++];
	memset(o, 0, sizeof *o);
	o->head = (struct head){kind, n, type, root}, o->comm = c, o->send = send, o->receive = receive, o->peer = peer;
	if (kind == opAllGather && n) memmove((char *)receive + c->rank * n, send, n);
	if (kind == opBroadcast && c->rank == root && n) memmove(receive, send, n);
	return depth > 0 ? ncclSuccess : run();
}

ncclResult_t ncclSend(const void *b, size_t n, int type, int peer, ncclComm_t c, void *stream) { return begin(opSend, b, NULL, n, type, peer, 0, c, stream); }
ncclResult_t ncclRecv(void *b, size_t n, int type, int peer, ncclComm_t c, void *stream) { return begin(opRecv, NULL, b, n, type, peer, 0, c, stream); }
ncclResult_t ncclAllGather(const void *s, void *r, size_t n, int type, ncclComm_t c, void *stream) { return begin(opAllGather, s, r, n, type, 0, 0, c, stream); }
ncclResult_t ncclBroadcast(const void *s, void *r, size_t n, int type, int root, ncclComm_t c, void *stream) { return begin(opBroadcast, s, r, n, type, 0, root, c, stream); }

ncclResult_t ncclGroupStart(void) {
	note("ncclGroupStart");
	if (depth++ == 0) inGroup = ncclSuccess;
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
	note("ncclGroupEnd calls %d", count);
	if (depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
	if (--depth > 0) return ncclSuccess;
	if (inGroup != ncclSuccess) { count = 0; return inGroup; }
	return run();
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *code) {
	if (!c || c->state == gone || !code) return refuse(ncclInvalidArgument, "ncclCommGetAsyncError of a communicator that is gone");
	*code = c->async;
	if (c->async) fail(c->async, "planted");
	return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c) {
	note("ncclCommAbort");
	if (!c || c->state == gone) return refuse(ncclInvalidArgument, "ncclCommAbort of a communicator that is gone");
	c->state = gone;
	return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c) {
	note("ncclCommFinalize");
	const char *wrong = isWrong(c);
	if (wrong) return refuse(ncclInvalidArgument, wrong);
	if (depth > 0 || count > 0) return refuse(ncclInvalidUsage, "ncclCommFinalize within a group");
	c->state = finalized;
	return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c) {
	note("ncclCommDestroy");
	if (!c || c->state == gone) return refuse(ncclInvalidArgument, "ncclCommDestroy of a communicator that is gone");
	c->state = gone;
	return ncclSuccess;
}
