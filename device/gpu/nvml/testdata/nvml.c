// Stands in for libnvidia-ml: one GPU, on bus 0000:1b:00.0, whose counters rise with each sample of power.
// The types are those of nvml.h.
#include <stdio.h>
#include <string.h>

typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned valueType;
    int nvmlReturn;
    union {
        double dVal;
        unsigned uiVal;
        unsigned long ulVal;
        unsigned long long ullVal;
    } value;
} Field;

enum { NOT_SUPPORTED = 3, NOT_FOUND = 6 };

static int gpu, samples;

int nvmlInit_v2(void) { return 0; }
const char* nvmlErrorString(int code) { return code == NOT_FOUND ? "Not Found" : "Not Supported"; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
    if (strcmp(bus, "0000:1b:00.0") != 0) return NOT_FOUND;
    *device = &gpu;
    return 0;
}
int nvmlDeviceGetUUID(void* device, char* to, unsigned length) {
    snprintf(to, length, "GPU-01234567-89ab-cdef-0123-456789abcdef");
    return device != &gpu;
}
int nvmlDeviceGetSerial(void* device, char* to, unsigned length) { return NOT_SUPPORTED; }
int nvmlSystemGetDriverVersion(char* to, unsigned length) {
    snprintf(to, length, "580.159");
    return 0;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
    *celsius = 61;
    return sensor != 0;
}
int nvmlDeviceGetFieldValues(void* device, int count, Field* fields) {
    if (count != 1 || fields->fieldId != 82 || fields->scopeId != 0) return NOT_SUPPORTED;
    fields->valueType = 1;
    fields->nvmlReturn = 0;
    fields->value.uiVal = 73;
    return 0;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
    *milliwatts = 690500;
    samples++;
    return 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
    *milliwatts = 700000;
    return 0;
}
int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* mhz) {
    *mhz = 1980;
    return clock != 1;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* why) {
    *why = 0x1 | 0x4 | 0x40 | 0x1000;
    return 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, int kind, int counter, unsigned long long* count) {
    *count = 10 * kind + counter + (samples > 0 ? 100 : 0);
    return 0;
}
int nvmlDeviceGetRemappedRows(void* device, unsigned* correctable, unsigned* uncorrectable, unsigned* pending, unsigned* failed) {
    *correctable = 1;
    *uncorrectable = 2;
    *pending = 1;
    *failed = 0;
    return 0;
}
