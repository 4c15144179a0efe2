"""Language models of GGUF files: texts, conversations, and errors."""
import pathlib

import pytest

import tessera

TOP = pathlib.Path(__file__).resolve().parents[2]
SMALL = TOP / "tests/io/decoder_llama.gguf"  # has no tokenizer
SMOLLM2 = TOP / "build/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def test_a_file_without_a_tokenizer_takes_no_text():
    model = tessera.load(SMALL, context=100)
    with pytest.raises(tessera.Unsupported, match="the file has no tokenizer"):
        next(model.generate("a"))


def test_arguments_of_other_files_are_refused():
    with pytest.raises(tessera.InvalidArgument, match="takes only threads, limits, context and sequences"):
        tessera.load(SMALL, dtype="bf16")
    with pytest.raises(tessera.InvalidArgument, match="context and sequences apply only to .gguf files"):
        tessera.load("a.onnx", context=3)


@pytest.mark.skipif(not SMOLLM2.exists(), reason="needs tools/models")
def test_smollm2_continues_and_answers():
    model = tessera.load(SMOLLM2, context=512)
    pieces = list(model.generate("The capital of France is", tokens=8))
    assert 1 < len(pieces) <= 8
    assert "Paris" in "".join(pieces)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    assert "Paris" in "".join(model.generate(question, tokens=40))
    drawn = ["".join(model.generate("One, two,", 9, temperature=1.0, seed=seed))
             for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2]
    with pytest.raises(tessera.InvalidArgument, match="top_p is 2"):
        next(model.generate("a", top_p=2))


@pytest.mark.skipif(not SMOLLM2.exists(), reason="needs tools/models")
def test_several_prompts_run_at_once():
    prompts = ["The capital of France is", "One, two, three,", "Water is",
               [{"role": "user", "content": "What is the capital of France?"}]]
    model = tessera.load(SMOLLM2, context=256, sequences=2)
    alone = ["".join(model.generate(prompt, tokens=9)) for prompt in prompts]
    texts = ["", "", "", ""]
    for index, piece in model.generate_all(prompts, tokens=9):
        texts[index] += piece
    assert texts == alone
    one = tessera.load(SMOLLM2, context=256)
    assert "".join(piece for _, piece in one.generate_all(prompts[:1], tokens=9)) == alone[0]
    with pytest.raises(TypeError, match="unexpected keyword argument 'top'"):
        next(model.generate_all(prompts, top=1))
