// check gemm.forward --dtype f16 --entry gemm<T_C> --launch grid=ceil(N/16),ceil(M/4) block=16,4 args=A,B,C,M,N,K
// want differs
#include <cuda_fp16.h>
template <class Out>
__global__ void gemm(const __half* A, const __half* B, Out* C, int M, int N, int K) {
    int n = blockIdx.x * blockDim.x + threadIdx.x, m = blockIdx.y * blockDim.y + threadIdx.y;
    if (m >= M || n >= N) return;
    __half sum = __float2half(0.0f);
    for (int k = 0; k < K; k++) sum = __hfma(A[m * K + k], B[k * N + n], sum);
    C[m * N + n] = Out(__half2float(sum));
}
