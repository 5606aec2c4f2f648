// check gelu.forward --dtype f32 --entry gelu --launch grid=ceil(R*C/64) block=64 args=x,y,R*C
// want which is an input input_as_scratch.cu:6
__global__ void gelu(float* x, float* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    x[i] = x[i] + 0.0f;
    y[i] = x[i] / (1.0f + expf(-1.5957691216057308f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}
