#!/usr/bin/env python3
"""Prints sentences.txt: 320 short sentences on five topics, one per line after its topic number.

They are made from the templates below, without repetition, in an order that a fixed seed determines.

usage: make_sentences.py > sentences.txt
"""
import itertools
import random

EACH = 64  # sentences of a topic

TOPICS = [
    # weather
    (["{a} is expected over the {b} {c}", "the {b} will see {a} {c}", "there was {a} in the {b} {c}",
      "we stayed inside because of the {a} {c}"],
     ["heavy rain", "light snow", "thick fog", "bright sunshine", "a cold wind", "a thunderstorm"],
     ["northern hills", "coast", "valley", "whole country", "islands"],
     ["tonight", "this morning", "on Monday", "before noon"]),
    # cooking
    (["chop the {a} and {b} {c}", "add {a} to the pan and {b} {c}", "serve the {a} warm, {b} {c}",
      "this soup needs {a}, then {b} {c}"],
     ["onions", "carrots", "fresh herbs", "potatoes", "mushrooms", "garlic"],
     ["stir it slowly", "cover the pot", "season it well", "let it simmer", "turn the heat down"],
     ["for ten minutes", "until it is soft", "with a little butter", "before dinner"]),
    # travel
    (["the {a} to the {b} leaves {c}", "we took the {a} and saw the {b} {c}",
      "is there a {a} that stops at the {b} {c}", "our {a} was late, so we missed the {b} {c}"],
     ["train", "night bus", "ferry", "flight", "tram", "coach"],
     ["old town", "border", "harbour", "mountain village", "airport"],
     ["at noon", "from platform two", "without a ticket", "on our last day"]),
    # sport
    (["the {a} scored {b} {c}", "our {a} lost the match {b} {c}", "the {a} trained hard {b} {c}",
      "everyone cheered when the {a} came back {b} {c}"],
     ["goalkeeper", "home team", "youngest player", "captain", "visitors", "striker"],
     ["twice", "in the final", "after half time", "in the last minute", "on wet grass"],
     ["in front of a full stadium", "this season", "in the rain", "against the champions"]),
    # money
    (["the {a} rose by {b} {c}", "please transfer the {a} of {b} {c}",
      "the bank charged a {a} of {b} {c}", "they could not pay the {a} of {b} {c}"],
     ["rent", "interest", "fee", "loan", "salary", "tax"],
     ["five percent", "two hundred coins", "a small amount", "half the price", "one tenth"],
     ["this year", "on Monday", "at the end of the month", "without warning"]),
]


def main():
    draw = random.Random(7)
    lines = []
    for topic, (templates, a, b, c) in enumerate(TOPICS):
        parts = list(itertools.product(templates, a, b, c))
        for template, *words in draw.sample(parts, EACH):
            lines.append(f"{topic} {template.format(a=words[0], b=words[1], c=words[2])}")
    draw.shuffle(lines)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
