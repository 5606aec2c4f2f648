/* A library that needs a symbol that nobody has. */
#include "tokitai.h"
int nobody_has_this(const tokitai_call *call);
int right(const tokitai_call *call) { return nobody_has_this(call); }
