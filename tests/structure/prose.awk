# Collects each comment, paragraph or table cell as one text, and looks for wording in it. For the
# script prose.
BEGIN {
    while ((getline line <phrases) > 0) {
        if (line ~ /^(#|$)/) continue
        split(line, parts, / *\t+ */)
        n_phrases++
        pattern[n_phrases] = "[^a-z0-9_]" parts[1] "[^a-z0-9_]"
        advice[n_phrases] = parts[2]
    }
    close(phrases)
}

FNR == 1 {
    flush()
    in_fence = in_comment = in_docstring = 0
    kind = FILENAME ~ /\.(c|h|def)$/ ? "c" : FILENAME ~ /\.md$/ ? "page" : FILENAME ~ /\.json$/ ? "json" : "script"
}

kind == "c" {
    if (!in_comment) flush()
    blank()
    sub(/^ *\*?/, "", comment)
    if (comment ~ /^ *$/) flush()
    else add(comment)
}

kind == "page" && /^ *```/ { in_fence = !in_fence; flush(); next }
kind == "page" && !in_fence {
    line = $0
    gsub(/`[^`]*`/, "code", line)
    gsub(/\]\([^)]*\)/, "]", line)
    if (line ~ /^ *$|^<!--/) flush()
    else if (line ~ /^ *\|/) {
        flush()
        n = split(line, cells, /\|/)
        for (i = 1; i <= n; i++) { add(cells[i]); flush() }
    } else {
        if (line ~ /^ *([-*]|[0-9]+\.) |^#/) flush()
        sub(/^ *([-*#]+|[0-9]+\.) /, "", line)
        add(line)
        if ($0 ~ /^#/) flush()
    }
}

kind == "json" && match($0, /"(description|displayName)": ".*"/) {
    line = substr($0, RSTART, RLENGTH)
    sub(/^[^:]*: "/, "", line)
    sub(/"$/, "", line)
    add(line)
    flush()
}

kind == "script" && FILENAME ~ /\.py$/ && /"""/ {
    line = $0
    quotes = gsub(/"""/, "", line)
    if (quotes == 1) in_docstring = !in_docstring
    if (in_docstring) flush()
    add(line)
    if (!in_docstring) flush()
    next
}
kind == "script" && in_docstring { if ($0 ~ /^ *$/) flush(); else add($0); next }
kind == "script" && /^[ \t]*#([^!]|$)/ {
    line = $0
    sub(/^[ \t]*#+/, "", line)
    if (line ~ /^ *$/) flush()
    else add(line)
    next
}
kind == "script" {
    flush()
    # A comment after code: the quotes before it are closed.
    if (match($0, /[ \t]# /)) {
        head = line = substr($0, 1, RSTART)
        if (gsub(/"/, "", head) % 2 == 0 && gsub(/'/, "", line) % 2 == 0) {
            add(substr($0, RSTART + 2))
            flush()
        }
    }
}

END {
    flush()
    exit failed
}

function add(line) {
    gsub(/^[ \t]+|[ \t]+$/, "", line)
    n_lines++
    starts[n_lines] = length(text) + 1
    number[n_lines] = FNR
    file = FILENAME
    text = text " " line
}

function flush() {
    if (n_lines > 0) check(text " ")
    n_lines = 0
    text = ""
}

function check(all,    low, i, rest, at, sentence, end, word) {
    low = tolower(all)
    for (i = 1; i <= n_phrases; i++) {
        rest = low
        at = 0
        while (match(rest, pattern[i])) {
            complain(at + RSTART, substr(all, at + RSTART + 1, RLENGTH - 2), advice[i])
            at += RSTART + RLENGTH - 2
            rest = substr(low, at + 1)
        }
    }
    for (at = 0; at < length(all); at += end) {
        rest = substr(all, at + 1)
        end = match(rest, /[.?!][)"']*[ \t]/) ? RSTART + RLENGTH - 1 : length(rest)
        sentence = substr(rest, 1, end)
        if (sentence ~ /\?/) continue
        if (match(sentence, /^[ \t("]*(Of|That|What|Whether) /) ||
            (at == 0 && match(sentence, /^ *(of|that) /))) {
            word = substr(sentence, 1, RLENGTH - 1)
            gsub(/^[ \t("]+/, "", word)
            complain(at + RLENGTH - 1, word " ...", "begin with the subject")
        }
    }
}

function complain(at, words, use,    i) {
    for (i = n_lines; i > 1 && starts[i] > at; i--) continue
    gsub(/[ \t]+/, " ", words)
    printf "%s:%d: \"%s\"; %s\n", file, number[i], words, use
    failed = 1
}
