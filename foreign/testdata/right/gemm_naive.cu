// check gemm.forward --dtype f32 --entry gemm --launch grid=ceil(N/16),ceil(M/8) block=16,8 args=A,B,C,M,N,K,A.stride:i64,B.stride:i64,C.stride:i64
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K, size_t lda, size_t ldb, size_t ldc) {
    int n = blockIdx.x * blockDim.x + threadIdx.x, m = blockIdx.y * blockDim.y + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0;
    for (int k = 0; k < K; k++) sum = fmaf(A[m * lda + k], B[k * ldb + n], sum);
    C[m * ldc + n] = sum;
}
