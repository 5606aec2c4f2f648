// check gelu.forward --dtype f32 --entry gelu --launch grid=ceil(R*C/256) block=64 args=x,y,R*C:i64
// want not written
// Four elements a thread, and none of those that remain.
#include <hip/hip_runtime.h>
__global__ void gelu(const float* x, float* y, long long n) {
    long long i = 4 * (blockIdx.x * (long long)blockDim.x + threadIdx.x);
    if (i + 4 > n) return;
    for (int k = 0; k < 4; k++) {
        float v = x[i + k];
        y[i + k] = v / (1.0f + expf(-1.5957691216057308f * (v + 0.044715f * v * v * v)));
    }
}
