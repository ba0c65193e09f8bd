/*
 * base/options.h: reading a struct of options that the caller may know in another version. Its first field is its size.
 */
#ifndef WF_BASE_OPTIONS_H
#define WF_BASE_OPTIONS_H

#include <errno.h>
#include <stddef.h>
#include <string.h>

enum { WF_OPTIONS_MOST = 4096 }; /* no struct of this library will be larger: a larger size was not set */

/*
 * Copies *theirs into *mine, of `known` bytes, which is zeroed but for its size: what the caller did not know of is zero. A
 * size of 0 means `first`, that of the first release. 0, or -EINVAL: an impossible size, or a later version's fields that
 * ask for something.
 */
static inline int wf_options_read(void *mine, size_t known, const void *theirs, size_t first)
{
    size_t size;
    memcpy(&size, theirs, sizeof size);
    size = size == 0 ? first : size;
    memset(mine, 0, known);
    if (size < sizeof size || size > WF_OPTIONS_MOST)
        return -EINVAL;
    for (size_t i = known; i < size; i++) { /* only of a caller that knows more than we do, and has as much */
        if (((const char *)theirs)[i] != 0) /* NOLINT(clang-analyzer-core.UndefinedBinaryOperatorResult) */
            return -EINVAL;
    }
    memcpy(mine, theirs, size < known ? size : known);
    memcpy(mine, &known, sizeof known);
    return 0;
}

#endif
