"""Random models that compute with sizes match ONNX's reference at every size."""

import numpy as np
import shape_programs
from onnx.reference import ReferenceEvaluator

import tessera

N_MODELS, N_SIZES = 60, 4


def reference_of(evaluator, x):
    """Returns the outputs, or None if the model rejects the sizes or has an empty result."""
    try:
        outputs = evaluator.run(None, {"x": x})
    except Exception:
        return None
    return outputs if all(np.asarray(out).size > 0 for out in outputs) else None


def test_models_that_calculate_with_sizes_are_right_at_all_of_them():
    n_right = 0
    for seed in range(N_MODELS):
        made, dims = shape_programs.make(seed)
        evaluator, model = ReferenceEvaluator(made), tessera.load_bytes(made.SerializeToString())
        for number in range(N_SIZES):
            shape = shape_programs.sizes(seed, dims, number)
            x = np.random.default_rng(seed + number).standard_normal(shape, dtype=np.float32)
            wanted = reference_of(evaluator, x)
            if wanted is None:
                continue
            for got, want in zip(model(x), wanted):
                assert got.shape == np.shape(want), (seed, shape)
                np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4, err_msg=f"{seed} {shape}")
            n_right += 1
    assert n_right > N_MODELS * N_SIZES // 2
