/* What a C function is given that 'tokitai check OP --library libmine.so --symbol f' judges:
 *
 *     int f(const tokitai_call *call);
 *
 * The function reads the inputs, writes every element of the outputs, and returns 0. It returns
 * TOKITAI_REFUSED if it does not compute calls of this kind, because of a dtype or a shape, and
 * any other number if it fails; what it writes to call->message is shown in both cases. It may
 * keep nothing that call points to. In C++ it is declared extern "C". */
#ifndef TOKITAI_H
#define TOKITAI_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TOKITAI_VERSION 1
#define TOKITAI_REFUSED 77

/* Formats of elements. FP8 and i8 are one byte, f16 and bf16 two, f32 and i32 four, i64 eight. */
enum {
    TOKITAI_F16 = 1, TOKITAI_BF16 = 2, TOKITAI_F32 = 3, TOKITAI_I32 = 4,
    TOKITAI_E4M3 = 5, TOKITAI_E5M2 = 6, TOKITAI_I8 = 7, TOKITAI_I64 = 8
};

/* What an operand is for. One that is read and written has both. */
enum { TOKITAI_READ = 1, TOKITAI_WRITTEN = 2 };

/* An operand of the definition. Its data are aligned as its elements are, to no more. */
typedef struct tokitai_operand {
    const char *name;
    void *data;             /* the first element; inputs must not be written */
    int32_t dtype;          /* TOKITAI_F32 and so on */
    int32_t use;            /* TOKITAI_READ, TOKITAI_WRITTEN or both */
    int32_t rank;           /* the number of sizes: 2 for a matrix, 0 for a single value */
    int32_t reserved;
    const int64_t *shape;
    const int64_t *strides; /* elements from one index to the next; the last is 1 */
} tokitai_operand;

typedef struct tokitai_param {
    const char *name;
    double value;
} tokitai_param;

/* One call. Operands and parameters are in the order of the definition: see
 * 'tokitai explain OP'. */
typedef struct tokitai_call {
    uint32_t version;      /* TOKITAI_VERSION */
    uint32_t bytes;        /* of this struct; later versions may add members */
    const char *operation; /* such as softmax.forward */
    const tokitai_operand *operands;
    const tokitai_param *params;
    int32_t operand_count;
    int32_t param_count;
    char *message; /* for an error: text of at most message_bytes, with the 0 that ends it */
    size_t message_bytes;
} tokitai_call;

/* Returns an operand by name, or NULL. */
static inline const tokitai_operand *tokitai_find(const tokitai_call *call, const char *name) {
    for (int32_t i = 0; i < call->operand_count; i++)
        if (strcmp(call->operands[i].name, name) == 0) return &call->operands[i];
    return NULL;
}

/* Returns a parameter by name, or the given value if there is none. */
static inline double tokitai_value(const tokitai_call *call, const char *name, double otherwise) {
    for (int32_t i = 0; i < call->param_count; i++)
        if (strcmp(call->params[i].name, name) == 0) return call->params[i].value;
    return otherwise;
}

/* Sets the message, and returns the code. */
static inline int tokitai_fail(const tokitai_call *call, int code, const char *message) {
    strncpy(call->message, message, call->message_bytes - 1);
    return code;
}

#ifdef __cplusplus
}
#endif

#endif
