package cuda

import "tokitai/device/gpu/driver/clib"

// api lists the functions of libcuda that are used. A tag gives the symbol if it differs
// from the field's name: current versions of some functions have a suffix.
type api struct {
	cuInit             clib.Function
	cuDriverGetVersion clib.Function
	cuGetErrorName     clib.Function
	cuGetErrorString   clib.Function

	cuDeviceGetCount     clib.Function
	cuDeviceGet          clib.Function
	cuDeviceGetName      clib.Function
	cuDeviceTotalMem     clib.Function `symbol:"cuDeviceTotalMem_v2"`
	cuDeviceGetAttribute clib.Function
	cuDeviceGetPCIBusId  clib.Function `optional:"yes"`

	cuDevicePrimaryCtxRetain  clib.Function
	cuDevicePrimaryCtxRelease clib.Function `symbol:"cuDevicePrimaryCtxRelease_v2"`
	cuCtxSetCurrent           clib.Function

	cuMemAlloc        clib.Function `symbol:"cuMemAlloc_v2"`
	cuMemFree         clib.Function `symbol:"cuMemFree_v2"`
	cuMemGetInfo      clib.Function `symbol:"cuMemGetInfo_v2"`
	cuMemAllocHost    clib.Function `symbol:"cuMemAllocHost_v2"`
	cuMemFreeHost     clib.Function
	cuMemcpyHtoDAsync clib.Function `symbol:"cuMemcpyHtoDAsync_v2"`
	cuMemcpyDtoHAsync clib.Function `symbol:"cuMemcpyDtoHAsync_v2"`
	cuMemcpyDtoDAsync clib.Function `symbol:"cuMemcpyDtoDAsync_v2"`
	cuMemsetD8Async   clib.Function

	cuStreamCreate      clib.Function
	cuStreamDestroy     clib.Function `symbol:"cuStreamDestroy_v2"`
	cuStreamSynchronize clib.Function
	cuStreamQuery       clib.Function
	cuStreamWaitEvent   clib.Function

	cuEventCreate      clib.Function
	cuEventDestroy     clib.Function `symbol:"cuEventDestroy_v2"`
	cuEventRecord      clib.Function
	cuEventSynchronize clib.Function
	cuEventQuery       clib.Function
	cuEventElapsedTime clib.Function

	cuModuleLoadData    clib.Function
	cuModuleUnload      clib.Function
	cuModuleGetFunction clib.Function
	cuFuncSetAttribute  clib.Function
	cuLaunchKernel      clib.Function
	cuLaunchKernelEx    clib.Function `optional:"yes"`

	cuTensorMapEncodeTiled clib.Function `optional:"yes"`

	cuGraphCreate                  clib.Function
	cuGraphDestroy                 clib.Function
	cuGraphAddKernelNode           clib.Function `symbol:"cuGraphAddKernelNode_v2"`
	cuGraphInstantiateWithFlags    clib.Function
	cuGraphExecKernelNodeSetParams clib.Function `symbol:"cuGraphExecKernelNodeSetParams_v2"`
	cuGraphExecDestroy             clib.Function
	cuGraphLaunch                  clib.Function
}
