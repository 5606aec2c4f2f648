// What hipcc includes before every source and hipRTC has, if at all, under other names: constants
// of the C library.
#ifndef TOKITAI_HIPRTC_H
#define TOKITAI_HIPRTC_H

#ifndef INFINITY
#define INFINITY __builtin_huge_valf()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif

#endif
