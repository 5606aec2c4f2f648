// check adamw.step --dtype f32 --entry adamw<T,T_grad> --launch grid=ceil(R*C/32) block=32 args=weight,m,v,grad,R*C,beta1,one_minus_beta1,beta2,one_minus_beta2,step_size,inverse_sqrt_bc2,eps,decay
template <typename T, typename G>
__global__ void adamw(T* weight, float* m, float* v, const G* grad, int n, float beta1, float rest1, float beta2, float rest2, float step, float root, float eps, float decay) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float g = float(grad[i]), w = float(weight[i]);
        float first = m[i] = beta1 * m[i] + rest1 * g;
        float second = v[i] = beta2 * v[i] + rest2 * g * g;
        weight[i] = T(w - (step * (first / (sqrtf(second) * root + eps)) + decay * w));
    }
}
