// check gelu.forward --dtype f32 --entry gelu --launch grid=ceil(R*C/64) block=64 args=x,y,R*C
// want barrier divergent_barrier.cu:8
__global__ void gelu(const float* x, float* y, int n) {
    __shared__ float tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) {
        tile[threadIdx.x] = x[i];
        __syncthreads();
        float v = tile[threadIdx.x];
        y[i] = v / (1.0f + expf(-1.5957691216057308f * (v + 0.044715f * v * v * v)));
    } else {
        __syncthreads();
    }
}
