# Writes the fenced blocks of a page to folder/LINE.LANGUAGE, except blocks without a language and those
# that cannot run.
/^<!-- not run: .+ -->$/ { spared = 1; next }
/^```/ {
    if (inside) {
        inside = 0
        spared = 0
        if (file != "") close(file)
        next
    }
    inside = 1
    language = substr($0, 4)
    file = spared || language == "" ? "" : sprintf("%s/%05d.%s", folder, NR, language)
    next
}
inside && file != "" { print >file }
!inside && NF { spared = 0 }
END { if (inside) { print FILENAME ": a block has no end"; exit 1 } }
