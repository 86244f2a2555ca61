/* SPDX-License-Identifier: Apache-2.0 */
/* NVML of a machine with three GPUs: 0 and 1 by NVLink, 2 on another socket. */
#include <stdio.h>

typedef void* Device;
struct Memory {
  unsigned long long total, free, used;
};

static char devices[3];
static long index_of(Device device) { return (char*)device - devices; }

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  *device = devices + index;
  return 0;
}
int nvmlDeviceGetName(Device device, char* name, unsigned length) {
  snprintf(name, length, "Fake %ld", index_of(device));
  return 0;
}
int nvmlDeviceGetMemoryInfo(Device device, struct Memory* memory) {
  (void)device;
  memory->total = 80ULL << 30;
  memory->free = 1ULL << 30;
  return 0;
}
int nvmlDeviceGetNvLinkState(Device device, unsigned link, int* on) {
  if (link >= 18) return 2; /* no such link */
  *on = index_of(device) < 2 && link % 3 != 0;
  return 0;
}
int nvmlDeviceGetP2PStatus(Device a, Device b, int which, int* status) {
  *status = which == 2 && index_of(a) + index_of(b) == 1 ? 0 : 6;
  return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(Device a, Device b, int* level) {
  (void)a, (void)b;
  *level = 50;
  return 0;
}
