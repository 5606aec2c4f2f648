// check softmax.forward --entry softmax<T> --launch grid=R block=128 shared=128*4 args=x,y,C
// Trees in shared memory whose size the launch gives.
#include "hip/hip_runtime.h"

template <class F>
__device__ float tree(float* partial, float v, F combine) {
    partial[threadIdx.x] = v;
    __syncthreads();
    for (int n = blockDim.x / 2; n > 0; n /= 2) {
        if (threadIdx.x < n) partial[threadIdx.x] = combine(partial[threadIdx.x], partial[threadIdx.x + n]);
        __syncthreads();
    }
    v = partial[0];
    __syncthreads();
    return v;
}

template <class T>
__global__ void softmax(const T* __restrict__ x, T* __restrict__ y, int C) {
    HIP_DYNAMIC_SHARED(float, partial);
    x += (size_t)blockIdx.x * C, y += (size_t)blockIdx.x * C;
    float m = -INFINITY, s = 0;
    for (int c = threadIdx.x; c < C; c += blockDim.x) m = isnan((float)x[c]) || isnan(m) ? NAN : fmaxf(m, (float)x[c]);
    m = tree(partial, m, [](float a, float b) { return isnan(a) || isnan(b) ? NAN : fmaxf(a, b); });
    for (int c = threadIdx.x; c < C; c += blockDim.x) s += expf((float)x[c] - m);
    s = tree(partial, s, [](float a, float b) { return a + b; });
    for (int c = threadIdx.x; c < C; c += blockDim.x) y[c] = (T)(expf((float)x[c] - m) / s);
}
