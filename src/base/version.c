/*
 * base/version.c: which weft this is.
 */
#include <weft/api.h>

#define WF_TEXT_OF(x) #x
#define WF_TEXT(x) WF_TEXT_OF(x)

const char *weft_version(void)
{
    return WF_TEXT(WEFT_VERSION_MAJOR) "." WF_TEXT(WEFT_VERSION_MINOR) "." WF_TEXT(WEFT_VERSION_PATCH);
}
