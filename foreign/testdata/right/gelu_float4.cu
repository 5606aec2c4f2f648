// check gelu.forward --dtype f32 --entry gelu --launch grid=ceil(R*C/128) block=32 args=x,y,R*C align=16 when=R*C%4==0
__device__ __forceinline__ float one(float v) {
    return v / (1.0f + expf(-1.5957691216057308f * (v + 0.044715f * v * v * v)));
}
__global__ void gelu(const float* __restrict__ x, float* __restrict__ y, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= n) return;
    float4 v = *reinterpret_cast<const float4*>(x + i);
    reinterpret_cast<float4*>(y)[i / 4] = make_float4(one(v.x), one(v.y), one(v.z), one(v.w));
}
