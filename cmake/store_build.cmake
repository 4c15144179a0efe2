# Writes a C file with a hash of source files and of the compiler. The store of packed weights
# (tensor/store) puts it into the names of files, because another build may pack weights in another
# way.
# usage: cmake -D COMPILER=TEXT -D SOURCES="A;B" -D NAME=store_build -D OUT=store_build.c
#        -P cmake/store_build.cmake
set(all "${COMPILER}")
foreach(source IN LISTS SOURCES)
    file(SHA256 ${source} hash)
    string(APPEND all " ${hash}")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 hash)
file(WRITE ${OUT} "#include \"tensor/store/store_impl.h\"\n\nconst char ${NAME}[] = \"${hash}\";\n")
