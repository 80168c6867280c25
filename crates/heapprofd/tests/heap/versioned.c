// The interface of a library like upstream's, with versions, that does nothing.
#include <stddef.h>

void *AHeapInfo_create(const char *name) { return NULL; }
void *AHeapInfo_setEnabledCallback(void *info, void *call, void *data) { return NULL; }
void *AHeapInfo_setDisabledCallback(void *info, void *call, void *data) { return NULL; }
unsigned AHeapProfile_registerHeap(void *info) { return 0; }
int AHeapProfile_reportAllocation(unsigned heap, unsigned long id, unsigned long size) { return 0; }
int AHeapProfile_reportSample(unsigned heap, unsigned long id, unsigned long size) { return 0; }
void AHeapProfile_reportFree(unsigned heap, unsigned long id) {}
unsigned long AHeapProfileEnableCallbackInfo_getSamplingInterval(void *info) { return 0; }
