// check gemm.forward --entry gemm<T,T_C,8> --launch grid=ceil(N/8),ceil(M/8) block=8,8 args=A,B,C,M,N,K
template <typename T, typename Out, int TILE>
__global__ void gemm(const T* A, const T* B, Out* C, int M, int N, int K) {
    __shared__ float a[TILE][TILE + 1], b[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y, n = blockIdx.x * TILE + tx, m = blockIdx.y * TILE + ty;
    float sum = 0;
    for (int k = 0; k < K; k += TILE) {
        a[ty][tx] = m < M && k + tx < K ? (float)A[m * K + k + tx] : 0.0f;
        b[ty][tx] = n < N && k + ty < K ? (float)B[(k + ty) * N + n] : 0.0f;
        __syncthreads();
        int end = min(TILE, K - k);
        for (int i = 0; i < end; i++) sum += a[ty][i] * b[i][tx];
        __syncthreads();
    }
    if (m < M && n < N) C[m * N + n] = (Out)sum;
}
