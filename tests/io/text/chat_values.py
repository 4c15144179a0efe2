#!/usr/bin/env python3
"""Writes chat_values.txt: what Jinja (3.1) makes of conversations with chat templates.

FOLDER has the templates, "Qwen 3.jinja" for example: tokenizer.chat_template of GGUF files, or
chat_template of tokenizer_config.json. The script prints hashes for the table in io/text/chat.c.

In the file, "@ NAME" begins a template. A conversation is "- ROLE CONTENT" for each message, then
"= TEXT", or "refused". Line ends and backslashes are written as \\xNN.

usage: tests/io/text/chat_values.py FOLDER    (jinja2, xxhash)"""

import json
import os
import sys

import jinja2
import xxhash

HERE = os.path.dirname(os.path.abspath(__file__))
CONVERSATIONS = [
    "u:Hi", "u: Hi there \n", "s:Be nice.|u:Hi", "s: Sys \n|u: x |a:  yes \n|u:more?", "u:a|a:b|u:c",
    "s:s|u:a|a:b|u:c|a:d|u:e", "u:\u00dcn\u00ef <b>&amp;</b> \"q\" 'x' \\n", "u:", "s:|u:a", "u:a|a:|u:b",
    "u:a|a:<think>\nhm\n</think>\n\nb|u:c", "u:\u00a0\u3000 x \u2003\u2028|a:\u200b y \u0085|u:z"]
ROLES = {"s": "system", "u": "user", "a": "assistant"}


def refuse(message):
    raise jinja2.TemplateError(message)


def escape(text):
    return text.replace("\\", "\\x5c").replace("\n", "\\x0a")


def main():
    folder = sys.argv[1]
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = json.dumps
    environment.globals["raise_exception"] = refuse
    with open(os.path.join(HERE, "chat_values.txt"), "w") as out:
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name)) as file:
                text = file.read()
            name = name.removesuffix(".jinja")
            print("%016x %s" % (xxhash.xxh64(text.replace("\\n", "\n").rstrip().encode()).intdigest(), name))
            out.write("@ %s\n" % name)
            for conversation in CONVERSATIONS:
                messages = [{"role": ROLES[part[0]], "content": part[2:]}
                            for part in conversation.split("|")]
                for message in messages:
                    out.write("- %s %s\n" % (message["role"], escape(message["content"])))
                try:
                    written = environment.from_string(text).render(
                        messages=messages, add_generation_prompt=True, bos_token="<BOS>",
                        eos_token="<EOS>")
                    out.write("= %s\n" % escape(written))
                except jinja2.TemplateError:
                    out.write("refused\n")


if __name__ == "__main__":
    main()
