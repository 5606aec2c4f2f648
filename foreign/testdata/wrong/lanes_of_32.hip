// check softmax.forward --dtype f32 --entry softmax --launch grid=R block=64 args=x,y,C
// want y[0,
// Sums of 32 lanes where waves have 64: half of each wave is lost.
#include <hip/hip_runtime.h>
__global__ void softmax(const float* x, float* y, int C) {
    __shared__ float partial[2];
    x += (size_t)blockIdx.x * C, y += (size_t)blockIdx.x * C;
    float m = -INFINITY, s = 0;
    for (int c = 0; c < C; c++) m = x[c] != x[c] ? NAN : fmaxf(m, x[c]);
    for (int c = threadIdx.x; c < C; c += 64) s += expf(x[c] - m);
    for (int d = 16; d > 0; d /= 2) s += __shfl_xor(s, d);
    if (threadIdx.x % warpSize == 0) partial[threadIdx.x / warpSize] = s;
    __syncthreads();
    s = 0;
    for (int i = 0; i < 64 / warpSize; i++) s += partial[i];
    for (int c = threadIdx.x; c < C; c += 64) y[c] = expf(x[c] - m) / s;
}
