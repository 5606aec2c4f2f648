// check softmax.forward --entry softmax<T> --launch grid=ceil(R/4) block=32,4 args=x,y,R,C
#include <cuda_fp16.h>
#include <cuda_bf16.h>
// One warp per row, four rows per block; maximum and sum in one pass.
__device__ void join(float& m, float& s, float m2, float s2) {
    float n = m > m2 || m != m ? m : m2;
    s = s * (m == n ? 1.0f : expf(m - n)) + s2 * (m2 == n ? 1.0f : expf(m2 - n));
    m = n;
}
template <typename T>
__global__ void __launch_bounds__(128) softmax(const T* __restrict__ x, T* __restrict__ y, int R, int C) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= R) return;
    float m = -INFINITY, s = 0;
    for (int c = threadIdx.x; c < C; c += 32) {
        float v = static_cast<float>(x[row * C + c]);
        if (v == INFINITY) v = NAN;
        join(m, s, v, 1.0f);
    }
    for (int d = 16; d > 0; d >>= 1) {
        float m2 = __shfl_xor_sync(0xffffffff, m, d), s2 = __shfl_xor_sync(0xffffffff, s, d, 32);
        if (s2 != 0) join(m, s, m2, s2);
    }
    if (m == -INFINITY) s = NAN;
    for (int c = threadIdx.x; c < C; c += 32) y[row * C + c] = T(expf(float(x[row * C + c]) - m) / s);
}
