// check gelu.forward --launch entry=gelu<T> grid=ceil(R*C/256) block=256 args=x,y,R*C:i64
// GELU in its tanh form, in any format.
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
template <class T>
__global__ void gelu(const T* x, T* y, long long n) {
    long long i = hipBlockIdx_x * (long long)hipBlockDim_x + hipThreadIdx_x;
    if (i >= n) return;
    float v = (float)x[i], t = 1.5957691216057308f * (v + 0.044715f * v * v * v);
    y[i] = (T)(v / (1.0f + expf(-t)));
}
