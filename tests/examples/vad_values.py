#!/usr/bin/env python3
"""Writes vad_8000.wav and vad_16000.wav, two runs of vowels separated by silence, and vad_values.txt,
ONNX Runtime's results for them, chunk by chunk, with silero-vad.

Run by hand with numpy 2.4.6 and ONNX Runtime 1.31.1, after tools/models:
    python3 tests/examples/vad_values.py

    rate SAMPLES_A_SECOND
    probabilities NUMBERS    (one per chunk)
"""
import os
import wave

import numpy
import onnxruntime

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "..", "..", "build", "models", "silero_vad", "silero_vad.onnx")

# Formants of a, i, u, e, o in Hz, their strengths and widths.
VOWELS = [(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410)]
STRENGTHS = (1.0, 0.6, 0.25)
WIDTHS = (60, 90, 120)
SYLLABLES = 4  # per second


def voice(rate, seconds, pitch, vowels):
    """Returns harmonics of a moving pitch, strong at the formants of the syllable."""
    t = numpy.arange(int(rate * seconds)) / rate
    hertz = pitch * (1 + 0.08 * numpy.sin(2 * numpy.pi * 2.3 * t))
    phase = 2 * numpy.pi * numpy.cumsum(hertz) / rate
    formants = numpy.array(vowels)[(t * SYLLABLES).astype(int) % len(vowels)]
    sound = numpy.zeros_like(t)
    for harmonic in range(1, int(rate / 2 / (1.1 * pitch))):
        strength = sum(s / (1 + ((harmonic * hertz - formants[:, i]) / w) ** 2)
                       for i, (s, w) in enumerate(zip(STRENGTHS, WIDTHS)))
        sound += strength * numpy.sin(harmonic * phase)
    return sound * numpy.sqrt(numpy.clip(numpy.sin(numpy.pi * ((t * SYLLABLES) % 1)), 0, 1))


def sound(rate):
    """Returns 16-bit samples; the last chunk is not full."""
    def silence(seconds):
        return numpy.zeros(int(rate * seconds))

    parts = [silence(0.4), voice(rate, 0.75, 120, VOWELS), silence(0.4), voice(rate, 0.75, 120, VOWELS[::-1]),
             silence(0.3), numpy.zeros(77)]
    samples = numpy.concatenate(parts)
    noise = numpy.random.default_rng(0).standard_normal(len(samples))
    return numpy.round((0.5 * samples / numpy.abs(samples).max() + 0.001 * noise) * 32767).astype("<i2")


def probabilities(session, rate, samples):
    chunk = 512 if rate == 16000 else 256
    samples = numpy.concatenate([samples, numpy.zeros(-len(samples) % chunk, "<i2")])
    samples = samples.astype(numpy.float32) / 32768
    state, before = numpy.zeros((2, 1, 128), numpy.float32), numpy.zeros(chunk // 8, numpy.float32)
    for first in range(0, len(samples), chunk):
        now = samples[first:first + chunk]
        feeds = {"input": numpy.concatenate([before, now])[None], "state": state, "sr": numpy.array(rate)}
        probability, state = session.run(None, feeds)
        before = now[-(chunk // 8):]
        yield float(probability[0, 0])


session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
with open(os.path.join(HERE, "vad_values.txt"), "w") as values:
    values.write("# By tests/examples/vad_values.py with ONNX Runtime %s.\n" % onnxruntime.__version__)
    for rate in (8000, 16000):
        samples = sound(rate)
        with wave.open(os.path.join(HERE, "vad_%d.wav" % rate), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes(samples.tobytes())
        print("rate", rate, file=values)
        print("probabilities", *("%.7g" % number for number in probabilities(session, rate, samples)), file=values)
