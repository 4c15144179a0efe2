#include "tensor/text/literal_impl.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool literal_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool literal_is_word(char c)
{
    return literal_is_letter(c) || is_digit(c) || c == '_';
}

bool literal_is_name(char c)
{
    return literal_is_word(c) || c == '.';
}

size_t literal_name_length(const char *at)
{
    size_t n = 0;
    if (!literal_is_letter(*at)) return 0;
    while (literal_is_name(at[n])) n++;
    return n;
}

bool literal_continues(char c)
{
    return literal_is_word(c) || (c != '\0' && strchr(".+-\"[", c) != NULL);
}

void literal_skip_blanks(const char **cursor)
{
    *cursor += strspn(*cursor, " \t");
}

static bool is_control(char c)
{
    return (unsigned char)c < ' ';
}

int literal_length(const char *literal, int max)
{
    int depth = 0;
    bool in_string = false;
    int i = 0;
    for (; i < max && (!is_control(literal[i]) || literal[i] == '\t'); i++) {
        char c = literal[i];
        if (in_string && c == '\\' && !is_control(literal[i + 1])) {
            i++;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string) {
            if (depth == 0 && strchr(" \t,:)}]", c) != NULL) break;
            if (c == '[') depth++;
            if (c == ']') depth--;
        }
    }
    if (i > max) i = max;
    if (i == max)
        while (i > 0 && ((unsigned char)literal[i] & 0xC0) == 0x80) i--;
    return i;
}

literal_t literal_integer(const char **cursor, int64_t *out_value)
{
    const char *p = *cursor;
    bool is_negative = *p == '-';
    if (is_negative) p++;
    if (!is_digit(*p)) return LITERAL_OTHER;
    int64_t value = 0;
    bool overflows = false;
    for (; is_digit(*p); p++) {
        int64_t digit = is_negative ? '0' - *p : *p - '0';
        overflows |= __builtin_mul_overflow(value, (int64_t)10, &value);
        overflows |= __builtin_add_overflow(value, digit, &value);
    }
    if (literal_continues(*p)) return LITERAL_OTHER;
    if (overflows) return LITERAL_RANGE;
    *cursor = p;
    *out_value = value;
    return LITERAL_OK;
}

/* Converts a number with strtod, which expects the decimal point of the locale, whereas the text
 * always has ".". */
static double convert_number(const char *number, size_t length)
{
    char buffer[2 * LITERAL_MAX];
    const char *point = memchr(number, '.', length);
    size_t whole = point == NULL ? length : (size_t)(point - number);
    snprintf(buffer, sizeof buffer, "%.*s", (int)whole, number);
    if (point != NULL)
        snprintf(buffer + whole, sizeof buffer - whole, "%s%.*s", localeconv()->decimal_point,
                 (int)(length - whole - 1), point + 1);
    return strtod(buffer, NULL);
}

/* Reads inf, -inf and nan, as text_append_float prints them. */
static bool scan_special(const char **cursor, double *out_value)
{
    static const struct {
        const char *text;
        double value;
    } specials[] = {{"inf", INFINITY}, {"-inf", -INFINITY}, {"nan", NAN}};
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        size_t length = strlen(specials[i].text);
        if (strncmp(*cursor, specials[i].text, length) != 0 || literal_continues((*cursor)[length]))
            continue;
        *cursor += length;
        *out_value = specials[i].value;
        return true;
    }
    return false;
}

literal_t literal_float(const char **cursor, double *out_value)
{
    if (scan_special(cursor, out_value)) return LITERAL_OK;
    const char *p = *cursor;
    if (*p == '-') p++;
    if (!is_digit(*p)) return LITERAL_OTHER;
    while (is_digit(*p)) p++;
    if (*p == '.') p++;
    while (is_digit(*p)) p++;
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '-' || *p == '+') p++;
        if (!is_digit(*p)) return LITERAL_OTHER;
        while (is_digit(*p)) p++;
    }
    if (literal_continues(*p)) return LITERAL_OTHER;
    size_t length = (size_t)(p - *cursor);
    if (length >= LITERAL_MAX) return LITERAL_RANGE;
    double value = convert_number(*cursor, length);
    if (!isfinite(value)) return LITERAL_RANGE;
    *cursor = p;
    *out_value = value;
    return LITERAL_OK;
}

bool literal_word(const char **cursor, char *out_word, size_t capacity)
{
    size_t length = 0;
    while (literal_is_word((*cursor)[length])) length++;
    if (length == 0 || length >= capacity || literal_continues((*cursor)[length])) return false;
    memcpy(out_word, *cursor, length);
    out_word[length] = '\0';
    *cursor += length;
    return true;
}

/* Reads four hexadecimal digits. */
static bool scan_code_unit(const char **cursor, uint32_t *out_unit)
{
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        char c = (*cursor)[i];
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return false;
        unit = unit << 4 | (uint32_t)digit;
    }
    *cursor += 4;
    *out_unit = unit;
    return true;
}

/* Decodes the code point after \u to UTF-8. Returns the number of bytes; 0 if the code point is
 * invalid, or is zero, which would end the string. */
static int scan_unicode(const char **cursor, char *out)
{
    uint32_t code, low;
    if (!scan_code_unit(cursor, &code) || code == 0) return 0;
    if (code >= 0xD800 && code < 0xE000) {
        if (code >= 0xDC00 || (*cursor)[0] != '\\' || (*cursor)[1] != 'u') return 0;
        *cursor += 2;
        if (!scan_code_unit(cursor, &low) || low < 0xDC00 || low >= 0xE000) return 0;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int i = n - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(lead[n] | code);
    return n;
}

int literal_escape(const char **cursor, char *out)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    char c = **cursor;
    if (c == '\0') return 0;
    (*cursor)++;
    if (c == 'u') return scan_unicode(cursor, out);
    const char *letter = strchr(letters, c);
    if (letter == NULL) return 0;
    *out = meanings[letter - letters];
    return 1;
}

bool literal_string(const char **cursor, char *out_string)
{
    const char *p = *cursor;
    if (*p++ != '"') return false;
    int length = 0;
    while (*p != '"') {
        if (is_control(*p) || length + 4 >= LITERAL_MAX) return false;
        if (*p != '\\') {
            out_string[length++] = *p++;
            continue;
        }
        p++;
        int n = literal_escape(&p, out_string + length);
        if (n == 0) return false;
        length += n;
    }
    if (literal_continues(p[1])) return false;
    out_string[length] = '\0';
    *cursor = p + 1;
    return true;
}
