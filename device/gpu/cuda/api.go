package cuda

import (
	"reflect"

	"tokitai/internal/dl"
)

// function is one of the library's.
type function struct {
	name string
	proc dl.Proc
}

// api is what is used of libcuda. A tag names the symbol where it is not the field's own
// name: the interface of today has a suffix in the library.
type api struct {
	cuInit             function
	cuDriverGetVersion function
	cuGetErrorName     function
	cuGetErrorString   function

	cuDeviceGetCount     function
	cuDeviceGet          function
	cuDeviceGetName      function
	cuDeviceTotalMem     function `symbol:"cuDeviceTotalMem_v2"`
	cuDeviceGetAttribute function

	cuDevicePrimaryCtxRetain  function
	cuDevicePrimaryCtxRelease function `symbol:"cuDevicePrimaryCtxRelease_v2"`
	cuCtxSetCurrent           function

	cuMemAlloc        function `symbol:"cuMemAlloc_v2"`
	cuMemFree         function `symbol:"cuMemFree_v2"`
	cuMemGetInfo      function `symbol:"cuMemGetInfo_v2"`
	cuMemAllocHost    function `symbol:"cuMemAllocHost_v2"`
	cuMemFreeHost     function
	cuMemcpyHtoDAsync function `symbol:"cuMemcpyHtoDAsync_v2"`
	cuMemcpyDtoHAsync function `symbol:"cuMemcpyDtoHAsync_v2"`
	cuMemcpyDtoDAsync function `symbol:"cuMemcpyDtoDAsync_v2"`
	cuMemsetD8Async   function

	cuStreamCreate      function
	cuStreamDestroy     function `symbol:"cuStreamDestroy_v2"`
	cuStreamSynchronize function
	cuStreamQuery       function
	cuStreamWaitEvent   function

	cuEventCreate      function
	cuEventDestroy     function `symbol:"cuEventDestroy_v2"`
	cuEventRecord      function
	cuEventSynchronize function
	cuEventQuery       function
	cuEventElapsedTime function

	cuModuleLoadData    function
	cuModuleUnload      function
	cuModuleGetFunction function
	cuFuncSetAttribute  function
	cuLaunchKernel      function
}

// symbols are the names to look up, with the fields they belong to.
func (a *api) symbols() map[string]*function {
	list := map[string]*function{}
	value := reflect.ValueOf(a).Elem()
	for i := range value.NumField() {
		field := value.Type().Field(i)
		symbol := field.Tag.Get("symbol")
		if symbol == "" {
			symbol = field.Name
		}
		f := (*function)(value.Field(i).Addr().UnsafePointer())
		f.name = field.Name
		list[symbol] = f
	}
	return list
}

// fill looks every function up.
func (a *api) fill(l *dl.Library) error {
	for symbol, f := range a.symbols() {
		proc, err := l.Proc(symbol)
		if err != nil {
			return err
		}
		f.proc = proc
	}
	return nil
}
