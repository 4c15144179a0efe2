# Input: headers first, then the table of activations, then tests.
{ code = blank() }

FILENAME ~ /\.def$/ {
    if (match(code, /^ACTIVATION\([a-z_0-9]+/)) {
        name = "op_" substr(code, 12, RLENGTH - 11)
        used[name] = used[name "_"] = 1
    }
    next
}

FILENAME !~ /^tests\// {
    while (match(code, /TESSERA_API\([A-Za-z0-9_]+\)/)) {
        name = substr(code, RSTART + 12, RLENGTH - 13)
        declared[name] = FILENAME
        code = substr(code, RSTART + RLENGTH)
    }
    next
}

{
    while (match(code, /[A-Za-z_][A-Za-z0-9_]*/)) {
        used[substr(code, RSTART, RLENGTH)] = 1
        code = substr(code, RSTART + RLENGTH)
    }
}

END {
    while ((getline line < exceptions) > 0)
        if (line !~ /^#/) {
            split(line, word, " ")
            if (!(word[1] in declared) || word[1] in used)
                print "calls.txt: the line " word[1] " can be removed"
            excepted[word[1]] = 1
        }
    for (name in declared)
        # A declaration may omit the prefix: TESSERA_API(version) declares tessera_version.
        if (!(name in used) && !(("tessera_" name) in used) && !(name in excepted)) {
            print declared[name] ": no test calls " name
            failed = 1
        }
    exit failed
}
