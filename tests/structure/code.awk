# Splits a line of C: blank() returns its code without comments and without the contents of strings,
# and sets `comment` to the text of its comments. Other scripts of this folder use it.
function blank(    out, i, c, two) {
    if (FNR == 1) in_comment = 0
    out = comment = ""
    for (i = 1; i <= length($0); i++) {
        c = substr($0, i, 1)
        two = substr($0, i, 2)
        if (in_comment) {
            if (two == "*/") { in_comment = 0; i++ } else comment = comment c
        } else if (two == "/*") {
            in_comment = 1
            i++
        } else if (two == "//") {
            comment = comment substr($0, i + 2)
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
