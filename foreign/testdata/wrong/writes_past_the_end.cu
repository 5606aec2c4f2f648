// check gelu.forward --dtype f32 --entry gelu --launch grid=ceil(R*C/64) block=64 args=x,y,R*C
// want out of bounds: writes writes_past_the_end.cu:6
__global__ void gelu(const float* x, float* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    float v = i < n ? x[i] : 0;
    y[i] = v / (1.0f + expf(-1.5957691216057308f * (v + 0.044715f * v * v * v)));
}
