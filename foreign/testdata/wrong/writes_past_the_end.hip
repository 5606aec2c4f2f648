// check gelu.forward --dtype f32 --entry gelu --launch grid=ceil(R*C/64) block=64 args=x,y,R*C:i64
// want out of bounds: writes 4 bytes at element writes_past_the_end.hip:8
// The last block has no limit for the stores.
#include <hip/hip_runtime.h>
__global__ void gelu(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0;
    y[i] = v / (1.0f + expf(-1.5957691216057308f * (v + 0.044715f * v * v * v)));
}
