/*
 * weft/cxx.h: what C++ programs give the library without being asked; nothing of it is called by hand. C programs get
 * nothing and pay nothing.
 */
#ifndef WEFT_CXX_H
#define WEFT_CXX_H

#include <weft/api.h>

#ifdef __cplusplus
/* The C++ runtime's, as the Itanium ABI has it; weak: a program without that runtime has no exceptions to keep. */
namespace __cxxabiv1
{
struct __cxa_eh_globals;
extern "C" __cxa_eh_globals *__cxa_get_globals() noexcept __attribute__((weak));
} // namespace __cxxabiv1
#endif

WEFT_BEGIN_DECLS

/**
 * Tells the library how to find the C++ runtime's exception state, which fibers made from then on keep for themselves.
 * Every C++ source that includes a header of this library does that before main.
 *
 * Returns: 0
 * Context: any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_cxx_use(void *(*eh_globals)(void));

WEFT_END_DECLS

#ifdef __cplusplus
/** Its making calls weft_cxx_use. */
inline const int weft_cxx_used = weft_cxx_use(reinterpret_cast<void *(*)(void)>(&__cxxabiv1::__cxa_get_globals));
#endif

#endif
