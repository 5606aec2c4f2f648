// check gelu.forward --dtype f32 --entry gelu --launch grid=max(1,R*C/64) block=64 args=x,y,R*C
// want not written
__global__ void gelu(const float* x, float* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = v / (1.0f + expf(-1.5957691216057308f * (v + 0.044715f * v * v * v)));
}
