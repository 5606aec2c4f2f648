// check norm.square_sum --dtype f32 --entry square_sum --launch grid=2 block=32 args=x,total,R*C
// want race two_blocks.cu:7
__global__ void square_sum(const float* x, float* sum, int n) {
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 32) s += x[i] * x[i];
    for (int d = 16; d; d /= 2) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x == 0) *sum = s;
}
