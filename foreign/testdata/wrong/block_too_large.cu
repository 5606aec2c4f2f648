// check gelu.forward --dtype f32 --entry gelu --launch grid=R block=C args=x,y
// want the block of gelu is
__global__ void gelu(const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    y[i] = v / (1.0f + expf(-1.5957691216057308f * (v + 0.044715f * v * v * v)));
}
