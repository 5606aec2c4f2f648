// check softmax.forward --dtype f32 --launch entry=reduce scratch=stats:8*R grid=R block=32 args=x,stats,C; entry=apply grid=ceil(C/32),R block=32 args=x,y,stats,C when=R<=65535
// Two launches with scratch memory between them.
struct Stats { float m, s; };
__global__ void reduce(const float* x, Stats* stats, int C) {
    float m = -INFINITY, s = 0;
    bool bad = false;
    for (int c = threadIdx.x; c < C; c += 32) { float v = x[blockIdx.x * C + c]; bad |= v != v; m = fmaxf(m, v); }
    for (int d = 16; d; d /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
    if (__any_sync(~0u, bad)) m = NAN;
    for (int c = threadIdx.x; c < C; c += 32) s += expf(x[blockIdx.x * C + c] - m);
    for (int d = 16; d; d /= 2) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x == 0) stats[blockIdx.x] = {m, s};
}
__global__ void apply(const float* x, float* y, const Stats* stats, int C) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (c < C) y[r * C + c] = expf(x[r * C + c] - stats[r].m) / stats[r].s;
}
