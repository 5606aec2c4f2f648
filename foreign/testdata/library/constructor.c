/* A library that ends the process while it is loaded. */
#include <stdlib.h>
#include "tokitai.h"
__attribute__((constructor)) static void begin(void) { exit(9); }
int right(const tokitai_call *call) { (void)call; return 0; }
