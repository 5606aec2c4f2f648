package cuda

import (
	"reflect"

	"tokitai/internal/dl"
)

// function is a function of the library.
type function struct {
	name       string
	proc       dl.Proc
	isOptional bool // newer than the oldest driver that will do
	isMissing  bool
}

// api lists the functions of libcuda that are used. A tag gives the symbol if it differs
// from the field's name: current versions of some functions have a suffix.
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
	cuLaunchKernelEx    function `optional:"yes"`

	cuTensorMapEncodeTiled function `optional:"yes"`

	cuGraphCreate                  function
	cuGraphDestroy                 function
	cuGraphAddKernelNode           function `symbol:"cuGraphAddKernelNode_v2"`
	cuGraphInstantiateWithFlags    function
	cuGraphExecKernelNodeSetParams function `symbol:"cuGraphExecKernelNodeSetParams_v2"`
	cuGraphExecDestroy             function
	cuGraphLaunch                  function
}

// symbols maps symbols to fields.
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
		f.name, f.isOptional = field.Name, field.Tag.Get("optional") != ""
		list[symbol] = f
	}
	return list
}

// fill looks up every function. Optional ones may be missing.
func (a *api) fill(l *dl.Library) error {
	for symbol, f := range a.symbols() {
		proc, err := l.Proc(symbol)
		if f.isMissing = err != nil && f.isOptional; f.isMissing {
			continue
		}
		if err != nil {
			return err
		}
		f.proc = proc
	}
	return nil
}
