// a*x in C++, under a name of C++ and under one of C.
#include "tokitai.h"

int scaled(const tokitai_call *call) {
    const tokitai_operand *x = tokitai_find(call, "x"), *y = tokitai_find(call, "y");
    const float a = static_cast<float>(tokitai_value(call, "a", 0));
    for (int64_t r = 0; r < x->shape[0]; r++)
        for (int64_t c = 0; c < x->shape[1]; c++)
            static_cast<float *>(y->data)[r * y->strides[0] + c] = a * static_cast<const float *>(x->data)[r * x->strides[0] + c];
    return 0;
}

extern "C" int plain(const tokitai_call *call) { return scaled(call); }
