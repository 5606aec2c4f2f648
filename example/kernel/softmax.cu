// Softmax of the rows of x, one block per row, in three passes over the row. Judge it with
//
//   tokitai check softmax.forward --cuda softmax.cu --entry 'softmax<T>' --launch 'grid=R block=256 args=x,y,C' --device sim
//
// or on a GPU, without --device sim. T is the format that is judged: float, __half or
// __nv_bfloat16.
#include <cuda_runtime.h>

__device__ float block_max(float v) {
    __shared__ float partial[32];
    for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
    __syncthreads();
    v = partial[0];
    for (int i = 1; i < blockDim.x / 32; i++) v = fmaxf(v, partial[i]);
    __syncthreads(); // partial is used again
    return v;
}

__device__ float block_sum(float v) {
    __shared__ float partial[32];
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0;
    for (int i = 0; i < blockDim.x / 32; i++) v += partial[i];
    __syncthreads();
    return v;
}

template <class T>
__global__ void softmax(const T* __restrict__ x, T* y, int C) {
    x += (size_t)blockIdx.x * C, y += (size_t)blockIdx.x * C;
    float m = -INFINITY;
    bool is_nan = false; // which fmaxf drops
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        m = fmaxf(m, (float)x[c]);
        is_nan |= isnan((float)x[c]);
    }
    m = block_max(m);
    if (__syncthreads_or(is_nan)) m = NAN;
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += blockDim.x) sum += expf((float)x[c] - m);
    sum = block_sum(sum);
    for (int c = threadIdx.x; c < C; c += blockDim.x) y[c] = (T)(expf((float)x[c] - m) / sum);
}
