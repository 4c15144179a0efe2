function complain(line, what) {
    printf "%s:%d: %s\n", FILENAME, line, what
    failed = 1
}

FNR == 1 {
    depth = 0
    head = ""
    in_define = 0
    limit = FILENAME ~ /\.c$/ ? 800 : FILENAME ~ /_impl\.h$/ ? 0 : 300
}

{ total++ }

FNR == limit + 1 && limit { complain(FNR, "more than " limit " lines") }

{
    code = blank()
    define = in_define || code ~ /^[ \t]*#/
    in_define = define && $0 ~ /\\$/
    if (define) next
    for (i = 1; i <= length(code); i++) {
        c = substr(code, i, 1)
        if (c == "{") {
            # At depth 0 a brace opens a function if the text before it has parameters and is not an
            # initialiser.
            if (depth == 0 && head ~ /\(/ && head !~ /=/) opened = head_line
            else if (depth == 0) opened = 0
            depth++
        } else if (c == "}") {
            depth--
            if (depth == 0) {
                if (opened && FNR - opened + 1 > 80)
                    complain(opened, "function of " FNR - opened + 1 " lines, 80 at most")
                head = ""
            }
        } else if (depth == 0) {
            if (c == ";") head = ""
            else {
                if (head == "" && c != " ") head_line = FNR
                if (head != "" || c != " ") head = head c
            }
        }
    }
    if (depth == 0 && head != "") head = head " "
}

END {
    print total " lines"
    exit failed
}
