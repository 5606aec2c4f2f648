// check layernorm.forward --dtype f32 --entry layernorm --launch grid=R block=64 args=x,gamma,beta,y,mean,rstd,C,eps
// One wave of 64 lanes or two of 32, which meet in shared memory.
#include <hip/hip_runtime.h>

__device__ float total(float v) {
    __shared__ float partial[2];
    for (int d = warpSize / 2; d > 0; d >>= 1) v += __shfl_down(v, d);
    if (__lane_id() == 0) partial[threadIdx.x / warpSize] = v;
    __syncthreads();
    v = warpSize == 64 ? partial[0] : partial[0] + partial[1];
    __syncthreads();
    return v;
}

extern "C" __global__ void layernorm(const float* x, const float* gamma, const float* beta, float* y, float* mean, float* rstd, int C, float eps) {
    x += (size_t)blockIdx.x * C, y += (size_t)blockIdx.x * C;
    float s = 0, q = 0;
    for (int c = threadIdx.x; c < C; c += blockDim.x) s += x[c];
    float m = total(s) / C;
    for (int c = threadIdx.x; c < C; c += blockDim.x) q += (x[c] - m) * (x[c] - m);
    float r = 1.0f / sqrtf(total(q) / C + eps);
    for (int c = threadIdx.x; c < C; c += blockDim.x) y[c] = (x[c] - m) * r * gamma[c] + beta[c];
    if (threadIdx.x == 0) mean[blockIdx.x] = m, rstd[blockIdx.x] = r;
}
