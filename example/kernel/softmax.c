/* Softmax of the rows of a matrix in f32, as a C function:
 *
 *     tokitai check --emit header > tokitai.h
 *     gcc -O2 -shared -fPIC -o libsoftmax.so softmax.c -lm
 *     tokitai check softmax.forward --library ./libsoftmax.so --symbol softmax
 */
#include <math.h>

#include "tokitai.h"

int softmax(const tokitai_call *call) {
    const tokitai_operand *x = tokitai_find(call, "x"), *y = tokitai_find(call, "y");
    if (x == NULL || y == NULL || x->rank != 2) return tokitai_fail(call, TOKITAI_REFUSED, "it computes softmax of matrices");
    if (x->dtype != TOKITAI_F32) return tokitai_fail(call, TOKITAI_REFUSED, "it computes f32 alone");
    for (int64_t r = 0; r < x->shape[0]; r++) {
        const float *in = (const float *)x->data + r * x->strides[0];
        float *out = (float *)y->data + r * y->strides[0];
        double top = -INFINITY, total = 0;
        for (int64_t c = 0; c < x->shape[1]; c++) top = isnan(in[c]) || in[c] > top ? in[c] : top;
        for (int64_t c = 0; c < x->shape[1]; c++) total += exp(in[c] - top);
        for (int64_t c = 0; c < x->shape[1]; c++) out[c] = (float)(exp(in[c] - top) / total);
    }
    return 0;
}
