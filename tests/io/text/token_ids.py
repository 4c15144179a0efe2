#!/usr/bin/env python3
"""Writes token_ids.txt: strings, and the tokens that other tokenizers make of them.

words.gguf      a byte-level vocabulary: the special tokens, bytes and first 4000 merges of SmolLM2
sentences.gguf  a SentencePiece vocabulary, trained on the guide in docs; byte fallback
token_ids.txt   "@ FILE WAY": the following strings are those of FILE, split by WAY. A string is "= TEXT",
                then the tokens if special tokens are text, and if they are parsed, with the tokens
                that begin and end a text. Bytes below 32, 127 and backslashes are written as \\xNN

usage: tests/io/text/token_ids.py SMOLLM2.gguf    (llama-cpp-python 0.3.36, gguf, sentencepiece 0.2)"""

import os
import random
import sys
import tempfile

import gguf
import llama_cpp
import sentencepiece

HERE = os.path.dirname(os.path.abspath(__file__))
KEY = "tokenizer.ggml."
SENTENCES = r"""Hello, world!
The quick brown fox jumps over the lazy dog.
It's 9 o'clock; we've got 3,141.59 reasons, they'll say I'm late and he'd agree.
IT'S DON'T WE'VE I'LL THEY'RE I'M HE'D
Der Fluß fließt über die Brücke, größer als Österreichs Straßen.
L'été dernier, j'ai mangé une crème brûlée à Besançon.
¿Dónde está el niño? ¡Allí, en la montaña!
Všichni lidé rodí se svobodní a sobě rovní.
Zażółć gęślą jaźń
Þingvellir, Ísafjörður, Æðey
İstanbul'da ılık bir gün, ağaç gölgesi
Γειά σου Κόσμε, τι κάνεις;
Съешь же ещё этих мягких французских булок, да выпей чаю
Я ўмею гаварыць па-беларуску
שלום עולם, מה שלומך?
مرحبا بالعالم، كيف حالك؟ ١٢٣
سلام دنیا ۱۲۳
नमस्ते दुनिया, आप कैसे हैं? १२३
ওহে বিশ্ব, কেমন আছো?
வணக்கம் உலகம்
హలో వరల్డ్
ನಮಸ್ಕಾರ ಜಗತ್ತು
ഹലോ വേൾഡ്
ආයුබෝවන් ලෝකය
สวัสดีชาวโลก ๑๒๓
ສະບາຍດີ
မင်္ဂလာပါကမ္ဘာလောက
សួស្តី​ពិភពលោក
བཀྲ་ཤིས་བདེ་ལེགས།
გამარჯობა მსოფლიო
Բարեւ աշխարհ
ሰላም ልዑል
你好，世界！今天天气怎么样？
這是一個測試。
こんにちは世界、カタカナとひらがな。
ﾊﾝｶｸｶﾀｶﾅ
안녕하세요 세계, 오늘은 좋은 날씨입니다
한글 자모
ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ
ᐃᓄᒃᑎᑐᑦ
𐌰𐌱𐌲 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 𠀋
Tiếng Việt có nhiều dấu: ẵ ậ ỡ ự
Ǆ ǅ ǆ ﬁ ﬂ ß ẞ ſ 'ſ
① ② ½ ¾ Ⅷ ⅷ ² ³ x² ٣ ५
😀😃😄 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ❤️ ☕
I ❤ NY 🎉!!! ok…
→ ← ↑ ⇒ ∀x∈ℝ: ∑ᵢ xᵢ² ≥ 0 ≠ ∞ ± × ÷
€100 £5 ¥300 ₹42 $9.99 50% 3°C §4 ©®™
“quotes” ‘single’ „low“ «guillemets» 'straight' "double" `code`
a–b—c-d_e ... … ‥ ·•‣
e\u0301 n\u0303 a\u0308\u0323 \u0301alone
def f(x):\n    return x**2 + 1\n
for (int i = 0; i < n; i++) { sum += a[i] * b[i]; }\n\treturn sum;
#include <stdio.h>\nint main(void)\n{\n\tprintf("%d\\n", 42);\n}\n
SELECT * FROM t WHERE a='b' AND c >= 10 -- comment
<html>\n  <body class="x">&amp;&nbsp;</body>\n</html>\r\n
{"key": [1, 2.5e-10, null, true], "nested": {"a": "b\\u00e9"}}
x=1;y=2;z=x+y==3?"yes":"no"
https://example.com/path?query=1&b=%20#frag user@example.org
C:\\Users\\me\\file.txt ~/.config/a-b_c
git commit -m "fix: don't crash" && git push
\\x00 \\n \\t backslash
1234567890 12 123 1234 12345 1,000,000 0xDEADBEEF 1e10 v1.2.3
2026-11-27T23:53:01Z
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
Donaudampfschifffahrtsgesellschaftskapitän
supercalifragilisticexpialidocious antidisestablishmentarianism
CamelCaseIdentifierWithNumbers123AndMore snake_case_name kebab-case-name
ALL CAPS AND lower And Title
 leading space
  two leading
trailing space 
trailing two  
a  b   c    d     e
\t\ttabs\tbetween\t
\n
\n\n\n
a\nb\n\nc\n\n\nd
a \n b \n \n c
 \n
\r\n\r\n
\r a \r
  \n  x
line\n   indented\n\t\ttabbed\n
\x0b\x0c\x1b[31mred\x1b[0m
\x01\x02\x7f
\u00a0nbsp\u00a0\u00a0two
\u2003em\u2009thin\u200bzero\u3000wide
\u0085next\u2028line\u2029par
\u180emongolian\u180e \u200e\u200f
\ufeffbom
\ufffd \ue000 \U000f0000 \u0378 \U0010ffff
<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n
<|endoftext|>
a<|im_end|>b <|im_end|> c
<|im_start|><|im_start|><|im_end
<|im_<|im_end|>end|>
<repo_name>x<file_sep>y<reponame>
<s>text</s> <unk> <0x41> <0x0A>
▁literal▁mark ▁▁ x
'
''
'' 's 't 'S
's't're've'm'll'd
don''t 's'
 's
! !! !!! ?! .,;: ()[]{}
!\n ?\n\n .\r\n
, \n; 
a.b.c.d e,f,g
***bold*** __init__ ~~strike~~ ### Title
- item 1\n- item 2\n  - nested\n
| a | b |\n|---|---|\n
$\\frac{a}{b}$ \\(x_1\\)
٠١٢٣٤٥٦٧٨٩ ०१२३
x٣y 3٣3
日本語123テスト456
中文English混合Текст
a😀b😀c
😀 😀  😀
🤦🏼‍♂️🤷
ﷺ ﷽
Z̸̢̛a̷͝l̶g̵o̴
ก็ ที่ น้ำ
क्षत्रिय ज्ञान
ﬀﬃ Ⅳ ㎏ ㋿ ℃
ʻOkina Hawaiʻi
naïve façade coöperate rôle
ÀÉÎÕÜ àéîõü ÿ Ÿ
İi Iı
Straße STRASSE ẞ
ĳ Ĳ ŉ
ªº µ Å Ω K
‰ ‱ ′ ″ ‽ ⁂
⠓⠑⠇⠇⠕ ♔♕♖ ♠♥ ☀☁ ✓✗
│┌┐└┘ ░▒▓█ ◆◇○●
𓀀𓁐 𒀀𒁀 𐎀
\U0001f1e9 \U0001f3fb \u20e3 1\ufe0f\u20e3
"""


def strings():
    lines = [unescape(line) for line in SENTENCES.split("\n")[:-1]]
    pick = random.Random(1)
    pieces = [piece for line in lines for piece in (line, line[:7], line[-5:], " ", "\n", "7")]
    while len(lines) < 230:
        lines.append("".join(pick.choice(pieces) for _ in range(pick.randrange(2, 6))))
    return lines


def unescape(line):
    """Reads \\n, \\t, \\r, \\xNN, \\uNNNN, \\UNNNNNNNN; two backslashes are one."""
    out, i = "", 0
    widths = {"x": 2, "u": 4, "U": 8}
    while i < len(line):
        c = line[i + 1:i + 2]
        if line[i] != "\\" or c not in {"n", "t", "r", "\\", *widths}:
            out += line[i]
            i += 1
        elif c in widths:
            digits = line[i + 2:i + 2 + widths[c]]
            out += chr(int(digits, 16))
            i += 2 + widths[c]
        else:
            out += {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}[c]
            i += 2
    return out


def written(text):
    return b"".join(b"\\x%02x" % b if b < 32 or b in (127, 92) else bytes([b])
                    for b in text.encode())


def write_vocabulary(path, kind, way, tokens, types, scores=None, merges=None, ends=(1, 2)):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(kind)
    writer.add_tokenizer_pre(way)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if scores:
        writer.add_token_scores(scores)
    if merges:
        writer.add_token_merges(merges)
    writer.add_bos_token_id(ends[0])
    writer.add_eos_token_id(ends[1])
    # llama.cpp needs sizes of a model.
    writer.add_context_length(8)
    writer.add_embedding_length(8)
    writer.add_block_count(1)
    writer.add_feed_forward_length(8)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_words(smollm, path, way):
    fields = gguf.GGUFReader(smollm).fields
    tokens = fields[KEY + "tokens"].contents()
    types = fields[KEY + "token_type"].contents()
    merges = fields[KEY + "merges"].contents()[:4000]
    made = {"".join(merge.split(" ")) for merge in merges}
    kept = [i for i, token in enumerate(tokens) if types[i] == 3 or len(token) == 1 or token in made]
    write_vocabulary(path, "gpt2", way, [tokens[i] for i in kept] + ["<user>"],
                     [types[i] for i in kept] + [4], merges=merges)


def make_sentences(path):
    folder = os.path.join(HERE, "..", "..", "..", "docs")
    pages = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".md"))
    with tempfile.TemporaryDirectory() as work:
        text = os.path.join(work, "text")
        with open(text, "w") as out:
            for page in pages:
                out.write(open(page).read())
            out.write("\n".join(strings()))
        model = os.path.join(work, "m")
        sentencepiece.SentencePieceTrainer.train(
            input=text, model_prefix=model, model_type="bpe", vocab_size=1500, byte_fallback=True,
            normalization_rule_name="identity", remove_extra_whitespaces=False,
            split_digits=True, allow_whitespace_only_pieces=True, max_sentence_length=100000,
            num_threads=1, minloglevel=2)
        vocabulary = sentencepiece.SentencePieceProcessor(model_file=model + ".model")
    n = vocabulary.get_piece_size()
    types = [2 if vocabulary.is_unknown(i) else 3 if vocabulary.is_control(i) else
             6 if vocabulary.is_byte(i) else 1 for i in range(n)]
    write_vocabulary(path, "llama", "default", [vocabulary.id_to_piece(i) for i in range(n)], types,
                     scores=[vocabulary.get_score(i) for i in range(n)])
    return vocabulary


def write_ids(out, path, way, name, check=None):
    model = llama_cpp.Llama(path, vocab_only=True, verbose=False)
    out.write(b"@ %s %s\n" % (name.encode(), way.encode()))
    for text in strings():
        plain = model.tokenize(text.encode(), add_bos=False, special=False)
        special = model.tokenize(text.encode(), add_bos=True, special=True)
        if check is not None and not check(text, plain):
            print("differs from the second oracle:", repr(text))
        out.write(b"= " + written(text) + b"\n")
        for ids in (plain, special):
            out.write(" ".join(map(str, ids)).encode() + b"\n")


def main():
    smollm = sys.argv[1]
    words, sentences = (os.path.join(HERE, name) for name in ("words.gguf", "sentences.gguf"))
    make_words(smollm, words, "smollm")
    vocabulary = make_sentences(sentences)
    with open(os.path.join(HERE, "token_ids.txt"), "wb") as out:
        write_ids(out, smollm, "smollm", "smollm2.gguf")
        write_ids(out, words, "smollm", "words.gguf")
        with tempfile.TemporaryDirectory() as work:
            for way in ("gpt-2", "llama-bpe", "qwen2", "chatglm-bpe"):
                other = os.path.join(work, "words.gguf")
                make_words(smollm, other, way)
                write_ids(out, other, way, "words.gguf")
        write_ids(out, sentences, "default", "sentences.gguf",
                  lambda text, ids: vocabulary.encode(text) == ids)


if __name__ == "__main__":
    main()
