/* Writes a profile as an HTML page. The build has inserted style and script into profile.html; this
 * file replaces a marker in it by the JSON. All characters special in HTML are escaped in the
 * JSON. */
#include <string.h>

#include "tools/profile/profile.h"
#include "tools/profile/profile_page.h"

#define PLACE "@DATA@"

void profile_put_html(const profiling_t *profiling, text_t *text)
{
    const char *page = (const char *)profile_page, *place = strstr(page, PLACE);
    text_append(text, "%.*s", (int)(place - page), page);
    profile_put_json(profiling, text);
    text_append(text, "%s", place + strlen(PLACE));
}
