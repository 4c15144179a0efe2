# Puts style and script into a page, and writes it as the bytes of a C array.
# usage: cmake -D FOLDER=tools/profile -D OUT=profile_page.c -P cmake/page.cmake
file(READ ${FOLDER}/profile.html page)
file(READ ${FOLDER}/profile.css style)
file(READ ${FOLDER}/profile.js script)
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
file(WRITE ${OUT}.html "${page}")
file(READ ${OUT}.html bytes HEX)
string(REGEX REPLACE "(................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "#include \"tools/profile/profile_page.h\"\n\nconst unsigned char profile_page[] = {\n${bytes}0};\n")
