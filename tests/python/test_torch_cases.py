"""torch.compile with the backend "tessera" against eager PyTorch, for the cases of torch_cases.py."""

import warnings

import pytest

from tessera.backend import Fallback
from torch_cases import CASES, is_equal


@pytest.mark.parametrize("key", CASES)
def test_a_case_equals_eager(key):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Fallback)
        difference = is_equal("tessera", key)
    # PyTorch itself traces some strides that differ from eager's.
    assert not difference or is_equal("aot_eager", key)


def test_a_warning_names_what_pytorch_runs():
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", Fallback)
        for key in ("function/sort", "function/cdist", "recurrent/LSTM_all", "attention/encoder_both"):
            assert not is_equal("tessera", key)
    assert [str(w.message) for w in warned] == ["operators run in PyTorch: aten._cdist_forward.default"]
