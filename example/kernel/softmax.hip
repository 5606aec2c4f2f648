// Softmax of the rows of x in HIP, one block per row. Judge it with
//
//   tokitai check softmax.forward --hip softmax.hip --entry 'softmax<T>' --launch 'grid=R block=256 args=x,y,C' --device sim
//
// or with --device amdemu, on an emulated GPU, or on a GPU, without --device. T is the format that
// is judged: float, __half or __hip_bfloat16. Waves may have 32 lanes or 64.
#include <hip/hip_runtime.h>

__device__ float block_max(float v) {
    __shared__ float partial[32];
    for (int d = warpSize / 2; d > 0; d /= 2) v = fmaxf(v, __shfl_xor(v, d));
    if (threadIdx.x % warpSize == 0) partial[threadIdx.x / warpSize] = v;
    __syncthreads();
    v = partial[0];
    for (int i = 1; i < blockDim.x / warpSize; i++) v = fmaxf(v, partial[i]);
    __syncthreads(); // partial is used again
    return v;
}

__device__ float block_sum(float v) {
    __shared__ float partial[32];
    for (int d = warpSize / 2; d > 0; d /= 2) v += __shfl_xor(v, d);
    if (threadIdx.x % warpSize == 0) partial[threadIdx.x / warpSize] = v;
    __syncthreads();
    v = 0;
    for (int i = 0; i < blockDim.x / warpSize; i++) v += partial[i];
    __syncthreads();
    return v;
}

template <class T>
__global__ void softmax(const T* __restrict__ x, T* y, int C) {
    x += (size_t)blockIdx.x * C, y += (size_t)blockIdx.x * C;
    float m = -INFINITY;
    float is_nan = 0; // which fmaxf drops
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        m = fmaxf(m, (float)x[c]);
        if (isnan((float)x[c])) is_nan = 1;
    }
    m = block_max(m);
    if (block_max(is_nan) > 0) m = NAN;
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += blockDim.x) sum += expf((float)x[c] - m);
    sum = block_sum(sum);
    for (int c = threadIdx.x; c < C; c += blockDim.x) y[c] = (T)(expf((float)x[c] - m) / sum);
}
