# C source without comments and without the contents of strings: blank() gives the code of the line
# just read. For the scripts beside this file, which look for words and braces.
function blank(    out, i, c, two) {
    if (FNR == 1) in_comment = 0
    out = ""
    for (i = 1; i <= length($0); i++) {
        c = substr($0, i, 1)
        two = substr($0, i, 2)
        if (in_comment) {
            if (two == "*/") { in_comment = 0; i++ }
        } else if (two == "/*") {
            in_comment = 1
            i++
        } else if (two == "//") {
            break
        } else if (c == "\"" || c == "'") {
            i = closing(i, c)
            out = out c c
        } else {
            out = out c
        }
    }
    return out
}

function closing(i, quote) {
    for (i++; i <= length($0) && substr($0, i, 1) != quote; i++)
        if (substr($0, i, 1) == "\\") i++
    return i
}
