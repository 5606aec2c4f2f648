// check softmax.forward --dtype f32 --entry softmax --launch grid=R block=32 shared=4*C-4 args=x,y,C
// want dynamic shared memory dynamic_shared.cu:6
extern __shared__ float row[];
__global__ void softmax(const float* x, float* y, int C) {
    float m = -INFINITY, s = 0;
    for (int c = threadIdx.x; c < C; c += 32) row[c] = x[blockIdx.x * C + c];
    __syncwarp();
    for (int c = 0; c < C; c++) m = row[c] != row[c] ? NAN : fmaxf(m, row[c]);
    for (int c = 0; c < C; c++) s += expf(row[c] - m);
    for (int c = threadIdx.x; c < C; c += 32) y[blockIdx.x * C + c] = expf(row[c] - m) / s;
}
