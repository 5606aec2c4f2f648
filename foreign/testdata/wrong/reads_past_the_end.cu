// check softmax.forward --dtype f32 --entry softmax --launch grid=R block=32 args=x,y,C
// want out of bounds: reads reads_past_the_end.cu:7
__global__ void softmax(const float* x, float* y, int C) {
    x += blockIdx.x * C, y += blockIdx.x * C;
    float m = -INFINITY, s = 0;
    for (int c = 0; c < C; c++) m = x[c] != x[c] ? NAN : fmaxf(m, x[c]);
    for (int c = 0; c <= C; c++) s += c < C ? expf(x[c] - m) : 0 * x[c];
    for (int c = threadIdx.x; c < C; c += 32) y[c] = expf(x[c] - m) / s;
}
