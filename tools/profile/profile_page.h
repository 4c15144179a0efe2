/* The page of tessera profile --html, made from profile.html, profile.css and profile.js. */
#ifndef TESSERA_TOOLS_PROFILE_PROFILE_PAGE_H
#define TESSERA_TOOLS_PROFILE_PROFILE_PAGE_H

/* Ends with a zero byte. "@DATA@" is to be replaced by the JSON. */
extern const unsigned char profile_page[];

#endif
