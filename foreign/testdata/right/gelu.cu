// check gelu.forward --entry gelu --launch grid=ceil(R*C/64) block=64 args=x,y,R*C:i64
extern "C" __global__ void gelu(const T* x, T* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = float(x[i]), t = 1.5957691216057308f * (v + 0.044715f * v * v * v);
    y[i] = T(v / (1.0f + expf(-t)));
}
