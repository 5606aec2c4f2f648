// check softmax.forward --dtype f32 --entry softmax --launch grid=R block=64 args=x,y,C
// want race missing_barrier.cu:11
__global__ void softmax(const float* x, float* y, int C) {
    __shared__ float partial[64];
    x += blockIdx.x * C, y += blockIdx.x * C;
    float m = -INFINITY;
    for (int c = 0; c < C; c++) m = x[c] != x[c] ? NAN : fmaxf(m, x[c]);
    float s = 0;
    for (int c = threadIdx.x; c < C; c += blockDim.x) s += expf(x[c] - m);
    partial[threadIdx.x] = s;
    for (int i = s = 0; i < blockDim.x; i++) s += partial[i];
    for (int c = threadIdx.x; c < C; c += blockDim.x) y[c] = expf(x[c] - m) / s;
}
