package hip

import "tokitai/device/gpu/driver/clib"

// api lists the functions of libamdhip64 that are used. A tag gives the symbol if it
// differs from the field's name.
type api struct {
	hipInit              clib.Function
	hipRuntimeGetVersion clib.Function
	hipGetErrorName      clib.Function
	hipGetErrorString    clib.Function

	hipGetDeviceCount     clib.Function
	hipDeviceGetName      clib.Function
	hipDeviceTotalMem     clib.Function
	hipDeviceGetAttribute clib.Function
	hipSetDevice          clib.Function

	// The layout of the properties changed with version 6, and so did the symbol. What
	// version 6 and later export without the suffix has the old layout.
	hipGetDeviceProperties      clib.Function `optional:"yes"`
	hipGetDevicePropertiesR0600 clib.Function `optional:"yes"`

	hipMalloc          clib.Function
	hipFree            clib.Function
	hipMemGetInfo      clib.Function
	hipHostMalloc      clib.Function
	hipHostFree        clib.Function
	hipMemcpyHtoDAsync clib.Function
	hipMemcpyDtoHAsync clib.Function
	hipMemcpyDtoDAsync clib.Function
	hipMemsetD8Async   clib.Function

	hipStreamCreateWithFlags clib.Function
	hipStreamDestroy         clib.Function
	hipStreamSynchronize     clib.Function
	hipStreamQuery           clib.Function
	hipStreamWaitEvent       clib.Function

	hipEventCreateWithFlags clib.Function
	hipEventDestroy         clib.Function
	hipEventRecord          clib.Function
	hipEventSynchronize     clib.Function
	hipEventQuery           clib.Function
	hipEventElapsedTime     clib.Function

	hipModuleLoadData     clib.Function
	hipModuleUnload       clib.Function
	hipModuleGetFunction  clib.Function
	hipModuleLaunchKernel clib.Function
}
