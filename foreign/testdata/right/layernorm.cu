// check layernorm.forward --entry layernorm<T,T_gamma> --launch grid=R block=64 shared=4*C args=x,gamma,beta,y,mean,rstd,C,eps
// The row is kept in shared memory whose size the launch gives.
__device__ float sum(float v) {
    __shared__ float partial[2];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = v;
    __syncthreads();
    v = partial[0] + partial[1];
    __syncthreads();
    return v;
}
template <typename T, typename G>
__global__ void layernorm(const T* x, const G* gamma, const G* beta, T* y, float* mean, float* rstd, int C, float eps) {
    extern __shared__ __align__(16) float row[];
    const T* in = x + (size_t)blockIdx.x * C;
    float s = 0;
    for (int c = threadIdx.x; c < C; c += blockDim.x) s += row[c] = float(in[c]);
    float m = sum(s) / C;
    s = 0;
    for (int c = threadIdx.x; c < C; c += blockDim.x) s += (row[c] - m) * (row[c] - m);
    float r = rsqrtf(sum(s) / C + eps);
    for (int c = threadIdx.x; c < C; c += blockDim.x) y[(size_t)blockIdx.x * C + c] = T((row[c] - m) * r * float(gamma[c]) + float(beta[c]));
    if (threadIdx.x == 0) mean[blockIdx.x] = m, rstd[blockIdx.x] = r;
}
