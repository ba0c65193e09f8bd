// The same from C++.
#include "large.c" // NOLINT(bugprone-suspicious-include)
