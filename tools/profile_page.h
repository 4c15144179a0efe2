/* The page of tessera profile --html, made of profile.html, profile.css and profile.js. */
#ifndef TESSERA_TOOLS_PROFILE_PAGE_H
#define TESSERA_TOOLS_PROFILE_PAGE_H

/* Ends in a zero byte; "@DATA@" stands where the JSON belongs. */
extern const unsigned char profile_page[];

#endif
