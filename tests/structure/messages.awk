# Input: library sources first, then tests. Adjacent string literals are one text.
FNR == 1 { flush(); in_comment = 0; state = ""; depth = 0 }

{ scan($0) }

# A text ends before anything other than white space or another literal.
function flush() {
    if (!has_text) return
    if (FILENAME_of_text ~ /^tests\//) tests = tests "\n" text
    else if (is_message && text ~ / /) { # a single word is part of a condition
        n++
        message[n] = text
        at[n] = FILENAME_of_text
        is_message = 0
    }
    has_text = 0
    text = ""
}

function scan(line,    i, c, two, end) {
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        two = substr(line, i, 2)
        if (in_comment) {
            if (two == "*/") { in_comment = 0; i++ }
        } else if (two == "/*") {
            in_comment = 1
            i++
        } else if (two == "//") {
            return
        } else if (c == "\"") {
            end = closing(line, i, c)
            text = text substr(line, i + 1, end - i - 1)
            has_text = 1
            FILENAME_of_text = FILENAME
            i = end
        } else if (c == "'") {
            i = closing(line, i, c)
        } else if (c ~ /[ \t]/) {
            continue
        } else if (has_text && match(substr(line, i), /^PRI[diouxX][0-9]+/)) {
            text = text "d" # a conversion from inttypes.h
            i += RLENGTH - 1
        } else {
            flush()
            # The first text after FAIL or REQUIRE is a message.
            if (match(substr(line, i), /^(FAIL|REQUIRE)\(/)) is_message = 1
            if (c == ";") is_message = 0
            if (match(substr(line, i), /^[A-Za-z0-9_]+/)) i += RLENGTH - 1
        }
    }
}

function closing(line, i, quote) {
    for (i++; i <= length(line) && substr(line, i, 1) != quote; i++)
        if (substr(line, i, 1) == "\\") i++
    return i
}

# Looks for three consecutive words without a conversion; if the format has none, for the text
# between two conversions.
function is_mentioned(format,    pieces, n_pieces, words, n_words, p, w, part, is_long) {
    gsub(/%[-+ #0]*[0-9.*]*(hh|h|ll|l|z|j|t)?[a-zA-Z]/, "\001", format)
    n_pieces = split(format, pieces, /\001/)
    for (p = 1; p <= n_pieces; p++) {
        gsub(/^ +| +$/, "", pieces[p])
        n_words = split(pieces[p], words, / +/)
        is_long = is_long || n_words >= 3
        for (w = 1; w + 2 <= n_words; w++) {
            part = words[w] " " words[w + 1] " " words[w + 2]
            if (index(tests, part) > 0) return 1
        }
    }
    for (p = 1; p <= n_pieces && !is_long; p++)
        if (length(pieces[p]) >= 8 && index(tests, pieces[p]) > 0) return 1
    return 0
}

END {
    flush()
    for (i = 1; i <= n; i++) {
        folder = at[i]
        sub(/\/.*/, "", folder)
        all[folder]++
        if (is_mentioned(message[i])) continue
        missing[folder]++
        list[folder] = list[folder] "\n    " at[i] ": " message[i]
    }
    while ((getline line < ceilings) > 0)
        if (line !~ /^#/) {
            split(line, word, " ")
            ceiling[word[1]] = word[2]
        }
    for (folder in all) {
        print folder ": " missing[folder] + 0 " of " all[folder] " messages are not in any test, " \
            ceiling[folder] + 0 " may be"
        if (missing[folder] + 0 > ceiling[folder] + 0) {
            print "more than messages.txt has: these are" list[folder]
            failed = 1
        } else if (show) print substr(list[folder], 2)
    }
    exit failed
}
