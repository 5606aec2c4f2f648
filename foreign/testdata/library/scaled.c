/* Kernels for a*x, each a function by itself: right ones, and ones with one fault each. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tokitai.h"

typedef struct {
    const float *x;
    float *y;
    int64_t rows, cols, from, to; /* strides of x and y */
    float a;
} args;

static args of(const tokitai_call *call) {
    const tokitai_operand *x = tokitai_find(call, "x"), *y = tokitai_find(call, "y");
    return (args){(const float *)x->data, (float *)y->data, x->shape[0], x->shape[1], x->strides[0], y->strides[0], (float)tokitai_value(call, "a", -1)};
}

static int compute(args k) {
    for (int64_t r = 0; r < k.rows; r++)
        for (int64_t c = 0; c < k.cols; c++) k.y[r * k.to + c] = k.a * k.x[r * k.from + c];
    return 0;
}

int right(const tokitai_call *call) { return compute(of(call)); }

int prints(const tokitai_call *call) { puts(call->operation); return compute(of(call)); }

int large_stack(const tokitai_call *call) {
    volatile char room[1 << 20];
    for (size_t i = 0; i < sizeof room; i += 1024) room[i] = (char)i;
    return compute(of(call)) + room[0];
}

int ignores_strides(const tokitai_call *call) {
    args k = of(call);
    k.from = k.to = k.cols;
    return compute(k);
}

int int_offsets(const tokitai_call *call) {
    args k = of(call);
    for (int r = 0; r < (int)k.rows; r++)
        for (int c = 0; c < (int)k.cols; c++) k.y[(int)((unsigned)r * (unsigned)k.to) + c] = k.a * k.x[(int)((unsigned)r * (unsigned)k.from) + c];
    return 0;
}

int wrong_column(const tokitai_call *call) {
    args k = of(call);
    compute(k);
    if (k.cols > 6) k.y[6]++;
    return 0;
}

int leaves_the_tail(const tokitai_call *call) {
    args k = of(call);
    k.cols -= k.cols % 4;
    return compute(k);
}

int writes_after(const tokitai_call *call) {
    args k = of(call);
    compute(k);
    k.y[(k.rows - 1) * k.to + k.cols] = 1;
    return 0;
}

int writes_before(const tokitai_call *call) {
    args k = of(call);
    compute(k);
    k.y[-2] = 1;
    return 0;
}

int writes_between(const tokitai_call *call) {
    args k = of(call);
    compute(k);
    if (k.rows > 1 && k.to > k.cols) k.y[k.cols] = 1;
    return 0;
}

int changes_its_input(const tokitai_call *call) {
    args k = of(call);
    compute(k);
    ((float *)k.x)[0] = 3;
    return 0;
}

/* Sums of what is beyond the row make a difference of the last bits at least. */
int reads_beyond(const tokitai_call *call) {
    args k = of(call);
    compute(k);
    k.y[0] = k.x[(k.rows - 1) * k.from + k.cols] != k.x[0] ? k.y[0] : 0;
    k.y[0] += 0 * k.x[(k.rows - 1) * k.from + k.cols];
    return 0;
}

int far_away(const tokitai_call *call) {
    args k = of(call);
    compute(k);
    k.y[k.rows * k.to + (1 << 20)] = 1;
    return 0;
}

/* A thread that writes to y once the call has returned: when the thread that made it sleeps for a while, it waits for the next call. */
static float *volatile kept;
static volatile long caller; /* 0 during a call */
static int sleeps(long thread) {
    char name[64], state = 0;
    snprintf(name, sizeof name, "/proc/self/task/%ld/stat", thread);
    FILE *f = fopen(name, "r");
    if (f == NULL) return 0;
    if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 0;
    fclose(f);
    return state == 'S';
}
static void *later(void *unused) {
    for (int asleep = 0; asleep < 8; usleep(100)) asleep = caller != 0 && sleeps(caller) ? asleep + 1 : 0;
    kept[0] = 42;
    return unused;
}
int writes_later(const tokitai_call *call) {
    args k = of(call);
    pthread_t thread;
    caller = 0;
    compute(k);
    kept = k.y;
    int code = pthread_create(&thread, NULL, later, NULL);
    caller = syscall(SYS_gettid);
    return code;
}

int crashes(const tokitai_call *call) { (void)call; *(volatile int *)NULL = 1; return 0; }
int aborts(const tokitai_call *call) { (void)call; fprintf(stderr, "an invariant is broken\n"); abort(); }
int leaves(const tokitai_call *call) { (void)call; exit(5); }
int leaves_in_peace(const tokitai_call *call) { (void)call; exit(0); }
int hangs(const tokitai_call *call) { (void)call; for (;;) pause(); }
int divides(const tokitai_call *call) { volatile int zero = 0; return call->operand_count / zero; }
static int deeper(volatile char *from) { volatile char room[4096]; room[0] = *from; return room[0] == 2 ? 0 : deeper(room) + room[0]; }
int recurses(const tokitai_call *call) { (void)call; char c = 1; return deeper(&c); }

int allocates(const tokitai_call *call) {
    size_t bytes = 0;
    while (malloc(256 << 20) != NULL) bytes += 256 << 20;
    return tokitai_fail(call, 12, bytes > 0 ? "there is no more memory" : "there is no memory");
}

int fails(const tokitai_call *call) { return tokitai_fail(call, 3, "no thread could be started"); }
int fails_silently(const tokitai_call *call) { (void)call; return -1; }
int refuses(const tokitai_call *call) { return tokitai_fail(call, TOKITAI_REFUSED, "it wants a plan"); }
int refuses_long_rows(const tokitai_call *call) {
    args k = of(call);
    return k.cols > 16 ? tokitai_fail(call, TOKITAI_REFUSED, "rows of at most 16") : compute(k);
}
int fills_the_message(const tokitai_call *call) {
    memset(call->message, 'x', call->message_bytes);
    return 4;
}

int variable = 5;
static __attribute__((used, noinline)) int hidden(const tokitai_call *call) { return right(call); }
