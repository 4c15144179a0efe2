#include "tensor/base/version.h"

#define QUOTED(number) #number
#define TEXT(major, minor, patch) QUOTED(major) "." QUOTED(minor) "." QUOTED(patch)

int tessera_version(void)
{
    return TESSERA_VERSION;
}

const char *tessera_version_text(void)
{
    return TEXT(TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR, TESSERA_VERSION_PATCH);
}
