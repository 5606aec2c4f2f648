// Package hip implements device/gpu's table of driver calls with libamdhip64, the library
// of AMD's ROCm, which it opens at run time.
package hip
