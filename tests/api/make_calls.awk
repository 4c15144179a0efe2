# Writes a C table of the public functions in abi.txt: the types of their arguments, their names in
# the header, and a function that calls each with arguments from an array.
# usage: awk -f make_calls.awk ABI.TXT TESSERA.H ABI.TXT >FILE
#
#     tessera_npy_save function status_t (context_t *, const char *, const tensor_t *)
#
# becomes
#
#     static int call_npy_save(const argument_t *a) { return (int)npy_save(a[0].p, a[1].p, a[2].p); }
#     {"npy_save", call_npy_save, true, 3, {{'p', "context_t *", "ctx"}, ...}}
function kind_of(type,    word) {
    if (type ~ /\*$/) return "p"
    if (type == "double" || type == "float") return "d"
    if (type == "_Bool") return "b"
    if (type ~ /^(int|int64_t|uint64_t|size_t|value_t)$/) return "i"
    word = type
    sub(/_t$/, "", word)
    return word in is_enum ? "e" : "f"
}
function add(type,    kind, value) {
    sub(/^ */, "", type)
    if (type == "void" || type == "...") return
    kind = kind_of(type)
    value = kind == "p" ? "a[" n "].p" : kind == "d" ? "a[" n "].d" : "(" type ")a[" n "].i"
    values = values (n > 0 ? ", " : "") value
    list = list (n > 0 ? ", " : "") "{'" kind "', \"" type "\", \"" names[name, n] "\"}"
    n++
}
# Notes the names in a declaration, such as "status_t npy_save(context_t *ctx, const char *path)".
function note_names(text,    function_name, i, c, depth, n, argument) {
    match(text, /[a-z_0-9]+\(/)
    function_name = substr(text, RSTART, RLENGTH - 1)
    for (i = RSTART + RLENGTH; i <= length(text) && depth >= 0; i++) {
        c = substr(text, i, 1)
        depth += (c == "(") - (c == ")")
        if (depth < 0 || (c == "," && depth == 0)) {
            sub(/\).*|\[.*/, "", argument)
            sub(/.*[^a-z_0-9]/, "", argument)
            names[function_name, n++ + 0] = argument
            argument = ""
        } else
            argument = argument c
    }
}
NR == FNR { if ($1 == "enum") is_enum[$2] = 1; next }
FILENAME ~ /\.h$/ {
    if ($0 ~ /^[a-z][a-z_0-9 ]*[ *][a-z_0-9]+\(/ && $1 != "static") declaration = " "
    if (declaration != "") declaration = declaration " " $0
    if (declaration != "" && /;/) { note_names(declaration); declaration = "" }
    next
}
$1 ~ /^tessera_/ && $2 == "function" {
    name = substr($1, 9)
    start = index($0, "(")
    n = depth = 0
    values = list = type = ""
    for (i = start + 1; i < length($0); i++) {
        c = substr($0, i, 1)
        if (c == "," && depth == 0) { add(type); type = ""; continue }
        depth += (c == "(") - (c == ")")
        type = type c
    }
    add(type)
    if (n == 0) next
    before = substr($0, 1, start)
    gives = before ~ / function void \($/ ? "    " : before ~ / function status_t \($/ ? "    return (int)" : "    (void)"
    calls = calls "static int call_" name "(const argument_t *a)\n{\n" gives name "(" values ");\n" \
        (gives ~ /return/ ? "" : "    return 0;\n") "}\n"
    rows = rows "    {\"" name "\", call_" name ", " (gives ~ /return/ ? "true" : "false") ", " n ", {" list "}},\n"
}
END {
    print "#include \"tests/api/calls.h\"\n#include \"tessera.h\"\n"
    print calls
    print "const call_t calls[] = {\n" rows "};"
    print "const int n_calls = (int)(sizeof calls / sizeof calls[0]);"
}
