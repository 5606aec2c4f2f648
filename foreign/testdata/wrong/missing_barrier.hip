// check softmax.forward --dtype f32 --entry softmax --launch grid=R block=128 args=x,y,C
// want race missing_barrier.hip:12
#include <hip/hip_runtime.h>
__global__ void softmax(const float* x, float* y, int C) {
    __shared__ float partial[128];
    x += blockIdx.x * C, y += blockIdx.x * C;
    float m = -INFINITY, s = 0;
    for (int c = 0; c < C; c++) m = x[c] != x[c] ? NAN : fmaxf(m, x[c]);
    for (int c = threadIdx.x; c < C; c += blockDim.x) s += expf(x[c] - m);
    partial[threadIdx.x] = s;
    s = 0;
    for (int i = 0; i < blockDim.x; i++) s += partial[i];
    for (int c = threadIdx.x; c < C; c += blockDim.x) y[c] = expf(x[c] - m) / s;
}
