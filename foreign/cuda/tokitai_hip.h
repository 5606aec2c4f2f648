// What ordinary HIP needs to be compiled for the simulator by the host's compiler: the names
// that it has besides those of CUDA.
#ifndef TOKITAI_HIP_H
#define TOKITAI_HIP_H

#include "tokitai_cuda.h"
#include "tokitai_hip_names.h"

#undef __CUDACC__
#undef __CUDA_ARCH__
#define __HIP__ 1
#define __HIPCC__ 1
#define __HIP_PLATFORM_AMD__ 1
#define __HIP_DEVICE_COMPILE__ 1
#define __AMDGCN__ 1

typedef __nv_bfloat16 __hip_bfloat16, hip_bfloat16;
typedef __nv_bfloat162 __hip_bfloat162;

// Intrinsics without a mask are for all lanes.
#define __shfl(...) sim::shuffle_by(sim::IDX, __FILE__, __LINE__, sim::ALL_LANES, __VA_ARGS__)
#define __shfl_up(...) sim::shuffle_by(sim::UP, __FILE__, __LINE__, sim::ALL_LANES, __VA_ARGS__)
#define __shfl_down(...) sim::shuffle_by(sim::DOWN, __FILE__, __LINE__, sim::ALL_LANES, __VA_ARGS__)
#define __shfl_xor(...) sim::shuffle_by(sim::XOR, __FILE__, __LINE__, sim::ALL_LANES, __VA_ARGS__)
#define __ballot(P) sim::ballot(sim::ALL_LANES, P, __FILE__, __LINE__)
#define __any(P) sim::any_of(__FILE__, __LINE__, sim::ALL_LANES, P)
#define __all(P) sim::all_of(__FILE__, __LINE__, sim::ALL_LANES, P)
#define unsafeAtomicAdd atomicAdd
#define safeAtomicAdd atomicAdd
#define abort() sim::fault(__FILE__, __LINE__, "the kernel calls abort")

static inline unsigned __lane_id() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % (unsigned)warpSize;
}

#endif
