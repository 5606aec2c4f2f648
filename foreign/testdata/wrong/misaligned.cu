// check gelu.forward --dtype f32 --entry gelu --launch grid=ceil(R*C/64) block=16 args=x,y,R*C
// want misaligned address misaligned.cu:10
__device__ float one(float v) {
    return v / (1.0f + expf(-1.5957691216057308f * (v + 0.044715f * v * v * v)));
}
__global__ void gelu(const float* x, float* y, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= n) return;
    if (i + 4 <= n) { // four at once, wherever x begins
        float4 v = *(const float4*)(x + i);
        *(float4*)(y + i) = make_float4(one(v.x), one(v.y), one(v.z), one(v.w));
        return;
    }
    for (; i < n; i++) y[i] = one(x[i]);
}
