// check gelu.forward --dtype f32 --entry gelu --launch grid=ceil(R*C/64) block=64 args=x,y,R*C
// want out of bounds: index 64 shared_index.cu:6
__global__ void gelu(const float* x, float* y, int n) {
    __shared__ float tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    tile[threadIdx.x + 1] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n) y[i] = tile[threadIdx.x + 1] / (1.0f + expf(-1.5957691216057308f * tile[threadIdx.x + 1]));
}
