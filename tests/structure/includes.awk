BEGIN {
    split("tensor kernels dispatch ops module graph freeze train io", folders)
    for (i in folders) place[folders[i]] = i + 0
    order("tensor", "base . text sym threads onednn file store convert")
    order("module", ". layers zoo")
    order("graph", "ir analysis program passes method")
    order("graph/passes", ". fold precision layout")
    order("kernels", "reduce elementwise shape linear attention norm pool conv recurrent quantized random loss optimizer")
    order("kernels/conv", ". winograd")
    order("ops", "reduce elementwise index shape linear norm conv pool attention recurrent quantized random loss vision ml")
    order("io", "data safetensors gguf text generate onnx onnx_ops")
    order("tools", "support audit command profile train bench generate")
    calls = "(^|[^A-Za-z0-9_.>])(assert|exit|_Exit|abort|printf|getenv|secure_getenv|alloca)[ ]*\\("
}

# Subfolders in the order in which they may include each other: each only those before it. "." are the
# headers directly in the folder; its sources may include all subfolders.
function order(folder, names,    list, i) {
    split(names, list)
    for (i in list) room[folder "/" list[i]] = i + 0
}

function complain(what) {
    printf "%s:%d: %s\n", FILENAME, FNR, what
    failed = 1
}

# Returns "graph/ir" for "graph/ir/graph.h", and "graph" for a file directly in that folder.
function subfolder(name) {
    sub(/\/[^\/]*$/, "", name)
    return name
}

# Returns the first n parts of a path's folder: for "graph/ir/graph.h" these are "graph" and "graph/ir",
# then "graph/ir/.".
function ancestor(name, n,    parts, n_parts, i, path) {
    n_parts = split(subfolder(name), parts, "/")
    path = parts[1]
    for (i = 2; i <= n; i++) path = path "/" (i <= n_parts ? parts[i] : ".")
    return path
}

# Compares the parts where the two paths part.
function comes_after(name,    n, inner, outer) {
    for (n = 1; n <= 3; n++) {
        inner = ancestor(name, n)
        outer = ancestor(FILENAME, n)
        if (inner == outer) continue
        if (outer ~ /\.$/ && FILENAME ~ /\.c$/) return 0
        return inner in room && outer in room && room[inner] > room[outer]
    }
    return 0
}

function check_include(name,    folder, inner) {
    folder = name
    sub(/\/.*/, "", folder)
    inner = subfolder(name)
    if (folder == from && comes_after(name))
        complain(subfolder(FILENAME) " includes \"" name "\", which comes after it")
    if (folder == from && inner in room && FILENAME ~ /^(kernels|ops|io)\/[a-z_]*_impl\.h$/)
        complain("\"" name "\" belongs to a family; this header serves all families")
    if (name ~ /(^|\/)\.\.\//)
        complain("\"" name "\" is not written from the top")
    else if (!(from in place)) {
        # try_impl.h has only macros; examples use only installed headers
        if (name == "tensor/base/try_impl.h" && from != "examples") return
        if (name ~ /_impl\.h$|^tensor\/onednn\//)
            complain(from " is a client and includes \"" name "\"; only public headers")
    } else if (folder in place) {
        if (place[folder] > place[from] || (place[folder] == place[from] && folder != from))
            complain(from " includes \"" name "\", which is not before it in the order of folders")
    } else if (folder ~ /^(tools|perf|tests|tessera\.h)$/)
        complain(from " includes \"" name "\", which comes after every library folder")
    if (from in place && subfolder(FILENAME) != "tensor/onednn" && name ~ /^(oneapi\/|dnnl)/)
        complain(from " includes <" name ">; oneDNN is reached through tensor/onednn/onednn.h")
}

{
    from = FILENAME
    sub(/\/.*/, "", from)
    code = blank()
}

code ~ /^[ \t]*#[ \t]*include/ {
    name = $0
    sub(/^[^<"]*[<"]/, "", name)
    sub(/[>"].*/, "", name)
    check_include(name)
    next
}

from in place && match(code, calls) {
    call = substr(code, RSTART, RLENGTH)
    gsub(/[^A-Za-z_]/, "", call)
    # Only tensor/context.c reads the environment.
    if (!(FILENAME == "tensor/context.c" && call == "getenv"))
        complain("library code calls " call)
}

# If a scope lists the tensor, these functions would release the scope's reference.
from in place && FILENAME != "tensor/tensor.c" &&
    match(code, /(^|[^A-Za-z0-9_])tensor_(retain|release)[ ]*\(/) && FILENAME !~ /\.h$/ {
    complain("library code must use tensor_hold and tensor_drop; tensor_retain and tensor_release are for users")
}

END { exit failed }
